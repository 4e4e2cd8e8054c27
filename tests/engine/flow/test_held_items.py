"""A bad item is held by itself, where a table says so: the other items of its record are rows, and items are counted at both ends."""

import random
from collections import Counter
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import orjson
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import (
    ArrayType,
    LongType,
    StringType,
    StructType,
    TimestampType,
)
from strandline import catalog

from fleet.bronze import device_telemetry as bronze
from strandline.core.errors import DefinitionError
from strandline.core.parse import parse_json
from strandline.core.stateful import Batch
from strandline.core.table import Judged
from strandline.core.topic import CARRIED, ITEM, NO_ITEMS
from strandline.core.verdict import bad_items, good_rows, judged
from strandline.engine.accounting.balance_sheet import balance
from strandline.engine.accounting.browse_held import rows as held_rows
from strandline.engine.accounting.held_records import Signed, held
from strandline.engine.ask.locate import Verdict, World
from strandline.engine.ask.why import why
from strandline.engine.flow.runner import Site
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger import Entry, entries
from strandline.engine.lake.open_table import kinds, opened
from strandline.engine.lake.place import Place
from strandline.engine.proof.compare import audit
from strandline.engine.repair import backfill as backfills
from strandline.engine.repair import replay as replays
from strandline.engine.repair.backfill import backfill
from strandline.engine.repair.closed_range import Span
from strandline.engine.repair.expire import expire
from strandline.engine.repair.forget import Forgetting, carry_out
from strandline.engine.repair.forget_request import Request
from strandline.engine.repair.rebuild import promote, rebuild
from strandline.engine.repair.replay import Choice, discard, reopen, replay
from strandline.engine.runtime import clock
from strandline.engine.service.maintain import Policy, maintain
from strandline.operate import session
from strandline_quality.rules import between, required
from tests.cli.inside import succeeded
from tests.support import lakes
from tests.support.events import TOPIC, Event, frame, received
from tests.support.modes import derive, in_every_mode, proven
from tests.support.rows import NOON

FIELDS = (
    StructType()
    .add("id", StringType())
    .add("at", TimestampType())
    .add("items", ArrayType(StructType().add("sku", StringType()).add("qty", LongType())))
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
    bad_items="hold",
    rules=(*required("id", "sku"), between("qty", 1, 100)),
)
PATIENT = replace(ORDERS, rules=(*required("id", "sku"), between("qty", 0, 100)))
"""To which no item is too small."""
WHOLE = replace(ORDERS, bad_items=None)
"""Which holds the record of a bad item."""
Row = tuple[str, int, str | None, int | None]
QTY, SKU, LIST = "out_of_range:qty", "missing:sku", "missing:items"


@dataclass
class Sent:
    """Orders, and what must become of them."""

    events: list[Event] = field(default_factory=list)
    rows: set[Row] = field(default_factory=set)
    held: set[tuple[int, int | None, str]] = field(default_factory=set)
    """The offset, the place in the list, and the first reason."""
    good: int = 0
    copies: int = 0
    empty: int = 0

    def add(self, payload: bytes, batch: int, at: datetime) -> int:
        """Note a record, and return its offset."""
        self.events.append(Event(payload=payload, batch=batch, arrived_at=at, ingested_at=at))
        return len(self.events) - 1

    @property
    def by_reason(self) -> dict[str, int]:
        """Count what is held, as the ledger does."""
        return dict(Counter(why for _, _, why in self.held))

    @property
    def held_items(self) -> int:
        """Count the items among it."""
        return sum(item is not None for _, item, _ in self.held)


def order(number: object, at: datetime, items: object) -> bytes:
    """Return the payload of an order."""
    return orjson.dumps({"id": f"o{number}", "at": at.isoformat(), "items": items})


def fault_of(item: dict[str, Any] | None) -> str | None:
    """Return the first rule that an item breaks."""
    if item is None:
        return LIST
    if item["sku"] is None:
        return SKU
    return None if 1 <= item["qty"] <= 100 else QTY


