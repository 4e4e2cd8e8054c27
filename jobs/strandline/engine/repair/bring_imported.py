"""Imported rows of bronze to silver and gold, beside the streams, which pass over them.

A stream's watermark has passed the time of history: it would drop these rows, or hold each as disordered. So they come
as a replay's rows do: judged in any order by the table's own function, ranked among all copies in bronze's order, and
written where they belong, each slice in one commit of silver whose ledger entry counts what it read. Only a time that
the table's stream and those above have left is brought, so no state of a stream is concerned.

The order of the commits of a slice: the quarantine, then the table. What has been brought is the offset that the table's
own ledger has reached, so a process that is killed anywhere goes on there. The tables above are computed again once,
after all slices; until that is done a note names their range.

History that comes before any stream has read a row is not brought: the streams begin with it.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import datetime

from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from strandline import catalog

from strandline.core.errors import DefinitionError, TransientError
from strandline.core.kind import shifted
from strandline.core.table import Ingested, Judged, Table
from strandline.core.topic import ITEM, PLACE
from strandline.core.verdict import taken
from strandline.engine.accounting.balance_sheet import has_begun, readable_at
from strandline.engine.accounting.held_records import hold, resolved, unfinished
from strandline.engine.flow import new_entry
from strandline.engine.flow.batch.batch_accounting import own_of
from strandline.engine.flow.ingest import make
from strandline.engine.kafka.slices import part_of
from strandline.engine.lake.commit.delta_commit import rows_at
from strandline.engine.lake.completeness import fed, horizon, refuse_retired
from strandline.engine.lake.find_rows import commit_with
from strandline.engine.lake.import_notes import (
    ImportSlices,
    forget_range,
    note_range,
    range_to_follow,
)
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.locks import HasWriterError, lease
from strandline.engine.lake.log.ledger import IMPORT, Entry, latest_version
from strandline.engine.lake.log.ledger_sums import sums_of
from strandline.engine.lake.mend_checkpoint import leave
from strandline.engine.repair.backfill import ROLE
from strandline.engine.repair.closed_range import Span
from strandline.engine.repair.downstream import (
    above,
    backfill_above,
    closed_above,
    furthest_behind,
    possible_above,
    refuse_behind_above,
)
from strandline.engine.repair.plan_replay import Fate, Healing, healing
from strandline.engine.repair.replay import (
    Work,
    refuse_half_backfilled,
    refuse_unled,
    release,
    write_healed,
)
from strandline.engine.runtime.jvm import Meter

PATIENCE, AGAIN = 120.0, 0.5
"""Seconds to wait for the stream to pass over a commit of bronze, and between two looks."""

OnTable = Callable[[Table, Entry | None], None]


def judges_of(bronze: Ingested, lake: Lake) -> list[Judged]:
    """Return the tables that judge the rows of a bronze table and have begun to."""
    return [each for each in _judging(bronze, lake) if has_begun(each, lake)]


def comes_first(bronze: Ingested, lake: Lake) -> bool:
    """Return whether no table that judges the rows of a bronze table has read one yet, so that all history may come."""
    return bool(_judging(bronze, lake)) and not judges_of(bronze, lake)


def _judging(bronze: Ingested, lake: Lake) -> list[Judged]:
    tables = fed((each for each in catalog.tables() if isinstance(each, Judged)), lake)
    return [each for each in tables if bronze in each.upstream]


@contextmanager
def before_streams(spark: SparkSession, bronze: Ingested, lake: Lake) -> Iterator[bool]:
    """Keep streams that have read nothing from beginning while history comes; yield whether that is all of them.

    Such a stream begins with all that bronze has, in one batch (jobs/strandline/engine/flow/plan.py), so no time is
    closed to history that comes before it. One that has begun over an empty table begins anew: it follows commits, and
    would pass over those of an import.

    Raises:
        HasWriterError: One of them runs, or bronze is being read from Kafka, whose records must know up to when history
            reaches.
    """
    is_first = comes_first(bronze, lake)
    waiting = [
        each
        for each in _judging(bronze, lake)
        if not has_begun(each, lake) and (is_first or lake.exists(each))
    ]
    with ExitStack() as held:
        writers: list[Table] = [bronze, *waiting] if is_first else [*waiting]
        for each in writers:
            _hold(held, spark, each, lake)
        is_first = is_first and comes_first(bronze, lake)  # one may have begun meanwhile
        if is_first:
            make(spark, bronze, lake.table(bronze))
        for each in waiting:
            if not has_begun(each, lake):
                leave(lake.checkpoint(each))
        yield is_first


def _hold(held: ExitStack, spark: SparkSession, table: Table, lake: Lake) -> None:
    """Take the lease of a table's writer, which must be stopped."""
    try:
        held.enter_context(lease(spark, table, lake))
    except HasWriterError as error:
        raise HasWriterError(
            error.message,
            hint="history that comes before a stream has read a row needs it to be stopped: `strandline drain`, or "
            "Ctrl-C; import, then start it again, and it begins with the history.",
            **error.fields,
        ) from error


