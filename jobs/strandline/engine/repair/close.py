"""Close on purpose what waits for time to pass: the last windows, sessions and joins of a source that fell silent.

A watermark moves by rows alone, so what a silent topic left open stays open. Who closes it says that all time up to a moment is over:
the newest event that was read, and as much later as the table's rows may wait, but no later than the clock. The stream emits then what it
would have emitted had an event of that moment come (jobs/strandline/engine/lake/spark_checkpoint.py), a batch computes by the same
moment, and a verification and a rebuild close what the live table has closed.

An event that comes after that, within the lateness of its table, is a row of silver as ever. A table that was closed refuses it where its
window is over, and counts it: a fault of its books, with the backfill that brings it in. Nothing is lost, and nothing is hidden.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from strandline.core.errors import TransientError
from strandline.core.lateness import milliseconds, shifted
from strandline.core.modes import AvailableNow
from strandline.core.table import Ingested, Recomputed, Table
from strandline.engine.accounting.balance_sheet import waiting
from strandline.engine.accounting.commit_history import newest_event
from strandline.engine.flow.plan import emits_over_time
from strandline.engine.flow.runner import Site, run
from strandline.engine.flow.running import Report
from strandline.engine.lake.commit.file_index import EPOCH
from strandline.engine.lake.completeness import known_reach, retired
from strandline.engine.lake.handover import handed_over
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.locks import lease
from strandline.engine.lake.log.ledger import Entry
from strandline.engine.lake.spark_checkpoint import close_ordered, closed_ms, order_close
from strandline.engine.repair.closed_range import left_until

DAY = timedelta(days=1)
"""How long a table waits at most of which neither a window nor a join says it, such as a fold."""

SECOND = timedelta(seconds=1)
"""A row is final a moment after the last one that could change it."""


def waits(table: Table) -> bool:
    """Return whether a table emits rows because time has passed, so that a silent source leaves some in its state."""
    return emits_over_time(table) or (isinstance(table, Recomputed) and table.waits)


def closes_at(table: Table, lake: Lake, now: datetime) -> datetime | None:
    """Return the moment up to which a table may be closed; None where nothing was read yet.

    What has not ended by the clock is not over: events of that time may come in time.
    """
    known = [newest_event(source, lake) for source in table.upstream if not source.valid_until]
    left = None if isinstance(table, Recomputed) else left_until(table, lake)
    if left and _ms(left) > closed_ms(lake.checkpoint(table)):
        # By rows the watermark is the newest event of the slowest source less its delay, also where no late commit has it.
        known.append(shifted(left, min(source.lateness.delay for source in table.upstream)))
    newest = max((each for each in known if each), default=None)
    if newest is None:
        return None
    wait = table.window_length + (known_reach(table, lake) or timedelta(0))
    return min(shifted(newest, (wait or DAY) + SECOND), now)


@dataclass(frozen=True, slots=True, kw_only=True)
class Closed:
    """What a close has done.

    Args:
        report: The figures of its batches, and of those before it.
        until: The moment up to which all time is over; None where the table has read nothing.
    """

    report: Report
    until: datetime | None


def close(  # noqa: PLR0913  # which table, with what, by whom, and who hears of it
    table: Table,
    lake: Lake,
    site: Site,
    by: str,
    *,
    note: Callable[[str], None] = lambda _: None,
    on_commit: Callable[[Entry], None] = lambda _: None,
) -> Closed:
    """Bring a table up to date and close it; a stream that writes it hands it over for that long.

    Args:
        table: A table that waits.
        lake: Its lake.
        site: With what.
        by: Who orders it, when, and by which word.
        note: Hears that a stream is waited for.
        on_commit: Hears of each batch.

    Raises:
        TransientError: A table below it has rows to read: what comes of them would be refused.
    """
    with handed_over(table, lake, site.clock, "close", note=note):
        report = run(table, AvailableNow(), lake, site=site, on_commit=on_commit)
        refuse_unread(table, lake)
        now = site.clock()
        until = closes_at(table, lake, now)
        if until is None:
            return Closed(report=report, until=None)
        with lease(site.spark, table, lake):
            ordered = order_close(lake.checkpoint(table), _ms(until), by, _ms(now))
        if ordered is None:  # rows have moved the watermark as far
            return Closed(report=report, until=until)

        def heard(entry: Entry) -> None:
            report.add(entry)
            on_commit(entry)

        run(table, AvailableNow(), lake, site=site, on_commit=heard)
    return Closed(report=report, until=until)


def close_as_batch(table: Table, lake: Lake, now: datetime, by: str) -> None:
    """Order a close of a table that batches write; the next one computes by it."""
    until = closes_at(table, lake, now)
    if until is not None:
        order_close(lake.checkpoint(table), _ms(until), by, _ms(now))


def close_as(table: Table, live: Lake, other: Lake, site: Site) -> bool:
    """Close a table in another lake up to where it was closed in the live one, where it has read the same; return whether it was.

    Where a stream writes it there, its batch is run.
    """
    ordered = close_ordered(live.checkpoint(table))
    if ordered is None:
        return False
    at_ms = _ms(site.clock())
    return order_close(other.checkpoint(table), ordered.until_ms, ordered.by, at_ms) is not None


def refuse_unread(table: Table, lake: Lake) -> None:
    """Refuse to close a table before what it reads is read to its end.

    Raises:
        TransientError: A table below has rows to read.
    """
    reached, ended = [table], retired(lake)
    for each in reached:
        reached += [source for source in each.upstream if source not in reached]
        if each.id in ended:  # it is fed no more
            continue
        if not isinstance(each, Ingested) and (rows := waiting(each, lake)) > 0:
            raise TransientError(
                f"{table.id} is not closed: {each.id} has {rows:,} rows to read, and what comes of them would be refused",
                hint="type the same again when it has read them (`strandline ledger`).",
                table=table.id,
                waiting=rows,
            )


def _ms(moment: datetime) -> int:
    return milliseconds(moment.astimezone(UTC) - EPOCH)
