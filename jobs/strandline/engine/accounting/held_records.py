"""The records that a quarantine holds, and a second table with the decisions about them: what is open, and appending to both.

No record is ever removed from a quarantine. A row that is moved to silver, or held for other reasons, or given up,
gets a row in ``resolutions/<table>``, which Delta itself keeps append-only: which record it was, the decision, who
made it, when, and why. So a year later the original bytes and the whole history still exist.

A record is identified by its place in Kafka, its reasons and its event time. An event that was released and is held
again for the same reasons is the same record a second time, so equal records are counted: this many were held, that
many resolved. That needs no number in the record, and works for quarantines that were written before resolutions.

Where a table holds bad items by themselves, a record may be an item: it has the place of the item in ``_item`` beside the place
of its record in Kafka, and its record is believed. Quarantines of before lack the column.

A **held** record is one that the ledger counts as quarantined. A **discarded** record is still held, because the event
is in no other place, but it is not **open**: no replay reads it. A backfill or a rebuild still reads it, because both
compute from all of bronze by today's rules.

A promoted rebuild, or a batch, replaces the whole quarantine, and earlier resolutions do not apply to the new records.
So each resolution names its generation of records; an undo restores the former generation.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Any, TypeAlias

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import IntegerType, StructField, StructType

from strandline.core.errors import DefinitionError
from strandline.core.table import Ingested, Judged, Table
from strandline.core.topic import IDENTITY, ITEM, PLACE, QUARANTINE, RESOLUTION
from strandline.engine.lake.commit import create_table, delta_commit
from strandline.engine.lake.commit.delta_commit import write
from strandline.engine.lake.duckdb_table import Duck, register, session
from strandline.engine.lake.find_rows import Found, Where, look
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger import (
    IMPORT,
    Entry,
    entries,
    entry_at,
    is_table,
    latest_version,
)
from strandline.engine.lake.log.ledger_sums import Sums, sums_of
from strandline.engine.lake.open_table import kinds
from strandline.engine.lake.place import Place

REPLAY = "replay"
"""The mode of a commit that moved rows of the quarantine to silver."""

FOLLOWED = "replay followed"
"""The mode of the commit that ends a replay: every table above was computed again before it."""

DISCARD = "discard"
REOPEN = "reopen"


class State(StrEnum):
    """The state of a record in the quarantine."""

    OPEN = "open"
    DISCARDED = "discarded"
    CLOSED = "closed"


class Status(StrEnum):
    """A decision about a record."""

    REPLAYED = "replayed"
    """Today's rules accept the row; it is in silver."""
    DUPLICATE = "duplicate"
    """Today's rules accept it, but silver has an earlier copy."""
    STILL_BAD = "still_bad"
    """It is bad for other reasons than before; a new record has those."""
    BACKFILLED = "backfilled"
    """A backfill of its range judged it again."""
    SKIPPED = "skipped"
    """The table passes it over, by a rule of its declaration."""
    DISCARDED = "discarded"
    REOPENED = "reopened"


RELEASED = (
    Status.REPLAYED,
    Status.DUPLICATE,
    Status.STILL_BAD,
    Status.BACKFILLED,
    Status.SKIPPED,
)
"""After these the ledger no longer counts the record."""

RECORD = ("_topic", "_partition", "_offset", "reasons", "event_at")
"""The columns that identify a record."""


def record_of(path: Place) -> tuple[str, ...]:
    """Return the columns that identify a record of a quarantine; where items are held, with the place of the item."""
    return (*RECORD, ITEM) if has_items(path) else RECORD


def has_items(path: Place) -> bool:
    """Return whether a quarantine, or its resolutions, can have items of records."""
    return ITEM in kinds(path)


