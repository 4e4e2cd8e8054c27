"""Why is this event not in that table? One verdict, without Spark and without running any pipeline.

The ledger records which commit of bronze took in an offset and which batch read that commit; statistics narrow
down the files that can hold a row. So an answer reads a few files, however large the lake is. Kafka is asked only about offsets
that bronze has not read, and a broker that does not answer is evidence, not an error. A key that is in no table is
searched in the records of bronze; the cost grows with their number.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import islice, pairwise

from strandline import catalog

from strandline.core.errors import DefinitionError
from strandline.core.kind import shifted
from strandline.core.table import Ingested, Judged, Table
from strandline.core.topic import IDENTITY, PLACE
from strandline.engine.accounting.balance_sheet import held_rows, waiting
from strandline.engine.accounting.held_records import record_of, still_held
from strandline.engine.accounting.table_books import Books
from strandline.engine.ask.explain_gold import (
    Step,
    explain_gold_key,
    follow_row,
    path_between,
    rows_above,
    shown_key,
)
from strandline.engine.ask.explain_silver import (
    Explained,
    explain_key,
    explain_spot,
    verdict_of_held,
)
from strandline.engine.ask.explain_unread import deletions, unread_in_kafka
from strandline.engine.ask.lake_views import is_secret
from strandline.engine.ask.locate import (
    Finding,
    Spot,
    Verdict,
    World,
    contains_key,
    first_version,
    has_another,
    make_finding,
    records_with_key,
)
from strandline.engine.flow.function_plan import hidden
from strandline.engine.lake.completeness import with_below
from strandline.engine.lake.find_rows import Found, Range, Where, heap, look, typed
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger import is_table
from strandline.engine.lake.log.ledger_sums import sums_of
from strandline.engine.lake.log.log_actions import existing
from strandline.engine.lake.open_table import kinds
from strandline.engine.lake.place import Place
from strandline_quality import mask

# Search the records of bronze for a key that no table has, and list what could not be searched.
#
# Statistics cover the offset and the arrival of a record, not its payload. So the search reads payloads: if the key has an
# event time, only of files in which such an event can have arrived; otherwise all of bronze. It is the last resort, and
# shows its progress.
#
# The verdict is ``never produced`` only if everything was searched. Anything that could not be searched (records that only
# Kafka has or had, files that are gone, keys that payloads do not contain) makes it ``unknown``, because the operator would
# stop searching otherwise.


SPOT = re.compile(
    r"(?P<topic>[^/]+)/(?P<partition>-?\d{1,9})/(?P<offset>\d{1,18})(?:/(?P<item>\d{1,9})?)?",
    re.ASCII,
)
"""A place in Kafka as it is typed; of a longer number Python, or a column, makes none."""

FILES_AT_ONCE = 64
"""Files that are read between two reports of progress."""

MOST_CANDIDATES = 20
"""Records with the key that are examined one by one; a key with more of them is a common word."""

ELSEWHERE = {Verdict.OTHER_KIND, Verdict.UNROUTED, Verdict.NO_KIND}
"""The verdicts of a record that is not of a kind which the table takes."""

ANOTHER_EVENT = {Verdict.IN_TABLE, Verdict.DUPLICATE, *ELSEWHERE}
"""The verdicts of a record that has another key, and only mentions this one."""


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The result of a search.

    Args:
        finding: What became of the event, if the search reached it.
        records: The number of records that were searched.
        gone: The number of records whose files are gone.
        gaps: What was not searched, in words.
    """

    finding: Finding | None = None
    records: int = 0
    gone: int = 0
    gaps: tuple[str, ...] = ()


