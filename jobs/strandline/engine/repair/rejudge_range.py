"""Judge a range of bronze again: which rows come to silver, which go, and what its quarantine then holds.

Silver's range is one of event time, but a held row has no event time that could be believed, and a changed rule
moves events between the two. So the unit is the event: an event that the new judgement puts into the range, or that
the old one had put there, is settled as a whole, and every other event keeps its place. The law of lateness bounds
the arrivals that can be concerned, so the cost is that of the range and not of bronze.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta

from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from strandline.core.errors import DefinitionError
from strandline.core.received import ORDER, PLACE
from strandline.core.stateful import first_copies
from strandline.core.table import Judged
from strandline.core.verdict import (
    DUPLICATE_OF,
    bad_rows,
    good_rows,
    judged,
    time_of_a_bad_row,
    with_newest_arrival,
)
from strandline.core.writer_schema import schemas_from
from strandline.engine.quarantine.write import records
from strandline.engine.repair.closed_range import Span
from strandline.engine.repair.read_together import read_together
from strandline.engine.storage.lake import Lake
from strandline.engine.storage.ledger import Through
from strandline.engine.storage.read_version import rows_at
from strandline.engine.storage.schema_shelf import Shelf


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejudged:
    """The new content of a range.

    Args:
        version: The version of silver that was compared.
        live: Its rows in the range.
        rows: The rows that replace them.
        released: Records that leave the quarantine; some are replaced by records with other reasons.
        held: Records that come to the quarantine.
        lost: The number of released records by first reason.
        gained: The number of new records by first reason.
        verdicts: The verdict on each event of the range.
        through: How many rows of the range go because the table's function has no row for their record any more, and how
            many more of a record's rows it has than before.
    """

    version: int
    live: DataFrame
    rows: DataFrame
    released: DataFrame
    held: DataFrame
    lost: Counter[str]
    gained: Counter[str]
    verdicts: DataFrame
    through: Through


@contextmanager
def rejudged(spark: SparkSession, table: Judged, lake: Lake, span: Span) -> Iterator[Rejudged]:
    """Judge again all events that can belong to a range.

    Raises:
        DefinitionError: By today's code a row would move out of the range, or into it.
    """
    version, read = read_together(table, table.upstream, lake)
    events = _events(spark, table, lake, span, read)
    with schemas_from(Shelf(lake.schemas)):
        verdicts = judged(events, table, in_any_order=True)
    verdicts = verdicts.persist(StorageLevel.MEMORY_AND_DISK)
    firsts = first_copies(verdicts, DUPLICATE_OF, ORDER).persist(StorageLevel.MEMORY_AND_DISK)
    live = rows_at(spark, lake.table(table), version)
    inside = span.holds(table.event_at)
    known = records(spark, table, lake)
    moves = _moves(
        verdicts,
        live.select(*PLACE, inside.alias("was_in")),
        known.select(*PLACE, F.col("reasons").alias("were")),
        table,
        span,
    ).persist(StorageLevel.MEMORY_AND_DISK)
    try:
        gained, lost = _counted(moves, table)
        coming, leaving = (moves.where(each).select(*PLACE) for each in ("comes", "leaves"))
        yield Rejudged(
            version=version,
            live=live.where(inside),
            rows=good_rows(firsts).where(inside),
            released=known.join(leaving, [*PLACE], "left_semi"),
            held=bad_rows(firsts, table).join(coming, [*PLACE], "left_semi"),
            lost=lost,
            gained=gained,
            verdicts=firsts.where(span.holds("_time")),
            through=_through(events, verdicts, live.where(inside), good_rows(firsts).where(inside)),
        )
    finally:
        for each in (moves, firsts, verdicts):
            each.unpersist()


def _through(events: DataFrame, verdicts: DataFrame, live: DataFrame, rows: DataFrame) -> Through:
    """Count what the function does otherwise than when the live rows were made."""
    known = live.join(events.select(*PLACE), [*PLACE], "left_semi")
    lost = known.join(verdicts.select(*PLACE), [*PLACE], "left_anti").count()
    return Through(lost=lost, made=_more_than_records(rows) - _more_than_records(live))


def _more_than_records(rows: DataFrame) -> int:
    """Return how many rows there are beyond one for each record."""
    of_record = rows.groupBy(*PLACE).count()
    found = of_record.agg(F.sum(F.col("count") - 1)).collect()[0][0]
    return int(found or 0)


def _events(
    spark: SparkSession, table: Judged, lake: Lake, span: Span, read: Mapping[str, int]
) -> DataFrame:
    """Return the events of bronze that can be admitted into the range, as far as the stream has read."""
    (source,) = table.upstream
    bronze = with_newest_arrival(rows_at(spark, lake.table(source), read[source.id]))
    after = timedelta.max if table.believes_history else table.lateness.late
    near = span.wider(before=table.lateness.early, after=after)
    return bronze.where(near.holds("_arrived_at") | span.holds(time_of_a_bad_row()))


def _moves(
    verdicts: DataFrame, live: DataFrame, held: DataFrame, table: Judged, span: Span
) -> DataFrame:
    """Return for each event near the range where it was and where it goes."""
    events = verdicts.select(
        *PLACE,
        "_reasons",
        F.col("_reasons").isNull().alias("good"),
        span.holds("_time").alias("in_range"),
        F.coalesce(span.holds(table.event_at), F.lit(False)).alias("claims_range"),
    )
    known = events.join(live, [*PLACE], "left_outer").join(held, [*PLACE], "left_outer")
    was_in = F.coalesce("was_in", F.lit(False))
    was_out = ~F.coalesce("was_in", F.lit(True))
    was_copy = F.col("was_in").isNull() & F.col("were").isNull()
    good, in_range = F.col("good"), F.col("in_range")
    is_new = ~F.col("were").eqNullSafe(F.col("_reasons"))
    belongs = was_in | (in_range & ~was_out) | (F.col("claims_range") & was_copy)
    comes = ~good & is_new & belongs
    return known.select(
        *PLACE,
        comes.alias("comes"),
        (F.col("were").isNotNull() & ((good & in_range) | comes)).alias("leaves"),
        (was_in & good & ~in_range).alias("moves_out"),
        (was_out & good & in_range).alias("moves_in"),
        _first("_reasons").alias("why"),
        _first("were").alias("was_why"),
    )


def _counted(moves: DataFrame, table: Judged) -> tuple[Counter[str], Counter[str]]:
    """Count by first reason what comes to the quarantine and what leaves it."""
    kinds = ("moves_out", "moves_in", "comes", "leaves", "why", "was_why")
    moving = moves.where("comes OR leaves OR moves_out OR moves_in")
    counts = moving.groupBy(*kinds).count().collect()
    _refuse_moves(
        table,
        out=sum(row["count"] for row in counts if row["moves_out"]),
        into=sum(row["count"] for row in counts if row["moves_in"]),
    )
    gained: Counter[str] = Counter()
    lost: Counter[str] = Counter()
    for row in counts:
        if row["comes"]:
            gained[row["why"]] += row["count"]
        if row["leaves"]:
            lost[row["was_why"]] += row["count"]
    return gained, lost


def _refuse_moves(table: Judged, *, out: int, into: int) -> None:
    """Refuse a row whose event time moves across the range's border: half of the move would be lost."""
    if out or into:
        raise DefinitionError(
            f"by today's code {out:,} rows of {table.id} leave the range and {into:,} come into it",
            hint="choose a wider range that contains both of their times, or compute the whole table again: "
            f"`strandline rebuild {table.id}`.",
            table=table.id,
            leave=out,
            come=into,
        )


def _first(reasons: str) -> Column:
    return F.get(reasons, F.lit(0))
