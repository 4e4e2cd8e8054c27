"""A repair beside a stream that reads a row of history at that moment: the row counts once, whichever of the two is first."""

from dataclasses import replace
from threading import Event as Signal
from threading import Thread
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from fleet.silver import device_telemetry as silver
from strandline.core.errors import TransientError
from strandline.core.stateful import MicroBatch
from strandline.core.table import Appended, Table
from strandline.engine.accounting.balance_sheet import balance
from strandline.engine.flow.runner import Site, run
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.open_table import opened
from strandline.engine.repair import replay as replay_module
from strandline.engine.repair import replay as replaying
from strandline.engine.repair.backfill import backfill
from strandline.engine.repair.closed_range import Span
from strandline.engine.repair.replay import replay
from strandline.engine.runtime.jvm import Meter
from strandline_quality.rules import between
from tests.support.events import commits, readings, received
from tests.support.modes import EVERY, derive, has_caught_up
from tests.support.rows import NOON, at
from tests.support.seeds import copied

pytestmark = [pytest.mark.core, pytest.mark.slow]


def named(rows: DataFrame) -> DataFrame:
    """Select what an event is called, as the table of alerts does."""
    return rows.select("event_id", "event_at")


OLD = replace(silver.TABLE, believes_history=True)
STRICT = replace(OLD, rules=(*OLD.rules, between("value", 0, 9)))
"""The same table before the range of possible values was widened."""

ABOVE = Appended(
    name="names", reads=(OLD,), transform=named, key=("event_id",), event_at="event_at"
)
LOG = """
    batch | id   | value | event_at | arrived_at
    1     | a    | 1     | 08:00:00 | 08:00:01
    1     | high | 50    | 08:01:00 | 08:01:01
    2     | b    | 2     | 14:00:00 | 14:00:01
    3     | old  | 3     | 05:00:00 | 14:10:00
    4     | high | 5     | 08:01:00 | 14:11:00
"""
"""The third commit has a row of history; the fourth a copy of the row that is held, so old that only the table knows it."""

MORNING = Span(since=at("04:00:00"), until=at("09:00:00"))


def ids(lake: Lake, table: Table) -> list[str]:
    rows = opened(lake.table(table)).to_pyarrow_table().to_pylist()
    return sorted(str(row["event_id"]) for row in rows)


def held(spark: SparkSession, lake: Lake) -> None:
    """Let the stream of before hold a row back; a copy of it waits in bronze."""

    def judged(seed: Lake) -> None:
        *before, copy = commits(readings(LOG))
        for batch in before:
            received(seed, batch)
        derive(spark, seed, STRICT)
        received(seed, copy)

    copied(lake, "a row is held and its copy waits", judged)


def test_a_row_of_history_that_the_stream_above_has_not_read_is_not_brought_before_it(
    spark: SparkSession, lake: Lake
) -> None:
    """Refused without a stream; beside one the repair waits for it, and the row is there once."""
    first, second, third, _ = commits(readings(LOG))
    received(lake, [*first, *second])
    derive(spark, lake, OLD, ABOVE)
    received(lake, third)
    derive(spark, lake, OLD)

    with pytest.raises(TransientError, match=r"has not read all of silver.device_telemetry"):
        backfill(spark, ABOVE, lake, MORNING)
    ended, site = Signal(), Site(spark=spark, clock=lambda: NOON)
    stopped = lambda: ended.is_set() and has_caught_up(lake, ABOVE)  # noqa: E731  # two words
    stream = Thread(
        target=lambda: run(ABOVE, MicroBatch(every=EVERY), lake, site=site, stopped=stopped)
    )
    stream.start()
    try:
        while not has_caught_up(lake, ABOVE):
            stream.join(0.1)
        done = backfill(spark, ABOVE, lake, MORNING)
    finally:
        ended.set()
        stream.join()

    assert (done.came, done.gone) == (0, 0)
    assert ids(lake, ABOVE) == ["a", "b", "high", "old"]
    assert balance(ABOVE, lake).faults == []


@pytest.mark.whole
def test_a_copy_that_the_stream_writes_while_a_replay_is_planned_counts_once(
    spark: SparkSession, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The replay stops before it writes the row, and typed again it finds the copy, which came later and goes."""
    held(spark, lake)
    write = replay_module.write_healed

    def meanwhile(*words: Any) -> None:  # noqa: ANN401  # those of write_healed
        derive(spark, lake, STRICT)
        write(*words)

    monkeypatch.setattr(replaying, "write_healed", meanwhile)

    with pytest.raises(TransientError, match="rows of the same time came"):
        replay(spark, OLD, lake)
    monkeypatch.undo()
    replay(spark, OLD, lake)

    assert ids(lake, OLD) == ["a", "b", "high", "old"]
    assert balance(OLD, lake).faults == []


@pytest.mark.whole
def test_a_row_that_a_replay_brings_while_a_batch_is_written_has_no_copy_in_it(
    spark: SparkSession, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The batch is withdrawn, and compared with the row when it runs again."""
    held(spark, lake)

    def meanwhile(_: Meter) -> int:
        """Measure the batch, which is written and not yet committed."""
        monkeypatch.undo()
        replay(spark, OLD, lake)
        return 0

    monkeypatch.setattr(Meter, "wall_ms", meanwhile)

    with pytest.raises(TransientError, match="a repair has brought rows"):
        derive(spark, lake, OLD)
    derive(spark, lake, OLD)

    assert ids(lake, OLD) == ["a", "b", "high", "old"]
    assert balance(OLD, lake).faults == []
