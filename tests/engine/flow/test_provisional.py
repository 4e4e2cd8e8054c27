"""What is known of windows that are not over can be asked for, marked; nothing else reads it, and what a person may not see it has not."""

import os
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from fleet.silver import user_actions
from strandline.core.errors import DefinitionError
from strandline.core.kind import FIRST, Day, Emit, Layer
from strandline.core.stateful import Batch
from strandline.core.table import Recomputed, Windowed
from strandline.engine.accounting.balance_sheet import balance
from strandline.engine.ask.lake_views import sources, view_of
from strandline.engine.ask.sql_query import ask
from strandline.engine.flow import provisional
from strandline.engine.flow.batch.event_joins import adorned
from strandline.engine.flow.provisional import Aside, reads_from
from strandline.engine.flow.runner import Site
from strandline.engine.lake import completeness
from strandline.engine.lake.commit.file_index import EPOCH
from strandline.engine.lake.completeness import Retirement, write_down
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger import latest_version
from strandline.engine.lake.spark_checkpoint import JOIN, RunRecord, write_record
from strandline.engine.lake.store_lease import HeldError
from strandline.engine.repair import rebuild
from tests.support.literal import Log, put
from tests.support.modes import derive, stream
from tests.support.rows import NOON
from tests.support.seeds import copied
from tests.support.shapes import arrived

DAY = Day("Europe/Helsinki")
SCHEMA = arrived(user_actions.FIELDS)
LOG: Log = {
    user_actions.TABLE: (
        SCHEMA,
        """
        batch | action_id | user_id | action | event_at | _arrived_at
        1     | a         | u1      | login  | 09:00:00 | 09:00:00
        1     | b         | u2      | login  | 09:10:00 | 09:10:00
        2     | c         | u1      | login  | 23:30:00 | 23:30:00
        2     | d         | u3      | login  | 23:59:00 | 23:59:00
        3     | e         | u9      | login  | 23:59:30 | 23:59:30
        """,
    ),
}
"""Of the 20th and, by the clocks of Helsinki, of the 21st, which is not over."""


def by_day(actions: DataFrame) -> DataFrame:
    days = DAY.of(actions, "event_at").groupBy("day")
    return days.agg(F.count("*").alias("actions"), F.max("user_id").alias("last_user")).select(
        F.col("day.date").alias("day"),
        F.col("day.start").alias("day_from"),
        F.col("day.end").alias("day_until"),
        "actions",
        "last_user",
    )


DAILY = Windowed(
    name="actions_daily",
    reads=(user_actions.TABLE,),
    transform=by_day,
    key=("day",),
    window=DAY,
    window_from="day_from",
    closes_at="day_until",
    provisional="1 second",
)
AFRESH = Recomputed(
    name="actions_daily",
    reads=(user_actions.TABLE,),
    transform=by_day,
    key=("day",),
    window=DAY,
    window_from="day_from",
    closes_at="day_until",
    emits=Emit.ON_WATERMARK,
    provisional="1 second",
)
NAME = "provisional.actions_daily"
QUESTION = "SELECT day, actions, provisional FROM provisional.actions_daily"
TABLES = (user_actions.TABLE, DAILY)
Found = set[tuple[str, int, bool]]
TODAY: Found = {("20", 2, False), ("21", 2, True)}


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """Return a lake with the events of two days."""
    made = Lake(tmp_path / "lake").open_for_writing()
    put(made, LOG, "1")
    put(made, LOG, "2")
    return made


def copy_of(spark: SparkSession, lake: Lake, table: Windowed = DAILY) -> None:
    """Let a lake be as a catch-up over both days leaves it, which is run once."""

    def make(seed: Lake) -> None:
        put(seed, LOG, "1")
        put(seed, LOG, "2")
        derive(spark, seed, table)

    lake.root.remove()
    copied(lake, f"two days, provisional {table.provisional}", make)


def shown(lake: Lake, table: Windowed | Recomputed = DAILY) -> Found:
    """Ask for the table with its provisional rows."""
    answer = ask(QUESTION, (user_actions.TABLE, table), lake)
    return {(f"{day:%d}", actions, is_open) for day, actions, is_open in answer.rows}


