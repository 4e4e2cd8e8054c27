"""Explain what became of a bronze record in a judging table: a row, a duplicate, quarantined, or not read yet.

A key is searched where its row can be: in the table, in the quarantine, in unread files, and in removed rows. Records
that were read and are in none of these have another key.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from strandline.core.kind import DISORDERED
from strandline.core.routes import KIND, KIND_BY, takes_kind, text_of
from strandline.core.table import Ingested, Judged
from strandline.core.topic import ITEM, PLACE
from strandline.engine.accounting.balance_sheet import read_until
from strandline.engine.accounting.held_records import Status, done_about, still_held
from strandline.engine.accounting.routes import takers_of
from strandline.engine.ask.explain_gold import explain_removed
from strandline.engine.ask.explain_unread import (
    deleted_since,
    expired_with,
    explain_deleted,
    explain_not_in_bronze,
    explain_waiting,
)
from strandline.engine.ask.locate import (
    Finding,
    Spot,
    TakenIn,
    Verdict,
    World,
    first_version,
    has_another,
    has_fields,
    held_items,
    held_record,
    make_finding,
    original,
    reading_commit,
    records_with_key,
    removed_row,
    shown_payload,
    shown_row,
    silver_row,
    taken_in,
    unread_records,
)
from strandline.engine.lake.find_rows import Found, Where, look, typed, version_of
from strandline.engine.lake.import_notes import origin
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger import IMPORT, Entry, entry_at
from strandline.engine.lake.log.ledger_sums import sums_of
from strandline.engine.lake.log.vacuum import EXPLAINED, swept
from strandline.engine.lake.open_table import kinds
from strandline.engine.lake.place import Place

ARRIVAL_ORDER = ("_arrived_at", *PLACE)
TIMES = {"late": Verdict.LATE, "early": Verdict.EARLY, DISORDERED: Verdict.DISORDERED}

NAMED = 3
"""How many held items of a record a sentence names."""

Explained = tuple[Finding, Found | None]
"""What became of an event in a judging table, and its row if it has one."""


def explain_spot(silver: Judged, spot: Spot, world: World) -> Explained:
    """Return what became of the record at an offset."""
    (bronze,) = silver.reads
    taken = taken_in(world.lake.table(bronze), spot)
    if taken is None:
        return explain_not_in_bronze(silver, bronze, spot, world), None
    if taken.record is None:
        return _explain_hole(silver, spot, taken, world), None
    record = taken.record.row
    evidence = {
        "offset": str(spot),
        "arrived_at": record["_arrived_at"],
        "bronze": {
            "version": taken.version,
            "batch": taken.entry.batch,
            "file": taken.record.file.name,
        },
    }
    if taken.entry.mode == IMPORT:
        evidence["imported"] = origin(bronze, world.lake, taken.entry, spot.offset)
    row = silver_row(silver, world.lake, record, spot.item)
    if row is not None:
        return _explain_present(silver, row, world, spot.item).also(**evidence), row
    kept = held_record(silver, world.lake, record, spot.item)
    if kept is not None:
        return _explain_held(silver, kept, world).also(**evidence), None
    if spot.item is not None and silver_row(silver, world.lake, record) is not None:
        sentence = f"its record is in {silver.id}, and has no item {spot.item}"
        return make_finding(silver, Verdict.NO_RECORD, sentence, **evidence), None
    return _explain_no_row(silver, spot, taken, record, world).also(**evidence), None


def _explain_no_row(
    silver: Judged, spot: Spot, taken: TakenIn, record: Mapping[str, Any], world: World
) -> Finding:
    """Explain why a record of bronze is neither a row of a table nor held by it."""
    (bronze,) = silver.reads
    if (elsewhere := _explain_route(silver, bronze, record, world.lake)) is not None:
        return elsewhere
    read = reading_commit(silver, world.lake, spot, taken.version)
    if read is None:
        return explain_waiting(silver, bronze, world)
    return _explain_absent(silver, record, read, world)


def _explain_route(
    silver: Judged, bronze: Ingested, record: Mapping[str, Any], lake: Lake
) -> Finding | None:
    """Explain that a record is of a kind which the table does not take; None where it is of its own, or the topic has no kinds."""
    if not silver.is_routed:
        return None
    kind, by = record.get(KIND), record.get(KIND_BY)
    today = text_of(bronze.kind_by.get(record["_topic"]))
    known: dict[str, object] = {"kind": kind, "kind_by": by}
    if by != today:
        sentence = (
            f"bronze has kept it {f'as {kind!r} by {by}' if by else 'without a kind'}, and kinds are distinguished by {today} "
            f"now: {silver.id} has no row of it; by its bytes it is of another kind or a copy, or it is not read yet"
        )
        return make_finding(silver, Verdict.UNKNOWN, sentence, **known)
    if kind is None:
        sentence = f"it has no kind ({today}), so no table takes it: `strandline quarantine show {bronze.id}`"
        return make_finding(bronze, Verdict.NO_KIND, sentence, **known)
    if any(takes_kind(each, kind) for each in silver.taken):
        return None
    taker = next(
        (each for each in takers_of(bronze, lake) if takes_kind(each.taken[0], kind)), None
    )
    if taker is None:
        left = ", on purpose" if takes_kind(bronze.left, kind) else ""
        sentence = f"it is of the kind {kind!r} ({today}), which no table takes{left}"
        return make_finding(bronze, Verdict.UNROUTED, sentence, **known)
    sentence = f"it is of the kind {kind!r} ({today}), which {taker.id} takes"
    return make_finding(silver, Verdict.OTHER_KIND, sentence, **known, taker=taker.id)


def _explain_hole(silver: Judged, spot: Spot, taken: TakenIn, world: World) -> Finding:
    """Explain why there is no record at an offset that bronze has read."""
    evidence = {"offset": str(spot), "version": taken.version, "batch": taken.entry.batch}
    if spot.part in taken.entry.lost:
        first, end = taken.entry.lost[spot.part]
        sentence = (
            f"it expired in Kafka before bronze read it; the loss of offsets {first} to {end - 1} of {spot.part} was "
            f"accepted by {taken.entry.accepted}"
        )
        return make_finding(silver, Verdict.EXPIRED, sentence, **evidence)
    (bronze,) = silver.reads
    gone = deleted_since(world.lake.table(bronze), taken.version)
    if gone is not None:
        return explain_deleted(bronze, *gone).also(**evidence)
    if taken.entry.without_record:
        holes = taken.entry.without_record
        sentence = (
            "Kafka has no record there: a transaction ends there, or the record was aborted or compacted away; "
            f"offsets without a record in that batch: {holes:,}"
        )
        return make_finding(silver, Verdict.NO_RECORD, sentence, **evidence, without_record=holes)
    sentence = "bronze read it and does not have it: its file is gone or was changed"
    return make_finding(silver, Verdict.UNACCOUNTED, sentence, **evidence)


def _explain_present(silver: Judged, row: Found, world: World, item: int | None = None) -> Finding:
    path = world.lake.table(silver)
    commit = {
        **_commit_of_file(path, row),
        **_commit_fields(path, first_version(silver, world.lake, row)),
    }
    sentence = f"it is in {silver.id}"
    if silver.believes_history and _is_old(silver, row.row):
        sentence += (
            f", from history: its event lies more than {silver.lateness.late} before its arrival"
        )
    if silver.keeps_copies:
        sentence += f"; no copy of it is looked for, because {silver.id} knows an event by its place alone (key=PLACE)"
    evidence: dict[str, object] = {**commit, "row": shown_row(silver, row.row, world.lake)}
    if item is None and (bad := held_items(silver, world.lake, row.row)):
        # Of a long list not each in the sentence.
        first = ", ".join(
            f"item {each.row[ITEM]} ({', '.join(each.row['reasons'])})" for each in bad[:NAMED]
        )
        sentence += (
            f"; {len(bad):,} of its items are held: {first}{', …' if len(bad) > NAMED else ''}"
        )
        evidence["held_items"] = [
            {"item": each.row[ITEM], "reasons": each.row["reasons"]} for each in bad
        ]
    return make_finding(silver, Verdict.IN_TABLE, sentence, **evidence)


def _is_old(silver: Judged, row: Mapping[str, Any]) -> bool:
    event_at, arrived_at = row.get(silver.event_at), row.get("_arrived_at")
    if not isinstance(event_at, datetime) or not isinstance(arrived_at, datetime):
        return False
    return arrived_at - event_at > silver.lateness.late


def verdict_of_held(reasons: Sequence[str]) -> Verdict:
    """Return the verdict on a held record: of a single reason about time that time, otherwise quarantined."""
    return TIMES.get(reasons[0], Verdict.QUARANTINED) if len(reasons) == 1 else Verdict.QUARANTINED


def _explain_held(silver: Judged, kept: Found, world: World) -> Finding:
    """Explain why a record is in the quarantine."""
    lake, row = world.lake, kept.row
    reasons = row["reasons"]
    event_at, arrived_at = row["event_at"], row["_arrived_at"]
    verdict = verdict_of_held(reasons)
    evidence: dict[str, object] = {
        "reasons": reasons,
        "event_at": event_at,
        "arrived_at": arrived_at,
        "quarantine": _commit_of_file(lake.quarantine(silver), kept),
        "payload": shown_payload(silver, row["_payload"], kinds(lake.table(silver))),
    }
    item = row.get(ITEM)
    what = "it" if item is None else f"item {item} of it"
    sentence = f"{what} is no row of {silver.id}: {', '.join(reasons)}"
    is_wild = isinstance(
        event_at, str
    )  # a year before the first or after 9999, which Python has not
    if is_wild:
        sentence = f"its event time is {event_at}: {', '.join(reasons)}"
    if verdict is Verdict.LATE and not is_wild:
        by = arrived_at - event_at - silver.lateness.late
        sentence = f"it arrived {arrived_at - event_at} after it happened, " + (
            f"{by} later than {silver.id} admits"
            if by > timedelta(0)
            else f"which {silver.id} admits today: `strandline quarantine replay {silver.id}`"
        )
        evidence["late_by_seconds"] = by.total_seconds()
    if verdict is Verdict.EARLY and not is_wild:
        by = event_at - arrived_at - silver.lateness.early
        sentence = f"its event time is {event_at - arrived_at} after its arrival, {by} more than {silver.id} admits"
        evidence["early_by_seconds"] = by.total_seconds()
    if verdict is Verdict.DISORDERED:
        sentence, behind = _explain_disordered(silver, row, world)
        evidence |= behind
    done = done_about(silver, lake, row)
    if done:
        evidence["done"] = done
    if done and done[-1]["status"] == Status.DISCARDED:
        sentence += f"; discarded by {done[-1]['who'] or 'an unknown user'}: {done[-1]['why']}"
    gone = removed_row(lake.table(silver), Where(equal=Spot.of(row).where))
    if gone is not None:
        evidence["was_in_the_table"] = explain_removed(silver, gone, world.lake).evidence
        sentence += f"; it was a row until version {gone.version}"
    return make_finding(silver, verdict, sentence, **evidence)


def _explain_disordered(
    silver: Judged, row: Mapping[str, Any], world: World
) -> tuple[str, dict[str, object]]:
    """Explain how far a record's arrival is behind the newest of earlier commits, as bronze recorded it."""
    (bronze,) = silver.reads
    taken = taken_in(world.lake.table(bronze), Spot.of(row))
    newest = taken.record.row.get("_newest_before") if taken and taken.record else None
    behind = f"{newest - row['_arrived_at']} " if newest else ""
    sentence = (
        f"its arrival is {behind}before the newest in earlier commits, and {silver.id} admits less than "
        f"{silver.lateness.disorder}: `strandline quarantine replay {silver.id} --reason {DISORDERED}` brings it in"
    )
    return sentence, {"newest_before": newest} if newest else {}


