"""What a lake has after a scenario, beside what was expected: rows, quarantine, ledger, and what helps to see why they differ."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, TypeAlias

from strandline.core.errors import DefinitionError
from strandline.core.table import Computed, Ingested, Judged, Table
from strandline.core.topic import PLACE
from strandline.engine.accounting.balance_sheet import balance
from strandline.engine.accounting.routes import seen_by
from strandline.engine.flow.plan import emits_over_time
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger import is_table
from strandline.engine.lake.read.open_table import opened
from strandline.engine.quarantine.held_records import held
from strandline.testing import expected
from strandline.testing.event_time import moment
from strandline.testing.expected import Row

Place: TypeAlias = tuple[str, int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """A look at a table and those below it.

    Args:
        lake: The lake.
        table: The table.
        clocks: The places of records by which ``advance`` moved time.
        sent_to: The topics to which something was sent.
        now: The clock of the scenario.
        is_dead: Whether the process is stopped.
    """

    lake: Lake
    table: Computed
    clocks: frozenset[Place]
    sent_to: frozenset[str]
    now: datetime
    is_dead: bool

    def rows(self) -> list[dict[str, Any]]:
        """Return the rows of the table that are not of records of ``advance`` alone."""
        rows = self._read(self.table)
        if not self.clocks:
            return rows
        self._held()
        if isinstance(self.table, Judged):
            return [row for row in rows if not self._is_clock(row)]
        times, others = set[datetime](), set[datetime]()
        for judged in self._judged():
            for row in self._read(judged):
                (times if self._is_clock(row) else others).add(row[judged.event_at])
        return [row for row in rows if not is_of_clocks(row, self.table, times - others, others)]

    def differs(
        self,
        rows: Sequence[Row] | None,
        quarantined: Mapping[str, int] | None,
        ledger: Mapping[str, object] | None,
    ) -> list[str]:
        """Return how it is other than expected, in lines; none where it is not."""
        said = [
            *(self._rows_differ(rows) if rows is not None else ()),
            *(self._held_differs(quarantined) if quarantined is not None else ()),
            *(self._ledger_differs(ledger) if ledger is not None else ()),
            *(() if self.is_dead else self._books_differ()),
        ]
        return [*said, *self._beside()] if said else []

    def _rows_differ(self, rows: Sequence[Row]) -> Iterator[str]:
        columns = self._columns()
        for row in rows if columns else ():
            expected.refuse_unknown(row, columns, self.table.id, "column")
        if lines := expected.differences(rows, self.rows(), self.table.key, moment):
            yield from ("rows:", *lines, "")

    def _held_differs(self, quarantined: Mapping[str, int]) -> Iterator[str]:
        found = Counter(reason for row in self._held() for reason in row["reasons"] or ())
        if lines := expected.counts_differ(quarantined, found):
            yield from ("quarantined:", *lines, "")

    def _ledger_differs(self, ledger: Mapping[str, object]) -> Iterator[str]:
        figures = balance(self.table, self.lake).figures()
        expected.refuse_unknown(ledger, figures, f"the ledger of {self.table.id}", "figure")
        if lines := expected.counts_differ(ledger, {name: figures[name] for name in ledger}):
            yield from ("ledger:", *lines, "")

    def _books_differ(self) -> Iterator[str]:
        for table in below(self.table):
            for fault in balance(table, self.lake).faults if self.lake.exists(table) else ():
                yield f"the books of {table.id} do not balance: {fault}"

    def _beside(self) -> Iterator[str]:
        """Yield what helps to see why: records that are held, fields that are not declared, time that did not move."""
        if records := self._held():
            yield from ("held:", *expected.held_lines(records, moment), "")
        for judged in self._judged():
            sheet = balance(judged, self.lake)
            yield f"{judged.id}: read {sheet.read}, good {sheet.good}, copies {sheet.copies}, held {sheet.held_records}"
            names = [each.path for each in seen_by(judged, self.lake).fields if each.is_new]
            if names:
                yield f"hint: {judged.id} does not declare {', '.join(names)}, which records have."
        if emits_over_time(self.table):
            yield f'hint: it emits rows once they are final; s.advance("2 hours") moves time on from {self.now:%H:%M:%S}.'
        if silent := waited_for(self.table) - self.sent_to:
            yield f"hint: nothing was sent to {', '.join(sorted(silent))}, and time does not move there."
        if self.is_dead:
            yield "hint: its process is stopped; s.restart_with() starts it again."

    def _judged(self) -> list[Judged]:
        return [
            each
            for each in below(self.table)
            if isinstance(each, Judged) and is_table(self.lake.table(each))
        ]

    def _held(self) -> list[dict[str, Any]]:
        """Return the records that are held below the table.

        Raises:
            DefinitionError: One of them is a record of ``advance``, so time has not moved.
        """
        found: list[dict[str, Any]] = []
        for judged in self._judged():
            if is_table(self.lake.quarantine(judged)):
                found += held(judged, self.lake).to_pylist()
        for row in filter(self._is_clock, found):
            raise DefinitionError(
                f"the record by which advance() moves time was held: {', '.join(row['reasons'])}",
                hint='give one that is a row: s.advance("2 hours", {…}).',
            )
        return found

    def _is_clock(self, row: Row) -> bool:
        return tuple(row[name] for name in PLACE) in self.clocks

    def _columns(self) -> list[str]:
        path = self.lake.table(self.table)
        return [each.name for each in opened(path).schema().fields] if is_table(path) else []

    def _read(self, table: Table) -> list[dict[str, Any]]:
        path = self.lake.table(table)
        if not is_table(path):
            return []
        found: list[dict[str, Any]] = opened(path).to_pyarrow_table().to_pylist()
        return found


def below(table: Table) -> list[Table]:
    """Return a table and all that it needs, each after those that it needs."""
    found: dict[str, Table] = {}

    def add(each: Table) -> None:
        for source in each.needs:
            add(source)
        found.setdefault(each.id, each)

    add(table)
    return [*found.values()]


def waited_for(table: Table) -> set[str]:
    """Return the topics whose time a table's rows wait for: those that it joins as of a moment are not among them."""
    found = {topic.name for topic in table.topics}
    for source in table.upstream:
        is_looked_up = not isinstance(source, Ingested) and source.valid_until is not None
        if not is_looked_up or len(table.upstream) == 1:
            found |= waited_for(source)
    return found


def is_of_clocks(row: Row, table: Computed, clocks: set[datetime], others: set[datetime]) -> bool:
    """Return whether a row is of records of ``advance`` alone, by its time or the window that it counts.

    Args:
        row: The row.
        table: Its table.
        clocks: The event times of these records alone.
        others: Those of the others.
    """
    begins = row[table.event_at]
    if begins is None:
        return False
    length = getattr(table, "window_length", timedelta(0))
    until = begins + length
    if length and (ends := getattr(table, "closes_at", None)):
        until = row[ends] or until
    if until <= begins:
        return begins in clocks
    return any(begins <= each < until for each in clocks) and not any(
        begins <= each < until for each in others
    )
