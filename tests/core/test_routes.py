"""Routes: a record's kind is a function of the received bytes, and a declaration that no record could follow is refused."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from strandline.core.errors import DefinitionError
from strandline.core.routes import (
    KIND,
    KIND_BY,
    AllBut,
    KindBy,
    all_but,
    declared_now,
    field,
    found_now,
    header,
    key_prefix,
    schema_id,
    shared,
    with_kind,
)
from strandline.core.table import Ingested, Judged
from strandline.core.topic import NOTHING_ARRIVED, RECEIVED, Topic
from tests.support.rows import NOON

Record = tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]]]


def frame(spark: SparkSession, records: list[Record], topic: str = "shop") -> DataFrame:
    """Return records (key, payload, headers) as rows of bronze."""
    rows = [
        (topic, 0, offset, NOON, key, payload, headers, 0, NOON, NOTHING_ARRIVED)
        for offset, (key, payload, headers) in enumerate(records)
    ]
    return spark.createDataFrame(rows, RECEIVED)


def kinds(spark: SparkSession, by: KindBy, records: list[Record]) -> list[str | None]:
    """Return the kind of each record."""
    found = frame(spark, records).select("_offset", found_now({"shop": by}).alias("kind"))
    return [row["kind"] for row in found.orderBy("_offset").collect()]


PAYLOADS: dict[str, tuple[bytes | None, str | None]] = {
    "plain": (b'{"type": "click"}', "click"),
    "beside others": (b'{"a": [1, {"type": "no"}], "type": "click", "z": {}}', "click"),
    "a number": (b'{"type": 7}', "7"),
    "umlauts": ('{"type": "Käufe"}'.encode(), "Käufe"),
    "escaped": (rb'{"type": "cl\u0069ck"}', "click"),
    "the last of two": (b'{"type": "a", "type": "click"}', "click"),
    "text behind it": (b'{"type": "click"} and more', "click"),
    "200 letters": (b'{"type": "%s"}' % (b"x" * 200), "x" * 200),
    "201 letters": (b'{"type": "%s"}' % (b"x" * 201), None),
    "a megabyte": (b'{"type": "%s"}' % (b"x" * 1_000_000), None),
    "empty": (b'{"type": ""}', None),
    "null": (b'{"type": null}', None),
    "absent": (b'{"typ": "click"}', None),
    "within another": (b'{"meta": {"type": "click"}}', None),
    "a line break": (rb'{"type": "cl\nick"}', None),
    "an escape of a terminal": (rb'{"type": "\u001b[31mclick"}', None),
    "a line separator": (rb'{"type": "cl\u2028ick"}', None),
    "cut": (b'{"type": "click", "amount": ', None),
    "single quotes": (b"{'type': 'click'}", None),
    "a list": (b'[{"type": "click"}]', None),
    "no JSON": (b"click", None),
    "bytes that are no text": (b'{"type": "\xff\xfe"}', None),
    "a tombstone": (None, None),
    "nothing": (b"", None),
    "brackets without end": (b"[" * 100_000, None),
}


def test_a_field_of_the_payload_says_the_kind(spark: SparkSession) -> None:
    """What is no short, plain text is none, and nothing ends the stream."""
    found = kinds(spark, field("type"), [(None, payload, []) for payload, _ in PAYLOADS.values()])

    assert dict(zip(PAYLOADS, found, strict=True)) == {n: kind for n, (_, kind) in PAYLOADS.items()}


def test_a_field_within_another_says_it_as_well(spark: SparkSession) -> None:
    """By the names on the way to it, whatever signs they have."""
    payloads = [
        b'{"meta": {"the type": "click"}}',
        b'{"meta": "text"}',
        b'{"meta": {"the type": {"a": 1}}}',
    ]

    found = kinds(spark, field("meta", "the type"), [(None, each, []) for each in payloads])

    assert found == ["click", None, '{"a":1}']


def test_a_header_says_it(spark: SparkSession) -> None:
    """Of several of a name the last, as Kafka's own clients read it."""
    headers: list[list[tuple[str, bytes | None]]] = [
        [("kind", b"a"), ("other", b"x"), ("kind", b"click")],
        [("other", b"click")],
        [("kind", None)],
        [("kind", b"\xff")],
        [],
    ]

    found = kinds(spark, header("kind"), [(None, None, each) for each in headers])

    assert found == ["click", None, None, None, None]


def test_the_begin_of_a_key_says_it(spark: SparkSession) -> None:
    """A key without the sign has no kind: to take all of it would make one of each customer's number."""
    keys = [b"click:17:2", b"click", b":17", None, b"\xff:1"]

    found = kinds(spark, key_prefix(":"), [(key, b"{}", []) for key in keys])

    assert found == ["click", None, None, None, None]


def test_the_number_of_a_schema_says_it(spark: SparkSession) -> None:
    """It is written in four bytes before the payload."""
    payloads = [b"\0\0\0\0\x11xyz", b"\0\xff\xff\xff\xff", b"\0\0\0\0", b"\1\0\0\0\x11", b"", None]

    found = kinds(spark, schema_id(), [(None, each, []) for each in payloads])

    assert found == ["17", "4294967295", None, None, None, None]


