"""A table is rebuilt as a shadow, promoted in one commit, and the promotion can be undone; no event is lost."""

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from pyspark.sql import SparkSession

from fleet.gold import device_daily
from fleet.gold import device_signal_10m as gold
from fleet.silver import device_telemetry as silver
from strandline.core.errors import DefinitionError
from strandline.core.stateful import AvailableNow, Batch
from strandline.core.table import Table
from strandline.engine.accounting.balance_sheet import balance
from strandline.engine.flow.runner import Site, run
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.open_table import opened
from strandline.engine.proof.compare import compare
from strandline.engine.repair import rebuild as module
from strandline.engine.repair.backfill import backfill
from strandline.engine.repair.closed_range import Span
from strandline.engine.repair.rebuild import (
    promote,
    rebuild,
    refuse_unfit,
    refuse_without_shadow,
    undo,
)
from tests.support import lakes
from tests.support.events import readings, received
from tests.support.modes import answers_of, derive, proven, twin
from tests.support.morning import LATER, STRICT, TABLES
from tests.support.rows import NOON, at

pytestmark = [pytest.mark.core, pytest.mark.slow]


@pytest.fixture
def site(spark: SparkSession) -> Site:
    """Return the site of a rebuild."""
    return Site(spark=spark, clock=lambda: NOON)


@contextmanager
def polled(lake: Lake, table: Table) -> Iterator[Counter[tuple[int, int]]]:
    """Read a table again and again, as a dashboard does, and return the versions and row counts that it saw."""
    seen: Counter[tuple[int, int]] = Counter()
    failures: list[Exception] = []
    stop = threading.Event()

    def read() -> None:
        while not stop.is_set():
            try:
                snapshot = opened(lake.table(table))
                seen[snapshot.version(), snapshot.to_pyarrow_table().num_rows] += 1
            except Exception as error:  # noqa: BLE001  # any error of a reader is a finding
                failures.append(error)

    thread = threading.Thread(target=read)
    thread.start()
    try:
        yield seen
    finally:
        stop.set()
        thread.join()
    assert failures == []


@pytest.mark.whole
def test_a_new_rule_is_shown_promoted_continued_and_undone(
    spark: SparkSession, morning: Lake, site: Site
) -> None:
    """A reader that polls throughout sees the old rows or the new ones, and never anything else."""
    before = answers_of(morning)
    other = twin(morning, "by the new rule from the beginning")
    derive(spark, other, STRICT)

    with polled(morning, silver.TABLE) as seen:
        made = rebuild(STRICT, morning, site)
        rows, held = compare(STRICT, morning, made)
        promote(STRICT, morning, site)
        promoted = answers_of(morning)
        undo(spark, STRICT, morning)

    assert (rows.only_left, rows.only_right, held.only_right) == (2, 0, 3)
    assert promoted.silver == answers_of(other).silver
    assert promoted.quarantine == answers_of(other).quarantine
    assert answers_of(morning) == before
    assert len({rows for _, rows in seen}) == 2, "the old rows and the new ones, nothing else"
    assert proven(morning, TABLES)


@pytest.mark.whole
def test_the_stream_resumes_at_the_exact_offset_after_a_promotion_and_after_its_undo(
    spark: SparkSession, morning: Lake, site: Site
) -> None:
    """Copies of earlier rows are still known, and rows that came between the two are read again."""
    other = twin(morning, "by the old rule")
    derive(spark, other, *TABLES)
    rebuild(STRICT, morning, site)
    promote(STRICT, morning, site)
    for lake in (morning, other):
        received(lake, readings(LATER))

    derive(spark, morning, STRICT)
    after = len(answers_of(morning).silver)
    assert proven(morning, TABLES)
    undo(spark, STRICT, morning)
    assert proven(morning, (silver.TABLE,))
    derive(spark, morning, *TABLES)
    derive(spark, other, *TABLES)

    assert after == 6 + 2
    assert answers_of(morning).silver == answers_of(other).silver
    assert answers_of(morning).quarantine == answers_of(other).quarantine
    assert balance(silver.TABLE, morning).faults == []


@pytest.mark.whole
def test_gold_is_rebuilt_from_silver_s_present_rows_and_not_from_its_appends(
    spark: SparkSession, morning: Lake, site: Site
) -> None:
    """A backfill and a promotion are no appends, and a new stream must begin with their rows."""
    backfill(spark, STRICT, morning, Span(since=at("09:00:00"), until=at("09:10:00")))
    rebuild(gold.TABLE, morning, site)
    promote(gold.TABLE, morning, site)
    received(morning, readings(LATER))
    derive(spark, morning, *TABLES)
    whole = Lake(morning.root.parent / "whole").open_for_writing()
    lakes.copy(morning.root / "silver", whole.root / "silver")
    derive(spark, whole, gold.TABLE, mode=Batch())

    assert answers_of(morning).closed == answers_of(whole).closed
    assert len(answers_of(morning).silver) == 7 + 2
    assert proven(morning, TABLES)


STEPS: dict[str, Callable[[SparkSession, Lake, Site], object]] = {
    "promote": lambda _, lake, site: promote(silver.TABLE, lake, site),
    "undo": lambda spark, lake, _: undo(spark, silver.TABLE, lake),
}


@pytest.mark.whole
def test_what_was_killed_before_the_checkpoint_was_exchanged_is_refused_until_it_is_finished(
    spark: SparkSession, morning: Lake, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows of one stream beside the state of another would corrupt the table."""
    before = answers_of(morning)
    rebuild(silver.TABLE, morning, site)
    for verb, step in STEPS.items():
        with monkeypatch.context() as patched:
            patched.setattr(module, "_exchange", killed)
            with pytest.raises(KeyboardInterrupt):
                step(spark, morning, site)

        with pytest.raises(
            DefinitionError, match=f"strandline {verb} .* was interrupted"
        ) as refused:
            run(silver.TABLE, AvailableNow(), morning, site=site)
        assert refused.value.hint == "run it again to finish it."
        step(spark, morning, site)
        derive(spark, morning, *TABLES)

    assert answers_of(morning) == before
    assert proven(morning, TABLES)


def killed(*_: object) -> None:
    """End as a kill would."""
    raise KeyboardInterrupt


def test_an_impossible_verb_is_refused_with_the_command_that_helps(
    spark: SparkSession, morning: Lake, site: Site
) -> None:
    """Before Spark starts, and before anything is written."""
    with pytest.raises(DefinitionError, match="was not rebuilt"):
        refuse_without_shadow(silver.TABLE, morning)
    with pytest.raises(DefinitionError, match="no promotion to undo"):
        undo(spark, silver.TABLE, morning)
    with pytest.raises(DefinitionError, match="keeps no state"):
        refuse_unfit(device_daily.TABLE, morning)
    with pytest.raises(DefinitionError, match="does not exist"):
        refuse_unfit(gold.TABLE, Lake(morning.root / "nothing"))
    rebuild(STRICT, morning, site)
    promote(STRICT, morning, site)
    undo(spark, STRICT, morning)
    with pytest.raises(DefinitionError, match="no promotion to undo"):
        undo(spark, STRICT, morning)
