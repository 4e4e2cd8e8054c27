"""silver.alerts reads what the live path writes; that it has each alert once is seen by tests/faults/test_alerts_killed.py."""

from datetime import datetime

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from strandline.alerting.alert_rule import find
from strandline.alerting.one_plan import raised
from strandline.alerting.tables.silver import FIELDS, TABLE
from strandline.core.topic import Topic
from strandline.engine.flow.feed_query import as_records
from tests.support.feeds import DECODES, PLACED, feed
from tests.support.read import read
from tests.support.rows import NOON

pytestmark = pytest.mark.whole


def payload(spark: SparkSession, at: datetime) -> bytes:
    """Return the record of the alert on a start of a program."""
    source = find("process_events")
    assert source is not None
    event = source.row({**DECODES.fires_on[0], "ProcessGuid": "g", "UtcTime": at, "Computer": "c"})
    rows = spark.createDataFrame(
        [(*event.values(), "process-events", 1, 17)], StructType([*source.fields, *PLACED])
    )
    one = feed(Topic(name="s"), Topic(name="alerts"))
    (record,) = as_records(raised(rows, [DECODES]), one).select("value").collect()
    return str(record["value"]).encode()


def test_a_record_of_the_live_path_is_a_row(spark: SparkSession) -> None:
    """Field by field, so that a name that was mixed up is seen; and the event is JSON within JSON."""
    (row,) = read(spark, TABLE, payload(spark, NOON))

    assert {name: row[name] for name in FIELDS.names if name not in {"alert_id", "event"}} == {
        "rule_id": DECODES.id,
        "rule_version": DECODES.version,
        "rule_severity": str(DECODES.severity),
        "event_table": "silver.process_events",
        "event_key": '{"ProcessGuid":"g"}',
        "event_at": "12:00:00",
        "event_topic": "process-events",
        "event_partition": "1",
        "event_offset": "17",
    }
    assert '"ProcessGuid":"g"' in str(row["event"])
    assert row["_problem"] == "-"
