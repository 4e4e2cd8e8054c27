"""The newest arrival that bronze knows before a commit, against which the disorder of its rows is measured.

It is carried from entry to entry, so that no commit looks at more than the one before it, and it is never later than the
clock of the reader: one record of the year 9999 would make every row after it disordered.
"""

import json
from datetime import UTC, datetime

from jobs.run.delta import Written
from jobs.run.ledger import Entry


def newest_before(newest: Entry | None) -> datetime | None:
    """Return the newest arrival up to a commit of bronze; None where there is none, or an older entry does not know."""
    if newest is None or newest.newest_arrival is None:
        return None
    return datetime.fromisoformat(newest.newest_arrival)


def newest_with(known: datetime | None, written: Written, seen_at: datetime) -> datetime | None:
    """Return the newest arrival up to and with rows that were just written.

    Args:
        known: The newest arrival before them.
        written: Their files, whose statistics have the newest arrival of each.
        seen_at: The clock of their reader.
    """
    stats = (json.loads(json.loads(file)["add"]["stats"]) for file in written.files)
    newest = [_moment(each["maxValues"]["_arrived_at"], seen_at) for each in stats]
    return max([*newest, *([known] if known else [])], default=None)


def _moment(text: str, seen_at: datetime) -> datetime:
    try:
        return min(datetime.fromisoformat(text).astimezone(UTC), seen_at)
    except (ValueError, OverflowError):  # beyond the year 9999, which Kafka has and Python has not
        return datetime.min.replace(tzinfo=UTC) if text.startswith("-") else seen_at