def search_key(silver: Judged, parts: Sequence[str], world: World) -> SearchResult:
    """Search the bronze table below a judging table for a key, and return what became of its event."""
    (bronze,) = silver.reads
    path = world.lake.table(bronze)
    key = _typed_key(silver, parts, world)
    words = [part for part in key.values() if isinstance(part, str)]
    files = heap(path, Where(within=_arrival_range(silver, key)))
    if not files:
        return SearchResult()
    if not world.search or not words:
        return SearchResult(gaps=(f"the records of {bronze.id} were not searched",))
    there = {file: files[file] for file in existing(files)}
    gone, gaps = sum(files.values()) - sum(there.values()), []
    if gone:
        gaps.append(f"the files of {gone:,} records of {bronze.id} are gone")
    if not _payloads_contain_keys(silver, bronze, world):
        gaps.append(f"the payloads of {bronze.id} do not contain the keys of {silver.id} as typed")
    examined = 0
    with world.progress(f"searching {bronze.id}", sum(there.values())) as show:
        done, left = 0, iter(there)
        while some := list(islice(left, FILES_AT_ONCE)):
            for record in records_with_key(path, words, set(some)):
                if has_another(record.row["_payload"] or b"", key):
                    continue
                finding, _ = explain_spot(silver, Spot.of(record.row), world)
                if finding.verdict not in ANOTHER_EVENT:
                    return SearchResult(finding, done)
                examined += 1
                if examined == MOST_CANDIDATES:
                    gaps.append("too many records contain the key to examine each")
                    return SearchResult(None, done, gone, tuple(gaps))
            done += sum(there[file] for file in some)
            show(done)
    return SearchResult(None, done, gone, tuple(gaps))


def records_not_in_bronze(judges: Sequence[Judged], world: World) -> tuple[list[str], int | str]:
    """Return in words which records bronze does not have, and how many of them are in Kafka or why that is unknown."""
    sources = [silver.reads[0] for silver in judges]
    left = unread_in_kafka(sources, world)
    gaps = []
    if isinstance(left, str):
        gaps.append(f"Kafka could not be asked for records that bronze has not read: {left}")
    elif left:
        gaps.append(f"it may be among the {left:,} records in Kafka that bronze has not read")
    missed = sum(Books(bronze, world.lake).follow().sheet.skipped for bronze in sources)
    if missed:
        gaps.append(f"{missed:,} records had expired in Kafka before bronze read them")
    for silver in judges:
        gaps += deletions(silver, world.lake)
    return gaps, left


def pending_below(table: Table, judges: Sequence[Judged], world: World) -> list[str]:
    """Return in words which records below a table may still become a row of it, or would have."""
    gaps = []
    for silver in judges:
        held = held_rows(silver, world.lake)
        if held:
            gaps.append(f"{held:,} records are held in the quarantine of {silver.id}")
    for each in with_below(table):
        if isinstance(each, Ingested):
            continue
        rows = waiting(each, world.lake)
        if rows > 0:
            gaps.append(f"{each.id} has not read {rows:,} rows")
        dropped = sums_of(world.lake.table(each)).dropped
        if dropped:
            gaps.append(f"the state of {each.id} refused {dropped:,} rows")
    return gaps


def _typed_key(silver: Judged, parts: Sequence[str], world: World) -> dict[str, object]:
    """Return the values of a key: times typed, others as the text that a payload would contain."""
    columns = kinds(world.lake.table(silver))
    return {
        name: typed(name, part, kind)
        if (kind := columns.get(name, "")).startswith(("timestamp", "date"))
        else part
        for name, part in zip(silver.key, parts, strict=True)
    }


def _arrival_range(silver: Judged, key: Mapping[str, object]) -> dict[str, Range]:
    """Return the range in which a row with this key can have arrived; empty if the key has no event time.

    Rows outside of it are late or early, so they are in the quarantine, which was searched before.
    """
    at, law = key.get(silver.event_at), silver.lateness
    if not isinstance(at, datetime):
        return {}
    return {"_arrived_at": (shifted(at, -law.early), shifted(at, law.late))}


def _payloads_contain_keys(silver: Judged, bronze: Table, world: World) -> bool:
    """Return whether payloads contain keys, judged by one row of silver and its record."""
    row = next(iter(look(world.lake.table(silver), Where(most=1), (*silver.key, *IDENTITY))), None)
    if row is None:
        return True
    at = row.row["_arrived_at"]
    same = Where(equal=Spot.of(row.row).where, within={"_arrived_at": (at, at)})
    record = next(iter(look(world.lake.table(bronze), same, ("_payload",))), None)
    if record is None:
        return True
    words = [row.row[name] for name in silver.key if isinstance(row.row[name], str | int)]
    return all(contains_key(record.row["_payload"] or b"", str(word)) for word in words)


def why(what: str, table: Table | None, world: World) -> Finding:
    """Return where an event is, or what became of it.

    Args:
        what: topic/partition/offset, with the place of an item after it where a record is several rows, or the values of a key with commas between them.
        table: The table in question; when None, the tables that judge the event.
        world: The lake, the time and Kafka.

    Raises:
        DefinitionError: ``what`` names no event, the table cannot contain it, or it is a value of what who asks may not see.
    """
    if not world.sees_masked:
        return _kindless(_guarded(what, table, world))
    return _why(what, table, world)


