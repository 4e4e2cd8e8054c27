"""Doctor, radar and ledger say what is lost of a topic that was made anew, and the one way on."""

from pathlib import Path
from typing import cast

import pytest
from pyspark.sql import SparkSession

from fleet.bronze import device_telemetry as bronze
from fleet.bronze import process_events
from strandline.alerting.alert_rule import rules_folder
from strandline.alerting.tables import bronze as alerts
from strandline.core.topic import RECEIVED
from strandline.engine.flow.feed_ledger import NO_ROWS
from strandline.engine.kafka import broker
from strandline.engine.kafka.topic_log import WAY
from strandline.engine.lake.commit import create_table
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger import Entry
from tests.cli.inside import strandline, succeeded
from tests.support.ledgers import write_log

pytestmark = pytest.mark.kafka

RULE = rules_folder() / "process_backups_deleted.yml"
LOST = "what the former one had from offset 10 of partition 0 on is lost"


def test_each_of_them_names_what_is_lost_and_the_way_on(kafka: str, lake: Lake) -> None:
    """The lake has read a topic whose id no topic of this cluster has, whether or not one of the name is there."""
    topic = bronze.TABLE.topics[0].name
    read = Entry(
        table=bronze.TABLE.id,
        mode="available-now",
        batch=0,
        source=topic,
        stream=f"{topic}@of-another-time",
        offsets={f"{topic}/0": (0, 10)},
        read=10,
        good=10,
        without_record=10,
    )
    create_table.create(cast(SparkSession, None), lake.table(bronze.TABLE), RECEIVED)
    write_log(lake.table(bronze.TABLE), [read], first=1)
    there = {"env": {"STRANDLINE_KAFKA": kafka, "STRANDLINE_LAKE": str(lake.root)}}

    checks = {each["name"]: each for each in strandline("doctor", "--json", **there).json}
    radar = strandline("radar", **there)
    ledger = succeeded("ledger", **there)

    assert (checks["kafka"]["ok"], checks["kafka"]["hint"]) == (False, WAY)
    assert LOST in checks["kafka"]["detail"]
    assert radar.code != 0
    assert LOST in radar.out + radar.err
    assert WAY in radar.err
    assert f"lost to {bronze.TABLE.id}: {topic}/0, its topic was" in ledger.out
    assert LOST in ledger.out


def test_the_process_that_raises_alerts_ends_with_what_is_lost_and_the_way_on(
    kafka: str, lake: Lake, tmp_path: Path, spark: SparkSession
) -> None:
    """As a feed it has read another topic of the name; it ended with 70 and a stack trace."""
    source = process_events.TABLE
    topic = source.topics[0].name
    broker.make_missing(kafka, [source, alerts.TABLE])
    (tmp_path / RULE.name).write_bytes(RULE.read_bytes())
    read = Entry(
        table=f"live.{source.name}",
        mode="micro-batch",
        batch=0,
        source=topic,
        stream=f"{topic}@of-another-time",
        offsets={f"{topic}/0": (0, 10)},
        read=10,
        good=10,
    )
    folder = lake.root / "live" / source.name
    create_table.create(spark, folder, NO_ROWS)
    write_log(folder, [read], first=1)

    there = {"STRANDLINE_KAFKA": kafka, "STRANDLINE_LAKE": str(lake.root)}
    found = strandline("alerts", tmp_path, "--mode", "micro-batch", env=there)

    assert found.code == 4, found.printed
    assert f"live.{source.name} read another topic of the name {topic}" in found.printed
    assert LOST in found.printed
    assert WAY in found.printed
