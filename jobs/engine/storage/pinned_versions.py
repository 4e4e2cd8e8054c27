"""Versions of tables that a long work reads by their numbers, and that maintenance must leave readable meanwhile.

A verification compares versions for an hour while streams go on. It pins them in a small file of the lake for as long as it
runs. The pins of a process that is gone are ignored, and removed by the next look.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from uuid import uuid4

from jobs.engine.runtime.holders import is_there, own
from jobs.engine.storage.ledger_snapshot import name_of
from jobs.engine.storage.place import Place

FOLDER = "_pins"


@contextmanager
def pin_versions(root: Place, versions: Mapping[Place, int]) -> Iterator[None]:
    """Pin versions of tables of a lake for the length of the block.

    Args:
        root: The lake's folder.
        versions: The first version of each table that is needed.
    """
    pin = root / FOLDER / f"{uuid4().hex}.json"
    names = {name_of(path): version for path, version in versions.items()}
    pin.put(json.dumps({"holder": own(), "versions": names}))
    try:
        yield
    finally:
        pin.remove()


def pinned_versions(root: Place) -> dict[str, int]:
    """Return for each pinned table of a lake the smallest version that is pinned."""
    return lowest(_pins(root / FOLDER))


def lowest(needs: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Return for each table the smallest of the versions that several readers need of it."""
    found: dict[str, int] = {}
    for each in needs:
        for table, version in each.items():
            found[table] = min(version, found.get(table, version))
    return found


def _pins(folder: Place) -> Iterator[Mapping[str, int]]:
    for name in folder.names():
        text = (folder / name).text()
        if name.startswith(".") or text is None:  # a draft, or removed meanwhile
            continue
        pin = json.loads(text)
        if is_there(pin["holder"]) is False:
            (folder / name).remove()
            continue
        yield pin["versions"]
