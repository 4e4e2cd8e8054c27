"""Edits of what a table's columns are, and of the columns of a table that it reads."""

from collections.abc import Callable, Iterator
from dataclasses import replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import IntegerType, LongType, StructType

from strandline.core.table import Appended, Computed, Windowed
from tests.support.edits import CLICKS, FIELDS, Edit
from tests.support.edits_of_windows import NOW
from tests.support.windows_before_and_after import in_windows

BASE = {
    "i": "cast(v as int)",
    "d": "cast(v as decimal(6,2))",
    "f": "cast(v + 0.1D as float)",
    "day": "to_date(at)",
    "s": "named_struct('a', cast(v as int), 'site', site)",
    "l": "array(cast(v as int))",
    "ls": "array(named_struct('a', cast(v as int)))",
    "m": "map(site, cast(v as int))",
}
"""What the columns are computed from, before."""


def typed(rows: DataFrame, **others: str) -> DataFrame:
    """Return rows with columns of many types, some of them computed otherwise; ``no`` leaves one out."""
    chosen = {name: text for name, text in (BASE | others).items() if text != "no"}
    return rows.select("k", *(F.expr(text).alias(name) for name, text in chosen.items()), "at")


TYPED = Appended(name="typed", reads=(CLICKS,), transform=typed, key=("k", "at"), event_at="at")


def _edited(**others: str) -> Callable[[DataFrame], DataFrame]:
    def edited(rows: DataFrame) -> DataFrame:
        return typed(rows, **others)

    return edited


OF_A_TABLE: dict[str, dict[str, str]] = {
    "int to long": {"i": "cast(v as bigint)"},
    "int to short": {"i": "cast(v as smallint)"},
    "int to text": {"i": "cast(v as string)"},
    "int to decimal": {"i": "cast(v as decimal(20,2))"},
    "float to double": {"f": "v + 0.1D"},
    "a wider decimal": {"d": "cast(v as decimal(12,2))"},
    "a wider decimal with more digits behind the point": {"d": "cast(v as decimal(12,4))"},
    "a narrower decimal": {"d": "cast(v as decimal(4,2))"},
    "a date to a local time": {"day": "cast(to_date(at) as timestamp_ntz)"},
    "a date to a moment": {"day": "cast(to_date(at) as timestamp)"},
    "a column added": {"more": "w"},
    "a column left out": {"i": "no"},
    "a column under another name": {"i": "no", "number": "cast(v as int)"},
    "two columns swapped": {"i": "cast(w as int)"},
    "a column that may be NULL": {"i": "if(v > 3, cast(v as int), null)"},
    "a struct gains a field": {
        "s": "named_struct('a', cast(v as int), 'site', site, 'b', cast(w as int))"
    },
    "a struct loses a field": {"s": "named_struct('site', site)"},
    "a struct's fields swapped": {"s": "named_struct('site', site, 'a', cast(v as int))"},
    "a struct's int to long": {"s": "named_struct('a', v, 'site', site)"},
    "a struct's int to text": {"s": "named_struct('a', cast(v as string), 'site', site)"},
    "a list's int to long": {"l": "array(v)"},
    "a list's int to text": {"l": "array(cast(v as string))"},
    "a list's struct gains a field": {"ls": "array(named_struct('a', cast(v as int), 'b', site))"},
    "a list instead of a value": {"i": "array(cast(v as int))"},
    "a map's value int to long": {"m": "map(site, v)"},
    "a map's key to int": {"m": "map(length(site), cast(v as int))"},
}


def of_tables() -> Iterator[Edit]:
    """Yield edits of the columns that a table without state has."""
    for name, others in OF_A_TABLE.items():
        after = replace(TYPED, transform=_edited(**others))
        yield Edit(name=f"columns: {name}", before=TYPED, after=after, starts=True)


# A source whose columns change, seen from above.


SHORT = StructType(
    [
        *(each for each in FIELDS if each.name not in {"v", "w"}),
        *StructType().add("v", IntegerType()).add("w", IntegerType()),
    ]
)
"""The source before."""

LONG = StructType(
    [*(each for each in SHORT if each.name != "v"), *StructType().add("v", LongType())]
)
MORE = StructType([*SHORT]).add("x", LongType())


def passed_on(rows: DataFrame) -> DataFrame:
    return rows.select("k", "v", "at")


def of_others(rows: DataFrame) -> DataFrame:
    return rows.select("k", "w", "at")


def most(rows: DataFrame, function: str = "max") -> DataFrame:
    found = in_windows(rows, "k").agg(F.expr(f"{function}(v)").alias("most"))
    window = (F.col("window.start").alias("began"), F.col("window.end").alias("ended"))
    return found.select("k", "most", *window)


def summed(rows: DataFrame) -> DataFrame:
    return most(rows, "sum")


def once(rows: DataFrame) -> DataFrame:
    return passed_on(rows).dropDuplicates(["k", "v", "at"])


PASSED = Appended(
    name="passed", reads=(CLICKS,), transform=passed_on, key=("k", "at"), event_at="at"
)
MOST = Windowed(
    name="most",
    reads=(CLICKS,),
    transform=most,
    key=("k", "began"),
    window="10 minutes",
    window_from="began",
    closes_at="ended",
)

FROM_BELOW: dict[str, tuple[Computed, StructType]] = {
    "int to long, passed on": (PASSED, LONG),
    "int to long, not read": (replace(PASSED, transform=of_others), LONG),
    "int to long, its sum": (replace(MOST, transform=summed), LONG),
    "int to long, its maximum": (MOST, LONG),
    "int to long, a key of duplicates": (replace(PASSED, transform=once), LONG),
    "a column added": (PASSED, MORE),
}


def seen_from_above() -> Iterator[Edit]:
    """Yield edits of a source's columns, of which the table that reads it is not edited."""
    for name, (table, later) in FROM_BELOW.items():
        yield Edit(
            name=f"a source: {name}",
            before=table,
            after=table,
            fields=SHORT,
            later=later,
            starts=True,
        )


# What decides where and when a row is written.


def of_places() -> Iterator[Edit]:
    """Yield edits of keys, partitions, the columns of duplicates and the time of events."""
    more_keys = replace(NOW, key=("k", "began"))
    yield Edit(name="columns: a part of the key left out", before=NOW, after=more_keys, starts=True)
    by_end = replace(NOW, window_from="ended", event_at="ended")
    yield Edit(name="columns: other partitions", before=NOW, after=by_end, starts=True)
    narrow = replace(PASSED, transform=once)
    wide = replace(
        PASSED, transform=lambda rows: once(rows.withColumn("v", F.col("v").cast("string")))
    )
    yield Edit(name="columns: duplicates by a text", before=narrow, after=wide, starts=True)
    later = replace(
        PASSED,
        transform=lambda rows: passed_on(rows).withColumn("at", F.expr("at + interval 1 minute")),
    )
    yield Edit(name="columns: another time of events", before=PASSED, after=later, starts=True)


def schemas() -> Iterator[Edit]:
    """Yield the edits of schemas."""
    yield from of_tables()
    yield from seen_from_above()
    yield from of_places()
