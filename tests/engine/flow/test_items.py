"""A record that holds a list becomes rows: it is judged whole, its copies are found first, and records and rows are counted apart."""

import random
from collections import Counter
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import orjson
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)
from strandline import catalog

from fleet.bronze import device_telemetry as bronze
from strandline.core.errors import DefinitionError
from strandline.core.parse import parse_json
from strandline.core.stateful import Batch
from strandline.core.static import Static
from strandline.core.table import Judged, Windowed
from strandline.core.topic import CARRIED, ITEM, NO_ITEMS, PLACE, Skip
from strandline.core.verdict import good_rows, judged
from strandline.engine.accounting.balance_sheet import balance
from strandline.engine.ask.locate import Verdict, World
from strandline.engine.ask.why import why
from strandline.engine.flow.compare_plans import Remedy
from strandline.engine.flow.preflight import judge
from strandline.engine.flow.runner import Site
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger import entries
from strandline.engine.lake.open_table import opened
from strandline.engine.lake.place import Place
from strandline.engine.proof.compare import audit
from strandline.engine.repair.backfill import backfill
from strandline.engine.repair.closed_range import Span
from strandline.engine.repair.forget import Forgetting, carry_out
from strandline.engine.repair.forget_request import Request
from strandline.engine.repair.rebuild import promote, rebuild
from strandline.engine.repair.replay import replay
from strandline.engine.runtime import clock
from strandline.engine.service.maintain import Policy, maintain
from strandline.operate import session
from strandline_quality.rules import OnFail, Rule, between, required
from tests.cli.inside import succeeded
from tests.support import lakes
from tests.support.events import TOPIC, Event, frame, received
from tests.support.modes import derive, in_every_mode, proven
from tests.support.rows import NOON

ITEMS = ArrayType(StructType().add("sku", StringType()).add("qty", LongType()))
FIELDS = (
    StructType()
    .add("id", StringType())
    .add("at", TimestampType())
    .add("is_test", BooleanType())
    .add("items", ITEMS)
)
MORNING = NOON - timedelta(hours=6)


def orders(events: DataFrame) -> DataFrame:
    """Return the fields of an order, its items in a list."""
    return parse_json(events, FIELDS).select(*CARRIED, *FIELDS.fieldNames())


ORDERS = Judged(
    name="device_telemetry",
    reads=(bronze.TABLE,),
    transform=orders,
    key=("id",),
    event_at="at",
    rows="items",
    skips=(Skip("is_test", name="test orders"),),
    rules=(
        *required("id", "sku"),
        between("qty", 1, 100),
        Rule(name="large", holds="qty < 50", on_fail=OnFail.WARN),
        Rule(name="few", holds="size(items) <= 50", on_fail=OnFail.WARN),
    ),
)
PATIENT = replace(ORDERS, rules=(*required("id", "sku"), between("qty", 0, 100)))
"""To which no item is too small."""


@dataclass
class Sent:
    """Orders, and what must become of them."""

    events: list[Event] = field(default_factory=list)
    rows: set[tuple[str, int, str, int]] = field(default_factory=set)
    counts: Counter[str] = field(default_factory=Counter)

    def add(self, payload: bytes, batch: int, at: datetime, becomes: str) -> None:
        """Note a record."""
        self.events.append(Event(payload=payload, batch=batch, arrived_at=at, ingested_at=at))
        self.counts[becomes] += 1


def order(number: object, at: datetime, items: object, **more: object) -> bytes:
    """Return the payload of an order."""
    return orjson.dumps({"id": f"o{number}", "at": at.isoformat(), "items": items, **more})


def sent(seed: int, count: int = 200) -> Sent:
    """Send orders at random: a tenth has no item, a tenth a bad one, a tenth comes twice; some are tests, cut, or lack a list."""
    chance, found = random.Random(seed), Sent()  # noqa: S311  # no secret
    for number in range(count):
        at, batch = MORNING + timedelta(seconds=number), number * 4 // count
        payload, becomes, items = _order_at_random(chance, number, at)
        found.add(payload, batch, at, becomes)
        if becomes == "good":
            found.rows |= {(f"o{number}", n, i["sku"], i["qty"]) for n, i in enumerate(items)}
        if chance.random() < 0.1:
            found.add(payload, batch, at, "copies" if becomes == "good" else becomes)
    for batch in (4, 5):
        at = NOON + timedelta(minutes=batch)
        found.add(order(f"-{batch}", at, [{"sku": "s", "qty": 1}]), batch, at, "good")
        found.rows.add((f"o-{batch}", 0, "s", 1))
    return found


