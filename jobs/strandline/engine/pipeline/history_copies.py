"""Copies of history: rows of a judged table that believes events which are older than any state.

State has forgotten an event that happened longer ago than a table admits, so a row of it is compared with the rows of its
batch, and with those that the table has of that time: it is a copy where one of its key and event time comes before it in
bronze's order. A row that is in time follows one of history only where it arrived shortly before it, by the law of disorder,
so those at the border are compared as well. A batch over everything and a stream keep the same rows, and what leaves here is counted as any other copy is.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from strandline.core.received import ORDER, PLACE
from strandline.core.table import Judged
from strandline.core.verdict import may_have_copies_in_the_table
from strandline.engine.storage.place import Place


def without_copies(rows: DataFrame, table: Judged, path: Place | None) -> DataFrame:
    """Return judged rows without copies of history; all of them where the table believes none, or none came.

    Args:
        rows: Judged and deduplicated as far as state knows; persisted.
        table: The table.
        path: Its rows so far; None where they are replaced.
    """
    if not table.believes_history:
        return rows
    at = F.col(table.event_at)
    micros = F.unix_micros(at)
    old = rows.where(may_have_copies_in_the_table(table))
    count, first, last = old.agg(F.count(F.lit(1)), F.min(micros), F.max(micros)).collect()[0]
    if not count:
        return rows
    same = _same(table)
    mine = old.select(*PLACE, F.struct(*ORDER).alias("_order"), *_named(table, "_mine"))
    beside = rows.where(F.col("_reasons").isNull()).select(
        F.struct(*ORDER).alias("_before"), *_named(table, "_other")
    )
    copies = mine.join(beside, same & (F.col("_before") < F.col("_order")), "left_semi")
    if path is not None:
        known = rows.sparkSession.read.format("delta").load(str(path))
        # The column itself, so that Delta passes over files of another time.
        ends = (F.timestamp_micros(F.lit(each)) for each in (first, last))
        known = known.where(at.between(*ends)).select(*_named(table, "_other"))
        copies = copies.unionByName(mine.join(known, same, "left_semi"))
    return rows.join(F.broadcast(copies.select(*PLACE).distinct()), [*PLACE], "left_anti")


def _names(table: Judged) -> tuple[str, ...]:
    return (*table.key, table.event_at)


def _named(table: Judged, mark: str) -> list[Column]:
    return [F.col(name).alias(f"{mark}_{number}") for number, name in enumerate(_names(table))]


def _same(table: Judged) -> Column:
    same = F.lit(True)
    for number in range(len(_names(table))):
        same &= F.col(f"_mine_{number}").eqNullSafe(F.col(f"_other_{number}"))
    return same
