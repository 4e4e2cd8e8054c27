"""What an always-on stream says of itself once a second, and whether it still lives.

A beat is a file, and a file outlives who wrote it: it is copied with the lake, and it is still there when a container
starts again under another name. So a beat is believed while its process is seen here; where that cannot be seen, only
while it is young and the lock of a table is really held, which no copy is (jobs/run/lease.py).
"""

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from jobs.run.holders import is_held, is_there
from jobs.run.lake import Lake
from jobs.run.watch import SILENT


def heartbeat(lake: Lake, now: datetime) -> dict[str, Any] | None:
    """Return what the stream said last; one that is gone is not alive, whatever it said."""
    if not lake.heartbeat.exists():
        return None
    beat: dict[str, Any] = json.loads(lake.heartbeat.read_text())
    beat["alive"] = bool(beat["alive"]) and _lives(lake, beat, now)
    return beat


def _lives(lake: Lake, beat: Mapping[str, Any], now: datetime) -> bool:
    seen = is_there(beat)
    if seen is not None:
        return seen
    if abs(now - datetime.fromisoformat(beat["at"])) > SILENT:
        return False
    return any(is_held(lake.lease_of(name)) for name in beat["tables"])
