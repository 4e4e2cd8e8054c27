"""``strandline try``: a table's function over the last rows of what it reads, and nothing is written."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from strandline import sql

from fleet.gold import confirmed_logins
from fleet.silver import user_actions, user_confirmations
from strandline.core.errors import DefinitionError
from strandline.core.kind import Day
from strandline.core.stateful import Batch
from strandline.core.table import Computed, Recomputed, Windowed
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger import latest_version
from strandline.engine.lake.spark_checkpoint import order_close
from strandline.operate import session
from tests.cli.inside import strandline, succeeded
from tests.support import fleet_in_sql
from tests.support.literal import Log, put
from tests.support.modes import derive
from tests.support.shapes import arrived

LOG: Log = {
    user_actions.TABLE: (
        arrived(user_actions.FIELDS),
        """
        batch | action_id | user_id | action | event_at | _arrived_at
        1     | old       | u1      | login  | 07:00:00 | 07:00:00
        1     | a         | u1      | login  | 09:00:00 | 09:00:00
        1     | b         | u2      | login  | 09:10:00 | 09:10:00
        """,
    ),
    user_confirmations.TABLE: (
        user_confirmations.FIELDS,
        """
        batch | confirmation_id | action_id | user_id | event_at
        1     | ca              | a         | u1      | 09:01:00
        """,
    ),
}


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """Return a lake with log-ins and confirmations, and no table above them."""
    made = Lake(tmp_path / "lake").open_for_writing()
    put(made, LOG, "1")
    return made


@pytest.mark.usefixtures("spark")
def test_a_table_that_never_ran_shows_its_rows_masked_and_its_plan_and_writes_nothing(
    lake: Lake,
) -> None:
    """The log-in of two hours before is not read; one whose time is not over is shown as well."""
    before = sorted(map(str, lake.root.local.rglob("*.parquet")))

    answer = succeeded("try", "confirmed_logins", "--lake", lake.root, "--json")
    found = json.loads(answer.out)

    by_name = [dict(zip(found["columns"], row, strict=True)) for row in found["rows"]]
    assert {(row["action_id"], row["confirmation_id"]) for row in by_name} == {
        ("a", "ca"),
        ("b", None),
    }
    assert {row["user_id"] for row in by_name}.isdisjoint({"u1", "u2"}), "it is masked"
    assert found["read"] == {"silver.user_actions": 2, "silver.user_confirmations": 1}
    assert any("Join" in line for line in found["plan"])
    assert not lake.exists(confirmed_logins.TABLE)
    assert sorted(map(str, lake.root.local.rglob("*.parquet"))) == before


@pytest.mark.parametrize("table", [confirmed_logins.TABLE, fleet_in_sql.LOGINS], ids=["py", "sql"])
def test_a_longer_time_reads_more(spark: SparkSession, lake: Lake, table: Computed) -> None:
    """In SQL as in Python."""
    found = session.tried(spark, table, lake, timedelta(hours=3), 1)

    assert (found.count, len(found.rows)) == (3, 1)


@pytest.mark.whole
def test_what_is_left_out_is_said(
    spark: SparkSession, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows beyond the most that are read, and those of a window that began before."""
    monkeypatch.setattr(session, "MOST", 2)
    windows = Recomputed(
        name="actions_1h",
        reads=(user_actions.TABLE,),
        transform=sql("""
            SELECT window.start AS window_from, count(*) AS actions FROM {user_actions} GROUP BY window(event_at, '1 hour')
        """),
        key=("window_from",),
        window="1 hour",
        window_from="window_from",
    )

    cut, whole = (
        session.tried(spark, windows, lake, timedelta(hours=each), 9).notes for each in (1, 9)
    )
    unbounded = session.tried(spark, confirmed_logins.TABLE, lake, timedelta(minutes=5), 9).notes

    assert [each.partition(",")[0] for each in cut] == [
        "of silver.user_actions no more than 2 rows are read",
        "a window that begins before 2026-11-20 08:10:00 has only its rows from then on",
    ]
    assert len(whole) == 2
    assert unbounded == []