STATES = """
SELECT {columns},
       CASE WHEN _nth <= coalesce(released, 0) THEN 'closed'
            WHEN _nth <= coalesce(released, 0) + coalesce(discarded, 0) THEN 'discarded'
            ELSE 'open' END AS _state
FROM (SELECT *, row_number() OVER (PARTITION BY {record} ORDER BY _offset) AS _nth FROM {quarantine}) q
LEFT JOIN (
    SELECT {record},
           sum(CASE WHEN status IN ({statuses}) THEN 1 ELSE 0 END) AS released,
           sum(CASE WHEN status = 'discarded' THEN 1 ELSE 0 END)
           - sum(CASE WHEN was = 'discarded' THEN 1 ELSE 0 END) AS discarded
    FROM {decisions} WHERE generation = {generation} GROUP BY {record}
) s
ON q._topic = s._topic AND q._partition = s._partition AND q._offset = s._offset
AND q.reasons = s.reasons AND q.event_at IS NOT DISTINCT FROM s.event_at{item}
"""
"""One SQL text for DuckDB and Spark, so both return the same open records."""


def generation(path: Place, until: int | None = None) -> int:
    """Return the generation of records that a quarantine has, or had at a version, as the version at which it begins."""
    return sums_of(path, until).begun


def resolved(table: Table, lake: Lake) -> list[Entry]:
    """Return the entries of the resolutions of a quarantine's present generation."""
    path = lake.resolutions(table)
    if not is_table(path):
        return []
    now, name = generation(lake.quarantine(table)), f"quarantine.{table.name}"
    return [entry for _, entry in entries(path) if entry.versions.get(name, (0, 0))[0] == now]


def released(table: Table, lake: Lake) -> int:
    """Return how many records of a quarantine are no longer held, from the logs alone."""
    return -sum(sum(entry.quarantined.values()) for entry in resolved(table, lake))


def unfinished(table: Table, lake: Lake) -> Entry | None:
    """Return the backfill or replay that changed the quarantine and was killed before it wrote the table.

    Its ``quarantined`` counts what it changed in the quarantine so far.
    """
    if not isinstance(table, Judged):
        return None
    sums = sums_of(lake.table(table))
    commits = (*resolved(table, lake), *_repairs(lake.quarantine(table)))
    half = [entry for entry in commits if entry.is_backfill and not _is_done(entry, sums)]
    if not half:
        return None
    held: Counter[str] = Counter()
    for entry in half:
        held.update(entry.quarantined)
    items = sum(entry.held_items for entry in half)
    return replace(half[-1], quarantined=dict(held), held_items=items)


def half_imported(table: Table) -> DefinitionError:
    """Return the error of a change while an import has written the quarantine and not the table."""
    return DefinitionError(
        f"an import to {table.id} was interrupted before its end",
        hint="finish it first: type the same `strandline import` again.",
        table=table.id,
    )


def _is_done(entry: Entry, sums: Sums) -> bool:
    if entry.mode == IMPORT:
        return all(sums.imported.get(part, 0) >= end for part, (_, end) in entry.imported.items())
    return entry.stream in sums.repairs


def _repairs(path: Place) -> Iterator[Entry]:
    """Yield an entry for each backfill or replay that changed the present generation of a quarantine, with its sums."""
    sums = sums_of(path)
    for repair in sums.repairs.values():
        is_of_now = repair.generation == sums.begun
        entry = entry_at(path, repair.last) if is_of_now else None
        if entry is not None:
            yield replace(entry, quarantined=repair.held, held_items=repair.held_items)


def unfollowed(table: Table, lake: Lake) -> Entry | None:
    """Return the replay after which the tables above were not computed again."""
    path = lake.table(table)
    sums = sums_of(path)  # first: one that commits meanwhile may be followed at once
    done = {entry.stream for entry in resolved(table, lake) if entry.mode == FOLLOWED}
    for stream, repair in sums.repairs.items():
        is_replay = repair.mode == REPLAY and repair.first >= sums.replaced_at
        if is_replay and repair.moved and stream not in done:
            return entry_at(path, repair.last)
    return None


