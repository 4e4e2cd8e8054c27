"""Explain which rows of a gold table an event became, and why it became none."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from strandline.core.moment import shifted
from strandline.core.table import Recomputed, Table
from strandline.engine.accounting.balance_sheet import read_until
from strandline.engine.quarantine.resolutions import FOLLOWED, REPLAY, resolved
from strandline.engine.storage.batch_of_offset import reading_batch
from strandline.engine.storage.commit_time import committed_at
from strandline.engine.storage.find_rows import Found, Where, look, typed
from strandline.engine.storage.known_reach import known_reach
from strandline.engine.storage.lake import Lake
from strandline.engine.storage.ledger import Entry, entry_at
from strandline.engine.storage.ledger_search import first_reaching
from strandline.engine.storage.ledger_snapshot import sums_of
from strandline.engine.storage.open_table import kinds
from strandline.engine.storage.version_of_file import version_of
from strandline.engine.storage.window_index import MICROSECOND
from strandline.engine.trace.deleted import explain_deleted
from strandline.engine.trace.explain_unread import explain_gate, explain_waiting
from strandline.engine.trace.locate import Removed, first_version, removed_row
from strandline.engine.trace.row_lineage import (
    Step,
    emitted_by,
    last_watermark,
    readers_of,
    time_columns,
    window_start,
)
from strandline.engine.trace.verdict import Finding, Verdict, World, make_finding, shown_row

NEAR = 5
"""The most rows that are shown of those with the same key."""


def follow_row(step: Step, version: int | None, world: World) -> tuple[Finding, list[Found]] | None:
    """Return what became of a row in a table that reads it, and the rows there; None if they are unknown.

    Args:
        step: The row, and the table above it.
        version: The version of its own table in which the row came.
        world: The lake, the time and Kafka.
    """
    rows = step.rows()
    if rows is None:
        return None
    if rows:
        return explain_present(step.table, rows[0], world.lake), rows
    return _explain_absent(step, version, world), []


def rows_above(source: Table, row: Found, world: World) -> list[dict[str, object]]:
    """Return what became of a row in each table above it, through all layers."""
    steps: list[dict[str, object]] = []
    version = first_version(source, world.lake, row)
    for table in readers_of(source, world.lake):
        step = Step(source=source, row=row.row, table=table, lake=world.lake)
        result = follow_row(step, version, world)
        if result is None:
            sentence = "which of its rows depend on it is unknown"
            steps.append({"table": table.id, "verdict": None, "sentence": sentence})
            continue
        finding, rows = result
        keys = [shown_key(table, each.row) for each in rows]
        steps.append(
            {
                "table": table.id,
                "verdict": finding.verdict,
                "sentence": finding.sentence,
                "rows": keys,
            }
        )
        if rows and not table.valid_until:  # tables above join intervals as of their own rows' time
            steps += rows_above(table, rows[0], world)
    return steps


def explain_present(table: Table, row: Found, lake: Lake) -> Finding:
    """Return whether a row of a table found its match in the dimension, and its join partner."""
    path = lake.table(table)
    evidence: dict[str, object] = {
        "key": shown_key(table, row.row),
        "version": version_of(path, row.file),
        "file": row.file.below(path),
        "row": shown_row(table, row.row),
    }
    if table.dimension and all(row.row[name] is None for name in table.dimension.columns):
        moment = row.row[str(table.event_at)]
        side = table.dimension.source
        sentence = f"the row is there; {side.id} has no match for it as of {moment.isoformat()}"
        near = _near_rows(table, side, row.row, lake)
        return make_finding(
            table, Verdict.NO_MATCH, sentence, **evidence, static=side.id, near=near
        )
    blank = [name for name, value in row.row.items() if table.unknown and value == table.unknown]
    if blank:
        sides = [side.id for side in table.upstream]
        sentence = f"the row is there; no row of {' or '.join(sides)} has its {', '.join(blank)} at that time"
        return make_finding(table, Verdict.NO_MATCH, sentence, **evidence, unknown=blank)
    absent = _missing_source(table, row.row)
    if absent is not None:
        sentence = f"the row is there; no row of {absent.id} was in time for it"
        near = _near_rows(table, absent, row.row, lake)
        return make_finding(
            table, Verdict.NO_PARTNER, sentence, **evidence, partner=absent.id, near=near
        )
    return make_finding(table, Verdict.IN_TABLE, f"it is in {table.id}", **evidence)


def _missing_source(table: Table, row: Mapping[str, Any]) -> Table | None:
    """Return the source whose column of a row's key is NULL."""
    for name in table.key:
        if row[name] is None:
            return next((side for side in table.upstream if name in side.key), None)
    return None


def _near_rows(
    table: Table, side: Table, row: Mapping[str, Any], lake: Lake
) -> list[dict[str, object]]:
    """Return rows of another table with the same key columns, without regard to time."""
    path = lake.table(side)
    names = [n for n in table.key if n in kinds(path) and n not in time_columns(table)]
    same = {name: row[name] for name in names if row[name] is not None}
    rows = look(path, Where(equal=same)) if same else []
    return [shown_row(side, each.row) for each in rows[:NEAR]]


def _explain_absent(step: Step, version: int | None, world: World) -> Finding:
    """Explain why a table has no row for a row of its source."""
    table, source, lake = step.table, step.source, world.lake
    if not lake.exists(table):
        return explain_waiting(table, source, world)
    entry = None if version is None else entry_at(lake.table(source), version)
    if entry and entry.is_passed_over and not _has_taken_in(step, version or 0, entry):
        sentence = (
            f"it came to {source.id} in a commit that {table.id} skips; "
            f"a backfill of {table.id} reads it"
        )
        return make_finding(table, Verdict.NOT_READ_YET, sentence, version=version, mode=entry.mode)
    if version is not None and version > read_until(table, source, lake):
        return explain_waiting(table, source, world)
    return _explain_no_row(step, version, world)


