"""Append rows to a Delta table that several processes write, each row once, without a JVM.

Each append claims an application transaction per subject, up to a version. Of two processes that claim the same one
Delta lets one commit, so the other must look again at what is missing.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from deltalake.exceptions import CommitFailedError, TableNotFoundError

from strandline.engine.lake.files.place import Place, keep_files
from strandline.engine.lake.log.commit_log import log_files, log_of
from strandline.engine.lake.log.log_actions import added
from strandline.engine.lake.read.open_table import delta_options, opened

ALWAYS: dict[str, str | None] = {
    "delta.enableExpiredLogCleanup": "false",
    "delta.appendOnly": "true",
}


class ClaimedRows:
    """A version of such a table, created if it is missing."""

    def __init__(self, path: Place, schema: Any) -> None:  # noqa: ANN401  # Arrow has no types
        """Open the latest version; two processes may create the table at the same time."""
        self._schema, self._place = schema, path
        self._table = _made(path, schema)

    def claimed(self, subject: str) -> int:
        """Return up to which version a subject's rows are there; -1 for none."""
        known = self._table.transaction_version(subject)
        return -1 if known is None else known

    def append(self, rows: Sequence[Mapping[str, object]], claims: Mapping[str, int]) -> bool:
        """Append rows up to a version of each subject; return whether no other process was faster."""
        transactions = [Transaction(app_id=name, version=last) for name, last in claims.items()]
        try:
            write_deltalake(
                self._table,
                pa.Table.from_pylist(list(rows), schema=self._schema),
                mode="append",
                commit_properties=CommitProperties(app_transactions=transactions),
            )
        except CommitFailedError:
            return False
        self._keep()
        return True

    def _keep(self) -> None:
        """Bring the rows and their commit to the disk: what is written after them says that they are there."""
        path, version = self._place, self._table.version()
        keep_files(map(Place.of, added(path, version).files), within=path)
        keep_files(log_files(path, version), within=log_of(path))


def compact(path: Place, many: int) -> None:
    """Compact a table of many files; another process that does so at the same time is enough."""
    table = opened(path)
    if len(table.file_uris()) < many:
        return
    try:
        table.optimize.compact()
    except CommitFailedError:
        return


def _made(path: Place, schema: Any) -> DeltaTable:  # noqa: ANN401  # Arrow has no types
    try:
        return opened(path)
    except TableNotFoundError:
        path.make()
    try:
        made = DeltaTable.create(
            str(path),
            schema=schema,
            mode="ignore",
            configuration=ALWAYS,
            storage_options=delta_options(path),
        )
    except CommitFailedError:  # another process was faster
        return opened(path)
    keep_files(log_files(path, 0), within=path)
    return made
