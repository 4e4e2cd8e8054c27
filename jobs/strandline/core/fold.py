"""State of any kind: one pure step, which a stream calls with new rows and a batch with all rows, in the order of time.

Spark's own ``transformWithState`` runs in batch too, but fires no event-time timer there and throws its state away,
so what is still open would be lost. Here both sides call the same ``Step``, and only its shell differs.

State is JSON, because the person on call will want to read it (``strandline query`` cannot, Spark's state reader
can), and because what a step may keep should be plain: numbers, texts, lists. Times are whole microseconds since
1970; floats and time zones have no place in state.

The state of a key is a small head, and queues of rows that wait, in the order of their time. Where they are many they are kept in
Spark's map state, in pieces: an address shared by a thousand devices had 75 minutes of connections in one JSON value, which was
read and written whole at each batch. Measured with 2,000,000 rows and a batch of 1,000, the step alone: 18.2 s and 2.1 GB
of Python before, 0.03 s and 0.12 GB with pieces; a batch reads two pieces and writes four. A queue of few rows is kept in the
head itself, so that a key with little state costs one value. Only the head's list of pieces grows with the number of rows, by
some 40 bytes for 500 rows.

State carries the version of its form, so that a step with a newer form can migrate it; state that later code has
written is refused.
"""

# Not to load Arrow with every project that has a fold: two annotations name it.
from __future__ import annotations  # noqa: TID251  # as above; Dagster reads nothing here

import json
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeAlias

import pyarrow as pa
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import (
    ExpiredTimerInfo,
    MapState,
    StatefulProcessor,
    StatefulProcessorHandle,
    TimerValues,
)
from pyspark.sql.types import StructType

from strandline.core.errors import DataError, DefinitionError

Kept: TypeAlias = dict[str, Any]
"""A row in a queue, in values that JSON knows."""

Order: TypeAlias = Callable[[Kept], list[Any]]
"""Returns the sort key of a row; the microsecond of its time comes first."""

PIECE = 500
"""The most rows of a piece."""


class Pieces(Protocol):
    """A store of pieces, each under its number."""

    def read(self, number: int) -> str:
        """Return a piece."""

    def write(self, number: int, text: str) -> None:
        """Write a piece, over the one with its number."""

    def remove(self, number: int) -> None:
        """Remove a piece."""


class InMemory:
    """Pieces in memory, which last as long as the process does."""

    def __init__(self) -> None:
        """Begin without pieces."""
        self.texts: dict[int, str] = {}

    def read(self, number: int) -> str:
        """Return a piece."""
        return self.texts[number]

    def write(self, number: int, text: str) -> None:
        """Write a piece, over the one with its number."""
        self.texts[number] = text

    def remove(self, number: int) -> None:
        """Remove a piece."""
        del self.texts[number]


class _Piece:
    """Consecutive rows, read when they are needed."""

    def __init__(
        self,
        lowest: list[Any],
        last: int,
        count: int,
        number: int | None,
        rows: list[Kept] | None = None,
    ) -> None:
        self.lowest = lowest
        self.last = last
        self.count = count
        self.number = number
        self.rows = rows
        self.is_changed = number is None


