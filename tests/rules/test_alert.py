"""An alert has one id wherever it comes from, and shows nothing that is masked elsewhere."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession
from pyspark.sql.types import StructType

from strandline.alerting.alert_rule import AlertRule, AlertSource, find
from strandline.alerting.condition import Glob, Missing, Not, Text
from strandline.alerting.one_plan import alert_id, raised
from strandline.alerting.tables.silver import FIELDS as ALERT
from strandline_quality.mask import mask_value
from tests.support.engine import as_in_production
from tests.support.feeds import PLACED

AT = datetime(2026, 11, 20, 8, 15, 30, 123456, tzinfo=UTC)


def processes() -> AlertSource:
    found = find("process_events")
    assert found is not None
    return found


ANY = AlertRule(id="any", title="x", source=processes(), when=Not(Missing("Image")))
BIG = AlertRule(id="big", title="x", source=processes(), when=Text("Image", Glob.parse("*BIG")))


@pytest.fixture(scope="module")
def production(spark: SparkSession) -> Iterator[SparkSession]:
    """Return the session with the code that Spark generates, which must not be given up on any expression."""
    with as_in_production(spark):
        spark.conf.set("spark.sql.codegen.factoryMode", "CODEGEN_ONLY")
        yield spark


def event(**fields: object) -> dict[str, Any]:
    return processes().row({"ProcessGuid": "g", "UtcTime": AT, "Image": "x", **fields})


def found(spark: SparkSession, events: list[dict[str, Any]], *rules: AlertRule) -> list[Row]:
    schema = StructType([*processes().fields, *PLACED])
    rows = [(*each.values(), "process-events", 1, n) for n, each in enumerate(events)]
    return raised(spark.createDataFrame(rows, schema), rules).orderBy("event_offset").collect()


@pytest.mark.whole
def test_spark_and_python_give_one_id(production: SparkSession) -> None:
    """Whatever letters a key has, and to the microsecond."""
    keys = ["g", "", "1:a", "é€😀", "'\\`${x}", "g" * 70_000]
    moments = [AT, AT.replace(microsecond=0), datetime(1969, 12, 31, 23, 59, 59, 1, tzinfo=UTC)]
    events = [event(ProcessGuid=key, UtcTime=at) for key in keys for at in moments]

    rows = found(production, events, ANY)

    assert [row["alert_id"] for row in rows] == [alert_id(ANY, each) for each in events]
    assert len({row["alert_id"] for row in rows}) == len(events)


@pytest.mark.whole
def test_a_copy_of_an_event_has_the_id_of_the_first(production: SparkSession) -> None:
    """It lies elsewhere in Kafka, and may differ in what identifies nothing."""
    first, copy = found(production, [event(User="a"), event(User="b")], ANY)

    assert first["alert_id"] == copy["alert_id"]
    assert (first["event_offset"], copy["event_offset"]) == (0, 1)


@pytest.mark.whole
def test_another_rule_version_or_time_has_another_id(production: SparkSession) -> None:
    changed = AlertRule(
        id="any", title="x", source=processes(), when=Text("Image", Glob.parse("x*"))
    )
    later = event(UtcTime=AT + timedelta(microseconds=1))

    rows = [
        *found(production, [event(Image="xBIG"), later], ANY, BIG),
        *found(production, [event()], changed),
    ]

    assert len(rows) == len({row["alert_id"] for row in rows}) == 4


def test_no_two_identities_are_written_alike() -> None:
    """Without lengths between them, the end of an id could be the beginning of a key."""
    one, other = (
        AlertRule(id=name, title="x", source=processes(), when=Not(Missing("Image")))
        for name in ("r", "r1")
    )

    assert alert_id(one, event(ProcessGuid="1x")) != alert_id(other, event(ProcessGuid="x"))


@pytest.mark.whole
def test_an_alert_names_its_rule_its_event_and_the_place(production: SparkSession) -> None:
    (row,) = found(production, [event(Computer="c", ProcessId=7)], ANY)

    assert {name: row[name] for name in ALERT.names if name not in {"alert_id", "event"}} == {
        "rule_id": "any",
        "rule_version": ANY.version,
        "rule_severity": "medium",
        "event_table": "silver.process_events",
        "event_key": '{"ProcessGuid":"g"}',
        "event_at": AT.replace(tzinfo=None),
        "event_topic": "process-events",
        "event_partition": 1,
        "event_offset": 0,
    }
    assert json.loads(row["event"]) == {
        "ProcessGuid": "g",
        "UtcTime": "2026-11-20T08:15:30.123456Z",
        "Image": "x",
        "Computer": "c",
        "ProcessId": 7,
    }


def test_the_columns_are_those_that_are_declared(production: SparkSession) -> None:
    rows = production.createDataFrame([], StructType([*processes().fields, *PLACED]))

    shown = raised(rows, [ANY]).schema

    assert [(f.name, f.dataType) for f in shown] == [(f.name, f.dataType) for f in ALERT]


@pytest.mark.whole
def test_sensitive_columns_are_masked_as_everywhere(production: SparkSession) -> None:
    lengths = [0, 1, 2, 3, 4, 5, 8, 9, 64, 65, 4096, 4097]
    events = [event(CommandLine="é" * length, User=None) for length in lengths]

    rows = found(production, events, ANY)

    shown = [json.loads(row["event"]) for row in rows]
    assert [each["CommandLine"] for each in shown] == [mask_value("é" * n) for n in lengths]
    assert not any("User" in each for each in shown)