def sent(seed: int, count: int = 200) -> Sent:
    """Send orders at random: a tenth has no item, a fifth bad ones, some nothing else, a tenth comes twice, some are no order."""
    chance, found = random.Random(seed), Sent()  # noqa: S311  # no secret
    for number in range(count):
        at, batch = MORNING + timedelta(seconds=number), number * 4 // count
        items = _items_at_random(chance)
        payload = order(number, at, items)
        if chance.random() < 0.05:
            payload = payload[:-3]
            items = None
        for nth in range(1 + (chance.random() < 0.1)):
            _note(found, found.add(payload, batch, at), number, items, is_copy=nth > 0)
    for batch in (4, 5):
        at = NOON + timedelta(minutes=batch)
        offset = found.add(order(f"-{batch}", at, [{"sku": "s", "qty": 1}]), batch, at)
        _note(found, offset, f"-{batch}", [{"sku": "s", "qty": 1}], is_copy=False)
    return found


def _items_at_random(chance: random.Random) -> list[dict[str, Any] | None]:
    items: list[dict[str, Any] | None] = [
        {"sku": f"s{chance.randrange(9)}", "qty": chance.randint(1, 90)}
        for _ in range(chance.randint(1, 5))
    ]
    dirt = chance.random()
    if dirt < 0.1:
        return []
    for nth in range(len(items)):
        if dirt < 0.2 or (dirt < 0.45 and chance.random() < 0.4):
            bad = ({"sku": "s1", "qty": 0}, {"sku": None, "qty": 0}, {"sku": None, "qty": 5}, None)
            items[nth] = chance.choice([bad[0], bad[0], bad[0], *bad])
    return items


def _note(
    found: Sent, offset: int, number: object, items: list[Any] | None, *, is_copy: bool
) -> None:
    """Note what must become of a record."""
    if items is None:
        found.held.add((offset, None, "malformed"))
    elif not items:
        found.empty += 1
    elif all(fault_of(item) for item in items):
        # Under the first of the rules that any of them breaks, as they are declared.
        first = min((str(fault_of(item)) for item in items), key=(LIST, SKU, QTY).index)
        found.held.add((offset, None, first))
    elif is_copy:
        found.copies += 1
    else:
        found.good += 1
        for nth, item in enumerate(items):
            why = fault_of(item)
            if why:
                found.held.add((offset, nth, why))
            else:
                found.rows.add((f"o{number}", nth, item["sku"], item["qty"]))


def rows_of(lake: Lake) -> set[Row]:
    """Return the rows of the table; none is there twice."""
    found = opened(lake.table(ORDERS)).to_pyarrow_table().to_pylist()
    rows = [(row["id"], row[ITEM], row["sku"], row["qty"]) for row in found]
    assert len(rows) == len(set(rows))
    return set(rows)


def held_in(lake: Lake) -> set[tuple[int, int | None, str]]:
    """Return what the quarantine holds; nothing is there twice."""
    found = held(ORDERS, lake).to_pylist()
    rows = [(row["_offset"], row.get(ITEM), row["reasons"][0]) for row in found]
    assert len(rows) == len(set(rows))
    assert all(row["_payload"] for row in found)
    return set(rows)


def accounted(lake: Lake, truth: Sent, table: Judged = ORDERS) -> None:
    """See that each record and each item is where it must be."""
    sheet = balance(table, lake)
    assert sheet.faults == []
    assert rows_of(lake) == truth.rows
    assert held_in(lake) == truth.held
    assert (sheet.read, sheet.good, sheet.duplicates) == (
        len(truth.events),
        truth.good,
        truth.copies,
    )
    assert sheet.skipped == ({NO_ITEMS: truth.empty} if truth.empty else {})
    assert sheet.quarantined == truth.by_reason
    assert (sheet.rows, sheet.held_items) == (len(truth.rows), truth.held_items)


@pytest.fixture(scope="module")
def truth() -> Sent:
    """Return orders at random."""
    seed = random.randrange(10_000)  # noqa: S311  # as above
    print(f"seed {seed}")  # noqa: T201  # shown when a test fails
    return sent(seed)


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


