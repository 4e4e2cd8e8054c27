"""A few records of a quarantine, less those that were released since, and what was done about each; without a JVM.

The rule is that of jobs/run/resolutions.py: a record is known by what it says, and so many of a kind as were released
are held no longer. It is applied here to single records, because a large quarantine is not read whole for one of them.
"""

from collections.abc import Sequence
from typing import Any

from jobs.core.received import PLACE
from jobs.core.table import Table
from jobs.run.lake import Lake
from jobs.run.needle import Found, Where, look
from jobs.run.resolutions import RECORD, RELEASED, generation


def standing(silver: Table, lake: Lake, kept: Sequence[Found]) -> list[Found]:
    """Return those of some records that the quarantine still holds."""
    left = list(kept)
    for place in {tuple(row.row[name] for name in PLACE) for row in kept}:
        for said in _said(silver, lake, place):
            record = _record(said)
            same = (row for row in left if _record(row.row) == record)
            if said["status"] in RELEASED and (gone := next(same, None)):
                left.remove(gone)
    return left


def done_about(silver: Table, lake: Lake, row: dict[str, Any]) -> list[dict[str, object]]:
    """Return what was done about the event of a record, oldest first."""
    said = _said(silver, lake, tuple(row[name] for name in PLACE))
    return [
        {
            "status": each["status"],
            "who": each["who"],
            "at": each["resolved_at"],
            "why": each["why"],
        }
        for each in sorted(said, key=lambda each: str(each["resolved_at"]))
    ]


def _said(silver: Table, lake: Lake, place: tuple[Any, ...]) -> list[dict[str, Any]]:
    """Return the resolutions that speak of what stood at a place in Kafka."""
    begun = generation(lake.quarantine(silver)).begun
    where = Where(equal={**dict(zip(PLACE, place, strict=True)), "generation": begun})
    return [found.row for found in look(lake.resolutions(silver), where)]


def _record(row: dict[str, Any]) -> tuple[object, ...]:
    return tuple(tuple(v) if isinstance(v := row[name], list) else v for name in RECORD)
