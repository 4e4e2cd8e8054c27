"""Edits of a processor with state of its own."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from pyspark.sql import DataFrame, Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import LongType, StringType, StructType, TimestampType

from strandline.core.table import Upserted
from tests.support.edits import CLICKS, Edit

ANSWER = StructType().add("k", StringType()).add("began", TimestampType()).add("total", LongType())


class Totals(StatefulProcessor):
    """Sums ``v`` for each key, in one value of state."""

    FACTOR = 1

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Open the state."""
        self._total = handle.getValueState("total", "sum LONG")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Row]:  # noqa: ANN401, N802, N803, ARG002  # Spark's names
        """Add the rows of a key."""
        read = [row.asDict() for row in rows]
        (former,) = self._total.get() if self._total.exists() else (0,)
        total = former + sum(row["v"] for row in read)
        self._total.update((total,))
        return iter([Row(k=key[0], began=START, total=total * self.FACTOR)])


class OtherTotals(Totals):
    """Emits another figure of the same state."""

    FACTOR = 100


class TotalsAndMore(Totals):
    """Has a second variable of state."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Open the state."""
        super().init(handle)
        self._more = handle.getMapState("more", "name STRING", "count LONG")


class TotalsOfAnotherType(Totals):
    """Keeps its total as a text."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Open the state."""
        self._total = handle.getValueState("total", "sum STRING")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Row]:  # noqa: ANN401, N802, N803, ARG002  # Spark's names
        """Add the rows of a key."""
        read = [row.asDict() for row in rows]
        (former,) = self._total.get() if self._total.exists() else ("0",)
        total = int(former) + sum(row["v"] for row in read)
        self._total.update((str(total),))
        return iter([Row(k=key[0], began=START, total=total)])


START = datetime(2026, 11, 20, tzinfo=UTC)


def _totals(
    rows: DataFrame, made: StatefulProcessor, *by: str, time: str = "EventTime"
) -> DataFrame:
    return rows.groupBy(*by).transformWithState(made, ANSWER, "Update", time)


def totals(rows: DataFrame) -> DataFrame:
    return _totals(rows, Totals(), "k")


def other_totals(rows: DataFrame) -> DataFrame:
    return _totals(rows, OtherTotals(), "k")


def totals_and_more(rows: DataFrame) -> DataFrame:
    return _totals(rows, TotalsAndMore(), "k")


def totals_of_another_type(rows: DataFrame) -> DataFrame:
    return _totals(rows, TotalsOfAnotherType(), "k")


def totals_by_site(rows: DataFrame) -> DataFrame:
    return _totals(rows, Totals(), "site")


def totals_by_no_time(rows: DataFrame) -> DataFrame:
    return _totals(rows, Totals(), "k", time="None")


TOTALS = Upserted(
    name="totals",
    reads=(CLICKS,),
    transform=totals,
    key=("k",),
    event_at="began",
    window_from="began",
)


def processors() -> Iterator[Edit]:
    """Yield the edits of a processor with state of its own."""
    for name, transform in (
        ("processor: another figure of the same state", other_totals),
        ("processor: a variable added", totals_and_more),
        ("processor: a variable of another type", totals_of_another_type),
        ("processor: another key of the type", totals_by_site),
        ("processor: another mode of time", totals_by_no_time),
    ):
        yield Edit(name=name, before=TOTALS, after=replace(TOTALS, transform=transform))
    yield Edit(
        name="processor: a variable removed",
        before=replace(TOTALS, transform=totals_and_more),
        after=TOTALS,
    )
