"""Sources are known by their Delta ids and their order, the table by its columns."""

import pytest
from pyspark.sql.types import IntegerType, LongType, StringType, StructType

from strandline.engine.flow.compare_plans import Remedy, sink_differences, source_differences
from strandline.engine.flow.spark_plan import StatefulPlan
from strandline.engine.lake.spark_checkpoint import RunRecord

IDS = {"silver.a": "1", "silver.b": "2"}
RECORD = RunRecord(
    fingerprint="", ids=IDS, plan=StatefulPlan(sources=("silver.a", "silver.b")).as_json()
)


def remedies(
    held: list[str | None], now: tuple[str, ...], ids: dict[str, str], record: RunRecord | None
) -> set[Remedy]:
    plan = StatefulPlan(sources=now)
    return {each.remedy for each in source_differences(held, plan, ids, record)}


@pytest.mark.parametrize("record", [RECORD, None])
def test_sources_may_change_places_and_not_their_identity(record: RunRecord | None) -> None:
    both = ("silver.a", "silver.b")

    assert remedies(["1", "2"], both, IDS, record) == set()
    assert remedies(["1", None], both, IDS, record) == set()
    assert remedies(["2", "1"], both, IDS, record) == {Remedy.REWRITE_SOURCES}
    assert remedies(["1", "9"], both, IDS, record) == {Remedy.REBUILD}
    assert remedies(["1"], both, IDS, record) == {Remedy.REWRITE_SOURCES}
    assert remedies(["1", "2"], ("silver.a",), {"silver.a": "1"}, record) == {
        Remedy.REWRITE_SOURCES
    }


def test_a_source_that_was_made_again_is_named() -> None:
    plan = StatefulPlan(sources=("silver.a",))

    (difference,) = source_differences(["1"], plan, {"silver.a": "7"}, RECORD)

    assert difference.what.startswith("silver.a is another Delta table")


def test_columns_may_be_added_or_left_out_and_keep_their_types() -> None:
    k = StructType().add("k", StringType())
    own = StructType([*k]).add("n", LongType())

    def found(schema: StructType, folders: tuple[str, ...] = ()) -> list[Remedy]:
        return [each.remedy for each in sink_differences(own, (), schema, folders)]

    assert found(StructType([*k]).add("n", LongType())) == []
    assert found(StructType([*k]).add("n", IntegerType())) == []
    assert found(StructType([*k]).add("n", StringType())) == [Remedy.REBUILD]
    assert found(StructType([*k])) == [Remedy.NOTHING]
    assert found(StructType([*k]).add("n", LongType()).add("m", LongType())) == [Remedy.ADD_COLUMNS]
    assert found(StructType([*k]).add("n", LongType()), ("k",)) == [Remedy.REBUILD]
