"""Edits of what a table's columns are, and of the columns of a table that it reads."""

from collections.abc import Callable, Iterator
from dataclasses import replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

from strandline.core.table import Appended, Computed, Windowed
from strandline.engine.lake.commit import delta_commit
from strandline.engine.lake.commit.delta_commit import rows_at
from strandline.engine.lake.commit.replace_rows import rename_columns
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger import last_entry, latest_version
from strandline.engine.repair.migrate import rename
from tests.support import engine
from tests.support.edits import CLICKS, FIELDS, LOG, Edit
from tests.support.edits_of_windows import NOW
from tests.support.rows import NOON
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


RENAMED = replace(TYPED, transform=_edited(i="no", number="cast(v as int)"))


def _said(lake: Lake) -> None:
    rename(engine.spark(), RENAMED, lake, {"i": "number"}, NOON)


def of_tables() -> Iterator[Edit]:
    """Yield edits of the columns that a table without state has."""
    for name, others in OF_A_TABLE.items():
        after = replace(TYPED, transform=_edited(**others))
        yield Edit(name=f"columns: {name}", before=TYPED, after=after, starts=True)
    name = "columns: a column under another name, which is said"
    yield Edit(name=name, before=TYPED, after=RENAMED, around=_said, starts=True)


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


TWICE = "\n".join(
    f"{line} | {'amount' if 'site' in line else line.split('|')[3].strip()}"
    for line in LOG.strip("\n").splitlines()
)
"""The log with the values of a column under two names."""

NAMED = StructType(
    [StructField("amount", each.dataType) if each.name == "v" else each for each in SHORT]
)
TEXT = StructType([StructField("v", StringType()) if each.name == "v" else each for each in SHORT])
LESS = StructType([each for each in SHORT if each.name != "w"])


def of_nothing(rows: DataFrame) -> DataFrame:
    return rows.select("k", F.lit(None).cast("int").alias("w"), "at")


def most_named(rows: DataFrame) -> DataFrame:
    return most(rows.withColumnRenamed("amount", "v"))


def _under_another_name(lake: Lake) -> None:
    rename_columns(lake.table(CLICKS), {"v": "amount"}, NOON)


def _replaced_by(schema: StructType) -> Callable[[Lake], None]:
    """Replace the rows of the source by the same rows with other columns, as a promotion does."""

    def around(lake: Lake) -> None:
        path = lake.table(CLICKS)
        spark = engine.spark()
        rows = rows_at(spark, path, latest_version(path))
        commit = delta_commit.Commit(spark, path)
        commit.take_out_all()
        commit.bring_in((), schema.json(), ())
        columns = [F.col(each.name).cast(each.dataType).alias(each.name) for each in schema]
        written = commit.write(rows.select(*columns))
        newest = last_entry(path)
        assert newest is not None
        entry = replace(newest[1], replaced=True, promoted="x", written=written.rows)
        commit.commit(entry.encoded())

    return around


REFERENCES: dict[str, Computed] = {
    "a column under another name that is not called so": replace(MOST, transform=most_named),
    "a column that is gone, passed on": replace(PASSED, transform=of_nothing),
}
"""What the rows would be where the table cannot run."""

OF_OTHER_COLUMNS: dict[str, tuple[Computed, Computed, StructType, Callable[[Lake], None]]] = {
    "a column under another name, its maximum": (
        MOST,
        replace(MOST, transform=most_named),
        NAMED,
        _under_another_name,
    ),
    "a column under another name that is not called so": (MOST, MOST, NAMED, _under_another_name),
    "a text instead of a number, passed on": (PASSED, PASSED, TEXT, _replaced_by(TEXT)),
    "a text instead of a number, not read": (
        replace(PASSED, transform=of_others),
        replace(PASSED, transform=of_others),
        TEXT,
        _replaced_by(TEXT),
    ),
    "a text instead of a number, below a maximum": (MOST, MOST, TEXT, _replaced_by(TEXT)),
    "a column that is gone, passed on": (
        replace(PASSED, transform=of_others),
        replace(PASSED, transform=of_others),
        LESS,
        _replaced_by(LESS),
    ),
    "a column that is gone, not read": (PASSED, PASSED, LESS, _replaced_by(LESS)),
}


def with_other_columns() -> Iterator[Edit]:
    """Yield what becomes of a table when one that it reads has other columns."""
    for name, (before, after, later, around) in OF_OTHER_COLUMNS.items():
        yield Edit(
            name=f"a source: {name}",
            before=before,
            after=after,
            reference=REFERENCES.get(name),
            log=TWICE,
            fields=SHORT,
            later=later,
            around=around,
            starts=True,
        )


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
        transform=lambda rows: passed_on(rows).withColumn("at", F.col("at").cast("string")),
    )
    yield Edit(name="columns: a time that is a text now", before=PASSED, after=later, starts=True)


def schemas() -> Iterator[Edit]:
    """Yield the edits of schemas."""
    yield from of_tables()
    yield from seen_from_above()
    yield from with_other_columns()
    yield from of_places()
