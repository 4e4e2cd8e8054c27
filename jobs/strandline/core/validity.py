"""Changes of rows to validity intervals: a row is valid from one of its changes to the next, and a delete ends it.

For changes that a database's log orders (jobs/strandline/core/parse_debezium.py). Of changes of one moment the last in the log counts,
because MySQL's clock has seconds. A change that comes late divides the interval into which it falls.

A delete is an interval as well, which ends as it begins: no moment is in it, so no join finds it. It is there because an
interval that begins at that moment may have been emitted before a late delete came, and an answer can be replaced and not taken back.

The last change of a row stays in the state for ever, because the next one ends its interval, or moves its delete's.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    BooleanType,
    ByteType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructField,
    StructType,
)

from strandline.core.errors import DefinitionError
from strandline.core.fold import Answer, Event, Fold, Folded, arrival, time_order
from strandline.core.parse_debezium import AT, DELETE, OP, POSITION, TOMBSTONE
from strandline.core.stateful import folded
from strandline.core.waiting import Memory

FROM, UNTIL, NEXT = "from_us", "until_us", "next_us"
GONE = "gone"
PLAIN = (StringType, BooleanType, ByteType, ShortType, IntegerType, LongType)
"""The types of columns that state holds, which is JSON (jobs/strandline/core/fold.py)."""


@dataclass(frozen=True, slots=True)
class _Intervals:
    """The step of the fold.

    Args:
        by: The columns that identify a row of the database's table.
        columns: Its other columns.
    """

    by: tuple[str, ...]
    columns: tuple[str, ...]

    def __call__(self, memory: Memory, rows: list[Event], watermark: int) -> Folded:
        """Emit the intervals that new changes begin or divide."""
        changes = memory.waiting("changes", _log_order)
        new = sorted(map(self._remembered, rows), key=_log_order)
        answers: list[Answer] = []
        if new:  # intervals that end before the first of them do not change
            before = changes.before(new[0]["at"]) or memory.head.get("last")
            known = [*([before] if before else []), *changes.since(new[0]["at"])]
            emitted = {each[FROM]: each for each in self._intervals(known)}
            now = self._intervals(sorted([*known, *new], key=_log_order))
            answers = [each for each in now if emitted.get(each[FROM]) != each]
            changes.add(new)
        past = changes.pop(watermark)
        last = past[-1] if past else memory.head.get("last")
        memory.head = {"last": last} if last else {}
        is_one = len(changes) + len(memory.head) <= 1
        return Folded(answers, None if is_one else changes.last)

    def _remembered(self, row: Event) -> dict[str, Any]:
        names = (*self.by, *self.columns, POSITION, GONE)
        return {**arrival(row), **{name: row[name] for name in names}}

    def _intervals(self, changes: Sequence[dict[str, Any]]) -> list[Answer]:
        last_of_moment = list({each["at"]: each for each in changes}.values())
        ends = (each["at"] for each in last_of_moment[1:])
        return [
            {
                **{name: each[name] for name in (*self.by, *self.columns)},
                FROM: each["at"],
                UNTIL: each["at"] if each[GONE] else end,
                NEXT: end,
            }
            for each, end in zip_longest(last_of_moment, ends)
        ]


def _log_order(change: Any) -> list[Any]:  # noqa: ANN401  # a row or what is remembered of it
    at, *place = time_order(change)
    return [at, change[POSITION], *place]


def fold_of(by: Sequence[str], columns: StructType) -> Fold:
    """Return the fold of changes to intervals.

    Args:
        by: The columns that identify a row.
        columns: All columns of the rows, with their types.

    Raises:
        DefinitionError: A column is of a type that state cannot hold.
    """
    for field in columns:
        if not isinstance(field.dataType, PLAIN):
            raise DefinitionError(
                f"column {field.name} is {field.dataType.simpleString()}, and intervals are kept as texts and integers",
                hint="cast it to a text in the table of changes, and back above the intervals.",
                field=field.name,
            )
    others = _others(by, columns)
    return Fold(
        by=tuple(by),
        reads=(*others, POSITION, GONE, "arrived", "_partition", "_offset"),
        output=StructType(
            [*columns.fields, *(StructField(each, LongType()) for each in (FROM, UNTIL, NEXT))]
        ),
        key=(*by, FROM),
        step=_Intervals(tuple(by), others),
        form=1,  # 0 is one JSON value of a step that has no queues (jobs/strandline/core/waiting.py)
        migrate=_keep,
    )


def validity(changes: DataFrame, by: Sequence[str], columns: StructType) -> DataFrame:
    """Return the intervals in which rows of a database's table were valid, with ``valid_from``, ``valid_until``, ``ended_on``.

    The last is the day of the next change, and the first day of all where there is none: the folder of an interval's file. All open
    intervals are in one, so that joins read few files, and whatever replaces an interval has a part in the folder
    of that interval, also a delete. (The intervals of an Upserted table are replaced folder by folder.)

    Args:
        changes: Rows of a judged table of change events, with ``_arrived_at`` and their place.
        by: The columns that identify a row.
        columns: All columns of the rows, with their types.
    """
    rows = changes.where(F.col(OP) != TOMBSTONE).withColumns(
        {"arrived": F.unix_micros("_arrived_at"), GONE: F.col(OP) == DELETE}
    )
    never = F.lit("1970-01-01").cast("timestamp")
    intervals = folded(rows, fold_of(by, columns), time=AT)
    return intervals.select(
        *by,
        F.timestamp_micros(FROM).alias("valid_from"),
        F.timestamp_micros(UNTIL).alias("valid_until"),
        *_others(by, columns),
        F.coalesce(F.date_trunc("day", F.timestamp_micros(NEXT)), never).alias("ended_on"),
    )


def _others(by: Sequence[str], columns: StructType) -> tuple[str, ...]:
    return tuple(name for name in columns.fieldNames() if name not in by)


def _keep(_: Memory) -> None:
    """Migrate nothing: there is one form so far."""
