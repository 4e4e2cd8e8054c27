"""Drafts of tables by what records are like: each loads, passes its own test, and takes the records that it was drafted from.

The topics are those of strangers (tests/support/foreign_topics.py), written before the drafter, with the declaration of a person.
"""

import ast
import csv
import importlib
import json
import random
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from inspect import signature
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    LongType,
    MapType,
    StringType,
    StructType,
    TimestampType,
)
from strandline import Scenarios

from strandline.core.errors import DefinitionError
from strandline.engine.ask.locate import Sample, Seen
from strandline.operate.drafts.draft import bronze_module, seen_of_rows, table_name
from strandline.operate.drafts.draft_table import Draft, draft, silver, silver_test
from strandline.operate.drafts.sampled_fields import fits, read_json
from strandline.operate.drafts.sampled_topic import Format, Look, format_of, kind_of, look
from strandline.operate.drafts.scaffold import takes_line
from strandline.operate.session import judge
from tests.support.foreign_topics import BEGIN, COPIES, FOREIGN, Foreign

COUNT = 3_000
NAMES = [each.topic for each in FOREIGN]


def sampled(payloads: Sequence[bytes | None], topic: str = "foreign") -> Sample:
    """Return payloads as a sample of a topic; one arrived each second."""
    records = [
        Seen(
            topic=topic, arrived_at=BEGIN.replace(minute=n // 60 % 60, second=n % 60), payload=each
        )
        for n, each in enumerate(payloads)
    ]
    return Sample(records=records, held=len(records), place=f"topic {topic}", partitions=4)


def of_json(*records: Mapping[str, Any]) -> Look:
    return look(sampled([json.dumps(each).encode() for each in records]))


@cache
def looked(topic: str) -> tuple[Look, Draft]:
    """Return what was seen of all kinds of a topic, and the draft of one."""
    foreign = next(each for each in FOREIGN if each.topic == topic)
    records = [
        Seen(topic=foreign.topic, arrived_at=r.arrived_at, payload=r.payload, headers=r.headers)
        for r in foreign.records(COUNT, seed=1)
    ]
    sample = Sample(records=records, held=len(records), place=foreign.topic, partitions=4)
    whole = one = look(sample)
    if whole.kinds and foreign.takes:
        by = whole.kinds.by
        chosen = [each for each in records if kind_of(each, by, whole.decode) == foreign.takes]
        one = look(replace(sample, records=chosen))
    name = table_name(foreign.takes or foreign.topic)
    source = table_name(foreign.topic)
    return whole, draft(name, source, one, takes=foreign.takes, by=foreign.kind)


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of a package without tables, which Python finds."""
    name = f"drafts_{tmp_path.name.replace('-', '_')}"
    root = tmp_path / name
    for folder in (root, root / "bronze", root / "silver", tmp_path / "tests"):
        folder.mkdir()
        (folder / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    return root


def loaded(root: Path, made: Draft, whole: Look, topic: str) -> tuple[ModuleType, ModuleType]:
    """Write the modules of a draft, and return that of silver and its test."""
    (root / "bronze" / f"{made.source}.py").write_text(bronze_module(made.source, topic, whole))
    (root / "silver" / f"{made.name}.py").write_text(silver(made, root.name))
    (root.parent / f"of_{root.name}.py").write_text(silver_test(made, root.name))
    importlib.invalidate_caches()
    module = importlib.import_module(f"{root.name}.silver.{made.name}")
    return module, importlib.import_module(f"of_{root.name}")


@pytest.mark.stream_modes("catch-up")
@pytest.mark.parametrize("foreign", FOREIGN, ids=NAMES)
def test_a_draft_passes_its_test_and_holds_what_it_said(
    foreign: Foreign, written: Path, spark: SparkSession, stream: Scenarios
) -> None:
    """Judged by the strict reader: what could not be read is malformed, what has another type is held, all others are rows."""
    whole, made = looked(foreign.topic)
    module, test = loaded(written, made, whole, foreign.topic)

    test.test_a_clean_payload_is_a_row(stream)
    payloads = [each.payload for each in made.look.sample.records[:600] if each.payload]
    last = made.look.sample.records[599].arrived_at or BEGIN
    headers = {"x-event": foreign.takes.encode()}
    rows = judge(spark, module.TABLE, *payloads, arrived_at=last, headers=headers)

    reasons = [tuple(row["reasons"] or ()) for row in rows]
    few = draft(
        made.name,
        made.source,
        look(replace(made.look.sample, records=made.look.sample.records[:600])),
    )
    # A payload that is no JSON has no kind in it, and so no table.
    unread = 0 if "field" in foreign.kind else few.look.unread
    assert sum(each == ("malformed",) for each in reasons) == unread
    assert {each for each in reasons if each} <= {("malformed",)}
    assert made.held() == 0


@pytest.mark.parametrize("foreign", FOREIGN, ids=NAMES)
def test_a_draft_is_nearly_what_a_person_declares(foreign: Foreign) -> None:
    """Differences are named; a decimal in place of a double is exact where the person was not."""
    whole, made = looked(foreign.topic)
    by_hand = foreign.by_hand
    types = {each.name: each.dataType.simpleString() for each in made.fields}

    differ = {
        name: types.get(name) for name, kind in by_hand.types.items() if types.get(name) != kind
    }
    assert differ == DIFFER.get(foreign.topic, {})
    assert ((made.key_column,) if made.key else ()) == by_hand.key
    assert made.event_at == by_hand.event_at
    assert set(by_hand.required) <= set(made.required)
    assert set(made.sensitive) == set(by_hand.sensitive)
    assert (whole.kinds.by if whole.kinds else "") == foreign.kind
    assert made.look.copies > COPIES * made.look.count / 4


DIFFER = {"zeek-dhcp": {"duration": "decimal(15,6)", "lease_time": "decimal(15,1)"}}


ODD = [
    "class", "def", "a b", "a.b", "id.orig_h", "Ünïcode", "日本", "", "`", "a`b", "_topic", "_offset", "_PAYLOAD", "_item",
    "_strict", "_problem", "_kind", "_id", "1st", "select", "order", "TABLE", "FIELDS", "events", "bronze", "a'b", 'a"b',
    "a\\b", "line\nbreak", "tab\t", "semi;colon", "x" * 300, "a", "A", "{", "$", "%", "#", "a-b", "a_b", "event_at", "None",
]  # fmt: skip


@pytest.mark.stream_modes("catch-up")
def test_a_field_of_any_name_gives_a_module_that_loads_and_reads(
    written: Path, spark: SparkSession, stream: Scenarios
) -> None:
    """Words of Python, dots, spaces, quotes, none at all, our own columns, and names that differ in their case alone."""
    records = [dict.fromkeys(ODD, f"v{n}") | {"id": f"i{n}"} for n in range(120)]
    nested = [{**each, "in": {name: 1 for name in ODD if name}} for each in records]
    whole = of_json(*nested)
    made = draft("odd", "foreign", whole)

    module, test = loaded(written, made, whole, "foreign")
    test.test_a_clean_payload_is_a_row(stream)
    (row,) = judge(spark, module.TABLE, json.dumps(nested[7]).encode(), arrived_at=BEGIN)

    assert row["reasons"] is None
    assert (row["class"], row["id_orig_h"], row["日本"]) == ("v7", "v7", "v7")
    assert {"", "`", "a`b", "_topic", "_offset", "_PAYLOAD", "_item"} <= set(made.left_out)


@pytest.mark.stream_modes("catch-up")
def test_a_record_of_300_fields_is_a_table(written: Path, stream: Scenarios) -> None:
    """Each is declared, and a rule demands forty of them."""
    records = [{f"field_{n}": n for n in range(300)} | {"event_id": f"e{k}"} for k in range(60)]
    whole = of_json(*records)
    made = draft("wide", "foreign", whole)

    module, test = loaded(written, made, whole, "foreign")
    test.test_a_clean_payload_is_a_row(stream)

    assert len(made.fields.fields) == 301
    assert len(module.TABLE.rules) == 40


SECRETS = {
    "email": "anna@mail.example",
    "contact": "+358 40 1234567",
    "source": "10.1.2.3",
    "device": "aa:bb:cc:dd:ee:ff",
    "paid_by": "4111 1111 1111 1111",
    "account": "FI2112345600000785",
    "first_name": "Anna",
    "user_id": "u-secret",
    "password": "hunter2",
    "customer": {"id": "c-secret", "orders": 4711},
    "signed": [{"mail": "berta@mail.example"}],
}


def test_what_looks_like_a_persons_is_masked_and_never_written() -> None:
    """By a name or by values, at any depth; neither the module nor its test has a value of the sample."""
    records = [{**SECRETS, "id": f"e{n}", "status": "new" if n % 2 else "paid"} for n in range(400)]
    whole = of_json(*records)
    made = draft("accounts", "foreign", whole)
    texts = silver(made, "shop") + silver_test(made, "shop") + bronze_module("foreign", "t", whole)

    assert set(made.sensitive) == set(SECRETS)
    values = [each for each in SECRETS.values() if isinstance(each, str)]
    shown = [each for each in [*values, "-secret", "4711", "berta"] if each in texts]
    assert not shown
    assert 'one_of("status", ["new", "paid"], on_fail=OnFail.WARN)' in texts


def test_a_record_of_3000_fields_is_drafted_in_seconds_and_the_rest_is_counted() -> None:
    """It took a minute, for what each row has was found anew for each field, and the fields beside each; a third of them were left out in silence."""
    records = [
        {f"field_{n}": f"v{n}" for n in range(3_000)}
        | {"at": f"v{k % 2}", "in": {f"x{n}": n % 7 for n in range(2_500)}}
        for k in range(60)
    ]
    begun = time.process_time()

    whole = of_json({"in": {}}, *records)
    made = draft("wide", "foreign", whole)
    text = silver(made, "shop")
    made.held()

    assert time.process_time() - begun < 12
    assert "1,002 more fields are left out: of one object 2,000 are looked at" in text
    assert "500 more fields are left out: of one object 2,000 are looked at" in text
    assert any("1,002 more" in each for each in seen_of_rows(made))


HOMES = [f"/{folder}/anna/x" for folder in ("home", "Users")]
HOME = "C:\\Users\\anna\\AppData\\Local\\Temp\\a folder of a rather long name\\x.exe"


@pytest.mark.parametrize(
    ("name", "values", "is_masked"),
    [
        ("ParentUser", ["NT AUTHORITY/SYSTEM", "SHOP/anna"], True),
        ("run_as_user", ["root", "anna"], True),
        ("file_owner", ["anna", "berta"], True),
        ("CurrentDirectory", ["/srv/a", "/srv/b"], True),
        ("cwd", ["/srv/a", "/srv/b"], True),
        ("Image", ["/usr/bin/x"] * 40 + [HOME], True),
        ("path", [HOMES[0], "/srv/b"], True),
        ("path", [HOMES[1], "/srv/b"], True),
        ("path", ["/srv/a", "/homepage", "/users/42", "/users/43"], False),
        ("url_path", ["/index.html", "/orders/1", HOMES[0]], False),
        ("user_agent", ["curl", "wget"], False),
        ("items_per_user", [1, 2], False),
        ("directory", ["/srv/a", "/srv/b"], False),
    ],
)
def test_who_ran_something_and_in_whose_folder_is_a_persons(
    name: str,
    values: Sequence[object],
    is_masked: bool,  # noqa: FBT001  # of the list
) -> None:
    """The name of an account is in the path to its home folder as well; one path in forty shows it."""
    records = [{"id": n, name: values[n % len(values)]} for n in range(410)]
    made = draft("processes", "foreign", of_json(*records))

    assert (name in made.sensitive) == is_masked
    assert not is_masked or "anna" not in silver(made, "shop") + silver_test(made, "shop")


@pytest.mark.parametrize(
    ("values", "is_remarked"),
    [(["12", "7"], True), (["0", "0.5", "-3"], True), (["007", "012"], False), (["12", "7", "04109"], False)],
)  # fmt: skip
def test_a_text_with_zeros_before_it_is_no_number(
    values: Sequence[str],
    is_remarked: bool,  # noqa: FBT001  # as above
) -> None:
    """A postcode or the number of an article would lose them by a cast."""
    made = draft(
        "orders",
        "foreign",
        of_json(*({"id": n, "code": values[n % len(values)]} for n in range(400))),
    )

    assert ("cast them" in silver(made, "shop")) == is_remarked
    assert "code" not in made.enums


@pytest.mark.parametrize(
    ("records", "key"),
    [
        ([{"id": n} for n in range(500)], "id"),
        ([{"orderId": f"o{n}"} for n in range(500)], "orderId"),
        ([{"meta": {"event_id": f"o{n}"}} for n in range(500)], "meta_event_id"),
        ([{"customer_id": n} for n in range(500)], None),
        ([{"customer_id": n} for n in range(2_000)], "customer_id"),
        ([{"customer_id": n % 1_990, "x": n} for n in range(2_000)], None),
        ([{"price": n, "city": f"c{n}"} for n in range(2_000)], None),
        ([{"id": n % 100, "x": n} for n in range(500)], None),
    ],
)
def test_a_key_is_chosen_where_name_and_values_agree(
    records: list[dict[str, Any]], key: str | None
) -> None:
    """Few records of customers all differ, and of an order's table an order's id is the event's."""
    made = draft("orders", "foreign", of_json(*records))

    assert (made.key_column or None) == key
    assert ("key=PLACE" in silver(made, "shop")) == (key is None)


@pytest.mark.parametrize(
    ("topic", "value", "key"),
    [
        ("prices", lambda n: 100_000 + 7 * n, None),
        ("balance_snapshots", lambda n: f"{n}.50", None),
        ("app_logs", lambda n: f"upstream {n} timed out", None),
        ("app_logs", lambda n: f"{n:065d}x", None),
        ("orders", lambda n: f"o-{n}", "order"),
        ("app_logs", lambda n: f"m-{n}" if n else "a line that a producer spoiled", "message"),
    ],
)
def test_a_field_with_the_name_of_its_events_is_the_key_where_its_values_are_names(
    topic: str, value: Callable[[int], object], key: str | None
) -> None:
    """By a price or by the text of a log, events that differ would be copies of each other, and lost."""
    name = {"prices": "price", "balance_snapshots": "balance", "app_logs": "message"}
    records = [{name.get(topic, "order"): value(n), "x": n % 9} for n in range(2_000)]
    made = draft(topic, topic, of_json(*records))

    assert (made.key_column or None) == key
    assert ("key=PLACE" in silver(made, "shop")) == (key is None)


def test_an_enum_has_no_days_and_no_times() -> None:
    """Of them there are few in any sample, and those of the next day would all be warned of."""
    records = [
        {"id": n, "day": f"2026-11-2{n % 3}", "hour": f"2026-11-20T0{n % 3}:00:00Z", "size": "SML"[n % 3]}
        for n in range(600)
    ]  # fmt: skip
    made = draft("orders", "foreign", of_json(*records))

    assert made.enums == {"size": ["L", "M", "S"]}


@pytest.mark.parametrize(
    ("numbers", "is_time"),
    [
        ([1_792_000_000_000 + n * 86_400_000 // 20 for n in range(500)], True),
        ([1_700_000_000_000 + n * 60_000 for n in range(500)], True),
        ([1_795_000_000 + n for n in range(500)], False),
        ([1_000_000_000_000 + n * 6_000_000_000 for n in range(500)], False),
        ([1_800_000_000_000 + n * 60_000 for n in range(500)], False),
        ([1_860_000_000_000_000_000 + n for n in range(500)], False),
    ],
    ids=["days ago", "years ago", "ids of ten digits", "numbers by chance", "of next year", "snowflakes"],
)  # fmt: skip
def test_milliseconds_of_one_year_are_a_time_whatever_their_name(
    numbers: list[int],
    is_time: bool,  # noqa: FBT001  # of the list
) -> None:
    """A topic that was filled again has no time near its arrival, and that of the arrival would be wrong for each row."""
    made = draft("orders", "foreign", of_json(*({"asOf": n} for n in numbers)))

    assert (made.event_at == "event_at") == is_time
    assert (made.moment is not None) == is_time


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([1, 2, 2**40], "bigint"),
        ([2**70, 1], "double"),
        ([1, 2.5], "decimal(15,1)"),
        ([9.95, 10], "decimal(15,2)"),
        ([0.1 + 0.2], "double"),
        ([123456789012.1234], "double"),
        ([True, False, None], "boolean"),
        (["2026-11-20T08:15:30Z", "2026-11-20 08:15:30.123+02:00"], "timestamp"),
        (["2026-11-20", None], "date"),
        (["2026-11-20", "2026-13-20"], "string"),
        (["12", "x"], "string"),
        ([1, "x"], None),
        ([None], None),
        ([[]], None),
        ([[1], [], [2.5]], "array<decimal(15,1)>"),
        ([{"a": {"b": [{"c": 1}]}}, {"a": {}}], "struct<a:struct<b:array<struct<c:bigint>>>>"),
        ([{"a": 1, "b": None}], "struct<a:bigint>"),
        ([{}], None),
    ],
)
def test_a_type_is_one_that_takes_each_value(values: list[Any], kind: str | None) -> None:
    """Or there is none, and the field is left to a person."""
    made = draft(
        "orders", "foreign", of_json(*({"id": n, "x": each} for n, each in enumerate(values)))
    )
    types = {each.name: each.dataType.simpleString() for each in made.fields}

    assert types.get("x") == kind
    assert ("x" in made.left_out) == (kind is None)


def test_a_few_spoiled_values_change_no_type_and_are_counted() -> None:
    """A real topic has some; with more of them no type is chosen."""
    clean = [{"id": n, "qty": 1} for n in range(990)]
    few = draft(
        "orders", "foreign", of_json(*clean, *({"id": n, "qty": "one"} for n in range(990, 1_000)))
    )
    more = draft(
        "orders", "foreign", of_json(*clean, *({"id": n, "qty": "one"} for n in range(990, 1_100)))
    )

    assert few.fields["qty"].dataType == LongType()
    assert few.held() == 10
    assert "qty" in more.left_out
    assert "a whole number in 90 %, a text in 10 %" in silver(more, "shop")


def test_lists_and_maps_are_named_and_not_chosen() -> None:
    """That a record is several rows is a decision about the table's grain."""
    records = [
        {"id": n, "items": [{"sku": "a"}], "words": {f"w{n}": 1, f"v{n}": 2}} for n in range(100)
    ]
    made = draft("orders", "foreign", of_json(*records))
    text = silver(made, "shop")

    assert made.fields["words"].dataType == MapType(StringType(), LongType())
    assert "makes a row of each item" in text
    assert "    rows=" not in text


FORMS: list[tuple[list[bytes | None], Format]] = [
    ([b'{"a": 1}', b"broken"] + [b'{"a": 1}'] * 20, Format.JSON),
    ([b"1,2,x"] * 10, Format.CSV),
    ([b"\0\0\0\0\7abc"] * 10, Format.REGISTERED),
    ([b"\xff\xfe"] * 10, Format.RAW),
    ([b"a line of a log"] * 10, Format.RAW),
    ([b'{"a": 1.5, "b": 1}', b'{"a": NaN, "b": 2}'] * 10, Format.JSON),
    ([b'{"a": NaN, "b": 1}'] * 10, Format.RAW),
    ([b'[{"a": 1}, {"a": 2}]'] * 10, Format.RAW),
    ([b'"{""a"": 1}",2'] * 10, Format.CSV),
    ([None] * 10, Format.RAW),
    ([b'{"op": "c", "source": {}, "after": {"id": 1}}'] * 10, Format.DEBEZIUM),
]


@pytest.mark.parametrize(("payloads", "form"), FORMS, ids=[str(form) for _, form in FORMS])
def test_the_format_is_that_of_nearly_all_payloads(
    payloads: list[bytes | None], form: Format
) -> None:
    """JSON, lines of cells, a registry's, or none that is read as fields."""
    assert format_of(sampled(payloads).records) is form


@pytest.mark.parametrize("line", ["e{n},2026-11-20T08:00:00Z,{n},", "a line {n} of a log"])
def test_the_format_of_4000_lines_is_found_in_seconds(line: str) -> None:
    """It took minutes: of each line the width of all was counted anew."""
    records = sampled([line.format(n=n).encode() for n in range(4_000)]).records
    begun = time.monotonic()

    assert format_of(records) in {Format.CSV, Format.RAW}
    assert time.monotonic() - begun < 15


@pytest.mark.parametrize(
    "payloads",
    [
        [f"e{n},2026-11-20T08:00:{n % 60:02d}Z,{n / 4},".encode() for n in range(200)],
        [b"\xff\xfe%d" % n for n in range(200)],
        [b'{"op": "u", "source": {"ts_ms": 1795161600000, "lsn": %d}, "after": {"id": %d, "name": "x"}}' % (n, n) for n in range(200)],
    ],
    ids=["csv", "raw", "debezium"],
)  # fmt: skip
@pytest.mark.stream_modes("catch-up")
def test_a_draft_of_another_format_passes_its_test(
    payloads: list[bytes], written: Path, spark: SparkSession, stream: Scenarios
) -> None:
    """And takes the records that it was drafted from."""
    whole = look(sampled(payloads))
    made = draft("orders", "foreign", whole)
    module, test = loaded(written, made, whole, "foreign")

    for name in [each for each in vars(test) if each.startswith("test_")]:
        given = {"spark": spark, "stream": stream}
        asks = signature(each := getattr(test, name)).parameters
        each(*(given[word] for word in asks))
    rows = judge(spark, module.TABLE, *payloads[:20], arrived_at=BEGIN.replace(minute=5))

    assert {str(row["reasons"]) for row in rows} == {"None"}


HUGE = [b'{"id": %d, "price": %d.5}' % (n, n) for n in range(400)]
PLAIN: list[tuple[str, list[bytes]]] = [
    ("a number of many digits", [b'{"id": %d, "price": -1%s}' % (n, b"0" * 400) for n in range(9)]),
    ("a number with an exponent", [*HUGE, b'{"id": 999, "price": 1e9999999}']),
    ("a small one", [*HUGE, b'{"id": 999, "price": 1e-9999999}']),
]


@pytest.mark.parametrize("payloads", [each for _, each in PLAIN], ids=[name for name, _ in PLAIN])
def test_of_any_record_there_is_a_draft(payloads: list[bytes]) -> None:
    """Whatever a producer sends: nothing that a library takes no further ends it."""
    made = draft("orders", "foreign", look(sampled(payloads)))

    assert made.held() in {0, 1}
    ast.parse(silver(made, "shop"))
    ast.parse(silver_test(made, "shop"))


def test_a_line_of_more_letters_than_a_cell_may_have_is_no_csv() -> None:
    """The limit is that of Python, which another module of the process may have raised."""
    before = csv.field_size_limit(1_000)
    try:
        assert format_of(sampled([b"x" * 2_000, b"a,b"]).records) is Format.RAW
    finally:
        csv.field_size_limit(before)


def test_a_kind_has_no_sign_that_moves_a_cursor() -> None:
    """Neither that of a field nor the begin of a key, which is printed, and written into the module."""
    odd = "\x1b]0;x\x07\u202eevil"
    keys = [f"{odd if n % 2 else 'order'}:{n}".encode() for n in range(400)]
    fields = [{"page": n} if n % 2 else {"sku": n} for n in range(400)]
    records = [
        Seen(topic="t", arrived_at=BEGIN, payload=json.dumps(each).encode(), key=key)
        for each, key in zip(fields, keys, strict=True)
    ]
    whole = look(Sample(records=records, held=400, place="t", partitions=4))

    assert not [label for by in whole.labels.found.values() for label in by if odd in label]
    assert all(line.isprintable() for line in bronze_module("t", "t", whole).split("\n"))


@pytest.mark.parametrize("name", ["ty\\pe", "it's 'x'", 'say "x"', "both ' and \"", "a\nb"])
def test_a_kind_is_declared_by_a_name_of_any_letters(name: str) -> None:
    """As it is: the module loads, and names the header that the records have."""
    records = [
        Seen(
            topic="t",
            arrived_at=BEGIN,
            payload=json.dumps({("page" if n % 2 else "sku"): n}).encode(),
            headers=((name, b"view" if n % 2 else b"buy"),),
        )
        for n in range(400)
    ]
    whole = look(Sample(records=records, held=400, place="t", partitions=4))
    module = ast.parse(bronze_module("foreign", "t", whole))

    assert whole.kinds
    (call,) = (
        n for n in ast.walk(module) if isinstance(n, ast.Call) and ast.unparse(n.func) == "header"
    )
    assert ast.literal_eval(call.args[0]) == name


def test_a_kind_that_is_typed_is_a_text_of_the_draft() -> None:
    """Quotes are its own, and what SQL has no words for is refused there."""
    kind = 'a"b\\'
    line = takes_line(kind, in_sql=False)

    assert ast.literal_eval(line.strip().removeprefix("takes=").removesuffix(",")) == (kind,)
    assert takes_line("order.v1", in_sql=True) == "-- takes: order.v1\n"
    assert takes_line("", in_sql=True) == takes_line("", in_sql=False) == ""
    for each in ("x\nDROP", "two words", "a,b", 'a"b', "x\u202e"):
        with pytest.raises(DefinitionError, match="cannot be written in the head"):
            takes_line(each, in_sql=True)


def test_the_kinds_of_a_topic_are_found_by_what_decides_about_its_fields() -> None:
    """A status decides about nothing; a type does, also within an object, as a number, or the begin of the key."""
    plain = of_json(
        *({"id": n, "status": ("new", "paid")[n % 2], "type": "order"} for n in range(400))
    )
    nested = of_json(
        *(
            {"meta": {"type": "click"}, "page": 1} if n % 2 else {"meta": {"type": "buy"}, "sku": 2}
            for n in range(400)
        )
    )
    number = of_json(*({"event_type": n % 2, ("page" if n % 2 else "sku"): 1} for n in range(400)))

    assert plain.kinds is None
    assert nested.kinds is not None
    assert nested.kinds.by == "field('meta', 'type')"
    assert number.kinds is not None
    assert number.kinds.by == "field('event_type')"


MADE: list[tuple[dict[str, Any], str, str]] = [
    ({"meta": {"event-id": "const", "event_id": "e{n}"}}, "key=", 'F.col("meta.event_id_2")'),
    ({"meta": {"event_id": "e{n}", "event-id": "const"}}, "key=", 'F.col("meta.event_id")'),
    ({"event": {"id": "e{n}"}, "event_id": "const"}, "key=", '"event_id_2": F.col("event.id")'),
    ({"meta": {"id": "e{n}"}, "meta_id": "c", "meta_id_2": "d"}, "key=", '"meta_id_3": F.col("meta.id")'),
    ({"id": "e{n}", "ts": 1795161600, "event_ms": 1795161600000}, 'event_at="event_at"', '"event_at_2": F.when('),
    ({"id": "e{n}", "event_at": "x", "event_at_2": "y", "ts": 1795161600}, 'event_at="event_at_3"', '"event_at_3": F.when('),
]  # fmt: skip


@pytest.mark.parametrize(("record", "declares", "made"), MADE, ids=[each for *_, each in MADE])
def test_a_made_column_has_a_name_of_its_own(
    record: dict[str, Any], declares: str, made: str
) -> None:
    """And is made of the value that was meant: names within objects are those that the draft gives them."""
    records = [json.loads(json.dumps(record).replace("{n}", str(n))) for n in range(500)]
    found = draft("events", "foreign", of_json(*records))
    text = silver(found, "shop")

    assert made in text
    assert declares in text
    columns = [*found.names.values(), *found.times]
    columns += [found.key_column] if found.key and len(found.key.place.path) > 1 else []
    assert len(columns) == len(set(columns))
    assert f'key=("{found.key_column}",)' in text


def test_a_topic_of_history_is_believed_as_history() -> None:
    """Rows of years ago would all be late; of some hours a bound admits them."""
    old = draft(
        "orders", "foreign", of_json(*({"id": n, "at": "2019-01-01T08:00:00Z"} for n in range(200)))
    )
    late = draft(
        "orders", "foreign", of_json(*({"id": n, "at": "2026-11-20T04:00:00Z"} for n in range(200)))
    )

    assert "believes_history=True" in silver(old, "shop")
    assert "lateness=Lateness(late=timedelta(hours=6)" in silver(late, "shop")


TYPES: list[DataType] = [
    StringType(), LongType(), DoubleType(), BooleanType(), DecimalType(15, 2), DecimalType(15, 6), TimestampType(), DateType(),
    ArrayType(LongType()), MapType(StringType(), DecimalType(15, 1)), StructType().add("a", LongType()),
]  # fmt: skip
VALUES = [
    "null", "true", "1", "-1", "0", "1.0", "1.5", "2.25", "1.239", "1e3", "1E-3", "0.1", "123456789012345", "9223372036854775807",
    "9223372036854775808", "1234567890123.12", "12345678901234.12", '"x"', '""', '"1"', '"2026-11-20T08:15:30Z"',
    '"2026-11-20 08:15:30"', '"2026-11-20T08:15:30.123456789+05:30"', '"2026-11-20T08:15:30-23:00"', '"2026-11-20T24:00:00Z"',
    '"2026-02-29T08:00:00Z"', '"2026-02-29"', '"2026-11-20"', '"2026-11-20T08:15:60Z"', '"2024-02-29T08:00:00.1Z"', "[]", "[1]",
    '["a"]', "[null]", "[1.5]", "{}", '{"a": 1}', '{"a": "x"}', '{"b": 1.5}', '{"a": null}', '{"a": 1.25}',
]  # fmt: skip


def test_what_fits_a_type_is_what_the_strict_reader_takes(spark: SparkSession) -> None:
    """Whatever is said to fit must be read; each value of the list by each type, and numbers drawn by chance."""
    seed = random.randrange(10**6)  # noqa: S311  # no secret
    chance = random.Random(seed)  # noqa: S311  # as above
    drawn = [f"{chance.uniform(-1e6, 1e6):.{chance.randrange(9)}f}" for _ in range(200)]
    payloads = [f'{{"v": {value}}}' for value in [*VALUES, *drawn]]
    rows = spark.createDataFrame(
        [(each.encode(), each) for each in payloads], "_payload binary, text string"
    )

    for kind in TYPES:
        declared = StructType().add("v", kind)
        read = F.call_function("strict_json", "_payload", F.lit(declared.json()))
        found = {
            row["text"]: row["p"]
            for row in rows.select("text", read["_problem"].alias("p")).collect()
        }
        ours = {each: fits((read_json(each.encode()) or {})["v"], kind) for each in payloads}
        wrong = [each for each in payloads if ours[each] and found[each] is not None]
        missed = [each for each in payloads if not ours[each] and found[each] is None]
        assert not wrong, (seed, kind, wrong)
        # What is more than is promised: forms of times that the reader knows and a draft does not.
        assert isinstance(kind, DateType) or all("20" in each for each in missed), (
            seed,
            kind,
            missed,
        )


@pytest.mark.whole
@pytest.mark.parametrize("foreign", FOREIGN, ids=NAMES)
def test_a_draft_keeps_the_house_style(foreign: Foreign, written: Path) -> None:
    """A stranger's linter and formatter have nothing to say about it."""
    whole, made = looked(foreign.topic)
    loaded(written, made, whole, foreign.topic)

    for words in (
        ("check", "--no-cache", "--isolated"),
        ("format", "--check", "--isolated", "--line-length", "100", "--no-cache"),
    ):
        done = subprocess.run(  # words of our own
            [sys.executable, "-m", "ruff", *words],
            capture_output=True, text=True, check=False, cwd=written.parent,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