def computed(spark: SparkSession, folder: Path, truth: Sent, table: Judged) -> Lake:
    """Compute the same records by a batch over everything."""
    lake = Lake(Place.of(folder)).open_for_writing()
    received(lake, truth.events)
    derive(spark, lake, table, mode=Batch())
    return lake


@pytest.mark.slow
def test_items_are_where_they_must_be_in_every_mode(
    spark: SparkSession, tmp_path: Path, truth: Sent
) -> None:
    """A batch, all commits at once, one by one, and a stream that is always on."""
    in_every_mode(spark, tmp_path, truth.events, (ORDERS,))

    for way in ("batch", "all commits at once", "commit by commit", "micro-batch"):
        accounted(Lake(Place.of(tmp_path / way)), truth)
    entry = next(e for _, e in entries(Lake(Place.of(tmp_path / "batch")).table(ORDERS)))
    assert (entry.items, entry.written, entry.held_items) == (
        len(truth.rows) + truth.held_items,
        len(truth.rows),
        truth.held_items,
    )


def test_a_commit_whose_items_do_not_add_up_is_a_fault(streamed: Lake) -> None:
    """Items are counted in the records, and again where they went: one that is in neither place is seen."""
    path = streamed.table(ORDERS)
    version, entry = next((n, e) for n, e in entries(path) if e.held_items)
    log = path / "_delta_log" / f"{version:020d}.json"
    lines = (log.text() or "").replace(
        f'\\"items\\":{entry.items},', f'\\"items\\":{(entry.items or 0) + 1},'
    )
    log.put(lines)
    (fault, *_) = balance(ORDERS, streamed, audited=True).faults
    assert f"held {entry.held_items} of them" in fault


@pytest.mark.whole
@pytest.mark.slow
def test_a_replay_brings_in_the_items_that_heal(
    spark: SparkSession, streamed: Lake, truth: Sent, tmp_path: Path
) -> None:
    """Their siblings are not doubled, and what each record has is what a batch over everything gives."""
    done = replay(spark, PATIENT, streamed)

    sheet = balance(PATIENT, streamed)
    assert sheet.faults == []
    assert done.healed
    batch = computed(spark, tmp_path / "batch", truth, PATIENT)
    assert rows_of(streamed) == rows_of(batch)
    assert held_in(streamed) == held_in(batch)
    of_batch = balance(PATIENT, batch)
    assert (sheet.good, sheet.quarantined, sheet.held_items) == (
        of_batch.good,
        of_batch.quarantined,
        of_batch.held_items,
    )
    again = replay(spark, PATIENT, streamed)
    assert (again.healed, again.changed, again.duplicates) == (0, 0, 0)


@pytest.mark.slow
def test_one_held_item_is_replayed_by_its_place(
    spark: SparkSession, streamed: Lake, truth: Sent
) -> None:
    """Of the record at the place only the items that were held."""
    offset, item, _ = next(
        each for each in sorted(truth.held, key=str) if each[1] is not None and each[2] == QTY
    )
    before = rows_of(streamed)
    done = replay(spark, PATIENT, streamed, Choice(place=(TOPIC, 0, offset)))
    came = rows_of(streamed) - before
    assert done.healed == len(came)
    assert item in {row[1] for row in came}
    assert balance(PATIENT, streamed).faults == []


@pytest.mark.whole
@pytest.mark.slow
@pytest.mark.parametrize("step", ["resolve", "hold", "write_healed"])
def test_a_replay_that_was_killed_is_finished(  # noqa: PLR0913, PLR0917  # fixtures
    spark: SparkSession,
    streamed: Lake,
    truth: Sent,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    step: str,
) -> None:
    """Between any two of its commits: nothing is missing, nothing twice."""
    real = getattr(replays, step)
    changed = replace(ORDERS, rules=(*required("id"), between("qty", 0, 100), *required("sku")))

    def killed(*args: object, **kwargs: object) -> None:
        if step == "resolve":
            real(*args, **kwargs)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(replays, step, killed)
        with pytest.raises(KeyboardInterrupt):
            replay(spark, changed, streamed)
    replay(spark, changed, streamed)

    assert balance(changed, streamed).faults == []
    batch = computed(spark, tmp_path / "batch", truth, changed)
    assert rows_of(streamed) == rows_of(batch)
    assert held_in(streamed) == held_in(batch)


