"""Find the rows of a table that depend on a row of its source, by the tables' declarations alone.

A table with windows: the rows with the same key whose window contains the row's event time; where its stream joins rows, also
those whose window lies as far from it as rows that meet may. A table of intervals
(``valid_until``): the rows with the same key that are valid at that time. Any other table: the rows with the same key.
A key column that the source lacks is looked up in the dimension that the table reads, as of that time.

If several rows of one window remain, or several windows that a joined row may be in, or no key column is known, the answer is None
rather than a guess.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, assert_never

from strandline import catalog

from strandline.core.moment import shifted
from strandline.core.table import Appended, Ingested, Judged, Recomputed, Table, Upserted, Windowed
from strandline.engine.storage.find_rows import Found, Where, look
from strandline.engine.storage.known_reach import known_reach
from strandline.engine.storage.lake import Lake
from strandline.engine.storage.ledger_search import newest_first
from strandline.engine.storage.open_table import kinds
from strandline.engine.storage.window_index import MICROSECOND


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
            side = self._dimension_with(name) if name not in known else None
            if side is not None:
                known[name] = self._look_up(side, name)
        return known

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
        case Windowed() | Recomputed() | Upserted(window=str()):
            return table.window_from
        case Ingested() | Judged() | Appended() | Upserted():
            return None
        case _:
            assert_never(table)


def emitted_by(step: Step) -> datetime | None:
    """Return the latest event time at which the table emits a row that waits for it; None if it emits rows at once."""
    match step.table:
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


def last_watermark(table: Table, lake: Lake) -> datetime | None:
    """Return the watermark of the last batch that a table's stream wrote."""
    marks = (entry.watermark for _, entry in newest_first(lake.table(table)) if entry.watermark)
    newest = next(marks, None)
    return datetime.fromisoformat(newest) if newest else None


def readers_of(table: Table, lake: Lake) -> list[Table]:
    """Return the tables that read a table and exist."""
    return [t for t in catalog.tables() if table in t.upstream and lake.exists(t)]


def path_between(source: Table, table: Table) -> list[Table] | None:
    """Return the tables from a source to a table that depends on it, both included; None if it does not."""
    if source == table:
        return [source]
    for each in table.upstream:
        before = path_between(source, each)
        if before is not None:
            return [*before, table]
    return None
