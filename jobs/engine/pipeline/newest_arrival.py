"""The newest arrival in bronze before a commit; a row that arrived too far behind it is disordered.

Each entry carries it forward, so a commit reads only the entry before it. An arrival beyond the reader's clock by more
than ``SKEW`` does not count (jobs/core/lateness.py): one record of the year 9999 would make every later row disordered.
"""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import duckdb

from jobs.core.lateness import SKEW
from jobs.core.received import NOTHING_ARRIVED
from jobs.engine.storage.commit_log import added_file
from jobs.engine.storage.delta_commit import Written
from jobs.engine.storage.ledger import Entry
from jobs.engine.storage.log_actions import file_of
from jobs.engine.storage.place import Place

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
NEWEST = """
    SELECT max(epoch_us(_arrived_at)) FROM read_parquet($file) WHERE epoch_us(_arrived_at) <= $latest
"""


def newest_before(newest: Entry | None) -> datetime | None:
    """Return the newest arrival up to a commit of bronze; None if its entry is of an older version without it."""
    if newest is None:
        return NOTHING_ARRIVED
    return datetime.fromisoformat(newest.newest_arrival) if newest.newest_arrival else None


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
    arrivals = [min(each, seen_at) for each in _newest(path, written, seen_at + SKEW)]
    return max([*arrivals, *([known] if known else [])], default=None)


def _newest(path: Place, written: Written, latest: datetime) -> Iterator[datetime]:
    """Return the newest arrival of each file up to a time; only a file with a later arrival is opened."""
    for file in written.files:
        add = added_file(file)
        newest = _moment(json.loads(add["stats"])["maxValues"]["_arrived_at"])
        if newest is not None and newest <= latest:
            yield newest
            continue
        with duckdb.connect() as engine:
            values = {
                "file": file_of(path, add),
                "latest": (latest - EPOCH) // timedelta(microseconds=1),
            }
            (within,) = engine.execute(NEWEST, values).fetchall()[0]
        if within is not None:
            yield EPOCH + timedelta(microseconds=within)


def _moment(text: str) -> datetime | None:
    try:
        return datetime.fromisoformat(text).astimezone(UTC)
    except (ValueError, OverflowError):  # Kafka has times beyond the year 9999, Python has not
        return None
