"""What an edit asks of each table is read from the ledger: by which code its rows were made, and of which rows of its sources."""

import json
from dataclasses import asdict, replace

import pytest
from pyspark.sql import SparkSession

from fleet.gold import device_signal_10m as gold
from strandline.core.table import Table
from strandline.engine.accounting import balance_sheet
from strandline.engine.accounting.table_books import Closed, close
from strandline.engine.flow.compare_plans import makes_the_same, stateful_plan
from strandline.engine.flow.plan import framed
from strandline.engine.flow.preflight import Answer, Verdict
from strandline.engine.flow.runner import Site
from strandline.engine.flow.spark_plan import StatefulPlan
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger import Entry, latest_version
from strandline.engine.lake.log.ledger_sums import MOST_CODES, Sums, snapshot_file, sums_of
from strandline.engine.lake.spark_checkpoint import read_record
from strandline.engine.repair.migrate import Step, is_in_force, made, note_equal, planned, stale
from strandline.engine.repair.rebuild import promote, rebuild, undo
from strandline.engine.runtime.code_files import code_version
from tests.support.morning import STRICT, TABLES
from tests.support.rows import NOON

pytestmark = pytest.mark.core


def entry(code: str, *, first: int, rows: int = 1, **more: object) -> Entry:
    """Return the entry of a batch that read one version of a source."""
    about = {"table": "gold.t", "mode": "available-now", "stream": "s", "source": "silver.s"}
    return Entry(
        **about, batch=first, code=code, written=rows, versions={"silver.s": (first, first)}, **more
    )  # type: ignore[arg-type]


def test_the_sums_know_by_which_code_rows_were_made_and_from_where_they_were_read() -> None:
    sums = Sums()
    for version, code in enumerate(["old", "old", "new", "old", "new"]):
        sums.add(version, entry(code, first=version + 7))
    sums.add(5, entry("idle", first=12, rows=0))

    assert sums.codes == {"old": [0, 3], "new": [2, 4]}
    assert sums.first_read == {"silver.s": 7}


def test_a_promotion_begins_them_anew_and_an_undo_says_what_it_gave_up() -> None:
    sums = Sums()
    sums.add(0, entry("old", first=0))
    sums.add(1, entry("new", first=3, replaced=True, promoted="mark"))
    assert (sums.codes, sums.first_read, sums.undone) == ({"new": [1, 1]}, {"silver.s": 3}, -1)

    sums.add(2, entry("old", first=0, replaced=True, promoted="undo mark"))
    assert (sums.codes, sums.first_read, sums.undone) == ({"old": [2, 2]}, {"silver.s": 0}, 1)


def test_after_two_promotions_and_an_undo_older_rows_are_still_not_in_force() -> None:
    below = Sums()
    below.add(0, entry("a", first=0))
    for version, mark in ((1, "one"), (2, "two"), (3, "undo two")):
        below.add(version, entry(mark, first=0, replaced=True, promoted=mark))

    assert [is_in_force(first, below, seen=9) for first in range(5)] == [
        False,
        True,
        False,
        True,
        True,
    ]


def test_who_read_what_an_undo_gave_up_has_read_it_twice() -> None:
    below = Sums()
    below.add(0, entry("a", first=0))
    below.add(1, entry("b", first=0, replaced=True, promoted="one"))
    below.add(2, entry("b", first=4))  # its stream has read on
    below.add(3, entry("a", first=0, replaced=True, promoted="undo one"))

    assert below.redone == 1
    assert not is_in_force(0, below, seen=2)
    assert is_in_force(0, below, seen=0)
    assert is_in_force(3, below, seen=9)


def test_of_very_many_versions_of_code_the_last_ones_are_remembered() -> None:
    sums = Sums()
    for version in range(3 * MOST_CODES):
        sums.add(version, entry(f"code {version}", first=version))

    assert [*sums.codes] == [f"code {each}" for each in range(2 * MOST_CODES, 3 * MOST_CODES)]


@pytest.mark.slow
def test_books_that_older_code_closed_are_no_fault_and_accuse_no_table(morning: Lake) -> None:
    assert isinstance(next(iter(close(morning, TABLES, every=1))), Closed)
    file = snapshot_file(morning.table(gold.TABLE))
    words = json.loads(file.text() or "")
    for name in ("codes", "first_read", "made_from", "undone"):
        del words["sums"][name]
    file.put(json.dumps(words))

    assert balance_sheet.audit(gold.TABLE, morning).faults == []
    assert sums_of(morning.table(gold.TABLE)).made_from == words["version"] + 1
    assert made(gold.TABLE, morning).sources == ()


@pytest.mark.slow
def test_what_a_silver_and_a_gold_table_mean_is_recorded(
    spark: SparkSession, morning: Lake
) -> None:
    """Else each edit that changes no row of theirs would compute them anew; what a dimension adds is in no plan."""
    alone = replace(gold.TABLE, dimension=None)
    for table in (STRICT, alone):
        run = framed(spark, table, morning)
        plan = stateful_plan(table, run.sources, run.result)
        assert plan.rows
        assert makes_the_same(StatefulPlan.of_json(json.loads(json.dumps(plan.as_json()))), plan)
    record = read_record(morning.checkpoint(STRICT))
    assert record is not None
    assert record.plan["code"] == code_version(STRICT)


@pytest.mark.slow
def test_a_table_above_is_computed_from_old_rows_until_it_is_made_anew_and_an_undo_is_known(
    spark: SparkSession, morning: Lake
) -> None:
    site = Site(spark=spark, clock=lambda: NOON)
    tables: list[Table] = [STRICT, gold.TABLE]
    assert dict(stale(tables, morning)) == {}

    rebuild(STRICT, morning, site)
    promote(STRICT, morning, site)
    assert dict(stale(tables, morning)) == {gold.TABLE.id: (STRICT.id,)}
    assert steps(tables, morning) == {STRICT.id: Step.GOES_ON, gold.TABLE.id: Step.REBUILT}

    rebuild(gold.TABLE, morning, site)
    note_equal(
        gold.TABLE, morning, code_version(gold.TABLE), latest_version(morning.table(gold.TABLE))
    )
    assert dict(stale(tables, morning)) == {}  # as if it had the same rows

    promote(gold.TABLE, morning, site)
    assert dict(stale(tables, morning)) == {}

    undo(spark, STRICT, morning)
    assert dict(stale(tables, morning)) == {gold.TABLE.id: (STRICT.id,)}

    undo(spark, gold.TABLE, morning)
    assert dict(stale(tables, morning)) == {}


def steps(tables: list[Table], lake: Lake) -> dict[str, Step]:
    """Return what a plan asks of tables whose streams can go on."""
    safe = {each.id: Verdict(table=each.id, answer=Answer.SAFE) for each in tables}
    found = planned(tables, lake, safe, forward=False)
    assert all(json.dumps(asdict(each)) for each in found)
    return {each.table: each.step for each in found}
