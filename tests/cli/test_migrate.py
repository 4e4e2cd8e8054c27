"""`migrate` shows what an edit asks of each table, does it downstream, and takes it back as one."""

import shutil
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import pytest
from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType
from strandline import CARRIED, rescued

from fleet.gold import device_daily
from fleet.gold import device_signal_10m as gold
from fleet.silver import device_telemetry as silver
from fleet.silver import process_events
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.spark_checkpoint import read_record, write_record
from strandline.engine.repair import rebuild
from strandline.engine.repair.migrate import Migration, keep, migrations
from strandline.operate import migrate, session
from tests.cli.inside import strandline, succeeded
from tests.cli.test_preflight import edited as edited  # noqa: PLC0414  # a fixture
from tests.support import starts
from tests.support.events import received
from tests.support.modes import derive

pytestmark = pytest.mark.slow


def test_where_nothing_was_edited_there_is_nothing_to_do_and_no_jvm(filled: Path) -> None:
    with patch.object(session, "site", side_effect=AssertionError("Spark was started")):
        plan = succeeded("migrate", "--lake", filled)
        done = succeeded("migrate", "--go", "--lake", filled)

    assert "go on as they are" in plan.out
    assert "there is nothing to do" in done.out
    assert not migrations(Lake(filled))


def test_an_edit_is_planned_done_and_taken_back_as_one(edited: Lake) -> None:
    """A checkpoint that today's code cannot go on with is replaced although the rows are the same."""
    plan = succeeded("migrate", gold.TABLE.id, "--lake", edited.root, "--json").json
    words = succeeded("migrate", "--lake", edited.root)
    assert {each["table"]: each["step"] for each in plan}[gold.TABLE.id] == "computed anew"
    assert f"{gold.TABLE.id}: the state of Aggregate is kept by other keys" in words.out
    assert "`strandline migrate --go` does it" in words.out

    done = succeeded("migrate", "--go", "--lake", edited.root)
    assert f"{gold.TABLE.id}: replaced by" in done.out
    assert [name for name, _ in migrations(edited)[-1].promoted] == [gold.TABLE.id]
    assert "safe" in succeeded("preflight", gold.TABLE.id, "--lake", edited.root).out
    assert "there is nothing to do" in succeeded("migrate", "--go", "--lake", edited.root).out

    keep(edited, Migration(at="2026-11-30T00:00:00", by="ops", others={"gold.x": "the same rows"}))
    back = succeeded("migrate", "--undo", "--lake", edited.root)
    assert f"{gold.TABLE.id}: has the" in back.out
    again = strandline("migrate", "--undo", "--lake", edited.root)
    assert (again.code, "no migration to undo" in again.err) == (2, True)
    assert strandline("preflight", gold.TABLE.id, "--lake", edited.root).code == 2


@pytest.mark.whole
def test_a_table_whose_windows_are_open_is_replaced_although_its_rows_are_the_same(
    filled: Path, tmp_path: Path
) -> None:
    """A window that is open has no row yet, so a comparison sees nothing of what its state lacks of the rows that came below."""
    lake = tmp_path / "lake"
    shutil.copytree(filled, lake)
    for verb in ("rebuild", "promote"):
        succeeded(verb, silver.TABLE.id, "--lake", lake)

    done = succeeded("migrate", "--go", "--lake", lake)

    assert f"{gold.TABLE.id}: replaced by" in done.out
    assert "there is nothing to do" in succeeded("migrate", "--go", "--lake", lake).out


@pytest.mark.whole("2")
@pytest.mark.parametrize("writes", [1, 2])
def test_a_migration_that_was_killed_goes_on_and_is_undone_as_one(
    edited: Lake, writes: int
) -> None:
    """Before the table is replaced, and between its promotion and the note of it."""
    keep, left = migrate.keep, iter([*range(writes - 1), None])

    def killed(lake: Lake, migration: Migration) -> None:
        if next(left, 0) is None:
            raise KeyboardInterrupt
        keep(lake, migration)

    with patch.object(migrate, "keep", killed):
        assert strandline("migrate", "--go", "--lake", edited.root).code == 130  # as by Ctrl-C

    succeeded("migrate", "--go", "--lake", edited.root)
    assert "safe" in succeeded("preflight", gold.TABLE.id, "--lake", edited.root).out
    assert f"{gold.TABLE.id}: has the" in succeeded("migrate", "--undo", "--lake", edited.root).out
    assert strandline("preflight", gold.TABLE.id, "--lake", edited.root).code == 2


@pytest.mark.whole
def test_a_promotion_that_was_made_since_is_not_undone_with_the_migration(edited: Lake) -> None:
    succeeded("migrate", "--go", "--lake", edited.root)
    succeeded("rebuild", gold.TABLE.id, "--lake", edited.root)
    succeeded("promote", gold.TABLE.id, "--lake", edited.root)

    answer = strandline("migrate", "--undo", "--lake", edited.root)

    assert answer.code == 2, answer.printed
    assert "was promoted again since" in answer.err