def _order_at_random(
    chance: random.Random, number: int, at: datetime
) -> tuple[bytes, str, list[dict[str, Any]]]:
    """Return the payload of an order, what must become of it, and its items."""
    items: list[dict[str, Any]] = [
        {"sku": f"s{chance.randrange(9)}", "qty": chance.randint(1, 90)}
        for _ in range(chance.randint(1, 4))
    ]
    dirt = chance.random()
    if dirt < 0.1:
        return order(number, at, []), NO_ITEMS, items
    if dirt < 0.2:
        items[chance.randrange(len(items))]["qty"] = 0
        return order(number, at, items), "out_of_range:qty", items
    if dirt < 0.25:
        return order(number, at, items, is_test=True), "test orders", items
    if dirt < 0.28:
        return order(number, at, items)[:-3], "malformed", items
    if dirt < 0.34:
        lacking = None if dirt < 0.31 else [*items, None]
        return order(number, at, lacking), "missing:items", items
    return order(number, at, items), "good", items


def rows_of(lake: Lake) -> set[tuple[str, int, str, int]]:
    """Return the rows of the table; none is there twice."""
    found = opened(lake.table(ORDERS)).to_pyarrow_table().to_pylist()
    rows = [(row["id"], row[ITEM], row["sku"], row["qty"]) for row in found]
    assert len(rows) == len(set(rows))
    return set(rows)


def accounted(lake: Lake, truth: Sent, table: Judged = ORDERS) -> None:
    """See that each record is where it must be, and each row as well."""
    sheet, counts = balance(table, lake), truth.counts
    assert sheet.faults == []
    assert rows_of(lake) == truth.rows
    assert (sheet.read, sheet.good, sheet.duplicates) == (
        len(truth.events),
        counts["good"],
        counts["copies"],
    )
    assert sheet.skipped == {name: n for name in (NO_ITEMS, "test orders") if (n := counts[name])}
    reasons = ("out_of_range:qty", "malformed", "missing:items")
    assert sheet.quarantined == {name: n for name in reasons if (n := counts[name])}
    assert sheet.rows == len(truth.rows)


@pytest.fixture(scope="module")
def truth() -> Sent:
    """Return orders at random."""
    return sent(random.randrange(10_000))  # noqa: S311  # as above


