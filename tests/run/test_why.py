"""One verdict for one event, whatever has become of it, each made for real."""

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from jobs import catalog
from jobs.core.errors import DefinitionError
from jobs.run import gates
from jobs.run.above import backfill_above
from jobs.run.backfill import backfill
from jobs.run.finding import Finding, Verdict, World
from jobs.run.gates import Shut
from jobs.run.lake import Lake
from jobs.run.span import Span
from jobs.run.why import why
from jobs.silver import device_telemetry as silver
from tests.support.events import readings, received
from tests.support.modes import derive
from tests.support.morning import LATER, STRICT
from tests.support.rows import NOON, at

HALF_HOUR = Span(since=at("09:00:00"), until=at("09:30:00"))
SIGNAL = "gold.device_signal_10m"


def asked(lake: Lake, what: str, table: str | None = None) -> Finding:
    return why(what, catalog.find(table) if table else None, World(lake=lake, now=NOON))


def test_a_row_is_told_with_its_file_and_the_rows_of_gold_that_rest_on_it(morning: Lake) -> None:
    """By its place in Kafka and by its key alike."""
    found = asked(morning, "device-telemetry/0/0")
    again = asked(morning, "a")

    assert (found.table, found.verdict) == ("silver.device_telemetry", Verdict.IN_TABLE)
    assert (found.evidence["version"], found.evidence["batch"]) == (1, 0)
    assert (morning.table(silver.TABLE) / str(found.evidence["file"])).exists()
    assert found.evidence["bronze"]["version"] == 1  # type: ignore[index]  # JSON
    (window,) = found.evidence["rests_on_it"]  # type: ignore[misc]  # JSON
    assert window["table"] == SIGNAL
    assert [row["window_from"] for row in window["rows"]] == ["2026-11-20T08:50:00+00:00"]
    assert again.verdict is Verdict.IN_TABLE
    assert again.evidence["offset"] == "device-telemetry/0/0"
    assert again.evidence["rests_on_it"] == found.evidence["rests_on_it"]


@pytest.mark.parametrize(
    ("copy", "first"),
    [
        ("device-telemetry/0/2", "device-telemetry/0/1"),
        ("device-telemetry/1/1", "device-telemetry/1/0"),
    ],
)
def test_a_copy_is_told_with_the_event_that_came_first(
    morning: Lake, copy: str, first: str
) -> None:
    """The bytes of the copy name the key, whatever their format."""
    found = asked(morning, copy)

    assert (found.verdict, found.evidence["original"]) == (Verdict.DUPLICATE, first)
    assert first in found.sentence


def test_what_is_held_back_is_told_with_every_reason_and_its_bytes(morning: Lake) -> None:
    """In the quarantine it is found by its place, and by a key only if its bytes have one."""
    found = asked(morning, "device-telemetry/1/2")

    assert found.verdict is Verdict.QUARANTINED
    assert found.evidence["reasons"] == ["malformed"]
    assert found.evidence["quarantine"]["batch"] == 0  # type: ignore[index]  # JSON
    assert found.evidence["payload"] == {"bytes": 8, "text": "not json"}
    assert found.evidence["arrived_at"] == "2026-11-20T09:06:00+00:00"


def test_late_and_early_are_told_with_how_much(spark: SparkSession, morning: Lake) -> None:
    """The law admits an hour and five minutes."""
    early = """
        batch | id | event_at | arrived_at
        5     | z  | 15:10:00 | 15:00:00
    """
    received(spark, morning, readings(early))
    derive(spark, morning, silver.TABLE)

    late = asked(morning, "g")
    soon = asked(morning, "z", "silver.device_telemetry")

    assert late.verdict is asked(morning, "device-telemetry/1/4").verdict is Verdict.LATE
    assert late.evidence["late_by_seconds"] == 31 * 60
    assert (soon.verdict, soon.evidence["early_by_seconds"]) == (Verdict.EARLY, 5 * 60)


def test_what_silver_has_not_read_waits_and_is_told_when(
    spark: SparkSession, morning: Lake
) -> None:
    """And a gate that is shut is told instead."""
    received(spark, morning, readings(LATER))

    found = asked(morning, "device-telemetry/0/7")
    by_key = asked(morning, "k")
    held_back = Shut(
        table="silver.device_telemetry",
        where=gates.Where.BEFORE,
        stream="s",
        batch=3,
        at="2026-11-20T12:00:00+00:00",
        findings=({"name": "not_null:value", "says": "too many"},),
    )
    gates.write(held_back, silver.TABLE, morning)
    shut = asked(morning, "device-telemetry/0/7")

    assert (found.verdict, found.evidence["lag"]) == (Verdict.NOT_READ_YET, 2)
    assert found.evidence["rows_a_second"] > 0  # type: ignore[operator]  # JSON
    assert str(found.evidence["expected_at"]).startswith("2026-11-20T12:")
    assert (by_key.verdict, by_key.evidence["offset"]) == (
        Verdict.NOT_READ_YET,
        "device-telemetry/0/8",
    )
    assert shut.verdict is Verdict.SHUT_OUT
    assert shut.evidence["gate"] == {
        "table": "silver.device_telemetry",
        "since": "2026-11-20T12:00:00+00:00",
        "batch": 3,
        "why": "not_null:value: too many",
    }


