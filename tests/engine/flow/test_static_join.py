"""A static table is joined before rows are counted: each event meets the version of its time, however the log is cut."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path

import orjson
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructType, TimestampType

from strandline.core.errors import DefinitionError
from strandline.core.stateful import AvailableNow, Batch, MicroBatch, Mode
from strandline.core.static import Static
from strandline.core.table import Appended, Ingested, Judged, Recomputed, Table, Upserted, Windowed
from strandline.core.topic import CARRIED, RECEIVED, Topic
from strandline.engine.accounting.balance_sheet import balance
from strandline.engine.flow.batch import batch_writer
from strandline.engine.flow.batch.event_joins import Taker, joining, outlook
from strandline.engine.flow.ingest import PROPERTIES
from strandline.engine.flow.runner import Site, run
from strandline.engine.lake import static_versions
from strandline.engine.lake.commit import delta_commit
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger import Entry, entries, last_entry, latest_version
from strandline.engine.lake.log.ledger_sums import sums_of
from strandline.engine.lake.open_table import opened
from strandline.engine.lake.place import Place
from strandline.engine.service.snapshot import frozen
from strandline.operate.session import judge
from strandline_quality.rules import required
from tests.support import by_hand
from tests.support.literal import put
from tests.support.modes import has_caught_up, stream
from tests.support.rows import NOON, Row, rows, shown

VIEW = (
    StructType()
    .add("view_id", StringType())
    .add("ad_id", StringType())
    .add("viewed_at", TimestampType())
)
VIEWS = Judged(
    name="views",
    reads=(Ingested(name="views", reads=(Topic(name="views"),)),),
    transform=lambda rows: rows,
    key=("view_id",),
    event_at="viewed_at",
)
LOG = """
    batch | view_id | ad_id | viewed_at
    1     | 1       | a1    | 11:00:01
    1     | 2       | a2    | 11:00:02
    1     | 3       | a2    | 11:00:03
    1     | 4       | a9    | 11:00:04
    1     | 5       | -     | 11:00:05
    2     | 6       | a1    | 12:05:59
    2     | 7       | a1    | 12:06:00
    2     | 8       | a2    | 12:06:01
    2     | 9       | a9    | 12:06:02
    3     | 10      | a1    | 14:00:00
    4     | 11      | a1    | 17:00:00
"""
NOTICED = NOON + timedelta(minutes=6)
"""From when on a content holds that is noticed at noon: five minutes for clocks that are ahead, and one for its commit."""

FIRST = "ad_id,campaign\na1,spring\na2,summer\n"
SECOND = "ad_id,campaign\na9,autumn\na1,winter\n"
COUNTED = """
    campaign | window_from | views
    -        | 11:00:00    | 2
    -        | 12:06:00    | 1
    autumn   | 12:06:00    | 1
    spring   | 11:00:00    | 1
    spring   | 12:05:50    | 1
    summer   | 11:00:00    | 2
    winter   | 12:06:00    | 1
    winter   | 14:00:00    | 1