def refuse_open_time(bronze: Ingested, lake: Lake, span: Span) -> None:
    """Refuse history that lies, in whole or in part, in a time that a stream still owns.

    Raises:
        DefinitionError: A stream above the table has not left it, or no table reads it.
        RetiredError: Who would judge its rows is retired.
        GateShutError: A shut gate keeps a downstream table from following.
    """
    judges = judges_of(bronze, lake)
    if not judges:
        for each in catalog.tables():
            if isinstance(each, Judged) and bronze in each.upstream:
                refuse_retired(each, lake)
        raise DefinitionError(
            f"no table judges the rows of {bronze.id}, so nothing could follow an import",
            hint="declare a silver table that reads it.",
            table=bronze.id,
        )
    for judge in judges:
        refuse_unled(judge, lake)
        half = unfinished(judge, lake)
        if half is not None and half.mode != IMPORT:
            refuse_half_backfilled(judge, lake)
        refuse_behind_above(judge, lake)
        until, closed = shifted(span.until, judge.lateness.early), closed_above(judge, lake)
        if closed is None or until > closed:
            behind, possible = furthest_behind(judge, lake), possible_above(judge, lake, until)
            past = f"everything before {closed.isoformat()}" if closed else "nothing yet"
            raise DefinitionError(
                f"history up to {span.until.isoformat()} still belongs to the streams above {bronze.id}: "
                f"that of {behind.id} has left {past}",
                hint=f"import what is older; this much can come when events of {possible.isoformat()} were read."
                if closed
                else f"run it first: `strandline run {behind.id}`. All of this can come once events of "
                f"{possible.isoformat()} were read.",
                table=bronze.id,
            )
        _refuse_deleted_time(judge, lake, span)


def _refuse_deleted_time(judge: Judged, lake: Lake, span: Span) -> None:
    """Refuse history of a time of which a judged table has deleted its rows: they would come, and go, and no table above follow.

    That bronze has deleted its records of that time is no obstacle: rows that are there stay, and the tables above are
    computed from rows.

    Raises:
        DefinitionError: It begins before.
    """
    deleted = horizon(lake.table(judge))
    first = deleted + judge.lateness.late if deleted else None
    if first is not None and span.since < first:
        raise DefinitionError(
            f"history from {span.since.isoformat()} on cannot come to {judge.id}: its retention has deleted the rows of that "
            "time, so what is above it could not be computed again",
            hint=f"import what arrived from {first.isoformat()} on, or let the table keep its rows for longer.",
            table=judge.id,
            since=span.since.isoformat(),
            whole_from=first.isoformat(),
        )


def not_followed(bronze: Ingested, lake: Lake, span: Span) -> list[tuple[Table, datetime]]:
    """Return the tables above whose own retention has deleted rows in a range, and from when on they follow."""
    found = {other for judge in judges_of(bronze, lake) for other in above(judge, lake)}
    kept = [(other, horizon(lake.table(other))) for other in found]
    return sorted(
        ((other, at) for other, at in kept if at is not None and span.since < at),
        key=lambda each: each[0].id,
    )


def bring(
    spark: SparkSession,
    table: Judged,
    lake: Lake,
    *,
    on_table: OnTable = lambda _, __: None,
    closed: datetime | None = None,
) -> int:
    """Bring the imported rows of bronze that a judged table has not, and compute the tables above again.

    Args:
        spark: The session.
        table: A judged table.
        lake: The lake.
        on_table: Called after each commit, and with None for a table above that had nothing to do.
        closed: The end of the closed time, in a lake that no stream writes.

    Returns:
        How many rows of bronze were read.

    Raises:
        TransientError: Another replay or backfill is under way, or the stream does not read on.
        DefinitionError: A row has a time that a stream still owns.
    """
    read = 0
    with lease(spark, table, lake, role=ROLE):
        while (pending := _pending(table, lake)) is not None:
            version, part, first, end = pending
            if closed is None:
                _await(table, lake, version)
            entry = _slice(spark, table, lake, (version, part, first, end), closed)
            on_table(table, entry)
            read += entry.read
        if (reach := range_to_follow(table, lake)) is not None:
            since, until = map(datetime.fromisoformat, reach)
            span = Span(since=since, until=until)
            for other, done in backfill_above(spark, table, lake, span, is_live=closed is None):
                on_table(other, done)
            forget_range(table, lake)
    return read


