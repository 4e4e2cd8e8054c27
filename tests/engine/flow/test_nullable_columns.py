"""The columns of a table may be NULL whatever its function returns, so that readers of it outlive a promotion."""

from dataclasses import replace

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, StructField, StructType

from strandline.core.errors import DefinitionError
from strandline.core.table import Appended
from strandline.engine.flow.preflight import Answer, judge
from strandline.engine.flow.runner import Site
from strandline.engine.lake.commit import delta_commit
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger import last_entry
from strandline.engine.lake.open_table import opened
from strandline.engine.repair.migrate import migrate
from strandline.engine.repair.rebuild import promote, rebuild
from tests.support.edits import CLICKS, FIELDS, TEN
from tests.support.literal import put
from tests.support.modes import derive
from tests.support.rows import NOON, rows, shown

pytestmark = pytest.mark.slow

LOG = {
    CLICKS: (
        FIELDS,
        """
        batch | k | site | v | w | part | at
        1     | a | x    | 1 | 1 | A    | 09:00:00
        2     | b | y    | 2 | 2 | A    | 09:01:00
        """,
    )
}


def named(clicks: DataFrame) -> DataFrame:
    """Return a struct that may be NULL."""
    about = F.when(F.col("site").isNotNull(), F.struct("site", F.lit(1).alias("form")))
    return clicks.select("k", "at", about.alias("about"))


def always_built(clicks: DataFrame) -> DataFrame:
    """Return a struct that a function builds, which Spark calls free of NULL."""
    about = F.struct("site", F.lit(1).alias("form"))
    return clicks.select("k", "at", about.alias("about"), F.array(F.lit(1)).alias("marks"))


def sites(named: DataFrame) -> DataFrame:
    """Read the struct."""
    return named.select("k", "at", F.col("about.site").alias("site"))


NAMED = Appended(
    name="named", reads=(CLICKS,), transform=named, key=("k",), event_at="at", lateness=TEN
)
AFTER = replace(NAMED, transform=always_built)
SITES = Appended(
    name="sites", reads=(NAMED,), transform=sites, key=("k",), event_at="at", lateness=TEN
)


@pytest.mark.whole
def test_a_reader_outlives_the_promotion_of_a_table_whose_function_builds_a_struct(
    spark: SparkSession, lake: Lake
) -> None:
    """It has not read all that was there before."""
    site = Site(spark=spark, clock=lambda: NOON)
    put(lake, LOG, "1")
    derive(spark, lake, NAMED, SITES)
    put(lake, LOG, "2")
    derive(spark, lake, NAMED)

    rebuild(AFTER, lake, site)
    promote(AFTER, lake, site)
    derive(spark, lake, AFTER, replace(SITES, reads=(AFTER,)))

    found = opened(lake.table(SITES)).to_pyarrow_table().to_pylist()
    assert shown(found, "k", "site") == rows("""
        k | site
        a | x
        b | y
    """)
    kept = spark.read.format("delta").load(str(lake.table(AFTER))).schema
    assert never_null(kept) == []


def test_a_table_that_an_earlier_version_promoted_is_named_before_the_start_and_mended(
    spark: SparkSession, lake: Lake
) -> None:
    """The table says NOT NULL since then; what its reader has not read was written before."""
    put(lake, LOG, "1")
    derive(spark, lake, NAMED, SITES)
    put(lake, LOG, "2")
    derive(spark, lake, NAMED)
    _promoted_before(spark, lake)

    found = judge(spark, SITES, lake)
    with pytest.raises(DefinitionError, match="about is never NULL"):
        derive(spark, lake, SITES)
    after = migrate(spark, SITES, lake)
    derive(spark, lake, SITES)

    assert found.answer is Answer.MIGRATE
    assert after.answer is Answer.SAFE
    rows_of = opened(lake.table(SITES)).to_pyarrow_table().to_pylist()
    assert sorted(row["k"] for row in rows_of) == ["a", "b"]


@pytest.mark.whole
def test_a_reader_that_begins_after_such_a_promotion_goes_on(
    spark: SparkSession, lake: Lake
) -> None:
    """It has read nothing from before; its second start was refused all the same."""
    put(lake, LOG, "1")
    derive(spark, lake, NAMED)
    _promoted_before(spark, lake)
    derive(spark, lake, SITES)

    found = judge(spark, SITES, lake)
    put(lake, LOG, "2")
    derive(spark, lake, NAMED, SITES)

    assert found.answer is Answer.SAFE
    rows_of = opened(lake.table(SITES)).to_pyarrow_table().to_pylist()
    assert sorted(row["k"] for row in rows_of) == ["a", "b"]


def _promoted_before(spark: SparkSession, lake: Lake) -> None:
    """Commit what a promotion did before columns were always nullable; the rows are the same."""
    path = lake.table(NAMED)
    commit, own = delta_commit.Commit(spark, path), spark.read.format("delta").load(str(path))
    tight = StructType([replace_null(each) for each in own.schema])
    commit.bring_in((), tight.json(), ())
    newest = last_entry(path)
    assert newest is not None
    commit.commit(
        replace(newest[1], promoted="x", replaced=True, written=2, read=2, good=2).encoded()
    )


def replace_null(field: StructField) -> StructField:
    return StructField(field.name, field.dataType, nullable=field.name != "about")


def never_null(kind: DataType, path: str = "") -> list[str]:
    """Return what a type says is never NULL."""
    match kind:
        case StructType():
            own = [f"{path}{each.name}" for each in kind if not each.nullable]
            return own + [n for each in kind for n in never_null(each.dataType, f"{each.name}.")]
        case ArrayType():
            return [] if kind.containsNull else [f"{path}[]"]
        case _:
            return []
