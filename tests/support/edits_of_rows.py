"""Edits of tables that pass rows on: without state, without duplicates, joined."""

from collections.abc import Iterator
from dataclasses import replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from strandline.core.table import Appended
from tests.support.edits import CLICKS, VISITS, Edit


def copied(rows: DataFrame) -> DataFrame:
    return rows.select("k", "v", "at")


def copied_filtered(rows: DataFrame) -> DataFrame:
    return copied(rows.where(F.col("v") > 3))


def copied_computed(rows: DataFrame) -> DataFrame:
    return copied(rows.withColumn("v", F.col("v") * 3))


def copied_more(rows: DataFrame) -> DataFrame:
    return rows.select("k", "v", "at", "w")


def copied_less(rows: DataFrame) -> DataFrame:
    return rows.select("k", "at")


def copied_as_text(rows: DataFrame) -> DataFrame:
    return rows.select("k", F.col("v").cast("string").alias("v"), "at")


def copied_narrow(rows: DataFrame) -> DataFrame:
    return rows.select("k", F.col("v").cast("int").alias("v"), "at")


def both(clicks: DataFrame, visits: DataFrame) -> DataFrame:
    return copied(clicks).unionByName(copied(visits))


def both_swapped(clicks: DataFrame, visits: DataFrame) -> DataFrame:
    return copied(visits).unionByName(copied(clicks))


def once(rows: DataFrame) -> DataFrame:
    return copied(rows).dropDuplicates(["k", "v", "at"])


def once_by_less(rows: DataFrame) -> DataFrame:
    return copied(rows).dropDuplicates(["k", "at"])


def once_by_site(rows: DataFrame) -> DataFrame:
    return rows.select("k", "site", "v", "at").dropDuplicates(["k", "site", "at"]).drop("site")


def once_by_capitals(rows: DataFrame) -> DataFrame:
    return once_by_site(rows.withColumn("site", F.upper("site")))


def once_swapped(rows: DataFrame) -> DataFrame:
    return rows.select("k", "site", "v", "at").dropDuplicates(["site", "k", "at"]).drop("site")


def once_computed(rows: DataFrame) -> DataFrame:
    return once(rows).withColumn("v", F.col("v") * 2)


def once_within(rows: DataFrame) -> DataFrame:
    return copied(rows).dropDuplicatesWithinWatermark(["k", "v", "at"])


def once_of_both(clicks: DataFrame, visits: DataFrame) -> DataFrame:
    return both(clicks, visits).dropDuplicates(["k", "at"])


def once_of_both_swapped(clicks: DataFrame, visits: DataFrame) -> DataFrame:
    return both_swapped(clicks, visits).dropDuplicates(["k", "at"])


def met(
    clicks: DataFrame, visits: DataFrame, how: str = "inner", bound: str = "2 minutes"
) -> DataFrame:
    left = clicks.select("k", "site", "v", F.col("at").alias("at"))
    right = visits.select(
        F.col("k").alias("of"), F.col("v").alias("found"), F.col("at").alias("then")
    )
    belongs = F.expr(f"k = of AND then >= at AND then <= at + INTERVAL {bound}")
    return left.join(right, belongs, how).select("k", "v", "at", "found")


def met_or_not(clicks: DataFrame, visits: DataFrame) -> DataFrame:
    return met(clicks, visits, "left_outer")


def met_later(clicks: DataFrame, visits: DataFrame) -> DataFrame:
    return met(clicks, visits, bound="4 minutes")


def met_sooner(clicks: DataFrame, visits: DataFrame) -> DataFrame:
    return met(clicks, visits, bound="1 minutes")


def met_or_not_sooner(clicks: DataFrame, visits: DataFrame) -> DataFrame:
    return met(clicks, visits, "left_outer", bound="1 minutes")


def met_on_more(clicks: DataFrame, visits: DataFrame) -> DataFrame:
    left, right = (
        clicks.select("k", "site", "v", "at"),
        visits.select(
            F.col("k").alias("of"),
            F.col("site").alias("there"),
            F.col("v").alias("found"),
            F.col("at").alias("then"),
        ),
    )
    belongs = F.expr("k = of AND site = there AND then >= at AND then <= at + INTERVAL 2 minutes")
    return left.join(right, belongs).select("k", "v", "at", "found")


def met_with_another_value(clicks: DataFrame, visits: DataFrame) -> DataFrame:
    return met(clicks.withColumn("v", F.col("w")), visits)


def met_filtered_after(clicks: DataFrame, visits: DataFrame) -> DataFrame:
    return met(clicks, visits).where(F.length("k") < 5)


COPIES = Appended(name="copies", reads=(CLICKS,), transform=copied, key=("k", "at"), event_at="at")
ONCE = replace(COPIES, transform=once)
BOTH = replace(COPIES, reads=(CLICKS, VISITS), transform=both)
MET = replace(COPIES, reads=(CLICKS, VISITS), transform=met)


def rows_alone() -> Iterator[Edit]:
    """Yield the edits of a table without state, and those that give it one or take it."""
    for name, transform in (
        ("without state: a filter", copied_filtered),
        ("without state: a value", copied_computed),
        ("without state: a column added", copied_more),
        ("without state: a column dropped", copied_less),
        ("without state: a column of another type", copied_as_text),
        ("without state: a column narrowed", copied_narrow),
        ("duplicates dropped from now on", once),
    ):
        yield Edit(name=name, before=COPIES, after=replace(COPIES, transform=transform))
    yield Edit(name="a source added", before=COPIES, after=BOTH)
    yield Edit(name="a source dropped", before=BOTH, after=COPIES)
    yield Edit(name="sources swapped", before=BOTH, after=replace(BOTH, transform=both_swapped))
    yield Edit(
        name="sources swapped below state",
        before=replace(BOTH, transform=once_of_both),
        after=replace(BOTH, transform=once_of_both_swapped),
    )


def duplicates() -> Iterator[Edit]:
    """Yield the edits of a table that drops duplicates."""
    for name, transform in (
        ("duplicates: a key removed", once_by_less),
        ("duplicates: a value after the state", once_computed),
        ("duplicates: within the watermark", once_within),
        ("duplicates: dropped no longer", copied),
    ):
        yield Edit(name=name, before=ONCE, after=replace(ONCE, transform=transform))
    by_site = replace(ONCE, transform=once_by_site)
    yield Edit(
        name="duplicates: keys swapped", before=by_site, after=replace(ONCE, transform=once_swapped)
    )
    yield Edit(
        name="duplicates: a key computed otherwise",
        before=by_site,
        after=replace(ONCE, transform=once_by_capitals),
    )


def joins() -> Iterator[Edit]:
    """Yield the edits of a join of two streams."""
    for name, transform in (
        ("join: left outer", met_or_not),
        ("join: a longer time", met_later),
        ("join: a shorter time", met_sooner),
        ("join: another key", met_on_more),
        ("join: another value kept", met_with_another_value),
        ("join: a filter after it", met_filtered_after),
    ):
        yield Edit(name=name, before=MET, after=replace(MET, transform=transform))
    yield Edit(
        name="join: left outer, a shorter time",
        before=replace(MET, transform=met_or_not),
        after=replace(MET, transform=met_or_not_sooner),
    )