def shown_over_jdbc(spark: SparkSession, lake: Lake) -> Found:
    """Ask for the same by the view that the JDBC server makes."""
    view = view_of(NAME, sources(TABLES, lake)[NAME], TABLES, lake, "salt")
    assert view is not None
    rows = spark.sql(view.masked).select("day", "actions", "provisional").collect()
    return {(f"{day:%d}", actions, is_open) for day, actions, is_open in rows}


def owed(kept: Aside) -> bool:
    """Return whether something is owed at the newest versions, as a stream asks it."""
    tables = (kept.table, *kept.table.needs)
    return kept.is_owed({each.id: latest_version(kept.lake.table(each)) for each in tables})


def aside(spark: SparkSession, lake: Lake, said: list[str] | None = None, **other: object) -> Aside:
    """Return what keeps the provisional rows."""
    says = (lambda _: None) if said is None else said.append
    return Aside(spark, replace(DAILY, **other), lake, lambda: NOON, says)


def days_of(lake: Lake) -> list[str]:
    """Return the days that are in the table itself."""
    rows = DeltaTable(lake.table(DAILY)).to_pyarrow_table().to_pylist()
    return sorted(f"{row['day']:%d}" for row in rows)


def always_on(spark: SparkSession, lake: Lake, table: Windowed) -> None:
    """Run it as a stream until what is not over is there; the sources get a row meanwhile."""
    waiting = [lambda: put(lake, LOG, "3"), *[lambda: time.sleep(0.2)] * 1000]

    def take_in(step: Callable[[], None]) -> None:
        step()
        place = lake.provisional(table.id)
        if place.exists() and ("21", 3, True) in shown(lake):
            waiting.clear()

    stream(spark, lake, table, waiting, take_in)


@pytest.mark.whole("stream-recomputed", "batch-recomputed", "catch-up-windowed")
@pytest.mark.slow
@pytest.mark.parametrize("table", [DAILY, AFRESH], ids=["windowed", "recomputed"])
@pytest.mark.parametrize("way", ["batch", "catch-up", "stream"])
def test_today_is_there_beside_the_days_that_are_over(
    spark: SparkSession, lake: Lake, way: str, table: Windowed | Recomputed
) -> None:
    """In the table itself there are whole days, in every mode."""
    expected = TODAY
    match way:
        case "batch":
            derive(spark, lake, table, mode=Batch())
        case "catch-up":
            derive(spark, lake, table)
        case _:
            always_on(spark, lake, table)  # type: ignore[arg-type]  # either kind
            expected = {("20", 2, False), ("21", 3, True)}

    assert shown(lake, table) == expected
    assert days_of(lake) == ["20"]
    assert balance(table, lake).faults == []


def test_over_jdbc_it_is_the_same(spark: SparkSession, lake: Lake) -> None:
    copy_of(spark, lake)

    assert shown_over_jdbc(spark, lake) == TODAY


def test_what_became_final_is_never_there_twice(spark: SparkSession, lake: Lake) -> None:
    """Although the provisional rows are still those of before."""
    copy_of(spark, lake)
    tomorrow: Log = {user_actions.TABLE: (SCHEMA, """
        batch | action_id | user_id | action | event_at            | _arrived_at
        4     | f         | u1      | login  | 2026-11-22T09:00:00 | 2026-11-22T09:00:00
        4     | g         | u1      | login  | 2026-11-22T21:00:00 | 2026-11-22T21:00:00
    """)}  # fmt: skip
    put(lake, tomorrow, "4")
    derive(spark, lake, replace(DAILY, provisional=None))

    assert shown(lake) == {("20", 2, False), ("21", 2, False)}
    assert shown_over_jdbc(spark, lake) == shown(lake)
    derive(spark, lake, DAILY)
    assert shown(lake) == {("20", 2, False), ("21", 2, False), ("22", 2, True)}


def test_before_they_were_computed_there_are_the_days_that_are_over(
    spark: SparkSession, lake: Lake
) -> None:
    copy_of(spark, lake, replace(DAILY, provisional=None))

    assert shown(lake) == {("20", 2, False)}
    assert shown_over_jdbc(spark, lake) == shown(lake)


