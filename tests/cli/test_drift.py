"""A project whose producer changes: who says so, what edit is proposed, and what is right again once it is made."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import orjson
import pytest

from fleet.silver import dhcp_events
from strandline.core.errors import DefinitionError
from strandline.core.table import Judged
from strandline.core.topic import RECEIVED
from strandline.engine.accounting.routes import Beside, Seen
from strandline.engine.flow.ingest import PROPERTIES
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger import Entry
from strandline.engine.lake.place import Place
from strandline.operate.drafts.drift import (
    Found,
    Proposal,
    apply,
    evolving,
    likely_type,
    settled,
    shown,
    wider,
    with_edits,
)
from strandline.operate.drafts.module_text import with_field
from tests.cli.typed import Answer, strandline
from tests.support import by_hand
from tests.support.rows import NOON

BRONZE = '''"""Orders as received."""

from strandline import Ingested, Topic

TABLE = Ingested(name="orders", reads=(Topic(name="orders", partitions=1),))
'''
SILVER = '''"""Orders."""

from pyspark.sql.types import LongType, StringType, StructType, TimestampType
from strandline import CARRIED, Judged, required

from ..bronze import orders as bronze

FIELDS = (
    StructType()
    .add("id", StringType())
    .add("at", TimestampType())
    .add("amount", LongType())
    .add("meta", StructType().add("host", StringType()))
)


def orders(events):
    (topic,) = bronze.TABLE.topics
    return topic.parse(events, FIELDS).select(*CARRIED, *FIELDS.fieldNames())


TABLE = Judged(
    name="orders",
    reads=(bronze.TABLE,),
    transform=orders,
    key=("id",),
    event_at="at",
    rules=required("id", "at"),
)
'''
ADDED = '.add("host", StringType()).add("app", StructType().add("version", StringType())))'


def order(number: int) -> bytes:
    """Return the payload of an order; from the tenth on the producer is a newer one."""
    at = (NOON + timedelta(seconds=number)).isoformat()
    one: dict[str, object] = {"id": f"o{number}", "at": at, "amount": number, "meta": {"host": "h"}}
    if number >= 10:
        one["coupon"] = f"secret-{number}"
        one["meta"] = {"host": "h", "app": {"version": "2.1"}}
    if number >= 16:
        one["amount"] = str(number)
    return orjson.dumps(one)


def project(root: Path, silver: str) -> None:
    """Write a project of two tables."""
    for name, text in {
        "__init__": "",
        "bronze/__init__": "",
        "bronze/orders": BRONZE,
        "silver/__init__": "",
        "silver/orders": silver,
    }.items():
        file = root / "shop" / f"{name}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    (root / "strandline.toml").write_text('[project]\ntables = "shop"\n')


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a project whose bronze has twenty orders, and run its silver table."""
    root = tmp_path_factory.mktemp("shop")
    project(root, SILVER)
    path = Lake(Place.of(root / ".lake")).open_for_writing().root / "bronze" / "orders"
    by_hand.create(path, RECEIVED, PROPERTIES)
    rows: list[tuple[object, ...]] = [
        ("orders", 0, n, NOON + timedelta(seconds=n), None, order(n), [], 0, NOON, NOON)
        for n in range(20)
    ]
    entry = Entry(
        table="bronze.orders",
        mode="available-now",
        stream="orders=a1",
        batch=0,
        source="orders",
        offsets={"orders/0": (0, 20)},
        read=20,
        good=20,
        written=20,
        newest_arrival=NOON.isoformat(),
    )
    by_hand.commit(path, [by_hand.table(RECEIVED, rows)], entry.encoded())
    typed(root, "run", "silver.orders")
    return root


def typed(root: Path, *words: object) -> Answer:
    """Type a verb in the project, and see that it succeeds."""
    return strandline(*words, cwd=root, env={"STRANDLINE_LAKE": str(root / ".lake")}).succeeded()


def fields_of(answer: Answer) -> dict[str, dict[str, object]]:
    """Return what `drift --json` says of the fields of the one table."""
    assert isinstance(answer.json, list)
    (table,) = answer.json
    return {each["field"]: each for each in table["fields"]}