def shared(table: Table) -> list[Ingested]:
    """Return the bronze tables of which a judged table reads each record, as others may; where records have kinds it has its own."""
    if not isinstance(table, Judged):
        return []
    return [each for each in table.upstream if isinstance(each, Ingested) and not each.has_kinds]


def refuse_unheld(table: Table, lake: Lake) -> Judged:
    """Refuse a table that has no quarantine, and return the judged one.

    Raises:
        DefinitionError: It judges no rows, or was never run.
    """
    if isinstance(table, Ingested) and table.has_kinds:
        raise DefinitionError(
            f"the records of {table.id} without a kind are in bronze, where they stay as received",
            hint="let the Topic's `kind` find theirs; a rebuild of the table that takes it then brings them in.",
            table=table.id,
        )
    if not isinstance(table, Judged):
        raise DefinitionError(
            f"{table.id} judges no rows, so it has no quarantine",
            hint="choose a silver table that reads bronze.",
            table=table.id,
        )
    if not is_table(lake.quarantine(table)):
        raise DefinitionError(
            f"{table.id} does not exist in {lake.root} yet",
            hint=f"run it first: `strandline run {table.id}`.",
            table=table.id,
        )
    return table


def statement(
    quarantine: str, resolutions: str, since: int, items: tuple[bool, bool] = (False, False)
) -> str:
    """Return the SQL for all records of a quarantine, each with its state in ``_state``.

    Args:
        quarantine: Its records.
        resolutions: The decisions about them.
        since: The generation of the records.
        items: Whether either can have items of records.
    """
    has_item, decides_items = items
    record = (*RECORD, ITEM) if has_item else RECORD
    names = [*QUARANTINE.fieldNames(), *([ITEM] if has_item else [])]
    # Before an item was ever decided about, all decisions are about records.
    lacks = has_item and not decides_items
    decisions = f"(SELECT *, CAST(NULL AS INT) AS {ITEM} FROM {resolutions}) d"  # noqa: S608  # no user's text
    return STATES.format(
        columns=", ".join(f"q.{name}" if name in record else name for name in names),
        record=", ".join(record),
        statuses=", ".join(f"'{status}'" for status in RELEASED),
        quarantine=quarantine,
        decisions=decisions if lacks else resolutions,
        generation=since,
        item=f" AND q.{ITEM} IS NOT DISTINCT FROM s.{ITEM}" if has_item else "",
    )


Read: TypeAlias = Callable[[Duck, str, Place, int | None], None]


def offer(  # noqa: PLR0913, PLR0917  # what, where, at which versions, and how to read it
    connection: Duck,
    name: str,
    table: Table,
    lake: Lake,
    at: tuple[int | None, int | None] = (None, None),
    read: Read = register,
) -> None:
    """Create a view of a quarantine's records, each with its state in ``_state``.

    Args:
        connection: The database.
        name: The name of the view.
        table: A judged table whose quarantine exists.
        lake: Its lake.
        at: The versions of quarantine and resolutions; a version below 0 means an empty table.
        read: Creates a view of a Delta table's rows.
    """
    quarantine, resolutions = lake.quarantine(table), lake.resolutions(table)
    is_empty = at[0] is not None and at[0] < 0
    read(connection, f"__{name}", quarantine, None if is_empty else at[0])
    question = f"SELECT *, 'open' AS _state FROM \"__{name}\""  # noqa: S608  # no user's text
    if is_empty:
        question += " WHERE false"
    elif is_table(resolutions) and (at[1] is None or at[1] >= 0):
        read(connection, f"__resolved_{name}", resolutions, at[1])
        since = generation(quarantine, at[0])
        items = (_has_items(connection, f"__{name}"), _has_items(connection, f"__resolved_{name}"))
        question = statement(f'"__{name}"', f'"__resolved_{name}"', since, items)
    connection.execute(f'CREATE VIEW "{name}" AS {question}')


def _has_items(connection: Duck, view: str) -> bool:
    """Return whether a view has places of items; an older version of its table may lack them."""
    return ITEM in {row[0] for row in connection.execute(f'DESCRIBE "{view}"').fetchall()}


