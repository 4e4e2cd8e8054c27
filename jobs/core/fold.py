"""State of any kind: one pure step, which a stream calls with what came and a batch with everything, in the order of time.

Spark's own ``transformWithState`` runs in batch too, but fires no event-time timer there and throws its state away,
so whatever is still open would be lost. Here both sides call the same ``Step``, and only its shell differs.

State is JSON, because on call somebody will want to read it (``strandline query`` cannot, Spark's state reader
can), and because what a step may keep should be plain: numbers, texts, lists. Times are whole microseconds since
1970; floats and time zones have no place in state. What waits in large numbers lies in the engine's map, in pieces
(jobs/core/waiting.py).

State says in which form it was written, so that a step that remembers otherwise can bring it along; what later code
has written is refused.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import (
    ExpiredTimerInfo,
    MapState,
    StatefulProcessor,
    StatefulProcessorHandle,
    TimerValues,
)
from pyspark.sql.types import StructType

from jobs.core.errors import DataError
from jobs.core.waiting import Memory, Pieces

Event: TypeAlias = Mapping[str, Any]
"""A row, with ``at`` for the microsecond of its event time."""

State: TypeAlias = dict[str, Any]
Answer: TypeAlias = dict[str, Any]

MILLISECOND = 1_000


class Folded(NamedTuple):
    """What a step has to say, beside what it leaves in its memory.

    Args:
        answers: Rows to say, each the latest word for its key.
        wake_at: The microsecond that the watermark must reach before the step has more to say or to forget.
    """

    answers: Iterable[Answer]
    wake_at: int | None


Step: TypeAlias = Callable[[Memory, list[Event], int], Folded]
"""From what is remembered, new rows and the microsecond up to which nothing more can come."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fold:
    """A step, and the shape of what goes in and comes out.

    Args:
        by: The columns whose values share one state.
        reads: The columns that the step wants to see.
        says: The columns of its answers.
        key: Those by which a later answer takes the place of an earlier one.
        step: The pure function. Of rows in the order of their time it revises no answer but its last.
        form: The form in which it remembers; one more whenever that changes.
        bring: Brings what was remembered in an earlier form, which the memory says, into this one.
    """

    by: tuple[str, ...]
    reads: tuple[str, ...]
    says: StructType
    key: tuple[str, ...]
    step: Step
    form: int
    bring: Callable[[Memory], None]

    def recall(self, text: str | None, pieces: Pieces) -> Memory:
        """Return what was remembered, in the form of today."""
        memory = Memory(text, self.form, pieces)
        if memory.form < self.form:
            self.bring(memory)
        return memory


class InState:
    """The pieces of a key's queues, each an entry of a map in the engine's state."""

    def __init__(self, entries: MapState) -> None:
        """Read and write that map."""
        self._entries = entries

    def read(self, number: int) -> str:
        """Return a piece."""
        found = self._entries.getValue((number,))
        if found is None:
            raise DataError(
                f"a piece of state is missing: {number}",
                hint="make the table anew beside itself: `strandline rebuild`.",
                number=number,
            )
        return str(found[0])

    def write(self, number: int, text: str) -> None:
        """Put a piece in the place of what lay there."""
        self._entries.updateValue((number,), (text,))

    def remove(self, number: int) -> None:
        """Forget a piece."""
        self._entries.removeKey((number,))


class Shell(StatefulProcessor):
    """Calls a step from a stream."""

    def __init__(self, fold: Fold) -> None:
        """Remember what to call; Spark sends this object to its Python workers."""
        self._fold = fold
        self._names = fold.says.fieldNames()

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
        """Take in new rows of a key."""
        return self._advance([row.asDict() for row in rows], timerValues)

    def handleExpiredTimer(  # noqa: N802  # Spark's name
        self,
        key: Any,  # noqa: ANN401, ARG002  # Spark hands it over, whatever its type; events carry it
        timerValues: TimerValues,  # noqa: N803  # Spark's name
        expiredTimerInfo: ExpiredTimerInfo,  # noqa: N803  # Spark's name
    ) -> Iterator[Row]:
        """Go on now that the watermark has moved."""
        return self._advance([], timerValues, fired=expiredTimerInfo.getExpiryTimeInMs())

    def _advance(
        self, events: list[Event], timers: TimerValues, fired: int | None = None
    ) -> Iterator[Row]:
        found = self._kept.get() if self._kept.exists() else None
        text, former = found or (None, None)
        memory = self._fold.recall(text, self._pieces)
        settled = timers.getCurrentWatermarkInMs() * MILLISECOND
        folded = self._fold.step(memory, events, settled)
        text = memory.text()
        wake = None if text is None else _wake(folded)
        if wake is not None and wake == fired:
            wake += 1  # a fired timer is taken away after this call, so the same moment would not ring again
        if former not in {None, wake, fired}:
            self._handle.deleteTimer(former)
        if wake is not None and wake != former:
            self._handle.registerTimer(wake)
        if text is not None:
            self._kept.update((text, wake))
        elif found:
            self._kept.clear()
        return iter(
            [Row(**{name: answer[name] for name in self._names}) for answer in folded.answers]
        )


def _wake(folded: Folded) -> int | None:
    """Return the millisecond for which to set the timer: Spark fires it when the watermark is beyond."""
    if folded.wake_at is None:
        return None
    return -(-folded.wake_at // MILLISECOND) - 1


def arrival(row: Event) -> dict[str, int]:
    """Return what ``as_it_happened`` sorts by, of a row with ``arrived`` in microseconds and its place in Kafka."""
    return {
        "at": row["at"],
        "arrived": row["arrived"],
        "part": row["_partition"],
        "offset": row["_offset"],
    }


def as_it_happened(row: Mapping[str, Any]) -> list[Any]:
    """Return what rows with an ``arrival`` are sorted by; of one moment the first that arrived comes first."""
    return [row["at"], row["arrived"], row["part"], row["offset"]]


def last_words(answers: Iterable[Answer], key: Sequence[str]) -> list[Answer]:
    """Keep the last answer for each key, in the order in which keys were first spoken of."""
    found: dict[tuple[Any, ...], Answer] = {}
    for answer in answers:
        found[tuple(answer[name] for name in key)] = answer
    return list(found.values())
