"""What may not be closed is refused, before a file of the table or of its stream is changed."""

from dataclasses import replace

import pytest
from pyspark.sql import SparkSession

from fleet.bronze import device_telemetry as bronze
from fleet.gold import device_signal_10m as gold
from fleet.silver import device_telemetry as silver
from strandline.core.errors import DefinitionError, TransientError
from strandline.core.stateful import AvailableNow, Batch
from strandline.core.topic import Topic
from strandline.engine.flow.runner import Site, run
from strandline.engine.lake.lake import CLOSES, Lake, forms
from strandline.engine.lake.spark_checkpoint import CLOSED, closed_ms, newest_planned, order_close
from strandline.engine.repair.close import close_as_batch, looked
from strandline.engine.runtime import clock
from strandline.operate import run as operate_run
from strandline.operate.run import await_read
from tests.cli.inside import strandline
from tests.engine.records import make
from tests.engine.records import put as send
from tests.engine.repair.test_close import ALL, BY, LOG, closed, fell_silent, site, windows
from tests.support.events import readings, received
from tests.support.modes import derive
from tests.support.rows import NOON, at


@pytest.fixture
def silent(spark: SparkSession, lake: Lake) -> Lake:
    """Return a lake whose topic has sent three readings, and then none."""
    return fell_silent(spark, lake)


def test_a_batch_orders_nothing_of_a_table_that_a_stream_writes(
    spark: SparkSession, silent: Lake
) -> None:
    """Not a file is left: the stream would find a plan that is not its own."""
    checkpoint = silent.checkpoint(gold.TABLE)
    before = newest_planned(checkpoint)

    with pytest.raises(DefinitionError, match="is written by a stream"):
        close_as_batch(gold.TABLE, silent, site(spark), BY)

    assert newest_planned(checkpoint) == before
    assert not (checkpoint / CLOSED).exists()
    assert CLOSES not in forms(silent.formats)
    derive(spark, silent, gold.TABLE)


def test_a_plan_of_a_stream_is_never_replaced(silent: Lake) -> None:
    """Its batch may be half written: what it has read would be counted twice."""
    checkpoint = silent.checkpoint(gold.TABLE)
    newest = newest_planned(checkpoint)
    assert newest is not None
    plan = (checkpoint / "offsets" / str(newest)).text()
    assert plan is not None
    (checkpoint / "offsets" / str(newest + 1)).put(plan)

    with pytest.raises(TransientError, match=f"its batch {newest + 1} is planned and not done"):
        order_close(checkpoint, int(at("11:09:01").timestamp() * 1000), BY, 0)

    assert (checkpoint / "offsets" / str(newest + 1)).text() == plan
    assert not (checkpoint / CLOSED).exists()


def test_a_batch_is_not_closed_before_what_it_reads_is_read(
    spark: SparkSession, lake: Lake
) -> None:
    received(lake, readings(LOG))
    derive(spark, lake, silver.TABLE, mode=Batch())
    received(lake, readings("batch | id | event_at | arrived_at\n4 | d | 11:50:00 | 11:50:00"))

    with pytest.raises(TransientError, match=r"silver\.device_telemetry has 1 rows to read"):
        close_as_batch(gold.TABLE, lake, site(spark), BY)

    assert closed_ms(lake.checkpoint(gold.TABLE)) == 0


@pytest.mark.kafka
def test_a_table_is_not_closed_while_bronze_cannot_be_read(
    silent: Lake, kafka: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the topic has on time would be refused; this broker has no such topic."""
    monkeypatch.setattr(clock, "now", lambda: NOON)

    found = strandline(
        "run",
        gold.TABLE.id,
        "--until-closed",
        "--lake",
        silent.root,
        env={"STRANDLINE_KAFKA": kafka},
    )

    assert found.code != 0
    assert f"{gold.TABLE.id} is not closed: {bronze.TABLE.id} could not be brought" in found.err
    assert windows(silent) == ALL[:1]


@pytest.mark.kafka
def test_bronze_that_another_process_feeds_is_awaited_up_to_the_end_of_its_topics(
    spark: SparkSession, lake: Lake, kafka: str, topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The ledger alone knows nothing of what it lags behind."""
    make(kafka, topic)
    send(kafka, topic, [(0, 0), (1, 0)])
    table = replace(bronze.TABLE, reads=(topic,))
    place = Site(spark=spark, clock=lambda: NOON, address=kafka)
    run(table, AvailableNow(), lake, site=place)
    await_read(table, lake, place)
    send(kafka, topic, [(0, 1)])
    monkeypatch.setattr(operate_run, "PATIENCE", 0.0)

    with pytest.raises(TransientError, match="has 1 rows to read, and the process that feeds it"):
        await_read(table, lake, place)

    run(table, AvailableNow(), lake, site=place)
    await_read(table, lake, place)


def test_a_close_is_refused_before_what_it_reads_is_read(spark: SparkSession, silent: Lake) -> None:
    received(silent, readings("batch | id | event_at | arrived_at\n4 | d | 11:50:00 | 11:50:00"))

    with pytest.raises(TransientError, match=r"silver\.device_telemetry has 1 rows to read"):
        closed(spark, silent)

    assert windows(silent) == ALL[:1]


def test_what_is_not_closed_is_not_said_to_be(spark: SparkSession, silent: Lake) -> None:
    with pytest.raises(TransientError, match="and not up to 2026-11-20T11:09:01"):
        looked(gold.TABLE, silent, at("11:09:01"))

    closed(spark, silent)
    assert looked(gold.TABLE, silent, at("11:09:01")) == at("11:09:01")
