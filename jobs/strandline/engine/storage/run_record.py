"""What a stream ran last, in a small file inside its checkpoint, which Spark ignores.

Spark keeps the types of a state's columns, and not what they are computed from, nor the delay of a watermark. The file has
that, so that the code of today can be compared with the code that made the state. It moves with the checkpoint: into a
copy of the lake, and through a promotion and its undo.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import Any

from strandline.engine.storage.place import Place

FILE = "last_run.json"

SEARCHES = "searches"

JOIN = "Join"
"""Spark's name of an operator that joins, as the plan has it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """What a stream ran last.

    Args:
        fingerprint: A hash of all that decides what it runs; while it is the same, nothing need be compared.
        ids: The ids of the Delta tables that it read, by the names of the tables.
        plan: What it ran, as values of JSON.
        apart_ms: How far apart the rows lie that meet in its joins; None where no condition bounds that, and in the
            records of older programs.
    """

    fingerprint: str
    ids: Mapping[str, str]
    plan: Mapping[str, Any]
    apart_ms: int | None = None

    @property
    def searches(self) -> tuple[str, ...] | None:
        """Return the searches by Java's engine in it; None where an older program has recorded it.

        They are in the plan, where that program passes over what it does not know.
        """
        found = self.plan.get(SEARCHES)
        return None if found is None else tuple(found)

    @property
    def joins(self) -> bool:
        """Return whether streams are joined in it."""
        return any(each["kind"] == JOIN for each in self.plan.get("operators", ()))

    @property
    def apart(self) -> timedelta | None:
        """Return how far apart the rows lie that meet in its joins; None where it is not known."""
        if self.apart_ms is not None:
            return timedelta(milliseconds=self.apart_ms)
        return None if self.joins else timedelta(0)


def read_record(checkpoint: Place) -> RunRecord | None:
    """Return what a stream ran last; None where nothing was recorded, or by a version that wrote it otherwise."""
    text = (checkpoint / FILE).text()
    if text is None:
        return None
    try:
        return RunRecord(**json.loads(text))
    except (TypeError, ValueError):
        return None


def write_record(checkpoint: Place, record: RunRecord) -> None:
    """Record what a stream runs."""
    (checkpoint / FILE).put(json.dumps(asdict(record), separators=(",", ":")))
