"""The reader of ours and Spark's, made strict, agree on what is hostile; where they do not, it was decided which is right."""

import hashlib
import json
import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    LongType,
    MapType,
    StringType,
    StructType,
    TimestampNTZType,
)

from fleet.play.plan import MALFORMED, MISSING, UNKNOWN_FIELD, WRONG_TYPE
from fleet.silver.device_telemetry import FIELDS
from strandline.core.parse import DRIFT, READER
from tests.core.test_parse_malformed import (
    CLOSES_THE_WRAPPER,
    FORGED,
    JUDGED_BY_PYTHON,
    NOT_AN_OBJECT,
)
from tests.core.test_parse_nested import FIELDS as NESTED
from tests.core.test_parse_nested import ORDER, RIGHT, WRONG
from tests.support import wrapped_json
from tests.support.payloads import CLEAN, Found, parse, problems, with_device

MEGABYTE = 1_000_000


def read_alike(
    spark: SparkSession, payloads: Sequence[bytes | None], fields: StructType = FIELDS
) -> Found:
    """Read payloads by both, and return what both found: each column, also of what is held."""
    was = parse(spark, payloads, fields, wrapped_json.parse_json)
    now = parse(spark, payloads, fields)
    for each in now:
        del each[DRIFT]  # of which Spark's own knows nothing
    pairs = zip(payloads, map(repr, was), map(repr, now), strict=True)
    assert [(str(sent)[:200], *each) for sent, *each in pairs if each[0] != each[1]] == []
    return now


def test_what_is_hostile_is_read_alike(spark: SparkSession) -> None:
    """Also the columns of what is held: the quarantine has its time."""
    dirt = [each.spoil(CLEAN, 57) for each in (*MALFORMED, *WRONG_TYPE, *UNKNOWN_FIELD, *MISSING)]

    found = read_alike(
        spark, [*CLOSES_THE_WRAPPER, FORGED, *NOT_AN_OBJECT, *JUDGED_BY_PYTHON, *dirt]
    )

    times = {
        row["event_at"] is not None for row in found if row["_problem"] == "malformed"
    }  # what Spark could read of it
    assert times == {True, False}


@pytest.mark.whole
def test_lists_and_maps_are_read_alike(spark: SparkSession) -> None:
    """Value by value, with the other fields and without."""
    whole = {name: json.dumps(value) for name, value in ORDER.items()}
    texts = [{**whole, name: value} for name, value in (*WRONG, *RIGHT)]
    texts += [{name: value} for name, value in (*WRONG, *RIGHT)]
    payloads = [
        ("{" + ", ".join(f'"{name}": {value}' for name, value in each.items()) + "}").encode()
        for each in texts
    ]

    read_alike(spark, payloads, NESTED)


