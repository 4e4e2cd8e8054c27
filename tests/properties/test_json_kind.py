"""The kind that is found at once in a payload is the one that Spark's reader finds, which is asked of all others.

Payloads at random; the long form takes half a million. A failure shows the payload, and the seed brings it back.
"""

import random
from collections import Counter
from dataclasses import replace

import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DoubleType, LongType, StringType, StructType

from strandline.core.routes import KindBy, field, found_now
from tests.support.odd_json import payload
from tests.support.proofs import Times

AT_ONCE = 5_000
META = StructType().add("id", LongType()).add("type", StringType()).add("a", StringType())
FIELDS = StructType().add("type", StringType()).add("amount", DoubleType()).add("meta", META)
WAYS = (field("type"), field("meta", "type"), field("meta", "a", "b"))

ODD: tuple[bytes, ...] = (
    b'{"type": "click", "type": 7}',
    b'{"type": 7, "type": "click"}',
    b'{"type": "click", "type": null}',
    b'{"type": "click", "type": ""}',
    b'{"type": "click", "type": {"a": 1, "a": 2}}',
    b'{"type": true}',
    b'{"type": -0.0e1}',
    b'{"ty\\u0070e": "click"}',
    b'{"Type": "click"}',
    b'{"type ": "click"}',
    b'{"type": "click", "meta": NaN}',
    b'{"type": "click", "meta": +Infinity}',
    b'{"type": "click", "meta": 01}',
    b'{"type": "click", "meta": "a\tb"}',
    b'{"type": "cl\\u0000ick"}',
    b'{"type": "\\ud83d\\ude00"}',
    b'{"type": "\\ud83d"}',
    b'{"type": "click", "a\\ud83d": 1}',
    b'{"type": "click", "a": "\xff"}',
    b'{"type": "click", "\xff": 1}',
    b'{"type": "click", "a": "\xed\xa0\x80"}',
    b'{"type": "click", "a": "\xc3\xa9"}',
    b'{"\xc3\xa9": 1, "type": "click"}',
    b'\xef\xbb\xbf{"type": "click"}',
    '{"type": "click"}'.encode("utf-16"),
    '{"type": "click"}'.encode("utf-16-le"),
    '{"type": "click"}'.encode("utf-32-be"),
    '{"type": "click"}'.encode("utf-32-le"),
    b'{\x00"type": "click"}',
    b'{"type": "click"}\x00',
    b'{"type": "click"\x00}',
    b' \n\t{"type": "click"}',
    b'{"type": "click"},',
    b'{"type": "click"}{"type": "pay"}',
    b'{"type": "click"} more',
    b'{"type": "click"',
    b'{"type": "click",}',
    b'{"type" "click"}',
    b'{type: "click"}',
    b"{\"type\": 'click'}",
    b'{"type": "click" /* why */}',
    b'[{"type": "click"}]',
    b'[{"type": "click"}, {"type": "pay"}]',
    b'"type"',
    b"{}",
    b"{",
    b"",
    b'{"type": "click", "a": ' + b"[" * 999 + b"]" * 999 + b"}",
    b'{"type": "click", "a": ' + b"[" * 2_000 + b"]" * 2_000 + b"}",
    b'{"type": "click", "a": ' + b"9" * 999 + b"}",
    b'{"type": "click", "a": ' + b"9" * 1_001 + b"}",
    b'{"type": "click", "a": 0.' + b"9" * 999 + b"}",
    b'{"type": "click", "' + b"n" * 49_990 + b'": 1}',
    b'{"type": "click", "' + b"n" * 60_000 + b'": 1}',
    b'{"type": "click", "a": "' + b"x" * 1_000_000 + b'"}',
    b'{"type": "' + b"x" * 200 + b'"}',
    b'{"type": "' + b"x" * 201 + b'"}',
    b'{"type": "~ !\\"\\\\/"}',
    b'{"type": "a\x7f"}',
    b'{"meta": {"type": "click"}}',
    b'{"meta": {"type": "click", "type": "pay"}}',
    b'{"meta": {"type": "click"}, "meta": {}}',
    b'{"meta": {"type": "click"}, "meta": null}',
    b'{"meta": {"type": "click"}, "meta": 5}',
    b'{"meta": {"type": "click"}, "meta": ""}',
    b'{"meta": {"type": "click"}, "meta": [{"type": "pay"}]}',
    b'{"meta": 5, "meta": {"type": "click"}}',
    b'{"meta": {"type": {"type": "click"}}}',
    b'{"meta": {"a": {"b": "click"}}}',
    b'{"meta": {"a": {"b": "click"}, "a": 5}}',
    b'{"meta": {"a": {"b": 5}}}',
)


@pytest.mark.parametrize("by", WAYS, ids=str)
def test_what_is_hostile_has_the_kind_that_spark_finds(spark: SparkSession, by: KindBy) -> None:
    """Values and objects that occur twice, escapes, other encodings, limits of the reader, what is cut and what goes on."""
    assert _unlike(_both(spark, [*ODD, None], by).collect()) == []


@pytest.mark.prove
def test_a_random_payload_has_the_kind_that_spark_finds(
    spark: SparkSession, chance: random.Random, times: Times
) -> None:
    """Also where its value is found at once, which is so of plain ones alone."""
    seen: Counter[str] = Counter()
    for number in range(times(3, 100)):
        by = WAYS[number % len(WAYS)]
        payloads = [payload(chance, FIELDS) for _ in range(AT_ONCE)]
        found = _both(spark, payloads, by).collect()
        assert _unlike(found) == []
        seen["kinds"] += sum(row["was"] is not None for row in found)
        seen["at once"] += sum(row["at_once"] is not None for row in found)

    assert seen["kinds"] > seen["at once"] > 300


def _both(spark: SparkSession, payloads: list[bytes | None], by: KindBy) -> DataFrame:
    events = spark.createDataFrame([(each,) for each in payloads], "_payload binary")
    assert by.at_once is not None
    return events.select(
        F.substring("_payload", 1, 300).alias("payload"),
        found_now({"shop": by}).alias("now"),
        found_now({"shop": replace(by, at_once=None)}).alias("was"),
        by.at_once().alias("at_once"),
    )


def _unlike(found: list[Row]) -> list[Row]:
    return [row for row in found if row["was"] != row["now"]]


def test_it_stays_within_the_code_of_a_whole_stage(spark: SparkSession) -> None:
    """An expression without code of its own is interpreted, and so is what is computed beside it."""
    payloads = spark.range(3).select(
        F.format_string('{"type": "t%d"}', "id").cast("binary").alias("_payload")
    )

    rows = payloads.select(found_now({"shop": field("type")}).alias("kind"))

    plan = rows._jdf.queryExecution().executedPlan().toString()  # there is no public way
    assert [line.count("json_kind") for line in plan.splitlines() if "json_kind" in line] == [1]
    assert "*(1) Project" in plan, plan
    assert [row["kind"] for row in rows.collect()] == ["t0", "t1", "t2"]
