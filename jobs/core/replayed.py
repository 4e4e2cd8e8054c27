"""A fold over everything there is: each key's rows in the order of their time, some at a time.

No list is as long as a key: rows come sorted from the engine's own sort, which spills to disk, and the step is called
as a stream would call it whose events all came in order. Rows of one moment are never divided, so all that was read is
settled, and the step has nothing to remember but what is open.
"""

from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa

from jobs.core.fold import Answer, Event, Fold
from jobs.core.waiting import InMemory, Memory

FOREVER = 1 << 62
SLICE = 10_000
"""Rows for which a step is called at least, and answers that are handed on together."""


def replayed(fold: Fold) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return a function that folds rows sorted by key and time; ``settled`` is one of their columns."""
    schema = pa.schema([(field.name, _arrow(field.dataType.typeName())) for field in fold.says])

    def answers(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        told: list[Answer] = []
        for answer in _told(fold, (row for batch in batches for row in batch.to_pylist())):
            told.append(answer)
            if len(told) >= SLICE:
                yield pa.RecordBatch.from_pylist(told, schema=schema)
                told = []
        yield pa.RecordBatch.from_pylist(told, schema=schema)

    return answers


def _told(fold: Fold, rows: Iterable[Event]) -> Iterator[Answer]:
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
        self._settled: int = FOREVER if row["settled"] is None else row["settled"]
        self._memory: Memory = fold.recall(None, InMemory())
        self._rows: list[Event] = []
        self._last: Answer | None = None

    def has(self, row: Event) -> bool:
        return [row[name] for name in self._fold.by] == self._of

    def take(self, row: Event) -> Iterator[Answer]:
        rows = self._rows
        if len(rows) >= SLICE and rows[-1]["at"] != row["at"]:
            yield from self._step(min(rows[-1]["at"], self._settled))
        self._rows.append(row)

    def rest(self) -> Iterator[Answer]:
        yield from self._step(self._settled)
        if self._last is not None:
            yield self._last

    def _step(self, settled: int) -> Iterator[Answer]:
        rows, self._rows = self._rows, []
        for answer in self._fold.step(self._memory, rows, settled).answers:
            if self._last is not None and not self._revises(self._last, answer):
                yield self._last
            self._last = answer

    def _revises(self, former: Answer, answer: Answer) -> bool:
        return all(former[name] == answer[name] for name in self._fold.key)


def _arrow(name: str) -> pa.DataType:
    return {"string": pa.string(), "long": pa.int64(), "boolean": pa.bool_()}[name]