def test_a_topic_without_a_declaration_is_a_kind_by_itself(spark: SparkSession) -> None:
    """So that a table of bronze may read topics of both sorts; what is of none of them any more is read as the first."""
    by = {"shop": field("type"), "payments": None}
    rows = frame(spark, [(None, b'{"type": "click"}', [])]).unionByName(
        frame(spark, [(None, b'{"type": "click"}', [])], topic="payments")
    )
    rows = rows.unionByName(frame(spark, [(None, b'{"type": "old"}', [])], topic="retired"))

    found = rows.select("_topic", found_now(by).alias("k"), declared_now(by).alias("by")).collect()

    assert {row["_topic"]: (row["k"], row["by"]) for row in found} == {
        "shop": ("click", "field('type')"),
        "payments": ("payments", "topic"),
        "retired": ("old", "field('type')"),
    }


def test_what_bronze_kept_is_believed_only_by_the_declaration_of_today(spark: SparkSession) -> None:
    """What was kept by another one, or before there was any, is asked again."""
    rows = frame(spark, [(None, b'{"type": "click", "kind": "order"}', [])] * 3).withColumns(
        {
            KIND: F.element_at(
                F.array(*map(F.lit, ("kept", "kept", "kept"))), F.col("_offset").cast("int") + 1
            ),
            KIND_BY: F.when(F.col("_offset") == 0, "field('kind')").when(
                F.col("_offset") == 1, "field('type')"
            ),
        }
    )

    def read(by: KindBy) -> list[str]:
        return [row[KIND] for row in with_kind(rows, {"shop": by}).orderBy("_offset").collect()]

    assert read(field("kind")) == ["kept", "order", "order"]
    assert read(field("type")) == ["click", "kept", "click"]
    assert KIND_BY not in with_kind(rows, {"shop": field("kind")}).columns
    again = with_kind(with_kind(rows, {"shop": field("kind")}), {"shop": field("type")})
    assert [row[KIND] for row in again.orderBy("_offset").collect()] == ["kept", "order", "order"]


def _same(rows: DataFrame) -> DataFrame:
    return rows


BRONZE = Ingested(name="shop", reads=(Topic(name="shop", kind=field("type")),))
PLAIN = Ingested(name="shop", reads=(Topic(name="shop"),))
CLICKS = Judged(
    name="clicks", reads=(BRONZE,), transform=_same, key=("id",), event_at="at", takes="click"
)


@pytest.mark.parametrize(
    ("declare", "says"),
    [
        (field, "says nothing by which kinds differ"),
        (lambda: field("a", ""), "says nothing by which kinds differ"),
        (lambda: header(""), "says nothing by which kinds differ"),
        (lambda: key_prefix(""), "says nothing by which kinds differ"),
        (lambda: Topic(name="shop", kind="type"), "does not say how kinds differ"),  # type: ignore[arg-type]
        (lambda: replace(CLICKS, takes=()), "does not say which kinds it takes"),
        (lambda: replace(CLICKS, takes=["click"]), "which is no kind"),  # type: ignore[arg-type]
        (lambda: replace(CLICKS, takes=("click", 3)), "which is no kind"),
        (lambda: replace(CLICKS, takes=("click", "")), "which no kind can be"),
        (lambda: replace(CLICKS, takes="x" * 201), "which no kind can be"),
        (lambda: replace(CLICKS, takes=("a", "a")), "names 'a' twice"),
        (lambda: replace(CLICKS, takes=all_but("a", "a")), "names 'a' twice"),
        (lambda: replace(CLICKS, also="click"), "in `takes` and in `also`"),
        (lambda: replace(CLICKS, also=all_but()), "in `takes` and in `also`"),
        (lambda: replace(CLICKS, takes=all_but("a"), also="b"), "in `takes` and in `also`"),
        (lambda: replace(CLICKS, takes="a\n"), "which no kind can be"),
        (lambda: replace(CLICKS, takes=None), "which is no kind"),  # type: ignore[arg-type]
        (lambda: replace(CLICKS, reads=(PLAIN,)), "does not say how kinds differ"),
        (lambda: replace(PLAIN, leaves="click"), "does not say how kinds differ"),
        (lambda: replace(BRONZE, leaves=("a", "a")), "names 'a' twice"),
    ],
)
def test_a_plain_mistake_has_a_sentence_and_a_hint(
    declare: Callable[[], object], says: str
) -> None:
    """Before anything is started."""
    with pytest.raises(DefinitionError, match=says) as error:
        declare()

    assert error.value.hint


def test_a_table_may_read_what_another_accounts_for() -> None:
    """It is counted apart, and needs nothing of its own."""
    table = replace(CLICKS, takes=(), also=("click", "visit"))

    assert (table.takes_in_words, table.taken) == (
        "; also 'click', 'visit'",
        ((), ("click", "visit")),
    )


@pytest.mark.parametrize(
    ("first", "second", "both"),
    [
        (("a",), ("b",), None),
        (("a", "b"), ("c", "b"), "b"),
        (("a",), AllBut(("a", "b")), None),
        (("a", "c"), AllBut(("a", "b")), "c"),
        (AllBut(("a",)), AllBut(("b",)), ""),
    ],
)
def test_which_kind_two_tables_take(first: object, second: object, both: str | None) -> None:
    """In whichever order they are asked."""
    assert shared(first, second) == both  # type: ignore[arg-type]
    assert shared(second, first) == both  # type: ignore[arg-type]
