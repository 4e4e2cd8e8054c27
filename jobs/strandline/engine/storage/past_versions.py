"""A past version of a table: which one a moment means, and whether it can still be read.

A search reads some twenty commits of a million, and nothing else here grows with a table's history. Maintenance cuts logs
(jobs/strandline/engine/storage/cut_log.py) and deletes the files that only old versions have (jobs/strandline/engine/storage/dead_files.py), so an
old version ends with a sentence that names the oldest one that can be read.
"""

from datetime import UTC, datetime

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError

from strandline.core.errors import DamagedError, DataError, DefinitionError
from strandline.engine.storage.commit_log import is_commit, log_of
from strandline.engine.storage.commit_time import committed_at
from strandline.engine.storage.cut_log import CHECKPOINT, begins_at
from strandline.engine.storage.dead_files import swept
from strandline.engine.storage.ledger import latest_version
from strandline.engine.storage.open_table import live_files, opened
from strandline.engine.storage.place import Place

READABLE = {"timestampNtz", "variantType", "variantType-preview"}
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