@pytest.mark.whole
def test_what_is_large_is_read_alike_and_ends_no_query(spark: SparkSession) -> None:
    """Depth, texts, names and digits, up to the limits and beyond."""
    inside = b'"seq": 17, "more": '

    def with_more(value: bytes) -> bytes:
        return CLEAN.replace(b'"seq": 17', inside + value)

    depths = [n for limit in (497, 997) for n in range(limit, limit + 5)]
    payloads = [
        b"[" * MEGABYTE,
        b'{"a":' * (MEGABYTE // 5),
        with_more(b"[" * MEGABYTE),
        *(with_more(b"[" * n + b"]" * n) for n in depths),
        *(with_more(b'{"a":' * n + b"1" + b"}" * n) for n in depths),
        *(with_device(b"[" * n + b"]" * n) for n in depths),
        with_device(b'"' + b"a" * MEGABYTE + b'"'),
        with_device(b'"' + "é".encode() * MEGABYTE + b'"'),
        with_device(b'"' + b"\\ud83d\\ude00" * 100_000 + b'"'),
        with_device(b'"' + b"\\" * MEGABYTE + b'"'),
        with_more(b'"' + b"a" * MEGABYTE + b'"'),
        *(with_more(b"9" * n) for n in (999, 1_000, 1_001, MEGABYTE)),
        *(with_more(b"0." + b"9" * n) for n in (998, 999, 1_000, MEGABYTE)),
        *(with_more(b'{"' + b"n" * n + b'": 1}') for n in (49_999, 50_000, 50_001, MEGABYTE)),
        *(with_more(b'{"' + "é".encode() * n + b'": 1}') for n in (25_001, 50_000, 50_001)),
        with_more(json.dumps({f"name {n}": n for n in range(50_000)}).encode()),
        with_more(json.dumps({"".join(p): 1 for p in _of_one_hash(4_096)}).encode()),
        CLEAN + b" " * MEGABYTE,
        CLEAN,
    ]

    found = problems(read_alike(spark, payloads))

    assert {None, "malformed", "wrong_type"} == set(found)
    assert found[-2:] == [None, None]


def _of_one_hash(count: int) -> list[list[str]]:
    """Return names that Java gives one hash."""
    digits = count.bit_length() - 1
    return [["Aa" if n >> bit & 1 else "BB" for bit in range(digits)] for n in range(count)]


TEXT = StructType().add("id", StringType())
TEXTS = (
    StructType().add("ids", MapType(StringType(), ArrayType(StringType()))).add("more", LongType())
)
BYTES = StructType().add("bytes", BinaryType())
MORE = StructType().add("bytes", BinaryType()).add("more", LongType())
DECIDED = (
    # An object is no text, whatever came before it under its name.
    (TEXT, b'{"id": "x", "id": {"a": 1, "a": 2}}', None, "wrong_type"),
    # And nothing is wrong with what it leaves.
    (TEXTS, b'{"ids": {"k": [{"a": 1, "a": 2}]}, "ids": {}}', "wrong_type", None),
    # A number is no text, however large; its own was "Infinity", in quotes.
    (TEXT, b'{"id": 1e999}', None, "wrong_type"),
    # Half a pair is none, whatever the letters before it look like.
    (TEXT, b'{"id": "\\\\ud83d\\ude00"}', None, "malformed"),
    # A text has no line end, whatever it is read as.
    (BYTES, b'{"bytes": "YQ==\n"}', None, "malformed"),
    (MORE, b'{"bytes": "YQ==\n"}', "malformed", "malformed"),
)


@pytest.mark.parametrize(("fields", "payload", "was", "now"), DECIDED)
def test_where_they_differ_ours_is_right(
    spark: SparkSession, fields: StructType, payload: bytes, was: str | None, now: str | None
) -> None:
    """Each of these is a fault that Spark's reader had; a payload as it is meant has none of them."""
    assert problems(parse(spark, [payload], fields, wrapped_json.parse_json)) == [was]
    assert problems(parse(spark, [payload], fields)) == [now]


def test_a_deep_object_for_a_text_ends_no_query(spark: SparkSession) -> None:
    """Spark's check of its type went down as deep as the object, and the stack had an end before it."""
    deep = with_device(b'{"a":' * 990 + b"1" + b"}" * 990)

    assert problems(parse(spark, [deep, CLEAN])) == ["wrong_type", None]


def test_a_local_time_that_is_none_ended_the_query_and_is_a_wrong_type(
    spark: SparkSession,
) -> None:
    """One event must never be able to end a query."""
    fields = StructType().add("at", TimestampNTZType())
    payloads = [b'{"at": "2026-11-20T08:15:30"}', b'{"at": "soon"}']

    with pytest.raises(Py4JJavaError, match="TIMESTAMP_NTZ"):
        parse(spark, payloads, fields, wrapped_json.parse_json)

    assert problems(parse(spark, payloads, fields)) == [None, "wrong_type"]


@pytest.mark.whole
def test_a_text_beyond_twenty_million_letters_counts_where_it_is_declared(
    spark: SparkSession,
) -> None:
    """Spark's reader saw it as well where another field was absent, and then only."""
    more = b'{"id": "x", "more": "' + b"a" * 20_000_001 + b'"}'
    declared = b'{"id": "' + b"a" * 20_000_001 + b'"}'
    absent = more.replace(b'"id": "x", ', b"")

    was = problems(parse(spark, [more, declared, absent], TEXT, wrapped_json.parse_json))

    assert was == [None, "malformed", "malformed"]
    assert problems(parse(spark, [more, declared, absent], TEXT)) == [None, "malformed", None]


def test_a_name_that_is_twice_in_a_map_is_two_entries_as_before(spark: SparkSession) -> None:
    """A map is what was sent; whether both are of their type is asked of both."""
    fields = StructType().add("m", MapType(StringType(), ArrayType(StringType())))

    found = read_alike(
        spark, [b'{"m": {"a": [17], "a": ["x"]}}', b'{"m": {"a": ["y"], "a": ["x"]}}'], fields
    )

    assert problems(found) == ["wrong_type", None]


SOURCES = Path(__file__).parents[2] / "infra" / "strandline_infra" / "spark" / "strict"
DECIDED_ON = {1: "8cc078a87c30df39"}
"""For each number of the reader the hash of its sources, without comments."""


def test_another_reader_is_another_version_of_all_tables_or_the_same_rows() -> None:
    """Where no row is another one, renew the hash of this number; where one may be, count ``READER`` up, and certificates lapse."""
    text = "".join(each.read_text() for each in sorted(SOURCES.glob("*.scala")))
    said = re.sub(r"/\*.*?\*/|//.*?$|\s+", "", text, flags=re.DOTALL | re.MULTILINE)

    assert {READER: hashlib.sha256(said.encode()).hexdigest()[:16]} == DECIDED_ON
