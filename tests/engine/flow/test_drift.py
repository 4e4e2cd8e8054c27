"""A batch knows which undeclared fields and which wrong types it met, in every mode, and its table has chosen what becomes of them."""

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import orjson
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import LongType, StringType, StructType, TimestampType

from fleet.bronze import device_telemetry as bronze
from strandline.core.errors import DefinitionError
from strandline.core.parse import parse_json
from strandline.core.table import Judged
from strandline.core.topic import CARRIED
from strandline.engine.accounting.balance_sheet import balance
from strandline.engine.flow.batch import batch_accounting
from strandline.engine.flow.runner import Site
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger import Entry, entries
from strandline.engine.lake.log.ledger_sums import MOST_LINES, Drift, sums_of
from strandline.engine.lake.open_table import opened
from strandline.engine.lake.place import Place
from strandline.engine.repair.rebuild import promote, rebuild
from strandline.engine.repair.replay import replay
from tests.support.events import TOPIC, Event, received
from tests.support.modes import STREAMED, derive, in_every_mode
from tests.support.rows import NOON

FIELDS = (
    StructType()
    .add("id", StringType())
    .add("at", TimestampType())
    .add("amount", LongType())
    .add("meta", StructType().add("host", StringType()))
)
LATER = StructType([*FIELDS.fields]).add("coupon", StringType())
MORNING = NOON - timedelta(hours=6)
WAYS = ("batch", *STREAMED)
ALSO = ("commit by commit",)


def orders(events: DataFrame) -> DataFrame:
    """Return the fields of an order."""
    return parse_json(events, FIELDS).select(*CARRIED, *FIELDS.fieldNames())


def with_coupon(events: DataFrame) -> DataFrame:
    """Return them once the field is declared."""
    return parse_json(events, LATER).select(*CARRIED, *LATER.fieldNames())


ORDERS = Judged(
    name="device_telemetry",
    reads=(bronze.TABLE,),
    transform=orders,
    key=("id",),
    event_at="at",
)


def payload(number: int, **more: object) -> bytes:
    """Return the payload of an order."""
    order = {"id": f"o{number}", "at": (MORNING + timedelta(seconds=number)).isoformat()}
    return orjson.dumps({**order, "amount": number, "meta": {"host": "h"}, **more})


def events_of(payloads: Sequence[bytes], batches: int = 4) -> list[Event]:
    """Return records of payloads, each a second after the one before, in so many commits."""
    return [
        Event(
            payload=each,
            batch=number * batches // len(payloads),
            arrived_at=MORNING + timedelta(seconds=number),
            ingested_at=MORNING + timedelta(seconds=number),
        )
        for number, each in enumerate(payloads)
    ]


ODD: dict[str, dict[str, object]] = {
    "+text coupon": {"coupon": "summer"},
    "+integer meta.port": {"meta": {"host": "h", "port": 80}},
    "!text bigint amount": {"amount": "7"},
}


def at_random(seed: int, count: int = 120) -> tuple[list[bytes], Counter[str]]:
    """Return payloads, some with something beside their declaration, some of them twice, and how many have each line."""
    chance, counts = random.Random(seed), Counter[str]()  # noqa: S311  # no secret
    found: list[bytes] = []
    for number in range(count):
        line = chance.choice([*ODD, "", ""])
        found.append(payload(number, **ODD.get(line, {})))
        counts[line] += 1
        if not line.startswith("!") and chance.random() < 0.1:
            found.append(found[-1])
    return found, counts


def drift_of(lake: Lake, table: Judged = ORDERS) -> Drift:
    """Return what the ledger of a table says of its payloads."""
    return sums_of(lake.table(table)).drift


def counts_of(lake: Lake) -> dict[str, int]:
    """Return the records of each line."""
    return {line: each.records for line, each in drift_of(lake).lines.items()}


def made(spark: SparkSession, root: Path, payloads: Sequence[bytes], table: Judged) -> Lake:
    """Return a lake in which a table has read payloads."""
    lake = Lake(Place.of(root)).open_for_writing()
    received(lake, events_of(payloads))
    derive(spark, lake, table)
    return lake


def ids(lake: Lake) -> set[str]:
    """Return the ids of the rows."""
    return {row["id"] for row in opened(lake.table(ORDERS)).to_pyarrow_table().to_pylist()}


