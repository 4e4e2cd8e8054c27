"""A table above silver makes rows of a list: records, items and rows are counted apart, and an empty list is passed over by name."""

import random
import re
from collections import Counter
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import orjson
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructType, TimestampType
from strandline import catalog

from fleet.bronze import device_telemetry as bronze
from strandline.core.errors import DefinitionError
from strandline.core.parse import parse_json
from strandline.core.stateful import Batch
from strandline.core.table import Appended, Judged
from strandline.core.topic import CARRIED, ITEM, NO_ITEMS
from strandline.engine.accounting.balance_sheet import balance
from strandline.engine.ask.locate import Verdict, World
from strandline.engine.ask.why import why
from strandline.engine.flow.compare_plans import Remedy
from strandline.engine.flow.preflight import judge
from strandline.engine.flow.runner import Site
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger import Entry, entries
from strandline.engine.lake.open_table import opened
from strandline.engine.lake.place import Place
from strandline.engine.proof.compare import audit
from strandline.engine.repair.backfill import backfill
from strandline.engine.repair.closed_range import Span
from strandline.engine.repair.forget import Forgetting, carry_out
from strandline.engine.repair.forget_request import Request
from strandline.engine.repair.rebuild import promote, rebuild
from strandline.engine.repair.replay import replay
from strandline_quality.rules import required
from tests.cli import typed
from tests.engine.flow.test_items import ITEMS, order
from tests.support import lakes
from tests.support.events import Event, received
from tests.support.modes import derive, in_every_mode, proven
from tests.support.rows import NOON

FIELDS = (
    StructType()
    .add("id", StringType())
    .add("at", TimestampType())
    .add("shop", StringType())
    .add("items", ITEMS)
)
MORNING = NOON - timedelta(hours=6)
LAST = 3
LARGE = 100
"""Quantities of an item from which on the table above leaves it out."""


def orders(events: DataFrame) -> DataFrame:
    """Return the fields of an order, its items in a list."""
    return parse_json(events, FIELDS).select(*CARRIED, *FIELDS.fieldNames())


def sold(items: DataFrame) -> DataFrame:
    """Return the items of small quantities."""
    return items.where(F.col("qty") < LARGE).select("id", ITEM, "at", "shop", "sku", "qty")


ORDERS = Judged(
    name="device_telemetry",
    reads=(bronze.TABLE,),
    transform=orders,
    key=("id",),
    event_at="at",
    rules=required("id", "shop"),
)
PATIENT = replace(ORDERS, rules=required("id"))
"""To which no order lacks its shop."""
SOLD = Appended(
    name="sold",
    reads=(ORDERS,),
    transform=sold,
    rows="items",
    key=("id", ITEM),
    event_at="at",
)


@dataclass
class Sent:
    """Orders, and what must become of them."""

    events: list[Event] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    rows: set[tuple[str, int, str, int]] = field(default_factory=set)
    payloads: list[dict[str, Any]] = field(default_factory=list)

    def add(self, number: object, batch: int, items: object, shop: str | None = "s") -> None:
        """Send an order, and note what must become of it and of its items."""
        at = MORNING + timedelta(seconds=len(self.events))
        if batch > LAST:  # so that the time of the others is over
            at = NOON + timedelta(minutes=batch)
        payload = order(number, at, items, shop=shop)
        self.events.append(Event(payload=payload, batch=batch, arrived_at=at, ingested_at=at))
        self.payloads.append(orjson.loads(payload))
        if shop is None:
            self.counts["held"] += 1
            return
        self.counts["orders"] += 1
        self.counts[NO_ITEMS] += not items
        self.counts["items"] += len(items or ())  # type: ignore[arg-type]  # a list, or None
        self.rows |= rows_of_order(self.payloads[-1])


def rows_of_order(payload: dict[str, Any]) -> set[tuple[str, int, str, int]]:
    """Return the rows of an order."""
    items = enumerate(payload["items"] or ())
    return {(payload["id"], n, i["sku"], i["qty"]) for n, i in items if i["qty"] < LARGE}


