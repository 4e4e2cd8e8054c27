"""A wider type and a new field are given to a table in place: no row is computed again, and all that read it go on."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import (
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructType,
    TimestampType,
)
from strandline import CARRIED, catalog, parse_json

from strandline.core.errors import DefinitionError
from strandline.core.stateful import Batch
from strandline.core.table import Appended, Judged, Recomputed, Table, Windowed
from strandline.engine.accounting.balance_sheet import balance, readable_at
from strandline.engine.flow import compare_plans, new_entry, preflight
from strandline.engine.flow.batch.batch_writer import Writer
from strandline.engine.flow.batch.event_joins import Pinned
from strandline.engine.flow.batch.governor import Governor, ReplanError, TriggerLimit
from strandline.engine.flow.preflight import Answer, judge
from strandline.engine.flow.runner import Site
from strandline.engine.flow.spark_plan import Node, StatefulPlan, tree
from strandline.engine.lake.commit.compact import Choice, merge_files
from strandline.engine.lake.commit.create_table import alter
from strandline.engine.lake.commit.replace_rows import rename_columns
from strandline.engine.lake.duckdb_table import all_rows, columns_of, scan, session
from strandline.engine.lake.lake import COLUMNS, FORMS, Lake, forms
from strandline.engine.lake.log.ledger import latest_version
from strandline.engine.lake.log.log_actions import live_files
from strandline.engine.lake.open_table import (
    declared_schema,
    first_names,
    open_version,
    opened,
)
from strandline.engine.lake.spark_checkpoint import read_record
from strandline.engine.proof.certificate import keep, status
from strandline.engine.repair import migrate as repaired
from strandline.engine.repair.migrate import Made, Migration, Step, made, migrate, planned, rename
from strandline.engine.repair.rebuild import promote, rebuild, undo
from strandline.engine.repair.replay import replay
from strandline.engine.runtime.jvm import Heap
from strandline.operate import migrate as operated
from tests.engine.proof.test_certificate import WHOLE
from tests.support import events
from tests.support.edits import CLICKS
from tests.support.edits_of_schemas import LONG, MOST, PASSED, SHORT, TYPED, typed
from tests.support.literal import put
from tests.support.modes import derive, stream
from tests.support.rows import NOON, Row, rows, shown
from tests.support.windows_before_and_after import in_windows

pytestmark = pytest.mark.slow

BIG = 5_000_000_000
LOG = f"""
    batch | k | site | v | w | part | at
    1     | a | x    | 1 | 1 | A    | 09:00:00
    1     | b | y    | 2 | 2 | A    | 09:01:00
    2     | c | y    | {BIG} | 3 | A    | 09:02:00
    3     | d | y    | 4 | 4 | A    | 09:03:00
"""
EACH = rows(f"""
    k | v
    a | 1
    b | 2
    c | {BIG}
    d | 4