@pytest.mark.slow
def test_every_mode_counts_the_same_lines(spark: SparkSession, tmp_path: Path) -> None:
    """Of the records that are kept, so a copy counts once; with the place and the arrival of the first."""
    seed = random.randrange(10_000)  # noqa: S311  # as above
    payloads, counts = at_random(seed)
    in_every_mode(spark, tmp_path, events_of(payloads), (ORDERS,))

    for way in WAYS:
        lake = Lake(Place.of(tmp_path / way))
        assert counts_of(lake) == {line: n for line, n in counts.items() if line}, (seed, way)
        assert drift_of(lake).looked_at == counts.total(), (seed, way)
        first = next(n for n, each in enumerate(payloads) if b"coupon" in each)
        coupon = drift_of(lake).lines["+text coupon"]
        assert coupon.place == f"{TOPIC}/0/{first}", (seed, way)
        assert coupon.since.startswith((MORNING + timedelta(seconds=first)).isoformat()[:19])


def test_an_entry_without_anything_odd_names_nothing(spark: SparkSession, tmp_path: Path) -> None:
    """It says how many records were looked at."""
    lake = made(spark, tmp_path, [payload(n) for n in range(8)], ORDERS)
    found = [entry for _, entry in entries(lake.table(ORDERS))]
    assert [(entry.noted > 0, entry.drift, entry.drift_more) for entry in found] == [(True, {}, 0)]


def test_a_function_that_passes_nothing_on_is_not_said_to_have_met_nothing(
    spark: SparkSession, tmp_path: Path
) -> None:
    """No record was looked at; and a choice about new fields is refused."""

    def by_hand(events: DataFrame) -> DataFrame:
        return orders(events).drop("_drift")

    lake = made(spark, tmp_path, [payload(1, coupon="x")], replace(ORDERS, transform=by_hand))
    assert drift_of(lake) == Drift()
    frozen = replace(ORDERS, transform=by_hand, on_new_field="freeze")
    with pytest.raises(DefinitionError, match="_drift"):
        made(spark, tmp_path / "frozen", [payload(1)], frozen)


def test_names_are_bounded_in_entry_and_books(spark: SparkSession, tmp_path: Path) -> None:
    """The commonest have a name, the others a number."""
    odd = "名" * 80
    payloads = [payload(n, **{f"{odd}{n}x{each}": 1 for each in range(40)}) for n in range(50)]
    payloads += [payload(n, coupon="x") for n in range(50, 60)]
    lake = made(spark, tmp_path, payloads, ORDERS)
    drift, own = drift_of(lake), [entry for _, entry in entries(lake.table(ORDERS))]

    assert all(0 < len(entry.drift) <= 100 for entry in own)
    assert all(len(entry.encoded()) < 30_000 for entry in own)
    assert sum(sum(n for n, *_ in e.drift.values()) + e.drift_more for e in own) == 50 * 40 + 10
    assert len(drift.lines) <= MOST_LINES
    assert sum(each.records for each in drift.lines.values()) + drift.more == 50 * 40 + 10
    assert drift.lines["+text coupon"].records == 10


@pytest.mark.whole("3")
@pytest.mark.parametrize("kinds", [3, 150])
def test_lines_of_few_rows_are_counted_as_those_of_many(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, chance: random.Random, kinds: int
) -> None:
    """Of few they are read in one stage, of many Spark groups and sorts them; the entry is the same."""
    found = [
        (
            "\n".join({f"+text 名{chance.randrange(kinds)}" for _ in range(8)} | {f"~{number}"}),
            "topic",
            number % 3,
            number,
            NOON + timedelta(seconds=chance.randrange(20)),
        )
        for number in range(60)
    ]
    columns = "_drift string, _topic string, _partition int, _offset bigint, _arrived_at timestamp"
    rows = spark.createDataFrame(found, columns)
    entry = Entry(table="silver.x", mode="batch", stream="", batch=0, source="bronze.x", good=60)

    few = batch_accounting.drift_of(rows, entry, len(found))
    monkeypatch.setattr(batch_accounting, "FEW_ROWS", 0)
    many = batch_accounting.drift_of(rows, entry, len(found))

    assert len(few.drift) == min(kinds, 100)
    assert few.drift_more >= sum(range(60))
    assert (few.drift, few.drift_more) == (many.drift, many.drift_more)


