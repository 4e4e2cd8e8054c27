"""A payload is one JSON object of the declared types, or it says why it is not."""

import json
import random
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import DecimalType, LongType, StringType, StructType, TimestampType

from jobs.core.errors import DefinitionError
from jobs.core.parse import parse_json
from jobs.play.dirt import MALFORMED, MISSING, UNKNOWN_FIELD, WRONG_TYPE
from jobs.silver.device_telemetry import FIELDS
from tests.support.events import Event, frame, reading

CLEAN = (
    b'{"event_id": "e1", "device_id": "dev-00042", "signal": "temperature", "value": -21.37, '
    b'"event_at": "2026-11-20T08:15:30.123Z", "meta": {"firmware": "1.4.2", "seq": 17}}'
)
SALTS = (0, 1, 57, 10**9)
Parse = Callable[..., list[dict[str, Any]]]


@pytest.fixture
def parsed(spark: SparkSession) -> Parse:
    """Return a function that parses payloads in one job and keeps their order."""

    def parse(
        payloads: Sequence[bytes | None], fields: StructType = FIELDS
    ) -> list[dict[str, Any]]:
        events = frame(spark, [Event(payload=payload) for payload in payloads])
        found = parse_json(events, fields).orderBy("_offset").collect()
        assert len(found) == len(payloads)
        return [row.asDict(recursive=True) for row in found]

    return parse


def problems(found: Sequence[dict[str, Any]]) -> list[str | None]:
    return [row["_problem"] for row in found]


def test_every_kind_of_dirt_gets_exactly_its_reason(parsed: Parse) -> None:
    """The truth file of the playground promises these reasons, to the last event."""
    cases = {
        (variant.name, salt): (variant.spoil(CLEAN, salt), variant.reason)
        for variant in (*MALFORMED, *WRONG_TYPE, *UNKNOWN_FIELD)
        for salt in SALTS
    }

    found = problems(parsed([payload for payload, _ in cases.values()]))

    assert dict(zip(cases, found, strict=True)) == {n: why for n, (_, why) in cases.items()}


def test_an_absent_field_is_null_and_no_problem_of_the_payload(parsed: Parse) -> None:
    """Whether a value may be missing is for the rules to say; the parser only reads."""
    bare = b'{"event_id": "e1"}'

    found = parsed([*(variant.spoil(CLEAN, 0) for variant in MISSING), bare, b"{}"])

    assert set(problems(found)) == {None}
    for variant, row in zip(MISSING, found, strict=False):
        assert row[str(variant.reason).removeprefix("missing:")] is None
        assert row["meta"] == {"firmware": "1.4.2", "seq": 17}
    assert (found[-2]["event_id"], found[-2]["value"], found[-2]["meta"]) == ("e1", None, None)


def test_an_optional_field_may_be_absent_null_or_empty_at_any_depth(parsed: Parse) -> None:
    """The second parse settles these; it must see no dirt where there is none."""
    metas: list[Any] = [None, {}, {"seq": 3}, {"firmware": None, "seq": None}, {"firmware": ""}]
    payloads = [reading(meta=meta) for meta in metas]
    payloads.append(CLEAN.replace(b'{"firmware": "1.4.2", "seq": 17}', b"null"))

    found = parsed(payloads)

    assert set(problems(found)) == {None}
    read = [(row["meta"] or {}).get("firmware") for row in found]
    assert read == [None, None, None, None, "", None]
    assert found[2]["meta"] == {"firmware": None, "seq": 3}


CLOSES_THE_WRAPPER = (
    CLEAN + b"]",
    CLEAN + b', {"_end": 1}]',
    CLEAN + b', {"_end": 1}',
    CLEAN + b"\n, " + CLEAN + b"]",
    CLEAN + b', {"_end": null}] ',
    b'{"event_id": "e1"}]',
    b'{"event_id": "e1"}, {"_end": 1}]',
    b"], " + CLEAN,
    b"],[" + CLEAN,
    b"{}, " + CLEAN,
    b"null, " + CLEAN,
    CLEAN + b", null",
    CLEAN + b",",
    b"," + CLEAN,
)