def _why(what: str, table: Table | None, world: World) -> Finding:
    spot = spot_of(what, table)
    if spot is None:
        parts = tuple(what.split(","))
        if table and not isinstance(table, Judged) and len(parts) == len(table.key):
            world.lake.refuse_missing(table)
            return _with_doubts(explain_gold_key(table, parts, world), table, world)
        judges = [each for each in _judges(table) if _has_key(each, parts)]
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
    found = SPOT.fullmatch(what)
    if found is None:
        return None
    topic, item = found["topic"], found["item"]
    known = [each.name for every in catalog.tables() for each in every.topics]
    if topic in known:
        place = (int(found["partition"]), int(found["offset"]))
        return Spot(topic, *place, int(item) if item else None)
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
    silver, finding, row = min(
        known or answers, key=lambda one: (one[2] is None, one[1].verdict in ELSEWHERE)
    )
    if not known and "key" in finding.evidence:
        return _search_bronze(judges, finding, world)
    if row is None:
        return finding
    if table is None or isinstance(table, Judged):
        return finding.also(rests_on_it=rows_above(silver, row, world))
    return _follow(silver, row, table, world)


def _has_key(silver: Judged, parts: Sequence[str]) -> bool:
    """Return whether the values that were typed may be the key of a table's rows; no payload has the place of its record."""
    return len(silver.key) == len(parts) and not silver.keeps_copies


def _key_hint(table: Table | None) -> str:
    if table is not None and table.keeps_copies:
        return f"nothing else: the events of {table.id} have no id (key=PLACE)"
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
        rows=[shown_key(table, each.row, world.lake) for each in rows]
        if finding.table == table.id
        else [],
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


# What is asked by who may not see what is masked: a key is a value, and whether it is there is what the mask hides.
#
# A place is none, so by it each event is found. Of a key no column may be masked; and where payloads are, none is searched for it:
# whether a payload mentions a text would say what is in it. There its row alone answers.


def _guarded(what: str, table: Table | None, world: World) -> Finding:
    if spot_of(what, table) is not None:
        return _why(what, table, world)
    parts = tuple(what.split(","))
    if table is not None and not isinstance(table, Judged) and len(parts) == len(table.key):
        _refuse_masked_key(table, world.lake)
        return _why(what, table, world)
    judges = [each for each in _judges(table) if _has_key(each, parts)]
    open_ones = [each for each in judges if not _masked_key(each, world.lake)]
    if judges and not open_ones:
        _refuse_masked_key(judges[0], world.lake)
    if not judges:
        return _why(what, table, world)  # says what is asked for instead
    found = [_explain_by_row(each, parts, table, world) for each in open_ones]
    unknown = (Verdict.UNKNOWN, Verdict.NEVER_PRODUCED)
    return next((each for each in found if each.verdict not in unknown), found[0])


def _explain_by_row(
    silver: Judged, parts: tuple[str, ...], table: Table | None, world: World
) -> Finding:
    if not _has_masked_payloads([silver]):
        return _explain_first([silver], table, lambda each: explain_key(each, parts, world), world)
    path = world.lake.table(silver)
    columns = kinds(path) if is_table(path) else {}
    key = {n: typed(n, part, columns.get(n, "")) for n, part in zip(silver.key, parts, strict=True)}
    if columns and (rows := look(path, Where(equal=key))):
        spot = Spot.of(rows[0].row)
        return _explain_first([silver], table, lambda each: explain_spot(each, spot, world), world)
    return make_finding(
        silver,
        Verdict.UNKNOWN,
        f"no row of {silver.id} has this key; whether a record that is held or not read has it is not searched, because its "
        "payloads are masked",
        key=",".join(parts),
        hint="name the event by its place: TOPIC/PARTITION/OFFSET",
    )


def _has_masked_payloads(tables: Sequence[Table]) -> bool:
    read = (each for table in tables for each in (table, *table.upstream))
    return any(is_secret(each, catalog.tables()) for each in read)


def _masked_key(table: Table, lake: Lake) -> list[str]:
    secret = hidden(table, lake).union(*(hidden(each, lake) for each in table.needs))
    return [name for name in table.row_key if name in secret]