def test_words_that_contradict_each_other_are_refused(filled: Path) -> None:
    answer = strandline("migrate", "--undo", "--go", "--lake", filled)

    assert answer.code == 2, answer.printed
    assert "by itself: `strandline migrate --undo`" in answer.err
    assert device_daily.TABLE.id not in answer.err


def test_a_table_that_has_no_rows_yet_begins_by_the_edited_code(
    spark: SparkSession, lake: Lake
) -> None:
    """What it reads has none either, so there is nothing to rebuild, to compare or to promote."""
    received(lake, [])
    derive(spark, lake, silver.TABLE, gold.TABLE)
    checkpoint = lake.checkpoint(gold.TABLE)
    record = read_record(checkpoint)
    assert record is not None
    (operator,) = record.plan["operators"]
    former = {**operator, "keys": operator["keys"][1:]}
    plan = {**record.plan, "operators": [former]}
    write_record(checkpoint, replace(record, fingerprint="", plan=plan))
    assert strandline("preflight", gold.TABLE.id, "--lake", lake.root).code == 2

    done = succeeded("migrate", gold.TABLE.id, "--go", "--lake", lake.root)

    assert f"{gold.TABLE.id}: has no rows yet, and begins by the code of now" in done.out
    assert "there is nothing to do" in succeeded("migrate", "--go", "--lake", lake.root).out


def test_a_table_without_rows_that_another_reads_gets_its_columns(
    spark: SparkSession, lake: Lake
) -> None:
    """It stays the table that the one above it has begun to read, by the id that Delta has given it."""
    received(lake, [])
    derive(spark, lake, silver.TABLE, gold.TABLE)
    before = DeltaTable(str(lake.table(silver.TABLE))).metadata().id
    wide = replace(
        silver.TABLE,
        transform=lambda rows: silver.TABLE.transform(rows).selectExpr("*", "1 AS one"),
    )

    rebuild.begin_anew(spark, wide, lake, is_read=True)

    found = DeltaTable(str(lake.table(silver.TABLE)))
    assert found.metadata().id == before
    assert "one" in {field.name for field in found.schema().fields}
    assert not lake.checkpoint(silver.TABLE).exists()


FORMER = StructType(process_events.FIELDS.fields[:10])


def of_before(events: DataFrame) -> DataFrame:
    """Make rows as the table had them before it had all fields of Sysmon."""
    return starts.TOPIC.parse(events, FORMER).select(
        *CARRIED, *FORMER.fieldNames(), rescued(FORMER)
    )


def test_a_lake_from_before_its_columns_were_declared_is_altered_in_place_and_goes_on(
    spark: SparkSession, lake: Lake
) -> None:
    table, asked = process_events.TABLE, ("--forward", "--lake", lake.root)
    starts.arrived(lake, starts.STARTS[:20])
    derive(spark, lake, replace(table, transform=of_before))
    (stage,) = (
        each
        for each in succeeded("migrate", table.id, *asked, "--json").json
        if each["table"] == table.id
    )
    assert stage["step"] == "altered in place"

    succeeded("migrate", "--go", *asked)
    more = {**starts.STARTS[21], "OriginalFileName": "TOOL.EXE", "ParentUser": "ana"}
    starts.arrived(lake, [more], batch=1, first=20)
    derive(spark, lake, table)

    assert "safe" in succeeded("preflight", table.id, "--lake", lake.root).out
    rows = DeltaTable(lake.table(table)).to_pyarrow_table().to_pylist()
    found = {row["ProcessGuid"]: (row["OriginalFileName"], row["ParentUser"]) for row in rows}
    assert len(found) == len(rows) == 21
    assert found["p21"] == ("TOOL.EXE", "ana")
    assert {each for name, each in found.items() if name != "p21"} == {(None, None)}


def test_another_name_is_said_of_one_table_and_refused_with_a_sentence(edited: Lake) -> None:
    """Neither the table nor its function has such columns, so nothing is written."""
    for words, why in (
        (["--rename", "a=b"], "for one table"),
        ([gold.TABLE.id, "--rename", "a"], "wants old=new"),
        ([gold.TABLE.id, "--rename", "a=b", "--rename", "a=c"], "names a column twice"),
        ([gold.TABLE.id, "--rename", "a=b", "--forward"], "goes with --go alone"),
        ([device_daily.TABLE.id, "--rename", "a=b"], "has no stream"),
        ([gold.TABLE.id, "--rename", "mean=average", "--go"], "no column mean"),
    ):
        answer = strandline("migrate", *words, "--lake", edited.root)
        assert (answer.code, why in answer.err, "hint:" in answer.err) == (2, True, True), (
            words,
            answer.printed,
        )

    plan = succeeded("migrate", gold.TABLE.id, "--rename", "a=b", "--lake", edited.root)
    assert "a would be called b: altered in place, no row is computed" in plan.out
