"""History from files becomes rows beside the stream: once, accounted for, and as if Kafka had had it first."""

import random
from datetime import timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from jobs.core.received import PLACE
from jobs.engine.proof.compare import compare
from jobs.engine.storage.lake import Lake
from tests.cli.inside import succeeded
from tests.support.events import Event, readings, received
from tests.support.modes import derive
from tests.support.morning import LATER, MORNING, TABLES, streamed
from tests.support.past import as_received, month, written
from tests.support.rows import NOON

pytestmark = [pytest.mark.core, pytest.mark.slow]

TYPED = ("import", "bronze.device_telemetry", "--topic", "device-telemetry")
FROM_KAFKA = (*PLACE, "_message_key", "_headers")


def test_imported_days_equal_the_same_days_through_kafka(
    spark: SparkSession, morning: Lake, tmp_path: Path, chance: random.Random
) -> None:
    """Silver, quarantine and gold; the stream goes on afterwards, and all books balance."""
    past = month(chance, NOON - timedelta(days=5), days=2, a_day=150)
    files = written(tmp_path / "past", past)
    plan = succeeded(*TYPED, tmp_path / "past", "--dry-run", "--json", "--lake", morning.root)
    assert plan.json["rows"] == len(as_received(past))

    done = succeeded(*TYPED, tmp_path / "past", "--slice", 200, "--json", "--lake", morning.root)

    assert (done.json["rows"], done.json["brought"]) == (plan.json["rows"], plan.json["rows"])
    again = succeeded(*TYPED, tmp_path / "past", "--lake", morning.root)
    assert "nothing new" in again.out
    streamed(spark, morning, LATER)
    sheets = succeeded("ledger", "--audit", "--json", "--lake", morning.root).json
    assert [sheet["faults"] for sheet in sheets] == [[], [], []]
    assert [sheet["waiting"] for sheet in sheets] == [0, 0, 0]

    kafka = Lake(tmp_path / "kafka").open_for_writing()
    events = [
        Event(
            payload=each.payload, batch=0, arrived_at=each.arrived_at, ingested_at=each.arrived_at
        )
        for each in as_received(past)
    ]
    received(kafka, [*events, *readings(MORNING), *readings(LATER)])
    derive(spark, kafka, *TABLES)
    for table in TABLES:
        for one in compare(table, morning, kafka, without=FROM_KAFKA):
            assert one.equal, one
    verified = succeeded(
        "verify",
        *(table.id for table in TABLES),
        "--splits",
        2,
        "--kills",
        0,
        "--json",
        "--lake",
        morning.root,
    )
    assert [each["equal"] for each in verified.json] == [True, True]
    assert files[0].exists()
