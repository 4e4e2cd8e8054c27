"""What the reader of ours makes of a payload is what Spark's made of it, wrapped, checked and cast.

Payloads at random for records of random types; the long form takes a million. A failure shows the payload, and the seed brings it back.
"""

import json
import random
from collections import Counter

import pytest
from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from fleet.silver.device_telemetry import FIELDS
from strandline.core.parse import parse_json
from tests.support import wrapped_json
from tests.support.odd_json import payload, record
from tests.support.proofs import Times

AT_ONCE = 5_000
MICROSECONDS = {"timestampFormat": "yyyy-MM-dd HH:mm:ss.SSSSSS"}


@pytest.mark.slow
@pytest.mark.prove
def test_a_random_payload_is_read_as_spark_read_it(
    spark: SparkSession, chance: random.Random, times: Times
) -> None:
    """Each column to the last digit, each reason, and each column of a payload that is held."""
    seen: Counter[str | None] = Counter()
    for number in range(times(4, 200)):
        fields = FIELDS if number == 0 else record(chance)
        found = _both(spark, [payload(chance, fields) for _ in range(AT_ONCE)], fields)
        for row in found:
            if row["was"] != row["now"] and not _is_decided(row, fields):
                pytest.fail(
                    f"{fields.json()}\n{bytes(row['_payload'])!r}\n{row['was']}\n{row['now']}"
                )
        seen.update(row["now_problem"] for row in found)

    assert set(seen) == {None, "malformed", "wrong_type"}
    assert min(seen.values()) > sum(seen.values()) / 10  # none of them is a rare case


def _both(spark: SparkSession, payloads: list[bytes | None], fields: StructType) -> list[Row]:
    events = spark.createDataFrame([(each,) for each in payloads], "_payload binary")
    names = [*fields.fieldNames(), "_problem"]
    was = _kept(wrapped_json.parse_json(events, fields), names, "was")
    now = _kept(parse_json(was, fields), names, "now")
    return now.select("_payload", "was", "now", "was_problem", "now_problem").collect()


def _kept(rows: DataFrame, names: list[str], under: str) -> DataFrame:
    shown, problem = _shown([F.col(f"`{name}`") for name in names]), F.col("_problem")
    kept = rows.withColumns({under: shown, f"{under}_problem": problem})
    return kept.drop(*names)


def _shown(columns: list[Column]) -> Column:
    """Return columns as text: maps can be compared in no other way, and only together do the two show a NULL and each digit."""
    all_ = F.struct(*columns)
    return F.concat_ws(" ", F.to_json(all_, MICROSECONDS), all_.cast("string"))


def _is_decided(row: Row, fields: StructType) -> bool:
    """Return whether a payload is one of those that Spark's reader took wrongly (tests/core/test_strict_json.py)."""
    was, now, kinds = row["was_problem"], row["now_problem"], fields.simpleString()
    twice: list[bool] = []

    def pairs(found: list[tuple[str, object]]) -> list[tuple[str, object]]:
        twice.append(len(found) != len({name for name, _ in found}))
        return found

    try:
        text = repr(json.loads(row["_payload"], object_pairs_hook=pairs))
    except ValueError:
        return now == "malformed" and "binary" in kinds  # a line end within base64
    if now == "malformed":
        return "\\ud83d" in text or "\\ude00" in text  # half a pair
    is_checked_twice = (
        sum(twice) > 1
    )  # an object where a text is declared, under a name that is there twice
    is_beyond = now == "wrong_type" and "inf" in text
    return (
        {was, now} == {None, "wrong_type"} and "string" in kinds and (is_checked_twice or is_beyond)
    )


def test_it_stays_within_the_code_of_a_whole_stage(spark: SparkSession) -> None:
    """An expression without code of its own is interpreted, and so is what is computed beside it."""
    payload_ = F.format_string('{"event_id": "%d"}', "id").cast("binary")
    payloads = spark.range(3).select(payload_.alias("_payload"), "id")

    rows = parse_json(payloads, FIELDS)

    plan = rows._jdf.queryExecution().executedPlan().toString()  # there is no public way
    steps = [line for line in plan.splitlines() if "strict_json" in line]
    assert len(steps) == 1  # for all columns once
    assert "*(1) Project" in steps[0], plan
    assert [row["_problem"] for row in rows.collect()] == [None] * 3
