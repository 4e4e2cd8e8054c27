"""A field is of its declared type to the last digit, or the payload is refused."""

import json
import random
from datetime import UTC, datetime
from decimal import Decimal

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import DecimalType, StructType

from strandline.core.parse import parse_csv, parse_json
from tests.support.events import reading
from tests.support.payloads import CLEAN, Parse, parse, problems, with_device, with_value

pytestmark = pytest.mark.whole


def test_a_number_that_does_not_fit_is_a_wrong_type(parsed: Parse) -> None:
    """Infinity is no value of a sensor, and a long that wraps round is another number."""
    values = [b"1e999", b"-1e999", b"1e10", b"-10000000000", b"123456789012345678901234567890"]
    numbers = [b"9223372036854775808", b"1e3", b"17.5", b"1e999", b'"17"', b"true", b"[17]", b'""']
    payloads = [with_value(value) for value in values]
    payloads += [CLEAN.replace(b"17", number) for number in numbers]

    found = problems(parsed(payloads))

    assert dict(zip(payloads, found, strict=True)) == dict.fromkeys(payloads, "wrong_type")


def test_a_quoted_number_is_a_wrong_type_whatever_its_value(parsed: Parse) -> None:
    """Spark reads some texts as numbers; a device that sends them is broken."""
    texts = ["21.5", "NaN", "Infinity", "-Infinity", "+INF", "INF", "", " ", "1e3"]
    payloads = [with_value(json.dumps(text).encode()) for text in texts]

    found = problems(parsed(payloads))

    assert dict(zip(texts, found, strict=True)) == dict.fromkeys(texts, "wrong_type")


def test_what_is_no_text_is_a_wrong_type_where_text_is_declared(parsed: Parse) -> None:
    """Spark hands on the raw text of any value, and a key made of it would be believed."""
    values = [
        b"17",
        b"-1.5e3",
        b"0",
        b"true",
        b"false",
        b"{}",
        b'{"a": 1, "a": 2}',
        b"[]",
        b'["d"]',
    ]
    payloads = [with_device(value) for value in values]

    found = problems(parsed(payloads))

    assert dict(zip(values, found, strict=True)) == dict.fromkeys(values, "wrong_type")


def test_a_text_that_looks_like_something_else_is_still_a_text(parsed: Parse) -> None:
    """Devices are called 17 and true; only without quotes are these no names."""
    texts = [
        "17",
        "-1.5e3",
        "true",
        "false",
        "null",
        "{}",
        '{"a": 1}',
        "[17]",
        "[",
        "{",
        "10.0.0.1",
        "-",
        "t",
    ]

    found = parsed([with_device(json.dumps(text).encode()) for text in texts])

    assert problems(found) == [None] * len(texts)
    assert [row["device_id"] for row in found] == texts


def test_a_decimal_of_up_to_fourteen_digits_survives_exactly(
    parsed: Parse, chance: random.Random
) -> None:
    """It travels through a double, and one lost digit in a million would not be found."""
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


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        ("1.2345", "1.2345"),
        ("1.234500", "1.2345"),
        ("12345e-4", "1.2345"),
        ("-0.0", "0"),
        ("1.23456", None),
        ("1E-9", None),
        ("0.00004", None),
        ("9999999999.99994", None),
    ],
)
def test_a_number_is_kept_to_its_last_digit_or_refused(
    spark: SparkSession, sent: str, kept: str | None
) -> None:
    """Rounded in silence it would be a value that was never sent."""
    fields = StructType().add("value", DecimalType(14, 4))
    expected = (Decimal(kept), None) if kept is not None else (None, "wrong_type")

    for payload, read in ((f'{{"value": {sent}}}', parse_json), (sent, parse_csv)):
        (row,) = parse(spark, [payload.encode()], fields, read)
        assert (row["value"], row["_problem"]) == expected


def test_what_a_reader_of_json_may_choose_is_as_documented(parsed: Parse) -> None:
    """The last of two values counts, a time is kept to the microsecond, and one without a zone is UTC."""
    moments = {
        "2026-11-20T08:15:30.123456789Z": "08:15:30.123456",
        "2026-11-20T08:15:30.123456999": "08:15:30.123456",
        "2026-11-20 08:15:30": "08:15:30",
    }
    payloads = [CLEAN.replace(b"2026-11-20T08:15:30.123Z", each.encode()) for each in moments]

    found = parsed([*payloads, CLEAN.replace(b'"value": -21.37', b'"value": 1, "value": 2')])

    assert set(problems(found)) == {None}
    assert [f"{row['event_at']:%H:%M:%S.%f}".removesuffix(".000000") for row in found[:3]] == [
        *moments.values()
    ]
    assert found[3]["value"] == 2


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
    """Spark puts today's date to a time, so a replay tomorrow would give another time."""
    texts = ["08:15:30", "T08:15:30", "8:15", "T08:15:30Z", "2026-11-20", "2026-11", "2026"]

    found = problems(parsed([reading(event_at=text) for text in texts]))

    assert dict(zip(texts, found, strict=True)) == dict.fromkeys(texts, "wrong_type")
