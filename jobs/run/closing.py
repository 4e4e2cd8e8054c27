"""Writing to the two tables of a quarantine, both of which only grow: records that are held, and what was done about them."""

from dataclasses import dataclass, replace
from datetime import datetime

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from jobs.core.received import IDENTITY, RESOLUTION
from jobs.core.table import Table
from jobs.run import delta
from jobs.run.lake import Lake
from jobs.run.ledger import Entry, is_table, latest_version
from jobs.run.resolutions import State, Status, generation, statement
from jobs.run.sized import write

RESOLVABLE = (*IDENTITY, "reasons", "event_at", "_state")
"""What of a record a resolution repeats."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Signed:
    """Who does something, when, and why.

    Args:
        who: A login name; unknown when empty.
        at: The moment, of the clock that is given.
        why: What a person said about it.
    """

    who: str = ""
    at: datetime | None = None
    why: str | None = None


NOBODY = Signed()


def records(spark: SparkSession, table: Table, lake: Lake) -> DataFrame:
    """Return the records that a quarantine holds, each with what it is in ``_state``."""
    path, said = lake.quarantine(table), lake.resolutions(table)
    rows = spark.read.format("delta").load(str(path))
    if not is_table(said):
        return rows.withColumn("_state", F.lit(State.OPEN.value))
    question = statement("{quarantine}", "{resolutions}", generation(path).begun)
    known = spark.sql(
        question, quarantine=rows, resolutions=spark.read.format("delta").load(str(said))
    )
    return known.where(F.col("_state") != State.CLOSED.value)


def open_records(spark: SparkSession, table: Table, lake: Lake) -> DataFrame:
    """Return those about which nothing was done."""
    return records(spark, table, lake).where(F.col("_state") == State.OPEN.value)


def resolve(  # noqa: PLR0913  # where, which, what became of them, and what is said of it
    spark: SparkSession,
    table: Table,
    lake: Lake,
    closing: DataFrame,
    *,
    status: Status | Column,
    signed: Signed,
    entry: Entry,
) -> Entry:
    """Say what was done about records; one commit.

    Args:
        spark: The session.
        table: A judged table.
        lake: Where.
        closing: The records, with the columns of ``RESOLVABLE``.
        status: What became of them.
        signed: By whom.
        entry: What the ledger says of it.
    """
    path, quarantine = lake.resolutions(table), lake.quarantine(table)
    delta.create(spark, path, RESOLUTION, properties={"delta.appendOnly": "true"})
    begun, now = generation(quarantine).begun, latest_version(quarantine)
    became = status if isinstance(status, Column) else F.lit(status.value)
    told = {
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
            told.get(each.name, F.col(each.name)).cast(each.dataType).alias(each.name)
            for each in RESOLUTION
        )
    )
    name = f"quarantine.{table.name}"
    entry = replace(entry, source=name, versions={name: (begun, now)})
    commit = delta.Commit(spark, path)
    written = write(commit, rows).rows
    final = replace(entry, written=written)
    commit.commit(final.encoded())
    return final


def hold(spark: SparkSession, table: Table, lake: Lake, rows: DataFrame, entry: Entry) -> None:
    """Add records to a quarantine; one commit.

    Args:
        spark: The session.
        table: A judged table.
        lake: Where.
        rows: The records.
        entry: What the ledger says of it.
    """
    commit = delta.Commit(spark, lake.quarantine(table))
    written = write(commit, rows).rows
    commit.commit(replace(entry, written=written).encoded())


def stand_alone(spark: SparkSession, table: Table, lake: Lake, entry: Entry) -> None:
    """Put an entry into a table's ledger that changes no row."""
    delta.Commit(spark, lake.table(table)).commit(entry.encoded())
