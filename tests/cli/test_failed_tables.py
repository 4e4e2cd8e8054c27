"""A table that fails is named, and the others are brought up to date."""

from dataclasses import replace
from pathlib import Path
from tempfile import gettempdir

import pytest
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from fleet.gold import device_signal_10m as gold
from fleet.silver import device_telemetry as silver
from strandline.core.errors import DamagedError, DefinitionError
from strandline.core.table import Appended
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.commit_log import commit_file
from strandline.engine.lake.log.ledger import latest_version
from strandline.engine.service.backlog import OpenBooks
from tests.cli.inside import strandline
from tests.support.events import TABLE as BRONZE
from tests.support.events import readings, received
from tests.support.modes import derive
from tests.support.morning import LATER, MORNING, TABLES, streamed
from tests.support.other_user import as_another_user
from tests.support.seeds import copied

pytestmark = pytest.mark.slow


@pytest.fixture
def lake(spark: SparkSession, tmp_path: Path) -> Lake:
    """Return a lake whose stream has left the morning behind; events of the afternoon wait."""
    found = copied(
        Lake(tmp_path / "lake").open_for_writing(),
        "morning",
        lambda seed: streamed(spark, seed, MORNING),
    )
    received(found, readings(LATER))
    return found


@pytest.mark.whole
def test_a_run_names_the_table_whose_commit_is_torn_and_goes_on_with_the_others(lake: Lake) -> None:
    """Silver comes behind it in the list; the exit code is that of the failure."""
    path = lake.table(gold.TABLE)
    torn = commit_file(path, latest_version(path)).local
    torn.write_bytes(torn.read_bytes()[:100])

    done = strandline("run", gold.TABLE.id, silver.TABLE.id, "--lake", lake.root)

    assert done.code == DamagedError.exit_code
    assert f"{gold.TABLE.id} failed, and the others go on: " in done.err
    assert f"error: {gold.TABLE.id} is damaged: its commit {torn} is torn" in done.err
    assert f"`strandline mend {gold.TABLE.id}`" in done.err
    (row,) = (line for line in done.out.splitlines() if silver.TABLE.id in line)
    assert row.split()[2] == "2"


def test_a_table_that_spark_cannot_stream_is_a_mistake_in_its_function(
    spark: SparkSession, lake: Lake
) -> None:
    """The sentence has the table's name and Spark's reason."""

    def newest(rows: DataFrame) -> DataFrame:
        order = Window.partitionBy("device_id").orderBy("event_at")
        nth = rows.withColumn("nth", F.row_number().over(order))
        return nth.select("event_id", "event_at", "nth")

    table = Appended(
        name="newest",
        reads=(silver.TABLE,),
        transform=newest,
        key=("event_id",),
        event_at="event_at",
    )
    absent = replace(table, transform=lambda rows: rows.select("no_such_column"))

    with pytest.raises(DefinitionError, match=r"cannot stream gold\.newest") as caught:
        derive(spark, lake, table)
    with pytest.raises(DefinitionError, match=r"gold\.newest.*no_such_column"):
        derive(spark, lake, absent)

    assert "Recomputed" in caught.value.hint


def test_books_that_cannot_be_read_are_those_of_one_table(lake: Lake) -> None:
    """A folder of another user ended the stream of all tables; the figure of the table is unknown meanwhile."""
    for folder in (root := lake.root.local, *root.parents):
        if folder != Path(gettempdir()) and folder.is_relative_to(gettempdir()):
            folder.chmod(0o755)
    books = OpenBooks([BRONZE, *TABLES], lake)
    log = lake.table(gold.TABLE).local / "_delta_log"
    log.chmod(0)

    with as_another_user():
        books.follow()
        unread = [books.unread(each) for each in (silver.TABLE, gold.TABLE)]
        failures = dict(books.unreadable)
    log.chmod(0o755)
    books.follow()

    assert unread == [2, None]
    assert [type(error) for error in failures.values()] == [PermissionError]
    assert [*failures] == [gold.TABLE.id]
    assert [books.unread(each) for each in (silver.TABLE, gold.TABLE)] == [2, 0]