def test_a_backfill_of_the_same_code_changes_nothing(
    spark: SparkSession, streamed: Lake, truth: Sent
) -> None:
    """Neither a record nor a row, nor an item that is held."""
    done = backfill(spark, ORDERS, streamed, _morning())

    assert (done.came, done.gone, done.good, done.duplicates, done.held_items) == (0, 0, 0, 0, 0)
    accounted(streamed, truth)


@pytest.mark.whole
@pytest.mark.slow
@pytest.mark.parametrize("other", [PATIENT, WHOLE], ids=["other rules", "whole records"])
def test_a_backfill_moves_items_there_and_back(
    spark: SparkSession, streamed: Lake, truth: Sent, tmp_path: Path, other: Judged
) -> None:
    """The counts of records, rows and held items end where they began."""
    backfill(spark, other, streamed, _morning())
    assert balance(other, streamed).faults == []
    batch = computed(spark, tmp_path / "batch", truth, other)
    assert rows_of(streamed) == rows_of(batch)
    assert held_in(streamed) == held_in(batch)

    backfill(spark, ORDERS, streamed, _morning())

    accounted(streamed, truth)


@pytest.mark.slow
def test_a_backfill_that_was_killed_after_it_held_items_holds_them_once(
    spark: SparkSession, tmp_path: Path, truth: Sent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their records were no rows yet, so what had been held was not found and was held again."""
    lake = Lake(Place.of(tmp_path / "lake")).open_for_writing()
    received(lake, truth.events)
    derive(spark, lake, WHOLE)

    def killed(*args: object, **kwargs: object) -> None:  # noqa: ARG001  # the shape of what is replaced
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(backfills, "_replace", killed)
        with pytest.raises(KeyboardInterrupt):
            backfill(spark, ORDERS, lake, _morning())
    backfill(spark, ORDERS, lake, _morning())

    assert balance(ORDERS, lake).faults == []
    assert rows_of(lake) == truth.rows
    assert held_in(lake) == truth.held


@pytest.mark.whole
@pytest.mark.slow
def test_a_lake_that_held_whole_records_goes_on(
    spark: SparkSession, tmp_path: Path, truth: Sent
) -> None:
    """Its quarantine gets the column in place; a replay brings in the good items of what it held."""
    lake = Lake(Place.of(tmp_path / "lake")).open_for_writing()
    received(lake, truth.events)
    derive(spark, lake, WHOLE)
    assert ITEM not in kinds(lake.quarantine(ORDERS))
    derive(spark, lake, ORDERS)
    replay(spark, ORDERS, lake)
    sheet = balance(ORDERS, lake)
    assert sheet.faults == []
    assert rows_of(lake) == truth.rows
    assert held_in(lake) == truth.held


@pytest.mark.whole
@pytest.mark.slow
def test_a_request_to_forget_takes_the_held_items_of_a_record(
    spark: SparkSession, streamed: Lake, truth: Sent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With all that is left of it, wherever that is."""
    monkeypatch.setattr(catalog, "tables", lambda: (bronze.TABLE, ORDERS))
    offset, _, _ = next(each for each in truth.held if each[1] is not None)
    name = orjson.loads(truth.events[offset].payload or b"")["id"]
    request = Request.of(f"id = '{name}'")
    work = Forgetting(spark, streamed, request)
    try:
        list(carry_out(work, streamed, request, lambda: NOON, [*work.parts()]))
    finally:
        work.close()

    assert rows_of(streamed) == {row for row in truth.rows if row[0] != name}
    assert held_in(streamed) == {each for each in truth.held if each[0] != offset}
    assert balance(ORDERS, streamed).faults == []
    assert balance(bronze.TABLE, streamed).faults == []


@pytest.mark.whole
@pytest.mark.slow
def test_held_items_are_discarded_and_opened_again(
    spark: SparkSession, streamed: Lake, truth: Sent
) -> None:
    """Each by itself, under its reason."""
    count = truth.by_reason[QTY]
    signed = Signed(who="ann", at=NOON, why="samples")
    assert discard(spark, ORDERS, streamed, Choice(reason=QTY), signed) >= count
    accounted(streamed, truth)
    assert replay(spark, PATIENT, streamed, Choice(reason=QTY)).rows == 0
    reopen(spark, ORDERS, streamed, signed)
    assert replay(spark, PATIENT, streamed, Choice(reason=QTY)).healed
    assert balance(PATIENT, streamed).faults == []


@pytest.mark.whole
@pytest.mark.slow
def test_old_held_items_expire_with_what_is_held(spark: SparkSession, streamed: Lake) -> None:
    """Some were released before."""
    replay(spark, PATIENT, streamed)
    table = replace(PATIENT, keeps_held="1 day")
    (gone,) = expire(spark, table, streamed, NOON + timedelta(days=20))
    assert gone.rows
    assert held_in(streamed) == set()
    assert balance(table, streamed).faults == []


def test_a_rebuild_is_promoted_and_the_books_go_on(
    spark: SparkSession, streamed: Lake, truth: Sent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Records, rows and items are counted apart after it as before, after maintenance too."""
    monkeypatch.setattr(catalog, "tables", lambda: (bronze.TABLE, ORDERS))
    site = Site(spark=spark, clock=lambda: NOON)
    rebuild(ORDERS, streamed, site)
    promote(ORDERS, streamed, site)
    at_once = Policy(keep=timedelta(0), untouched=timedelta(0))
    assert [*maintain(streamed, clock.now() + timedelta(seconds=1), at_once)]

    accounted(streamed, truth)
    assert proven(streamed, (ORDERS,))
    assert [
        each for each in audit(spark, ORDERS, streamed, lambda: NOON).findings if not each.holds
    ] == []


@pytest.mark.whole
@pytest.mark.slow
def test_an_imported_copy_that_comes_first_takes_the_held_items_of_the_later_one_along(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The record that goes leaves no item behind, and the one that comes brings its own."""
    monkeypatch.setattr(catalog, "tables", lambda: (bronze.TABLE, ORDERS))
    lake, truth = Lake(Place.of(tmp_path / "lake")).open_for_writing(), sent(1, 20)
    at = MORNING - timedelta(days=1)
    both = [{"sku": "a", "qty": 1}, {"sku": "b", "qty": 0}]
    late = truth.events[0]
    events = [
        replace(late, payload=order("x", at, both), arrived_at=at, ingested_at=at),
        *truth.events,
    ]
    received(lake, events)
    derive(spark, lake, ORDERS)
    before = balance(ORDERS, lake)
    line = order("x", at, [*both, {"sku": "c", "qty": 3}])
    lines = [line, order("y", at, both), order("z", at, both)[:-3]]
    (tmp_path / "past.jsonl").write_bytes(b"\n".join(lines))

    words = ("import", bronze.TABLE.id, "--topic", TOPIC, tmp_path / "past.jsonl")
    succeeded(*words, "--lake", lake.root)

    sheet = balance(ORDERS, lake)
    assert sheet.faults == []
    assert (sheet.good, sheet.held_items) == (before.good + 1, before.held_items + 1)
    cut = [each for each in held_in(lake) if each[2] == "malformed"]
    assert len(cut) == before.quarantined.get("malformed", 0) + 1, "what was just held stays so"
    assert {row[:3] for row in rows_of(lake) if row[0] in {"ox", "oy"}} == {
        ("ox", 0, "a"),
        ("ox", 2, "c"),
        ("oy", 0, "a"),
    }


def test_why_names_the_items_that_are_held(
    streamed: Lake, truth: Sent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The record is in the table; of its place in the list each item has an answer of its own."""
    monkeypatch.setattr(catalog, "tables", lambda: (bronze.TABLE, ORDERS))
    world = World(lake=streamed, now=NOON)
    offset, item, reason = next(each for each in truth.held if each[1] is not None)
    found = why(f"{TOPIC}/0/{offset}", ORDERS, world)
    assert found.verdict is Verdict.IN_TABLE
    assert f"item {item}" in found.sentence
    assert reason in found.sentence
    one = why(f"{TOPIC}/0/{offset}/{item}", ORDERS, world)
    assert one.verdict is Verdict.QUARANTINED
    assert one.evidence["reasons"][0] == reason  # type: ignore[index]
    siblings = {n for n in range(9) if (offset, n, reason) not in truth.held}
    name = orjson.loads(truth.events[offset].payload or b"")["id"]
    good = next(row[1] for row in truth.rows if row[0] == name)
    assert good in siblings
    assert why(f"{TOPIC}/0/{offset}/{good}", ORDERS, world).verdict is Verdict.IN_TABLE


def test_held_items_are_listed_with_their_places(streamed: Lake, truth: Sent) -> None:
    """And exported with them."""
    shown = held_rows(ORDERS, streamed, limit=1000)
    assert {(each.offset, each.item, each.reasons[0]) for each in shown} == truth.held
    assert {each.batch for each in shown if each.item is not None} <= {
        f"batch {n}" for n in range(9)
    }
    file = streamed.root.parent / "held.jsonl"
    succeeded("quarantine", "export", ORDERS.id, "--to", file, "--lake", streamed.root)
    lines = [orjson.loads(line) for line in (file.text() or "").splitlines()]
    assert {(each["_offset"], each[ITEM], each["reasons"][0]) for each in lines} == truth.held


def test_a_trial_shows_the_items_that_are_held(spark: SparkSession) -> None:
    """In the order of the payloads, and of the list."""
    at = NOON - timedelta(minutes=1)
    items = [{"sku": "a", "qty": 1}, {"sku": "b", "qty": 0}]
    found = session.judge(spark, ORDERS, order(1, at, items), order(2, at, items[1:]))
    shown = [(r["id"], r.get("sku"), r.get(ITEM), r["reasons"]) for r in found]
    assert shown == [
        ("o1", "a", 0, None),
        ("o1", "b", 1, [QTY]),
        ("o2", None, None, [QTY]),
    ]


def test_of_plain_values_each_is_held_by_itself(spark: SparkSession) -> None:
    """A rule that names the list is asked of each value."""
    fields = StructType().add("id", StringType()).add("at", TimestampType())
    fields = fields.add("tags", ArrayType(StringType()))
    table = replace(
        ORDERS,
        transform=lambda rows: parse_json(rows, fields).select(*CARRIED, *fields.fieldNames()),
        rows="tags",
        rules=required("tags"),
    )
    payload = orjson.dumps({"id": "1", "at": NOON.isoformat(), "tags": ["a", None, "b"]})
    verdicts = judged(frame(spark, [Event(payload=payload)]), table)
    assert [(r["tags"], r[ITEM]) for r in good_rows(verdicts, table).collect()] == [
        ("a", 0),
        ("b", 2),
    ]
    assert [(r[ITEM], r["reasons"]) for r in bad_items(verdicts, table).collect()] == [
        (1, ["missing:tags"])
    ]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"bad_items": "drop"}, "no way to treat"),
        ({"rows": None}, "no rows of a list"),
        ({"believes_history": True}, "and believes history"),
    ],
)
def test_a_mistake_in_the_declaration_is_refused(change: dict[str, Any], says: str) -> None:
    """When the module is read."""
    with pytest.raises(DefinitionError, match=says):
        replace(ORDERS, **change)


def test_an_entry_of_before_holds_no_items(streamed: Lake) -> None:
    """It has no such field."""
    entry = next(e for _, e in entries(streamed.table(ORDERS)))
    assert (
        Entry(
            table=entry.table, mode=entry.mode, stream=entry.stream, batch=0, source=""
        ).held_items
        == 0
    )


def _morning() -> Span:
    return Span(since=MORNING, until=MORNING + timedelta(minutes=30))
