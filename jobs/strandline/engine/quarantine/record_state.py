"""The state of a few records of a quarantine, and what was done about each; without a JVM.

The rule is that of jobs/strandline/engine/quarantine/resolutions.py: equal records are counted, and as many of them as were released
are no longer held. Here it is applied to single records, because a large quarantine is not read whole for one of them.
"""

from collections.abc import Sequence
from typing import Any

from strandline.core.received import PLACE
from strandline.core.table import Table
from strandline.engine.quarantine.resolutions import RECORD, RELEASED, generation
from strandline.engine.storage.find_rows import Found, Where, look
from strandline.engine.storage.lake import Lake


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
    ]


def _resolutions(silver: Table, lake: Lake, place: tuple[Any, ...]) -> list[dict[str, Any]]:
    """Return the resolutions of the event at a place in Kafka."""
    since = generation(lake.quarantine(silver))
    where = Where(equal={**dict(zip(PLACE, place, strict=True)), "generation": since})
    return [found.row for found in look(lake.resolutions(silver), where)]


def _record(row: dict[str, Any]) -> tuple[object, ...]:
    return tuple(tuple(v) if isinstance(v := row[name], list) else v for name in RECORD)
