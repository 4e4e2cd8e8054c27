"""A lake in Python gives its tables with their types and masks, at any version, and changes nothing."""

from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import polars as pl
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from fleet.silver import user_actions
from strandline.core.errors import DefinitionError
from strandline.engine.ask.lake_reader import Readable, lake
from strandline.engine.lake.duckdb_table import duck_error
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.order_log import Asked, newest
from tests.engine.written import small_lake, written

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
NAME = "silver.user_actions"


@pytest.fixture
def logins(tmp_path: Path) -> Lake:
    """Return a lake in which anna did two things, and later ben one."""
    found = small_lake(tmp_path / "lake")
    for number, user in enumerate(("anna", "anna", "ben")):
        row = {"action_id": str(number), "user_id": user, "event_at": NOON, "paid": Decimal("1.50")}
        written(found.table(user_actions.TABLE), [row])
    return found


def opened(of: Lake, **given: str) -> Readable:
    return lake(str(of.root), **given)


@pytest.mark.whole
def test_a_table_has_the_same_rows_and_its_types_in_each_library(
    logins: Lake, spark: SparkSession
) -> None:
    """Moments in UTC, decimals exact."""
    table = opened(logins)[NAME]

    arrow, frame = table.arrow(), table.polars()
    assert arrow.schema.field("paid").type == pa.decimal128(3, 2)
    assert arrow.schema.field("event_at").type == pa.timestamp("us", tz="UTC")
    assert frame.schema["paid"] == pl.Decimal(3, 2)
    assert table.columns["event_at"] == "TIMESTAMP WITH TIME ZONE"
    rows = sorted((row["action_id"], row["event_at"], row["paid"]) for row in arrow.to_pylist())
    assert sorted(frame.select("action_id", "event_at", "paid").rows()) == rows
    relation = table.duckdb().project("action_id, event_at, paid").order("action_id")
    assert relation.fetchall() == rows
    of_spark = table.spark().select("action_id", "event_at", "paid").toArrow().to_pylist()
    assert sorted((row["action_id"], row["event_at"], row["paid"]) for row in of_spark) == rows
    assert spark.version


def test_users_are_masked_alike_within_a_read_in_each_library(
    logins: Lake, spark: SparkSession
) -> None:
    """So they can be counted and not be named."""
    table = opened(logins)[NAME]

    for users in (
        table.polars()["user_id"].to_list(),
        [row[0] for row in table.duckdb().project("user_id").fetchall()],
        [row["user_id"] for row in table.spark().collect()],
    ):
        assert all(each.startswith("[") for each in users)
        assert len(set(users)) == 2
    assert spark.version
    assert set(table.polars()["user_id"]) != set(table.polars()["user_id"])


def test_what_is_read_unmasked_is_written_down_first(logins: Lake) -> None:
    """With the reason; without one nothing is shown."""
    readable = opened(logins, unmasked="case 17")
    assert set(readable[NAME].polars()["user_id"]) == {"anna", "ben"}

    read, opened_ = newest(logins, Asked()).orders
    assert [read.why, opened_.why] == ["case 17"] * 2
    assert NAME.partition(".")[2] in read.asked["python"]
    assert (read.over, read.state) == ("python", "shown")
    with pytest.raises(DefinitionError, match="for a reason only"):
        opened(logins, unmasked=" ")


def test_a_version_and_a_moment_can_be_read(logins: Lake) -> None:
    table = opened(logins)[NAME]

    assert table.version == 2
    assert table.polars(at=0).height == 1
    assert table.arrow(at=datetime(2100, 1, 1, tzinfo=UTC)).num_rows == 3
    assert table.duckdb(at=1).aggregate("count(*)").fetchall() == [(2,)]
    with pytest.raises(DefinitionError, match="no version 9"):
        table.polars(at=9)


def test_a_question_in_sql_is_answered_in_any_form(logins: Lake) -> None:
    answer = opened(logins).sql(f"SELECT count(*) AS n FROM {NAME}")  # noqa: S608  # a constant

    assert answer.polars()["n"].to_list() == [3]
    assert answer.duckdb().fetchall() == [(3,)]


def test_tables_are_listed_and_a_wrong_name_is_answered_with_the_right_one(logins: Lake) -> None:
    readable = opened(logins)

    assert {NAME, "quarantine.device_telemetry", "ledger.entries"} <= set(readable.tables())
    assert [*readable] == readable.tables()
    assert NAME in repr(readable)
    assert "event_at: TIMESTAMP WITH TIME ZONE" in repr(readable[NAME])
    with pytest.raises(DefinitionError) as caught:
        readable["user_actions"]
    assert NAME in caught.value.hint


def test_a_relation_reaches_nothing_but_its_tables(logins: Lake, tmp_path: Path) -> None:
    """And writes nothing."""
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    relation = opened(logins)[NAME].duckdb()

    (tmp_path / "secret.csv").write_text("x")
    with pytest.raises(duck_error()):
        relation.query("r", f"FROM read_csv('{tmp_path}/secret.csv')").fetchall()
    with pytest.raises(duck_error()):
        relation.to_parquet(str(logins.root / "silver" / "user_actions" / "x.parquet"))
    (tmp_path / "secret.csv").unlink()
    after = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    after[tmp_path] = before.get(tmp_path, 0)
    before[tmp_path] = after[tmp_path]
    assert after == before


def test_a_missing_lake_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DefinitionError, match="no lake at"):
        lake(str(tmp_path / "nothing"))