def test_a_payload_cannot_close_the_array_that_it_is_read_in(parsed: Parse) -> None:
    """What follows a valid document is ignored by Spark, so half of such a payload would vanish."""
    found = problems(parsed(CLOSES_THE_WRAPPER))

    assert dict(zip(CLOSES_THE_WRAPPER, found, strict=True)) == dict.fromkeys(
        CLOSES_THE_WRAPPER, "malformed"
    )


NOT_AN_OBJECT = (
    None,
    b"",
    b" ",
    b"\n\t ",
    b"null",
    b"true",
    b"17",
    b'"text"',
    b"[]",
    b"[{}]",
    b"[null]",
    b"{",
    b"}",
    b"{]",
    b'{"event_id"}',
    b'{"event_id": }',
    b'{"event_id": "e1"',
    b'{"event_id": "e1',
    b'{"event_id": ["e1"',
    b'{"meta": {"seq": 1}',
)


def test_what_is_no_object_is_malformed_and_a_tombstone_is_none(parsed: Parse) -> None:
    """An unfinished payload could swallow the end mark and look finished."""
    found = problems(parsed(NOT_AN_OBJECT))

    assert dict(zip(NOT_AN_OBJECT, found, strict=True)) == dict.fromkeys(NOT_AN_OBJECT, "malformed")


def with_value(literal: bytes) -> bytes:
    return CLEAN.replace(b"-21.37", literal)


AS_PYTHON_SAYS = (
    CLEAN,
    b"  " + CLEAN + b"\r\n\t ",
    CLEAN.replace(b", ", b"\n,\n"),
    CLEAN.replace(b'"e1"', b'"\\u00e9\\n\\/\\ud83d\\ude00"'),
    CLEAN.replace(b'"e1"', '"№ 二階 😀"'.encode()),
    with_value(b"1e3"),
    with_value(b"1E+3"),
    with_value(b"-0"),
    with_value(b"01"),
    with_value(b"+1"),
    with_value(b".5"),
    with_value(b"5."),
    with_value(b"0x10"),
    with_value(b"1_000"),
    with_value(b"1,5"),
    with_value(b"NaN"),
    with_value(b"-Infinity"),
    with_value(b"Infinity"),
    with_value(b"INF"),
    with_value(b"True"),
    with_value(b"nul"),
    with_value(b"undefined"),
    CLEAN.replace(b'"', b"'"),
    CLEAN.replace(b'"event_id"', b"event_id"),
    CLEAN.replace(b'"e1"', b'"e\t1"'),
    CLEAN.replace(b'"e1"', b'"e\n1"'),
    CLEAN.replace(b'"e1"', b'"e\x001"'),
    CLEAN.replace(b'"e1"', b'"\\q"'),
    CLEAN.replace(b'"e1"', b'"\\u12"'),
    CLEAN.replace(b'"e1"', b'"\\'),
    CLEAN.replace(b"}}", b"},}"),
    CLEAN.replace(b"}}", b",}}"),
    CLEAN.replace(b"{", b"{,", 1),
    CLEAN.replace(b": ", b" = "),
    b"// a comment\n" + CLEAN,
    CLEAN + b"// a comment",
    CLEAN.replace(b"{", b"{/* a comment */", 1),
    b"# a comment\n" + CLEAN,
    b"\xef\xbb\xbf" + CLEAN,
    b"\xff\xfe" + CLEAN.decode().encode("utf-16-le"),
    CLEAN.decode().encode("utf-16-le"),
    CLEAN.decode().encode("utf-16-be"),
    CLEAN.decode().encode("utf-32-le"),
    CLEAN.replace(b"e1", b"e\xff"),
    CLEAN.replace(b"e1", b"e\xc3"),
    CLEAN.replace(b"e1", b"\xc0\xaf"),
    CLEAN.replace(b"e1", b"\xed\xa0\x80"),
    CLEAN.replace(b"e1", b"\xf5\x80\x80\x80"),
    b"\xc2\xa0" + CLEAN,
    b"\x0c" + CLEAN,
    b"\x00" + CLEAN,
    CLEAN + b"\x00",
    CLEAN + b"\xe2\x80\xa8",
    CLEAN.replace(b'"seq": 17', b'"seq": 17, "more": ' + b"[" * 400 + b"]" * 400),
    CLEAN.replace(b'"seq": 17', b'"seq": 17, "more": ' + b"[" * 400 + b"]" * 399),
)


