"""Append to the two tables of a quarantine: the records that are held, and the decisions about them."""

from dataclasses import dataclass, replace
from datetime import datetime

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import IntegerType, StructField, StructType

from strandline.core.items import ITEM
from strandline.core.table import Table
from strandline.core.topic import IDENTITY, RESOLUTION
from strandline.engine.lake.commit import create_table, delta_commit
from strandline.engine.lake.commit.delta_commit import write
from strandline.engine.lake.files.place import Place
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger import Entry, is_table, latest_version
from strandline.engine.quarantine.resolutions import (
    State,
    Status,
    generation,
    has_items,
    statement,
)

RESOLVABLE = (*IDENTITY, "reasons", "event_at", "_state")
"""The columns of a record that its resolution repeats."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Signed:
    """Who decides, when, and why.

    Args:
        who: A login name; unknown when empty.
        at: The time, by the caller's clock.
        why: The reason that the person gave.
    """

    who: str = ""
    at: datetime | None = None
    why: str | None = None


UNSIGNED = Signed()


def let_have_items(spark: SparkSession, path: Place) -> None:
    """Let a quarantine, or its resolutions, have items of records; its rows so far are of records."""
    if not has_items(path):
        create_table.add_columns(spark, path, StructType().add(ITEM, IntegerType()))


def records(spark: SparkSession, table: Table, lake: Lake) -> DataFrame:
    """Return the records that a quarantine holds, each with its state in ``_state``."""
    path, resolutions = lake.quarantine(table), lake.resolutions(table)
    rows = spark.read.format("delta").load(str(path))
    if not is_table(resolutions):
        return rows.withColumn("_state", F.lit(State.OPEN.value))
    items = (has_items(path), has_items(resolutions))
    question = statement("{quarantine}", "{resolutions}", generation(path), items)
    known = spark.sql(
        question, quarantine=rows, resolutions=spark.read.format("delta").load(str(resolutions))
    )
    return known.where(F.col("_state") != State.CLOSED.value)


def open_records(spark: SparkSession, table: Table, lake: Lake) -> DataFrame:
    """Return the records that are open."""
    return records(spark, table, lake).where(F.col("_state") == State.OPEN.value)


def resolve(  # noqa: PLR0913  # the table, the records, the decision, and its ledger entry
    spark: SparkSession,
    table: Table,
    lake: Lake,
    closing: DataFrame,
    *,
    status: Status | Column,
    signed: Signed,
    entry: Entry,
) -> Entry:
    """Record a decision about records; one commit.

    Args:
        spark: The session.
        table: A judged table.
        lake: Its lake.
        closing: The records, with the columns of ``RESOLVABLE``.
        status: The decision.
        signed: Who made it, when, and why.
        entry: The ledger entry of the commit.
    """
    path, quarantine = lake.resolutions(table), lake.quarantine(table)
    create_table.create(spark, path, RESOLUTION, properties={"delta.appendOnly": "true"})
    schema = RESOLUTION
    if has_items(quarantine):
        let_have_items(spark, path)
        schema = StructType([*RESOLUTION, StructField(ITEM, IntegerType())])
    begun, now = generation(quarantine), latest_version(quarantine)
    became = status if isinstance(status, Column) else F.lit(status.value)
    values = {
        "generation": F.lit(begun),
        "was": F.col("_state"),
        "status": became,
        "why": F.lit(signed.why),
        "who": F.lit(signed.who or None),
        "resolved_at": F.lit(signed.at),
        "entry": F.lit(entry.stream),
    }
    rows = closing.select(
        *(
            values.get(each.name, F.col(each.name)).cast(each.dataType).alias(each.name)
            for each in schema
        )
    )
    name = f"quarantine.{table.name}"
    entry = replace(entry, source=name, versions={name: (begun, now)})
    commit = delta_commit.Commit(spark, path)
    written = write(commit, rows).rows
    final = replace(entry, written=written)
    commit.commit(final.encoded())
    return final


def hold(spark: SparkSession, table: Table, lake: Lake, rows: DataFrame, entry: Entry) -> None:
    """Add records to a quarantine; one commit.

    Args:
        spark: The session.
        table: A judged table.
        lake: Its lake.
        rows: The records.
        entry: The ledger entry of the commit.
    """
    if ITEM in rows.columns:
        let_have_items(spark, lake.quarantine(table))
    commit = delta_commit.Commit(spark, lake.quarantine(table))
    written = write(commit, rows).rows
    commit.commit(replace(entry, written=written).encoded())


def append_entry(spark: SparkSession, table: Table, lake: Lake, entry: Entry) -> None:
    """Append an entry to a table's ledger that changes no row."""
    delta_commit.Commit(spark, lake.table(table)).commit(entry.encoded())
