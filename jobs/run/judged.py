"""What a judging table says of one record of its bronze: a row, a copy of one, held back, or not read yet.

A key is looked for where its row would be: in the table, in the quarantine, in what the table has not read, and in
what was taken out of it. Records that were read and are in none of these carry another key.
"""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

from jobs.core.lateness import DISORDERED
from jobs.core.received import PLACE
from jobs.core.table import Table
from jobs.run.balance import read_until
from jobs.run.carried import replaced
from jobs.run.finding import Finding, Verdict, World, found, own, payload
from jobs.run.ledger import Entry, commit_file, entry_of
from jobs.run.needle import Found, Where, kinds, look, typed
from jobs.run.resolutions import Status
from jobs.run.settled import done_about, standing
from jobs.run.trace import (
    Spot,
    Taken,
    came_in,
    departed,
    has_another,
    held,
    naming,
    original,
    reader,
    silver_row,
    taken,
    tells,
    unread,
    version_of,
)
from jobs.run.unread import outside, waits

FIRST = ("_arrived_at", *PLACE)
TIMES = {"late": Verdict.LATE, "early": Verdict.EARLY, DISORDERED: Verdict.DISORDERED}

Told = tuple[Finding, Found | None]
"""What a judging table says, and the row if the event is one."""


def of_spot(silver: Table, spot: Spot, world: World) -> Told:
    """Say what became of the record at an offset."""
    (bronze,) = silver.upstream
    took = taken(world.lake.table(bronze), spot)
    if took is None:
        return outside(silver, bronze, spot, world), None
    if took.record is None:
        return _hole(silver, spot, took), None
    record = took.record.row
    evidence = {
        "offset": str(spot),
        "arrived_at": record["_arrived_at"],
        "bronze": {
            "version": took.version,
            "batch": took.entry.batch,
            "file": took.record.file.name,
        },
    }
    row = silver_row(silver, world.lake, record)
    if row is not None:
        return _there(silver, row, world).also(**evidence), row
    kept = held(silver, world.lake, record)
    if kept is not None:
        return _held(silver, kept, world).also(**evidence), None
    read = reader(world.lake.table(silver), bronze, took.version)
    if read is None:
        return waits(silver, bronze, world).also(**evidence), None
    return _gone(silver, record, read, world).also(**evidence), None


def _hole(silver: Table, spot: Spot, took: Taken) -> Finding:
    """Say why there is no record at an offset that was passed."""
    told = {"offset": str(spot), "version": took.version, "batch": took.entry.batch}
    if took.entry.without_record:
        holes = took.entry.without_record
        sentence = (
            "Kafka has no record there: a transaction ends there, or the record was aborted or compacted away; "
            f"offsets without a record in that batch: {holes:,}"
        )
        return found(silver, Verdict.NO_RECORD, sentence, **told, without_record=holes)
    sentence = "bronze read it and does not have it: its file is gone or was changed"
    return found(silver, Verdict.UNACCOUNTED, sentence, **told)


def _there(silver: Table, row: Found, world: World) -> Finding:
    path = world.lake.table(silver)
    commit = {**_commit(path, row), **_came(path, came_in(silver, path, row))}
    sentence = f"it is in {silver.id}"
    return found(silver, Verdict.IN_TABLE, sentence, **commit, row=own(silver, row.row))


def _held(silver: Table, kept: Found, world: World) -> Finding:
    """Say why a record is in the quarantine."""
    lake, row = world.lake, kept.row
    reasons = row["reasons"]
    event_at, arrived_at = row["event_at"], row["_arrived_at"]
    verdict = TIMES.get(reasons[0], Verdict.QUARANTINED)
    verdict = verdict if len(reasons) == 1 else Verdict.QUARANTINED
    evidence: dict[str, object] = {
        "reasons": reasons,
        "event_at": event_at,
        "arrived_at": arrived_at,
        "quarantine": _commit(lake.quarantine(silver), kept),
        "payload": payload(silver, row["_payload"], kinds(lake.table(silver))),
    }
    sentence = f"it is no row of {silver.id}: {', '.join(reasons)}"
    if verdict is Verdict.LATE:
        by = arrived_at - event_at - silver.lateness.late
        sentence = f"it arrived {arrived_at - event_at} after it happened, " + (
            f"{by} later than {silver.id} admits"
            if by > timedelta(0)
            else f"which today's law admits: `strandline quarantine replay {silver.id}`"
        )
        evidence["late_by_seconds"] = by.total_seconds()
    if verdict is Verdict.EARLY:
        by = event_at - arrived_at - silver.lateness.early
        sentence = f"it says it happened {event_at - arrived_at} after it arrived, {by} more than {silver.id} admits"
        evidence["early_by_seconds"] = by.total_seconds()
    if verdict is Verdict.DISORDERED:
        sentence, behind = _behind(silver, row, world)
        evidence |= behind
    done = done_about(silver, lake, row)
    if done:
        evidence["done"] = done
    if done and done[-1]["status"] == Status.DISCARDED:
        sentence += f"; {done[-1]['who'] or 'somebody'} gave it up: {done[-1]['why']}"
    gone = departed(lake.table(silver), Where(equal=Spot.of(row).where))
    if gone is not None:
        evidence["was_in_the_table"] = replaced(silver, gone).evidence
        sentence += f"; it was one until version {gone.version}"
    return found(silver, verdict, sentence, **evidence)