"""
MODES = {"batch": Batch(), "available-now": AvailableNow(), "micro-batch": MicroBatch(every=0.05)}


def campaigns(folder: Path, **more: object) -> Static:
    """Return the static table over a file in a folder."""
    declared = {"file": str(folder / "campaigns.csv"), **more}
    return Static(
        name="campaigns",
        columns="ad_id string, campaign string",
        key=("ad_id",),
        **declared,  # type: ignore[arg-type]
    )


def counted(static: Static) -> Callable[[DataFrame], DataFrame]:
    """Return the function that counts views per campaign and ten seconds."""

    def function(views: DataFrame) -> DataFrame:
        joined = static.joined(views, at="viewed_at")
        windows = joined.groupBy("campaign", F.window("viewed_at", "10 seconds").alias("w"))
        return windows.agg(F.count("*").alias("views")).select(
            "campaign",
            F.col("w.start").alias("window_from"),
            F.col("w.end").alias("window_until"),
            "views",
        )

    return function


def table_of(static: Static, kind: str = "windowed") -> Table:
    """Return a table that joins a static one, of a kind."""
    named = {
        "name": f"campaign_views_{kind}",
        "reads": (VIEWS,),
        "key": ("campaign", "window_from"),
        "key_null_ok": ("campaign",),
        "static": (static,),
        "transform": counted(static),
        "window": "10 seconds",
        "window_from": "window_from",
    }
    match kind:
        case "windowed":
            return Windowed(**named, closes_at="window_until", source_count="views")
        case "upserted":
            return Upserted(**named, closes_at="window_until", event_at="window_from")
        case "recomputed":
            return Recomputed(**named)
        case _:
            rest = {
                "key": ("view_id",),
                "key_null_ok": (),
                "transform": lambda views: static.joined(views, at="viewed_at").where(
                    "ad_id <> 'a2'"
                ),
            }
            kept = {k: v for k, v in named.items() if k not in {"window", "window_from"}}
            return Appended(**{**kept, **rest}, event_at="viewed_at")


def derive(
    spark: SparkSession, lake: Lake, table: Table, mode: Mode | None = None, clock: datetime = NOON
) -> list[str]:
    """Run a table, and return what was said."""
    said: list[str] = []
    site = Site(spark=spark, clock=lambda: clock, says=said.append)
    run(table, mode or AvailableNow(), lake, site=site)
    return said


def live(lake: Lake, table: Table, *names: str) -> list[Row]:
    """Return rows of a table."""
    found = opened(lake.table(table)).to_pyarrow_table().to_pylist()
    return sorted(shown(found, *names), key=str)


def newest(lake: Lake, table: Table) -> Entry:
    """Return the newest entry of a table."""
    found = last_entry(lake.table(table))
    assert found is not None
    return found[1]


@pytest.mark.whole("upserted", "recomputed")
@pytest.mark.slow
@pytest.mark.parametrize("kind", ["windowed", "upserted", "recomputed", "appended"])
def test_each_event_meets_the_version_of_its_time_in_every_mode(
    spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    """The file changes after the first commit; what is computed later, at once or as one batch, is the same."""
    static = campaigns(tmp_path)
    table = table_of(static, kind)
    log = {VIEWS: (VIEW, LOG)}
    file = tmp_path / "campaigns.csv"
    file.write_text(FIRST)
    first = Lake(tmp_path / "step by step").open_for_writing()
    put(first, log, "1")
    said = derive(spark, first, table)
    file.write_text(SECOND)
    for number in "234":
        put(first, log, number)
        said += derive(spark, first, table)
    file.unlink()
    answers = {"step by step": live(first, table)}
    for name, mode in MODES.items():
        lake = Lake(tmp_path / name).open_for_writing()
        static_versions.carry(first, lake, {static: 2})
        if name == "micro-batch":
            put(lake, log, "1")
            stream(
                spark, lake, table, ["2", "3", "4"], lambda number, at=lake: put(at, log, number)
            )
        else:
            for number in "1234":
                put(lake, log, number)
            derive(spark, lake, table, mode)
        answers[name] = live(lake, table)
        assert balance(table, lake).faults == [], name
        assert newest(lake, table).static == {static.id: 2}

    assert balance(table, first).faults == []
    for name, answer in answers.items():
        assert answer == answers["step by step"], name
    if kind != "appended":
        names = ("campaign", "window_from", "views")
        found = [row for row in live(first, table, *names) if row["window_from"] != "17:00:00"]
        assert found == sorted(rows(COUNTED), key=str)
    begins = f"{NOTICED:%Y-%m-%d %H:%M:%S}+00:00"
    assert [line.partition(": ")[2] for line in said] == [
        "version 1 of static.campaigns has 2 rows and holds of all time",
        f"version 2 of static.campaigns, with 2 new or changed rows and without 1, holds of events from {begins} on",
    ]
    found_entries = [entry.static for _, entry in entries(first.table(table)) if entry.static]
    assert found_entries[0] == {static.id: 1}
    assert found_entries[-1] == {static.id: 2}


def taken(spark: SparkSession, lake: Lake, table: Table, clock: datetime = NOON) -> list[str]:
    """Take in what the sources of a table have, as a start does, and return what was said."""
    said: list[str] = []
    Taker(spark, table, lake, lambda: clock, said.append).take()
    return said


@pytest.mark.slow
def test_a_table_that_is_always_on_takes_a_content_in_between_two_batches(
    spark: SparkSession, lake: Lake, tmp_path: Path
) -> None:
    """Its query was planned with the first content, and is started again for the next batch."""
    static = campaigns(tmp_path)
    table, log = table_of(static), {VIEWS: (VIEW, LOG)}
    file = tmp_path / "campaigns.csv"
    file.write_text(FIRST)
    put(lake, log, "1")
    steps = ["2", "3", "4"]

    def stopped() -> bool:
        if not has_caught_up(lake, table):
            return False
        if latest_version(lake.table(static)) < 2:
            file.write_text(SECOND)
        elif steps:
            put(lake, log, steps.pop(0))
        else:
            return True
        return False

    site = Site(spark=spark, clock=lambda: NOON)
    run(table, MicroBatch(every=0.05), lake, site=site, stopped=stopped)

    assert counts(lake, table) == sorted(rows(COUNTED), key=str)
    versions = [entry.static[static.id] for _, entry in entries(lake.table(table)) if entry.static]
    assert versions == sorted(versions)
    assert {*versions} == {1, 2}


def counts(lake: Lake, table: Table) -> list[Row]:
    """Return the counts without the last window, which no stream calls final."""
    found = live(lake, table, "campaign", "window_from", "views")
    return [row for row in found if row["window_from"] != "17:00:00"]


def test_a_batch_that_was_planned_before_a_content_came_runs_again_with_its_rows(
    spark: SparkSession, lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process ends after the plan; the next one takes the content in, and then computes the batch."""
    static = campaigns(tmp_path)
    table, log = table_of(static), {VIEWS: (VIEW, LOG)}
    file = tmp_path / "campaigns.csv"
    file.write_text(FIRST)
    put(lake, log, "1")

    def ended(*_: object, **__: object) -> None:
        raise DefinitionError("ended here", hint="")

    with monkeypatch.context() as patch:
        patch.setattr(batch_writer, "append", ended)
        with pytest.raises(DefinitionError, match="ended here"):
            derive(spark, lake, table)
    file.write_text(SECOND)
    taken(spark, lake, table)  # and this process ends before its first batch
    for number in "234":
        put(lake, log, number)
    derive(spark, lake, table)

    assert counts(lake, table) == sorted(rows(COUNTED), key=str)
    assert balance(table, lake).faults == []


