"""The heartbeat that an always-on stream writes, and whether the stream is still alive.

A heartbeat is a file, and a file outlives its writer: it is copied with the lake, and it is still there when a
container starts again under another name. So a heartbeat is believed while its process is seen on this host. Where
that cannot be seen, it is believed only while it is young and the lock of a table is held, because no copy of a lake
holds a lock (jobs/strandline/engine/lake/locks.py).

Of a lake on an object store it is on this machine as well, and there first: who looks after the process of a container must not
take it for dead because the store is away (jobs/strandline/engine/service/probe.py).
"""

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from strandline.engine.lake.files.place import Place
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.locks import is_held
from strandline.engine.runtime.processes import is_there
from strandline.engine.service.stream_health import SILENT


def write(lake: Lake, file: Place, beat: Mapping[str, Any]) -> None:
    """Write a heartbeat."""
    text = json.dumps(beat, indent=1)
    for place in dict.fromkeys((near(lake, file), file)):
        place.put(text)


def near(lake: Lake, file: Place) -> Place:
    """Return the place on this machine of a heartbeat that is written here."""
    return lake.near / file.name


def near_beat(lake: Lake, file: Place) -> dict[str, Any] | None:
    """Return the last heartbeat that a program of this machine has written, and whether that program lives here; the store is not asked."""
    text = near(lake, file).text()
    if text is None:
        return None
    beat: dict[str, Any] = json.loads(text)
    return {**beat, "alive": bool(beat["alive"] and is_there(beat))}


def heartbeat(lake: Lake, now: datetime, file: Place | None = None) -> dict[str, Any] | None:
    """Return the last heartbeat; a stream that is gone is not alive, whatever its last heartbeat has.

    Args:
        lake: The lake.
        now: The present time.
        file: The heartbeat, if it is not that of the stream of tables.
    """
    text = (file or lake.heartbeat).text()
    if text is None:
        return None
    beat: dict[str, Any] = json.loads(text)
    beat["ended"] = not beat["alive"]  # in order; one that was killed wrote that it lives
    beat["alive"] = bool(beat["alive"]) and _lives(lake, beat, now)
    return beat


def _lives(lake: Lake, beat: Mapping[str, Any], now: datetime) -> bool:
    seen = is_there(beat)
    if seen is not None:
        return seen
    if abs(now - datetime.fromisoformat(beat["at"])) > SILENT:
        return False
    return any(is_held(lake.lease_of(name)) for name in beat["tables"])
