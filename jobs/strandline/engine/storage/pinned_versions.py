"""Versions of tables that a long work reads by their numbers, and that maintenance must leave readable meanwhile.

A verification compares versions for an hour while streams go on. It pins them in a small file of the lake for as long as it
runs, and writes that file again and again. The pins of the dead hold nothing: those of a process of this machine that is gone,
and those of another machine that were not renewed; the next look removes them.
"""

import json
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from strandline.engine.runtime.holders import is_there, own
from strandline.engine.storage.ledger_snapshot import name_of
from strandline.engine.storage.place import Place
from strandline.engine.storage.store_lease import unchanged_for

FOLDER = "_pins"

RENEWED = 60.0
"""Seconds between two renewals of a pin."""

EXPIRES = 1800.0
"""Seconds without a renewal after which a pin of another machine holds nothing; clocks may differ by a quarter of an hour."""

UNRENEWED = 86_400.0
"""The same of a pin of an older version, which does not renew it; what it was for takes hours."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pin:
    """What one process holds.

    Args:
        who: The process, in words.
        since: When it was pinned; None of an older version.
        versions: For each table the first version that is needed.
    """

    who: str
    since: str | None
    versions: Mapping[str, int]


@contextmanager
def pin_versions(root: Place, versions: Mapping[Place, int]) -> Iterator[None]:
    """Pin versions of tables of a lake for the length of the block.

    Args:
        root: The lake's folder.
        versions: The first version of each table that is needed.
    """
    pin = root / FOLDER / f"{uuid4().hex}.json"
    names = {name_of(path): version for path, version in versions.items()}
    over = threading.Event()
    pin.put(json.dumps({"holder": own(), "versions": names, "renewed": True}))
    since = pin.modified_at().isoformat(timespec="seconds")
    text = json.dumps({"holder": own(), "versions": names, "renewed": True, "since": since})

    def renew() -> None:
        while not over.wait(RENEWED):
            try:
                pin.put(text)
            except Exception:  # noqa: BLE001, S112  # whatever a store says for a while, the next renewal may succeed
                continue

    renewing = threading.Thread(target=renew, name="pin", daemon=True)
    renewing.start()
    try:
        yield
    finally:
        over.set()
        renewing.join()
        pin.remove()


def pinned_versions(root: Place) -> dict[str, int]:
    """Return for each pinned table of a lake the smallest version that is pinned."""
    return lowest(pin.versions for pin in pins(root))


def lowest(needs: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Return for each table the smallest of the versions that several readers need of it."""
    found: dict[str, int] = {}
    for each in needs:
        for table, version in each.items():
            found[table] = min(version, found.get(table, version))
    return found


def pins(root: Place) -> Iterator[Pin]:
    """Yield the pins of processes that are there, and remove the others."""
    folder = root / FOLDER
    for name in folder.names():
        text = (folder / name).text()
        if name.startswith(".") or text is None:  # a draft, or removed meanwhile
            continue
        pin = json.loads(text)
        if not _holds(folder / name, pin):
            (folder / name).remove()
            continue
        yield Pin(who=_in_words(pin["holder"]), since=pin.get("since"), versions=pin["versions"])


def let_go(root: Place, host: str, *, go: bool = True) -> list[str]:
    """Remove the pins of a machine that a person knows to be gone, and return whose they were; only look without ``go``.

    A process that lives there all the same renews its own within a minute; until then a deletion takes only what has been
    replaced for as long as a policy says.
    """
    folder, found = root / FOLDER, []
    for name in folder.names():
        text = (folder / name).text()
        holder = {} if name.startswith(".") or text is None else json.loads(text)["holder"]
        if holder.get("host") == host:
            if go:
                (folder / name).remove()
            found.append(_in_words(holder))
    return found


def _in_words(holder: Mapping[str, Any]) -> str:
    return f"process {holder['pid']} on {holder['host']}"


def _holds(place: Place, pin: Mapping[str, Any]) -> bool:
    seen = is_there(pin["holder"])
    if seen is not None:
        return seen
    try:
        return unchanged_for(place) < (EXPIRES if pin.get("renewed") else UNRENEWED)
    except FileNotFoundError:  # removed meanwhile
        return False
