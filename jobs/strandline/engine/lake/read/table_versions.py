"""Versions of a table: the past one that a moment means, and those that a long work keeps readable.

A past version of a table: which one a moment means, and whether it can still be read.

A search reads some twenty commits of a million, and nothing else here grows with a table's history. Maintenance cuts logs
(jobs/strandline/engine/lake/log/vacuum.py) and deletes the files that only old versions have (jobs/strandline/engine/lake/log/vacuum.py), so an
old version ends with a sentence that names the oldest one that can be read.
"""

import json
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError

from strandline.core.errors import DamagedError, DataError, DefinitionError
from strandline.engine.lake.files.place import Place
from strandline.engine.lake.log.commit_log import committed_at, is_commit, log_of
from strandline.engine.lake.log.ledger import latest_version
from strandline.engine.lake.log.ledger_sums import name_of
from strandline.engine.lake.log.log_actions import WIDENED
from strandline.engine.lake.log.vacuum import CHECKPOINT, begins_at, swept
from strandline.engine.lake.read.open_table import live_files, opened
from strandline.engine.lake.store_lease import unchanged_for
from strandline.engine.runtime.processes import is_there, own

READABLE = {"timestampNtz", "variantType", "variantType-preview", WIDENED}
"""What DuckDB and Arrow read as well; a table with other features would be read wrongly, as with deleted rows in it."""

MEANINGS = {
    "deletionVectors": "rows that are marked as deleted and still in the files (deletion vectors)",
    "columnMapping": "columns that have other names in the files (column mapping)",
}


def version_at(path: Place, name: str, moment: datetime) -> int:
    """Return the version that a table had at a moment.

    Raises:
        DefinitionError: There was none yet.
    """
    low = first = 0 if is_commit(path, 0) else begins_at(path)
    high = latest_version(path)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if committed_at(path, middle) <= moment else (low, middle - 1)
    begun = committed_at(path, first)
    if low == first and begun > moment:
        raise DefinitionError(
            f"{name} did not exist at {moment.isoformat(sep=' ')}",
            hint=f"its first commit is of {begun.astimezone(UTC).isoformat(sep=' ', timespec='milliseconds')}.",
            table=name,
        )
    return low


def open_version(path: Place, name: str, version: int | None = None) -> DeltaTable:
    """Return a version of a table, the latest by default, whose files hold its rows as they are.

    Raises:
        DefinitionError: There is no such version, its log was cut, or its files need a reader that knows more.
        DataError: Its log is damaged.
    """
    latest = latest_version(path) if version is not None else None
    if version is not None and latest is not None and not 0 <= version <= latest:
        raise DefinitionError(
            f"{name} has no version {version:,}", hint=f"its latest is {latest:,}.", table=name
        )
    try:
        table = opened(path, version)
    except (DeltaError, TableNotFoundError, DamagedError) as error:
        if isinstance(error, DamagedError) and version is None:
            raise
        if version is None:
            raise damaged_log(name, path, error) from error
        raise DefinitionError(
            f"{name} cannot be read at version {version:,}: its log was cut behind it",
            hint=f"the oldest version that can be read is {_first_readable(path):,}; `strandline why` and "
            "`strandline ledger` still know what the commits before it did.",
            table=name,
        ) from error
    refuse_features(table, name)
    return table


DamagedLogError = DeltaError
"""What opening a table raises whose log is damaged."""


def damaged_log(name: str, path: Place, error: Exception) -> DataError:
    """Return what is to be said of a table whose log cannot be read."""
    reason = str(error).splitlines()[0]
    return DataError(
        f"{name} cannot be read, because its log is damaged: {reason}",
        hint=f"put the files of {path / '_delta_log'} back from a backup, or make a lake of a snapshot: "
        "`strandline restore`; the other tables can be asked meanwhile.",
        table=name,
    )


def refuse_features(table: DeltaTable, name: str) -> None:
    """Refuse a table whose files alone do not show its rows.

    Raises:
        DefinitionError: It is one.
    """
    unknown = sorted({*(table.protocol().reader_features or ())} - READABLE)
    mapped = table.metadata().configuration.get("delta.columnMapping.mode", "none") != "none"
    if mapped and "columnMapping" not in unknown:
        unknown.append("columnMapping")  # of tables from before features had names
    if unknown:
        what = ", ".join(MEANINGS.get(each, each) for each in unknown)
        raise DefinitionError(
            f"{name} cannot be read without Spark: it has {what}",
            hint="another tool set that up, because Strandline's own tables have none; read it with Spark, or rewrite it "
            "with `REORG TABLE … APPLY (PURGE)` and drop the feature.",
            table=name,
        )


def refuse_deleted_files(path: Place, name: str, version: int) -> None:
    """Refuse a version some of whose files are gone.

    Raises:
        DefinitionError: Some are.
    """
    files = live_files(opened(path, version))
    gone = sum(not Place.of(file).exists() for file in files)
    if gone:
        raise DefinitionError(
            f"{name} cannot be read at version {version:,}: {gone:,} of its {len(files):,} files were deleted, "
            "because its latest version has not had them for longer than they are kept",
            hint=f"the versions from {max(swept(path).version, version + 1):,} on have all their files; "
            "`strandline maintain --keep` decides for how long they do.",
            table=name,
        )


def _first_readable(path: Place) -> int:
    """Return the oldest version from which the log itself builds the table: the first commit, or a checkpoint."""
    begun = begins_at(path)
    found = (CHECKPOINT.fullmatch(name) for name in log_of(path).names())
    checkpoints = (int(each["version"]) for each in found if each)
    return begun if begun == 0 else min(checkpoints, default=begun)


# Versions of tables that a long work reads by their numbers, and that maintenance must leave readable meanwhile.
#
# A verification compares versions for an hour while streams go on. It pins them in a small file of the lake for as long as it
# runs, and writes that file again and again. The pins of the dead hold nothing: those of a process of this machine that is gone,
# and those of another machine that were not renewed; the next look removes them.


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
