"""Is it a row? The verdict that divides parsed events into good rows and bad rows, none lost.

``_reasons`` is NULL for a good row and lists every reason otherwise. A payload that could not be read has
one reason, because rules judge rows and it is none.

Duplicates agree in ``_key`` and ``_time``: the table's key and the event time of a good row. A bad row is identified
by its place in Kafka instead, and its ``_time`` is not taken from the payload, because its payload is not believed: it
is the arrival, or the newest arrival before the commit where that is later, so that no state refuses the row, or where
the arrival is of a broken clock, so that it does not move the watermark past the rows after it.
Records that the table passes over have the name of the rule in ``_skipped`` (jobs/strandline/core/topic.py).
Where a bad item is held by itself, a record whose only faults are those of some of its items is believed; ``_item_faults`` has them.
The event of a table that believes history may be older than any state: such a row is good and passes state like a bad
one, under its own place and arrival, and is compared with the table's rows when it is written (jobs/strandline/engine/flow/batch/write_rows.py).
``_warned`` names the rules that a row breaks and may break, believed or not; it is counted and not stored.

Payload, key and headers stay with bad rows only: for good ones bronze has them, and carrying them through
the shuffle would triple its bytes.
"""

from collections.abc import Callable, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from strandline.core.declared import refuse_unsearchable
from strandline.core.errors import DefinitionError
from strandline.core.kind import DISORDERED, LATE, SKEW, is_stamped_ahead, moved
from strandline.core.parse import DRIFT, HAS_NEW_FIELD, NEW_FIELD, WRONG_TYPE, reading, with_drift
from strandline.core.routes import KIND, is_taken, with_kind
from strandline.core.table import Judged
from strandline.core.topic import (
    CARRIED,
    IDENTITY,
    ITEM,
    ITEM_FAULTS,
    NOTHING_ARRIVED,
    SKIPPED,
    Listed,
    listed,
    skipped_by,
)
from strandline_quality.rules import Rule, broken, judging, required, warning

DUPLICATE_OF = ("_key", "_bad", "_time")
"""Rows that agree in these are copies of one event."""

WARNED = "_warned"


def judged(
    events: DataFrame, table: Judged, *, in_any_order: bool = False, keeps_skipped: bool = False
) -> DataFrame:
    """Run a silver table's function over bronze events and add each event's verdict.

    Args:
        events: Rows of bronze.
        table: A judged table.
        in_any_order: Whether a row is believed whose only fault is the order in which it arrived. True where a closed
            range is computed again; a stream has dropped the state that could admit it.
        keeps_skipped: Whether the records that the table passes over are returned as well, which are no rows.

    Raises:
        DefinitionError: A rule of the table cannot be asked.
    """
    refuse_unsearchable(table, table.rules)
    rows = computed(events, table)
    _refuse_unseen(rows, table)
    event_at = F.col(table.event_at)
    its = list_of(rows, table)
    is_read = F.col("_problem").isNull()
    if table.passes_over:
        rows = rows.withColumn(SKIPPED, _skipped(table))
        is_read &= F.col(SKIPPED).isNull()
    # A column of its own, because each use of an expression copies it: with fifty rules, three copies cost a batch
    # 0.1 s of planning.
    faults = broken(_judging(table, its), *table.lateness.reasons(event_at), asked=_asked_by(its))
    if table.believes_history:
        faults = F.array_remove(faults, LATE)
    rows = rows.withColumn("_broken", F.when(is_read, faults))
    passes = F.size("_broken") == 0
    if in_any_order:
        passes |= F.col("_broken") == F.array(F.lit(DISORDERED))
    if table.holds_items:
        rows = rows.withColumn(ITEM_FAULTS, _faults_of_items(table, its, in_any_order=in_any_order))
        passes |= F.col(ITEM_FAULTS).isNotNull()
    is_unread = F.col("_problem").isNotNull()
    if table.on_wrong_type == "discard_row":
        is_unread &= F.col(SKIPPED).isNull()
    verdict = F.when(is_unread, F.array("_problem")).when(~passes, F.col("_broken"))
    rows = rows.withColumn("_reasons", verdict).drop("_broken")
    rows = rows.withColumns({**_handles(table), **_warnings(table, its)})
    if table.believes_history and not in_any_order:
        rows = _beside_state(rows, table)
    return rows if keeps_skipped else without_skipped(rows, table)


def _skipped(table: Judged) -> Column:
    """Return the name under which a record is passed over: by a rule about its columns, or because it has none."""
    by_rule = F.when(F.col("_problem").isNull(), skipped_by(table.skipping, table.rows))
    if table.on_wrong_type != "discard_row":
        return by_rule
    return F.when(F.col("_problem") == WRONG_TYPE, F.lit(WRONG_TYPE)).otherwise(by_rule)