@pytest.mark.whole
@pytest.mark.slow
def test_the_edit_that_is_proposed_makes_history_right(shop: Path) -> None:
    """A new field, a deeper object, and a number that becomes a text, for which no edit is right."""
    found = fields_of(typed(shop, "drift", "silver.orders", "--json"))
    assert {name: each["type"] for name, each in found.items()} == {
        "coupon": "StringType()",
        "meta.app": 'StructType().add("version", StringType())',
        "amount": None,
    }
    assert found["coupon"]["example"] == '"secret-10"'
    assert found["coupon"]["since"] == "2026-11-20T12:00:10.000Z"
    assert (found["coupon"]["share"], found["amount"]["kinds"]) == (0.5, {"text": 4})
    assert "no type reads bigint and text" in str(found["amount"]["left_to_do"])
    for verb in ("status", "ledger"):
        said = strandline(verb, cwd=shop, env={"STRANDLINE_LAKE": str(shop / ".lake")}).out
        assert "2 undeclared fields: coupon (text, 50.0%), meta.app (object, 50.0%)" in said
    late = typed(shop, "drift", "silver.orders", "--json", "--since", "2026-11-20T12:00:12")
    assert set(fields_of(late)) == {"amount"}

    done = typed(shop, "drift", "silver.orders", "--apply").out
    module = (shop / "shop" / "silver" / "orders.py").read_text()
    assert ADDED in module
    assert '    .add("coupon", StringType())\n)' in module
    assert '+    .add("coupon", StringType())' in done
    assert "strandline migrate silver.orders" in done
    again = typed(shop, "drift", "silver.orders").out
    assert "coupon is declared by now" in again

    typed(shop, "migrate", "silver.orders", "--go")
    rows = typed(
        shop, "query", "SELECT count(coupon) AS n, count(*) AS m FROM silver.orders", "--json"
    )
    assert rows.json == [{"n": 6, "m": 16}]
    assert "coupon" not in fields_of(typed(shop, "drift", "silver.orders", "--json"))


