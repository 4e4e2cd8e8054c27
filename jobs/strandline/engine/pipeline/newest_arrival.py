"""The newest arrival in bronze before a commit; a row that arrived too far behind it is disordered.

Each entry carries it forward, so a commit reads only the entry before it. An arrival beyond the reader's clock by more
than ``SKEW`` does not count (jobs/strandline/core/lateness.py): one record of the year 9999 would make every later row disordered.

History that was imported before any stream had read a row counts as what came before Kafka's first record: the streams
begin with it, so it has moved their watermarks. A record that Kafka has of the same time is a copy that state still knows,
or lies further back than the table admits and is held as disordered, as after any other commit.
"""

import json
from collections.abc import Iterator
from datetime import UTC, datetime

from strandline.core.lateness import SKEW
from strandline.core.received import NOTHING_ARRIVED
from strandline.engine.storage.commit_log import added_file
from strandline.engine.storage.delta_commit import Written
from strandline.engine.storage.duckdb_table import peek_files
from strandline.engine.storage.ledger import Entry
from strandline.engine.storage.log_actions import file_of
from strandline.engine.storage.place import Place
from strandline.engine.storage.window_index import EPOCH, MICROSECOND


def newest_credible(clock: str) -> str:
    """Return the SQL for the newest arrival among rows that a reader believed, in microseconds since 1970.

    An arrival beyond the reader's clock counts as that of its clock, and one beyond it by more than the skew not at all.

    Args:
        clock: The SQL of the reader's clock, in microseconds.
    """
    arrived, skew = "epoch_us(_arrived_at)", SKEW // MICROSECOND
    return f"max(least({arrived}, {clock})) FILTER ({arrived} <= {clock} + {skew})"


def newest_before(newest: Entry | None, history: str | None = None) -> datetime | None:
    """Return the newest arrival up to a commit of bronze; None if its entry is of an older version without it.

    Args:
        newest: The entry of the commit; None before the first.
        history: The newest arrival of history with which the streams began (``Sums.history``), or will begin.
    """
    known = [datetime.fromisoformat(history)] if history else []
    if newest is None:
        return max([NOTHING_ARRIVED, *known])
    if newest.newest_arrival:
        known.append(datetime.fromisoformat(newest.newest_arrival))
    return max(known, default=None)


def newest_with(
    known: datetime | None, path: Place, written: Written, seen_at: datetime
) -> datetime | None:
    """Return the newest arrival including rows that were just written.

    Args:
        known: The newest arrival before them.
        path: The table.
        written: Their files; the statistics of each have its newest arrival.
        seen_at: The reader's clock.
    """
    return max([*_newest(path, written, seen_at), *([known] if known else [])], default=None)


def _newest(path: Place, written: Written, seen_at: datetime) -> Iterator[datetime]:
    """Yield the newest credible arrival of the files; only those with an arrival that is not credible are opened."""
    ahead = []
    for add in map(added_file, written.files):
        newest = _moment(json.loads(add["stats"])["maxValues"]["_arrived_at"])
        if newest is not None and newest <= seen_at + SKEW:
            yield min(newest, seen_at)
        else:
            ahead.append(file_of(path, add))
    if not ahead:
        return
    wanted = newest_credible("getvariable('clock_')")
    ((within,),) = peek_files(ahead, "ahead").ask(
        f"SELECT {wanted} FROM ahead",  # noqa: S608  # our own names
        clock_=(seen_at - EPOCH) // MICROSECOND,
    )
    if isinstance(within, int):
        yield EPOCH + within * MICROSECOND


def _moment(text: str) -> datetime | None:
    try:
        return datetime.fromisoformat(text).astimezone(UTC)
    except (ValueError, OverflowError):  # Kafka has times beyond the year 9999, Python has not
        return None
