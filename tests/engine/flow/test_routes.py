"""Records of one topic go to several tables by what they are: each is in one place, counted at both ends, in every mode."""

import json
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from confluent_kafka import Producer
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StringType, StructType, TimestampType
from strandline import catalog

from strandline.core.errors import DefinitionError
from strandline.core.parse import parse_json
from strandline.core.routes import REST, all_but, field
from strandline.core.stateful import AvailableNow, Batch
from strandline.core.table import Ingested, Judged, Table
from strandline.core.topic import CARRIED, PLACE, Topic
from strandline.engine.accounting.balance_sheet import balance
from strandline.engine.accounting.browse_held import piles, rows
from strandline.engine.accounting.table_books import close
from strandline.engine.ask.locate import Verdict, World
from strandline.engine.ask.why import why
from strandline.engine.flow.compare_plans import Remedy
from strandline.engine.flow.feed_query import believed
from strandline.engine.flow.preflight import judge
from strandline.engine.flow.runner import Site, run
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger import last_entry
from strandline.engine.lake.place import Place
from strandline.engine.proof.daily_report import Period, gather
from strandline.engine.proof.day_verdicts import ROUTED, signs
from strandline.engine.repair.backfill import backfill
from strandline.engine.repair.closed_range import Span
from strandline.engine.repair.expire import expire
from strandline.engine.repair.forget import Forgetting, carry_out
from strandline.engine.repair.forget_request import Request
from strandline.engine.repair.rebuild import promote, rebuild, undo
from strandline.engine.repair.replay import replay
from strandline.engine.runtime import clock
from strandline.engine.service.maintain import Policy, maintain
from strandline.engine.service.metrics import KINDS as KINDS_METRIC
from strandline.engine.service.metrics import LedgerFigures
from strandline_quality.rules import between, required
from tests.cli.inside import succeeded
from tests.engine.records import make
from tests.support.modes import stream
from tests.support.rows import NOON

pytestmark = pytest.mark.kafka

FIELDS = StructType().add("id", StringType()).add("amount", LongType()).add("at", TimestampType())
MORNING = NOON - timedelta(hours=8)
KINDS = ("order_created", "order_paid", "click", "refund", "visit")
Kind = str | None


def shaped(events: DataFrame) -> DataFrame:
    """Return a record's fields."""
    return parse_json(events, FIELDS).select(*CARRIED, *FIELDS.fieldNames())


def dropping(events: DataFrame) -> DataFrame:
    """Lose each record of a small amount, which a function must not."""
    return shaped(events).where(F.coalesce(F.col("amount") > 50, F.lit(True)))