def sent(seed: int, count: int = 120) -> Sent:
    """Send orders at random: a tenth has no list, a tenth an empty one, a tenth lacks its shop; a third of the items is large."""
    chance, found = random.Random(seed), Sent()  # noqa: S311  # no secret
    for number in range(count):
        items: list[dict[str, object]] | None = [
            {"sku": f"s{chance.randrange(9)}", "qty": chance.randint(1, 150)}
            for _ in range(chance.randint(1, 4))
        ]
        dirt = chance.random()
        items = None if dirt < 0.1 else [] if dirt < 0.2 else items
        shop = None if dirt > 0.9 else f"s{chance.randrange(3)}"
        found.add(number, number * 4 // count, items, shop)
    found.add("-none", 3, [])
    found.add("-missing", 3, None)
    found.add("-two", 3, [{"sku": "a", "qty": 1}, {"sku": "b", "qty": LARGE}])
    for batch in (LAST + 1, LAST + 2):
        found.add(f"-{batch}", batch, [{"sku": "s", "qty": 1}])
    return found


def rows_of(lake: Lake, table: Appended = SOLD) -> set[tuple[str, int, str, int]]:
    """Return the rows of the table; none is there twice."""
    found = opened(lake.table(table)).to_pyarrow_table().to_pylist()
    rows = [(row["id"], row[ITEM], row["sku"], row["qty"]) for row in found]
    assert len(rows) == len(set(rows))
    return set(rows)


def accounted(lake: Lake, truth: Sent) -> None:
    """See that each record and each item is where it must be."""
    sheet, counts = balance(SOLD, lake), truth.counts
    assert sheet.faults == []
    assert rows_of(lake) == truth.rows
    assert (sheet.read, sheet.good) == (counts["orders"], counts["orders"] - counts[NO_ITEMS])
    assert sheet.skipped == {NO_ITEMS: counts[NO_ITEMS]}
    assert (sheet.items, sheet.rows) == (counts["items"], len(truth.rows))
    assert sheet.items == sheet.rows + sheet.items_passed_over


@pytest.fixture(scope="module")
def truth() -> Sent:
    """Return orders at random."""
    return sent(random.randrange(10_000))  # noqa: S311  # as above


@pytest.fixture(scope="module")
def read(spark: SparkSession, truth: Sent, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """Make a lake whose streams have read all of them."""
    lake = Lake(Place.of(tmp_path_factory.mktemp("read"))).open_for_writing()
    received(lake, truth.events)
    derive(spark, lake, ORDERS, SOLD)
    return lake


@pytest.fixture
def streamed(read: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lake:
    """Return a copy of it, for one test, in a project of these tables."""
    monkeypatch.setattr(catalog, "tables", lambda: (bronze.TABLE, ORDERS, SOLD))
    lakes.copy(read.root, Place.of(tmp_path / "lake"))
    return Lake(Place.of(tmp_path / "lake"))


@pytest.mark.slow
def test_records_items_and_rows_are_as_they_must_be_in_every_mode(
    spark: SparkSession, tmp_path: Path, truth: Sent
) -> None:
    """A batch, all commits at once, one by one, and a stream that is always on."""
    in_every_mode(spark, tmp_path, truth.events, (ORDERS, SOLD))

    for way in ("batch", "all commits at once", "commit by commit", "micro-batch"):
        lake = Lake(Place.of(tmp_path / way))
        accounted(lake, truth)
        for _, entry in entries(lake.table(SOLD)):
            assert entry.listed == "items"
            assert entry.items == entry.written + (entry.items_passed_over or 0)


def test_rows_have_the_columns_of_record_and_item_and_not_the_list(
    spark: SparkSession, streamed: Lake
) -> None:
    """The function gets them so."""
    records = spark.read.format("delta").load(str(streamed.table(ORDERS)))
    (given,) = SOLD.given([records])

    assert {"id", "at", "shop", "sku", "qty", ITEM} < {*given.columns}
    assert "items" not in given.columns


ITEMS_READ = re.compile(r'(\\"items\\":)(\d+),')
"""The items of an entry, in the text of its commit."""


def test_items_that_are_no_row_and_were_not_left_out_are_a_fault(streamed: Lake) -> None:
    """An item that was counted on one side alone."""
    log = streamed.table(SOLD).local / "_delta_log"
    commit = next(
        each for each in sorted(log.glob("*.json")) if ITEMS_READ.search(each.read_text())
    )
    text = commit.read_text()
    commit.write_text(ITEMS_READ.sub(lambda found: f"{found[1]}{int(found[2]) - 1},", text))

    faults = balance(SOLD, streamed, audited=True).faults
    assert any("believes records with" in each for each in faults)


@pytest.mark.whole
def test_what_its_source_lost_and_found_comes_by_a_replay_with_all_items(
    spark: SparkSession, streamed: Lake, truth: Sent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The table above follows the replay: as a batch over everything would have it."""
    above = replace(SOLD, reads=(PATIENT,))
    monkeypatch.setattr(catalog, "tables", lambda: (bronze.TABLE, PATIENT, above))
    done = replay(spark, PATIENT, streamed)

    assert done.healed == truth.counts["held"]
    assert rows_of(streamed) == {row for each in truth.payloads for row in rows_of_order(each)}
    assert balance(above, streamed).faults == []


def test_a_backfill_brings_back_the_rows_of_a_range(
    spark: SparkSession, streamed: Lake, truth: Sent
) -> None:
    """By another selection rows go, by the former one they come back."""
    fewer = replace(SOLD, transform=lambda items: sold(items).where("qty < 50"))
    span = Span(since=MORNING, until=MORNING + timedelta(minutes=1))
    backfill(spark, fewer, streamed, span)
    assert rows_of(streamed) < truth.rows
    backfill(spark, SOLD, streamed, span)

    assert rows_of(streamed) == truth.rows
    assert balance(SOLD, streamed).faults == []


@pytest.mark.slow
def test_a_request_to_forget_takes_each_item_of_a_record(
    spark: SparkSession, streamed: Lake, truth: Sent
) -> None:
    """By a condition over the record, whose rows above have the column."""
    request = Request.of("shop = 's1'")
    work = Forgetting(spark, streamed, request)
    try:
        list(carry_out(work, streamed, request, lambda: NOON, [*work.parts()]))
    finally:
        work.close()

    gone = {each["id"] for each in truth.payloads if each["shop"] == "s1"}
    assert gone & {row[0] for row in truth.rows}
    assert rows_of(streamed) == {row for row in truth.rows if row[0] not in gone}
    assert balance(SOLD, streamed).faults == []


def test_a_rebuild_is_promoted_and_items_are_counted_on(
    spark: SparkSession, streamed: Lake, truth: Sent
) -> None:
    """The entry of the promotion has them too."""
    site = Site(spark=spark, clock=lambda: NOON)
    rebuild(SOLD, streamed, site)
    promote(SOLD, streamed, site)

    accounted(streamed, truth)
    assert proven(streamed, (ORDERS, SOLD))


@pytest.mark.whole
@pytest.mark.slow
def test_a_stream_that_begins_with_what_a_repair_left_counts_the_items_of_all(
    spark: SparkSession, streamed: Lake, truth: Sent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a snapshot no files are known, so its rows are counted."""
    replay(spark, PATIENT, streamed)
    later = replace(SOLD, name="sold_later", reads=(PATIENT,))
    monkeypatch.setattr(catalog, "tables", lambda: (bronze.TABLE, PATIENT, later))
    derive(spark, streamed, later)

    (entry,) = _of(streamed, later)
    assert entry.whole
    assert entry.items == sum(len(each["items"] or ()) for each in truth.payloads)
    assert rows_of(streamed, later) == {
        row for each in truth.payloads for row in rows_of_order(each)
    }
    assert balance(later, streamed).faults == []


PROJECT = {
    "bronze": """
from strandline import Ingested, Topic

TABLE = Ingested(name="device_telemetry", reads=(Topic(name="device-telemetry", partitions=1),))
""",
    "silver": """
from pyspark.sql.types import ArrayType, LongType, StringType, StructType, TimestampType
from strandline import CARRIED, Judged, parse_json, required

from ..bronze import device_telemetry as bronze

ITEM = StructType().add("sku", StringType()).add("qty", LongType())
FIELDS = (
    StructType()
    .add("id", StringType())
    .add("at", TimestampType())
    .add("shop", StringType())
    .add("items", ArrayType(ITEM))
)


def orders(events):
    return parse_json(events, FIELDS).select(*CARRIED, *FIELDS.fieldNames())


TABLE = Judged(
    name="device_telemetry",
    reads=(bronze.TABLE,),
    transform=orders,
    key=("id",),
    event_at="at",
    rules=required("id", "shop"),
)
""",
    "gold": """
from strandline import Appended

from ..silver import device_telemetry as orders


def sold(items):
    return items.where("qty < 100").select("id", "_item", "at", "shop", "sku", "qty")


TABLE = Appended(
    name="sold", reads=(orders.TABLE,), transform=sold, rows="items", key=("id", "_item"), event_at="at"
)
""",
}
"""The same tables in a project, as the programs find them that a verification starts."""


@pytest.mark.prove(alone="half a minute")
def test_it_is_what_its_records_give_however_they_were_cut_into_batches_and_killed(
    streamed: Lake, tmp_path: Path
) -> None:
    """As verify proves it, by the command."""
    for layer, text in PROJECT.items():
        name = "sold" if layer == "gold" else "device_telemetry"
        (tmp_path / "shop" / layer).mkdir(parents=True)
        for folder in ("", layer):
            (tmp_path / "shop" / folder / "__init__.py").write_text("")
        (tmp_path / "shop" / layer / f"{name}.py").write_text(text)
    (tmp_path / "strandline.toml").write_text('[project]\ntables = "shop"\n')
    words = ("verify", "gold.sold", "--splits", 2, "--kills", 1, "--lake", streamed.root)

    found: Any = typed.succeeded(*words, "--json", env={"STRANDLINE_PROJECT": str(tmp_path)}).json

    assert [each["differences"] for each in found] == [[]]


def test_an_audit_finds_each_key_once(spark: SparkSession, streamed: Lake) -> None:
    """Two items of a record are no copies of each other."""
    assert all(each.holds for each in audit(spark, SOLD, streamed, lambda: NOON).findings)


def test_why_names_an_empty_list_and_the_rows_of_another(streamed: Lake) -> None:
    """By the key of a record in silver, looked for in the table above."""
    world = World(lake=streamed, now=NOON)

    assert why("o-two,0", SOLD, world).verdict is Verdict.IN_TABLE
    assert why("o-two,1", SOLD, world).verdict is Verdict.LEFT_OUT
    assert "has 2 items" in why("o-two,2", SOLD, world).sentence
    for number, word in (("-none", "empty"), ("-missing", "missing")):
        found = why(f"o{number},0", SOLD, world)
        assert found.verdict is Verdict.SKIPPED
        assert f"is {word}" in found.sentence
        assert NO_ITEMS in found.sentence


def test_a_function_that_keeps_state_has_its_items_counted_and_claims_nothing_of_the_rest(
    spark: SparkSession, streamed: Lake, truth: Sent
) -> None:
    """What a copy was and what was left out is then one number."""
    first = replace(SOLD, name="first_sold", transform=lambda rows: sold(rows).dropDuplicates())
    derive(spark, streamed, first)

    sheet = balance(first, streamed)
    assert (sheet.faults, sheet.items) == ([], truth.counts["items"])
    assert {entry.items_passed_over for entry in _of(streamed, first)} == {None}


def _of(lake: Lake, table: Appended) -> list[Entry]:
    return [entry for _, entry in entries(lake.table(table))]


def test_a_table_that_makes_rows_of_a_list_now_is_to_be_rebuilt(
    spark: SparkSession, streamed: Lake
) -> None:
    """What a row is has changed for all of them."""
    by_hand = replace(SOLD, rows=None, transform=_by_hand)
    assert Remedy.REBUILD in judge(spark, by_hand, streamed).remedies


def _by_hand(records: DataFrame) -> DataFrame:
    each = records.select("id", "at", "shop", F.posexplode("items").alias(ITEM, "item"))
    return sold(each.select("id", "at", "shop", ITEM, "item.*"))


def test_a_batch_of_the_same_function_by_hand_has_the_same_rows(
    spark: SparkSession, tmp_path: Path, truth: Sent
) -> None:
    """The declaration changes what is counted, and no row."""
    lake = Lake(Place.of(tmp_path / "by hand")).open_for_writing()
    received(lake, truth.events)
    derive(spark, lake, ORDERS, replace(SOLD, rows=None, transform=_by_hand), mode=Batch())
    assert rows_of(lake) == truth.rows


@pytest.mark.parametrize(
    ("change", "says", "hint"),
    [
        ({"rows": "items.sku"}, "is no column", "a nested list"),
        ({"rows": 3}, "is no column", "the list"),
        ({"key": ("id",)}, "its key has no _item", 'key=(…, "_item")'),
        ({"key": ("items", ITEM)}, "by which it knows a record", "columns of the record"),
        ({"closes_at": "at"}, "declares closes_at", "a table above this one"),
        ({"reads": (ORDERS, ORDERS)}, "reads 2 tables", "reads one of them"),
    ],
)
def test_a_mistake_in_the_declaration_has_a_hint(
    change: dict[str, object], says: str, hint: str
) -> None:
    """When the module is read."""
    with pytest.raises(DefinitionError, match=says) as error:
        replace(SOLD, **change)  # type: ignore[arg-type]
    assert hint in str(error.value.hint)


@pytest.mark.parametrize(
    ("rows", "says"),
    [("basket", "is no column of silver.device_telemetry"), ("shop", "which is string")],
)
def test_a_list_that_the_source_lacks_is_refused_with_its_name(
    spark: SparkSession, streamed: Lake, rows: str, says: str
) -> None:
    """When the function is first asked."""
    records = spark.read.format("delta").load(str(streamed.table(ORDERS)))
    with pytest.raises(DefinitionError, match=says) as error:
        replace(SOLD, rows=rows).computed(records)
    assert "function of silver.device_telemetry" in str(error.value.hint)


def test_a_masked_list_is_refused_as_its_items_would_be_shown(
    spark: SparkSession, streamed: Lake
) -> None:
    """Rows have the fields of its items, which nothing masks by the name of the list."""
    masked = replace(SOLD, reads=(replace(ORDERS, sensitive=("items",)),))
    records = spark.read.format("delta").load(str(streamed.table(ORDERS)))
    with pytest.raises(DefinitionError, match="names items sensitive"):
        masked.computed(records)