def _behind(silver: Table, row: Mapping[str, Any], world: World) -> tuple[str, dict[str, object]]:
    """Say how far a record arrived behind those of earlier commits, as bronze wrote it down."""
    (bronze,) = silver.upstream
    took = taken(world.lake.table(bronze), Spot.of(row))
    newest = took.record.row.get("_newest_before") if took and took.record else None
    behind = f"{newest - row['_arrived_at']} " if newest else ""
    sentence = (
        f"it was stamped {behind}before the newest arrival in earlier commits, and {silver.id} admits less than "
        f"{silver.lateness.disorder}: `strandline quarantine replay {silver.id} --reason {DISORDERED}` brings it in"
    )
    return sentence, {"newest_before": newest} if newest else {}


def _commit(path: Path, row: Found) -> dict[str, object]:
    """Return the commit that wrote a row's file."""
    return {**_came(path, version_of(path, row.file)), "file": row.file.name}


def _came(path: Path, version: int | None) -> dict[str, object]:
    """Return a commit by its number, and what it was."""
    entry = None if version is None else entry_of(commit_file(path, version))
    told: dict[str, object] = {"version": version, "batch": entry and entry.batch}
    return {**told, "mode": entry.mode} if entry else told


def _gone(
    silver: Table, record: Mapping[str, Any], read: tuple[int, Entry], world: World
) -> Finding:
    """Say why a record that was read is neither a row nor held."""
    version, entry = read
    batch = {"version": version, "batch": entry.batch, "duplicates": entry.duplicates}
    first = original(silver, world.lake, record)
    if first is not None:
        spot = Spot.of(first.row)
        sentence = f"it is a copy of {spot}, which came first and is in {silver.id}"
        same = own(silver, first.row)
        return found(silver, Verdict.DUPLICATE, sentence, original=spot, same=same, silver=batch)
    gone = departed(world.lake.table(silver), Where(equal=Spot.of(record).where))
    if gone is not None:
        return replaced(silver, gone)
    if entry.dropped_by_watermark:
        sentence = (
            f"the state of {silver.id} had let go of its time: rows of that batch were refused"
        )
        dropped = entry.dropped_by_watermark
        return found(silver, Verdict.DROPPED, sentence, silver=batch, dropped=dropped)
    if entry.duplicates > 0 and not tells(record["_payload"] or b"", silver.key):
        sentence = f"it is a copy of a row of {silver.id}; which one, its bytes do not say"
        return found(silver, Verdict.DUPLICATE, sentence, original=None, silver=batch)
    sentence = f"{silver.id} has read it, and it is neither a row of it, nor held, nor a copy of one that is there"
    return found(silver, Verdict.UNACCOUNTED, sentence, silver=batch)


def of_key(silver: Table, parts: tuple[str, ...], world: World) -> Told:
    """Say where a key is, as far as the lake goes."""
    lake, (bronze,) = world.lake, silver.upstream
    columns = kinds(lake.table(silver))
    key = {n: typed(n, part, columns.get(n, "")) for n, part in zip(silver.key, parts, strict=True)}
    rows = look(lake.table(silver), Where(equal=key))
    if rows:
        finding = _there(silver, rows[0], world)
        return finding.also(offset=str(Spot.of(rows[0].row)), rows=len(rows)), rows[0]
    held_back = _of(key, naming(lake.quarantine(silver), parts))
    kept = standing(silver, lake, held_back)
    if kept:
        first = min(kept, key=lambda each: [each.row[name] for name in FIRST])
        spot = str(Spot.of(first.row))
        return _held(silver, first, world).also(offset=spot, records=len(kept)), None
    waiting = unread(lake.table(bronze), read_until(silver, bronze, lake) + 1)
    records = naming(lake.table(bronze), parts, waiting) if waiting else []
    for record in _of(key, records):
        finding = waits(silver, bronze, world)
        at = record.row["_arrived_at"]
        return finding.also(offset=str(Spot.of(record.row)), arrived_at=at), None
    gone = departed(lake.table(silver), Where(equal=key))
    if gone is not None:
        return replaced(silver, gone), None
    sentence = (
        f"no row, no record that is held and none that {silver.id} has still to read has this key"
    )
    return found(silver, Verdict.NEVER_PRODUCED, sentence, key=",".join(parts)), None


def _of(key: Mapping[str, object], records: Sequence[Found]) -> list[Found]:
    """Return the records that may be of a key, without those that only mention it in another field."""
    return [each for each in records if not has_another(each.row["_payload"] or b"", key)]