class Shop:
    """A topic of five kinds, the tables that take some of them, and what was sent."""

    def __init__(self, site: Site, lake: Lake, topic: Topic) -> None:
        """Make the topic; nothing is sent yet."""
        self.site, self.lake = site, lake
        self.topic = replace(topic, kind=field("type"))
        self.sent: Counter[Kind] = Counter()
        self.last: dict[Kind, str] = {}
        self._offsets: Counter[int] = Counter()
        make(str(site.address), self.topic)
        self.declare()

    def declare(self, **fields: object) -> None:
        """Declare the tables anew; ``kind`` is that of the topic, ``leaves`` of bronze."""
        topic = replace(self.topic, kind=fields.pop("kind", self.topic.kind))  # type: ignore[arg-type]
        self.bronze = Ingested(name="shop", reads=(topic,), **fields)  # type: ignore[arg-type]
        self.orders = self.judged("orders", ("order_created", "order_paid"))
        self.clicks = self.judged("clicks", "click")

    def judged(self, name: str, takes: object, **fields: object) -> Judged:
        """Return a table of some kinds."""
        given: dict[str, object] = {
            "name": name,
            "reads": (self.bronze,),
            "transform": shaped,
            "key": ("id",),
            "event_at": "at",
            "rules": required("id", "amount", "at"),
            "takes": takes,
        }
        return Judged(**{**given, **fields})  # type: ignore[arg-type]

    @property
    def tables(self) -> tuple[Table, ...]:
        """Return them."""
        return self.bronze, self.orders, self.clicks

    def send(
        self, count: int, seed: int, kinds: Sequence[str] = KINDS, *, begin: datetime = NOON
    ) -> None:
        """Send records at random: a fiftieth is cut, a fiftieth has no kind or a wrong type, a fiftieth comes twice."""
        chance = random.Random(seed)  # noqa: S311  # no secret
        producer = Producer({"bootstrap.servers": self.site.address})
        for number in range(count):
            kind: Kind = chance.choice(kinds)
            at = begin + timedelta(seconds=number)
            event: dict[str, object] = {
                "type": kind,
                "id": f"{seed}-{number}",
                "amount": chance.randrange(100),
                "at": at.isoformat(),
            }
            dirt = chance.random()
            value = json.dumps(event).encode()
            if dirt < 0.02:
                value, kind = value[:-2], None
            elif dirt < 0.03:
                value, kind = value.replace(b'"type"', b'"sort"'), None
            elif dirt < 0.04:
                value = value.replace(b'"amount": ', b'"amount": "x", "was": ')
            for _ in range(2 if dirt > 0.98 else 1):
                partition = chance.randrange(2)
                producer.produce(
                    self.topic.name, value, b"k", partition, timestamp=int(at.timestamp() * 1000)
                )
                self.last[kind] = f"{self.topic.name}/{partition}/{self._offsets[partition]}"
                self._offsets[partition] += 1
                self.sent[kind] += 1
        assert producer.flush(30) == 0

    def close(self) -> None:
        """Let the streams leave the morning: records of each kind at noon, and some that they read after these."""
        for seed, minute in ((90, 0), (95, 1)):
            for number, kind in enumerate(KINDS):
                self.send(3, seed + number, [kind], begin=NOON + timedelta(minutes=minute))
            self.run()

    def run(self, *tables: Table, mode: AvailableNow | Batch | None = None) -> None:
        """Run tables, all of them by default."""
        for table in tables or self.tables:
            run(table, mode or AvailableNow(), self.lake, site=self.site)

    def prove(self, *tables: Table) -> None:
        """See that each record is in one place: with a table that takes its kind, unrouted, or without a kind."""
        judged = [table for table in tables or self.tables if isinstance(table, Judged)]
        sheets = {table.id: balance(table, self.lake) for table in (self.bronze, *judged)}
        assert {name: sheet.faults for name, sheet in sheets.items() if sheet.faults} == {}
        own = sheets.pop(self.bronze.id)
        assert own.read == sum(self.sent.values())
        places = [*own.unrouted.values(), own.unrouted_more, own.kindless, *own.left_out.values()]
        assert sum(sheet.read for sheet in sheets.values()) + sum(places) == own.read
        assert own.kindless == self.sent[None]
        for sheet in sheets.values():
            assert sheet.read + sheet.others == own.read


@pytest.fixture
def shop(  # noqa: PLR0913, PLR0917  # Spark, a clock, Kafka, and a place for each
    spark: SparkSession,
    clock: Callable[[], datetime],
    kafka: str,
    lake: Lake,
    topic: Topic,
    monkeypatch: pytest.MonkeyPatch,
) -> Shop:
    """Return a shop whose tables are those of the catalog."""
    found = Shop(Site(spark=spark, clock=clock, address=kafka), lake, topic)
    monkeypatch.setattr(catalog, "tables", lambda: found.tables)
    return found


def _ids(shop: Shop, table: Judged, lake: Lake | None = None) -> list[str]:
    found = shop.site.spark.read.format("delta").load(str((lake or shop.lake).table(table)))
    return sorted(row["id"] for row in found.collect())