def held(table: Table, lake: Lake, at: tuple[int | None, int | None] = (None, None)) -> Any:  # noqa: ANN401  # Arrow has no types
    """Return the records that the ledger counts as quarantined, as an Arrow table."""
    connection = session()
    offer(connection, "records", table, lake, at)
    answer = connection.execute(
        f"SELECT * EXCLUDE (_state) FROM records WHERE _state <> '{State.CLOSED}'"  # noqa: S608  # no user's text
    )
    return answer.to_arrow_table()


# The state of a few records of a quarantine, and what was done about each; without a JVM.
#
# Equal records are counted, and as many of them as were released
# are no longer held. Here it is applied to single records, because a large quarantine is not read whole for one of them.


def still_held(silver: Table, lake: Lake, kept: Sequence[Found]) -> list[Found]:
    """Return those of the records that the quarantine still holds."""
    left = list(kept)
    for place in {tuple(row.row[name] for name in PLACE) for row in kept}:
        for resolution in _resolutions(silver, lake, place):
            record = _record(resolution)
            same = (row for row in left if _record(row.row) == record)
            if resolution["status"] in RELEASED and (gone := next(same, None)):
                left.remove(gone)
    return left


def done_about(silver: Table, lake: Lake, row: dict[str, Any]) -> list[dict[str, object]]:
    """Return the decisions about the event of a record, oldest first."""
    resolutions = _resolutions(silver, lake, tuple(row[name] for name in PLACE))
    return [
        {
            "status": each["status"],
            "who": each["who"],
            "at": each["resolved_at"],
            "why": each["why"],
        }
        for each in sorted(resolutions, key=lambda each: str(each["resolved_at"]))
        if ITEM not in row or each.get(ITEM) == row[ITEM]
    ]


def _resolutions(silver: Table, lake: Lake, place: tuple[Any, ...]) -> list[dict[str, Any]]:
    """Return the resolutions of the event at a place in Kafka."""
    since = generation(lake.quarantine(silver))
    where = Where(equal={**dict(zip(PLACE, place, strict=True)), "generation": since})
    return [found.row for found in look(lake.resolutions(silver), where)]


def _record(row: dict[str, Any]) -> tuple[object, ...]:
    own = (tuple(v) if isinstance(v := row[name], list) else v for name in RECORD)
    return (*own, row.get(ITEM))


# How many records of a quarantine that are deleted had been released before, so that the books know how many it still holds.


def released_among(spark: SparkSession, table: Judged, lake: Lake, records: DataFrame) -> int:
    """Count the released ones among records that are deleted.

    Equal records are counted, as many of them are released as were resolved.

    Args:
        spark: The session.
        table: A judged table.
        lake: Its lake.
        records: Records with the columns that identify one, and ``_goes``: whether it is deleted. All records that equal
            a deleted one are among them.
    """
    path = lake.resolutions(table)
    if not is_table(path):
        return 0
    decided = spark.read.format("delta").load(str(path))
    record = record_of(lake.quarantine(table))
    if ITEM in record and ITEM not in decided.columns:
        decided = decided.withColumn(ITEM, F.lit(None).cast("int"))
    now = F.col("generation") == generation(lake.quarantine(table))
    is_release = F.col("status").isin([str(each) for each in RELEASED])
    done = decided.where(now & is_release).groupBy(*record).agg(F.count("*").alias("_done"))
    known = records.groupBy(*record).agg(
        F.count("*").alias("_all"), F.sum(F.col("_goes").cast("bigint")).alias("_going")
    )
    same = [known[each].eqNullSafe(done[each]) for each in record]
    both = known.where("_going > 0").join(done, same)
    before = F.least("_all", "_done")
    after = F.least(F.col("_all") - F.col("_going"), F.col("_done"))
    (count,) = both.agg(F.sum(before - after)).collect()[0]
    return int(count or 0)


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