""")


def wider(clicks: DataFrame) -> DataFrame:
    """Return the same with longer numbers, and a field more in a struct."""
    return typed(
        clicks,
        i="v",
        d="cast(v as decimal(14,2))",
        s="named_struct('a', v, 'site', site, 'b', w)",
        l="array(v)",
        ls="array(named_struct('a', v))",
        m="map(site, v)",
    )


WIDER = replace(TYPED, transform=wider)
ABOVE = Appended(
    name="above",
    reads=(WIDER,),
    transform=lambda rows: rows.select("k", "i", "d", "s.a", "at"),
    key=("k",),
    event_at="at",
)


def found(lake: Lake, table: Table, *names: str) -> list[Row]:
    return shown(opened(lake.table(table)).to_pyarrow_table().to_pylist(), *names)


def worker(site: Site, lake: Lake) -> operated._Worker:
    """Return what does the stages of a migration of a lake that no stream feeds."""
    said, stream = Migration(at="2026-11-20", by="ann"), operated._Stream(lake, print, [])
    return operated._Worker(site, lake, said, stream, print, lambda _: None)


def test_a_wider_column_is_read_by_all_that_read_the_narrow_one(
    spark: SparkSession, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    short = {CLICKS: (SHORT, LOG)}
    put(lake, short, "1")
    below = replace(ABOVE, reads=(TYPED,))
    derive(spark, lake, TYPED, below)
    path, before = lake.table(TYPED), latest_version(lake.table(TYPED))

    alter(spark, lake.table(CLICKS), LONG)
    verdict = judge(spark, WIDER, lake)
    (stage,) = planned([WIDER], lake, {WIDER.id: verdict}, forward=True)
    after = migrate(spark, WIDER, lake)
    put(lake, {CLICKS: (LONG, LOG)}, "2")
    derive(spark, lake, WIDER)

    assert (verdict.answer, stage.step, after.answer) == (
        Answer.MIGRATE,
        Step.ALTERED,
        Answer.SAFE,
    )
    assert forms(lake.formats)[COLUMNS]["number"] == FORMS[COLUMNS].number
    assert [each.simpleString() for each in (declared_schema(path)["i"].dataType,)] == ["bigint"]
    assert balance(WIDER, lake).faults == []
    new = {each["k"]: each for each in found(lake, WIDER, "k", "i", "d", "s", "l")}
    assert new["c"]["i"] == str(BIG)
    assert new["a"]["i"] == "1"
    # A version of before, by Arrow and by DuckDB: with the types of then.
    assert str(open_version(path, "t", before).schema().to_json()).count("typeChanges") == 0
    with session() as duck:
        scan(duck, "former", path, before)
        scan(duck, "now", path)
        assert (
            dict(duck.execute("SELECT column_name, column_type FROM (DESCRIBE former)").fetchall())[
                "i"
            ]
            == "INTEGER"
        )
        assert duck.execute("SELECT sum(i), max(s.a) FROM now").fetchall() == [(BIG + 3, BIG)]
    changed = [
        row
        for part in all_rows(path, latest_version(path), columns_of(path, ("k",)))
        for row in part
    ]
    assert len(changed) == 3
    # A table above that holds the column was made with the narrow one, and is given the wider one too.
    assert judge(spark, ABOVE, lake).answer is Answer.MIGRATE
    monkeypatch.setattr(catalog, "tables", lambda: [CLICKS, WIDER, ABOVE])
    site = Site(spark=spark, clock=lambda: NOON)
    (done,) = worker(site, lake).widen_above(WIDER)
    assert (done.table, "its column i is int" in done.says) == (ABOVE.id, True)
    derive(spark, lake, ABOVE)
    assert {each["i"] for each in found(lake, ABOVE, "i")} == {"1", "2", str(BIG)}
    # Maintenance, a rebuild beside it, its promotion and the undo.
    for number in range(8):
        put(lake, {CLICKS: (LONG, LOG.replace("3     | d", f"3     | d{number}"))}, "3")
        derive(spark, lake, WIDER)
    kept = sorted(found(lake, WIDER, "k", "i", "s"), key=str)
    soon = datetime(2030, 1, 1, tzinfo=UTC)
    assert list(merge_files(path, Choice(before_ms=2**62), soon))
    assert len(live_files(path).files) == 1
    assert sorted(found(lake, WIDER, "k", "i", "s"), key=str) == kept
    rebuild(WIDER, lake, site)
    promote(WIDER, lake, site)
    assert sorted(found(lake, WIDER, "k", "i"), key=str) == [
        {n: e[n] for n in ("k", "i")} for e in kept
    ]
    undo(spark, WIDER, lake)
    assert sorted(found(lake, WIDER, "k", "i", "s"), key=str) == kept
    assert balance(WIDER, lake).faults == []


@pytest.mark.whole
def test_a_stream_goes_on_when_a_source_gets_a_wider_type_under_it(
    spark: SparkSession, lake: Lake
) -> None:
    """It is planned again at the commit that changes the type; its own table is wide enough already."""
    passed = replace(
        PASSED, transform=lambda rows: rows.selectExpr("k", "cast(v as bigint) v", "at")
    )
    put(lake, {CLICKS: (SHORT, LOG)}, "1")

    def take_in(batch: str) -> None:
        if batch == "2":
            alter(spark, lake.table(CLICKS), LONG)
        put(lake, {CLICKS: (LONG, LOG)}, batch)

    stream(spark, lake, passed, ["2", "3"], take_in)

    assert found(lake, passed, "k", "v") == EACH
    assert balance(passed, lake).faults == []
    # A new reader begins at the first commit, in the order of commits.
    other = replace(passed, name="later")
    derive(spark, lake, other)
    assert found(lake, other, "k", "v") == EACH
    whole = replace(passed, name="whole")
    derive(spark, lake, whole, mode=Batch())
    assert found(lake, whole, "k", "v") == EACH


def test_a_stream_is_planned_again_once_for_each_change_of_its_sources_columns(
    spark: SparkSession, lake: Lake
) -> None:
    """Two changes without a batch between them end no run; a failure after all changes is none that planning again heals."""
    both = StructType([*(each for each in LONG if each.name != "w")]).add("w", LongType())
    put(lake, {CLICKS: (SHORT, LOG)}, "1")
    derive(spark, lake, PASSED)
    alter(spark, lake.table(CLICKS), LONG)
    alter(spark, lake.table(CLICKS), both)
    limit = TriggerLimit(PASSED, lake, Governor(PASSED, lake, Heap(spark)))
    writer = Writer(PASSED, lake, "", print, None, limit, Pinned(PASSED, lake))

    kinds = [type(writer._replanned(ValueError("changed"))) for _ in range(10)]

    assert kinds[:2] == [ReplanError, ReplanError]
    assert kinds[-1] is DefinitionError


def test_a_stream_keeps_the_largest_text_of_a_window_and_a_key(
    spark: SparkSession, lake: Lake
) -> None:
    """Its aggregate sorts, and what Spark writes down of that order it does not find again when the batch is cached."""
    text = StructType([*(each for each in SHORT if each.name != "v")]).add("v", StringType())
    for batch in ("1", "2", "3"):
        put(lake, {CLICKS: (text, WINDOWS)}, batch)
        derive(spark, lake, MOST)

    assert found(lake, MOST, "k", "most") == rows("""
        k | most
        a | 7
        b | 4
    """)


def test_a_stream_that_would_write_a_wider_type_into_its_table_is_refused_with_a_sentence(
    spark: SparkSession, lake: Lake
) -> None:
    put(lake, {CLICKS: (SHORT, LOG)}, "1")

    def take_in(batch: str) -> None:
        alter(spark, lake.table(CLICKS), LONG)
        put(lake, {CLICKS: (LONG, LOG)}, batch)

    with pytest.raises(
        DefinitionError, match="its column v is int, and would be bigint"
    ) as refused:
        stream(spark, lake, PASSED, ["2"], take_in)
    assert f"strandline migrate {PASSED.id}" in refused.value.hint

    migrate(spark, PASSED, lake)
    put(lake, {CLICKS: (LONG, LOG)}, "3")
    derive(spark, lake, PASSED)
    assert found(lake, PASSED, "k", "v") == EACH


def named(clicks: DataFrame) -> DataFrame:
    """Return the same rows with another name of a column."""
    return clicks.select("k", F.col("v").alias("amount"), "at")


NAMED = replace(PASSED, transform=named)
HIGHEST = Windowed(
    name="highest",
    reads=(PASSED,),
    transform=lambda rows: highest(rows, "v"),
    key=("k", "began"),
    window="10 minutes",
    window_from="began",
    closes_at="ended",
)


def highest(rows: DataFrame, column: str) -> DataFrame:
    """Return the highest value of windows, which state keeps."""
    found = in_windows(rows, "k").agg(F.max(column).alias("most"))
    window = (F.col("window.start").alias("began"), F.col("window.end").alias("ended"))
    return found.select("k", "most", *window)


HIGHEST_NAMED = replace(HIGHEST, reads=(NAMED,), transform=lambda rows: highest(rows, "amount"))
WINDOWS = """
    batch | k | site | v | w | part | at
    1     | a | x    | 7 | 1 | A    | 09:00:00
    1     | b | y    | 2 | 2 | A    | 09:01:00
    2     | a | y    | 5 | 3 | A    | 09:02:00
    2     | b | y    | 4 | 4 | A    | 09:03:00
    3     | q | y    | 1 | 4 | A    | 12:03:00
