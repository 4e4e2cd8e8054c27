"""The code of a table of windows, before and after edits."""

from pyspark.sql import Column, DataFrame, GroupedData
from pyspark.sql import functions as F

from strandline.core.kind import Day


def in_windows(
    rows: DataFrame, *by: str | Column, length: str = "10 minutes", slide: str | None = None
) -> GroupedData:
    return rows.groupBy(*by, F.window("at", length, slide))


def ends(rows: DataFrame, *columns: str | Column) -> DataFrame:
    window = (F.col("window.start").alias("began"), F.col("window.end").alias("ended"))
    return rows.select(*columns, *window)


def counts(rows: DataFrame) -> DataFrame:
    found = in_windows(rows, "k", "site").agg(F.sum("v").alias("total"), F.sum("w").alias("other"))
    return ends(found, "k", "site", "total", "other")


AUCKLAND, CHATHAM = Day("Pacific/Auckland"), Day("Pacific/Chatham")
"""Where a day ends within the log: at 11:00 and at 10:15."""


def by_day(rows: DataFrame, day: Day = AUCKLAND) -> DataFrame:
    days = day.of(rows, "at", name="window").groupBy("k", "site", "window")
    sums = days.agg(F.sum("v").alias("total"), F.sum("w").alias("other"))
    return ends(sums, "k", "site", "total", "other")


def by_day_of_another_zone(rows: DataFrame) -> DataFrame:
    return by_day(rows, CHATHAM)


def by_day_again(rows: DataFrame) -> DataFrame:
    return by_day(rows.withColumn("unused", F.lit(1)))


def counts_again(rows: DataFrame) -> DataFrame:
    found = in_windows(rows.withColumn("unused", F.lit(1)), F.col("k"), "site")
    sums = found.agg(F.sum("v").alias("t"), F.sum("w").alias("other"))
    return ends(sums, "k", "site", F.col("t").alias("total"), "other")


def renamed(rows: DataFrame) -> DataFrame:
    return counts(rows).withColumnRenamed("total", "sum_of_v")


def aggregate_added(rows: DataFrame) -> DataFrame:
    found = in_windows(rows, "k", "site").agg(
        F.sum("v").alias("total"), F.sum("w").alias("other"), F.max("v").alias("most")
    )
    return ends(found, "k", "site", "total", F.greatest("other", "most").alias("other"))


def aggregate_removed(rows: DataFrame) -> DataFrame:
    found = in_windows(rows, "k", "site").agg(F.sum("v").alias("total"))
    return ends(found, "k", "site", "total", F.col("total").alias("other"))


def aggregates_swapped(rows: DataFrame) -> DataFrame:
    found = in_windows(rows, "k", "site").agg(F.sum("w").alias("other"), F.sum("v").alias("total"))
    return ends(found, "k", "site", "total", "other")


def columns_swapped(rows: DataFrame) -> DataFrame:
    return counts(rows).select("k", "site", "other", "total", "began", "ended")


def another_function(rows: DataFrame) -> DataFrame:
    found = in_windows(rows, "k", "site").agg(F.max("v").alias("total"), F.sum("w").alias("other"))
    return ends(found, "k", "site", "total", "other")


def another_input(rows: DataFrame) -> DataFrame:
    found = in_windows(rows, "k", "site").agg(
        F.sum(F.col("v") * 2).alias("total"), F.sum("w").alias("other")
    )
    return ends(found, "k", "site", "total", "other")


def wider_sum(rows: DataFrame) -> DataFrame:
    wide = F.sum(F.col("v").cast("decimal(19,0)")).cast("long")
    found = in_windows(rows, "k", "site").agg(wide.alias("total"), F.sum("w").alias("other"))
    return ends(found, "k", "site", "total", "other")


def key_added(rows: DataFrame) -> DataFrame:
    found = in_windows(rows, "k", "site", "part")
    sums = found.agg(F.sum("v").alias("total"), F.sum("w").alias("other"))
    return ends(sums, "k", "site", "total", "other")


def key_removed(rows: DataFrame) -> DataFrame:
    found = in_windows(rows, "k").agg(F.sum("v").alias("total"), F.sum("w").alias("other"))
    return ends(found, "k", F.lit("x").alias("site"), "total", "other")


def keys_swapped(rows: DataFrame) -> DataFrame:
    found = in_windows(rows, "site", "k").agg(F.sum("v").alias("total"), F.sum("w").alias("other"))
    return ends(found, "k", "site", "total", "other")


def key_of_another_type(rows: DataFrame) -> DataFrame:
    found = in_windows(rows.withColumn("n", F.ascii("k")), "n", "site")
    sums = found.agg(F.sum("v").alias("total"), F.sum("w").alias("other"))
    return ends(sums, F.chr("n").alias("k"), "site", "total", "other")


def key_computed_otherwise(rows: DataFrame) -> DataFrame:
    return counts(rows.withColumn("k", F.upper("k")))


def another_length(rows: DataFrame) -> DataFrame:
    found = in_windows(rows, "k", "site", length="20 minutes")
    return ends(
        found.agg(F.sum("v").alias("total"), F.sum("w").alias("other")),
        "k",
        "site",
        "total",
        "other",
    )


def slide_added(rows: DataFrame) -> DataFrame:
    found = in_windows(rows, "k", "site", slide="5 minutes")
    return ends(
        found.agg(F.sum("v").alias("total"), F.sum("w").alias("other")),
        "k",
        "site",
        "total",
        "other",
    )


def slid(rows: DataFrame) -> DataFrame:
    found = in_windows(rows, "k", "site", slide="2 minutes")
    return ends(
        found.agg(F.sum("v").alias("total"), F.sum("w").alias("other")),
        "k",
        "site",
        "total",
        "other",
    )


def filtered_before(rows: DataFrame) -> DataFrame:
    return counts(rows.where(F.col("v") > 7))


def filtered_before_from_now_on(rows: DataFrame) -> DataFrame:
    return counts(rows.where((F.col("v") > 7) | (F.col("part") == "A")))


def filtered_more(rows: DataFrame) -> DataFrame:
    return counts(rows.where(F.col("v") > 8))


def filtered_more_from_now_on(rows: DataFrame) -> DataFrame:
    return counts(rows.where((F.col("v") > 8) | ((F.col("v") > 7) & (F.col("part") == "A"))))


def filtered_after(rows: DataFrame) -> DataFrame:
    return counts(rows).where(F.col("total") > 20)


def computed_after(rows: DataFrame) -> DataFrame:
    return counts(rows).withColumn("total", F.col("total") + 1000)


def column_added_after(rows: DataFrame) -> DataFrame:
    return counts(rows).withColumn("both", F.col("total") + F.col("other"))


def two_operators(rows: DataFrame) -> DataFrame:
    return counts(rows.dropDuplicates(["k", "site", "v", "w", "part", "at"]))


def by_session(rows: DataFrame) -> DataFrame:
    found = rows.groupBy("k", "site", F.session_window("at", "4 minutes").alias("window"))
    return ends(
        found.agg(F.sum("v").alias("total"), F.sum("w").alias("other")),
        "k",
        "site",
        "total",
        "other",
    )


def by_longer_session(rows: DataFrame) -> DataFrame:
    found = rows.groupBy("k", "site", F.session_window("at", "1 minute").alias("window"))
    return ends(
        found.agg(F.sum("v").alias("total"), F.sum("w").alias("other")),
        "k",
        "site",
        "total",
        "other",
    )