@pytest.fixture(scope="module")
def read(spark: SparkSession, truth: Sent, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """Make a lake whose stream has read all of them."""
    lake = Lake(Place.of(tmp_path_factory.mktemp("read"))).open_for_writing()
    received(lake, truth.events)
    derive(spark, lake, ORDERS)
    return lake


@pytest.fixture
def streamed(read: Lake, tmp_path: Path) -> Lake:
    """Return a copy of it, for one test."""
    lakes.copy(read.root, Place.of(tmp_path / "lake"))
    return Lake(Place.of(tmp_path / "lake"))


@pytest.mark.slow
def test_records_and_rows_are_as_they_must_be_in_every_mode(
    spark: SparkSession, tmp_path: Path, truth: Sent
) -> None:
    """A batch, all commits at once, one by one, and a stream that is always on."""
    in_every_mode(spark, tmp_path, truth.events, (ORDERS,))

    for way in ("batch", "all commits at once", "commit by commit", "micro-batch"):
        accounted(Lake(Place.of(tmp_path / way)), truth)
    entry = next(e for _, e in entries(Lake(Place.of(tmp_path / "batch")).table(ORDERS)))
    assert (entry.good, entry.items, entry.written) == (
        truth.counts["good"],
        len(truth.rows),
        len(truth.rows),
    )
    assert entry.broke["large"] >= _large(truth) > 0


def _large(truth: Sent) -> int:
    """Return how many believed records have an item of which the rule warns."""
    return len({row[0] for row in truth.rows if row[3] >= 50})


def test_rows_have_the_columns_of_record_and_item(streamed: Lake) -> None:
    """The list itself is none of them; the place in it is."""
    names = opened(streamed.table(ORDERS)).schema().to_arrow().names
    assert names[:5] == ["id", "at", "is_test", "sku", "qty"]
    assert names[-1] == ITEM
    assert set(PLACE) < set(names)


@pytest.mark.whole
@pytest.mark.slow
def test_a_replay_brings_in_every_item_of_a_record_that_heals(
    spark: SparkSession, streamed: Lake, truth: Sent
) -> None:
    """Each record once, with all of its items; its rows and itself are counted apart."""
    bad = truth.counts["out_of_range:qty"]
    done = replay(spark, PATIENT, streamed)

    sheet = balance(PATIENT, streamed)
    assert sheet.faults == []
    assert (done.healed + done.duplicates, sheet.good) == (bad, truth.counts["good"] + done.healed)
    assert len(rows_of(streamed)) > len(truth.rows) + done.healed / 2
    batch = Lake(streamed.root.parent / "batch").open_for_writing()
    received(batch, truth.events)
    derive(spark, batch, PATIENT, mode=Batch())
    assert rows_of(streamed) == rows_of(batch)
    assert balance(PATIENT, batch).good == sheet.good


@pytest.mark.slow
def test_a_replay_passes_over_what_a_new_rule_passes_over(
    spark: SparkSession, streamed: Lake, truth: Sent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It leaves the quarantine, comes to no table, and is counted under the rule's name."""
    bad = truth.counts["out_of_range:qty"]
    skips = (*ORDERS.skipping, Skip("exists(items, i -> i.qty = 0)", name="samples"))
    done = replay(spark, replace(ORDERS, skips=skips), streamed)

    assert (done.skipped, done.healed) == (bad, 0)
    sheet = balance(ORDERS, streamed)
    assert sheet.faults == []
    assert (sheet.skipped["samples"], "out_of_range:qty" in sheet.quarantined) == (bad, False)
    assert rows_of(streamed) == truth.rows
    world = World(lake=streamed, now=NOON)
    place = next(n for n, each in enumerate(truth.events) if b'"qty":0' in (each.payload or b""))
    monkeypatch.setattr(catalog, "tables", lambda: (bronze.TABLE, ORDERS))
    assert why(f"{TOPIC}/0/{place}", ORDERS, world).verdict is Verdict.SKIPPED


def test_a_backfill_of_the_same_code_changes_nothing(
    spark: SparkSession, streamed: Lake, truth: Sent
) -> None:
    """Neither a record nor a row, nor a count."""
    done = backfill(spark, ORDERS, streamed, _morning())

    assert (done.came, done.gone, done.good, done.duplicates, done.skipped) == (0, 0, 0, 0, {})
    accounted(streamed, truth)


@pytest.mark.whole
@pytest.mark.slow
def test_a_backfill_by_other_rules_moves_whole_records(
    spark: SparkSession, streamed: Lake, truth: Sent
) -> None:
    """There and back; the counts of records and rows end where they began."""
    backfill(spark, PATIENT, streamed, _morning())
    sheet = balance(PATIENT, streamed)
    assert sheet.faults == []
    assert sheet.good > truth.counts["good"]
    assert sheet.rows == len(rows_of(streamed)) > len(truth.rows)

    backfill(spark, ORDERS, streamed, _morning())

    accounted(streamed, truth)


@pytest.mark.whole
@pytest.mark.slow
def test_a_backfill_with_a_new_skip_takes_rows_out(
    spark: SparkSession, streamed: Lake, truth: Sent
) -> None:
    """A believed record goes with all of its items, and one that was held leaves the quarantine."""
    other = replace(ORDERS, skips=("is_test", "size(items) > 2"))
    backfill(spark, other, streamed, _morning())

    sheet, sizes = balance(other, streamed), Counter(row[0] for row in truth.rows)
    assert sheet.faults == []
    went = {name for name, size in sizes.items() if size > 2}
    assert rows_of(streamed) == {row for row in truth.rows if row[0] not in went}
    assert sheet.good == truth.counts["good"] - len(went)
    assert sheet.skipped["size(items) > 2"] >= len(went)

    backfill(spark, ORDERS, streamed, _morning())

    accounted(streamed, truth)


@pytest.mark.whole
@pytest.mark.slow
def test_a_request_to_forget_takes_whole_records(
    spark: SparkSession, streamed: Lake, truth: Sent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the condition is of one item: what is left of such a record could be joined with what went."""
    monkeypatch.setattr(catalog, "tables", lambda: (bronze.TABLE, ORDERS))
    request = Request.of("sku = 's3'")
    work = Forgetting(spark, streamed, request)
    try:
        list(carry_out(work, streamed, request, lambda: NOON, [*work.parts()]))
    finally:
        work.close()

    gone = {row[0] for row in truth.rows if row[2] == "s3"}
    assert gone
    assert rows_of(streamed) == {row for row in truth.rows if row[0] not in gone}
    assert balance(ORDERS, streamed).faults == []
    assert balance(bronze.TABLE, streamed).faults == []
    for path in (streamed.table(bronze.TABLE), streamed.quarantine(ORDERS)):
        left = opened(path).to_pyarrow_table().to_pylist()
        whole = [each["_payload"] for each in left if each["_payload"].endswith(b"}")]
        assert whole
        assert not [each for each in whole if b'"s3"' in each]


def test_a_rebuild_is_promoted_and_the_books_go_on(
    spark: SparkSession, streamed: Lake, truth: Sent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Records and rows are counted apart after it as before, after maintenance too."""
    monkeypatch.setattr(catalog, "tables", lambda: (bronze.TABLE, ORDERS))
    site = Site(spark=spark, clock=lambda: NOON)
    rebuild(ORDERS, streamed, site)
    promote(ORDERS, streamed, site)
    at_once = Policy(keep=timedelta(0), untouched=timedelta(0))
    assert [*maintain(streamed, clock.now() + timedelta(seconds=1), at_once)]

    accounted(streamed, truth)
    assert proven(streamed, (ORDERS,))


def test_an_audit_knows_a_row_by_its_place_in_the_list(spark: SparkSession, streamed: Lake) -> None:
    """Two items of a record are no copies of each other."""
    result = audit(spark, ORDERS, streamed, lambda: NOON)
    assert [each.name for each in result.findings if not each.holds] == ["large"]


NOTES = Static(name="notes", rows=(("h1", "paper"),), columns="id string, note string", key=("id",))


def noted(events: DataFrame) -> DataFrame:
    """Return orders with a column of a static table."""
    return NOTES.joined(orders(events), at="at")


@pytest.mark.slow
def test_history_from_a_file_is_counted_in_records_and_rows(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An import judges as a replay does, also a table that joins a static one."""
    table = replace(ORDERS, transform=noted, static=(NOTES,))
    monkeypatch.setattr(catalog, "tables", lambda: (bronze.TABLE, table))
    lake, truth = Lake(Place.of(tmp_path / "lake")).open_for_writing(), sent(1, 20)
    received(lake, truth.events)
    derive(spark, lake, table)
    before = NOON - timedelta(days=5)
    lines = [
        order("h", before, [{"sku": "a", "qty": 1}, {"sku": "b", "qty": 2}]).replace(b"oh", b"h1"),
        order("h2", before, []),
        order("h3", before, [{"sku": "a", "qty": 0}]),
    ]
    (tmp_path / "past.jsonl").write_bytes(b"\n".join(lines))

    words = ("import", bronze.TABLE.id, "--topic", TOPIC, tmp_path / "past.jsonl")
    succeeded(*words, "--lake", lake.root)

    sheet = balance(table, lake)
    assert sheet.faults == []
    assert (sheet.read, sheet.good) == (len(truth.events) + 3, truth.counts["good"] + 1)
    assert sheet.rows == len(truth.rows) + 2
    assert sheet.skipped[NO_ITEMS] == truth.counts[NO_ITEMS] + 1
    rows = opened(lake.table(table)).to_pyarrow_table().to_pylist()
    assert sorted((r["sku"], r["note"]) for r in rows if r["id"] == "h1") == [
        ("a", "paper"),
        ("b", "paper"),
    ]


def test_why_says_of_a_record_that_is_no_row_by_which_rule(
    streamed: Lake, truth: Sent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And of one that is several rows, that it is in the table."""
    monkeypatch.setattr(catalog, "tables", lambda: (bronze.TABLE, ORDERS))
    world = World(lake=streamed, now=NOON)
    payloads = [
        orjson.loads(each.payload or b"") if _is_whole(each) else {} for each in truth.events
    ]
    empty = next(n for n, each in enumerate(payloads) if each.get("items") == [])
    several = next(n for n, each in enumerate(payloads) if f"{each.get('id')}" in _several(truth))

    found = why(f"{TOPIC}/0/{empty}", ORDERS, world)
    assert found.verdict is Verdict.SKIPPED
    assert NO_ITEMS in found.sentence
    assert why(f"{TOPIC}/0/{several}", ORDERS, world).verdict is Verdict.IN_TABLE
    (one,) = {row[0] for row in truth.rows if row[0] == payloads[several]["id"]}
    assert why(one, ORDERS, world).evidence["rows"] == _several(truth)[one]


def _is_whole(event: Event) -> bool:
    return (event.payload or b"").endswith(b"}")


def _several(truth: Sent) -> dict[str, int]:
    sizes = Counter(row[0] for row in truth.rows)
    return {name: size for name, size in sizes.items() if size > 1}


def test_a_window_above_counts_items(spark: SparkSession, streamed: Lake, truth: Sent) -> None:
    """A table above reads rows, whatever record each is of."""
    above = Windowed(
        name="sold",
        reads=(ORDERS,),
        transform=_sold,
        key=("sku", "window_start"),
        window="1 hour",
        window_from="window_start",
        closes_at="window_end",
        source_count="items",
    )
    derive(spark, streamed, above)
    found = opened(streamed.table(above)).to_pyarrow_table().to_pylist()
    expected: Counter[str] = Counter()
    for _, _, sku, qty in truth.rows:
        expected[sku] += qty if sku != "s" else 0
    assert {row["sku"]: row["sold"] for row in found} == {s: n for s, n in expected.items() if n}
    assert proven(streamed, (ORDERS, above))


def _sold(rows: DataFrame) -> DataFrame:
    windows = rows.groupBy(F.window("at", "1 hour").alias("w"), "sku")
    found = windows.agg(F.sum("qty").alias("sold"), F.count(F.lit(1)).alias("items"))
    return found.select(
        "sku",
        F.col("w.start").alias("window_start"),
        F.col("w.end").alias("window_end"),
        "sold",
        "items",
    )


@pytest.mark.parametrize(
    "change",
    [{"rows": None, "rules": required("id")}, {"skips": ()}],
    ids=["rows of records", "nothing is passed over"],
)
def test_a_change_of_what_a_row_is_is_computed_anew(
    spark: SparkSession, streamed: Lake, change: dict[str, object]
) -> None:
    """What a row is changes for all; what is passed over does for what comes, as rules do."""
    verdict = judge(spark, replace(ORDERS, **change), streamed)  # type: ignore[arg-type]
    assert (Remedy.REBUILD in verdict.remedies) is ("rows" in change)


def test_a_list_of_plain_values_gives_a_column_of_its_name(spark: SparkSession) -> None:
    """A rule that names it is asked of each value."""
    fields = StructType().add("id", StringType()).add("at", TimestampType())
    fields = fields.add("tags", ArrayType(StringType()))
    table = replace(
        ORDERS,
        transform=lambda rows: parse_json(rows, fields).select(*CARRIED, *fields.fieldNames()),
        rows="tags",
        skips=(),
        rules=(Rule(name="short", holds="length(tags) < 4"),),
    )
    at = NOON.isoformat()
    payloads = [
        orjson.dumps({"id": f"{n}", "at": at, "tags": tags})
        for n, tags in enumerate((["a", "b"], ["long one", "c"], []))
    ]
    verdicts = judged(frame(spark, [Event(payload=each) for each in payloads]), table)

    assert [(r["tags"], r[ITEM]) for r in good_rows(verdicts, table).collect()] == [
        ("a", 0),
        ("b", 1),
    ]
    assert [r["_reasons"] for r in verdicts.where("_reasons IS NOT NULL").collect()] == [["short"]]


@pytest.mark.parametrize(
    ("change", "says", "hint"),
    [
        ({"rows": "basket"}, "is no column", "as an array"),
        ({"rows": "id", "key": ("at",)}, "is string", "as an array"),
        ({"rows": "items.sku"}, "is no column", "a nested list"),
        (
            {"rows": "items", "key": ("items",)},
            "by which it knows a record",
            "columns of the record",
        ),
        ({"skips": (3,)}, "has 3 among its skips", "is_test"),
        ({"skips": ("rand() < 0.5",)}, "passes records over where", "always the same"),
        ({"skips": ("is_test", "is_test")}, "twice", "a name of its own"),
        ({"skips": (Skip("is_test", "no_items"),)}, "twice", "empty list"),
    ],
)
def test_a_mistake_in_the_declaration_has_a_hint(
    spark: SparkSession, change: dict[str, object], says: str, hint: str
) -> None:
    """Each when the module is read, or when the function is first asked."""
    with pytest.raises(DefinitionError, match=says) as error:
        judged(frame(spark, []), replace(ORDERS, **change))  # type: ignore[arg-type]
    assert hint in str(error.value.hint)


def test_a_trial_shows_items_and_what_is_passed_over(spark: SparkSession) -> None:
    """In the order of the payloads."""
    at = NOON - timedelta(minutes=1)
    found = session.judge(
        spark,
        ORDERS,
        order(1, at, [{"sku": "a", "qty": 1}, {"sku": "b", "qty": 2}]),
        order(2, at, []),
        order(3, at, [{"sku": "a", "qty": 0}]),
        order(4, at, [{"sku": "a", "qty": 1}], is_test=True),
    )
    shown = [(r["id"], r.get("sku"), r.get(ITEM), r["reasons"], r["skipped"]) for r in found]
    assert shown == [
        ("o1", "a", 0, None, None),
        ("o1", "b", 1, None, None),
        ("o2", None, None, None, NO_ITEMS),
        ("o3", None, None, ["out_of_range:qty"], None),
        ("o4", None, None, None, "test orders"),
    ]


@pytest.mark.parametrize(
    ("fields", "change", "says"),
    [
        ({"sku": StringType(), "SKU": LongType()}, {}, "cannot have the fields 'sku' and 'SKU'"),
        ({"s`k": StringType()}, {}, "cannot have the fields 's`k'"),
        ({"_key": StringType()}, {}, "have _key, and so has the record"),
        ({"sku": StringType()}, {"sensitive": ("items",)}, "names items sensitive"),
    ],
)
def test_items_that_no_row_can_have_are_refused(
    spark: SparkSession, fields: dict[str, DataType], change: dict[str, Any], says: str
) -> None:
    """Spark would end with a sentence about its own names, or a mask would mask nothing."""
    kind = StructType([StructField(name, each) for name, each in fields.items()])
    table = replace(
        ORDERS,
        transform=lambda rows: orders(rows).withColumn("items", F.lit(None).cast(ArrayType(kind))),
        rules=(),
        **change,
    )
    with pytest.raises(DefinitionError, match=says):
        judged(frame(spark, []), table)


def test_a_field_that_record_and_item_have_is_refused(spark: SparkSession) -> None:
    """A row cannot have both, and neither is chosen silently."""
    items = ArrayType(StructType().add("id", StringType()))
    table = replace(
        ORDERS,
        transform=lambda rows: orders(rows).withColumn("items", F.lit(None).cast(items)),
        rules=(),
    )
    with pytest.raises(DefinitionError, match="have id, and so has the record") as error:
        judged(frame(spark, []), table)
    assert "another name" in str(error.value.hint)


def _morning() -> Span:
    return Span(since=MORNING, until=MORNING + timedelta(minutes=30))