def _refuse_unseen(rows: DataFrame, table: Judged) -> None:
    """Refuse a choice about new fields of which a table's function passes nothing on.

    Raises:
        DefinitionError: It does not.
    """
    if table.on_new_field in {"freeze", "discard_row"} and DRIFT not in rows.columns:
        raise DefinitionError(
            f"{table.id} declares on_new_field={table.on_new_field!r}, and its function does not pass on {DRIFT}",
            hint="select *CARRIED beside its own columns.",
            table=table.id,
        )


def _faults_of_items(table: Judged, its: Listed | None, *, in_any_order: bool) -> Column:
    """Return the rules that items of a record break which is believed nevertheless; NULL of any other record.

    That is one without a fault of its own, of which an item is good: one of which each item is bad would be no row, so its
    copies, and the items that a replay brings in later, would find nothing of it in the table.
    """
    if its is None:
        return F.lit(None).cast("array<string>")
    rules = _judging(table, its)
    names = F.array(*(F.lit(rule.name) for rule in (its.demand, *its.of_items(rules))))
    believed_with = F.array_append(names, F.lit(DISORDERED)) if in_any_order else names
    of_items = F.array_intersect("_broken", names)
    is_only_theirs = F.size(F.array_except("_broken", believed_with)) == 0
    # Last, because it asks each item again.
    return F.when(is_only_theirs & (F.size(of_items) > 0) & its.has_good(rules), of_items)


def without_skipped(rows: DataFrame, table: Judged) -> DataFrame:
    """Return judged rows without the records that the table passes over."""
    return rows.where(F.col(SKIPPED).isNull()).drop(SKIPPED) if table.passes_over else rows


def computed(events: DataFrame, table: Judged, *, of_any_kind: bool = False) -> DataFrame:
    """Return what a silver table's function makes of bronze events.

    Args:
        events: Rows of bronze.
        table: A judged table.
        of_any_kind: Whether to read events of other kinds than it takes as well, as if they were its own.
    """
    # A parser of one's own need not know the column.
    known = with_drift(with_newest_arrival(events))
    with reading(table.reading):
        if of_any_kind and table.is_routed:
            return table.transform(with_kind(known, table.bronze.kind_by))
        return table.transform(taken(known, table))


def taken(events: DataFrame, table: Judged) -> DataFrame:
    """Return the bronze events that a table takes, with their kind in ``_kind``; all of them where its topic has no kinds."""
    if not table.is_routed:
        return events
    known = with_kind(events, table.bronze.kind_by)
    return known.where(is_taken(F.col(KIND), *table.taken))


def is_history(table: Judged) -> Column:
    """Return whether a good row is believed although its event is later than the table admits."""
    return F.col("_reasons").isNull() & table.lateness.is_late(F.col(table.event_at))


def may_have_copies_in_the_table(table: Judged) -> Column:
    """Return whether a good row is of history, or came so shortly before that it may follow a copy that is."""
    # A row of history may have come as much after the newest arrival that counts as a clock may be ahead.
    bound = table.lateness.late - table.lateness.disorder - SKEW
    is_old = F.col(table.event_at) < moved(F.col("_arrived_at"), -bound)
    return F.col("_reasons").isNull() & is_old


def good_records(rows: DataFrame) -> DataFrame:
    """Select the believed records with the columns of the table's function and their identity."""
    own = own_columns(rows)
    return rows.where(F.col("_reasons").isNull()).select(*own, *IDENTITY)


def good_rows(rows: DataFrame, table: Judged) -> DataFrame:
    """Return the rows of a table: its believed records, or the items of their lists."""
    if table.holds_items:
        return judged_items(rows, table).where(F.col("_reasons").isNull()).drop("_reasons")
    records = good_records(rows)
    its = list_of(records, table)
    return its.rows(records, IDENTITY) if its else records


def bad_items(rows: DataFrame, table: Judged) -> DataFrame:
    """Select the held items of believed records with the columns of the quarantine and their place in the list."""
    partly = rows.where(F.col(ITEM_FAULTS).isNotNull())
    original = ("_message_key", "_payload", "_headers")
    items = judged_items(partly, table, original).where(F.col("_reasons").isNotNull())
    return items.select(
        *IDENTITY,
        F.col("_reasons").alias("reasons"),
        F.col(table.event_at).alias("event_at"),
        *original,
        ITEM,
    )


def judged_items(rows: DataFrame, table: Judged, more: Sequence[str] = ()) -> DataFrame:
    """Return the items of the believed records, each with the rules that it breaks in ``_reasons``; of a record judged whole none.

    Args:
        rows: Judged records.
        table: A table that makes rows of a list.
        more: Further columns to keep.
    """
    own = own_columns(rows)
    believed = rows.where(F.col("_reasons").isNull())
    its = listed(table.id, believed.select(*own), str(table.rows), table.secret)
    if not table.holds_items:
        items = its.rows(believed.select(*own, *more, *IDENTITY), IDENTITY)
        return items.withColumn("_reasons", F.lit(None).cast("array<string>"))
    records = believed.select(*own, *more, *IDENTITY, ITEM_FAULTS)
    return its.judged(records, IDENTITY, _judging(table, its))


