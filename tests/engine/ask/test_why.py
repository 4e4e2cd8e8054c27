"""Every event has one verdict, whatever became of it; each case is made by real runs."""

from datetime import UTC, datetime

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession
from strandline import catalog

from fleet.silver import device_telemetry as silver
from strandline.core.errors import DefinitionError
from strandline.engine.accounting import gate_files
from strandline.engine.accounting.gate_files import Shut
from strandline.engine.ask.locate import Finding, Verdict, World
from strandline.engine.ask.why import why
from strandline.engine.lake.lake import Lake
from strandline.engine.repair.backfill import backfill
from strandline.engine.repair.closed_range import Span
from strandline.engine.repair.downstream import backfill_above
from tests.support.events import Event, reading, readings, received
from tests.support.modes import derive
from tests.support.morning import LATER, STRICT
from tests.support.rows import NOON, at

HALF_HOUR = Span(since=at("09:00:00"), until=at("09:30:00"))
SIGNAL = "gold.device_signal_10m"


def asked(lake: Lake, what: str, table: str | None = None) -> Finding:
    return why(what, catalog.find(table) if table else None, World(lake=lake, now=NOON))


@pytest.mark.whole
def test_a_row_is_explained_with_its_file_and_the_gold_rows_that_depend_on_it(
    morning: Lake,
) -> None:
    """By its offset in Kafka and by its key alike."""
    finding = asked(morning, "device-telemetry/0/0")
    again = asked(morning, "a")

    assert (finding.table, finding.verdict) == ("silver.device_telemetry", Verdict.IN_TABLE)
    assert (finding.evidence["version"], finding.evidence["batch"]) == (1, 0)
    assert (morning.table(silver.TABLE) / str(finding.evidence["file"])).exists()
    assert finding.evidence["bronze"]["version"] == 1  # type: ignore[index]  # JSON
    (window,) = finding.evidence["rests_on_it"]  # type: ignore[misc]  # JSON
    assert window["table"] == SIGNAL
    assert [row["window_from"] for row in window["rows"]] == ["2026-11-20T08:50:00+00:00"]
    assert again.verdict is Verdict.IN_TABLE
    assert again.evidence["offset"] == "device-telemetry/0/0"
    assert again.evidence["rests_on_it"] == finding.evidence["rests_on_it"]


@pytest.mark.whole
@pytest.mark.parametrize(
    ("copy", "first"),
    [
        ("device-telemetry/0/2", "device-telemetry/0/1"),
        ("device-telemetry/1/1", "device-telemetry/1/0"),
    ],
)
def test_a_copy_is_explained_with_its_original(morning: Lake, copy: str, first: str) -> None:
    """The bytes of the copy contain the key, whatever their format."""
    finding = asked(morning, copy)

    assert (finding.verdict, finding.evidence["original"]) == (Verdict.DUPLICATE, first)
    assert first in finding.sentence


@pytest.mark.whole
def test_a_quarantined_record_is_explained_with_every_reason_and_its_bytes(morning: Lake) -> None:
    """The quarantine is searched by offset, and by key only if the bytes have one."""
    finding = asked(morning, "device-telemetry/1/2")

    assert finding.verdict is Verdict.QUARANTINED
    assert finding.evidence["reasons"] == ["malformed"]
    assert finding.evidence["quarantine"]["batch"] == 0  # type: ignore[index]  # JSON
    assert finding.evidence["payload"] == {"bytes": 8, "text": "not json"}
    assert finding.evidence["arrived_at"] == "2026-11-20T09:06:00+00:00"


@pytest.mark.whole
def test_late_and_early_are_explained_with_by_how_much(spark: SparkSession, morning: Lake) -> None:
    """The lateness rule admits an hour and five minutes."""
    early = """
        batch | id | event_at | arrived_at
        5     | z  | 15:10:00 | 15:00:00
    """
    received(morning, readings(early))
    derive(spark, morning, silver.TABLE)

    late = asked(morning, "g")
    soon = asked(morning, "z", "silver.device_telemetry")

    assert late.verdict is asked(morning, "device-telemetry/1/4").verdict is Verdict.LATE
    assert late.evidence["late_by_seconds"] == 31 * 60
    assert (soon.verdict, soon.evidence["early_by_seconds"]) == (Verdict.EARLY, 5 * 60)


