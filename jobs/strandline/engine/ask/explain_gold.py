"""Explain which rows of a gold table an event became, and why it became none."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, assert_never

from strandline import catalog

from strandline.core.kind import Day, shifted
from strandline.core.static import Static
from strandline.core.table import Appended, Ingested, Judged, Recomputed, Table, Upserted, Windowed
from strandline.core.topic import ITEM, NO_ITEMS
from strandline.engine.accounting.balance_sheet import read_until
from strandline.engine.accounting.held_records import FOLLOWED, REPLAY, resolved
from strandline.engine.ask.explain_unread import explain_deleted, explain_gate, explain_waiting
from strandline.engine.ask.locate import (
    Finding,
    Removed,
    Verdict,
    World,
    first_version,
    make_finding,
    removed_row,
    shown_row,
)
from strandline.engine.lake import static_versions
from strandline.engine.lake.commit.file_index import EPOCH, MICROSECOND
from strandline.engine.lake.completeness import known_reach, over_until
from strandline.engine.lake.find_rows import (
    Found,
    Where,
    first_reaching,
    look,
    newest_first,
    reading_batch,
    typed,
    version_of,
)
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.commit_log import committed_at
from strandline.engine.lake.log.ledger import Entry, entry_at
from strandline.engine.lake.log.ledger_sums import sums_of
from strandline.engine.lake.open_table import kinds

# Find the rows of a table that depend on a row of its source, by the tables' declarations alone.
#
# A table with windows: the rows with the same key whose window contains the row's event time; where its stream joins rows, also
# those whose window lies as far from it as rows that meet may. A table of intervals
# (``valid_until``): the rows with the same key that are valid at that time. Any other table: the rows with the same key.
# A key column that the source lacks is looked up in the dimension that the table reads, as of that time.
#
# If several rows of one window remain, or several windows that a joined row may be in, or no key column is known, the answer is None
# rather than a guess.


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step of lineage: a row of a source, and a table that reads the source.

    Args:
        source: The table of the row.
        row: The row.
        table: The table that reads the source.
        lake: The lake of both.
    """

    source: Table
    row: Mapping[str, Any]
    table: Table
    lake: Lake

    @property
    def moment(self) -> datetime:
        """Return the event time of the row."""
        moment: datetime = self.row[str(self.source.event_at)]
        return moment

    def where(self) -> Where | None:
        """Return the condition of the table's rows that depend on the row; None if it is unknown."""
        table = self.table
        equal = self._shared_key()
        start = window_start(table)
        if not equal and not start:
            return None
        if start:
            reach = self.reach
            if reach is None:
                return Where(equal=equal) if equal else None
            first = shifted(self.moment, MICROSECOND - table.window_length - reach)
            return Where(equal=equal, within={start: (first, shifted(self.moment, reach))})
        if table.valid_until:
            return Where(equal=equal, within={str(table.event_at): (None, self.moment)})
        if table.event_at in table.key and table.event_at in self.row:
            equal[table.event_at] = self.row[table.event_at]
        return Where(equal=equal)

    def rows(self) -> list[Found] | None:
        """Return the table's rows that depend on the row; None if they are unknown."""
        where = self.where()
        if where is None:
            return None
        rows = [
            each for each in look(self.lake.table(self.table), where) if self._is_valid(each.row)
        ]
        start = window_start(self.table)
        if start is None:
            return rows
        starts = Counter(each.row[start] for each in rows)
        if self.reach != timedelta(0):
            return rows if len(rows) < 2 else None  # noqa: PLR2004  # which of two it is nothing says
        if self._end is None:  # windows without an end column follow each other
            rows = [each for each in rows if each.row[start] == max(starts)]
        return None if any(count > 1 for count in starts.values()) else rows

    @property
    def reach(self) -> timedelta | None:
        """Return how far from the row the rows lie that the table may join it with; None for any time."""
        return known_reach(self.table, self.lake)

    @property
    def _end(self) -> str | None:
        return self.table.closes_at or self.table.valid_until

    def _is_valid(self, row: Mapping[str, Any]) -> bool:
        """Return whether the event time is before a row's end; an interval that the row itself ended depends on it too."""
        has_windows = bool(self.table.window_length)
        if has_windows and self.reach != timedelta(0):
            return True
        if self._end is None or not (has_windows or self.table.valid_until):
            return True
        end = row[self._end]
        is_last = self.moment == end and not has_windows
        return end is None or self.moment < end or is_last

    def _shared_key(self) -> dict[str, Any]:
        """Return the values of the table's key, without its times, as far as the row has them or they can be looked up."""
        columns = [name for name in self.table.key if name not in time_columns(self.table)]
        known = {name: self.row[name] for name in columns if name in self.row}
        for name in columns:
            if name in known:
                continue
            if (static := self._static_with(name)) is not None:
                key = tuple(self.row[each] for each in static.key)
                known[name] = static_versions.value(static, self.lake, key, self.moment, name)
            elif (side := self._dimension_with(name)) is not None:
                known[name] = self._look_up(side, name)
        return known

    def _static_with(self, name: str) -> Static | None:
        """Return the static table that adds a column, and whose key the row has."""
        found = (each for each in self.table.static if name in each.values)
        return next((each for each in found if all(key in self.row for key in each.key)), None)

    def _dimension_with(self, name: str) -> Table | None:
        """Return the dimension among the table's sources that has a column, and whose key the row has."""
        for side in self.table.upstream:
            own_key = [each for each in side.key if each not in time_columns(side)]
            is_known = side.valid_until and all(each in self.row for each in own_key)
            if is_known and name in kinds(self.lake.table(side)):
                return side
        return None

    def _look_up(self, side: Table, name: str) -> object:
        valid = Step(source=self.source, row=self.row, table=side, lake=self.lake).rows()
        end = str(side.valid_until)
        open_ones = [each.row for each in valid or () if self.moment != each.row[end]]
        return open_ones[0][name] if open_ones else self.table.unknown