def test_a_window_that_is_open_is_told_with_its_end(morning: Lake) -> None:
    """By an event in it, and by the key of the row that there will be."""
    found = asked(morning, "h", SIGNAL)
    by_key = asked(morning, "d1,temperature,2026-11-20T12:00", SIGNAL)

    assert found.verdict is by_key.verdict is Verdict.OPEN
    assert found.evidence["closes_at"] == "2026-11-20T12:10:00+00:00"
    assert found.evidence["watermark"] == "2026-11-20T10:55:00+00:00"
    assert (found.evidence["event"], by_key.evidence["rows_of_source"]) == (
        "device-telemetry/0/5",
        1,
    )


def test_what_gold_has_not_read_waits_for_it(spark: SparkSession, morning: Lake) -> None:
    """Silver is a batch ahead."""
    received(spark, morning, readings(LATER))
    derive(spark, morning, silver.TABLE)

    found = asked(morning, "j", SIGNAL)

    assert (found.table, found.verdict) == (SIGNAL, Verdict.NOT_READ_YET)
    assert found.evidence["lag"] == 2
    assert asked(morning, "a", "gold.device_daily").sentence.endswith("was never run")


@pytest.mark.slow
def test_what_a_backfill_took_away_is_told_with_its_range(
    spark: SparkSession, morning: Lake
) -> None:
    """Silver's row is held back now, which says more; gold's is nowhere."""
    backfill(spark, STRICT, morning, HALF_HOUR)
    list(backfill_above(spark, silver.TABLE, morning, HALF_HOUR))

    window = asked(morning, "d2,temperature,2026-11-20T09:00", SIGNAL)
    reading = asked(morning, "c")
    spared = asked(morning, "d")
    backfill(spark, silver.TABLE, morning, HALF_HOUR)
    back = asked(morning, "c")
    unknown = asked(morning, "c", SIGNAL)

    assert window.verdict is Verdict.REPLACED
    assert (window.evidence["since"], window.evidence["until"]) == (
        "2026-11-20T08:50:00+00:00",
        "2026-11-20T09:30:00+00:00",
    )
    assert window.evidence["mode"] == "backfill"
    assert window.evidence["row"]["readings"] == 1  # type: ignore[index]  # JSON
    assert reading.verdict is Verdict.QUARANTINED
    assert reading.evidence["reasons"] == ["out_of_range:value"]
    was = reading.evidence["was_in_the_table"]
    assert (was["version"], was["since"]) == (2, "2026-11-20T09:00:00+00:00")  # type: ignore[index]  # JSON
    assert spared.verdict is back.verdict is Verdict.IN_TABLE
    assert back.evidence["version"] == 3
    assert (unknown.verdict, unknown.evidence["mode"]) == (Verdict.NOT_READ_YET, "backfill")


def test_of_a_key_that_is_nowhere_nothing_is_known_while_no_broker_can_be_asked(
    morning: Lake,
) -> None:
    """The answer says where it was looked for, and where it could not be."""
    found = asked(morning, "nobody-knows-it")

    assert found.verdict is Verdict.UNKNOWN
    assert "silver.device_telemetry" in found.evidence["searched"]  # type: ignore[operator]  # JSON
    assert "no broker is known" in str(found.evidence["unread_in_kafka"])


def test_a_lake_that_contradicts_itself_is_not_explained_away(morning: Lake) -> None:
    """A row that somebody deleted is no copy, and a record whose file is gone is no hole."""
    DeltaTable(morning.table(silver.TABLE)).delete("event_id = 'd'")
    deleted = asked(morning, "device-telemetry/0/3")
    for file in morning.table(silver.TABLE.upstream[0]).glob("*.parquet"):
        file.unlink()

    gone = asked(morning, "device-telemetry/0/3")

    assert deleted.verdict is gone.verdict is Verdict.UNACCOUNTED


@pytest.mark.parametrize(
    ("what", "table", "told"),
    [
        ("nowhere/0/1", None, "no table reads a topic nowhere"),
        ("a", "bronze.device_telemetry", "is as received"),
        ("user-actions/0/1", SIGNAL, "no event of gold.device_signal_10m"),
        ("a,b", "silver.device_telemetry", "no event of silver.device_telemetry"),
        ("d1,temperature,noon", SIGNAL, "'noon' is no value of window_from"),
        ("d1,temperature,osaka,2026-11-20", "gold.device_daily", "does not exist"),
    ],
)
def test_a_question_that_names_no_event_is_refused(
    morning: Lake, what: str, table: str | None, told: str
) -> None:
    """With what could be typed instead."""
    with pytest.raises(DefinitionError, match=told) as refused:
        asked(morning, what, table)

    assert refused.value.hint