def test_a_content_whose_commit_did_not_come_is_taken_in_by_the_next_start(
    spark: SparkSession, lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the process that ended has written is in no version."""
    static = campaigns(tmp_path)
    table, file = table_of(static), tmp_path / "campaigns.csv"

    def ended(*_: object) -> int:
        raise OSError("ended here")

    for number, text in enumerate((FIRST, SECOND), start=1):
        file.write_text(text)
        with monkeypatch.context() as patch:
            patch.setattr(delta_commit.Commit, "commit", ended)
            with pytest.raises(OSError, match="ended here"):
                taken(spark, lake, table)
        assert latest_version(lake.table(static)) == number - 1
        assert f"version {number} of" in taken(spark, lake, table)[0]

    held = static_versions.intervals(static, lake, 2).to_pylist()
    assert sorted(row["campaign"] for row in held) == ["autumn", "spring", "summer", "winter"]


@pytest.mark.whole("recomputed")
@pytest.mark.parametrize("kind", ["windowed", "recomputed"])
def test_an_event_before_the_first_version_has_the_default_and_is_counted(
    spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    """So does one whose key the content lacks, which is not counted as before it."""
    (tmp_path / "campaigns.csv").write_text(FIRST)
    begins = NOON.replace(hour=11, second=3)
    static = campaigns(tmp_path, holds_from=begins, default={"campaign": "none"})
    table, log = table_of(static, kind), {VIEWS: (VIEW, LOG)}
    for name in ("batch", "step by step"):
        lake = Lake(tmp_path / name).open_for_writing()
        for number in "123":
            put(lake, log, number)
            if name != "batch":
                derive(spark, lake, table)
        if name == "batch":
            derive(spark, lake, table, Batch())

        found = live(lake, table, "campaign", "window_from", "views")
        assert [row for row in found if row["window_from"] == "11:00:00"] == rows("""
            campaign | window_from | views
            none     | 11:00:00    | 4
            summer   | 11:00:00    | 1
        """), name
        assert sums_of(lake.table(table)).before_static == {static.id: 2}, name
        assert newest_static(static, lake).holds_from == begins.isoformat()


@pytest.mark.whole
@pytest.mark.slow
def test_rows_before_the_first_version_are_counted_in_a_source_that_its_event_time_partitions(
    spark: SparkSession, lake: Lake, tmp_path: Path
) -> None:
    """Its files lack that column. A row that is computed again is no other row, and one more of late news is one."""
    (tmp_path / "campaigns.csv").write_text(FIRST)
    static = campaigns(tmp_path, holds_from=NOON)
    source = Recomputed(
        name="views_of_ads",
        reads=(VIEWS,),
        transform=lambda views: views.groupBy(
            "ad_id", F.window("viewed_at", "10 seconds").start.alias("window_from")
        ).agg(F.count("*").alias("views")),
        key=("ad_id", "window_from"),
        key_null_ok=("ad_id",),
        window="10 seconds",
        window_from="window_from",
    )
    table = Recomputed(
        name="views_of_campaigns",
        reads=(source,),
        transform=lambda views: (
            static.joined(views, at="window_from")
            .groupBy("campaign", "window_from")
            .agg(F.sum("views").alias("views"))
        ),
        key=("campaign", "window_from"),
        key_null_ok=("campaign",),
        window="10 seconds",
        window_from="window_from",
        static=(static,),
    )
    log = """
        batch | view_id | ad_id | viewed_at
        1     | 1       | a1    | 11:00:01
        1     | 2       | a2    | 12:00:02
        2     | 3       | a1    | 11:00:03
        3     | 4       | a2    | 11:00:04
        4     | 5       | a1    | 12:00:05
    """
    counted_until = []
    for number in "1234":
        put(lake, {VIEWS: (VIEW, log)}, number)
        derive(spark, lake, source)
        derive(spark, lake, table)
        counted_until.append(sums_of(lake.table(table)).before_static)

    assert counted_until == [{static.id: count} for count in (1, 1, 2, 2)]
    assert live(lake, table, "campaign", "window_from", "views") == rows("""
        campaign | window_from | views
        -        | 11:00:00    | 3
        spring   | 12:00:00    | 1
        summer   | 12:00:00    | 1
    """)
    assert balance(table, lake).faults == []


def newest_static(static: Static, lake: Lake) -> Entry:
    """Return the entry of the newest version."""
    found = static_versions.newest(static, lake)
    assert found is not None
    return found[1]


@pytest.mark.slow
def test_a_judging_table_joins_and_asks_its_rules_of_what_it_joined(
    spark: SparkSession, tmp_path: Path
) -> None:
    """A view of no campaign is held, in a batch and in a stream."""
    (tmp_path / "campaigns.csv").write_text(FIRST)
    static = campaigns(tmp_path, holds_from=NOON)
    (bronze,) = VIEWS.reads

    def views(events: DataFrame) -> DataFrame:
        (topic,) = bronze.topics
        read = topic.parse(events, VIEW).select(*CARRIED, *VIEW.fieldNames())
        return static.joined(read, at="viewed_at")

    table = replace(VIEWS, transform=views, rules=required("campaign"), static=(static,))
    for name in ("batch", "step by step"):
        lake = Lake(tmp_path / name).open_for_writing()
        by_hand.create(lake.table(bronze), RECEIVED, PROPERTIES)
        for batch, ads in enumerate(("a1 a2", "a9 a1", "a2")):
            sent(lake, batch, ads.split())
            if name != "batch":
                derive(spark, lake, table)
        if name == "batch":
            derive(spark, lake, table, Batch())

        assert live(lake, table, "ad_id", "campaign") == [
            {"ad_id": "a1", "campaign": "spring"},
            {"ad_id": "a2", "campaign": "summer"},
            {"ad_id": "a2", "campaign": "summer"},
        ], name
        sheet = balance(table, lake)
        assert (sheet.faults, dict(sheet.quarantined)) == ([], {"missing:campaign": 2}), name
        assert newest(lake, table).static == {static.id: 1}
        assert judge(spark, table, payload("v", "a2", NOON))[0]["campaign"] == "summer"


def sent(lake: Lake, batch: int, ads: Sequence[str]) -> None:
    """Append a commit of views to bronze; the first of all lies before noon."""
    first = batch * 10
    found: list[tuple[object, ...]] = []
    for number, ad in enumerate(ads):
        at = NOON - timedelta(minutes=1) if first + number == 0 else NOON
        value = payload(f"v{first + number}", ad, at)
        found.append(("views", 0, first + number, NOON, None, value, [], batch, NOON, NOON))
    entry = Entry(
        table="bronze.views",
        mode="available-now",
        stream="views=a1",
        batch=batch,
        source="views",
        offsets={"views/0": (first, first + 10)},
        read=len(found),
        good=len(found),
        written=len(found),
        without_record=10 - len(found),
        newest_arrival=NOON.isoformat(),
    )
    by_hand.commit(lake.table(VIEWS.reads[0]), [by_hand.table(RECEIVED, found)], entry.encoded())


def payload(number: str, ad: str, at: datetime) -> bytes:
    """Return a view as it is sent."""
    return orjson.dumps({"view_id": number, "ad_id": ad, "viewed_at": at.isoformat()})


def test_a_source_that_cannot_be_read_lets_the_last_version_go_on_and_is_said_once(
    spark: SparkSession, lake: Lake, tmp_path: Path
) -> None:
    """Without a version nothing can be computed."""
    static = campaigns(tmp_path)
    table, file = table_of(static), tmp_path / "campaigns.csv"
    with pytest.raises(
        DefinitionError, match=r"static\.campaigns cannot be read: .*campaigns\.csv"
    ):
        taken(spark, lake, table)
    file.write_text(FIRST)
    taken(spark, lake, table)
    assert taken(spark, lake, table) == []
    file.unlink()
    said: list[str] = []
    taker = Taker(spark, table, lake, lambda: NOON, said.append)
    for text in ("", "ad_id,campaign\na1,x\na1,y\n", "ad_id,campaign\na1,x\n,y\n", "ad_id\na1\n"):
        if text:
            file.write_text(text)
        taker.take()
        taker.take()

    found = [line.partition(" goes on.")[0].replace(f"{tmp_path}/", "") for line in said]
    assert [
        line.removeprefix("gold.campaign_views_windowed: static.campaigns ") for line in found
    ] == [
        "cannot be read: campaigns.csv: No such file or directory; its version 1",
        "has 1 rows too many in campaigns.csv, such as two of ad_id='a1'; its version 1",
        "has 1 rows whose key (ad_id) is NULL in campaigns.csv; its version 1",
        "cannot be read from campaigns.csv: Column 'campaign' in include_columns does not exist in CSV file; its version 1",
    ]
    assert latest_version(lake.table(static)) == 1
    assert [
        line.partition(" goes on")[0].replace(f"{tmp_path}/", "") for line in outlook(table, lake)
    ] == [found[-1].removeprefix("gold.campaign_views_windowed: ")]
    file.write_text(SECOND)
    assert outlook(table, lake) == [
        "static.campaigns has another content than version 1: a start takes it in"
    ]
    file.write_text("campaign,ad_id,more\nsummer,a2,\nspring,a1,\n")
    assert (outlook(table, lake), taken(spark, lake, table)) == ([], []), "the same rows"


def test_a_version_that_is_never_written_in_time_lets_the_last_one_go_on(
    spark: SparkSession, lake: Lake, tmp_path: Path
) -> None:
    """Each attempt took longer than the moment leaves from which it would hold, and there was no last attempt."""
    static = campaigns(tmp_path)
    table, file, moment = table_of(static), tmp_path / "campaigns.csv", NOON
    file.write_text(FIRST)
    taken(spark, lake, table)
    file.write_text(SECOND)

    def slow() -> datetime:
        nonlocal moment
        moment += timedelta(minutes=1)
        return moment

    said: list[str] = []
    Taker(spark, table, lake, slow, said.append).take()

    assert "could not be written within 30 seconds, 3 times; its version 1 goes on" in said[0]
    assert latest_version(lake.table(static)) == 1
    assert "version 2 of" in taken(spark, lake, table)[0]


def test_a_moment_that_is_declared_is_kept_where_no_event_of_it_was_joined(
    spark: SparkSession, lake: Lake, tmp_path: Path
) -> None:
    """A later one is; an earlier one is not, which is said."""
    file = tmp_path / "campaigns.csv"
    moments = (None, NOON + timedelta(hours=1), NOON - timedelta(hours=1), None)
    said = []
    for number, moment in enumerate(moments):
        file.write_text(f"ad_id,campaign\na1,c{number}\n")
        table = table_of(campaigns(tmp_path, holds_from=moment))
        said += taken(spark, lake, table, NOON + timedelta(hours=2 * (number > 1)))
    (static,) = table.static

    found = [entry.holds_from for _, entry in entries(lake.table(static))]
    assert found == [
        "",
        *(f"2026-11-20T{each}+00:00" for each in ("13:00:00", "14:06:00", "14:06:00")),
    ]
    assert (
        "and not from 2026-11-20 11:00:00+00:00 on: events of that time are joined already"
        in said[2]
    )
    held = static_versions.intervals(static, lake, 4).to_pylist()
    assert sorted((row["campaign"], row["_holds_from"].hour) for row in held) == [
        ("c0", 0),
        ("c1", 13),
        ("c3", 14),
    ], "of one moment the later version counts"


def test_a_file_of_parquet_and_a_delta_table_are_read_and_of_other_types_refused(
    spark: SparkSession, lake: Lake, tmp_path: Path
) -> None:
    """A shorter number is a number; a text is none."""
    rows_ = spark.sql(
        "SELECT 'a' AS product, CAST(1.5 AS DECIMAL(5,1)) AS price, 3 AS stock, 'x' AS more"
    )
    rows_.coalesce(1).write.parquet(str(tmp_path / "parquet"))
    rows_.write.format("delta").save(str(tmp_path / "delta"))
    (part,) = (tmp_path / "parquet").glob("*.parquet")
    columns = "product string, price decimal(10,2), stock bigint"
    for source in ({"file": str(part)}, {"delta": str(tmp_path / "delta")}):
        static = Static(name="products", columns=columns, key=("product",), **source)  # type: ignore[arg-type]
        found = static_versions.read(static)
        assert found is not None
        assert found.content == {("a",): (Decimal("1.50"), 3)}
        wrong = replace(static, columns="product string, more bigint")
        with pytest.raises(DefinitionError, match="its column more is"):
            static_versions.read(wrong)
        lacking = replace(static, columns="product string, colour string")
        with pytest.raises(DefinitionError, match="it has no column colour"):
            static_versions.read(lacking)
    table = table_of(static)
    taken(spark, lake, table)
    rows_.withColumn("stock", F.lit(4)).write.format("delta").mode("overwrite").save(
        str(tmp_path / "delta")
    )
    assert (
        "version 2 of static.products, with 1 new or changed rows" in taken(spark, lake, table)[0]
    )
    with pytest.raises(
        DefinitionError, match=r"price as double, and its versions have it as decimal\(10,2\)"
    ):
        taken(spark, lake, table_of(replace(static, columns="product string, price double")))
    with pytest.raises(DefinitionError, match="has more in its key, which its versions lack"):
        taken(
            spark,
            lake,
            table_of(replace(static, columns="product string, more string", key=("more",))),
        )
    with pytest.raises(DefinitionError, match="has the key product, stock, and its versions have"):
        taken(spark, lake, table_of(replace(static, key=("product", "stock"))))
    wider = replace(static, columns=f"{columns}, more string")
    assert "version 4 of static.products" in taken(spark, lake, table_of(wider))[0], (
        "3 is the column"
    )
    held = static_versions.intervals(wider, lake, latest_version(lake.table(static))).to_pylist()
    assert sorted((row["stock"], row["more"]) for row in held) == [(3, None), (4, "x")]


def test_a_snapshot_has_the_versions(spark: SparkSession, lake: Lake, tmp_path: Path) -> None:
    """A restored lake joins what comes later, and what is computed again, as this one does."""
    static = campaigns(tmp_path)
    table = table_of(static)
    (tmp_path / "campaigns.csv").write_text(FIRST)
    put(lake, {VIEWS: (VIEW, LOG)}, "1")
    derive(spark, lake, table)
    with frozen(lake, [table], lambda _: None) as (held, _):
        for path, file in held.files():
            if path.startswith("static/"):
                file.place.copy(restored_at(tmp_path, path))

    restored = Lake(tmp_path / "restored")
    assert static_versions.intervals(static, restored, 1).equals(
        static_versions.intervals(static, lake, 1)
    )


def restored_at(folder: Path, path: str) -> Place:
    """Return a file's place in the restored lake."""
    place = Place.of(folder / "restored" / path)
    place.parent.make()
    return place


def test_a_join_that_could_not_be_repeated_is_refused_with_what_to_write(
    spark: SparkSession, lake: Lake, tmp_path: Path
) -> None:
    """By another time than the event's, without a declaration, or between columns that do not fit."""
    (tmp_path / "campaigns.csv").write_text(FIRST)
    static = campaigns(tmp_path)
    table = table_of(static)
    views = spark.createDataFrame([], VIEW)
    with pytest.raises(DefinitionError, match="was asked for outside of a lake"):
        static.joined(views, at="viewed_at")
    renamed = views.withColumnRenamed("viewed_at", "seen_at")
    with joining(table, lake):
        assert static.joined(views, at="viewed_at").columns == [*VIEW.fieldNames(), "campaign"]
        for rows_, more, message in (
            (renamed, {"at": "seen_at"}, "as of seen_at, which is no event time"),
            (views, {"at": "viewed"}, "is joined to rows without viewed"),
            (
                views,
                {"on": ("ad_id", "view_id")},
                "is joined on ad_id, view_id, and its key is ad_id",
            ),
            (
                views.selectExpr("*", "1 AS campaign"),
                {},
                "adds campaign, which the rows have already",
            ),
            (
                views.selectExpr("*", "1 AS Campaign"),
                {},
                "adds campaign, which the rows have already",
            ),
            (
                views.withColumn("ad_id", F.lit(1)),
                {},
                "has ad_id as string, and the rows have ad_id as int",
            ),
        ):
            with pytest.raises(DefinitionError, match=message):
                static.joined(rows_, **{"at": "viewed_at", **more})  # type: ignore[arg-type]
    with (
        joining(replace(table, static=(replace(static, name="others"),)), lake),
        pytest.raises(DefinitionError, match=r"joins static\.campaigns and does not declare it"),
    ):
        static.joined(views, at="viewed_at")
