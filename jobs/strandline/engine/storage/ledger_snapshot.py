"""The sums of a table's ledger, written down at a version, so that no reader adds up years of entries.

A snapshot is one small file, a pure function of the log up to its version, and may be lost or old: then a reader adds
more entries. It names the table by the id that Delta gave it and a hash of the commit at its version, so that one of a
table that was removed, created again or restored from a copy is not taken for one of this table.

``chain`` is a hash over all entries up to the version, each over the one before; an audit computes it again from the log
(jobs/strandline/engine/accounting/close_ledger.py).
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from strandline.engine.storage.commit_log import Kind, actions, commit_text, is_commit
from strandline.engine.storage.files_at_version import table_id
from strandline.engine.storage.ledger_sums import Repair, Sums, follow
from strandline.engine.storage.place import Place

FOLDER = "_books"
FORMAT = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The sums of a table up to a version.

    Args:
        sums: What the entries add up to.
        chain: The hash over all of them.
        sheet: What else was carried forward for the table's balance (jobs/strandline/engine/accounting/table_books.py).
    """

    sums: Sums
    chain: str = ""
    sheet: Mapping[str, Any] = field(default_factory=dict)


def name_of(path: Place) -> str:
    """Return a table's name as its folder says it: ``silver.readings``, ``quarantine.readings``."""
    return f"{path.parent.name}.{path.name}"


def snapshot_file(path: Place) -> Place:
    """Return the file with the snapshot of a table."""
    return path.parent.parent / FOLDER / f"{name_of(path)}.json"


def snapshot(path: Place) -> Snapshot:
    """Return a table's last snapshot; an empty one where there is none that fits its log."""
    try:
        found = json.loads(snapshot_file(path).text() or "")
        is_own = found["format"] == FORMAT and is_commit(path, 0) and _fits(path, found)
        return _decoded(found) if is_own else Snapshot(sums=Sums())
    except (ValueError, KeyError, TypeError, AttributeError):  # none, torn, or of another version
        return Snapshot(sums=Sums())


def write(path: Place, taken: Snapshot) -> None:
    """Write the snapshot of a table; a reader sees the old one or the new one."""
    version = taken.sums.version
    words = {
        "format": FORMAT,
        "table": table_id(path),
        "version": version,
        "commit": fingerprint(path, version),
        "chain": taken.chain,
        "sums": asdict(taken.sums),
        "sheet": taken.sheet,
    }
    snapshot_file(path).put(json.dumps(words, indent=1))


def sums_of(path: Place, until: int | None = None) -> Sums:
    """Return the sums of a table's entries, to the latest version or to a given one, from the last snapshot on."""
    sums = snapshot(path).sums
    if until is not None and until < sums.version:
        sums = Sums()
    follow(path, sums, until)
    return sums


def entry_text(path: Place, version: int) -> str:
    """Return the metadata of a commit as it is in the log; empty where it has none."""
    if not is_commit(path, version):
        return ""
    info = next((action.body for action in actions(path, version, Kind.INFO)), {})
    return str(info.get("userMetadata") or "")


def fingerprint(path: Place, version: int) -> str:
    """Return a hash of a commit; empty where there is no such version."""
    text = commit_text(path, version)
    return hashed("", text) if text else ""


def hashed(chain: str, text: str) -> str:
    """Return the hash of a text, over the hash of the one before."""
    return hashlib.sha256(f"{chain}\n{text}".encode()).hexdigest()


def _fits(path: Place, found: Mapping[str, Any]) -> bool:
    version = int(found["version"])
    return bool(found["commit"] == fingerprint(path, version) and found["table"] == table_id(path))


def _decoded(found: Mapping[str, Any]) -> Snapshot:
    known = {each.name for each in fields(Sums)}
    values = {name: value for name, value in found["sums"].items() if name in known}
    values["drops"] = [(rows, ranges) for rows, ranges in values.get("drops", ())]
    repairs = {stream: Repair(**repair) for stream, repair in values.pop("repairs").items()}
    return Snapshot(
        sums=Sums(**values, repairs=repairs), chain=found["chain"], sheet=found["sheet"]
    )
