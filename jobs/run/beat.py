"""What an always-on stream says of itself once a second, and whether it still lives."""

import json
import socket
from typing import Any

from jobs.run.lake import Lake
from jobs.run.processes import has_ended


def heartbeat(lake: Lake) -> dict[str, Any] | None:
    """Return what the stream said last; a process that is gone is not alive, whatever it said."""
    if not lake.heartbeat.exists():
        return None
    beat: dict[str, Any] = json.loads(lake.heartbeat.read_text())
    is_here = beat["host"] == socket.gethostname()
    if is_here and has_ended(int(beat["pid"])):
        beat["alive"] = False
    return beat