class Waiting:
    """A queue of rows in the order of their time."""

    def __init__(
        self, saved: Kept, order: Order, pieces: Pieces, number: Callable[[], int]
    ) -> None:
        """Open a queue as ``save`` left it.

        Args:
            saved: What ``save`` returned; the queue is empty when this is.
            order: The sort key of rows.
            pieces: The store of pieces.
            number: Gives each new piece its number.
        """
        self._order = order
        self._store = pieces
        self._number = number
        self._gone: list[int] = []
        self._pieces = [_Piece(*each) for each in saved.get("pieces", ())]
        if saved.get("rows"):
            self._pieces = [self._new(saved["rows"])]

    def __len__(self) -> int:
        """Return the number of rows."""
        return sum(piece.count for piece in self._pieces)

    @property
    def first(self) -> int | None:
        """Return the moment of the first row."""
        return self._pieces[0].lowest[0] if self._pieces else None

    @property
    def last(self) -> int | None:
        """Return the moment of the last row."""
        return self._pieces[-1].last if self._pieces else None

    def add(self, rows: Iterable[Kept]) -> None:
        """Add rows to the queue."""
        coming: dict[int, list[Kept]] = {}
        lowest = [piece.lowest for piece in self._pieces]
        for row in rows:
            place = max(bisect_right(lowest, self._order(row)) - 1, 0)
            coming.setdefault(place, []).append(row)
        for place in sorted(coming, reverse=True):
            before = self._pieces[place : place + 1]
            both = [*self._rows(before[0]), *coming[place]] if before else coming[place]
            is_last = place >= len(self._pieces) - 1
            divided = [self._new(each) for each in _divided(sorted(both, key=self._order), is_last)]
            if before:  # its number stays with the first part
                divided[0].number = before[0].number
            self._pieces[place : place + 1] = divided

    def pop(self, until: int) -> list[Kept]:
        """Remove the rows up to a moment, and return them in their order."""
        popped: list[Kept] = []
        while self._pieces and self._pieces[0].lowest[0] <= until:
            piece = self._pieces.pop(0)
            rows = self._rows(piece)
            cut = bisect_right(rows, until, key=self._moment)
            popped += rows[:cut]
            if cut < len(rows):
                rest = self._new(rows[cut:])
                rest.number = piece.number
                self._pieces.insert(0, rest)
            elif piece.number is not None:
                self._gone.append(piece.number)
        return popped

    def drop(self, until: int) -> None:
        """Remove the rows up to a moment, without reading pieces that go whole."""
        cut = 0
        while cut < len(self._pieces) and self._pieces[cut].last <= until:
            cut += 1
        self._gone += [each.number for each in self._pieces[:cut] if each.number is not None]
        del self._pieces[:cut]
        self.pop(until)

    def since(self, moment: int) -> Iterator[Kept]:
        """Yield the rows from a moment on."""
        for piece in self._pieces[self._reaching(moment) :]:
            rows = self._rows(piece)
            yield from rows[bisect_left(rows, moment, key=self._moment) :]

    def revise(self, since: int, change: Callable[[Kept], bool]) -> None:
        """Apply a change to the rows from a moment on; it returns whether it changed the row."""
        for piece in self._pieces[self._reaching(since) :]:
            rows = self._rows(piece)
            begin = bisect_left(rows, since, key=self._moment)
            changed = [change(row) for row in rows[begin:]]
            piece.is_changed |= any(changed)

    def before(self, moment: int) -> Kept | None:
        """Return the last row that lies before a moment."""
        for piece in reversed(self._pieces[: self._reaching(moment) + 1]):
            rows = self._rows(piece)
            cut = bisect_left(rows, moment, key=self._moment)
            if cut:
                return rows[cut - 1]
        return None

    def save(self) -> Kept:
        """Write the changed pieces, and return what the head must keep of the queue."""
        if len(self._pieces) == 1 and self._pieces[0].count <= PIECE:
            (piece,) = self._pieces
            rows = self._rows(piece)
            self._forget([*self._gone, *([piece.number] if piece.number is not None else [])])
            return {"rows": rows}
        self._forget(self._gone)
        for piece in self._pieces:
            if piece.is_changed:
                piece.number = self._number() if piece.number is None else piece.number
                self._store.write(piece.number, _text(self._rows(piece)))
        listed = [[each.lowest, each.last, each.count, each.number] for each in self._pieces]
        return {"pieces": listed} if listed else {}

    def _forget(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            self._store.remove(number)

    def _reaching(self, moment: int) -> int:
        """Return the first piece whose rows may reach a moment."""
        return bisect_left(self._pieces, moment, key=lambda piece: piece.last)

    def _rows(self, piece: _Piece) -> list[Kept]:
        if piece.rows is None:
            piece.rows = json.loads(self._store.read(int(piece.number or 0)))
        return piece.rows

    def _new(self, rows: list[Kept]) -> _Piece:
        piece = _Piece(self._order(rows[0]), self._moment(rows[-1]), len(rows), None, rows)
        piece.is_changed = True
        return piece

    def _moment(self, row: Kept) -> int:
        return int(self._order(row)[0])


class Memory:
    """The state of one key: a head, which the step changes at will, and queues."""

    def __init__(self, text: str | None, form: int, pieces: Pieces) -> None:
        """Read stored state.

        Args:
            text: What ``text`` returned; None when there is no state.
            form: The form of today's step.
            pieces: The store of the queues' pieces.

        Raises:
            DataError: Later code has written the state.
        """
        stored: Kept = json.loads(text) if text else {"form": form}
        self.form: int = stored.get("form", 0)
        """The form of the stored state; 0 is one JSON value of the step's own."""
        if self.form > form:
            raise DataError(
                f"state has form {self.form}, and this code knows those up to {form}",
                hint="a later version has written it; run that version, or compute the table again: "
                "`strandline rebuild`.",
                form=self.form,
            )
        self.head: Kept = stored.get("head", {}) if self.form else stored
        self._form = form
        self._saved: dict[str, Kept] = stored.get("waiting", {}) if self.form else {}
        self._queues: dict[str, Waiting] = {}
        self._pieces = pieces
        self._next = int(stored.get("next", 0)) if self.form else 0

    def waiting(self, name: str, order: Order) -> Waiting:
        """Return the queue of a name."""
        if name not in self._queues:
            saved = self._saved.get(name, {})
            self._queues[name] = Waiting(saved, order, self._pieces, self._numbered)
        return self._queues[name]

    def text(self) -> str | None:
        """Write what has changed, and return the state as text; None when it is empty."""
        saved = {name: queue.save() for name, queue in self._queues.items()}
        waiting = {name: each for name, each in {**self._saved, **saved}.items() if each}
        if not waiting and not self.head:
            return None
        kept = {"form": self._form, "head": self.head, "waiting": waiting, "next": self._next}
        return _text(kept)

    def _numbered(self) -> int:
        self._next += 1
        return self._next


def _divided(rows: list[Kept], is_last: bool) -> Iterator[list[Kept]]:  # noqa: FBT001  # it has one call, which names it
    """Yield rows in pieces: full ones at the end, where rows are added, and of equal size in between."""
    count = -(-len(rows) // PIECE)
    size = PIECE if is_last else -(-len(rows) // count)
    for begin in range(0, len(rows), size):
        yield rows[begin : begin + size]


def _text(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))


Event: TypeAlias = Mapping[str, Any]
"""A row, with ``at`` for the microsecond of its event time."""

State: TypeAlias = dict[str, Any]
Answer: TypeAlias = dict[str, Any]

MILLISECOND = 1_000


class Folded(NamedTuple):
    """What a step emits, beside what it leaves in its state.

    Args:
        answers: Rows to emit, each the latest of its key.
        wake_at: The microsecond that the watermark must reach before the step has more to emit or to forget.
    """

    answers: Iterable[Answer]
    wake_at: int | None


Step: TypeAlias = Callable[[Memory, list[Event], int], Folded]
"""From a key's state, its new rows and the watermark in microseconds, at or before which no row can come any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fold:
    """A step, and the shape of what goes in and comes out.

    Args:
        by: The columns whose values share one state.
        reads: The columns that the step reads.
        output: The columns of its answers.
        key: The columns by which a later answer replaces an earlier one.
        step: The pure function. Given rows in the order of their time, it revises no answer but its last.
        form: The version of the state's form, 1 at first; increase it whenever the form changes.
        migrate: Turns state of an earlier form (``Memory.form``) into this one.
    """

    by: tuple[str, ...]
    reads: tuple[str, ...]
    output: StructType
    key: tuple[str, ...]
    step: Step
    form: int
    migrate: Callable[[Memory], None]

    def __post_init__(self) -> None:
        """Refuse what would be found out by wrong rows only.

        State of form 0 is what a step kept before state had forms, so a fold of form 0 would read
        its own state as that, one level too deep: 4,744 instead of 4,904 orders, and nothing contradicted it.

        Raises:
            DefinitionError: The form is not a version, or columns are no tuple of names.
        """
        if type(self.form) is not int or self.form < 1:  # True is an int too
            raise DefinitionError(
                f"a Fold declares form={self.form!r}; the versions of a state's form are whole numbers from 1 on",
                hint="write form=1 for the first. Where a stream has run with another, its state is wrong: "
                "`strandline rebuild` computes the table again.",
                form=self.form,
            )
        for name in ("by", "reads", "key"):
            value = getattr(self, name)
            if not isinstance(value, tuple) or not all(isinstance(each, str) for each in value):
                raise DefinitionError(
                    f"a Fold declares {name}={value!r}, which is no tuple of columns",
                    hint=f"write {name}=(…,): the comma makes the tuple.",
                )
        for name in ("by", "key"):
            if not getattr(self, name):
                raise DefinitionError(
                    f"a Fold does not declare its {name}", hint=f"add {name}=(…,) to it."
                )
        absent = [each for each in self.key if each not in self.output.fieldNames()]
        if absent:
            raise DefinitionError(
                f"a Fold declares the key {', '.join(self.key)}, and its output has no {' and no '.join(absent)}",
                hint=f"its output has {', '.join(self.output.fieldNames())}; name columns of it, or add one.",
            )

    def recall(self, text: str | None, pieces: Pieces) -> Memory:
        """Return a key's state, in the form of today."""
        memory = Memory(text, self.form, pieces)
        if memory.form < self.form:
            self.migrate(memory)
        return memory


class InState:
    """The pieces of a key's queues, each an entry of Spark's map state."""

    def __init__(self, entries: MapState) -> None:
        """Read and write the given map."""
        self._entries = entries

    def read(self, number: int) -> str:
        """Return a piece."""
        found = self._entries.getValue((number,))
        if found is None:
            raise DataError(
                f"a piece of state is missing: {number}",
                hint="compute the table again beside itself: `strandline rebuild`.",
                number=number,
            )
        return str(found[0])

    def write(self, number: int, text: str) -> None:
        """Write a piece, over the one with its number."""
        self._entries.updateValue((number,), (text,))

    def remove(self, number: int) -> None:
        """Remove a piece."""
        self._entries.removeKey((number,))


class Shell(StatefulProcessor):
    """Calls a step from a stream."""

    def __init__(self, fold: Fold) -> None:
        """Keep the fold; Spark sends this object to its Python workers."""
        self._fold = fold
        self._names = fold.output.fieldNames()

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Open the state."""
        self._handle = handle
        self._kept = handle.getValueState("kept", "state STRING, wake_ms LONG")
        self._pieces = InState(handle.getMapState("pieces", "number LONG", "rows STRING"))

    def handleInputRows(  # noqa: N802  # Spark's name
        self,
        key: Any,  # noqa: ANN401, ARG002  # Spark hands it over, whatever its type; events carry it
        rows: Iterator[Any],
        timerValues: TimerValues,  # noqa: N803  # Spark's name
    ) -> Iterator[Row]:
        """Fold new rows of a key."""
        return self._advance([row.asDict() for row in rows], timerValues)

    def handleExpiredTimer(  # noqa: N802  # Spark's name
        self,
        key: Any,  # noqa: ANN401, ARG002  # Spark hands it over, whatever its type; events carry it
        timerValues: TimerValues,  # noqa: N803  # Spark's name
        expiredTimerInfo: ExpiredTimerInfo,  # noqa: N803  # Spark's name
    ) -> Iterator[Row]:
        """Call the step without rows, because the watermark has reached the timer."""
        return self._advance([], timerValues, fired=expiredTimerInfo.getExpiryTimeInMs())

    def _advance(
        self, events: list[Event], timers: TimerValues, fired: int | None = None
    ) -> Iterator[Row]:
        stored = self._kept.get() if self._kept.exists() else None
        text, former = stored or (None, None)
        memory = self._fold.recall(text, self._pieces)
        watermark = timers.getCurrentWatermarkInMs() * MILLISECOND
        folded = self._fold.step(memory, events, watermark)
        text = memory.text()
        wake = None if text is None else _wake(folded)
        if wake is not None and wake == fired:
            wake += 1  # Spark removes a fired timer after this call, so one for the same moment would not fire again
        if former not in {None, wake, fired}:
            self._handle.deleteTimer(former)
        if wake is not None and wake != former:
            self._handle.registerTimer(wake)
        if text is not None:
            self._kept.update((text, wake))
        elif stored:
            self._kept.clear()
        return iter(
            [Row(**{name: answer[name] for name in self._names}) for answer in folded.answers]
        )


def _wake(folded: Folded) -> int | None:
    """Return the millisecond of the timer: Spark fires it once the watermark is beyond."""
    if folded.wake_at is None:
        return None
    return -(-folded.wake_at // MILLISECOND) - 1


def arrival(row: Event) -> dict[str, int]:
    """Return the values that ``time_order`` sorts by, from a row with ``arrived`` in microseconds and its place in Kafka."""
    return {
        "at": row["at"],
        "arrived": row["arrived"],
        "part": row["_partition"],
        "offset": row["_offset"],
    }


def time_order(row: Mapping[str, Any]) -> list[Any]:
    """Return the sort key of rows with an ``arrival``: event time, then arrival."""
    return [row["at"], row["arrived"], row["part"], row["offset"]]


def latest_per_key(answers: Iterable[Answer], key: Sequence[str]) -> list[Answer]:
    """Keep the last answer of each key, in the order in which the keys first came."""
    latest: dict[tuple[Any, ...], Answer] = {}
    for answer in answers:
        latest[tuple(answer[name] for name in key)] = answer
    return list(latest.values())


# A fold over all rows: each key's rows in the order of their time, a slice at a time.
#
# No list holds all rows of a key: rows come sorted from Spark's own sort, which spills to disk, and the step is called
# as by a stream whose events all came in order. Rows of one moment are never divided between two calls, so all rows
# that were read are final, and the step's state holds only what is open.


FOREVER = 1 << 62
SLICE = 10_000
"""The fewest rows for which a step is called, and the answers of one record batch."""


def replayed(fold: Fold) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return a function that folds rows sorted by key and time; ``watermark`` is one of their columns."""
    # It imports pandas, for which no look at the catalog should wait.
    from pyspark.sql.pandas.types import to_arrow_schema  # noqa: PLC0415  # as above

    schema = to_arrow_schema(fold.output, timezone="UTC")

    def answers(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        buffered: list[Answer] = []
        for answer in _answers(fold, (row for batch in batches for row in batch.to_pylist())):
            buffered.append(answer)
            if len(buffered) >= SLICE:
                yield pa.RecordBatch.from_pylist(buffered, schema=schema)
                buffered = []
        yield pa.RecordBatch.from_pylist(buffered, schema=schema)

    return answers


def _answers(fold: Fold, rows: Iterable[Event]) -> Iterator[Answer]:
    key: _Key | None = None
    for row in rows:
        if key is None or not key.has(row):
            if key:
                yield from key.rest()
            key = _Key(fold, row)
        yield from key.take(row)
    if key:
        yield from key.rest()


class _Key:
    """One key's rows, and the last answer, which the next one may revise."""

    def __init__(self, fold: Fold, row: Event) -> None:
        self._fold = fold
        self._of = [row[name] for name in fold.by]
        self._watermark: int = FOREVER if row["watermark"] is None else row["watermark"]
        self._memory: Memory = fold.recall(None, InMemory())
        self._rows: list[Event] = []
        self._last: Answer | None = None

    def has(self, row: Event) -> bool:
        return [row[name] for name in self._fold.by] == self._of

    def take(self, row: Event) -> Iterator[Answer]:
        rows = self._rows
        if len(rows) >= SLICE and rows[-1]["at"] != row["at"]:
            yield from self._step(min(rows[-1]["at"], self._watermark))
        self._rows.append(row)

    def rest(self) -> Iterator[Answer]:
        yield from self._step(self._watermark)
        if self._last is not None:
            yield self._last

    def _step(self, watermark: int) -> Iterator[Answer]:
        rows, self._rows = self._rows, []
        for answer in self._fold.step(self._memory, rows, watermark).answers:
            if self._last is not None and not self._revises(self._last, answer):
                yield self._last
            self._last = answer

    def _revises(self, former: Answer, answer: Answer) -> bool:
        return all(former[name] == answer[name] for name in self._fold.key)
