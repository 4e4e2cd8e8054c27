"""The alert feed of a model, as far as a promotion must know it: whether it runs, and until when it ran.

The feed has the model's name (jobs/rules/model_rule.py). It judges an event before any table has it, so of a time of
which the table has no row yet there may be alerts.
"""

import json
from datetime import datetime

from jobs.core.feed import Feed
from jobs.engine.storage.commit_time import committed_at
from jobs.engine.storage.lake import Lake
from jobs.engine.storage.ledger import last_entry
from jobs.engine.storage.locks import is_held


def runs(lake: Lake, model: str) -> bool:
    """Return whether a process raises alerts by the model."""
    return is_held(lake.lease_of(_id(model)))


def ran_until(lake: Lake, model: str) -> datetime | None:
    """Return when the feed last judged events at the latest; None if it never ran.

    A process that was killed has judged more than its ledger has, and its heartbeat is at most seconds older than that.
    """
    path = lake.root / Feed.layer / model
    newest = last_entry(path)
    if newest is None:
        return None
    beat = json.loads(lake.feeds_beat.text() or "{}")
    known = [datetime.fromisoformat(beat["at"])] if _id(model) in beat.get("tables", ()) else []
    return max([committed_at(path, newest[0]), *known])


def _id(model: str) -> str:
    return f"{Feed.layer}.{model}"
