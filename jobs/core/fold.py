"""State of any kind: one pure step, which a stream calls with what came and a batch calls once with everything.

Spark's own ``transformWithState`` runs in batch too, but fires no event-time timer there and throws its state away,
so whatever is still open would be lost. Here both sides call the same ``Step``, and only its shell differs.

State is JSON, because on call somebody will want to read it (``strandline query`` cannot, Spark's state reader
can), and because what a step may keep should be plain: numbers, texts, lists. Times are whole microseconds since
1970; floats and time zones have no place in state.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import pyarrow as pa
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import (
    ExpiredTimerInfo,
    StatefulProcessor,
    StatefulProcessorHandle,
    TimerValues,
)
from pyspark.sql.types import StructType

Event: TypeAlias = Mapping[str, Any]
"""A row, with ``at`` for the microsecond of its event time."""

State: TypeAlias = dict[str, Any]
Answer: TypeAlias = dict[str, Any]

MILLISECOND = 1_000
FOREVER = 1 << 62


class Folded(NamedTuple):
    """What a step leaves behind.

    Args:
        state: What to remember of the key; nothing when None.
        answers: Rows to say, each the latest word for its key.
        wake_at: The microsecond that the watermark must reach before the step has more to say or to forget.
    """

    state: State | None
    answers: Iterable[Answer]
    wake_at: int | None


Step: TypeAlias = Callable[[State | None, list[Event], int], Folded]
"""From what is remembered, new rows and the microsecond up to which nothing more can come."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fold:
    """A step, and the shape of what goes in and comes out.

    Args:
        by: The columns whose values share one state.
        reads: The columns that the step wants to see.
        says: The columns of its answers.
        step: The pure function.
    """

    by: tuple[str, ...]
    reads: tuple[str, ...]
    says: StructType
    step: Step


class Shell(StatefulProcessor):
    """Calls a step from a stream."""

    def __init__(self, fold: Fold) -> None:
        """Remember what to call; Spark sends this object to its Python workers."""
        self._step = fold.step
        self._names = fold.says.fieldNames()

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Open the state."""
        self._handle = handle
        self._kept = handle.getValueState("kept", "state STRING, wake_ms LONG")

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
        state, former = (json.loads(found[0]), found[1]) if found else (None, None)
        folded = self._step(state, events, timers.getCurrentWatermarkInMs() * MILLISECOND)
        wake = _wake(folded)
        if wake is not None and wake == fired:
            wake += 1  # a fired timer is taken away after this call, so the same moment would not ring again
        if former not in {None, wake, fired}:
            self._handle.deleteTimer(former)
        if wake is not None and wake != former:
            self._handle.registerTimer(wake)
        if folded.state is not None:
            self._kept.update((json.dumps(folded.state, separators=(",", ":")), wake))
        elif found:
            self._kept.clear()
        return iter(
            [Row(**{name: answer[name] for name in self._names}) for answer in folded.answers]
        )


def _wake(folded: Folded) -> int | None:
    """Return the millisecond for which to set the timer: Spark fires it when the watermark is beyond."""
    if folded.state is None or folded.wake_at is None:
        return None
    return -(-folded.wake_at // MILLISECOND) - 1


def at_once(fold: Fold) -> Callable[[pa.Table], pa.Table]:
    """Return a function that calls a step with all rows of a key; ``settled`` is one of their columns."""
    schema = pa.schema([(field.name, _arrow(field.dataType.typeName())) for field in fold.says])

    def answers(rows: pa.Table) -> pa.Table:
        events = rows.to_pylist()
        settled = events[0]["settled"]
        found = fold.step(None, events, FOREVER if settled is None else settled)
        return pa.Table.from_pylist(list(found.answers), schema=schema)

    return answers


def _arrow(name: str) -> pa.DataType:
    return {"string": pa.string(), "long": pa.int64(), "boolean": pa.bool_()}[name]


def arrival(row: Event) -> dict[str, int]:
    """Return what ``in_order`` sorts by, of a row with ``arrived`` in microseconds and its place in Kafka."""
    return {
        "at": row["at"],
        "arrived": row["arrived"],
        "part": row["_partition"],
        "offset": row["_offset"],
    }


def in_order(events: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Sort what is remembered as it happened; of one moment the first that arrived comes first."""
    return sorted(events, key=lambda e: (e["at"], e["arrived"], e["part"], e["offset"]))


def last_words(answers: Iterable[Answer], key: Sequence[str]) -> list[Answer]:
    """Keep the last answer for each key, in the order in which keys were first spoken of."""
    found: dict[tuple[Any, ...], Answer] = {}
    for answer in answers:
        found[tuple(answer[name] for name in key)] = answer
    return list(found.values())