def _commit_of_file(path: Place, row: Found) -> dict[str, object]:
    """Return the version, batch and mode of the commit that wrote a row's file, and the file."""
    return {**_commit_fields(path, version_of(path, row.file)), "file": row.file.name}


def _commit_fields(path: Place, version: int | None) -> dict[str, object]:
    """Return the version, batch and mode of a commit."""
    entry = None if version is None else entry_at(path, version)
    fields: dict[str, object] = {"version": version, "batch": entry and entry.batch}
    return {**fields, "mode": entry.mode} if entry else fields


def _explain_absent(  # noqa: PLR0911  # a return for each place
    silver: Judged, record: Mapping[str, Any], read: tuple[int, Entry], world: World
) -> Finding:
    """Explain why a record that was read is neither a row nor in the quarantine."""
    version, entry = read
    batch = {"version": version, "batch": entry.batch, "duplicates": entry.duplicates}
    done = done_about(silver, world.lake, dict(record))
    if done and done[-1]["status"] == Status.SKIPPED:
        sentence = f"it was held, and {silver.id} passes it over since {done[-1]['at']}, by a rule"
        return make_finding(silver, Verdict.SKIPPED, sentence, silver=batch, done=done)
    first = _original(silver, record, entry, world.lake)
    if first is not None:
        spot = Spot.of(first.row)
        sentence = f"it is a copy of {spot}, which came first and is in {silver.id}"
        same = shown_row(silver, first.row, world.lake)
        return make_finding(
            silver, Verdict.DUPLICATE, sentence, original=spot, same=same, silver=batch
        )
    gone = _explain_gone(silver, record, version, world, may_be_deleted=not entry.skipped)
    if gone is not None:
        return gone
    may_be_copy = entry.duplicates > 0 and not has_fields(record["_payload"] or b"", silver.key)
    nowhere = _explain_nowhere(silver, entry, batch)
    if nowhere is not None:
        return _or_a_copy(silver, nowhere, entry, batch) if may_be_copy else nowhere
    if may_be_copy:
        sentence = f"it is a copy of a row of {silver.id}; its bytes do not identify which"
        return make_finding(silver, Verdict.DUPLICATE, sentence, original=None, silver=batch)
    path = world.lake.table(silver)
    if sums_of(path).was_rewritten and swept(path).deletes:
        sentence = (
            f"{silver.id} has read it, and has no row of it; repairs have replaced rows since, and what they removed is "
            f"kept for {EXPLAINED.days} days: `strandline ledger {silver.id}` proves that their counts balance"
        )
        return make_finding(silver, Verdict.UNKNOWN, sentence, silver=batch)
    no_copy = "" if silver.keeps_copies else ", nor a copy of a row"
    sentence = f"{silver.id} has read it, but it is neither a row, nor in quarantine{no_copy}"
    return make_finding(silver, Verdict.UNACCOUNTED, sentence, silver=batch)