def time_columns(table: Table) -> set[str | None]:
    """Return the time columns of a table."""
    match table:
        case Windowed() | Upserted() | Recomputed():
            return {table.event_at, table.window_from}
        case Ingested() | Judged() | Appended():
            return {table.event_at}
        case _:
            assert_never(table)


def window_start(table: Table) -> str | None:
    """Return the column with the start of a row's window; None for a table without windows."""
    match table:
        case Windowed() | Recomputed() | Upserted(window=str() | Day()):
            return table.window_from
        case Ingested() | Judged() | Appended() | Upserted():
            return None
        case _:
            assert_never(table)


def emitted_by(step: Step) -> datetime | None:
    """Return the latest event time at which the table emits a row that waits for it; None if it emits rows at once."""
    match step.table:
        case Windowed(window=Day() as window):
            ends = window.ends(window.date_of(step.moment))
            return shifted(ends, step.reach or timedelta(0))
        case Recomputed(waits=True) as table if step.source in table.timed:
            return _over_at(table, step.moment)
        case Windowed(window_length=length):
            epoch = datetime.fromtimestamp(0, tz=step.moment.tzinfo)
            ends = epoch + ((step.moment - epoch) // length + 1) * length
            return shifted(ends, step.reach or timedelta(0))
        case Appended(event_at=moment, closes_at=str() as end):
            # Rows that waited in vain show how long a row waits for its partner.
            waited = look(step.lake.table(step.table), Where(), (moment, end))
            spans = [
                each.row[end] - each.row[moment] for each in waited if each.row[end] is not None
            ]
            return step.moment + max(spans) if spans else step.moment
        case Ingested() | Judged() | Appended() | Upserted() | Recomputed():
            return None
        case _:
            assert_never(step.table)


def _over_at(table: Recomputed, moment: datetime) -> datetime:
    """Return when the first window of a row is over, in a table that waits for that."""
    if day := table.local_day:
        return shifted(day.ends(day.date_of(moment)), table.reaches)
    since = (moment - EPOCH - table.window_length) % table.step
    return shifted(moment - since, table.step + table.reaches)


def last_watermark(table: Table, lake: Lake) -> datetime | None:
    """Return the watermark of the last batch that a table's stream wrote."""
    marks = (entry.watermark for _, entry in newest_first(lake.table(table)) if entry.watermark)
    newest = next(marks, None)
    return datetime.fromisoformat(newest) if newest else None


def readers_of(table: Table, lake: Lake) -> list[Table]:
    """Return the tables that read a table and exist."""
    return [t for t in catalog.tables() if table in t.upstream and lake.exists(t)]


def reached(table: Table, lake: Lake) -> list[Table]:
    """Return the existing tables downstream of a table, each after those that it needs; one that looks rows up in it among them."""
    found = [table]
    for other in catalog.tables():
        if lake.exists(other) and any(source in found for source in other.needs):
            found.append(other)
    return found[1:]


def path_between(source: Table, table: Table) -> list[Table] | None:
    """Return the tables from a source to a table that depends on it, both included; None if it does not."""
    if source == table:
        return [source]
    for each in table.upstream:
        before = path_between(source, each)
        if before is not None:
            return [*before, table]
    return None


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
        keys = [shown_key(table, each.row, world.lake) for each in rows]
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
        "key": shown_key(table, row.row, lake),
        "version": version_of(path, row.file),
        "file": row.file.below(path),
        "row": shown_row(table, row.row, lake),
    }
    if table.static:
        evidence["joined"] = _joined(table, row.row, lake)
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