def test_each_record_is_with_the_table_of_its_kind_and_counted_at_both_ends(shop: Shop) -> None:
    """Bronze counts by kind what it writes, a table what it reads and what it leaves; each kind that no table takes is named."""
    shop.send(500, seed=1)
    shop.run()
    shop.send(300, seed=2, begin=NOON + timedelta(minutes=10))
    shop.run()

    shop.prove()
    sheet = balance(shop.bronze, shop.lake)
    assert sheet.unrouted == {kind: shop.sent[kind] for kind in sheet.unrouted}
    assert set(sheet.unrouted) == {"refund", "visit"}
    assert sheet.kinds == {
        kind: shop.sent[kind] for kind in ("click", "order_created", "order_paid")
    }
    assert any(f"refund {shop.sent['refund']:,}" in each for each in sheet.said)
    found = last_entry(shop.lake.table(shop.orders))
    assert found is not None
    assert found[1].takes == "'order_created', 'order_paid'"
    assert set(found[1].kinds) == {"order_created", "order_paid"}
    (sign,) = [each for each in signs(shop.bronze, shop.lake, NOON) if each.name == ROUTED]
    assert (sign.well, sign.figures["without a kind"]) == (False, shop.sent[None])
    figures = LedgerFigures(shop.tables, shop.lake)
    figures.follow()
    samples = figures.samples({}, NOON)
    routed = {each.labels: each.value for each in samples if each.metric == KINDS_METRIC}
    assert routed["bronze.shop", "unrouted"] == shop.sent["refund"] + shop.sent["visit"]
    assert routed["bronze.shop", "kindless"] == shop.sent[None]
    assert routed["silver.clicks", "others"] == sum(shop.sent.values()) - shop.sent["click"]
    period = Period(since=NOON.date(), until=NOON.date() + timedelta(days=1), now=NOON)
    reported = {each.table: each.kinds for each in gather(shop.lake, shop.tables, period).tables}
    kinds = {each.kind: each.rows for each in reported[shop.bronze.id]}
    assert kinds.pop("without a kind") == shop.sent[None]
    assert kinds == {kind: shop.sent[kind] for kind in KINDS}
    assert {each.kind for each in reported[shop.bronze.id] if each.homeless} - kinds.keys() == {
        "without a kind"
    }
    assert reported[shop.orders.id] == ()
    (pile,) = piles(shop.bronze, shop.lake, NOON)
    assert (pile.reason, pile.open) == ("no_kind", shop.sent[None])
    assert len(rows(shop.bronze, shop.lake, limit=1000)) == shop.sent[None]


@pytest.mark.slow
def test_a_batch_and_streams_that_are_cut_anywhere_have_the_same_rows(
    shop: Shop, tmp_path: Path
) -> None:
    """And the same that a topic of its own would have given."""
    shop.send(400, seed=3)
    shop.run(shop.bronze, mode=AvailableNow(max_offsets=90))
    shop.run(shop.clicks, mode=AvailableNow(max_offsets=60))
    other = Lake(Place.of(tmp_path / "batch")).open_for_writing()
    always = Lake(Place.of(tmp_path / "always")).open_for_writing()
    for each in (other, always):
        run(shop.bronze, AvailableNow(max_offsets=120), each, site=shop.site)
    run(shop.clicks, Batch(), other, site=shop.site)
    stream(shop.site.spark, always, shop.clicks, [], lambda _: None)

    assert len(_ids(shop, shop.clicks)) > 40
    assert _ids(shop, shop.clicks, other) == _ids(shop, shop.clicks)
    assert _ids(shop, shop.clicks, always) == _ids(shop, shop.clicks)
    for lake in (shop.lake, other, always):
        sheet = balance(shop.clicks, lake)
        assert (sheet.faults, sheet.read) == ([], shop.sent["click"])