def test_what_python_refuses_as_json_is_malformed_and_nothing_else(parsed: Parse) -> None:
    """Spark's reader is lenient by tradition; a second opinion shows where."""
    found = problems(parsed(AS_PYTHON_SAYS))

    said = dict(zip(AS_PYTHON_SAYS, found, strict=True))
    assert said == {p: None if is_json(p) else "malformed" for p in AS_PYTHON_SAYS}


def is_json(payload: bytes) -> bool:
    try:
        found = json.loads(payload.decode(), parse_constant=refuse)
    except ValueError:
        return False
    return isinstance(found, dict)


def refuse(constant: str) -> None:
    raise ValueError(constant)


def test_a_payload_beyond_all_measure_is_malformed_and_stops_nobody(parsed: Parse) -> None:
    """One event must never be able to end a query; the reader's own limits do not."""
    deep = CLEAN.replace(
        b'"seq": 17', b'"seq": 17, "more": ' + b'{"a":' * 5_000 + b"1" + b"}" * 5_000
    )
    long_number = CLEAN.replace(b'"seq": 17', b'"seq": 17, "more": ' + b"9" * 5_000)

    found = problems(parsed([deep, long_number, CLEAN]))

    assert found == ["malformed", "malformed", None]


def test_a_number_that_does_not_fit_is_a_wrong_type(parsed: Parse) -> None:
    """Infinity is no value of a sensor, and a long that wraps round is another number."""
    values = [b"1e999", b"-1e999", b"1e10", b"-10000000000", b"123456789012345678901234567890"]
    numbers = [b"9223372036854775808", b"1e3", b"17.5", b"1e999", b'"17"', b"true", b"[17]", b'""']
    payloads = [with_value(value) for value in values]
    payloads += [CLEAN.replace(b"17", number) for number in numbers]

    found = problems(parsed(payloads))

    assert dict(zip(payloads, found, strict=True)) == dict.fromkeys(payloads, "wrong_type")


def test_a_quoted_number_is_a_wrong_type_whatever_it_says(parsed: Parse) -> None:
    """Spark reads some texts as numbers when it is asked kindly; a device that sends them is broken."""
    texts = ["21.5", "NaN", "Infinity", "-Infinity", "+INF", "INF", "", " ", "1e3"]
    payloads = [with_value(json.dumps(text).encode()) for text in texts]

    found = problems(parsed(payloads))

    assert dict(zip(texts, found, strict=True)) == dict.fromkeys(texts, "wrong_type")


def test_a_decimal_of_up_to_fourteen_digits_survives_exactly(
    parsed: Parse, chance: random.Random
) -> None:
    """It travels through a double, and one lost digit in a million is what nobody would find."""
    values = [
        Decimal(chance.choice((1, -1)) * chance.randrange(10 ** chance.randint(1, 14))).scaleb(
            -chance.randint(0, 4)
        )
        for _ in range(4_000)
    ]
    fitting = [value for value in values if abs(value) < 10**10]
    edges = [Decimal("9999999999.9999"), Decimal("-9999999999.9999"), Decimal("0.0001"), Decimal(0)]
    sent = [*fitting, *edges]

    found = parsed([with_value(f"{value:f}".encode()) for value in sent])

    assert set(problems(found)) == {None}
    assert [row["value"] for row in found] == sent


def test_a_decimal_that_a_double_cannot_hold_is_refused_when_it_is_declared(
    spark: SparkSession,
) -> None:
    """Better no table than one whose sums are wrong in the last digit."""
    wide = StructType().add("meta", StructType().add("total", DecimalType(16, 2)))

    with pytest.raises(DefinitionError) as caught:
        parse_json(frame(spark, []), wide)

    assert caught.value.fields == {"field": "total"}


def test_fifteen_digits_are_the_most_and_still_exact(parsed: Parse, chance: random.Random) -> None:
    """The bound that is enforced must be the bound that holds."""
    sent = [Decimal(chance.randrange(10**15)).scaleb(-6) for _ in range(2_000)]
    fields = StructType().add("value", DecimalType(15, 6))

    found = parsed([f'{{"value": {value:f}}}'.encode() for value in sent], fields)

    assert [row["value"] for row in found] == sent