def test_what_is_declared_is_met_no_more() -> None:
    """By the code of today; since when it came is kept until the table is rebuilt, and then nothing is left."""
    one, two = (
        Entry(
            table="silver.x",
            mode="m",
            stream="s",
            batch=n,
            source="b",
            noted=10,
            code=code,
            drift=line,
        )
        for n, code, line in (
            (0, "a", {"+text coupon": (3, "t/0/1", "2026-11-20T00:00:00.000Z")}),
            (1, "b", {}),
        )
    )
    drift = Drift()
    drift.add(one)
    assert [each.is_met for each in drift.lines.values()] == [True]
    drift.add(two)
    assert [(each.is_met, each.before) for each in drift.lines.values()] == [(False, 0)]


@pytest.mark.whole("freeze", "discard_value", "evolve")
@pytest.mark.slow
@pytest.mark.parametrize("choice", ["freeze", "discard_row", "discard_value", "evolve"])
def test_a_choice_about_new_fields_holds_in_every_mode(
    spark: SparkSession, tmp_path: Path, choice: str
) -> None:
    """Held, passed over, or a row; each is counted."""
    table = replace(ORDERS, on_new_field=choice)  # type: ignore[arg-type]  # one of its words
    payloads = [payload(n, **({"coupon": "x"} if n % 3 == 0 else {})) for n in range(30)]
    in_every_mode(spark, tmp_path, events_of(payloads, 2), (table,), ALSO)

    for way in ("batch", *ALSO):
        lake = Lake(Place.of(tmp_path / way))
        sheet = balance(table, lake)
        assert sheet.faults == []
        is_held, is_passed = choice == "freeze", choice == "discard_row"
        assert sheet.quarantined == ({"new_field": 10} if is_held else {})
        assert sheet.skipped == ({"new_field": 10} if is_passed else {})
        assert len(ids(lake)) == (20 if is_held or is_passed else 30)


@pytest.mark.whole("discard_row", "freeze")
@pytest.mark.slow
@pytest.mark.parametrize("choice", ["freeze", "discard_row", "discard_value"])
def test_a_choice_about_wrong_types_holds_in_every_mode(
    spark: SparkSession, tmp_path: Path, choice: str
) -> None:
    """Held, passed over, or a row in which the value is NULL."""
    table = replace(ORDERS, on_wrong_type=choice)  # type: ignore[arg-type]  # one of its words
    payloads = [payload(n, **({"amount": "7"} if n % 3 == 0 else {})) for n in range(30)]
    in_every_mode(spark, tmp_path, events_of(payloads, 2), (table,), ALSO)

    for way in ("batch", *ALSO):
        lake = Lake(Place.of(tmp_path / way))
        sheet = balance(table, lake)
        assert sheet.faults == []
        assert sheet.quarantined == ({"wrong_type": 10} if choice == "freeze" else {})
        assert sheet.skipped == ({"wrong_type": 10} if choice == "discard_row" else {})
        rows = opened(lake.table(table)).to_pyarrow_table().to_pylist()
        lacking = {row["id"] for row in rows if row["amount"] is None}
        assert lacking == (
            {f"o{n}" for n in range(0, 30, 3)} if choice == "discard_value" else set()
        )


@pytest.mark.slow
def test_a_frozen_record_comes_back_once_its_field_is_declared(
    spark: SparkSession, tmp_path: Path
) -> None:
    """By a replay; what is still undeclared stays held."""
    frozen = replace(ORDERS, on_new_field="freeze")
    payloads = [payload(1, coupon="x"), payload(2, other=1), payload(3)]
    lake = made(spark, tmp_path, payloads, frozen)
    assert ids(lake) == {"o3"}

    done = replay(spark, frozen, lake)
    assert done.healed == 0

    with_one_more = replace(frozen, transform=with_coupon)
    site = Site(spark=spark, clock=lambda: NOON)
    rebuild(with_one_more, lake, site)
    promote(with_one_more, lake, site)
    assert ids(lake) == {"o1", "o3"}
    assert balance(with_one_more, lake).faults == []