def _pending(table: Judged, lake: Lake) -> tuple[int, str, int, int] | None:
    """Return the version, the partition and the offsets of the next slice to bring; None if there is none."""
    (source,) = table.upstream
    path, mine = lake.table(source), sums_of(lake.table(table)).imported
    for part, end in sums_of(path).imported.items():
        begun = mine.get(part, 0)
        found = commit_with(path, part, begun) if begun < end else None
        if found is not None:
            version, entry = found
            return version, part, begun, entry.offsets[part][1]
    return None


def _await(table: Judged, lake: Lake, version: int) -> None:
    """Wait until the stream of a table has read what lies before a version of bronze.

    Raises:
        TransientError: It does not.
    """
    (source,) = table.upstream
    deadline = time.monotonic() + PATIENCE
    while readable_at(table, source, lake) < version:
        if time.monotonic() > deadline:
            raise TransientError(
                f"{table.id} has not read {source.id} up to version {version:,}, where imported rows begin",
                hint="they are safe in bronze: start its stream, or `strandline run`; then type the import again.",
                table=table.id,
            )
        time.sleep(AGAIN)


def _slice(
    spark: SparkSession,
    table: Judged,
    lake: Lake,
    pending: tuple[int, str, int, int],
    closed: datetime | None,
) -> Entry:
    """Write the rows of one slice where they belong."""
    version, part, first, end = pending
    (source,) = table.upstream
    topic, partition = part_of(part)
    meter = Meter(spark)
    is_of_slice = (
        (F.col("_topic") == topic)
        & (F.col("_partition") == partition)
        & F.col("_offset").between(first, end - 1)
    )
    rows = rows_at(spark, lake.table(source), version).where(is_of_slice)
    own = own_of(rows, table)
    rows = taken(rows, table)
    chosen = rows.select(*PLACE, "_arrived_at").withColumn(
        "reasons", F.lit(None).cast("array<string>")
    )
    with healing(spark, table, lake, chosen, closed or closed_above(table, lake)) as healed:
        if waiting := healed.count(Fate.WAITS):
            raise DefinitionError(
                f"{waiting:,} of the {end - first:,} imported rows from offset {first:,} of {part} have a time that a "
                f"stream above {source.id} still owns",
                hint="they are safe in bronze; type the import again when the streams have read on.",
                table=table.id,
            )
        touched = healed.touched
        came, gone = healed.came_and_gone
        reach = touched or Span.of_micros(0, 0)
        stream = f"{IMPORT} {part} from {first}"
        begun = replace(
            new_entry.repair(table, IMPORT, stream, source.id, reach.in_text()),
            imported={part: (first, end)},
        )
        if came or gone:
            note_range(table, lake, *reach.in_text())
        if healed.gained and sums_of(lake.quarantine(table)).imported.get(part, 0) < end:
            coming = replace(begun, quarantined=dict(healed.gained), held_items=healed.gained_items)
            hold(spark, table, lake, healed.held, coming)
        released, items = _release_items(spark, table, lake, healed, begun)
        whole = replace(
            begun,
            read=end - first,
            skipped=dict(healed.skipped),
            held_items=healed.gained_items + items,
        )
        if table.is_routed:
            routed = replace(whole, takes=table.takes_in_words, routed_by=table.routed_by)
            whole = routed.routed(own.others, own.kinds)
        entry = whole.exchanged(
            came=came,
            gone=gone,
            held=_sum(healed.gained, released),
            records=healed.records,
            through=healed.through,
        )
        final = entry.closed(meter)
        path = lake.table(table)
        ImportSlices(path, part).note(first, latest_version(path))
        write_healed(spark, table, lake, healed, final)
        return final


def _release_items(
    spark: SparkSession, table: Judged, lake: Lake, healed: Healing, entry: Entry
) -> tuple[Counter[str], int]:
    """Release the held items of records that go because an imported copy came first; return what was, also before a kill."""
    if not table.rows:  # it never held one, and its decisions grow with history
        return Counter(), 0
    if healed.lost:
        lost = {why: -count for why, count in healed.lost.items()}
        work = Work(spark=spark, table=table, lake=lake, meter=Meter(spark))
        # No held record was chosen, so what else moves are the imported rows themselves, of which some were just held.
        items = healed.moving.where(F.col(ITEM).isNotNull())
        release(work, items, replace(entry, quarantined=lost, held_items=-healed.lost_items))
    found: Counter[str] = Counter()
    done = [each for each in resolved(table, lake) if each.stream == entry.stream]
    for each in done:
        found.update(each.quarantined)
    return found, sum(each.held_items for each in done)


def _sum(gained: Counter[str], released: Counter[str]) -> dict[str, int]:
    """Return by how many what is held becomes more or less, by reason."""
    found = Counter(gained)
    found.update(released)
    return {why: count for why, count in found.items() if count}
