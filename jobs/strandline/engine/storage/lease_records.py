"""Who holds which lease of a lake, for readers that take none (jobs/strandline/engine/storage/locks.py).

The folder is listed once, and each lease is read once. In a folder a lease is a lock, and its file has the last process that took
it; on an object store it is an object, which says itself whether it is held and how many holders there were.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from strandline.engine.storage.lake import WRITER, Lake
from strandline.engine.storage.locks import is_held
from strandline.engine.storage.place import Place
from strandline.engine.storage.store_lease import is_living

SUFFIX = ".lock"


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseRecord:
    """A lease that was taken at least once.

    Args:
        table: The table.
        role: The role that it gives.
        is_held: Whether it is held; a holder on another machine that was killed counts until its lease has expired.
        holder: The process that holds it; empty where none does.
        changed_at: When it was taken, or on an object store renewed or released.
        epoch: How many holders there were; None in a folder, which does not count them.
    """

    table: str
    role: str
    is_held: bool
    holder: Mapping[str, Any] = field(default_factory=dict)
    changed_at: datetime | None = None
    epoch: int | None = None


def lease_records(lake: Lake) -> Iterator[LeaseRecord]:
    """Yield the leases of a lake."""
    folder = lake.lease_of(WRITER).parent
    for name in folder.names():
        layer, _, rest = name.removesuffix(SUFFIX).partition(".")
        short, _, role = rest.partition(".")
        if name.endswith(SUFFIX) and short:
            read = _in_folder if folder.is_local else _on_store
            yield read(folder / name, f"{layer}.{short}", role or WRITER)


def _in_folder(path: Place, table: str, role: str) -> LeaseRecord:
    held = is_held(path)
    return LeaseRecord(
        table=table,
        role=role,
        is_held=held,
        holder=_values(path.text()) if held else {},
        changed_at=path.modified_at(),
    )


def _on_store(path: Place, table: str, role: str) -> LeaseRecord:
    found = _values(path.text())
    owner: Mapping[str, Any] = found.get("owner") or {}
    held = is_living(found, path)
    return LeaseRecord(
        table=table,
        role=role,
        is_held=held,
        holder=owner if held else {},
        changed_at=path.modified_at() if held else None,
        epoch=found.get("epoch"),
    )


def _values(text: str | None) -> dict[str, Any]:
    """Return what a lease says; nothing while its holder is just writing it."""
    try:
        return dict(json.loads(text or "{}"))
    except ValueError:
        return {}
