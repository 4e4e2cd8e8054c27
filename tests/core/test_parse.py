"""A payload is one JSON object of the declared fields, or it gets the reason why not."""

from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import DecimalType, LongType, StringType, StructType, TimestampType

from fleet.play.plan import MALFORMED, MISSING, UNKNOWN_FIELD, WRONG_TYPE
from strandline.core.errors import DefinitionError
from strandline.core.parse import parse_json
from tests.support.events import frame, reading
from tests.support.payloads import CLEAN, Parse, problems

SALTS = (0, 1, 57, 10**9)


@pytest.mark.whole
def test_every_kind_of_dirt_gets_exactly_its_reason(parsed: Parse) -> None:
    """The truth file of the playground promises these reasons, to the last event."""
    cases = {
        (variant.name, salt): (variant.spoil(CLEAN, salt), variant.reason)
        for variant in (*MALFORMED, *WRONG_TYPE, *UNKNOWN_FIELD)
        for salt in SALTS
    }

    found = problems(parsed([payload for payload, _ in cases.values()]))

    assert dict(zip(cases, found, strict=True)) == {n: why for n, (_, why) in cases.items()}


@pytest.mark.whole
def test_an_absent_field_is_null_and_no_problem_of_the_payload(parsed: Parse) -> None:
    """Whether a value may be missing is decided by the rules; the parser only reads."""
    bare = b'{"event_id": "e1"}'

    found = parsed([*(variant.spoil(CLEAN, 0) for variant in MISSING), bare, b"{}"])

    assert set(problems(found)) == {None}
    for variant, row in zip(MISSING, found, strict=False):
        assert row[str(variant.reason).removeprefix("missing:")] is None
        assert row["meta"] == {"firmware": "1.4.2", "seq": 17}
    assert (found[-2]["event_id"], found[-2]["value"], found[-2]["meta"]) == ("e1", None, None)


@pytest.mark.whole
def test_an_optional_field_may_be_absent_null_or_empty_at_any_depth(parsed: Parse) -> None:
    """A field that is absent is no dirt, at any depth."""
    metas: list[Any] = [None, {}, {"seq": 3}, {"firmware": None, "seq": None}, {"firmware": ""}]
    payloads = [reading(meta=meta) for meta in metas]
    payloads.append(CLEAN.replace(b'{"firmware": "1.4.2", "seq": 17}', b"null"))

    found = parsed(payloads)

    assert set(problems(found)) == {None}
    read = [(row["meta"] or {}).get("firmware") for row in found]
    assert read == [None, None, None, None, "", None]
    assert found[2]["meta"] == {"firmware": None, "seq": 3}


def test_a_decimal_that_a_double_cannot_hold_is_refused_when_it_is_declared(
    spark: SparkSession,
) -> None:
    """Better no table than one whose sums are wrong in the last digit."""
    wide = StructType().add("meta", StructType().add("total", DecimalType(16, 2)))

    with pytest.raises(DefinitionError) as caught:
        parse_json(frame(spark, []), wide)

    assert caught.value.fields == {"field": "total"}


@pytest.mark.whole
def test_the_last_of_two_equal_names_counts(parsed: Parse) -> None:
    """JSON leaves it open; Python, Jackson and browsers all take the last."""
    twice = CLEAN.replace(b'"event_id": "e1"', b'"event_id": "e0", "event_id": "e1"')
    then_null = CLEAN.replace(b'"event_id": "e1"', b'"event_id": "e1", "event_id": null')

    found = parsed([twice, then_null])

    assert [row["event_id"] for row in found] == ["e1", None]
    assert problems(found) == [None, None]


@pytest.mark.whole
def test_a_wrong_type_under_a_name_that_occurs_twice_is_noticed_in_either_place(
    parsed: Parse,
) -> None:
    """Spark's partial results would keep the readable one of the two; other readers see the last."""
    payloads = [
        CLEAN.replace(b"-21.37", b'-21.37, "value": "hot"'),
        CLEAN.replace(b"-21.37", b'"hot", "value": -21.37'),
    ]

    assert problems(parsed(payloads)) == ["wrong_type", "wrong_type"]


@pytest.mark.whole
def test_an_unknown_field_may_have_any_value_and_a_name_of_ours(
    parsed: Parse,
) -> None:
    """Names within a payload are free; a field absent may change nothing."""
    marks = (b"5", b"null", b'"text"', b"{}", b"[1]", b"1e999")
    full = [CLEAN.replace(b"{", b'{"_end": ' + mark + b", ", 1) for mark in marks]
    partial = [payload.replace(b', "seq": 17', b"") for payload in full]

    found = problems(parsed([*full, *partial]))

    assert found[: len(marks)] == found[len(marks) :]
    assert len(set(found)) == 1


@pytest.mark.whole
def test_names_differ_in_case_and_the_engine_s_own_names_are_free(parsed: Parse) -> None:
    """A payload may call its fields as it likes without reaching our columns."""
    payload = CLEAN.replace(
        b"{",
        b'{"_problem": "x", "_text": 1, "_hash": 2, "_pair": 3, "_first": {}, "_corrupt": "y", '
        b'"EVENT_ID": "other", ',
        1,
    )

    (row,) = parsed([payload])

    assert (row["_problem"], row["event_id"], row["_offset"]) == (None, "e1", 0)


@pytest.mark.whole
def test_fields_of_any_shape_are_read(parsed: Parse) -> None:
    """The parser belongs to every table, not to this one."""
    inner = StructType().add("at", TimestampType()).add("cost", DecimalType(9, 2))
    fields = (
        StructType()
        .add("a", StructType().add("b", inner))
        .add("n", LongType())
        .add("s", StringType())
    )
    payloads = [
        b'{"a": {"b": {"at": "2026-11-20T00:00:00Z", "cost": 12.34}}, "n": 1, "s": "x"}',
        b'{"a": {"b": {"at": "nonsense", "cost": 12.34}}, "n": 1, "s": "x"}',
        b'{"a": {"b": 5}, "n": 1, "s": "x"}',
        b'{"a": {}, "n": 1}',
    ]

    found = parsed(payloads, fields)

    assert problems(found) == [None, "wrong_type", "wrong_type", None]
    assert found[0]["a"]["b"]["cost"] == Decimal("12.34")
    assert found[3]["a"] == {"b": None}
