"""What a table above the judged ones says of an event, and why it says nothing of it."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from jobs.core.table import Speaks, Table
from jobs.run.balance import in_force, read_until
from jobs.run.contributed import MICROSECOND, Rest, above, closes, times, watermark, window
from jobs.run.finding import Finding, Verdict, World, found, own
from jobs.run.lake import Lake
from jobs.run.ledger import Entry, commit_file, entries, entry_of
from jobs.run.moments import committed_at
from jobs.run.needle import Found, Where, kinds, look, typed
from jobs.run.resolutions import FOLLOWED, REPLAY, resolved
from jobs.run.trace import Departed, came_in, departed, reader, version_of
from jobs.run.unread import shut_out, waits

NEAR = 5
"""So many rows are shown of those that were near."""


def carried(rest: Rest, version: int | None, world: World) -> tuple[Finding, list[Found]] | None:
    """Say what became of a row in a table that reads it, and in which rows; None when that cannot be told.

    Args:
        rest: The row, and the table above it.
        version: Of its own table, in which the row came.
        world: Where.
    """
    rows = rest.rows()
    if rows is None:
        return None
    if rows:
        return said(rest.table, rows[0], world.lake), rows
    return _silent(rest, version, world), []


def resting(source: Table, row: Found, world: World) -> list[dict[str, object]]:
    """Return what each table above says of a row, and those above them."""
    told: list[dict[str, object]] = []
    version = came_in(source, world.lake.table(source), row)
    for table in above(source, world.lake):
        rest = Rest(source=source, row=row.row, table=table, lake=world.lake)
        one = carried(rest, version, world)
        if one is None:
            told.append({"table": table.id, "verdict": None, "sentence": "it does not say"})
            continue
        finding, rows = one
        keys = [key_of(table, each.row) for each in rows]
        told.append(
            {
                "table": table.id,
                "verdict": finding.verdict,
                "sentence": finding.sentence,
                "rows": keys,
            }
        )
        if rows and not table.valid_until:  # an interval is asked by others, as of their own time
            told += resting(table, rows[0], world)
    return told


def said(table: Table, row: Found, lake: Lake) -> Finding:
    """Say of a row that is there whether anything was found for it."""
    path = lake.table(table)
    evidence: dict[str, object] = {
        "key": key_of(table, row.row),
        "version": version_of(path, row.file),
        "file": str(row.file.relative_to(path)),
        "row": own(table, row.row),
    }
    if table.looks_up and all(row.row[name] is None for name in table.looks_up.columns):
        moment = row.row[str(table.event_at)]
        side = table.looks_up.source
        sentence = f"the row is there; {side.id} says nothing about it as of {moment.isoformat()}"
        near = _near(table, side, row.row, lake)
        return found(table, Verdict.NO_MATCH, sentence, **evidence, static=side.id, near=near)
    blank = [name for name, value in row.row.items() if table.unknown and value == table.unknown]
    if blank:
        sides = [side.id for side in table.upstream]
        sentence = f"the row is there; nothing in {' and '.join(sides)} says its {', '.join(blank)} at that time"
        return found(table, Verdict.NO_MATCH, sentence, **evidence, unknown=blank)
    absent = _absent(table, row.row)
    if absent is not None:
        sentence = f"the row is there; no row of {absent.id} was in time for it"
        near = _near(table, absent, row.row, lake)
        return found(table, Verdict.NO_PARTNER, sentence, **evidence, partner=absent.id, near=near)
    return found(table, Verdict.IN_TABLE, f"it is in {table.id}", **evidence)


def _absent(table: Table, row: Mapping[str, Any]) -> Table | None:
    """Return the source whose part of a row's key is not there."""
    for name in table.key:
        if row[name] is None:
            return next((side for side in table.upstream if name in side.key), None)
    return None


def _near(table: Table, side: Table, row: Mapping[str, Any], lake: Lake) -> list[dict[str, object]]:
    """Return rows of another table that share a row's key, as far as they have it, whatever their time."""
    path = lake.table(side)
    names = [n for n in table.key if n in kinds(path) and n not in times(table)]
    same = {name: row[name] for name in names if row[name] is not None}
    rows = look(path, Where(equal=same)) if same else []
    return [own(side, each.row) for each in rows[:NEAR]]


def _silent(rest: Rest, version: int | None, world: World) -> Finding:
    """Say why a table has no row for one of its source."""
    table, source, lake = rest.table, rest.source, world.lake
    if not lake.exists(table):
        return waits(table, source, world)
    entry = None if version is None else entry_of(commit_file(lake.table(source), version))
    if entry and entry.is_passed_over and not _taken_in(rest, version or 0, entry):
        sentence = (
            f"it came to {source.id} in a commit that {table.id} passes over; "
            f"a backfill of {table.id} takes it in"
        )
        return found(table, Verdict.NOT_READ_YET, sentence, version=version, mode=entry.mode)
    if version is not None and version > read_until(table, source, lake):
        return waits(table, source, world)
    return _unsaid(rest, version, world)