"""


def test_a_column_under_another_name_keeps_its_values_and_the_state_above_it(
    spark: SparkSession, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The window above has a row of before in its state when the name changes, and one after it."""
    log = {CLICKS: (LONG, WINDOWS)}
    put(lake, log, "1")
    derive(spark, lake, PASSED, HIGHEST)
    path, before = lake.table(PASSED), latest_version(lake.table(PASSED))
    monkeypatch.setattr(catalog, "tables", lambda: [CLICKS, NAMED, HIGHEST])

    asked = judge(spark, NAMED, lake)
    rename(spark, NAMED, lake, {"v": "amount"}, NOON)
    after = judge(spark, NAMED, lake)
    above = judge(spark, HIGHEST_NAMED, lake)
    # The certificate by another engine and repairs read the table as it is called now, before a batch above has.
    assert readable_at(HIGHEST_NAMED, NAMED, lake) == latest_version(path)
    put(lake, log, "2")
    derive(spark, lake, NAMED, HIGHEST_NAMED)
    put(lake, log, "3")
    derive(spark, lake, NAMED, HIGHEST_NAMED)

    assert "--rename v=amount --go" in " ".join(each.what for each in asked.differences)
    assert (after.answer, above.answer) == (Answer.SAFE, Answer.SAFE), (after, above)
    assert found(lake, NAMED, "k", "amount") == rows("""
        k | amount
        a | 5
        a | 7
        b | 2
        b | 4
        q | 1
    """)
    assert found(lake, HIGHEST, "k", "most") == rows("""
        k | most
        a | 7
        b | 4
    """)
    assert balance(NAMED, lake).faults == []
    assert balance(HIGHEST_NAMED, lake).faults == []
    assert "v" in declared_schema(path, before).names
    with session() as duck:
        scan(duck, "former", path, before)
        assert duck.execute("SELECT sum(v) FROM former").fetchall() == [(9,)]
    # A new reader begins with a snapshot, because what lies before the name cannot be read with it.
    other = replace(HIGHEST_NAMED, name="other")
    derive(spark, lake, other)
    assert found(lake, other, "k", "most") == found(lake, HIGHEST, "k", "most")
    # Back again: the same by the same words, and the state above is still known.
    derive(spark, lake, HIGHEST_NAMED)
    rename(spark, PASSED, lake, {"amount": "v"}, NOON)
    assert judge(spark, HIGHEST, lake).answer is Answer.SAFE


