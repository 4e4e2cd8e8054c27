"""Whether a program of a lake is well on this host, for an orchestrator that asks its container every few seconds.

It differs from the watchdog's look (jobs/strandline/engine/service/stream_health.py) in two things. Nothing has to be ordered: an
orchestrator starts programs itself. And a heartbeat counts on its own host only: while a pod starts, the heartbeat of the
former one is still in the lake, and a pod must not be taken for ready because another was. Of a lake on an object store its
copy on this machine is read, so a store that is away restarts no pod.
"""

import json
import socket
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from strandline.core.errors import TransientError
from strandline.engine.lake.lake import Lake
from strandline.engine.runtime import processes
from strandline.engine.runtime.processes import is_there
from strandline.engine.service.background_stream import Program
from strandline.engine.service.heartbeat import near
from strandline.engine.service.stream_health import ill


def refuse_ill(program: Program, lake: Lake, now: datetime) -> Mapping[str, Any]:
    """Return the last heartbeat of a program that is well.

    Raises:
        TransientError: It has written none on this host, has ended, is silent, or commits nothing though it has rows to read.
    """
    beat = _own_beat(program, lake)
    begun = "" if beat is None else _begun(beat)
    found = ill(beat, now, begun=begun, title=f"{program.title}, on host {socket.gethostname()},")
    if beat is None or found is not None:
        raise TransientError(
            found[1] if found else program.title,
            hint=f"one that starts is well with its first heartbeat; `{program.reader}` shows what it does.",
        )
    return beat


def _own_beat(program: Program, lake: Lake) -> dict[str, Any] | None:
    """Return the heartbeat of a process of this host, which is dead where it is gone."""
    text = near(lake, program.heartbeat(lake)).text()
    beat: dict[str, Any] | None = None if text is None else json.loads(text)
    if beat is None or beat["host"] != socket.gethostname():
        return None
    return {**beat, "alive": beat["alive"] and is_there(beat) is True}


def _begun(beat: Mapping[str, Any]) -> str:
    """Return when a process was started; of one that has just gone, its last sign of life."""
    created = processes.started_at(beat["pid"])
    return created.isoformat(timespec="seconds") if created else str(beat["at"])