def _joined(table: Table, row: Mapping[str, Any], lake: Lake) -> list[dict[str, object]]:
    """Return the version of each static table that holds of a row's time."""
    found = []
    for static in table.static:
        held = static_versions.at(static, lake, row[str(table.event_at)])
        version = {"version": held[0], "holds_from": held[1].holds_from} if held else {}
        found.append({"static": static.id, **version})
    return found


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
    return [shown_row(side, each.row, lake) for each in rows[:NEAR]]


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
    end, watermark = emitted_by(step), over_until(table, lake) or last_watermark(table, lake)
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
        return explain_removed(table, gone, lake)
    read = None if version is None else reading_batch(lake.table(table), source.id, version)
    if read is not None and read[1].dropped_by_watermark:
        sentence = f"it was below the watermark of {table.id}, which dropped rows of that batch"
        return make_finding(table, Verdict.DROPPED, sentence, dropped=read[1].dropped_by_watermark)
    if table.listed and not step.row.get(table.listed):
        sentence = (
            f"its list {table.listed} is {'missing' if step.row.get(table.listed) is None else 'empty'}, so {table.id}, which "
            f"makes a row of each item, passed it over ({NO_ITEMS})"
        )
        return make_finding(table, Verdict.SKIPPED, sentence, source=source.id, version=version)
    sentence = f"{table.id} has read it and makes no row of it"
    return make_finding(table, Verdict.LEFT_OUT, sentence, source=source.id, version=version)


def explain_removed(table: Table, gone: Removed, lake: Lake) -> Finding:
    """Explain which commit removed a row."""
    entry = gone.entry
    if entry.removed:
        return explain_deleted(table, gone.version, entry).also(
            row=None if entry.forgotten else shown_row(table, gone.row.row, lake)
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
        row=shown_row(table, gone.row.row, lake),
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
        return explain_removed(table, gone, lake)
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
    if result is None:
        return None
    finding, there = result
    if there:
        return _explain_item(step, key) if table.listed else None
    return finding.also(rows_of_source=len(rows))


def _explain_item(step: Step, key: Mapping[str, object]) -> Finding:
    """Explain why an item of a record is no row of a table that has others of it."""
    table, number, size = step.table, key.get(ITEM), len(step.row.get(step.table.listed) or ())
    if isinstance(number, int) and 0 <= number < size:
        sentence = f"{table.id} has read item {number} of {table.listed} and makes no row of it"
        return make_finding(table, Verdict.LEFT_OUT, sentence, source=step.source.id, items=size)
    sentence = (
        f"the list {table.listed} of the record has {size} items, from 0 on, and no item {number}"
    )
    return make_finding(table, Verdict.NEVER_PRODUCED, sentence, source=step.source.id, items=size)


def shown_key(table: Table, row: Mapping[str, Any], lake: Lake) -> dict[str, Any]:
    """Return a row's key, sensitive columns masked."""
    return shown_row(table, {name: row[name] for name in table.key}, lake)
