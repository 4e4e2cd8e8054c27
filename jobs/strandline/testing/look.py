"""What a lake has after a scenario, beside what was expected: rows, quarantine, ledger, and what helps to see why they differ."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from datetime import time as time_of_day
from decimal import Decimal, InvalidOperation
from difflib import get_close_matches
from typing import Any, TypeAlias

import orjson

from strandline.core.errors import DefinitionError
from strandline.core.kind import in_utc
from strandline.core.routes import takes_kind
from strandline.core.table import Computed, Ingested, Judged, Table
from strandline.core.topic import PLACE, Topic
from strandline.engine.accounting.balance_sheet import balance
from strandline.engine.accounting.held_records import held
from strandline.engine.accounting.routes import seen_by
from strandline.engine.flow.plan import emits_over_time
from strandline.engine.lake.completeness import every_need, with_below
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger import is_table
from strandline.engine.lake.open_table import opened

# The event time within a record: where it is written, and how; and moments as a person writes them.
#
# Silver's function may make its event time of any field. Most take a field of the same name, and that is where it is written unless
# the test names another.

BEGIN = datetime(2026, 11, 20, 12, tzinfo=UTC)
"""When the first record arrives that does not say it; times of day are of its day."""

Fields: TypeAlias = Mapping[str, Any]
Write: TypeAlias = Callable[[dict[str, Any], datetime], dict[str, Any]]
"""Returns a record with an event time."""

UNITS = ((100_000_000_000, 1), (100_000_000_000_000, 1_000), (100_000_000_000_000_000, 1_000_000))
"""Numbers below which a time counts seconds since 1970, milliseconds and microseconds, and how many are a second."""


def moment(text: str | datetime | object) -> datetime:
    """Return a moment from ``09:00:00``, ``2026-11-20 09:00``, or a datetime; in UTC where it names no zone.

    Raises:
        DefinitionError: It is none.
    """
    if isinstance(text, datetime):
        return in_utc(text)
    try:
        if isinstance(text, str) and "-" in text:
            return in_utc(datetime.fromisoformat(text))
        return datetime.combine(BEGIN, time_of_day.fromisoformat(str(text)), tzinfo=UTC)
    except ValueError as error:
        raise DefinitionError(
            f"{text!r} is no moment",
            hint='write "09:00:00", which is of the day of the scenario (2026-11-20), or "2026-11-21 09:00:00".',
        ) from error


@dataclass(frozen=True, slots=True)
class EventTime:
    """The event time in the records of a topic.

    Args:
        topic: The topic.
        tables: The tables of silver that read it.
        named: The field with the event time, or a function that writes it; None where it has the name of the column.
    """

    topic: Topic
    tables: Sequence[Judged]
    named: str | Write | None = None

    def found(self, record: object) -> datetime | None:
        """Return the event time that a record has; None where it has none that can be read."""
        if not isinstance(record, Mapping) or callable(self.named):
            return None
        for path in self._paths(record):
            value = _at(record, path)
            if isinstance(value, datetime):
                return in_utc(value)
            if isinstance(value, str):
                try:
                    return in_utc(datetime.fromisoformat(value))
                except ValueError:
                    return None
            if isinstance(value, int | float) and not isinstance(value, bool):
                return datetime.fromtimestamp(0, tz=UTC) + timedelta(seconds=value / _unit(value))
        return None

    def stamped(self, record: Fields, at: datetime) -> dict[str, Any]:
        """Return a record with an event time where it has none of its own."""
        if not callable(self.named) and any(_has(record, path) for path in self._paths(record)):
            return dict(record)
        return self.moved(record, at)

    def moved(self, record: Fields, at: datetime) -> dict[str, Any]:
        """Return a record with another event time, written as the one that it has.

        Raises:
            DefinitionError: It is not known where it is written.
        """
        if callable(self.named):
            return self.named(dict(record), at)
        paths = self._paths(record)
        path = next((each for each in paths if _has(record, each)), None)
        if path is None and len(paths) != 1:
            raise self._refusal(paths)
        path = path or paths[0]
        return _written(record, path.split("."), _like(_at(record, path), at))

    def with_other_key(self, record: Fields, name: str) -> dict[str, Any]:
        """Return a record with texts of its key replaced, so that it is an event of its own."""
        own = {each for table in self._takers(record) for each in table.key}
        return {
            field: name if field in own and isinstance(value, str) else value
            for field, value in record.items()
        }

    def key_of(self, record: object) -> list[object]:
        """Return the values by which a test may name a record: of each part of its key, and of all of them."""
        found: list[object] = []
        if not isinstance(record, Mapping):
            return found
        for table in self._takers(record):
            values = tuple(record[name] for name in table.key if name in record)
            found += [*values, values]
        return found

    def kind(self, record: Fields) -> object:
        """Return the kind of a record, where a field of it says that."""
        path = self.topic.kind.path if self.topic.kind else ()
        return _at(record, ".".join(path)) if path else None

    def _takers(self, record: Fields) -> Sequence[Judged]:
        kind = self.kind(record)
        if kind is None:
            return self.tables
        taken = [
            table
            for table in self.tables
            if any(takes_kind(each, str(kind)) for each in table.taken)
        ]
        return taken or self.tables

    def _paths(self, record: Fields) -> list[str]:
        if isinstance(self.named, str):
            return [self.named]
        return [*dict.fromkeys(table.event_at for table in self._takers(record))]

    def _refusal(self, paths: Sequence[str]) -> DefinitionError:
        return DefinitionError(
            f"a record of topic {self.topic} has no event time, and its tables have several: {', '.join(paths)}",
            hint=f'write it into the record, or name the field: stream(TABLE, time={{"{self.topic}": "…"}}).',
            topic=self.topic.name,
        )


def payload(record: object) -> bytes | None:
    """Return the bytes of a record: JSON of a dictionary, a text or bytes as they are, None for a tombstone.

    Raises:
        DefinitionError: It is none of these.
    """
    match record:
        case None | bytes():
            return record
        case str():
            return record.encode()
        case Mapping() | list():
            return orjson.dumps(record, default=_plain)
    raise DefinitionError(
        f"a record is a dictionary, a text, bytes or None, and not {record!r:.80}",
        hint='write s.send({"id": "a", "amount": 1.5}); a broken one is a text: s.send("no order").',
    )


def _plain(value: object) -> object:
    if isinstance(value, Decimal):
        return orjson.Fragment(str(value).encode())
    if isinstance(value, Mapping):
        return dict(value)
    return str(value)


def _unit(value: float) -> int:
    return next((unit for below, unit in UNITS if abs(value) < below), 1_000_000_000)


def _like(former: object, at: datetime) -> object:
    """Return a moment as the value is written that was there."""
    if isinstance(former, int | float) and not isinstance(former, bool):
        micros = (at - datetime.fromtimestamp(0, tz=UTC)) // timedelta(microseconds=1)
        return micros * _unit(former) // 1_000_000
    return at.isoformat()


def _has(record: Fields, path: str) -> bool:
    *outer, last = path.split(".")
    inner: object = record
    for name in outer:
        inner = inner.get(name) if isinstance(inner, Mapping) else None
    return isinstance(inner, Mapping) and last in inner


def _at(record: Fields, path: str) -> object:
    inner: object = record
    for name in path.split("."):
        inner = inner.get(name) if isinstance(inner, Mapping) else None
    return inner


def _written(record: Fields, path: Sequence[str], value: object) -> dict[str, Any]:
    first, *rest = path
    inner = record.get(first)
    made = _written(inner if isinstance(inner, Mapping) else {}, rest, value) if rest else value
    return {**record, first: made}


# What a scenario expects, compared with what a lake has: the difference as a small table.
#
# An expected row names the columns that matter. Its values are written as a person writes them: a time of the day, a number for a
# decimal.

Row: TypeAlias = Mapping[str, Any]
Read: TypeAlias = Callable[[object], datetime]
"""Reads a moment that is written as a text."""

MOST, WIDE = 10, 40
"""Rows of a difference, and characters of a value, that are shown."""


def differences(
    expected: Sequence[Row], found: Sequence[Row], key: Sequence[str], read: Read
) -> list[str]:
    """Return the lines of a table of the rows that are missing, unexpected or other than expected; none where all agree.

    Args:
        expected: The rows that should be there, each with the columns that matter.
        found: Those that are.
        key: The columns by which a row is known.
        read: Reads moments.
    """
    names = [*dict.fromkeys(name for row in expected for name in row)]
    missing, left = list[Row](), list(found)
    for row in sorted(expected, key=len, reverse=True):
        at = next((each for each in left if _is_met(row, each, read)), None)
        if at is None:
            missing.append(row)
        else:
            left.remove(at)
    if not missing and not left:
        return []
    if not names:
        names = [*left[0]]
    lines = list[list[str]]()
    known = [name for name in key if name in names]
    for row in missing:
        near = next(
            (each for each in left if known and _is_met(_only(row, known), each, read)), None
        )
        if near is None:
            lines.append(
                ["missing", *(_text(row[name], read) if name in row else "" for name in names)]
            )
            continue
        left.remove(near)
        lines.append(["differs", *(_other(name, row, near, read) for name in names)])
    lines += [["unexpected", *(_text(row.get(name), read) for name in names)] for row in left]
    return aligned([["", *names], *_cut(lines)])


def refuse_unknown(names: Iterable[str], known: Iterable[str], what: str, noun: str) -> None:
    """Refuse a name that is not known.

    Raises:
        DefinitionError: One is not.
    """
    there = [*known]
    for name in names:
        if name not in there:
            near = get_close_matches(name, there, 1)
            meant = f"did you mean {near[0]}? " if near else ""
            raise DefinitionError(
                f"{what} has no {noun} {name}", hint=f"{meant}it has {', '.join(there)}.", name=name
            )


def counts_differ(expected: Mapping[str, object], found: Mapping[str, object]) -> list[str]:
    """Return the lines of a table of counts that are not as expected; none where all are."""
    lines = [
        [name, _count(expected.get(name, 0)), _count(found.get(name, 0))]
        for name in dict.fromkeys([*expected, *found])
        if expected.get(name, 0) != found.get(name, 0)
    ]
    return aligned([["", "expected", "found"], *lines]) if lines else []


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return rows of cells as lines, each column as wide as its widest cell."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


def _cut(lines: list[list[str]]) -> list[list[str]]:
    if len(lines) <= MOST:
        return lines
    more = Counter(line[0] for line in lines[MOST:])
    said = ", ".join(f"{count} more {what}" for what, count in more.items())
    return [*lines[:MOST], [said, *[""] * (len(lines[0]) - 1)]]


def _only(row: Row, names: Sequence[str]) -> Row:
    return {name: row[name] for name in names if name in row}


def _other(name: str, row: Row, near: Row, read: Read) -> str:
    found = _text(near.get(name), read)
    if name not in row or _is_equal(row[name], near.get(name), read):
        return found
    return f"{found} (expected {_text(row[name], read)})"


def _is_met(row: Row, found: Row, read: Read) -> bool:
    return all(_is_equal(value, found.get(name), read) for name, value in row.items())


def _is_equal(expected: object, found: object, read: Read) -> bool:  # noqa: PLR0911  # a kind of value a line
    if expected is None or found is None:
        return expected is found
    match found:
        case bool():
            return expected is found
        case datetime():
            return isinstance(expected, str | datetime) and read(expected) == found
        case date():
            return str(expected) == found.isoformat()
        case Decimal():
            return _decimal(expected) == found
        case bytes():
            return (expected.encode() if isinstance(expected, str) else expected) == found
        case Mapping():
            return (
                isinstance(expected, Mapping)
                and expected.keys() == found.keys()
                and all(_is_equal(expected[name], found[name], read) for name in found)
            )
        case list() | tuple():
            return (
                isinstance(expected, list | tuple)
                and len(expected) == len(found)
                and all(_is_equal(*pair, read) for pair in zip(expected, found, strict=True))
            )
        case _:
            return expected == found


def _decimal(value: object) -> Decimal | None:
    try:
        return Decimal(str(value))
    except InvalidOperation:
        return None


def _text(value: object, read: Read) -> str:
    match value:
        case None:
            text = "-"
        case datetime():
            day = read("00:00").date()
            text = value.strftime("%H:%M:%S.%f").removesuffix(".000000")
            text = text if value.date() == day else f"{value.date()} {text}"
        case bytes():
            text = value.decode(errors="backslashreplace")
        case _:
            text = str(value)
    return text if len(text) <= WIDE else f"{text[: WIDE - 1]}…"


def _count(value: object) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {count}" for name, count in value.items()) or "none"
    return str(value)


def held_lines(records: Iterable[Row], read: Read) -> Iterator[str]:
    """Yield a line for each of some held records: its reasons, when it arrived, and the begin of its payload."""
    kept = [*records]
    for row in kept[:MOST]:
        reasons = ", ".join(row["reasons"] or ())
        yield f"{reasons}: {_text(row['_payload'], read)} (arrived {_text(row['_arrived_at'], read)})"
    if len(kept) > MOST:
        yield f"and {len(kept) - MOST} more"


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
            refuse_unknown(row, columns, self.table.id, "column")
        if lines := differences(rows, self.rows(), self.table.key, moment):
            yield from ("rows:", *lines, "")

    def _held_differs(self, quarantined: Mapping[str, int]) -> Iterator[str]:
        found = Counter(reason for row in self._held() for reason in row["reasons"] or ())
        if lines := counts_differ(quarantined, found):
            yield from ("quarantined:", *lines, "")

    def _ledger_differs(self, ledger: Mapping[str, object]) -> Iterator[str]:
        figures = balance(self.table, self.lake).figures()
        refuse_unknown(ledger, figures, f"the ledger of {self.table.id}", "figure")
        if lines := counts_differ(ledger, {name: figures[name] for name in ledger}):
            yield from ("ledger:", *lines, "")

    def _books_differ(self) -> Iterator[str]:
        for table in below(self.table):
            for fault in balance(table, self.lake).faults if self.lake.exists(table) else ():
                yield f"the books of {table.id} do not balance: {fault}"

    def _beside(self) -> Iterator[str]:
        """Yield what helps to see why: records that are held, fields that are not declared, time that did not move."""
        if records := self._held():
            yield from ("held:", *held_lines(records, moment), "")
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
    return with_below(table, sources=every_need)[::-1]


def fed(table: Table, sent_to: Collection[str], named: Collection[str]) -> list[Table]:
    """Return the tables that a scenario runs: a table and all that it needs, but no dimension that could have no row.

    Args:
        table: The table.
        sent_to: The topics to which something was sent. A dimension below which there is none of them has no row, and a table joins
            what was not made yet as one without rows.
        named: The ids of tables that the scenario has named; of these all run.
    """
    found: dict[str, Table] = {}

    def add(each: Table) -> None:
        for source in each.upstream:
            add(source)
        if each.dimension and _may_have_rows(each.dimension.source, sent_to, named):
            add(each.dimension.source)
        found.setdefault(each.id, each)

    add(table)
    return [*found.values()]


def _may_have_rows(table: Table, sent_to: Collection[str], named: Collection[str]) -> bool:
    return any(
        each.id in named or any(topic.name in sent_to for topic in each.topics)
        for each in below(table)
    )


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
