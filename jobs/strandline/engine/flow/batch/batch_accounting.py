"""Account for a micro-batch before its commit: exactly, and after a crash too.

All figures come from sources that survive a crash: the range from Spark's offset log, its rows from the source table's
log, good and bad rows from the batch itself. The rest are duplicates and rows that the watermark dropped. Spark reports
both only after the batch: too late for the commit, and lost in a crash. So the dropped rows are computed here. The
source's statistics have the oldest arrival in the range. If it is above the watermark, nothing was dropped; that is the
normal case, and costs nothing. Otherwise the range is read again, and the rows below the watermark are counted.
"""

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import accumulate
from typing import Any, NamedTuple, TypeAlias, assert_never

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from strandline.core.kind import Day, Window
from strandline.core.parse import DRIFT, MORE
from strandline.core.routes import KIND, is_taken, with_kind
from strandline.core.table import Appended, Judged, Streamed, Table, Upserted, Windowed
from strandline.core.topic import NO_ITEMS, PLACE, RECEIVED, SKIPPED, counted_items
from strandline.core.verdict import computed, judged, taken, with_newest_arrival
from strandline.engine.flow import new_entry
from strandline.engine.flow.new_entry import Mark, Own, kinds_read, of_ranges, own_in
from strandline.engine.flow.spark_plan import Node, columns, tree, written
from strandline.engine.lake.commit.delta_commit import rows_at, rows_now
from strandline.engine.lake.commit.replace_rows import Reach
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger import Entry, Through
from strandline.engine.lake.log.ledger_sums import sums_of
from strandline.engine.lake.log.log_actions import Added, appended
from strandline.engine.lake.place import Place
from strandline.engine.lake.spark_checkpoint import Planned
from strandline.engine.runtime.jvm import classic, jvm

# Count what a silver function loses or multiplies, in the batch that is being written anyway.
#
# A silver function turns each record into one row; copies are dropped after it, bad rows are held after it. So a record
# without a row is in no place, and a second row of a record is an event that was never sent. Neither can be known from the
# rows that are written: what is missing there may as well be a copy.
#
# So the rows that leave the function are counted on their way to the state, and with them an XOR of a hash of each row's
# place in Kafka. The number alone would not do: a function that loses two records and doubles two others has as many rows
# as records. The XOR of the records that were read is known without reading them: bronze's own entry has the range of each
# partition, and a commit that has as many records as offsets has each of them. Where Kafka left gaps, the places are
# read from the files.
#
# Of a topic with kinds only the table's own records are read, so its own are compared: bronze's files say which these are
# (jobs/strandline/engine/flow/new_entry.py), apart from the stream that has chosen them.
#
# If both agree, each record has exactly one row. If not, which is a fault of the table and no ordinary batch, function and
# source are compared record by record; only that names the two numbers. It also settles a count that Spark made twice: when
# an executor dies, a stage runs again, and its rows are counted again.
#
# A batch that is killed is computed again by Spark, and counted again with it: all is known before the commit, and is in it.


NAME = "out of the function"


def watched(rows: DataFrame, table: Judged) -> DataFrame:
    """Count the rows that leave a silver function, where they pass, and those that the table passes over, by name."""
    skipped = (F.count_if(F.col(SKIPPED) == name).alias(f"skip_{n}") for n, name in _skips(table))
    return rows.observe(NAME, F.count(F.lit(1)).alias("rows"), _xor().alias("places"), *skipped)


def _skips(table: Judged) -> list[tuple[int, str]]:
    """Return the names under which a table passes records over, in their order."""
    return [*enumerate(table.passed_names)]


def _xor(among: Column | None = None) -> Column:
    topic = F.crc32(F.col("_topic").cast("binary"))
    place = F.xxhash64(topic, F.col("_partition").cast("bigint"), F.col("_offset"))
    return F.bit_xor(place if among is None else F.when(among, place))


@dataclass(frozen=True, slots=True, kw_only=True)
class Passed:
    """What left a table's function in a batch.

    Args:
        out: The records.
        skipped: Of these, those that the table passes over, by name.
    """

    out: Mark
    skipped: Mapping[str, int] = field(default_factory=dict)


def of_stream(spark: SparkSession, table: Judged, stream: str) -> Passed:
    """Return what passed in the batch that a stream computes now; its rows must have been read."""
    running = classic(spark).sharedState().activeStreamingQueries()
    query = running.get(jvm(spark).java.util.UUID.fromString(stream))
    return _passed(query.lastExecution().observedMetrics(), table)


