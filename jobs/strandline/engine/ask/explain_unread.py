"""Explain why something is not read yet: its reader's lag, a shut gate, or what Kafka has of it."""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

from strandline.core.errors import LakeError
from strandline.core.kind import shifted
from strandline.core.table import Judged, Table
from strandline.engine.accounting import gate_files
from strandline.engine.accounting.balance_sheet import read_until
from strandline.engine.accounting.routes import NOT_ASKED, UNKNOWN, decided
from strandline.engine.ask.locate import (
    Finding,
    Spot,
    Verdict,
    World,
    make_finding,
    offsets_read,
    rows_per_second,
    rows_since,
)
from strandline.engine.kafka import broker
from strandline.engine.kafka.slices import Backlog, Bounds, ends, part_of
from strandline.engine.lake.completeness import retired
from strandline.engine.lake.find_rows import newest_first
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.commit_log import committed_at
from strandline.engine.lake.log.ledger import Entry, is_imported, is_table, last_entry
from strandline.engine.lake.log.ledger_sums import sums_of
from strandline.engine.lake.log.log_actions import added
from strandline.engine.lake.place import Place


def explain_waiting(table: Table, source: Table, world: World) -> Finding:
    """Explain why a table has not read a row of its source yet."""
    lake = world.lake
    shut_out = explain_gate(table, source, lake)
    if shut_out is not None:
        return shut_out
    if not lake.exists(table):
        sentence = f"it is in {source.id}, and {table.id} was never run"
        return make_finding(table, Verdict.NOT_READ_YET, sentence)
    if (ended := retired(lake).get(table.id)) is not None:
        sentence = (
            f"it is in {source.id}; {table.id} is retired and does not read it, by {ended.words}"
        )
        return make_finding(table, Verdict.NOT_READ_YET, sentence)
    until = read_until(table, source, lake)
    lag = rows_since(lake.table(source), until + 1)
    sentence = f"it is in {source.id}; {table.id} is behind by {lag:,} of its rows"
    return _with_estimate(
        make_finding(table, Verdict.NOT_READ_YET, sentence, lag=lag), table, lag, world
    )


def explain_gate(table: Table, source: Table, lake: Lake) -> Finding | None:
    """Return which gate keeps a row of a source, or rows that must follow it, from a table; None if none does."""
    shut = gate_files.stops(table, lake) or gate_files.stops(source, lake)
    if shut is None:
        return None
    side = "behind" if shut.where is gate_files.Where.BEHIND else "of"
    sentence = f"it is in {source.id}; the gate {side} {shut.table} is shut: {shut.why}"
    gate = {"table": shut.table, "since": shut.at, "batch": shut.batch, "why": shut.why}
    return make_finding(table, Verdict.SHUT_OUT, sentence, gate=gate)


def explain_not_in_bronze(table: Table, bronze: Table, spot: Spot, world: World) -> Finding:
    """Explain why an offset is not in bronze."""
    held = offsets_read(bronze, world.lake, spot)
    evidence = {"offset": str(spot), "bronze": held and {"from": held[0], "until": held[1]}}
    if held and spot.offset < held[1]:
        sentence = (
            f"{bronze.id} read {spot.part} from offset {held[0]} on: "
            "earlier records had expired in Kafka, or never existed"
            if spot.offset < held[0]
            else f"{bronze.id} skipped it between two batches: it had expired in Kafka by then"
        )
        return make_finding(table, Verdict.EXPIRED, sentence, **evidence)
    if is_imported(spot.part):
        sentence = f"{held[1] if held else 0:,} rows of files were imported for {spot.topic}, and it is none of them"
        return make_finding(table, Verdict.NEVER_PRODUCED, sentence, **evidence)
    if left := _explain_left(table, bronze, spot, world):
        return left.also(**evidence)
    asked = _kafka_bounds(bronze, spot.topic, world)
    if isinstance(asked, str):
        known = f"offsets up to {held[1] - 1}" if held else "no offset"
        sentence = (
            f"{bronze.id} has {known} of {spot.part}; "
            f"Kafka could not be asked whether it has more: {asked}"
        )
        return make_finding(table, Verdict.NOT_READ_YET, sentence, **evidence, not_asked=asked)
    return _explain_in_kafka(table, bronze, spot, asked, world).also(**evidence)


def _explain_left(table: Table, bronze: Table, spot: Spot, world: World) -> Finding | None:
    """Explain an offset behind the last one that was read of what bronze is no longer fed from; None where it still is."""
    sums = sums_of(world.lake.table(bronze)) if world.lake.exists(bronze) else None
    by = retired(world.lake).get(bronze.id)
    if by is not None:
        sentence = f"{bronze.id} is retired and reads nothing, by {by.words}"
        return make_finding(table, Verdict.NOT_READ_YET, sentence)
    if sums is not None and spot.topic in sums.retired:
        sentence = f"{bronze.id} reads {spot.topic} no more, by {decided(sums.retired[spot.topic])}"
        return make_finding(table, Verdict.NOT_READ_YET, sentence)
    if sums is None or spot.part not in sums.clusters:
        return None
    at, end = sums.clusters[spot.part]
    sentence = f"{bronze.id} was moved to another cluster; of the former one it read {spot.part} up to offset {at}"
    if end == UNKNOWN:
        return make_finding(table, Verdict.UNKNOWN, f"{sentence}, and {NOT_ASKED}")
    return make_finding(table, Verdict.NEVER_PRODUCED, f"{sentence}, where it ended at {end}")


