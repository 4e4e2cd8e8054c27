"""Why is this event not in that table? One verdict, without Spark and without running any pipeline.

The ledger says which commit of bronze took an offset in and which batch read that commit; statistics say which files
can hold a row. So the answer costs a few files, however large the lake is. Kafka is asked only of what bronze has not,
and a broker that does not answer is evidence, not an error. A key that is in no table is searched for in the records of
bronze (jobs/run/sought.py), which costs as much as they are.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise

from jobs import catalog
from jobs.core.errors import DefinitionError
from jobs.core.table import Layer, Table
from jobs.run.carried import by_key, carried, key_of, resting
from jobs.run.contributed import Rest, way
from jobs.run.finding import Finding, Verdict, World
from jobs.run.judged import Told, of_key, of_spot
from jobs.run.needle import Found
from jobs.run.sought import held_up, outside_the_lake, sought
from jobs.run.trace import Spot, came_in


def why(what: str, table: Table | None, world: World) -> Finding:
    """Say where an event is, or what has become of it.

    Args:
        what: topic/partition/offset, or the values of a key with commas between them.
        table: The table of which is asked; when None, those that judge the event.
        world: Where.

    Raises:
        DefinitionError: The question names no event, or the table cannot know of it.
    """
    spot = _spot(what, table)
    if spot is None:
        parts = tuple(what.split(","))
        if table and not table.judges and len(parts) == len(table.key):
            world.lake.refuse_missing(table)
            return _doubted(by_key(table, parts, world), table, world)
        judges = [each for each in _judges(table) if len(each.key) == len(parts)]
        return _first(judges, table, lambda silver: of_key(silver, parts, world), world)
    judges = [each for each in _judges(table) if _reads(each, spot)]
    return _first(judges, table, lambda silver: of_spot(silver, spot, world), world)


def _spot(what: str, table: Table | None) -> Spot | None:
    """Return the place that was typed; None when it is a key."""
    topic, _, rest = what.partition("/")
    partition, _, offset = rest.partition("/")
    if not (topic and partition.isdigit() and offset.isdigit()):
        return None
    known = [each.name for every in catalog.tables() for each in every.topics]
    if topic in known:
        return Spot(topic, int(partition), int(offset))
    if table is not None:
        return None
    raise DefinitionError(
        f"no table reads a topic {topic}",
        hint=f"the topics are {', '.join(known)}; if {what} is a key, name its table with --in.",
        topic=topic,
    )


def _judges(table: Table | None) -> list[Table]:
    """Return the judging tables that can know of an event, those on which a table rests if one is named."""
    judges = [each for each in catalog.tables() if each.judges]
    if table is None:
        return judges
    if table.layer is Layer.BRONZE:
        raise DefinitionError(
            f"{table.id} is as received and holds whatever was read",
            hint="name the silver or gold table in which you miss the event.",
            table=table.id,
        )
    return [each for each in judges if way(each, table)]


def _reads(silver: Table, spot: Spot) -> bool:
    return any(topic.name == spot.topic for source in silver.upstream for topic in source.topics)


def _first(
    judges: Sequence[Table], table: Table | None, ask: Callable[[Table], Told], world: World
) -> Finding:
    """Return the finding of the first judging table that knows of the event, followed up to the one asked for."""
    if not judges:
        name = table.id if table else "any table"
        raise DefinitionError(
            f"that is no event of {name}: neither a place in a topic that it rests on nor a key of it",
            hint=f"type topic/partition/offset, or {_key_hint(table)}.",
        )
    told: list[tuple[Table, Finding, Found | None]] = []
    for each in judges:
        told.append((each, *ask(each)))
        if told[-1][2] is not None:
            break
    known = [one for one in told if one[1].verdict is not Verdict.NEVER_PRODUCED]
    silver, finding, row = min(known or told, key=lambda one: one[2] is None)
    if not known and "key" in finding.evidence:
        return _searched(judges, finding, world)
    if row is None:
        return finding
    if table is None or table.judges:
        return finding.also(rests_on_it=resting(silver, row, world))
    return _followed(silver, row, table, world)


def _key_hint(table: Table | None) -> str:
    if table is None:
        return "the values of a key with commas between them"
    return f"{','.join(table.key)} of {table.id}"


def _followed(silver: Table, row: Found, table: Table, world: World) -> Finding:
    """Follow a row of silver up to the table that was asked for; what stops it on the way is the answer."""
    path = way(silver, table) or []
    finding, rows = None, [row]
    for source, other in pairwise(path):
        version = came_in(source, world.lake.table(source), rows[0])
        rest = Rest(source=source, row=rows[0].row, table=other, lake=world.lake)
        one = carried(rest, version, world)
        if one is None:
            raise DefinitionError(
                f"which rows of {other.id} rest on a row of {source.id} cannot be told: they share no key",
                hint=f"ask for a row of it: {_key_hint(other)}.",
                table=other.id,
            )
        finding, rows = one
        if not rows:
            break
    if finding is None:
        message = f"{table.id} does not rest on {silver.id}"
        raise TypeError(message)
    return finding.also(
        event=Spot.of(row.row),
        rows=[key_of(table, each.row) for each in rows] if finding.table == table.id else [],
    )


def _searched(judges: Sequence[Table], finding: Finding, world: World) -> Finding:
    """Search bronze for a key that is in no table, and say whether that, and Kafka, leave anything to be known."""
    names = [silver.id for silver in judges]
    gaps: list[str] = []
    records = gone = 0
    for silver in judges:
        result = sought(silver, str(finding.evidence["key"]).split(","), world)
        if result.finding is not None:
            return result.finding.also(key=finding.evidence["key"])
        gaps += result.gaps
        records, gone = records + result.records, gone + result.gone
    more, left = outside_the_lake(judges, world)
    told = _concluded(
        replace(finding, table=", ".join(names)),
        "no row, no record that is held and none that has still to be read has this key"
        + (f", nor has any other of the {records:,} records of bronze" if records else ""),
        [*gaps, *more],
    )
    return told.also(
        searched=names,
        searched_in_bronze=records,
        records_gone=gone or None,
        unread_in_kafka=left,
    )


def _doubted(finding: Finding, table: Table, world: World) -> Finding:
    """Doubt that nothing ever made a row of a table, where something below it is held up or was lost."""
    if finding.verdict is not Verdict.NEVER_PRODUCED:
        return finding
    judges = _judges(table)
    more, left = outside_the_lake(judges, world)
    gaps = [*held_up(table, judges, world), *more]
    return _concluded(finding, finding.sentence, gaps).also(unread_in_kafka=left)


def _concluded(finding: Finding, sentence: str, gaps: Sequence[str]) -> Finding:
    """Say that an event was never produced if nothing speaks against it, and that it is not known otherwise."""
    if not gaps:
        return replace(finding, verdict=Verdict.NEVER_PRODUCED, sentence=sentence)
    doubt = f"{sentence}; whether it was ever produced is not known: {'; '.join(gaps)}"
    return replace(finding, verdict=Verdict.UNKNOWN, sentence=doubt)
