"""State of any kind: one pure step, which a stream calls with new rows and a batch with all rows, in the order of time.

Spark's own ``transformWithState`` runs in batch too, but fires no event-time timer there and throws its state away,
so what is still open would be lost. Here both sides call the same ``Step``, and only its shell differs.

State is JSON, because the person on call will want to read it (``strandline query`` cannot, Spark's state reader
can), and because what a step may keep should be plain: numbers, texts, lists. Times are whole microseconds since
1970; floats and time zones have no place in state. Rows that wait in large numbers are kept in Spark's map state, in
pieces (jobs/strandline/core/waiting.py).

State carries the version of its form, so that a step with a newer form can migrate it; state that later code has
written is refused.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

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
from strandline.core.waiting import InMemory, Memory, Pieces

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

        State of form 0 is what a step kept before state had forms (jobs/strandline/core/waiting.py), so a fold of form 0 would read
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
    schema = pa.schema([(field.name, _arrow(field.dataType.typeName())) for field in fold.output])

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


def _arrow(name: str) -> pa.DataType:
    known = {
        "string": pa.string(),
        "integer": pa.int32(),
        "long": pa.int64(),
        "boolean": pa.bool_(),
    }
    return known[name]