def test_rows_with_other_columns_wait_to_be_computed_anew(spark: SparkSession, lake: Lake) -> None:
    """After an edit, or a column that got another name."""

    def with_more(actions: DataFrame) -> DataFrame:
        return by_day(actions).withColumn("more", F.lit(1))

    copy_of(spark, lake)
    aside(spark, lake, transform=with_more).keep()

    assert shown(lake) == {("20", 2, False)}
    assert shown_over_jdbc(spark, lake) == shown(lake)


@pytest.mark.slow
def test_a_column_that_is_left_out_and_a_shorter_type_are_as_in_the_table(
    spark: SparkSession, lake: Lake
) -> None:
    """Its stream goes on so as well."""

    def with_more(actions: DataFrame) -> DataFrame:
        return by_day(actions).withColumn("more", F.lit(1))

    def shorter(actions: DataFrame) -> DataFrame:
        return by_day(actions).withColumn("actions", F.col("actions").cast("int"))

    derive(spark, lake, replace(DAILY, transform=with_more, provisional=None))
    aside(spark, lake, transform=shorter).keep()

    assert shown(lake) == TODAY
    assert shown_over_jdbc(spark, lake) == TODAY


@pytest.mark.whole
@pytest.mark.parametrize(
    ("returned", "expected"),
    [
        (("a", "c", "b"), {"a": "of a", "b": "of b", "c": "of c"}),
        (("a", "c"), {"a": "of a", "b": None, "c": "of c"}),
    ],
)
def test_the_fields_of_a_struct_are_as_in_the_table(
    spark: SparkSession, lake: Lake, returned: tuple[str, ...], expected: dict[str, str | None]
) -> None:
    """A migration adds a field as the last one, and leaves one out by making it NULL."""

    def with_struct(names: tuple[str, ...]) -> Callable[[DataFrame], DataFrame]:
        one = F.struct(*(F.lit(f"of {name}").alias(name) for name in names))
        columns = {"one": one, "listed": F.array(one), "keyed": F.create_map(F.lit("k"), one)}
        return lambda actions: by_day(actions).withColumns(columns)

    before = replace(DAILY, transform=with_struct(("a", "b", "c")), provisional=None)
    derive(spark, lake, before)
    said: list[str] = []
    aside(spark, lake, said, transform=with_struct(returned)).keep()

    assert said == []
    asked = "SELECT one, listed, keyed FROM provisional.actions_daily WHERE provisional"
    assert list(ask(asked, TABLES, lake).rows) == [(expected, [expected], {"k": expected})]
    assert shown_over_jdbc(spark, lake) == TODAY


def test_a_sensitive_value_is_masked_there_as_well(spark: SparkSession, lake: Lake) -> None:
    copy_of(spark, lake)

    values = ask("SELECT last_user FROM provisional.actions_daily", TABLES, lake)

    assert values.masked == (f"{NAME}.last_user",)
    assert not {value for (value,) in values.rows} & {"u1", "u2", "u3"}


def test_it_has_no_versions_and_is_listed(spark: SparkSession, lake: Lake) -> None:
    copy_of(spark, lake)

    with pytest.raises(DefinitionError, match="not over, and has no versions"):
        ask(f"FROM {NAME} AT (VERSION => 0)", TABLES, lake)
    assert (NAME,) in ask("SHOW TABLES", TABLES, lake).rows


def test_what_is_forgotten_is_gone_with_every_version(spark: SparkSession, lake: Lake) -> None:
    copy_of(spark, lake)
    place = lake.provisional(DAILY.id)
    assert place.exists()

    completeness.forget(lake)

    assert not place.exists()
    assert shown(lake) == {("20", 2, False)}
    put(lake, LOG, "3")
    derive(spark, lake, DAILY)
    assert shown(lake) == {("20", 2, False), ("21", 3, True)}, "the same process computes them anew"


def test_a_request_to_forget_waits_for_what_is_computed_at_that_moment(lake: Lake) -> None:
    """It may have read rows that are forgotten; a run that meets another one leaves it alone."""
    with (
        completeness.alone(DAILY.id, lake),
        pytest.raises(HeldError),
        completeness.alone(DAILY.id, lake),
    ):
        pass


