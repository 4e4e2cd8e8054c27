"""A backfill computes a closed range again and replaces its rows alone; every event stays accounted for."""

from dataclasses import replace

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from fleet.gold import device_signal_10m as gold
from fleet.silver import device_telemetry as silver
from strandline.core.errors import DefinitionError
from strandline.core.stateful import Batch
from strandline.core.table import Table
from strandline.engine.accounting.balance_sheet import balance
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger import Entry, entries
from strandline.engine.lake.open_table import opened
from strandline.engine.repair import backfill as module
from strandline.engine.repair.backfill import backfill
from strandline.engine.repair.closed_range import Span
from strandline.engine.repair.downstream import backfill_above
from tests.support import lakes
from tests.support.events import readings, received
from tests.support.modes import answers_of, derive, proven, twin
from tests.support.morning import LATER, MORNING, STRICT, TABLES, streamed
from tests.support.rows import at, rows

pytestmark = [pytest.mark.core, pytest.mark.slow]

HALF_HOUR = Span(since=at("09:00:00"), until=at("09:30:00"))


@pytest.mark.whole
def test_a_range_without_changes_keeps_its_rows_and_files(
    spark: SparkSession, morning: Lake
) -> None:
    """The commit writes no file again, and the streams run on as if there had been none.

    A stream may update a row that did not change, and an update while the range is computed must last.
    """
    before, files_before = answers_of(morning), files(morning)

    done = [backfill(spark, table, morning, HALF_HOUR) for table in TABLES]

    assert [(entry.came, entry.gone) for entry in done] == [(0, 0), (0, 0)]
    assert answers_of(morning) == before
    assert files(morning) == files_before
    assert proven(morning, TABLES)
    undisturbed(spark, morning)


def files(lake: Lake) -> list[list[str]]:
    """Return the files of each table."""
    return [sorted(opened(lake.table(table)).file_uris()) for table in TABLES]


def undisturbed(spark: SparkSession, lake: Lake) -> None:
    """Check that streams run on over a backfill, read nothing twice and balance."""
    other = twin(lake, "undisturbed")
    streamed(spark, lake, LATER)
    answers = answers_of(lake)
    received(other, readings(LATER))
    derive(spark, other, *TABLES)
    assert proven(lake, TABLES)
    assert answers == answers_of(other)


@pytest.mark.whole
def test_a_new_rule_moves_rows_and_their_copies_and_the_old_rule_moves_them_back(
    spark: SparkSession, morning: Lake
) -> None:
    """Rows outside of the range keep their old judgement; the ledger has what changed."""
    before = answers_of(morning)

    backfill(spark, STRICT, morning, HALF_HOUR)
    strict = answers_of(morning)
    ledger_has_what_changed(morning)
    backfill(spark, silver.TABLE, morning, HALF_HOUR)

    assert strict.of("silver", "event_id") == rows("""
        event_id
        a
        b
        d
        f
        h
        i
    """)
    assert strict.of("quarantine", "_partition", "_offset", "reasons") == rows("""
        _partition | _offset | reasons
        0          | 4       | out_of_range:value
        1          | 0       | out_of_range:value
        1          | 1       | out_of_range:value
        1          | 2       | malformed
        1          | 4       | late
    """)
    assert answers_of(morning) == before
    assert proven(morning, TABLES)


def ledger_has_what_changed(morning: Lake) -> None:
    """See that a reader who asks a year later why figures changed finds the reason there."""
    sheet = balance(silver.TABLE, morning)
    assert sheet.faults == []
    assert (sheet.read, sheet.good, sheet.duplicates) == (12, 6, 1)
    assert sheet.quarantined == {"malformed": 1, "late": 1, "out_of_range:value": 3}
    _, entry = list(entries(morning.table(silver.TABLE)))[-1]
    assert (entry.since, entry.until) == ("2026-11-20T09:00:00+00:00", "2026-11-20T09:30:00+00:00")
    assert (entry.came, entry.gone, entry.good, entry.duplicates) == (0, 2, -2, -1)


