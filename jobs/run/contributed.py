"""Which rows of a table rest on a row of its source, told from the declarations alone.

A window: the rows of its key in whose windows the row's moment lies. A row that holds for a while (``valid_until``): the
rows of its key that hold at that moment. Anything else: the rows of its key. What a key has and the source has not is
looked up in the static side that the table reads, as of that moment.

Where that leaves several rows of one window, or no column to go by, it is not told, rather than guessed.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from jobs import catalog
from jobs.core.table import Speaks, Table
from jobs.run.lake import Lake
from jobs.run.ledger import entries
from jobs.run.needle import Found, Where, kinds, look

MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rest:
    """A row of a source, and how a table would carry it on.

    Args:
        source: The table of the row.
        row: The row.
        table: The table above it.
        lake: Where both are.
    """

    source: Table
    row: Mapping[str, Any]
    table: Table
    lake: Lake

    @property
    def moment(self) -> datetime:
        """Return the moment of the row."""
        moment: datetime = self.row[str(self.source.event_at)]
        return moment

    def where(self) -> Where | None:
        """Return which rows of the table rest on the row; None when that cannot be told."""
        table = self.table
        equal = self._shared()
        if not equal and not self._has_windows:
            return None
        if self._has_windows:
            first = self.moment - window(table) + MICROSECOND
            return Where(equal=equal, within={str(table.window_from): (first, self.moment)})
        if table.valid_until:
            return Where(equal=equal, within={str(table.event_at): (None, self.moment)})
        if table.event_at in table.key and table.event_at in self.row:
            equal[table.event_at] = self.row[table.event_at]
        return Where(equal=equal)

    def rows(self) -> list[Found] | None:
        """Return the rows that rest on it; None when that cannot be told."""
        where = self.where()
        if where is None:
            return None
        found = [each for each in look(self.lake.table(self.table), where) if self._holds(each.row)]
        if not self._has_windows:
            return found
        starts = Counter(each.row[str(self.table.window_from)] for each in found)
        if self._end is None:  # windows that do not say their end follow each other
            found = [each for each in found if each.row[str(self.table.window_from)] == max(starts)]
        return None if any(count > 1 for count in starts.values()) else found

    @property
    def _has_windows(self) -> bool:
        return self.table.window is not None and self.table.window_from is not None

    @property
    def _end(self) -> str | None:
        return self.table.closes_at or self.table.valid_until

    def _holds(self, row: Mapping[str, Any]) -> bool:
        """Tell whether the moment lies before a row's end; one that ended with the row itself rests on it too."""
        if self._end is None or not (self._has_windows or self.table.valid_until):
            return True
        end = row[self._end]
        is_last = self.moment == end and not self._has_windows
        return end is None or self.moment < end or is_last

    def _shared(self) -> dict[str, Any]:
        """Return the values of the table's key, without its times, as far as they are known of the row."""
        columns = [name for name in self.table.key if name not in times(self.table)]
        known = {name: self.row[name] for name in columns if name in self.row}
        for name in columns:
            side = self._static(name) if name not in known else None
            if side is not None:
                known[name] = self._as_of(side, name)
        return known

    def _static(self, name: str) -> Table | None:
        """Return the static side among the sources of the table that has a column, and the row's key."""
        for side in self.table.upstream:
            own_key = [each for each in side.key if each not in times(side)]
            is_known = side.valid_until and all(each in self.row for each in own_key)
            if is_known and name in kinds(self.lake.table(side)):
                return side
        return None

    def _as_of(self, side: Table, name: str) -> object:
        valid = Rest(source=self.source, row=self.row, table=side, lake=self.lake).rows()
        end = str(side.valid_until)
        open_ones = [each.row for each in valid or () if self.moment != each.row[end]]
        return open_ones[0][name] if open_ones else self.table.unknown


def times(table: Table) -> set[str | None]:
    """Return the columns of a table that say when."""
    return {table.event_at, table.window_from}


def window(table: Table) -> timedelta:
    """Return the length of a table's windows, which Spark reads as pairs of a number and a unit."""
    words = str(table.window).lower().removeprefix("interval ").split()
    pairs = zip(words[::2], words[1::2], strict=True)
    return sum(
        (timedelta(**{f"{unit.rstrip('s')}s": float(count)}) for count, unit in pairs),
        timedelta(0),
    )


def closes(rest: Rest) -> datetime | None:
    """Return when a table that speaks on close says its word about a row at the latest; None when it cannot be told."""
    table = rest.table
    if table.speaks is not Speaks.ON_CLOSE or table.closes_at is None:
        return None
    if table.window:
        epoch = datetime.fromtimestamp(0, tz=rest.moment.tzinfo)
        length = window(table)
        return epoch + ((rest.moment - epoch) // length + 1) * length
    # How long a row waits for its partner is said by those that waited in vain.
    moment, end = str(table.event_at), table.closes_at
    waited = look(rest.lake.table(table), Where(), (moment, end))
    spans = [each.row[end] - each.row[moment] for each in waited if each.row[end] is not None]
    return rest.moment + max(spans) if spans else rest.moment


def watermark(table: Table, lake: Lake) -> datetime | None:
    """Return where event time stood when a table's stream wrote last."""
    told = [entry.watermark for _, entry in entries(lake.table(table)) if entry.watermark]
    return datetime.fromisoformat(told[-1]) if told else None


def above(table: Table, lake: Lake) -> list[Table]:
    """Return the tables that read a table and exist."""
    return [t for t in catalog.tables() if table in t.upstream and lake.exists(t)]


def way(source: Table, table: Table) -> list[Table] | None:
    """Return the tables from one to another that rests on it, both included; None when it does not."""
    if source == table:
        return [source]
    for each in table.upstream:
        before = way(source, each)
        if before is not None:
            return [*before, table]
    return None