def _taken_in(rest: Rest, version: int, entry: Entry) -> bool:
    """Tell whether a table knows of a commit of its source that streams pass over."""
    table, source, lake = rest.table, rest.source, rest.lake
    if table.speaks is Speaks.AFRESH:
        return True
    told = in_force(list(entries(lake.table(table))))
    if told and _began_with(told[0][1], source, version):
        return True
    if entry.mode == REPLAY:
        done = {each.stream for each in resolved(source, lake) if each.mode == FOLLOWED}
        return entry.stream in done
    moment = rest.row[str(source.event_at)].isoformat()
    came = committed_at(lake.table(source), version)
    return any(
        each.is_backfill
        and str(each.since) <= moment < str(each.until)
        and committed_at(lake.table(table), at) > came
        for at, each in told
    )


def _began_with(begun: Entry, source: Table, version: int) -> bool:
    """Tell whether a table's first entry in force read a source as it stood at a version or later."""
    first, last = begun.versions.get(source.id, (0, -1))
    is_whole = begun.whole and version <= first
    return is_whole or (begun.replaced and not begun.promoted and version <= last)


def _unsaid(rest: Rest, version: int | None, world: World) -> Finding:
    """Say why a table that has read a row says nothing of it."""
    table, source, lake = rest.table, rest.source, world.lake
    end, stands = closes(rest), watermark(table, lake)
    if end is not None and (stands is None or end > stands):
        sentence = (
            f"{table.id} says it once event time is {end.isoformat()}; it is {_stands(stands)} now"
        )
        finding = shut_out(table, source, lake)
        if finding is not None:
            return finding.also(closes_at=end, watermark=stands)
        return found(table, Verdict.OPEN, sentence, closes_at=end, watermark=stands)
    where = rest.where()
    gone = departed(lake.table(table), where) if where else None
    if gone is not None:
        return replaced(table, gone)
    read = None if version is None else reader(lake.table(table), source, version)
    if read is not None and read[1].dropped_by_watermark:
        sentence = (
            f"the state of {table.id} had let go of its time: rows of that batch were refused"
        )
        return found(table, Verdict.DROPPED, sentence, dropped=read[1].dropped_by_watermark)
    sentence = f"{table.id} has read it and makes no row of it"
    return found(table, Verdict.LEFT_OUT, sentence, source=source.id, version=version)


def _stands(watermark_at: datetime | None) -> str:
    return watermark_at.isoformat() if watermark_at else "nowhere yet"


def replaced(table: Table, gone: Departed) -> Finding:
    """Say which commit took a row away."""
    entry = gone.entry
    ranged = f" from {entry.since} to {entry.until}" if entry.since else ""
    what = {"batch": "batch run"}.get(entry.mode, entry.mode)
    what = "promotion" if entry.promoted else what
    sentence = (
        f"it was in {table.id} until the {what}{ranged} took it away, in version {gone.version}"
    )
    return found(
        table,
        Verdict.REPLACED,
        sentence,
        version=gone.version,
        mode=entry.mode,
        since=entry.since,
        until=entry.until,
        was_in={"version": gone.version - 1, "file": gone.found.file.name},
        row=own(table, gone.found.row),
    )


def by_key(table: Table, parts: tuple[str, ...], world: World) -> Finding:
    """Say of a row of a table above the judged ones, by its whole key, whether it is there and why not."""
    lake = world.lake
    path = lake.table(table)
    columns = kinds(path)
    key = {n: typed(n, part, columns[n]) for n, part in zip(table.key, parts, strict=True)}
    rows = look(path, Where(equal=key))
    if rows:
        return said(table, rows[0], lake)
    gone = departed(path, Where(equal=key))
    if gone is not None:
        return replaced(table, gone)
    for source in table.upstream:
        finding = _by_source(table, source, key, world)
        if finding is not None:
            return finding
    sources = " and ".join(source.id for source in table.upstream)
    sentence = f"no row of {sources} makes such a row of {table.id}"
    return found(table, Verdict.NEVER_PRODUCED, sentence, key=key)


def _by_source(
    table: Table, source: Table, key: Mapping[str, object], world: World
) -> Finding | None:
    """Say what became of the rows of a source from which a row would come; None when there are none."""
    columns = kinds(world.lake.table(source))
    equal = {n: v for n, v in key.items() if n in columns and n not in times(table)}
    first = key.get(str(table.window_from))
    if source.valid_until or not equal or (table.window and not isinstance(first, datetime)):
        return None
    within = {}
    if isinstance(first, datetime) and table.window:
        within = {str(source.event_at): (first, first + window(table) - MICROSECOND)}
    rows = look(world.lake.table(source), Where(equal=equal, within=within))
    if not rows:
        return None
    newest = max(rows, key=lambda each: each.row[str(source.event_at)])
    version = came_in(source, world.lake.table(source), newest)
    rest = Rest(source=source, row=newest.row, table=table, lake=world.lake)
    one = carried(rest, version, world)
    return None if one is None or one[1] else one[0].also(rows_of_source=len(rows))


def key_of(table: Table, row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row's key as it may be shown."""
    return own(table, {name: row[name] for name in table.key})
