"""A fold over all rows: each key's rows in the order of their time, a slice at a time.

No list holds all rows of a key: rows come sorted from Spark's own sort, which spills to disk, and the step is called
as by a stream whose events all came in order. Rows of one moment are never divided between two calls, so all rows
that were read are final, and the step's state holds only what is open.
"""

from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa

from strandline.core.fold import Answer, Event, Fold
from strandline.core.waiting import InMemory, Memory

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
