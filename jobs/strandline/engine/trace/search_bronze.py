"""Search the records of bronze for a key that no table has, and list what could not be searched.

Statistics cover the offset and the arrival of a record, not its payload. So the search reads payloads: if the key has an
event time, only of files in which such an event can have arrived; otherwise all of bronze. It is the last resort, and
shows its progress.

The verdict is ``never produced`` only if everything was searched. Anything that could not be searched (records that only
Kafka has or had, files that are gone, keys that payloads do not contain) makes it ``unknown``, because the operator would
stop searching otherwise.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice

from strandline.core.moment import shifted
from strandline.core.received import IDENTITY
from strandline.core.table import Ingested, Judged, Table
from strandline.engine.accounting.balance_sheet import held_rows, waiting
from strandline.engine.accounting.table_books import Books
from strandline.engine.storage.find_rows import Range, Where, heap, look, typed
from strandline.engine.storage.ledger_snapshot import sums_of
from strandline.engine.storage.log_actions import existing
from strandline.engine.storage.open_table import kinds
from strandline.engine.trace.deleted import deletions
from strandline.engine.trace.explain_silver import explain_spot
from strandline.engine.trace.explain_unread import unread_in_kafka
from strandline.engine.trace.locate import Spot, contains_key, has_another, records_with_key
from strandline.engine.trace.verdict import Finding, Verdict, World

FILES_AT_ONCE = 64
"""Files that are read between two reports of progress."""

MOST_CANDIDATES = 20
"""Records with the key that are examined one by one; a key with more of them is a common word."""

ANOTHER_EVENT = {Verdict.IN_TABLE, Verdict.DUPLICATE}
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
    for each in _with_sources(table):
        rows = waiting(each, world.lake)
        if rows > 0:
            gaps.append(f"{each.id} has not read {rows:,} rows")
        dropped = sums_of(world.lake.table(each)).dropped
        if dropped:
            gaps.append(f"the state of {each.id} refused {dropped:,} rows")
    return gaps


def _with_sources(table: Table) -> list[Table]:
    """Return a table and all tables that it depends on, without bronze."""
    tables = {table.id: table}
    for source in table.upstream:
        if not isinstance(source, Ingested):
            tables |= {each.id: each for each in _with_sources(source)}
    return list(tables.values())


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