def _explain_in_kafka(
    table: Table, bronze: Table, spot: Spot, bounds: Bounds, world: World
) -> Finding:
    part = (spot.topic, spot.partition)
    if part not in bounds:
        sentence = f"{spot.topic} has no partition {spot.partition}; it has {len(bounds)}"
        return make_finding(table, Verdict.NEVER_PRODUCED, sentence)
    first, end = bounds[part]
    kafka = {"from": first, "until": end}
    if spot.offset >= end:
        last = f"ends at offset {end - 1}" if end else "is empty"
        return make_finding(table, Verdict.NEVER_PRODUCED, f"{spot.part} {last}", kafka=kafka)
    if spot.offset < first:
        sentence = f"{spot.part} begins at offset {first} in Kafka, and {bronze.id} has not read earlier records"
        return make_finding(table, Verdict.EXPIRED, sentence, kafka=kafka)
    newest = last_entry(world.lake.table(bronze))
    read = newest[1].offsets if newest else {}
    lag = sum(part.lag for part in ends(bounds, read).values())
    sentence = f"it is in Kafka; {bronze.id} is behind by {lag:,} offsets of its topic"
    finding = make_finding(table, Verdict.NOT_READ_YET, sentence, kafka=kafka, lag=lag)
    return _with_estimate(finding, bronze, lag, world)


def unread_in_kafka(tables: Sequence[Table], world: World) -> int | str:
    """Return how many records of Kafka the bronze tables have not read, or why Kafka could not be asked."""
    lag = 0
    for bronze in tables:
        newest = last_entry(world.lake.table(bronze))
        read = newest[1].offsets if newest else {}
        left = sums_of(world.lake.table(bronze)).retired if newest else {}
        for topic in bronze.topics:
            if topic.name in left:
                continue
            asked = _kafka_bounds(bronze, topic.name, world)
            if isinstance(asked, str):
                return asked
            lag += sum(part.lag for part in ends(asked, read).values())
    return lag


def _kafka_bounds(bronze: Table, topic: str, world: World) -> Bounds | str:
    """Return the bounds of a topic in Kafka, or why Kafka could not be asked."""
    if world.address is None:
        return "no broker is known; `strandline up` starts ours"
    try:
        broker.check_reachable(world.address, world.options)
        newest = last_entry(world.lake.table(bronze))
        backlog = Backlog(
            world.address,
            world.options,
            [each for each in bronze.topics if each.name == topic],
            map(part_of, newest[1].offsets if newest else ()),
        )
        try:
            return backlog.bounds()
        finally:
            backlog.close()
    except LakeError as error:
        return error.message


def _with_estimate(finding: Finding, reader: Table, lag: int, world: World) -> Finding:
    """Add the time at which it will have been read if its reader runs at its recent rate."""
    rate = rows_per_second(world.lake.table(reader))
    if not rate:
        return finding
    seconds = lag / rate
    return finding.also(
        rows_a_second=round(rate, 1),
        seconds=round(seconds, 1),
        expected_at=world.now + timedelta(seconds=seconds),
    )


# What became of an event that retention or a request to forget deleted: by which commit, and when.
#
# The row is gone, so the answer is taken from the ledger: what the commits deleted, and up to when.


Deletion = tuple[int, Entry, datetime]
"""The version of a commit that deleted rows, its entry, and when it was committed."""


def explain_deleted(
    table: Table, version: int, entry: Entry, at: datetime | None = None
) -> Finding:
    """Explain which commit deleted a row for good; a row that was forgotten on request is not shown."""
    when = f" on {at.isoformat(timespec='seconds')}" if at else ""
    if entry.forgotten:
        sentence = f"{table.id} deleted it on request{when}, in version {version}"
        return make_finding(
            table, Verdict.FORGOTTEN, sentence, version=version, request=entry.stream, at=at
        )
    sentence = f"{table.id} deleted what is older than {entry.until}{when}, in version {version}"
    return make_finding(table, Verdict.DELETED, sentence, version=version, until=entry.until, at=at)


def deleted_since(path: Place, version: int) -> Deletion | None:
    """Return the commit that deleted what a version of a table added; None when none can have.

    The first expiry that reaches beyond the oldest row of that version did it; else a request to forget.
    """
    lowest = added(path, version).lowest.get("_arrived_at")
    moment = datetime.fromisoformat(lowest) if lowest else None
    return _deletion(path, moment, version)


def expired_with(silver: Judged, arrived_at: datetime, version: int, lake: Lake) -> Deletion | None:
    """Return the commit that deleted the row of a record from silver; None when it would still be there.

    The event is at most so much older than its arrival as the table admits.
    """
    return _deletion(lake.table(silver), shifted(arrived_at, -silver.lateness.late), version)


def deletions(table: Table, lake: Lake) -> Iterator[str]:
    """Yield in words what was deleted of a table and of what it reads, so that an event is not taken for one that never was."""
    for each in (*table.upstream, table):
        sums = sums_of(lake.table(each))
        if sums.expired:
            yield f"retention deleted {sums.expired:,} rows of {each.id} from before {sums.horizon}"
        if sums.forgotten:
            yield f"{sums.forgotten:,} rows of {each.id} were forgotten on request"


def _deletion(path: Place, moment: datetime | None, version: int) -> Deletion | None:
    if not is_table(path) or not sums_of(path).removed:
        return None
    found: tuple[int, Entry] | None = None
    forgot: tuple[int, Entry] | None = None
    for number, entry in newest_first(path):
        if number <= version:
            break
        if entry.forgotten:
            forgot = (number, entry)
        if not entry.expired:
            continue
        if moment is None or not entry.until or moment >= datetime.fromisoformat(entry.until):
            break
        found = (number, entry)
    best = found or forgot
    return None if best is None else (*best, committed_at(path, best[0]))