def _original(silver: Judged, record: Mapping[str, Any], entry: Entry, lake: Lake) -> Found | None:
    """Return the row of which a record is a copy; where records were passed over, one whose key its bytes only mention is none."""
    if silver.keeps_copies or (entry.skipped and not entry.duplicates):
        return None
    first = original(silver, lake, record)
    if first is None or not entry.skipped:
        return first
    key = {name: first.row[name] for name in silver.key}
    return None if has_another(record["_payload"] or b"", key) else first


def _or_a_copy(
    silver: Judged, nowhere: Finding, entry: Entry, batch: Mapping[str, object]
) -> Finding:
    """Weaken a verdict about a record whose bytes do not identify its event: copies were dropped there as well."""
    sentence = (
        f"its bytes do not identify an event: it is one of the {entry.duplicates:,} copies that {silver.id} found where it "
        f"read it, or {nowhere.sentence}"
    )
    return make_finding(silver, Verdict.UNKNOWN, sentence, silver=batch)


def _explain_nowhere(silver: Judged, entry: Entry, batch: Mapping[str, object]) -> Finding | None:
    """Explain a record that is in no place: by what the entry of the batch that read it has counted so."""
    if entry.dropped_by_watermark:
        sentence = f"it was below the watermark of {silver.id}, which dropped rows of that batch"
        dropped = entry.dropped_by_watermark
        return make_finding(silver, Verdict.DROPPED, sentence, silver=batch, dropped=dropped)
    if entry.lost_by_function:
        lost = entry.lost_by_function
        sentence = (
            f"the function of {silver.id} gave no row for {lost:,} records of that batch, and this is one of them: a "
            "record that is no row needs one with `_problem` set"
        )
        return make_finding(silver, Verdict.LEFT_OUT, sentence, silver=batch, lost=lost)
    if entry.skipped:
        names = ", ".join(f"{name} {count:,}" for name, count in entry.skipped.items())
        sentence = f"{silver.id} passes it over by a rule; of the batch that read it: {names}"
        return make_finding(silver, Verdict.SKIPPED, sentence, silver=batch, skipped=entry.skipped)
    return None