def of_batch(table: Judged, kept: DataFrame) -> Passed:
    """Return what passed on the way to rows that were persisted and read."""
    return _passed(kept.select("*")._jdf.queryExecution().observedMetrics(), table)  # noqa: SLF001  # there is no public way


def _passed(metrics: Any, table: Judged) -> Passed:  # noqa: ANN401  # py4j's objects have no types
    row = metrics.apply(NAME)
    places = 0 if row.isNullAt(1) else int(row.getLong(1))
    skipped = {name: n for at, name in _skips(table) if (n := int(row.getLong(2 + at)))}
    return Passed(out=(int(row.getLong(0)), places), skipped=skipped)


def mark_of(spark: SparkSession, parts: Sequence[Added], whole: Callable[[], DataFrame]) -> Mark:
    """Return the number of the records that a batch reads of bronze, and the XOR of their places.

    Args:
        spark: The session.
        parts: What each version that it reads added.
        whole: Returns the rows, where they are a snapshot and no versions.
    """
    rows, places = 0, 0
    files: list[str] = []
    for part in parts:
        rows += part.rows
        if part.places is not None:
            places ^= of_ranges(part.places)
        elif part.files:
            files += part.files
        else:
            places ^= mark_of_rows(whole())[1]
    if files:
        places ^= mark_of_rows(spark.read.schema(RECEIVED).parquet(*files))[1]
    return rows, places


