"""A payload is one line of the declared cells, or it gets the reason why not."""

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import (
    BinaryType,
    LongType,
    StructType,
)

from strandline.core.errors import DefinitionError
from strandline.core.parse import parse_csv, parse_raw
from tests.support.events import Event, frame
from tests.support.payloads import parse, problems
from tests.support.shapes import ORDER as FIELDS

CLEAN = b"a,17,12.34,2026-11-20T08:15:30.123Z"


def parsed(spark: SparkSession, payloads: Sequence[bytes | None]) -> list[dict[str, Any]]:
    """Parse payloads in one job and keep their order."""
    return parse(spark, payloads, FIELDS, parse_csv)


@pytest.mark.whole
def test_a_line_is_read_cell_by_cell(spark: SparkSession) -> None:
    (row,) = parsed(spark, [CLEAN])

    assert (row["_problem"], row["id"], row["count"]) == (None, "a", 17)
    assert (row["cost"], row["at"].isoformat()) == (Decimal("12.34"), "2026-11-20T08:15:30.123000")


def test_an_empty_cell_is_null_and_no_problem_of_the_line(spark: SparkSession) -> None:
    """Whether a value may be missing is decided by the rules."""
    found = parsed(spark, [b"a,,,", b",17,12.34,2026-11-20T08:15:30Z", b",,,"])

    assert problems(found) == [None, None, None]
    assert (found[0]["id"], found[0]["count"], found[1]["id"]) == ("a", None, None)


MALFORMED = (
    None,
    b"",
    b"a,17,12.34",
    CLEAN + b",more",
    CLEAN + b"\n" + CLEAN,
    CLEAN + b"\r\n",
    b"\xef\xbb\xbf" + CLEAN,
    b"\xff\xfe" + CLEAN,
    b"a\x00,17,12.34,2026-11-20T08:15:30Z",
)


@pytest.mark.whole
def test_what_is_not_one_line_of_so_many_cells_is_malformed(spark: SparkSession) -> None:
    """Spark would read the first line of two, and fill up a line that is too short."""
    found = problems(parsed(spark, MALFORMED))

    assert dict(zip(MALFORMED, found, strict=True)) == dict.fromkeys(MALFORMED, "malformed")


WRONG = (
    b"a,many,12.34,2026-11-20T08:15:30Z",
    b"a,1.5,12.34,2026-11-20T08:15:30Z",
    b"a,17,NaN,2026-11-20T08:15:30Z",
    b"a,17,12345678901,2026-11-20T08:15:30Z",
    b"a,17,12.34,yesterday",
    b"a,17,12.34,08:15:30",
    b"a,99999999999999999999,12.34,2026-11-20T08:15:30Z",
)


@pytest.mark.whole
def test_a_cell_that_is_no_value_of_its_type_is_named(spark: SparkSession) -> None:
    found = problems(parsed(spark, WRONG))

    assert dict(zip(WRONG, found, strict=True)) == dict.fromkeys(WRONG, "wrong_type")


@pytest.mark.whole
def test_a_quoted_cell_may_hold_a_comma(spark: SparkSession) -> None:
    (row,) = parsed(spark, [b'"a, or b",17,12.34,2026-11-20T08:15:30Z'])

    assert (row["_problem"], row["id"]) == (None, "a, or b")


def test_a_nested_field_is_refused_when_it_is_declared(spark: SparkSession) -> None:
    nested = StructType().add("meta", StructType().add("seq", LongType()))

    with pytest.raises(DefinitionError, match="nested"):
        parse_csv(frame(spark, []), nested)


def test_raw_bytes_stay_as_they_are(spark: SparkSession) -> None:
    """Any bytes are a value; a tombstone has none."""
    payloads = [b"\x00\xff", b"", None]
    events = frame(spark, [Event(payload=payload) for payload in payloads])

    rows = parse_raw(events, StructType().add("body", BinaryType())).orderBy("_offset").collect()

    found = [(row["body"] and bytes(row["body"]), row["_problem"]) for row in rows]
    assert found == [(b"\x00\xff", None), (bytearray(), None), (None, "malformed")]


def test_raw_bytes_are_one_field(spark: SparkSession) -> None:
    with pytest.raises(DefinitionError, match="one binary field"):
        parse_raw(frame(spark, []), FIELDS)