def _refuse_masked_key(table: Table, lake: Lake) -> None:
    if found := _masked_key(table, lake):
        raise DefinitionError(
            f"{' and '.join(found)} of {table.id} is masked, so no value of it can be asked for",
            hint="name the event by its place in Kafka: TOPIC/PARTITION/OFFSET. By such a key `strandline why` finds it, typed by "
            "who has the role unmask.",
            table=table.id,
        )


def _kindless(finding: Finding) -> Finding:
    """Return a finding without the kind of a record whose payload is masked: it is a field of it."""
    owners = [each for each in catalog.tables() if each.id == finding.table]
    if "kind" not in finding.evidence or not _has_masked_payloads(owners):
        return finding
    evidence = {**finding.evidence, "kind": mask.mask_value(finding.evidence["kind"])}
    sentence = f"it is {finding.verdict}, and its kind is masked as its payload is"
    return replace(finding, sentence=sentence, evidence=evidence)


# What became of many records at once: the verdict on each, with its sentence, for a thousand places in one look.
#
# A row of silver and a held record are found by one question for all places, which opens each file once. Only what is neither
# (a copy, a record that is not read yet, one that a repair removed) is explained one by one, as ``why`` explains it.
# So to count what became of a day's records does not take a tenth of a second for each.


AT_ONCE = 1_000
"""Places of one look; their rows are in memory at once, without payloads."""


def explain_each(
    events: Iterator[str], table: Table | None, world: World
) -> Iterator[tuple[str, Finding]]:
    """Yield each event with what became of it, in their order.

    Args:
        events: Each as it is typed: topic/partition/offset, or the values of a key.
        table: The table in question; when None, the tables that judge the events.
        world: The lake, the time and Kafka.

    Raises:
        DefinitionError: A text names no event, or the table cannot contain it.
    """
    while some := list(islice(events, AT_ONCE)):
        found = {} if table and not isinstance(table, Judged) else _found(some, table, world)
        for event in some:
            yield event, found.get(event) or why(event, table, world)


def _found(events: Sequence[str], table: Table | None, world: World) -> dict[str, Finding]:
    """Return what one look finds: the records that are rows, and those that are held."""
    spots = {event: spot for event in events if (spot := spot_of(event, table)) is not None}
    known: dict[str, Finding] = {}
    for topic in sorted({spot.topic for spot in spots.values()}):
        asked = {event: spot for event, spot in spots.items() if spot.topic == topic}
        judges = judges_of_spot(next(iter(asked.values())), table)
        for look_in in (_in_table, _held):  # a row of any table comes before what another one holds
            for silver in judges:
                left = {event: spot for event, spot in asked.items() if event not in known}
                known |= look_in(silver, left, world.lake)
    return known


def _in_table(silver: Judged, spots: dict[str, Spot], lake: Lake) -> dict[str, Finding]:
    rows = _rows(lake.table(silver), spots, IDENTITY)
    return {
        event: make_finding(
            silver,
            Verdict.IN_TABLE,
            f"it is in {silver.id}",
            offset=str(spot),
            arrived_at=rows[spot][-1].row["_arrived_at"],
            file=rows[spot][-1].file.name,
        )
        for event, spot in spots.items()
        if spot in rows
    }


def _held(silver: Judged, spots: dict[str, Spot], lake: Lake) -> dict[str, Finding]:
    names = record_of(lake.quarantine(silver))
    kept = _rows(lake.quarantine(silver), spots, (*names, "_arrived_at"))
    found = {}
    for event, spot in spots.items():
        held = still_held(silver, lake, kept.get(spot, ()))
        if held:
            reasons = held[-1].row["reasons"]
            found[event] = make_finding(
                silver,
                verdict_of_held(reasons),
                f"it is no row of {silver.id}: {', '.join(reasons)}",
                offset=str(spot),
                arrived_at=held[-1].row["_arrived_at"],
                reasons=reasons,
            )
    return found


def _rows(path: Place, spots: dict[str, Spot], columns: Sequence[str]) -> dict[Spot, list[Found]]:
    if not spots:
        return {}
    places = sorted({(each.topic, each.partition, each.offset) for each in spots.values()})
    rows: dict[Spot, list[Found]] = {}
    for row in look(path, Where(places=(PLACE, places)), dict.fromkeys((*PLACE, *columns))):
        rows.setdefault(Spot.of(row.row), []).append(row)
    return rows
