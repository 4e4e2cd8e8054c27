"""A stream continues its own table and reads tables that only grow; anything else is refused before it starts."""

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from fleet.gold import device_signal_10m as gold
from fleet.silver import device_telemetry as silver
from strandline.core.errors import DamagedError, DefinitionError
from strandline.core.stateful import Batch
from strandline.core.table import Streamed
from strandline.engine.accounting.balance_sheet import balance, waiting
from strandline.engine.flow import runner
from strandline.engine.flow.query import start
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.commit_log import commit_file
from strandline.engine.lake.log.ledger import latest_version
from strandline_quality.rules import between
from tests.support.events import readings, received
from tests.support.modes import derive

pytestmark = pytest.mark.slow

LOG = """
    id | device | signal | value | event_at
    a  | d1     | t      | 1     | 09:00:00
    b  | d1     | t      | 2     | 10:30:00
"""
MORE = """
    batch | id | device | signal | value | event_at
    1     | c  | d1     | t      | 3     | 11:30:00
"""


@pytest.mark.parametrize(
    ("every", "poll", "looks"),
    [(5.0, 0.05, 1.0), (60.0, 0.05, 12.0), (5.0, 0.136, 2.72), (5.0, 0.6, 5.0), (0.5, 0.05, 0.5)],
)
def test_a_table_above_looks_more_often_than_bronze_has_batches_and_less_often_beside_many(
    every: float, poll: float, looks: float, tmp_path: Path
) -> None:
    assert runner.looks_every(every, Lake(tmp_path), poll) == pytest.approx(looks)
    on_store = Lake("s3a://lake/of/tables")
    assert runner.looks_every(every, on_store, poll) == every, "each look is requests"


@pytest.mark.whole
def test_a_stream_does_not_follow_a_table_that_batches_replace(
    spark: SparkSession, lake: Lake
) -> None:
    received(lake, readings(LOG))
    for _ in range(2):
        derive(spark, lake, silver.TABLE, mode=Batch())

    with pytest.raises(DefinitionError, match="no stream can follow it") as refused:
        derive(spark, lake, gold.TABLE)

    assert "--mode batch" in str(refused.value.hint)
    assert not lake.exists(gold.TABLE)
    derive(spark, lake, gold.TABLE, mode=Batch())


@pytest.mark.whole
def test_a_stream_does_not_continue_what_a_batch_wrote(spark: SparkSession, lake: Lake) -> None:
    received(lake, readings(LOG))
    derive(spark, lake, silver.TABLE, mode=Batch())

    with pytest.raises(DefinitionError, match="was written by a batch run"):
        derive(spark, lake, silver.TABLE)


@pytest.mark.whole
def test_a_stream_does_not_continue_a_table_whose_checkpoint_is_gone(
    spark: SparkSession, lake: Lake
) -> None:
    received(lake, readings(LOG))
    derive(spark, lake, silver.TABLE)
    shutil.rmtree(lake.checkpoint(silver.TABLE))

    with pytest.raises(DefinitionError, match="whose checkpoint is gone"):
        derive(spark, lake, silver.TABLE)


def test_a_stream_does_not_skip_rows_that_its_table_has_lost(
    spark: SparkSession, lake: Lake
) -> None:
    received(lake, readings(LOG))
    derive(spark, lake, silver.TABLE)
    shutil.rmtree(lake.table(silver.TABLE))

    with pytest.raises(DamagedError, match="lacks rows"):
        derive(spark, lake, silver.TABLE)


@pytest.fixture(name="begun")
def _begun(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the tables whose queries were started."""
    found = list[str]()

    def started(spark: SparkSession, table: Streamed, *words: Any) -> StreamingQuery:  # noqa: ANN401  # as they are
        found.append(table.id)
        return start(spark, table, *words)

    monkeypatch.setattr(runner, "start", started)
    return found


def test_no_query_is_started_for_a_table_that_has_read_all_and_is_what_it_was(
    spark: SparkSession, lake: Lake, begun: list[str]
) -> None:
    """An edit of the table starts one, which says whether it may go on; so do a new row, and a batch that was begun and not ended."""
    received(lake, readings(LOG))
    derive(spark, lake, silver.TABLE)
    assert begun == [silver.TABLE.id]

    derive(spark, lake, silver.TABLE)
    assert begun == [silver.TABLE.id], "nothing came"

    edited = replace(silver.TABLE, rules=(*silver.TABLE.rules, between("value", 0, 9)))
    derive(spark, lake, edited)
    assert len(begun) == 2, "it is another one"

    received(lake, readings(MORE))
    derive(spark, lake, edited)
    assert len(begun) == 3, "a row came"

    last = max((lake.checkpoint(silver.TABLE) / "commits").local.glob("[0-9]*"), key=_number)
    last.unlink()
    derive(spark, lake, edited)
    assert len(begun) == 4, "its last batch was not ended"
    derive(spark, lake, edited)
    assert len(begun) == 4
    assert balance(silver.TABLE, lake).good == 3
    assert waiting(silver.TABLE, lake) == 0


def test_what_a_start_refuses_is_refused_without_one(
    spark: SparkSession, lake: Lake, begun: list[str]
) -> None:
    """Nothing came, and the newest commit of the table is gone."""
    received(lake, readings(LOG))
    derive(spark, lake, silver.TABLE)
    received(lake, readings(MORE))
    derive(spark, lake, silver.TABLE)
    path = lake.table(silver.TABLE)
    commit_file(path, latest_version(path)).local.unlink()

    with pytest.raises(DamagedError, match="lacks rows"):
        derive(spark, lake, silver.TABLE)
    assert len(begun) == 2


def _number(file: Path) -> int:
    return int(file.name)