def _explain_gone(
    silver: Judged,
    record: Mapping[str, Any],
    version: int,
    world: World,
    *,
    may_be_deleted: bool,
) -> Finding | None:
    """Explain which commit removed the row of a record; None when none did.

    Where its batch passed records over, it need not have been a row that was deleted, and no file says which.
    """
    gone = removed_row(world.lake.table(silver), Where(equal=Spot.of(record).where))
    if gone is not None:
        return explain_removed(silver, gone, world.lake)
    if not may_be_deleted:
        return None
    lost = expired_with(silver, record["_arrived_at"], version, world.lake)
    return explain_deleted(silver, *lost) if lost is not None else None


def explain_key(silver: Judged, parts: tuple[str, ...], world: World) -> Explained:
    """Return where the event with a key is in the lake."""
    lake, (bronze,) = world.lake, silver.upstream
    columns = kinds(lake.table(silver))
    key = {n: typed(n, part, columns.get(n, "")) for n, part in zip(silver.key, parts, strict=True)}
    rows = look(lake.table(silver), Where(equal=key))
    if rows:
        finding = _explain_present(silver, rows[0], world)
        return finding.also(offset=str(Spot.of(rows[0].row)), rows=len(rows)), rows[0]
    held_back = _without_mentions(key, records_with_key(lake.quarantine(silver), parts))
    kept = still_held(silver, lake, held_back)
    if kept:
        first = min(kept, key=lambda each: [each.row[name] for name in ARRIVAL_ORDER])
        spot = str(Spot.of(first.row))
        return _explain_held(silver, first, world).also(offset=spot, records=len(kept)), None
    records = unread_records(silver, lake, parts, read_until(silver, bronze, lake) + 1)
    for record in _without_mentions(key, records):
        finding = explain_waiting(silver, bronze, world)
        at = record.row["_arrived_at"]
        return finding.also(offset=str(Spot.of(record.row)), arrived_at=at), None
    gone = removed_row(lake.table(silver), Where(equal=key))
    if gone is not None:
        return explain_removed(silver, gone, world.lake), None
    sentence = (
        f"no row, no record in quarantine and no record that {silver.id} has not read has this key"
    )
    return make_finding(silver, Verdict.NEVER_PRODUCED, sentence, key=",".join(parts)), None


def _without_mentions(key: Mapping[str, object], records: Sequence[Found]) -> list[Found]:
    """Return the records that may have a key, without those that only mention it in another field."""
    return [each for each in records if not has_another(each.row["_payload"] or b"", key)]