def test_an_edit_that_does_not_load_is_taken_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here the module knows how many fields it has."""
    whole = SILVER.replace("\n\ndef orders", "\nassert len(FIELDS) == 4\n\n\ndef orders")
    project(tmp_path, whole)
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "shop" / "silver" / "orders.py"
    coupon = Beside(path="coupon", declared="", since="", places=(), share=1)
    edited = with_field(whole, "coupon", "StringType()")
    found = Found(
        table=dhcp_events.TABLE,
        seen=Seen(table="silver.orders"),
        proposals=(Proposal(field=coupon, kind="StringType()", edited=edited),),
        file=file,
        before=whole,
    )
    with pytest.raises(DefinitionError, match="would not load with the edit, so it is as it was"):
        apply(found)
    assert file.read_text() == whole
    file.write_text(SILVER)
    apply(
        replace(
            found, before=SILVER, proposals=tuple(with_edits(found.table, found.proposals, SILVER))
        )
    )
    assert '.add("coupon", StringType())' in file.read_text()
    assert [each.name for each in file.parent.iterdir() if "new" in each.name] == []


def test_of_names_that_differ_in_their_case_alone_one_is_declared() -> None:
    """The other is left with the reason; a producer that sends both ends no verb."""
    proposals = [
        Proposal(
            field=Beside(path=path, declared="", since="", places=(), share=0.5), kind="LongType()"
        )
        for path in ("foo", "Foo", "bar")
    ]
    found = Found(
        table=dhcp_events.TABLE,
        seen=Seen(table="silver.orders"),
        proposals=tuple(with_edits(dhcp_events.TABLE, proposals, SILVER)),
        file=Path("orders.py"),
        before=SILVER,
    )
    assert [bool(each.edited) for each in found.proposals] == [True, False, True]
    assert "Foo differs from the declared foo in case alone" in found.proposals[1].why_not
    added = [line[1:].strip() for line in found.diff.splitlines() if line.startswith("+ ")]
    assert added == ['.add("foo", LongType())', '.add("bar", LongType())']


AMOUNT = Beside(
    path="amount", declared="bigint", kinds={"number": 9}, since="", places=(), share=0.5
)
COUPON = Beside(path="coupon", declared="", kinds={"text": 9}, since="", places=(), share=0.001)


def proposed(table: Judged, amount: Beside = AMOUNT) -> Found:
    """Return what is proposed of a new field, and of one whose type is another."""
    seen = Seen(table=table.id, fields=(COUPON, amount))
    proposals = [
        Proposal(field=COUPON, kind="StringType()"),
        Proposal(field=amount, kind="DoubleType()"),
    ]
    made = tuple(with_edits(table, settled(table, seen, proposals), SILVER))
    return Found(table=table, seen=seen, proposals=made, file=Path("orders.py"), before=SILVER)


def edited(found: Found) -> tuple[bool, bool]:
    """Return whether the new field is declared, and whether the type of the other is another."""
    after = found.after()
    return '.add("coupon", StringType())' in after, '.add("amount", DoubleType())' in after


TABLE = dhcp_events.TABLE
CHOICES: list[tuple[dict[str, Any], tuple[bool, bool], tuple[bool, bool]]] = [
    ({}, (True, True), (False, False)),
    ({"on_new_field": "evolve"}, (True, True), (True, False)),
    ({"on_wrong_type": "evolve"}, (True, True), (False, True)),
    ({"on_new_field": "evolve", "on_wrong_type": "discard_value"}, (True, False), (True, False)),
    ({"on_new_field": "discard_row", "on_wrong_type": "evolve"}, (False, True), (False, True)),
]


@pytest.mark.parametrize(("declares", "named", "unnamed"), CHOICES)
def test_that_alone_is_edited_which_the_table_lets_evolve(
    declares: dict[str, Any], named: tuple[bool, bool], unnamed: tuple[bool, bool]
) -> None:
    """Of a table that is named all that waits for a decision; what goes on purpose waits for none."""
    found = proposed(replace(TABLE, **declares))

    assert edited(found) == named
    if any(unnamed):
        (chosen,) = evolving([found])
        assert edited(chosen) == unnamed
    else:
        with pytest.raises(DefinitionError, match="no table that declares evolve"):
            evolving([found])


def test_of_dirt_no_type_is_made() -> None:
    """A value in a million is no change of the producer: not shown as an edit, and not written beside another one."""
    found = proposed(replace(TABLE, on_new_field="evolve"), replace(AMOUNT, share=0.000_001))

    assert edited(found) == (True, False)
    assert "dirt" in found.proposals[1].why_not


@pytest.mark.parametrize(
    ("declared", "kinds", "values", "kind"),
    [
        ("bigint", {"number"}, [1.5, 2], "DoubleType()"),
        ("bigint", {"number"}, [1.5, 2**53 + 1], ""),
        ("int", {"integer"}, [2**40], "LongType()"),
        ("int", {"number"}, [1.5], "DoubleType()"),
        ("decimal(15,2)", {"number"}, [1.555], ""),
        ("bigint", {"integer"}, [2**70], ""),
        ("bigint", {"text"}, ["x"], ""),
    ],
)
def test_a_wider_type_rounds_nothing_that_was_exact(
    declared: str, kinds: set[str], values: list[object], kind: str
) -> None:
    """Neither sums of money nor ids."""
    each = replace(AMOUNT, declared=declared, kinds=dict.fromkeys(kinds, 1))
    assert wider(each, values) == kind


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (["2026-11-20T08:15:30Z", "2026-11-20 08:15:30.5"], "TimestampType()"),
        (["2026-11-20", "2026-02-01"], "DateType()"),
        (["2026-02-30"], "StringType()"),
        ([1, 2], "LongType()"),
        ([1, 2.5], "DoubleType()"),
        ([2**70], "DoubleType()"),
        ([True], "BooleanType()"),
        ([[1], []], "ArrayType(LongType())"),
        ([{"a": 1, "b": None}, {"a": 2.5}], 'StructType().add("a", DoubleType())'),
        ([{"id": 1, "ID": 2}], "MapType(StringType(), LongType())"),
        ([{"a b": 1}], "MapType(StringType(), LongType())"),
        ([{}], "MapType(StringType(), StringType())"),
        ([1, "x"], ""),
        ([], ""),
        ([[[[[[[[1]]]]]]]], ""),
    ],
)
def test_a_type_is_guessed_from_values(values: list[object], kind: str) -> None:
    """One that reads all of them, or none."""
    assert likely_type(values) == kind


def test_an_example_is_one_line_and_is_masked_where_anything_is() -> None:
    """Whatever it is."""
    assert shown("a\n\x1b[2J\u202eb", is_secret=False) == '"a\\n\\u001b[2J\ufffdb"'
    assert shown("alice@example.com", is_secret=True).startswith("[text")
    assert len(shown("x" * 1_000_000, is_secret=False)) < 70
    deep: list[object] = []
    for _ in range(100_000):
        deep = [deep]
    assert shown(deep, is_secret=False) == "[nested deeply]"
    assert "alice" not in shown({"mail": ["alice"]}, is_secret=True)