def test_sources_without_rows_are_named_with_what_fills_them(tmp_path: Path) -> None:
    """Before Spark starts."""
    lake = Lake(tmp_path / "lake").open_for_writing()

    answer = strandline("try", "gold.confirmed_logins", "--lake", lake.root)

    assert answer.code == 2
    assert "reads silver.user_actions, which has no rows in" in answer.err
    assert "strandline run silver.user_actions" in answer.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("gold.confirmed_login",), "did you mean gold.confirmed_logins?"),
        (("bronze.user_actions",), "as received"),
        (("confirmed_logins", "--last", "an hour"), "is no length of time"),
    ],
)
def test_a_mistake_is_said(words: tuple[str, ...], said: str, lake: Lake) -> None:
    """With what to write."""
    answer = strandline("try", *words, "--lake", lake.root)

    assert (answer.code, said in answer.err) == (2, True), answer.err


@pytest.mark.parametrize(("text", "minutes"), [("1h", 60), ("90m", 90), ("2 days", 2880)])
def test_a_length_is_short_or_long(text: str, minutes: int) -> None:
    assert session.length(text) == timedelta(minutes=minutes)


def test_a_length_that_is_none_is_refused() -> None:
    with pytest.raises(DefinitionError):
        session.length("1 month")


DAY = Day("Europe/Helsinki")


def by_day(actions: DataFrame) -> DataFrame:
    days = DAY.of(actions, "event_at").groupBy("day").agg(F.count("*").alias("actions"))
    return days.select(
        F.col("day.date").alias("day"),
        F.col("day.start").alias("day_from"),
        F.col("day.end").alias("day_until"),
        "actions",
    )


DAILY = Windowed(
    name="actions_daily",
    reads=(user_actions.TABLE,),
    transform=by_day,
    key=("day",),
    window=DAY,
    window_from="day_from",
    closes_at="day_until",
)


@pytest.mark.slow
def test_today_is_shown_and_marked_and_neither_written_nor_read_by_a_certificate(
    spark: SparkSession, lake: Lake
) -> None:
    """In a stream the days before are over, and today is what is known so far; a repair finds closed days alone."""
    schema, _ = LOG[user_actions.TABLE]
    later = {user_actions.TABLE: (schema, """
        batch | action_id | user_id | action | event_at | _arrived_at
        2     | c         | u1      | login  | 23:30:00 | 23:30:00
        2     | d         | u1      | login  | 23:59:00 | 23:59:00
    """)}  # fmt: skip
    put(lake, later, "2")
    first = session.tried(spark, DAILY, lake, timedelta(hours=1), 20, is_open=True)
    assert first.count == 2, "of a table that never ran no day is over"
    derive(spark, lake, DAILY)
    before = latest_version(lake.table(DAILY))

    done = session.tried(spark, DAILY, lake, timedelta(hours=1), 20, is_open=True)

    found = {
        (f"{row['day']:%d}", row["actions"], row["provisional"])
        for row in (dict(zip(done.columns, each, strict=True)) for each in done.rows)
    }
    assert found == {("21", 2, True)}
    assert latest_version(lake.table(DAILY)) == before
    written = DeltaTable(lake.table(DAILY)).to_pyarrow_table().to_pylist()
    assert [(f"{row['day']:%d}", row["actions"]) for row in written] == [("20", 3)]


@pytest.mark.whole
def test_of_a_lake_written_by_batches_the_windows_that_are_over_are_not_provisional(
    spark: SparkSession, lake: Lake
) -> None:
    """A batch keeps no watermark: what it took as over follows from the rows that it read, or from an order."""
    schema, _ = LOG[user_actions.TABLE]
    later = {user_actions.TABLE: (schema, """
        batch | action_id | user_id | action | event_at | _arrived_at
        2     | c         | u1      | login  | 23:30:00 | 23:30:00
        2     | d         | u1      | login  | 23:59:00 | 23:59:00
    """)}  # fmt: skip
    put(lake, later, "2")
    derive(spark, lake, DAILY, mode=Batch())

    done = session.tried(spark, DAILY, lake, timedelta(hours=1), 20, is_open=True)

    days = {f"{dict(zip(done.columns, each, strict=True))['day']:%d}" for each in done.rows}
    assert days == {"21"}
    until = int(datetime(2026, 11, 21, 22, tzinfo=UTC).timestamp() * 1000)
    assert order_close(lake.checkpoint(DAILY), until, "ops", 0) is not None
    assert session.tried(spark, DAILY, lake, timedelta(hours=1), 20, is_open=True).count == 0


def test_a_table_whose_rows_wait_for_nothing_has_no_open_windows(
    spark: SparkSession, lake: Lake
) -> None:
    with pytest.raises(DefinitionError, match="has no windows that wait until they are over"):
        session.tried(spark, confirmed_logins.TABLE, lake, timedelta(hours=1), 20, is_open=True)
