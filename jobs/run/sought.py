"""Looking for a key that no table has in the records of bronze, and saying what could not be looked through.

Statistics know the place and the arrival of a record, not what is in its payload. So this reads: only the files in which
a row with such an event time could have arrived where the key has one, all of bronze otherwise. It is asked last, and
says how far it is.

``never produced`` is said only of what was looked for everywhere. Whatever could not be looked through (records that
only Kafka has or had, files that are gone, keys that do not stand in payloads) makes the answer ``unknown``, because who
asks would stop searching.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from pathlib import Path

from jobs.core.received import IDENTITY
from jobs.core.table import Layer, Table
from jobs.run.balance import held_rows, waiting
from jobs.run.finding import Finding, Verdict, World
from jobs.run.judged import of_spot
from jobs.run.ledger import entries
from jobs.run.needle import Range, Where, heap, kinds, look, typed
from jobs.run.trace import Spot, has_another, names, naming
from jobs.run.unread import unread_in_kafka

AT_ONCE = 64
"""Files that are read before the search says how far it is."""

LIKELY = 20
"""Records that name the key and are looked at closely; beyond them the key is a word that many records have."""

ELSEWHERE = {Verdict.IN_TABLE, Verdict.DUPLICATE}
"""What is said of a record that has another key, and only mentions this one."""


@dataclass(frozen=True, slots=True)
class Sought:
    """What a search came to.

    Args:
        finding: What became of the event, if it was found.
        records: How many records were searched.
        gone: How many could not be, because their files are not there.
        gaps: What was not looked through, in words.
    """

    finding: Finding | None = None
    records: int = 0
    gone: int = 0
    gaps: tuple[str, ...] = ()


def sought(silver: Table, parts: Sequence[str], world: World) -> Sought:
    """Look for a key in the bronze table of a judging one, and say what became of its event."""
    (bronze,) = silver.upstream
    path = world.lake.table(bronze)
    key = _key(silver, parts, world)
    words = [part for part in key.values() if isinstance(part, str)]
    files = heap(path, Where(within=_arrival(silver, key)))
    if not files:
        return Sought()
    if not world.search or not words:
        return Sought(gaps=(f"the records of {bronze.id} were not searched",))
    there = {file: rows for file, rows in files.items() if Path(file).exists()}
    gone, gaps = sum(files.values()) - sum(there.values()), []
    if gone:
        gaps.append(f"the files of {gone:,} records of {bronze.id} are gone")
    if not _stands_in_payloads(silver, bronze, world):
        gaps.append(f"the keys of {silver.id} do not stand in its payloads as they are typed")
    looked = 0
    with world.progress(f"searching {bronze.id}", sum(there.values())) as tell:
        done, left = 0, iter(there)
        while some := list(islice(left, AT_ONCE)):
            for record in naming(path, words, set(some)):
                if has_another(record.row["_payload"] or b"", key):
                    continue
                finding, _ = of_spot(silver, Spot.of(record.row), world)
                if finding.verdict not in ELSEWHERE:
                    return Sought(finding, done)
                looked += 1
                if looked == LIKELY:
                    gaps.append("too many records name it to look at each")
                    return Sought(None, done, gone, tuple(gaps))
            done += sum(there[file] for file in some)
            tell(done)
    return Sought(None, done, gone, tuple(gaps))


def outside_the_lake(judges: Sequence[Table], world: World) -> tuple[list[str], int | str]:
    """Say which records never came to bronze, as far as its ledger and Kafka know, and how many wait in Kafka."""
    sources = [silver.upstream[0] for silver in judges]
    left = unread_in_kafka(sources, world)
    gaps = []
    if isinstance(left, str):
        gaps.append(f"what is in Kafka alone could not be asked: {left}")
    elif left:
        gaps.append(f"it may be among the {left:,} records in Kafka that bronze has not read")
    missed = sum(_passed_over(world.lake.table(bronze)) for bronze in sources)
    if missed:
        gaps.append(f"{missed:,} records had expired in Kafka before bronze read them")
    return gaps, left


def held_up(table: Table, judges: Sequence[Table], world: World) -> list[str]:
    """Say which records below a table could still make a row of it, or would have."""
    gaps = []
    for silver in judges:
        held = held_rows(silver, world.lake)
        if held:
            gaps.append(f"{held:,} records are held in the quarantine of {silver.id}")
    for each in _below(table):
        rows = waiting(each, world.lake)
        if rows > 0:
            gaps.append(f"{each.id} has not read {rows:,} rows")
        dropped = sum(entry.dropped_by_watermark for _, entry in entries(world.lake.table(each)))
        if dropped:
            gaps.append(f"the state of {each.id} refused {dropped:,} rows")
    return gaps


def _below(table: Table) -> list[Table]:
    """Return a table and those that it rests on, bronze left out."""
    found = {table.id: table}
    for source in table.upstream:
        if source.layer is not Layer.BRONZE:
            found |= {each.id: each for each in _below(source)}
    return list(found.values())


def _key(silver: Table, parts: Sequence[str], world: World) -> dict[str, object]:
    """Return the values of a key, as texts where they are looked for in payloads."""
    columns = kinds(world.lake.table(silver))
    return {
        name: typed(name, part, kind)
        if (kind := columns.get(name, "")).startswith(("timestamp", "date"))
        else part
        for name, part in zip(silver.key, parts, strict=True)
    }


def _arrival(silver: Table, key: Mapping[str, object]) -> dict[str, Range]:
    """Return when a row of a key can have arrived, where the key has its event time; held ones were looked for."""
    at, law = key.get(str(silver.event_at)), silver.lateness
    if not isinstance(at, datetime):
        return {}
    return {"_arrived_at": (at - law.early, at + law.late)}


def _stands_in_payloads(silver: Table, bronze: Table, world: World) -> bool:
    """Tell by a row that silver has whether its key could be found in its record."""
    row = next(iter(look(world.lake.table(silver), Where(most=1), (*silver.key, *IDENTITY))), None)
    if row is None:
        return True
    at = row.row["_arrived_at"]
    same = Where(equal=Spot.of(row.row).where, within={"_arrived_at": (at, at)})
    record = next(iter(look(world.lake.table(bronze), same, ("_payload",))), None)
    if record is None:
        return True
    words = [row.row[name] for name in silver.key if isinstance(row.row[name], str | int)]
    return all(names(record.row["_payload"] or b"", str(word)) for word in words)


def _passed_over(path: Path) -> int:
    """Return how many offsets lie before and between those that bronze has read."""
    ends: dict[str, int] = {}
    missed = 0
    for part, start, end in _ranges(path):
        missed += start - ends.get(part, 0)
        ends[part] = end
    return missed


def _ranges(path: Path) -> Iterator[tuple[str, int, int]]:
    for _, entry in entries(path):
        for part, (start, end) in entry.offsets.items():
            yield part, start, end