def test_a_record_that_silver_has_not_read_is_explained_with_the_expected_time(
    morning: Lake,
) -> None:
    """A shut gate is reported instead."""
    received(morning, readings(LATER))

    finding = asked(morning, "device-telemetry/0/7")
    by_key = asked(morning, "k")
    held_back = Shut(
        table="silver.device_telemetry",
        where=gate_files.Where.BEFORE,
        stream="s",
        batch=3,
        at="2026-11-20T12:00:00+00:00",
        findings=({"name": "not_null:value", "says": "too many"},),
    )
    gate_files.write(held_back, silver.TABLE, morning)
    shut = asked(morning, "device-telemetry/0/7")

    assert (finding.verdict, finding.evidence["lag"]) == (Verdict.NOT_READ_YET, 2)
    assert finding.evidence["rows_a_second"] > 0  # type: ignore[operator]  # JSON
    assert str(finding.evidence["expected_at"]).startswith("2026-11-20T12:")
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


def test_an_open_window_is_explained_with_its_end(morning: Lake) -> None:
    """By an event in it, and by the key of its future row."""
    finding = asked(morning, "h", SIGNAL)
    by_key = asked(morning, "d1,temperature,2026-11-20T12:00", SIGNAL)

    assert finding.verdict is by_key.verdict is Verdict.OPEN
    assert finding.evidence["closes_at"] == "2026-11-20T12:10:00+00:00"
    assert finding.evidence["watermark"] == "2026-11-20T10:55:00+00:00"
    assert (finding.evidence["event"], by_key.evidence["rows_of_source"]) == (
        "device-telemetry/0/5",
        1,
    )


@pytest.mark.whole
def test_a_row_that_gold_has_not_read_is_not_read_yet(spark: SparkSession, morning: Lake) -> None:
    """Silver is a batch ahead."""
    received(morning, readings(LATER))
    derive(spark, morning, silver.TABLE)

    finding = asked(morning, "j", SIGNAL)

    assert (finding.table, finding.verdict) == (SIGNAL, Verdict.NOT_READ_YET)
    assert finding.evidence["lag"] == 2
    assert asked(morning, "a", "gold.device_daily").sentence.endswith("was never run")


@pytest.mark.whole
@pytest.mark.slow
def test_a_row_that_a_backfill_removed_is_explained_with_its_range(
    spark: SparkSession, morning: Lake
) -> None:
    """Silver's row is in quarantine now, which is the better answer; gold's row is nowhere."""
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


@pytest.mark.whole
def test_a_key_that_is_nowhere_is_unknown_while_no_broker_can_be_asked(morning: Lake) -> None:
    """The answer names what was searched, and what could not be."""
    finding = asked(morning, "no-such-key")

    assert finding.verdict is Verdict.UNKNOWN
    assert "silver.device_telemetry" in finding.evidence["searched"]  # type: ignore[operator]  # JSON
    assert "no broker is known" in str(finding.evidence["unread_in_kafka"])


@pytest.mark.whole
def test_a_key_is_looked_for_beside_a_record_of_the_calendar_s_last_moment(morning: Lake) -> None:
    """Whatever adds a span to its time would be beyond the calendar."""
    last = datetime(9999, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC)
    received(morning, [Event(payload=reading(event_id="wild"), batch=9, arrived_at=last)])

    nowhere = asked(morning, "no-such-key")
    wild = asked(morning, "wild")
    place = asked(morning, str(wild.evidence["offset"]))

    assert nowhere.verdict is Verdict.UNKNOWN
    assert wild.verdict is place.verdict is Verdict.NOT_READ_YET


def test_a_lake_that_contradicts_itself_is_not_explained_away(morning: Lake) -> None:
    """A row deleted by hand is no copy, and a record whose file is gone is no hole."""
    DeltaTable(morning.table(silver.TABLE)).delete("event_id = 'd'")
    deleted = asked(morning, "device-telemetry/0/3")
    for file in morning.table(silver.TABLE.upstream[0]).local.glob("*.parquet"):
        file.unlink()

    gone = asked(morning, "device-telemetry/0/3")

    assert deleted.verdict is gone.verdict is Verdict.UNACCOUNTED


@pytest.mark.parametrize(
    ("what", "table", "message"),
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
    morning: Lake, what: str, table: str | None, message: str
) -> None:
    """With a hint on what to type instead."""
    with pytest.raises(DefinitionError, match=message) as refused:
        asked(morning, what, table)

    assert refused.value.hint