@pytest.mark.whole
@pytest.mark.slow
def test_a_table_that_is_added_later_has_all_of_its_history(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What no table took is in bronze, and none of it is unrouted any more."""
    shop.send(300, seed=4)
    shop.run()
    refunds = shop.judged("refunds", "refund")
    monkeypatch.setattr(catalog, "tables", lambda: (*shop.tables, refunds))
    shop.send(200, seed=5, begin=NOON + timedelta(minutes=6))
    shop.run(*shop.tables, refunds)

    shop.prove(*shop.tables, refunds)
    assert balance(refunds, shop.lake).read == shop.sent["refund"]
    assert set(balance(shop.bronze, shop.lake).unrouted) == {"visit"}

    rest = shop.judged("rest", all_but("order_created", "order_paid", "click", "refund"))
    monkeypatch.setattr(catalog, "tables", lambda: (*shop.tables, refunds, rest))
    shop.send(100, seed=6, begin=NOON + timedelta(minutes=12))
    shop.run(*shop.tables, refunds, rest)

    shop.prove(*shop.tables, refunds, rest)
    assert balance(rest, shop.lake).read == shop.sent["visit"]
    assert balance(shop.bronze, shop.lake).unrouted == {}
    entry = last_entry(shop.lake.table(shop.bronze))
    assert entry is not None
    assert entry[1].kinds[REST] > 0


def test_kinds_that_are_left_on_purpose_raise_no_alarm(shop: Shop) -> None:
    """They are counted all the same."""
    shop.declare(leaves=all_but())
    shop.send(200, seed=7, kinds=("click", "visit", "refund"))
    shop.run()

    shop.prove()
    sheet = balance(shop.bronze, shop.lake)
    assert sheet.left_out == {kind: shop.sent[kind] for kind in ("refund", "visit")}
    assert (sheet.unrouted, sheet.homeless) == ({}, shop.sent[None])
    shop.declare(leaves=("refund", None))
    sheet = balance(shop.bronze, shop.lake)
    assert sheet.left_out == {"refund": shop.sent["refund"], "no_kind": shop.sent[None]}
    assert (sheet.kindless, sheet.homeless) == (0, shop.sent["visit"])


@pytest.mark.whole
@pytest.mark.slow
def test_of_ten_thousand_kinds_a_hundred_are_named(shop: Shop) -> None:
    """They are foreign text: the entry, the sums and the sheet stay small, and no record is missing."""
    shop.send(300, seed=8, kinds=[f"kind {number}" for number in range(10_000)])
    shop.run()
    shop.send(300, seed=9, kinds=[f"kind {number}" for number in range(10_000)])
    shop.run()

    shop.prove()
    sheet = balance(shop.bronze, shop.lake)
    assert len(sheet.unrouted) == 100
    assert sheet.unrouted_more > 300


@pytest.mark.whole
@pytest.mark.slow
def test_another_declaration_holds_for_what_comes_then_and_is_named(shop: Shop) -> None:
    """A record stays where the declaration of its time has put it; a rebuild asks all of them again."""
    shop.send(200, seed=10, begin=MORNING)
    shop.run()
    before = dict(shop.sent)
    shop.declare(kind=field("sort"))
    verdict = judge(shop.site.spark, shop.orders, shop.lake)
    assert verdict.differences == ()
    assert any("field('type')" in note and "field('sort')" in note for note in verdict.notes)
    shop.send(100, seed=11, begin=MORNING + timedelta(minutes=4))
    shop.run()

    assert balance(shop.bronze, shop.lake).faults == []
    assert balance(shop.orders, shop.lake).faults == []
    read = balance(shop.orders, shop.lake).read
    assert read == before["order_created"] + before["order_paid"]
    shop.close()
    with pytest.raises(DefinitionError, match="by other kinds than it declares now") as error:
        backfill(
            shop.site.spark,
            shop.orders,
            shop.lake,
            Span(since=MORNING, until=MORNING + timedelta(seconds=5)),
        )
    assert "strandline rebuild silver.orders" in error.value.hint

    rebuild(shop.orders, shop.lake, shop.site)
    promote(shop.orders, shop.lake, shop.site)
    assert balance(shop.orders, shop.lake).faults == []
    assert balance(shop.orders, shop.lake).read < read
    seconds = Span(since=MORNING, until=MORNING + timedelta(seconds=5))
    backfill(shop.site.spark, shop.orders, shop.lake, seconds)
    undo(shop.site.spark, shop.orders, shop.lake)
    with pytest.raises(DefinitionError, match="by other kinds than it declares now"):
        backfill(shop.site.spark, shop.orders, shop.lake, seconds)


@pytest.mark.whole
@pytest.mark.slow
def test_another_declaration_waits_for_tables_that_lag(shop: Shop) -> None:
    """Else a record that it moves would be in two of them, or in none: one judged it by the former, one would by the new one."""
    shop.send(50, seed=23)
    shop.run()
    shop.send(20, seed=24, begin=NOON + timedelta(minutes=1))
    shop.run(shop.bronze)
    shop.declare(kind=field("sort"))

    with pytest.raises(DefinitionError, match=r"has not read \d+ records that came by") as refused:
        shop.run(shop.bronze)

    assert "`strandline rebuild silver." in refused.value.hint
    shop.declare(kind=field("type"))
    shop.run()
    shop.declare(kind=field("sort"))
    shop.run()
    assert balance(shop.bronze, shop.lake).faults == []


def test_a_table_that_takes_other_kinds_than_before_is_computed_anew(shop: Shop) -> None:
    """What it passed by then would be missing, and what it had of a kind that is another's now would be in two places."""
    shop.send(200, seed=12)
    shop.run()
    shop.orders = shop.judged("orders", ("order_created", "order_paid", "visit"))

    verdict = judge(shop.site.spark, shop.orders, shop.lake)
    assert Remedy.REBUILD in verdict.remedies
    assert "took 'order_created', 'order_paid'" in verdict.differences[0].what
    with pytest.raises(
        DefinitionError, match="it takes 'order_created', 'order_paid', 'visit' now"
    ):
        shop.run(shop.orders)
    missing = balance(shop.bronze, shop.lake)
    assert set(missing.unrouted) == {"refund"}
    assert missing.homeless == shop.sent["visit"] + shop.sent["refund"] + shop.sent[None]
    says = f"{shop.sent['visit']:,} records of the kind visit came to bronze.shop before silver.orders took it"
    assert any(says in each for each in missing.said)

    rebuild(shop.orders, shop.lake, shop.site)
    promote(shop.orders, shop.lake, shop.site)
    shop.prove()
    assert set(balance(shop.bronze, shop.lake).unrouted) == {"refund"}


def test_a_function_that_loses_records_of_its_kind_is_named(shop: Shop) -> None:
    """A record that it leaves out is not one of another kind."""
    shop.clicks = shop.judged("clicks", "click", transform=dropping)
    shop.send(200, seed=13)
    shop.run()

    sheet = balance(shop.clicks, shop.lake)
    assert sheet.lost_by_function > 10
    assert sheet.read == shop.sent["click"]
    assert [each for each in sheet.faults if "gave no row for" in each]


@pytest.mark.whole
@pytest.mark.slow
def test_a_repair_brings_in_records_of_its_own_kinds_alone(shop: Shop) -> None:
    """A replay, a backfill and a request to forget leave the other tables' records where they are."""
    strict = shop.judged(
        "clicks", "click", rules=(*required("id", "amount", "at"), between("amount", 50, 99))
    )
    lenient = shop.clicks
    shop.clicks = strict
    shop.send(400, seed=14, begin=MORNING)
    shop.run()
    shop.close()
    held = sum(balance(strict, shop.lake).quarantined.values())
    shop.clicks = lenient
    done = replay(shop.site.spark, lenient, shop.lake)

    assert 10 < done.healed + done.duplicates < held
    shop.prove()
    entry = backfill(
        shop.site.spark,
        lenient,
        shop.lake,
        Span(since=MORNING, until=MORNING + timedelta(minutes=5)),
    )
    assert (entry.came, entry.gone) == (0, 0)
    shop.prove()

    victim = _ids(shop, lenient)[0]
    _forget(shop, f"id = '{victim}'")
    assert victim not in _ids(shop, lenient)
    shop.prove()


@pytest.mark.whole
@pytest.mark.slow
def test_what_is_deleted_of_kinds_that_no_table_takes_is_counted_no_more(
    shop: Shop, spark: SparkSession
) -> None:
    """By a request or by age: no table that is added later would have it. What tables have read stays counted."""
    shop.declare(keeps="30 days")
    shop.send(300, seed=31, begin=MORNING)
    shop.run()
    shop.close()
    sent = dict(shop.sent)
    refunds = spark.read.format("delta").load(str(shop.lake.table(shop.bronze)))
    payload = refunds.where("_kind = 'refund'").orderBy("_offset").first()["_payload"]  # type: ignore[index]
    victim = json.loads(bytes(payload))["id"]
    found = refunds.where(F.col("_payload").cast("string").contains(f'"{victim}"')).count()
    _forget(shop, f"id = '{victim}'")

    sheet = balance(shop.bronze, shop.lake)
    assert sheet.unrouted == {"refund": sent["refund"] - found, "visit": sent["visit"]}
    assert (sheet.kindless, sheet.forgotten, sheet.faults) == (sent[None], found, [])
    # What a request has written again is old once the streams have passed it.
    shop.send(2, seed=33, kinds=["click"], begin=NOON + timedelta(minutes=3))
    shop.run()
    sent = dict(shop.sent)
    (gone,) = expire(spark, shop.bronze, shop.lake, NOON + timedelta(days=40))
    assert gone.rows == sum(sent.values()) - found
    sheet = balance(shop.bronze, shop.lake)
    assert (sheet.unrouted, sheet.kindless, sheet.homeless, sheet.faults) == ({}, 0, 0, [])
    assert sheet.kinds == {kind: sent[kind] for kind in ("click", "order_created", "order_paid")}
    for table in (shop.orders, shop.clicks):
        assert balance(table, shop.lake).faults == []
    shop.send(20, seed=32, kinds=["refund"], begin=NOON + timedelta(minutes=5))
    shop.run()
    sheet = balance(shop.bronze, shop.lake)
    assert (sheet.unrouted["refund"], sheet.faults) == (shop.sent["refund"] - sent["refund"], [])


def _forget(shop: Shop, condition: str) -> None:
    request = Request.of(condition)
    work = Forgetting(shop.site.spark, shop.lake, request)
    try:
        list(carry_out(work, shop.lake, request, lambda: NOON, [*work.parts()]))
    finally:
        work.close()


def test_why_says_of_any_record_where_it_went(shop: Shop) -> None:
    """Whichever table is asked."""
    shop.send(300, seed=16)
    shop.run()
    world = World(lake=shop.lake, now=NOON)

    found = {kind: why(place, None, world) for kind, place in shop.last.items()}
    assert found["refund"].verdict is Verdict.UNROUTED
    assert found["refund"].table == "bronze.shop"
    assert found[None].verdict is Verdict.NO_KIND
    assert found["click"].table == "silver.clicks"
    asked = why(shop.last["click"], shop.orders, world)
    assert (asked.verdict, asked.evidence["taker"]) == (Verdict.OTHER_KIND, "silver.clicks")


@pytest.mark.whole
def test_a_rule_of_alerts_over_a_table_sees_its_kinds_alone(
    shop: Shop, spark: SparkSession
) -> None:
    """It reads the topic beside bronze, by the same declaration."""
    shop.send(200, seed=19)
    shop.run()
    records = (
        spark.read.format("kafka")
        .option("kafka.bootstrap.servers", str(shop.site.address))
        .option("subscribe", shop.topic.name)
        .option("includeHeaders", "true")
        .load()
    )

    seen = believed(records, shop.clicks)

    assert sorted({row["id"] for row in seen.collect()}) == _ids(shop, shop.clicks)


@pytest.mark.whole
@pytest.mark.slow
def test_history_from_a_file_goes_to_the_tables_of_its_kinds(shop: Shop, tmp_path: Path) -> None:
    """Beside the streams: what is of no table's kind, or of none, is counted and stays in bronze."""
    shop.send(60, seed=20, begin=MORNING)
    shop.run()
    shop.close()
    before = {table.id: balance(table, shop.lake).read for table in shop.tables}
    file = tmp_path / "past.jsonl"
    past = [
        {
            "type": kind,
            "id": f"old-{n}",
            "amount": n,
            "at": (MORNING - timedelta(days=2)).isoformat(),
        }
        for n, kind in enumerate(["click", "click", "refund", "order_paid", None])
    ]
    file.write_text("\n".join(map(json.dumps, past)))

    words = ("import", "bronze.shop", "--topic", shop.topic.name, file, "--arrived-at-column", "at")
    done = succeeded(*words, "--json", "--lake", shop.lake.root).json

    assert done["rows"] == len(past)
    shop.sent.update(each["type"] for each in past)  # type: ignore[arg-type]
    shop.prove()
    after = {table.id: balance(table, shop.lake).read for table in shop.tables}
    came = {name: after[name] - before[name] for name in after}
    assert came == {"bronze.shop": 5, "silver.orders": 1, "silver.clicks": 2}
    assert "old-3" in _ids(shop, shop.orders)


def test_a_table_of_all_others_may_read_a_kind_of_another_beside_them(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That kind is counted apart: the table accounts for the others alone."""
    rest = shop.judged("rest", all_but("order_created", "order_paid", "click"), also="click")
    monkeypatch.setattr(catalog, "tables", lambda: (*shop.tables, rest))
    shop.send(200, seed=21)
    shop.run(*shop.tables, rest)

    sheet = balance(rest, shop.lake)
    assert balance(shop.bronze, shop.lake).faults == sheet.faults == []
    assert sheet.read == sum(shop.sent[kind] for kind in ("click", "refund", "visit"))
    assert balance(shop.bronze, shop.lake).unrouted == {}


@pytest.mark.slow
def test_maintenance_leaves_each_record_its_kind(shop: Shop) -> None:
    """Files are put together and books are closed; a table that is added then has the same history."""
    shop.send(150, seed=22)
    shop.run(shop.bronze, mode=AvailableNow(max_offsets=20))
    shop.run(shop.orders, shop.clicks)
    close(shop.lake, shop.tables, every=1)
    before = balance(shop.bronze, shop.lake)
    at_once = Policy(keep=timedelta(0), untouched=timedelta(0))
    (work,) = [
        each
        for each in maintain(shop.lake, clock.now() + timedelta(seconds=1), at_once)
        if each.table == shop.bronze.id
    ]
    assert work.merged > 1
    later = shop.judged("visits", "visit")
    run(later, AvailableNow(), shop.lake, site=shop.site)

    shop.prove()
    assert balance(later, shop.lake).read == shop.sent["visit"]
    assert balance(shop.bronze, shop.lake).unrouted == before.unrouted
    assert balance(shop.bronze, shop.lake, audited=True).faults == []
    assert balance(shop.orders, shop.lake, audited=True).faults == []


def test_bronze_of_before_kinds_gets_them_and_its_older_records_are_asked_when_they_are_read(
    shop: Shop, spark: SparkSession
) -> None:
    """A topic that turns out to have kinds needs no new one: the columns are added, and nothing is lost."""
    plain = Ingested(name="shop", reads=(replace(shop.topic, kind=None),))
    shop.send(200, seed=17)
    run(plain, AvailableNow(), shop.lake, site=shop.site)
    shop.send(100, seed=18, begin=NOON + timedelta(minutes=4))
    shop.run()

    sheet = balance(shop.bronze, shop.lake)
    assert (sheet.faults, sheet.read) == ([], sum(shop.sent.values()))
    assert any("200" in each or "before kinds were distinguished" in each for each in sheet.said)
    for table, kinds in ((shop.orders, ("order_created", "order_paid")), (shop.clicks, ("click",))):
        own = balance(table, shop.lake)
        assert (own.faults, own.read) == ([], sum(shop.sent[kind] for kind in kinds))
    kept = spark.read.format("delta").load(str(shop.lake.table(shop.bronze)))
    assert kept.where("_kind_by IS NULL").count() >= 200
    assert kept.select(*PLACE).distinct().count() == sum(shop.sent.values())