@pytest.mark.whole
def test_the_tables_downstream_of_a_range_follow_on_request(
    spark: SparkSession, morning: Lake
) -> None:
    """Gold equals a batch over the new silver."""
    backfill(spark, STRICT, morning, HALF_HOUR)
    (entry,) = [entry for _, entry in backfill_above(spark, silver.TABLE, morning, HALF_HOUR)]
    whole = Lake(morning.root.parent / "whole").open_for_writing()
    lakes.copy(morning.root / "silver", whole.root / "silver")
    derive(spark, whole, gold.TABLE, mode=Batch())

    assert entry is not None
    assert (entry.came, entry.gone) == (0, 2)
    assert answers_of(morning).closed == answers_of(whole).closed
    assert proven(morning, TABLES)
    undisturbed_after(spark, morning)


def undisturbed_after(spark: SparkSession, lake: Lake) -> None:
    """Check that streams run on over a backfill that changed rows."""
    counts = len(answers_of(lake).silver), len(answers_of(lake).closed)
    streamed(spark, lake, LATER)
    assert (len(answers_of(lake).silver), len(answers_of(lake).closed)) == (
        counts[0] + 2,
        counts[1] + 2,
    )
    assert proven(lake, TABLES)


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.id)
def test_a_range_that_the_stream_still_owns_is_refused_with_the_earliest_moment(
    spark: SparkSession, morning: Lake, table: Table
) -> None:
    """The watermark is 75 minutes behind 12:10; the stream may still admit later rows."""
    with pytest.raises(DefinitionError) as refused:
        backfill(spark, table, morning, Span(since=at("09:00:00"), until=at("11:10:00")))

    assert "still belongs to its stream" in refused.value.message
    assert "the earliest possible moment" in refused.value.hint
    assert "2026-11-20T12:" in refused.value.hint
    assert len(list(entries(morning.table(table)))) == len(
        [each for _, each in entries(morning.table(table)) if not each.is_backfill]
    )


@pytest.mark.whole
def test_a_table_without_a_stream_has_no_range_to_backfill(spark: SparkSession, lake: Lake) -> None:
    """A batch run replaces it as a whole."""
    received(lake, readings(MORNING))
    derive(spark, lake, silver.TABLE, mode=Batch())

    with pytest.raises(DefinitionError, match="not made by a stream"):
        backfill(spark, silver.TABLE, lake, HALF_HOUR)


@pytest.mark.whole
def test_rows_that_change_their_time_across_the_border_are_refused(
    spark: SparkSession, morning: Lake
) -> None:
    """Half of such a move would be lost."""
    later = replace(silver.TABLE, transform=earlier)

    with pytest.raises(DefinitionError, match="leave the range"):
        backfill(spark, later, morning, HALF_HOUR)


def earlier(events: DataFrame) -> DataFrame:
    """Read events whose clocks are slow."""
    read = silver.device_telemetry(events)
    return read.withColumn("event_at", F.col("event_at") - F.expr("INTERVAL 40 MINUTES"))


@pytest.mark.whole
def test_a_backfill_that_was_killed_between_its_two_commits_is_reported_and_finished(
    spark: SparkSession, morning: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The quarantine is written first; until the table is, the ledger reports the interruption."""
    with monkeypatch.context() as patched:
        patched.setattr(module, "_replace", killed)
        with pytest.raises(KeyboardInterrupt):
            backfill(spark, STRICT, morning, HALF_HOUR)

    (fault,) = balance(silver.TABLE, morning).faults
    assert "was interrupted; repeat it" in fault
    with pytest.raises(DefinitionError, match="was interrupted"):
        backfill(spark, STRICT, morning, Span(since=at("09:00:00"), until=at("09:10:00")))
    backfill(spark, STRICT, morning, HALF_HOUR)

    assert proven(morning, TABLES)
    assert len(answers_of(morning).silver) == 6
    assert len(answers_of(morning).quarantine) == 5


def killed(*_: object, **__: object) -> Entry:
    """End as a kill would."""
    raise KeyboardInterrupt
