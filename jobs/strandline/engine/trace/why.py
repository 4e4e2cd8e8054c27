"""Why is this event not in that table? One verdict, without Spark and without running any pipeline.

The ledger records which commit of bronze took in an offset and which batch read that commit; statistics narrow
down the files that can hold a row. So an answer reads a few files, however large the lake is. Kafka is asked only about offsets
that bronze has not read, and a broker that does not answer is evidence, not an error. A key that is in no table is
searched in the records of bronze (jobs/strandline/engine/trace/search_bronze.py); the cost grows with their number.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise

from strandline import catalog

from strandline.core.errors import DefinitionError
from strandline.core.table import Ingested, Judged, Table
from strandline.engine.storage.find_rows import Found
from strandline.engine.trace.explain_gold import explain_gold_key, follow_row, rows_above, shown_key
from strandline.engine.trace.explain_silver import Explained, explain_key, explain_spot
from strandline.engine.trace.locate import Spot, first_version
from strandline.engine.trace.row_lineage import Step, path_between
from strandline.engine.trace.search_bronze import pending_below, records_not_in_bronze, search_key
from strandline.engine.trace.verdict import Finding, Verdict, World


def why(what: str, table: Table | None, world: World) -> Finding:
    """Return where an event is, or what became of it.

    Args:
        what: topic/partition/offset, or the values of a key with commas between them.
        table: The table in question; when None, the tables that judge the event.
        world: The lake, the time and Kafka.

    Raises:
        DefinitionError: ``what`` names no event, or the table cannot contain it.
    """
    spot = spot_of(what, table)
    if spot is None:
        parts = tuple(what.split(","))
        if table and not isinstance(table, Judged) and len(parts) == len(table.key):
            world.lake.refuse_missing(table)
            return _with_doubts(explain_gold_key(table, parts, world), table, world)
        judges = [each for each in _judges(table) if len(each.key) == len(parts)]
        return _explain_first(
            judges, table, lambda silver: explain_key(silver, parts, world), world
        )
    judges = judges_of_spot(spot, table)
    return _explain_first(judges, table, lambda silver: explain_spot(silver, spot, world), world)


def judges_of_spot(spot: Spot, table: Table | None) -> list[Judged]:
    """Return the judging tables that read a record, of those that a table depends on."""
    return [each for each in _judges(table) if _reads_topic(each, spot)]


def spot_of(what: str, table: Table | None) -> Spot | None:
    """Return the offset that was typed; None if a key was typed."""
    topic, _, rest = what.partition("/")
    partition, _, offset = rest.partition("/")
    if not (topic and partition.removeprefix("-").isdigit() and offset.isdigit()):
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


def _judges(table: Table | None) -> list[Judged]:
    """Return the judging tables that a table depends on; all judging tables if none is named."""
    judges = [each for each in catalog.tables() if isinstance(each, Judged)]
    if table is None:
        return judges
    if isinstance(table, Ingested):
        raise DefinitionError(
            f"{table.id} is as received and holds every record that was read",
            hint="name the silver or gold table that lacks the event.",
            table=table.id,
        )
    return [each for each in judges if path_between(each, table)]


def _reads_topic(silver: Judged, spot: Spot) -> bool:
    return any(topic.name == spot.topic for source in silver.upstream for topic in source.topics)


def _explain_first(
    judges: Sequence[Judged], table: Table | None, ask: Callable[[Judged], Explained], world: World
) -> Finding:
    """Return the finding of the first judging table that has the event, followed up to the table in question."""
    if not judges:
        name = table.id if table else "any table"
        raise DefinitionError(
            f"that is no event of {name}: neither an offset of a topic that it depends on nor a key of it",
            hint=f"type topic/partition/offset, or {_key_hint(table)}.",
        )
    answers: list[tuple[Judged, Finding, Found | None]] = []
    for each in judges:
        answers.append((each, *ask(each)))
        if answers[-1][2] is not None:
            break
    known = [one for one in answers if one[1].verdict is not Verdict.NEVER_PRODUCED]
    silver, finding, row = min(known or answers, key=lambda one: one[2] is None)
    if not known and "key" in finding.evidence:
        return _search_bronze(judges, finding, world)
    if row is None:
        return finding
    if table is None or isinstance(table, Judged):
        return finding.also(rests_on_it=rows_above(silver, row, world))
    return _follow(silver, row, table, world)


def _key_hint(table: Table | None) -> str:
    if table is None:
        return "the values of a key with commas between them"
    return f"{','.join(table.key)} of {table.id}"


def _follow(silver: Judged, row: Found, table: Table, world: World) -> Finding:
    """Follow a row of silver up to the table in question; return why it stops, or that it is there."""
    path = path_between(silver, table) or []
    finding, rows = None, [row]
    for source, other in pairwise(path):
        version = first_version(source, world.lake, rows[0])
        step = Step(source=source, row=rows[0].row, table=other, lake=world.lake)
        result = follow_row(step, version, world)
        if result is None:
            raise DefinitionError(
                f"the rows of {other.id} that depend on a row of {source.id} are unknown: the tables share no key",
                hint=f"ask for a row of it: {_key_hint(other)}.",
                table=other.id,
            )
        finding, rows = result
        if not rows:
            break
    if finding is None:
        message = f"{table.id} does not depend on {silver.id}"
        raise TypeError(message)
    return finding.also(
        event=Spot.of(row.row),
        rows=[shown_key(table, each.row) for each in rows] if finding.table == table.id else [],
    )


def _search_bronze(judges: Sequence[Judged], finding: Finding, world: World) -> Finding:
    """Search bronze for a key that is in no table; the verdict is ``unknown`` if something could not be searched."""
    names = [silver.id for silver in judges]
    gaps: list[str] = []
    records = gone = 0
    for silver in judges:
        result = search_key(silver, str(finding.evidence["key"]).split(","), world)
        if result.finding is not None:
            return result.finding.also(key=finding.evidence["key"])
        gaps += result.gaps
        records, gone = records + result.records, gone + result.gone
    more, left = records_not_in_bronze(judges, world)
    concluded = _conclude(
        replace(finding, table=", ".join(names)),
        "no row, no record in quarantine and no unread record has this key"
        + (f", nor has any other of the {records:,} records of bronze" if records else ""),
        [*gaps, *more],
    )
    return concluded.also(
        searched=names,
        searched_in_bronze=records,
        records_gone=gone or None,
        unread_in_kafka=left,
    )


def _with_doubts(finding: Finding, table: Table, world: World) -> Finding:
    """Weaken ``never produced`` to ``unknown`` if rows below the table are waiting, held or lost."""
    if finding.verdict is not Verdict.NEVER_PRODUCED:
        return finding
    judges = _judges(table)
    more, left = records_not_in_bronze(judges, world)
    gaps = [*pending_below(table, judges, world), *more]
    return _conclude(finding, finding.sentence, gaps).also(unread_in_kafka=left)


def _conclude(finding: Finding, sentence: str, gaps: Sequence[str]) -> Finding:
    """Return ``never produced`` if everything was searched, ``unknown`` with the gaps otherwise."""
    if not gaps:
        return replace(finding, verdict=Verdict.NEVER_PRODUCED, sentence=sentence)
    doubt = f"{sentence}; whether it was ever produced is not known: {'; '.join(gaps)}"
    return replace(finding, verdict=Verdict.UNKNOWN, sentence=doubt)