def _has_taken_in(step: Step, version: int, entry: Entry) -> bool:
    """Return whether a table has the rows of a commit of its source that streams skip."""
    table, source, lake = step.table, step.source, step.lake
    if isinstance(table, Recomputed):
        return True
    path = lake.table(table)
    sums = sums_of(path)
    begun = first_reaching(path, 0, lambda _: 0, max(sums.replaced_at, 0))
    if begun and _began_with(begun[1], source, version):
        return True
    if entry.mode == REPLAY:
        done = {each.stream for each in resolved(source, lake) if each.mode == FOLLOWED}
        return entry.stream in done
    moment = step.row[str(source.event_at)].isoformat()
    came = committed_at(lake.table(source), version)
    versions = [each.last for each in sums.repairs.values() if each.first >= sums.replaced_at]
    return any(
        (repair := entry_at(path, at))
        and str(repair.since) <= moment < str(repair.until)
        and committed_at(path, at) > came
        for at in versions
    )


def _began_with(begun: Entry, source: Table, version: int) -> bool:
    """Return whether a table's first entry in force read all of a source at a version or later."""
    first, last = begun.versions.get(source.id, (0, -1))
    is_whole = begun.whole and version <= first
    return is_whole or (begun.replaced and not begun.promoted and version <= last)


def _explain_no_row(step: Step, version: int | None, world: World) -> Finding:
    """Explain why a table that has read a row made no row of it."""
    table, source, lake = step.table, step.source, world.lake
    end, watermark = emitted_by(step), last_watermark(table, lake)
    if end is not None and (watermark is None or end > watermark):
        sentence = (
            f"{table.id} emits it when the watermark reaches {end.isoformat()}; "
            f"the watermark is {watermark.isoformat() if watermark else 'not set'} now"
        )
        finding = explain_gate(table, source, lake)
        if finding is not None:
            return finding.also(closes_at=end, watermark=watermark)
        return make_finding(table, Verdict.OPEN, sentence, closes_at=end, watermark=watermark)
    where = step.where()
    gone = removed_row(lake.table(table), where) if where else None
    if gone is not None:
        return explain_removed(table, gone)
    read = None if version is None else reading_batch(lake.table(table), source.id, version)
    if read is not None and read[1].dropped_by_watermark:
        sentence = f"it was below the watermark of {table.id}, which dropped rows of that batch"
        return make_finding(table, Verdict.DROPPED, sentence, dropped=read[1].dropped_by_watermark)
    sentence = f"{table.id} has read it and makes no row of it"
    return make_finding(table, Verdict.LEFT_OUT, sentence, source=source.id, version=version)


def explain_removed(table: Table, gone: Removed) -> Finding:
    """Explain which commit removed a row."""
    entry = gone.entry
    if entry.removed:
        return explain_deleted(table, gone.version, entry).also(
            row=None if entry.forgotten else shown_row(table, gone.row.row)
        )
    ranged = f" from {entry.since} to {entry.until}" if entry.since else ""
    what = {"batch": "batch run"}.get(entry.mode, entry.mode)
    what = "promotion" if entry.promoted else what
    sentence = (
        f"it was in {table.id} until the {what}{ranged} removed it, in version {gone.version}"
    )
    return make_finding(
        table,
        Verdict.REPLACED,
        sentence,
        version=gone.version,
        mode=entry.mode,
        since=entry.since,
        until=entry.until,
        was_in={"version": gone.version - 1, "file": gone.row.file.name},
        row=shown_row(table, gone.row.row),
    )


def explain_gold_key(table: Table, parts: tuple[str, ...], world: World) -> Finding:
    """Explain by a whole key whether a gold table has the row, and why not."""
    lake = world.lake
    path = lake.table(table)
    columns = kinds(path)
    key = {n: typed(n, part, columns[n]) for n, part in zip(table.key, parts, strict=True)}
    rows = look(path, Where(equal=key))
    if rows:
        return explain_present(table, rows[0], lake)
    gone = removed_row(path, Where(equal=key))
    if gone is not None:
        return explain_removed(table, gone)
    for source in table.upstream:
        finding = _explain_by_source(table, source, key, world)
        if finding is not None:
            return finding
    sources = " and ".join(source.id for source in table.upstream)
    sentence = f"no row of {sources} becomes such a row of {table.id}"
    return make_finding(table, Verdict.NEVER_PRODUCED, sentence, key=key)


def _explain_by_source(
    table: Table, source: Table, key: Mapping[str, object], world: World
) -> Finding | None:
    """Explain what became of the source rows of a missing row; None if there are none."""
    columns = kinds(world.lake.table(source))
    equal = {n: v for n, v in key.items() if n in columns and n not in time_columns(table)}
    start = window_start(table)
    first = key.get(start) if start else None
    if source.valid_until or not equal or (start and not isinstance(first, datetime)):
        return None
    within = {}
    if isinstance(first, datetime):
        reach = known_reach(table, world.lake)
        last = shifted(first, table.window_length - MICROSECOND)
        if reach is not None:
            within = {str(source.event_at): (shifted(first, -reach), shifted(last, reach))}
    rows = look(world.lake.table(source), Where(equal=equal, within=within))
    if not rows:
        return None
    newest = max(rows, key=lambda each: each.row[str(source.event_at)])
    version = first_version(source, world.lake, newest)
    step = Step(source=source, row=newest.row, table=table, lake=world.lake)
    result = follow_row(step, version, world)
    return None if result is None or result[1] else result[0].also(rows_of_source=len(rows))


def shown_key(table: Table, row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row's key, sensitive columns masked."""
    return shown_row(table, {name: row[name] for name in table.key})