def test_a_request_to_forget_waits_for_a_first_computation(lake: Lake) -> None:
    """It has no folder yet; what it has read is forgotten, and is there once it ends."""
    place, order = lake.provisional(DAILY.id), list[str]()

    def forget() -> None:
        completeness.forget(lake)
        order.append("forgotten")

    request = threading.Thread(target=forget)
    with completeness.alone(DAILY.id, lake):
        assert not place.exists()
        request.start()
        request.join(1)
        (place / "part.parquet").put("what is forgotten")
        order.append("computed")
    request.join(60)

    assert order == ["computed", "forgotten"]
    assert not place.exists()


def test_their_removal_fails_for_no_file_that_is_written_at_that_moment(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A promotion would end half done."""
    place = lake.provisional(DAILY.id)
    (place / "part.parquet").put("")
    rmdir = os.rmdir

    def written_before(path: str, **how: int) -> None:
        if path == str(place):
            (place / "one more.parquet").put("")
        rmdir(path, **how)

    monkeypatch.setattr(os, "rmdir", written_before)
    completeness.remove(lake, DAILY.id)

    assert place.names() == ["one more.parquet"]


@pytest.mark.slow
def test_a_promotion_and_an_undo_take_them_away(spark: SparkSession, lake: Lake) -> None:
    """They are by the code of before until they are computed anew."""
    site = Site(spark=spark, clock=lambda: NOON)
    copy_of(spark, lake)
    place = lake.provisional(DAILY.id)

    rebuild.rebuild(DAILY, lake, site)
    assert place.exists(), "what is computed beside has none of its own, and leaves these"
    rebuild.promote(DAILY, lake, site)
    assert not place.exists()

    put(lake, LOG, "3")
    derive(spark, lake, DAILY)
    assert place.exists()
    rebuild.undo(spark, DAILY, lake)
    assert not place.exists()


def test_one_that_a_promotion_overtakes_is_taken_away(
    spark: SparkSession, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy_of(spark, lake, replace(DAILY, provisional=None))
    site = Site(spark=spark, clock=lambda: NOON)
    write = completeness.Kept.sweep

    def promoted_first(kept: completeness.Kept, now: datetime) -> None:
        write(kept, now)
        bare = replace(DAILY, provisional=None)
        rebuild.rebuild(bare, lake, site)
        rebuild.promote(bare, lake, site)
        completeness.Kept.sweep = write  # type: ignore[method-assign]

    monkeypatch.setattr(completeness.Kept, "sweep", promoted_first)
    said: list[str] = []
    aside(spark, lake, said).keep()

    assert not lake.provisional(DAILY.id).exists()
    assert said == []


def test_those_of_a_table_that_is_retired_meanwhile_are_taken_away(
    spark: SparkSession, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever its removal has broken: Delta looks at its log after the commit."""
    copy_of(spark, lake, replace(DAILY, provisional=None))
    place = lake.provisional(DAILY.id)

    def retired_first(kept: completeness.Kept, _: datetime) -> None:
        write_down(DAILY.id, Retirement(who="a test", at="", why=""), lake)
        (kept.place / "_delta_log" / "00000000000000000000.json").remove()
        raise OSError

    monkeypatch.setattr(completeness.Kept, "sweep", retired_first)
    aside(spark, lake).keep()

    assert not place.exists()


def test_maintenance_removes_what_is_no_whole_table(lake: Lake) -> None:
    """Its writer was killed, or a removal met it; a writer that is at it is left alone."""
    place = lake.provisional(DAILY.id)
    (place / "_delta_log" / "00000000000000000007.json").put("")

    with completeness.alone(DAILY.id, lake):
        completeness.remove_stale(lake, NOON, TABLES)
        assert place.exists()
    completeness.remove_stale(lake, NOON, TABLES)
    assert not place.exists()


def test_that_they_cannot_be_computed_fails_no_run_and_is_said_once(
    spark: SparkSession, lake: Lake
) -> None:
    def broken(actions: DataFrame) -> DataFrame:
        return by_day(actions).withColumn("provisional", F.lit(1))

    copy_of(spark, lake, replace(DAILY, provisional=None))
    said: list[str] = []
    kept = aside(spark, lake, said, transform=broken)

    kept.keep()
    kept.keep()

    (sentence,) = said
    assert sentence.startswith("gold.actions_daily: its provisional rows are those of before: ")
    assert sentence.endswith("has a column provisional, which marks provisional rows")


def test_where_nothing_bounds_a_join_no_row_lacks_its_partner(
    spark: SparkSession, lake: Lake
) -> None:
    """A stream says that it cannot compute them; what no stream has made is computed from all there is."""

    def with_others(actions: DataFrame) -> DataFrame:
        others = actions.select(F.col("user_id").alias("other"))
        return by_day(actions.join(others, F.col("user_id") == F.col("other")))

    meeting, over = replace(DAILY, transform=with_others), NOON
    assert reads_from(spark, meeting, lake, over) == FIRST
    assert reads_from(spark, DAILY, lake, over) == over - DAILY.window_length
    copy_of(spark, lake, replace(DAILY, provisional=None))
    joins = RunRecord(fingerprint="", ids={}, plan={"operators": [{"kind": JOIN}]})
    write_record(lake.checkpoint(DAILY), joins)
    said: list[str] = []
    kept = aside(spark, lake, said)
    kept.keep()

    (sentence,) = said
    assert "nothing says how far apart" in sentence
    assert not lake.provisional(DAILY.id).exists()
    assert not owed(kept), "it does not keep its stream awake"


@pytest.mark.whole("provisional")
@pytest.mark.parametrize("name", ["provisional", "Provisional"])
def test_a_column_of_ones_own_is_never_shown_as_the_mark(
    spark: SparkSession, lake: Lake, name: str
) -> None:
    """Spark does not distinguish the two names, and DuckDB would call the mark otherwise."""

    def with_column(actions: DataFrame) -> DataFrame:
        return by_day(actions).withColumn(name, F.lit("mine"))

    own, said = replace(DAILY, transform=with_column), list[str]()
    derive(spark, lake, replace(own, provisional=None))
    aside(spark, lake, said, transform=with_column).keep()

    assert len(said) == 1
    with pytest.raises(DefinitionError, match="there is no table") as refused:
        ask(QUESTION, (user_actions.TABLE, own), lake)
    assert "unless a column of its own is called so" in refused.value.hint
    assert sources(TABLES, lake).keys() >= {DAILY.id}
    assert NAME not in sources(TABLES, lake)


def test_its_mark_is_among_its_columns(spark: SparkSession, lake: Lake) -> None:
    copy_of(spark, lake)

    assert sources(TABLES, lake)[NAME].columns["provisional"] == "boolean"
    assert "provisional" not in sources(TABLES, lake)[DAILY.id].columns


@pytest.mark.whole(".json")
@pytest.mark.parametrize("kind", [".parquet", ".json"])
def test_a_question_that_meets_their_removal_has_the_days_that_are_over(
    spark: SparkSession, lake: Lake, kind: str
) -> None:
    copy_of(spark, lake)
    put(lake, LOG, "3")
    derive(spark, lake, DAILY)
    place = lake.provisional(DAILY.id)
    for folder in (place, place / "_delta_log"):
        for each in folder.names():
            if each.endswith(kind) and "0001." not in each:
                (folder / each).remove_file()

    assert shown(lake) == {("20", 2, False)}
    assert DAILY.id in {name for (name,) in ask("SHOW TABLES", TABLES, lake).rows}


def test_while_a_stream_reads_what_is_old_nothing_is_computed_beside_it(
    spark: SparkSession, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would be all there is, and for as long as its first batch takes."""
    copy_of(spark, lake, replace(DAILY, provisional=None))
    with monkeypatch.context() as first:
        first.setattr(provisional, "settled_ms", lambda *_, **__: 0)
        kept = aside(spark, lake)
        kept.keep()
        assert not lake.provisional(DAILY.id).exists()
        assert not owed(kept)
    kept.keep()

    assert shown(lake) == TODAY


def test_one_table_of_a_process_computes_them_at_a_time(spark: SparkSession, lake: Lake) -> None:
    copy_of(spark, lake, replace(DAILY, provisional=None))
    kept = aside(spark, lake)
    with provisional._TURN:
        kept.look()
        assert owed(kept)
        assert kept._thread is None
    kept.look()
    assert kept._thread is not None
    kept._thread.join()

    assert shown(lake) == TODAY


def test_of_a_dimension_no_interval_is_read_that_ended_before_the_open_windows(
    spark: SparkSession, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their number only grows."""
    copy_of(spark, lake, replace(DAILY, provisional=None))
    begins: list[int] = []

    def noted(*of: Any) -> tuple[DataFrame, dict[str, int]]:  # noqa: ANN401  # as it is called
        begins.append(of[-1][0])
        return adorned(*of)

    monkeypatch.setattr(provisional, "adorned", noted)
    aside(spark, lake).keep()

    (begin,) = begins
    assert timedelta(0) < NOON - (EPOCH + timedelta(microseconds=begin)) < timedelta(days=2)
    assert shown(lake) == TODAY


def test_where_nothing_came_nothing_is_written(spark: SparkSession, lake: Lake) -> None:
    copy_of(spark, lake, replace(DAILY, provisional=None))
    kept = aside(spark, lake)
    versions = []
    for number in ("", "3"):
        if number:
            put(lake, LOG, number)
        kept.keep()
        kept.keep()
        versions.append(DeltaTable(lake.provisional(DAILY.id)).version())

    assert versions == [0, 1]


def test_files_of_rows_that_were_replaced_go(spark: SparkSession, lake: Lake) -> None:
    """Once no question reads them any more; those of now stay."""
    copy_of(spark, lake)
    place = lake.provisional(DAILY.id)
    old = [each for each in place.names() if each.endswith(".parquet")]
    put(lake, LOG, "3")
    derive(spark, lake, DAILY)

    completeness.Kept(place).sweep(place.modified_at() + timedelta(minutes=1))
    assert set(old) < set(place.names())
    completeness.Kept(place).sweep(place.modified_at() + timedelta(hours=1))
    assert not set(old) & set(place.names())
    assert shown(lake) == {("20", 2, False), ("21", 3, True)}


@pytest.mark.whole("00000000000000000000.json")
@pytest.mark.slow
@pytest.mark.parametrize("gone", ["00000000000000000000.json", "00000000000000000001.json"])
def test_one_whose_removal_was_killed_is_made_anew(
    spark: SparkSession, lake: Lake, gone: str
) -> None:
    copy_of(spark, lake)
    put(lake, LOG, "3")
    derive(spark, lake, DAILY)
    (lake.provisional(DAILY.id) / "_delta_log" / gone).remove()

    aside(spark, lake).keep()

    assert shown(lake) == {("20", 2, False), ("21", 3, True)}
    assert shown_over_jdbc(spark, lake) == shown(lake)


def test_what_nothing_computes_any_more_is_taken_away(spark: SparkSession, lake: Lake) -> None:
    """Rows below may be expired by then."""
    copy_of(spark, lake)
    place = lake.provisional(DAILY.id)
    written = place.modified_at()

    completeness.remove_stale(lake, written + timedelta(hours=23), ())
    assert place.exists()
    completeness.remove_stale(lake, written + timedelta(hours=25), ())
    assert not place.exists()


def test_while_nothing_comes_they_stay_and_are_owed_once_it_came(
    spark: SparkSession, lake: Lake
) -> None:
    """No stream that sleeps would compute them again, and none sleeps before they are computed."""
    copy_of(spark, lake, replace(DAILY, provisional=None))
    kept, place = aside(spark, lake, provisional="1 hour"), lake.provisional(DAILY.id)
    assert owed(kept)
    kept.keep()
    assert not owed(kept)
    week = place.modified_at() + timedelta(days=7)

    completeness.remove_stale(lake, week, TABLES)
    assert place.exists()
    put(lake, LOG, "3")
    assert owed(kept)
    kept.look()
    assert owed(kept), "it is not due"
    completeness.remove_stale(lake, week, TABLES)
    assert not place.exists()


@pytest.mark.parametrize(
    ("made", "says"),
    [
        (lambda: replace(DAILY, provisional="soon"), "no length of time of a second or more"),
        (lambda: replace(DAILY, provisional="10 milliseconds"), "a second or more"),
        (lambda: replace(DAILY, layer=Layer.SILVER), "is of silver"),
        (lambda: replace(AFRESH, emits=Emit.ON_CHANGE), "among its rows"),
    ],
)
def test_a_mistake_is_refused(made: Callable[[], object], says: str) -> None:
    with pytest.raises(DefinitionError, match=says):
        made()