MOMENTS = {
    "2026-11-20T08:15:30Z": "2026-11-20T08:15:30+00:00",
    "2026-11-20T08:15:30.123456Z": "2026-11-20T08:15:30.123456+00:00",
    "2026-11-20T08:15:30+02:00": "2026-11-20T06:15:30+00:00",
    "2026-11-20T08:15:30-09:30": "2026-11-20T17:45:30+00:00",
    "2026-11-20T08:15:30": "2026-11-20T08:15:30+00:00",
    "2026-11-20 08:15:30": "2026-11-20T08:15:30+00:00",
    "2026-02-28T23:59:59.999999-00:30": "2026-03-01T00:29:59.999999+00:00",
}


def test_a_time_with_an_offset_is_that_moment_and_one_without_is_utc(parsed: Parse) -> None:
    """A zone that is taken from the machine would move every window in half of the world."""
    found = parsed([reading(event_at=text) for text in MOMENTS])

    assert set(problems(found)) == {None}
    read = [row["event_at"].replace(tzinfo=UTC) for row in found]
    assert read == [datetime.fromisoformat(moment) for moment in MOMENTS.values()]


def test_a_number_is_no_time(parsed: Parse) -> None:
    """Seconds or milliseconds? And read as text, 2026 is a year to Spark."""
    numbers = [1795150000, 1795150000123, 1795150000.5, -1, 0, 1e-7, 2026, 1970, 20261, 999999, 1e3]

    found = problems(parsed([reading(event_at=number) for number in numbers]))

    assert dict(zip(numbers, found, strict=True)) == dict.fromkeys(numbers, "wrong_type")


def test_an_impossible_or_unfinished_time_is_a_wrong_type(parsed: Parse) -> None:
    """A text that is read as another moment than the device meant is worse than none."""
    texts = ["", " ", "now", "today", "epoch", "2026-02-30T00:00:00Z", "2026-11-20T24:00:00Z"]
    texts += ["2026-11-20T08:61:00Z", "2026-13-01T00:00:00Z", "20/11/2026", "2026-11-20T08:15:30X"]

    found = problems(parsed([reading(event_at=text) for text in texts]))

    assert dict(zip(texts, found, strict=True)) == dict.fromkeys(texts, "wrong_type")


def test_a_time_without_a_day_or_a_day_without_a_time_is_a_wrong_type(parsed: Parse) -> None:
    """Spark puts today's date to a time, so a replay tomorrow would say something else."""
    texts = ["08:15:30", "T08:15:30", "8:15", "T08:15:30Z", "2026-11-20", "2026-11", "2026"]

    found = problems(parsed([reading(event_at=text) for text in texts]))

    assert dict(zip(texts, found, strict=True)) == dict.fromkeys(texts, "wrong_type")


def test_the_last_of_two_equal_names_counts(parsed: Parse) -> None:
    """JSON leaves it open; Python, Jackson and browsers all take the last."""
    twice = CLEAN.replace(b'"event_id": "e1"', b'"event_id": "e0", "event_id": "e1"')
    then_null = CLEAN.replace(b'"event_id": "e1"', b'"event_id": "e1", "event_id": null')

    found = parsed([twice, then_null])

    assert [row["event_id"] for row in found] == ["e1", None]
    assert problems(found) == [None, None]


def test_a_wrong_type_under_a_name_that_occurs_twice_is_noticed_in_either_place(
    parsed: Parse,
) -> None:
    """Spark's partial results would keep the readable one of the two; other readers see the last."""
    payloads = [
        CLEAN.replace(b"-21.37", b'-21.37, "value": "hot"'),
        CLEAN.replace(b"-21.37", b'"hot", "value": -21.37'),
    ]

    assert problems(parsed(payloads)) == ["wrong_type", "wrong_type"]


def test_an_unknown_field_named_like_the_end_mark_is_judged_alike_in_both_parses(
    parsed: Parse,
) -> None:
    """The first parse settles full payloads, the second the others; a field absent may change nothing."""
    marks = (b"5", b"null", b'"text"', b"{}", b"[1]", b"1e999")
    full = [CLEAN.replace(b"{", b'{"_end": ' + mark + b", ", 1) for mark in marks]
    partial = [payload.replace(b', "seq": 17', b"") for payload in full]

    found = problems(parsed([*full, *partial]))

    assert found[: len(marks)] == found[len(marks) :]
    assert len(set(found)) == 1


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