def test_names_that_cannot_be_given_are_refused_with_a_sentence(
    spark: SparkSession, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(lake, {CLICKS: (LONG, WINDOWS)}, "1")
    derive(spark, lake, PASSED, HIGHEST)
    monkeypatch.setattr(catalog, "tables", lambda: [CLICKS, NAMED, HIGHEST])

    for names, why in (
        ({"x": "amount"}, "no column x"),
        ({"v": "k"}, "k already"),
        ({"v": "K"}, "k already"),
        ({"v": "other"}, "no column other"),
    ):
        with pytest.raises(DefinitionError, match=why) as refused:
            rename(spark, NAMED, lake, names, NOON)
        assert refused.value.hint
    put(lake, {CLICKS: (LONG, WINDOWS)}, "2")
    derive(spark, lake, PASSED)
    with pytest.raises(DefinitionError, match="did not read all rows"):
        rename(spark, NAMED, lake, {"v": "amount"}, NOON)
    # By another tool all the same: rows of before would be read without their values.
    rename_columns(lake.table(PASSED), {"v": "amount"}, NOON)
    verdict = judge(spark, HIGHEST_NAMED, lake)
    assert (verdict.answer, "other columns since version" in verdict.differences[0].what) == (
        Answer.ANEW,
        True,
    )


def test_an_undo_of_a_promotion_from_before_a_rename_brings_the_former_name_back(
    spark: SparkSession, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The column is the one of then: neither it nor the state above is taken for another, so nothing must be computed anew."""
    site = Site(spark=spark, clock=lambda: NOON)
    put(lake, {CLICKS: (LONG, WINDOWS)}, "1")
    derive(spark, lake, PASSED, HIGHEST)
    rebuild(PASSED, lake, site)
    promote(PASSED, lake, site)
    derive(spark, lake, HIGHEST)
    monkeypatch.setattr(catalog, "tables", lambda: [CLICKS, NAMED, HIGHEST])
    rename(spark, NAMED, lake, {"v": "amount"}, NOON)

    undo(spark, PASSED, lake)

    monkeypatch.setattr(catalog, "tables", lambda: [CLICKS, PASSED, HIGHEST])
    assert "v" in declared_schema(lake.table(PASSED)).names
    assert first_names(lake.table(PASSED)) == {}
    verdict = judge(spark, PASSED, lake)
    assert verdict.answer is Answer.SAFE, verdict
    # And by its later name again, as often as one likes.
    monkeypatch.setattr(catalog, "tables", lambda: [CLICKS, NAMED])
    rename(spark, NAMED, lake, {"v": "amount"}, NOON)
    assert first_names(lake.table(PASSED)) == {"amount": "v"}
    assert judge(spark, NAMED, lake).answer is Answer.SAFE


def test_a_rename_that_was_killed_before_its_record_is_done_again(
    spark: SparkSession, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the table would be computed anew after all its bytes were written for the name."""
    put(lake, {CLICKS: (LONG, WINDOWS)}, "1")
    derive(spark, lake, PASSED)
    monkeypatch.setattr(catalog, "tables", lambda: [CLICKS, NAMED])
    with monkeypatch.context() as patched:
        patched.setattr(repaired, "write_record", put_off)
        with pytest.raises(KeyboardInterrupt):
            rename(spark, NAMED, lake, {"v": "amount"}, NOON)
    version = latest_version(lake.table(NAMED))

    rename(spark, NAMED, lake, {"v": "amount"}, NOON)

    assert latest_version(lake.table(NAMED)) == version
    assert judge(spark, NAMED, lake).answer is Answer.SAFE
    assert "amount" in dict(StatefulPlan.of_json(dict(recorded(lake))).columns)


def put_off(*_: object) -> None:
    raise KeyboardInterrupt


def recorded(lake: Lake) -> Mapping[str, Any]:
    record = read_record(lake.checkpoint(NAMED))
    assert record is not None
    return record.plan


def test_a_masked_column_gets_no_other_name_in_place(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A publisher by the code of before masks the former name alone, and would send the new one in clear."""
    secret = replace(NAMED, sensitive=("amount",))
    monkeypatch.setattr(catalog, "find", lambda _: secret)
    monkeypatch.setattr(lake.__class__, "refuse_missing", lambda *_: None)

    with pytest.raises(DefinitionError, match=r"amount of .* is masked") as refused:
        [*operated.foresee_rename(lake, secret.id, {"v": "amount"})]
    assert "without --rename" in refused.value.hint


LONGER = replace(PASSED, transform=lambda rows: rows.selectExpr("k", "cast(v as bigint) v", "at"))
OTHERWISE = replace(PASSED, transform=lambda rows: rows.selectExpr("k", "v + 1 as v", "at"))


def test_rows_of_code_that_makes_the_same_are_not_computed_anew_and_certificates_hold(
    spark: SparkSession, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its plan says so: a whole number with a longer type, nothing else. Of another value it says so too."""
    put(lake, {CLICKS: (SHORT, LOG)}, "1")
    with monkeypatch.context() as then:
        for module in (new_entry, preflight, compare_plans):
            then.setattr(module, "code_version", lambda _: "before")
        derive(spark, lake, PASSED)
    keep(replace(WHOLE, table=PASSED.id, code="before"), PASSED, lake)

    def step(table: Appended) -> Step:
        (stage,) = planned([table], lake, {table.id: judge(spark, table, lake)}, forward=False)
        return stage.step

    assert step(OTHERWISE) is Step.REBUILT
    assert step(PASSED) is Step.GOES_ON
    assert step(LONGER) is Step.ALTERED
    migrate(spark, LONGER, lake)
    assert step(LONGER) is Step.GOES_ON
    put(lake, {CLICKS: (SHORT, LOG)}, "3")
    derive(spark, lake, LONGER)

    assert step(LONGER) is Step.GOES_ON
    assert made(LONGER, lake) == Made()
    assert status(LONGER, lake) == "equal"


OF_HOURS = Recomputed(
    name="of_hours",
    reads=(CLICKS,),
    transform=lambda rows: highest(rows, "v").withColumn("most", F.col("most").cast("int")),
    key=("k", "began"),
    event_at="began",
    window_from="began",
    window="10 minutes",
)
OF_TEXTS = replace(
    OF_HOURS,
    transform=lambda rows: highest(rows, "v").select(
        "k", F.col("most").cast("string").alias("most"), F.lit(1).alias("one"), "began", "ended"
    ),
)


def test_a_batch_gives_its_table_other_types_with_its_rows_and_a_part_of_it_does_not(
    spark: SparkSession, lake: Lake
) -> None:
    log = {CLICKS: (SHORT, WINDOWS)}
    put(lake, log, "1")
    derive(spark, lake, OF_HOURS)
    put(lake, log, "2")

    with pytest.raises(DefinitionError, match="lacks one") as refused:
        derive(spark, lake, OF_TEXTS)
    assert f"strandline migrate {OF_TEXTS.id}" in refused.value.hint
    only_type = replace(OF_TEXTS, transform=lambda rows: OF_TEXTS.transform(rows).drop("one"))
    with pytest.raises(DefinitionError, match="its column most is int, and would be string"):
        derive(spark, lake, only_type)

    derive(spark, lake, OF_TEXTS, mode=Batch())
    put(lake, log, "3")
    derive(spark, lake, OF_TEXTS)

    assert found(lake, OF_TEXTS, "k", "most", "one") == rows("""
        k | most | one
        a | 7    | 1
        b | 4    | 1
        q | 1    | 1
    """)
    assert balance(OF_TEXTS, lake).faults == []


def counted(events: DataFrame, kind: DataType) -> DataFrame:
    """Read a number of each reading, as a short one or as a long one."""
    fields = StructType().add("event_id", StringType()).add("event_at", TimestampType())
    return parse_json(events, fields.add("seq", kind)).select(
        *CARRIED, "event_id", "event_at", "seq"
    )


COUNTED = Judged(
    name="counted",
    reads=(events.TABLE,),
    transform=partial(counted, kind=IntegerType()),
    key=("event_id",),
    event_at="event_at",
)
COUNTED_LONG = replace(COUNTED, transform=partial(counted, kind=LongType()))


@pytest.mark.whole
def test_a_number_that_was_too_long_for_its_column_is_held_and_comes_by_a_replay(
    spark: SparkSession, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Silver is given the longer type in place; what it held because of the shorter one is brought in as any held record."""
    sent = [("e1", 5), ("e2", BIG)]
    payloads = [events.reading(event_id=name, seq=seq) for name, seq in sent]
    events.received(lake, [events.Event(payload=each) for each in payloads])
    soon = NOON + timedelta(days=1)
    later = events.reading(event_id="e9", seq=9, event_at=soon.isoformat())
    events.received(lake, [events.Event(payload=later, batch=1, arrived_at=soon, ingested_at=soon)])
    with monkeypatch.context() as then:
        for module in (new_entry, preflight, compare_plans):
            then.setattr(module, "code_version", lambda _: "before")
        derive(spark, lake, COUNTED)
    ids = [each["event_id"] for each in found(lake, COUNTED, "event_id")]
    assert ids == ["e1", "e9"]

    verdict = judge(spark, COUNTED_LONG, lake)
    (stage,) = planned([COUNTED_LONG], lake, {COUNTED.id: verdict}, forward=False)
    migrate(spark, COUNTED_LONG, lake)
    done = replay(spark, COUNTED_LONG, lake)

    assert stage.step is Step.ALTERED, stage
    assert done.healed == 1, done
    assert found(lake, COUNTED, "event_id", "seq") == [
        {"event_id": name, "seq": str(seq)} for name, seq in [*sent, ("e9", 9)]
    ]
    assert balance(COUNTED_LONG, lake).faults == []


@pytest.mark.parametrize(
    ("expression", "is_same"),
    [
        ("n", True),
        ("coalesce(n, 0)", True),
        ("CASE WHEN n > 3 THEN n END", True),
        ("cast(n AS bigint)", True),
        ("hash(n)", False),
        ("xxhash64(n)", False),
        ("cast(n AS string)", False),
        ("cast(d AS string)", False),
        ("d / 3", False),
        ("try_add(n, n)", False),
    ],
)
def test_a_longer_type_is_the_same_where_its_value_alone_counts(
    spark: SparkSession, expression: str, *, is_same: bool
) -> None:
    """A hash, a text and a quotient of a longer number are others, and rows that have them are computed anew."""

    def mark(whole: str, decimal: str) -> str:
        columns = (f"cast(id AS {whole}) AS n", f"cast(id AS {decimal}) AS d")
        rows = spark.range(3).selectExpr(*columns)
        plan = rows.localCheckpoint().selectExpr(f"{expression} AS x")
        root = tree(plan._jdf.queryExecution().analyzed().toJSON())
        (column,) = root.expressions("projectList")
        known = {int(each["exprId"]["id"]): str(each["name"]) for each in _named(root)}
        return compare_plans._marked(column, known)

    assert (mark("int", "decimal(9,2)") == mark("bigint", "decimal(12,4)")) is is_same


def _named(root: Node) -> list[Mapping[str, Any]]:
    (column,) = root.expressions("projectList")
    return [each.fields for each in column.walk() if each.kind == "AttributeReference"]