def mark_of_rows(records: DataFrame) -> Mark:
    """Return the number of records of bronze, and the XOR of their places."""
    found = records.agg(F.count(F.lit(1)).alias("rows"), _xor().alias("places")).collect()[0]
    return int(found["rows"]), int(found["places"] or 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch:
    """What is known of a batch of silver, and how the rest is found.

    Args:
        table: The table.
        read: What it reads.
        passed: Returns what left its function, once the rows were computed.
        records: Returns the records from which its own are chosen.
    """

    table: Judged
    read: Callable[[], Own]
    passed: Callable[[DataFrame], Passed]
    records: Callable[[], DataFrame]

    def through(self, kept: DataFrame, entry: Entry) -> tuple[Entry, Through]:
        """Return the entry with what was left to other tables, and what the function lost and made.

        Args:
            kept: The rows of the batch, which were computed.
            entry: The entry of all that was read.
        """
        passed, own, through = self.passed(kept), self.read(), Through()
        if passed.out != own.mark:
            records = self.records()
            verdicts = judged(records, self.table, keeps_skipped=True)
            passed = replace(passed, skipped=skipped_among(verdicts, self.table))
            through = compared(records, self.table)
            own = own_of(records, self.table) if self.table.is_routed else own
        entry = replace(entry, skipped=passed.skipped)
        if not self.table.is_routed:
            return entry, through
        return entry.routed(own.others, own.kinds), through


def own_of(records: DataFrame, table: Judged) -> Own:
    """Find by Spark which records of bronze are of the kinds that a table takes, and count them."""
    kind, named = F.col(KIND), kinds_read(table)
    goes = ~is_taken(kind, *table.taken)
    known = with_kind(with_newest_arrival(records), table.bronze.kind_by)
    others, rows, places, *kinds = known.agg(
        F.count_if(goes),
        F.count_if(~goes),
        _xor(~goes),
        *(F.count_if(kind == F.lit(each)) for each in named),
    ).collect()[0]
    return Own(
        mark=(rows, places or 0),
        others=others,
        kinds=dict(zip(named, kinds, strict=True)),
    )


FOLLOWED = 500
"""Commits of bronze that are looked at one by one, some tenths of a millisecond each."""


def own_of_all(
    spark: SparkSession, table: Judged, path: Place, version: int, records: DataFrame
) -> Own:
    """Return the same of all records of bronze at a version.

    Where these are what its commits have appended, their entries say which they are, as those of a stream's batch do: so they are
    not read a second time.
    """
    if not table.is_routed and version < FOLLOWED:
        sums = sums_of(path, version)
        if not sums.was_rewritten and not sums.imported:
            read = (appended(path, each) for each in range(version + 1))
            parts = [part for part in read if part and part.rows]
            if sum(part.rows for part in parts) == sums.written:
                return Own(mark=mark_of(spark, parts, lambda: records))
    return own_of(records, table) if table.is_routed else Own(mark=mark_of_rows(records))


def skip_of(table: Judged) -> Column:
    """Return the name of the rule by which a table passes a judged record over; NULL where none does."""
    return F.col(SKIPPED) if table.passes_over else F.lit(None).cast("string")


def skipped_among(verdicts: DataFrame, table: Judged) -> dict[str, int]:
    """Count by name the records that a table passes over among judged ones."""
    if not table.passes_over:
        return {}
    passed = verdicts.where(F.col(SKIPPED).isNotNull())
    return dict(passed.groupBy(SKIPPED).count().collect())


def compared(records: DataFrame, table: Judged) -> Through:
    """Compare a function's rows with its records, record by record."""
    came = taken(with_newest_arrival(records), table).select(*PLACE).withColumn("_in", F.lit(1))
    rows = computed(records, table).select(*PLACE)
    both = came.unionByName(rows.withColumn("_in", F.lit(0)))
    more = F.sum(F.when(F.col("_in") == 1, -1).otherwise(1)).alias("more")
    each = both.groupBy(*PLACE).agg(more)
    lost, made = each.agg(
        F.sum(F.greatest(-F.col("more"), F.lit(0))), F.sum(F.greatest("more", F.lit(0)))
    ).collect()[0]
    return Through(lost=lost or 0, made=made or 0)


# What payloads have beside their declaration: the lines that the reader of JSON has noted of each, counted by line.
#
# It is counted among the rows that are kept, so copies and what is passed over are not in it; where no row has a line, nothing is computed.
# Lines are foreign text, so Spark counts them, and the driver gets the commonest.


MOMENT = "yyyy-MM-dd'T'HH:mm:ss.SSSXXX"

FEW_ROWS = 200
"""Up to this number of rows with a line, the lines themselves are read: each has at most some."""

MOST_LINES, MOST_LETTERS = 100, 16_384
"""How many lines an entry names, and with how many letters in all: each look at a table reads entries."""


def drift_of(rows: DataFrame, entry: Entry, drifted: int) -> Entry:
    """Return an entry with what the rows of its batch have beside their declaration.

    Args:
        rows: Judged rows.
        entry: The entry, with the numbers of good and of held rows.
        drifted: How many rows have a line.
    """
    noted = replace(entry, noted=entry.good + entry.held_records)
    if not drifted:
        return noted
    lines = rows.where(F.col(DRIFT).isNotNull()).select(
        F.explode(F.split(DRIFT, "\n")).alias("line"),
        F.concat_ws("/", *PLACE).alias("place"),
        F.date_format("_arrived_at", MOMENT).alias("since"),
    )
    found, total = (_counted_here if drifted <= FEW_ROWS else _counted_there)(lines)
    named = [each for each in found if each.line != MORE][:MOST_LINES]
    longs = accumulate(len(json.dumps(each.line)) for each in named)
    named = [each for each, letters in zip(named, longs, strict=True) if letters <= MOST_LETTERS]
    more = total() - sum(each.n for each in named) if len(found) > len(named) else 0
    first = {each.line: (each.n, each.place, each.since) for each in named}
    return replace(noted, drift=first, drift_more=more)


class _Line(NamedTuple):
    """A line, how often it was noted, and the first record that has it."""

    line: str
    n: int
    since: str
    place: str


def _counted_there(lines: DataFrame) -> tuple[list[_Line], Callable[[], int]]:
    """Let Spark count lines; return the commonest, and what counts all."""
    is_more = F.startswith("line", F.lit(MORE))
    by_line = lines.groupBy(F.when(is_more, MORE).otherwise(F.col("line")).alias("line")).agg(
        F.sum(F.when(is_more, F.substring("line", 2, 18).cast("bigint")).otherwise(1)).alias("n"),
        F.min(F.struct("since", "place")).alias("first"),
    )
    found = by_line.orderBy(F.desc("n"), "line").limit(MOST_LINES + 1).collect()
    return (
        [
            _Line(row["line"], row["n"], row["first"]["since"], row["first"]["place"])
            for row in found
        ],
        lambda: int(by_line.agg(F.sum("n")).collect()[0][0]),
    )


def _counted_here(lines: DataFrame) -> tuple[list[_Line], Callable[[], int]]:
    """Return the same of few rows, which are read in one stage; to group and to sort them takes two more."""
    counts: Counter[str] = Counter()
    first: dict[str, tuple[str, str]] = {}
    for line, place, since in lines.collect():
        is_more = line.startswith(MORE)
        name = MORE if is_more else line
        counts[name] += int(line[1:19]) if is_more else 1
        first[name] = min(first.get(name, (since, place)), (since, place))
    common = sorted(counts.items(), key=lambda each: (-each[1], each[0]))[: MOST_LINES + 1]
    return [_Line(name, n, *first[name]) for name, n in common], counts.total


Parts = Mapping[str, Sequence[tuple[int, Added]]]
"""For each source the versions that a batch reads, and what each adds."""

Versions: TypeAlias = Sequence[tuple[int, Added]]
"""The versions that a batch reads of a source, and what each adds."""

BOUNDED = frozenset(
    {
        "Aggregate",
        "Expand",
        "Filter",
        "Generate",
        "LocalRelation",
        "LogicalRDD",
        "LogicalRelation",
        "Project",
        "Union",
    }
)
"""Operators whose rows lie no further apart than the windows are long."""


def inputs_of(table: Streamed, lake: Lake, plan: Planned, ids: Mapping[str, str]) -> Parts:
    """Return what a batch reads of each source, whose ids are known."""
    return {each.id: plan.input(lake.table(each), ids[each.id]) for each in table.upstream}


def opened(  # noqa: PLR0913, PLR0917  # what is known before a batch runs
    table: Streamed,
    stream: str,
    plan: Planned,
    inputs: Parts,
    mode: str,
    most: int,
    below: "Below",
) -> Entry:
    """Begin the entry of a batch with the figures that are known before it runs, the dropped rows among them."""
    begun = new_entry.tables_read(
        table,
        mode,
        stream,
        plan.number,
        versions={
            name: (read[0][0], read[-1][0]) if read else None for name, read in inputs.items()
        },
        rows=sum(part.rows for read in inputs.values() for _, part in read),
    )
    return replace(
        begun,
        most=most,
        dropped_by_watermark=below.dropped,
        dropped_between=below.between if below.dropped else None,
        whole=plan.whole,
        watermark=_text(plan.watermark_ms),
    )


def imported_until(
    table: Judged, lake: Lake, versions: Mapping[str, int]
) -> dict[str, tuple[int, int]]:
    """Return the imported rows that a reader of all rows finds in its sources at some versions, by topic."""
    return {
        part: (0, end)
        for source in table.upstream
        for part, end in sums_of(lake.table(source), versions[source.id]).imported.items()
    }


def watch_of(spark: SparkSession, table: Judged, lake: Lake, stream: str, inputs: Parts) -> Watch:
    """Return what finds how many records of a batch its function loses or multiplies."""
    (source,) = table.upstream
    read = inputs[source.id]
    parts = [part for _, part in read]
    files = [file for part in parts for file in part.files]

    def snapshot() -> DataFrame:
        return _snapshot(spark, lake.table(source), read)

    def records() -> DataFrame:
        return _records(spark, lake.table(source), read, table.bronze.received)

    def own() -> Own:
        if not table.is_routed:
            return Own(mark=mark_of(spark, parts, snapshot))
        # Of a snapshot no files are known, and of records that were kept without a kind their bytes are asked.
        is_known = files and all(part.files for part in parts)
        return (own_in(files, table) if is_known else None) or own_of(records(), table)

    return Watch(
        table=table,
        read=own,
        passed=lambda _: of_stream(spark, table, stream),
        records=records,
    )


def _snapshot(spark: SparkSession, path: Place, read: Versions) -> DataFrame:
    """Return the rows of a source with which a stream begins, of which no files are known."""
    return rows_at(spark, path, next((version for version, part in read if not part.files), 0))


def _records(spark: SparkSession, path: Place, read: Versions, schema: StructType) -> DataFrame:
    """Return the rows that a batch reads of a source."""
    files = [file for _, part in read for file in part.files]
    if not files:
        return _snapshot(spark, path, read)
    # Older files may lack a column that newer ones have.
    later = spark.read.schema(schema).parquet(*files)
    if all(part.files for _, part in read):
        return later
    # A stream that begins with a snapshot reads what was committed while its first batch was planned as well.
    return _snapshot(spark, path, read).unionByName(later, allowMissingColumns=True)


# Count the items of the records that a batch of a table above silver reads, apart from the query that makes rows of them.
#
# The items are counted in the files of the source, and the rows in the files that are written. Where the function only selects,
# their difference is what it left out; more rows than items is a fault.


class Items(NamedTuple):
    """What a batch reads of lists.

    Args:
        items: The items of all records.
        empty: The records without one.
    """

    items: int
    empty: int

    def added_to(self, entry: Entry) -> Entry:
        """Return an entry with the items, and the records that are passed over because they have none."""
        skipped = {NO_ITEMS: self.empty} if self.empty else {}
        return replace(entry, items=self.items, skipped=skipped)


def items_of(
    spark: SparkSession, table: Appended, lake: Lake, inputs: Parts, late_ms: int
) -> Items:
    """Count the items of the records that a batch reads; of those only that Spark's state does not refuse as late.

    Args:
        spark: The session.
        table: A table that makes rows of a list.
        lake: Its lake.
        inputs: What the batch reads.
        late_ms: The watermark, where rows are refused; otherwise 0.
    """
    (source,) = table.upstream
    read = inputs[source.id]
    if not read:
        return Items(0, 0)
    schema = rows_now(spark, source, lake).schema
    records = _records(spark, lake.table(source), read, schema)
    if late_ms:
        records = records.where(F.col(str(source.event_at)) > F.timestamp_millis(F.lit(late_ms)))
    return Items(*counted_items(records, table.listed))


class Below(NamedTuple):
    """What a batch has below the watermark.

    Args:
        dropped: The rows that Spark drops, by windows of the declared length.
        rows: All rows below it: no more than these can have been dropped.
        between: The range of a table's own time in which these lie; None where nothing bounds it.
        asks: Whether windows may end earlier than the declared ones, so that Spark's figure may be larger.
    """

    dropped: int = 0
    rows: int = 0
    between: Reach | None = None
    asks: bool = False

    def counted_in(self, entry: Entry, refused: int) -> Entry:
        """Return an entry with the rows that Spark dropped by its own figure, where that is larger."""
        more = min(refused, self.rows) - entry.dropped_by_watermark
        if more <= 0:
            return entry
        dropped = entry.dropped_by_watermark + more
        between = replace(entry, dropped_between=self.between)
        return between.settled(good=entry.good - more, held={}, dropped=dropped)


def below_watermark(
    spark: SparkSession, table: Streamed, plan: Planned, parts: Parts, *, selects: bool
) -> Below:
    """Count the rows of a batch that Spark drops because they are below the watermark, and find the range of their times.

    The range is that of the windows where these are as declared. Sessions, and windows that are shorter or overlap, begin up to
    the declared length before a row, and what it changes begins up to that length after it: so the range is wider by it both
    ways. Below a join a row may be of a window hours away, and a backfill of another range would seem to bring it in.

    ``selects`` says whether the table's function leaves rows out and does nothing else.
    """
    found = Below()
    # What only selects, or looks for no copy, has no state that could refuse a row.
    if not plan.late_ms or selects or table.keeps_copies:
        return found
    for source in table.upstream:
        read = [part for _, part in parts.get(source.id, ())]
        if read and _oldest(table, source, read) <= plan.late_ms:
            files = [file for part in read for file in part.files]
            # Older files of bronze may lack a column that newer ones have.
            reader = (
                spark.read.schema(table.bronze.received)
                if isinstance(table, Judged)
                else spark.read
            )
            rows = reader.parquet(*files)
            dropped, starts, below, times = _count_below(rows, table, source, plan.late_ms)
            is_exact = bool(below) and begins_windows(table, rows)
            between = starts if is_exact else _widened(times, table, rows)
            found = Below(
                dropped=found.dropped + dropped,
                rows=found.rows + below,
                between=between if len(table.upstream) == 1 else None,
                asks=found.asks or (bool(below) and not is_exact),
            )
    return found


def _widened(times: Reach | None, table: Streamed, rows: DataFrame) -> Reach | None:
    if times is None or not (length := _reaches_over(table, rows)):
        return None
    more = length // timedelta(microseconds=1)
    return times[0] - more, times[1] + more


def _reaches_over(table: Streamed, rows: DataFrame) -> timedelta | None:
    """Return how far a row of a table lies at most from the rows that it aggregates; None where nothing bounds it."""
    if not isinstance(table, Windowed | Upserted) or not table.window or table.reaches:
        return None
    # As above: without an answer there is no range.
    with suppress(Exception):
        rows = table.transform(rows)
        nodes = _plan(rows).walk()
        if {node.kind for node in nodes if not _adds_constants(node)} <= BOUNDED:
            return table.window_length * len(_grouped(rows))
    return None


def begins_windows(table: Streamed, rows: DataFrame) -> bool:
    """Return whether the time of each row of a table is where the window of the declared length begins, in which its rows lie.

    Sessions, windows that overlap or begin elsewhere, and those of several lengths are seen in the plan of the table's function:
    what it groups by first is then another expression than such a window.

    Args:
        table: The table.
        rows: Rows of its source, of which Spark reads nothing here.
    """
    if not isinstance(table, Windowed | Upserted) or not table.window or table.reaches:
        return False
    if len(table.upstream) > 1 or table.event_at != table.window_from:
        return False
    whole = _windowed(rows, str(table.upstream[0].event_at), table.window)
    (declared,) = _grouped(whole.groupBy(WINDOW).count())
    # A batch has not every operator that a stream has; without an answer there is no range.
    with suppress(Exception):
        return declared[0] in next(iter(_grouped(table.transform(rows))), ())
    return False


WINDOW = "_window"


def _windowed(rows: DataFrame, time: str, window: Window) -> DataFrame:
    """Return rows with the declared window in which each lies."""
    if isinstance(window, Day):
        return window.of(rows, time, WINDOW)
    return rows.withColumn(WINDOW, F.window(time, window))


def _grouped(rows: DataFrame) -> list[list[str]]:
    """Return what each aggregation groups by, the one that reads the source first; none where rows are joined."""
    plan = _plan(rows)
    found = columns(plan, iter(()))
    nodes = [*plan.walk()][::-1]
    if any(node.kind == "Join" and not _adds_constants(node) for node in nodes):
        return []
    return [
        [written(each, found[id(node.children[0])].texts) for each in keys]
        for node in nodes
        if node.kind == "Aggregate" and (keys := node.expressions("groupingExpressions"))
    ]


def _adds_constants(node: Node) -> bool:
    """Return whether an operator joins constants, such as a static table: it moves no row to another time."""
    return node.kind == "Join" and all(
        each.kind == "LocalRelation" for each in node.children[1].walk() if not each.children
    )


def _plan(rows: DataFrame) -> Node:
    return tree(str(rows._jdf.queryExecution().optimizedPlan().toJSON()))  # noqa: SLF001  # there is no public way


def _oldest(table: Streamed, source: Table, read: Sequence[Added]) -> float:
    """Return a lower bound of the rows' times, in milliseconds, from statistics alone."""
    columns = (
        ("_arrived_at", "_ingested_at") if isinstance(table, Judged) else (str(source.event_at),)
    )
    lowest = [part.lowest.get(column) for part in read for column in columns]
    known = [datetime.fromisoformat(moment) for moment in lowest if moment]
    if len(known) < len(lowest):
        return 0.0
    slack = table.lateness.late if isinstance(table, Judged) else timedelta(0)
    return (min(known) - slack).timestamp() * 1000


def _count_below(
    rows: DataFrame, table: Streamed, source: Table, late_ms: int
) -> tuple[int, Reach | None, int, Reach | None]:
    """Count the rows below the watermark by Spark's comparison: a row at the watermark is dropped too.

    Returns:
        The rows whose windows of the declared length are below it, and the range of the table's own time: for windows, of
        their starts. Then all rows that are below it themselves, and the range of their times.
    """
    match table:
        case Judged():
            own = F.col("_time")
            moment = judged(rows, table).select(own.alias("moment"), own.alias("at"), own)
        case Windowed(window=window) | Upserted(window=str() | Day() as window):
            time = str(source.event_at)
            ends, starts = (F.col(f"{WINDOW}.{each}") for each in ("end", "start"))
            windows = _windowed(rows, time, window)
            moment = windows.select(
                ends.alias("moment"), starts.alias("at"), F.col(time).alias("_time")
            )
        case Appended() | Upserted():
            own = F.col(str(source.event_at))
            moment = rows.select(own.alias("moment"), own.alias("at"), own.alias("_time"))
        case _:
            assert_never(table)
    late = F.timestamp_millis(F.lit(late_ms))
    ends_below = F.col("moment") <= late
    at, its = F.when(ends_below, F.unix_micros("at")), F.unix_micros("_time")
    below = moment.where(F.col("_time") <= late)
    counted = below.agg(
        F.count(at), F.min(at), F.max(at), F.count(F.lit(1)), F.min(its), F.max(its)
    )
    count, first, last, among, since, until = counted.collect()[0]
    return (
        count,
        None if first is None else (first, last),
        among,
        None if since is None else (since, until),
    )


def _text(watermark_ms: int) -> str | None:
    if not watermark_ms:
        return None
    return datetime.fromtimestamp(watermark_ms / 1000, tz=UTC).isoformat()
