"""The receivers of a lake's alerts, each with its figures and the process that delivers to it.

Without the rules' modules, because every project has ``strandline status``.
"""

import json
from collections.abc import Iterator
from typing import Any

from strandline.engine.lake.lake import Lake
from strandline.engine.lake.store_lease import note_of_holder

STORED, LOCK = ".json", ".lock"
"""The names of a receiver's books (jobs/strandline/alerting/courier.py), and of its lease."""

NOTHING = {"delivered": 0, "notices": 0, "lag": None, "at": "", "away": None}
"""The figures of books that cannot be read."""

PARTS = ("topic", "digests", "outbox", "noticed", "holder")
"""What is no figure."""


def receivers(lake: Lake) -> Iterator[dict[str, Any]]:
    """Yield for each receiver its figures, and the process that delivers to it; None where none does."""
    for name in lake.deliveries.names():
        if name.startswith(".") or not name.endswith(STORED):
            continue
        text = (lake.deliveries / name).text()
        holder = note_of_holder(lake.deliveries / f"{name.removesuffix(STORED)}{LOCK}")
        try:
            stored = json.loads(text or "{}")
        except ValueError:  # `strandline deliver` says what to do
            stored = {}
        waiting = [*stored.pop("digests", {}).values(), *stored.pop("outbox", {}).values()]
        figures = {key: value for key, value in stored.items() if key not in PARTS}
        count = sum(each["count"] for each in waiting)
        yield {**NOTHING, "receiver": name, **figures, "waiting": count, "process": process(holder)}


def stored_offsets(lake: Lake) -> Iterator[tuple[str, dict[int, int]]]:
    """Yield each receiver that has read something, and by partition the offset of the topic of alerts that it reads next."""
    for each in receivers(lake):
        offsets = {int(number): at for number, at in each.get("offsets", {}).items()}
        if offsets:
            yield each["receiver"], offsets


def process(holder: str | None) -> dict[str, Any] | None:
    """Return the process that holds a lease; empty while it is just writing that."""
    try:
        return dict(json.loads(holder)) if holder is not None else None
    except ValueError:
        return {}