def list_of(rows: DataFrame, table: Judged) -> Listed | None:
    """Return the list of which a table makes rows, as its function gives it; None where a record is a row."""
    return listed(table.id, rows, table.rows, table.secret) if table.rows else None


def bad_rows(rows: DataFrame, table: Judged) -> DataFrame:
    """Select the rejected rows, and the held items of believed records, with the columns of the quarantine."""
    records = rows.where(F.col("_reasons").isNotNull()).select(
        *IDENTITY,
        F.col("_reasons").alias("reasons"),
        F.col(table.event_at).alias("event_at"),
        "_message_key",
        "_payload",
        "_headers",
    )
    if not table.holds_items:
        return records
    return records.withColumn(ITEM, F.lit(None).cast("int")).unionByName(bad_items(rows, table))


def time_of_a_bad_row() -> Column:
    """Return the time under which state keeps a rejected row of bronze.

    A stream's first watermark is 1970, and Spark drops rows at or below it: a record without a time, which Kafka stamps
    -1, was in neither silver nor quarantine, and counted as a copy.
    """
    known = F.when(is_stamped_ahead(), F.col("_newest_before"))
    arrival = F.coalesce(known, F.least("_arrived_at", "_ingested_at"))
    return F.greatest(arrival, "_newest_before", F.lit(NOTHING_ARRIVED))


def with_newest_arrival(events: DataFrame) -> DataFrame:
    """Add ``_newest_before`` to rows of a bronze table of an older version, as its next commit will."""
    if "_newest_before" in events.columns:
        return events
    return events.withColumn("_newest_before", F.lit(None).cast("timestamp"))


def own_columns(rows: DataFrame) -> list[str]:
    """Return the columns that the table's function computed."""
    added = {*CARRIED, *DUPLICATE_OF, "_reasons", WARNED, KIND, SKIPPED, ITEM_FAULTS}
    return [name for name in rows.columns if name not in added]


def _asked_by(its: Listed | None) -> Callable[[Rule], str]:
    """Return how a rule is asked: of the record, or of each item of its list."""
    return its.asked if its else lambda rule: rule.asked


def _judging(table: Judged, its: Listed | None) -> tuple[Rule, ...]:
    """Return the rules that decide whether a row is believed, including those that every table needs.

    Two NULLs are not the same event, yet state would take the second for a copy of the first; and an event without a
    time is in no window.
    """
    own = judging(table.rules)
    demanded = {rule.holds for rule in own}
    own_key = () if table.keeps_copies else table.key  # each record has a place
    always = required(*dict.fromkeys((*own_key, table.event_at)))
    of_list = (its.demand,) if its else ()
    frozen = (Rule(name=NEW_FIELD, holds=f"NOT {HAS_NEW_FIELD}"),)
    of_list = (*of_list, *(frozen if table.on_new_field == "freeze" else ()))
    return (*of_list, *own, *(rule for rule in always if rule.holds not in demanded))


def _warnings(table: Judged, its: Listed | None) -> dict[str, Column]:
    rules = warning(table.rules)
    if not rules:
        return {}
    warned = broken(rules, asked=_asked_by(its))
    return {WARNED: F.when(F.col("_problem").isNull() & (F.size(warned) > 0), warned)}


def _beside_state(rows: DataFrame, table: Judged) -> DataFrame:
    """Give a row of history the handles of a bad one: Spark would drop it below the watermark."""
    is_old = is_history(table)
    return rows.withColumns(
        {
            "_bad": F.when(is_old, _identity()).otherwise(F.col("_bad")),
            "_time": F.when(is_old, time_of_a_bad_row()).otherwise(F.col("_time")),
        }
    )


def _identity() -> Column:
    return F.concat_ws("/", "_topic", "_partition", "_offset")


def _handles(table: Judged) -> dict[str, Column]:
    is_good = F.col("_reasons").isNull()
    if table.passes_over:
        is_good &= F.col(SKIPPED).isNull()
    key = F.col(table.key[0]) if len(table.key) == 1 else F.struct(*table.key)
    is_kept = ~is_good | F.col(ITEM_FAULTS).isNotNull() if table.holds_items else ~is_good
    return {
        "_key": F.when(is_good, key),
        "_bad": F.when(~is_good, _identity()),
        "_time": F.when(is_good, F.col(table.event_at)).otherwise(time_of_a_bad_row()),
        **{name: F.when(is_kept, F.col(name)) for name in ("_message_key", "_payload", "_headers")},
    }
