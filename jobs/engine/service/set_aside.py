"""Take a torn commit out of a table's log, so that the table can be read and written again.

A commit that a power cut or a failing disk has torn ends every reader of its table. Whether its rows may simply be written
again depends on who has taken the commit for written:

* *nothing has*: it is set aside. The table's stream has the batch planned and not done, finds no entry of it, and writes it
  again, as after any crash (jobs/engine/storage/ledger.py).
* *something has*: a later commit, closed books, the stream's own checkpoint or its heartbeat, a table that reads it. No stream
  would bring its rows again, and a new commit of that number would be passed over by who has read it. So an empty commit
  takes its place, the ledger shows what is missing, and a rebuild and its promotion bring the rows back.

The torn file is kept in ``_damaged``; nothing reads it.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from jobs import catalog
from jobs.core.errors import DamagedError
from jobs.core.table import Ingested, Table
from jobs.engine.service.heartbeat import heartbeat
from jobs.engine.storage.commit_log import (
    Kind,
    actions,
    commit_file,
    log_files,
    logged_versions,
    sum_file,
)
from jobs.engine.storage.damage import damage
from jobs.engine.storage.files_at_version import table_id
from jobs.engine.storage.lake import Lake
from jobs.engine.storage.ledger import last_entry
from jobs.engine.storage.ledger_snapshot import name_of, snapshot_file, sums_of
from jobs.engine.storage.locks import turn_without_jvm
from jobs.engine.storage.place import Place
from jobs.engine.storage.spark_checkpoint import newest_done, unread_from

FOLDER = "_damaged"
"""In the lake: the torn files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SetAside:
    """A torn commit that was taken out of a log.

    Args:
        table: The name of its folder.
        version: Its version.
        kept: Where the torn file is.
        taken_by: What had taken it for written; empty where nothing had, and the rows come again by themselves.
    """

    table: str
    version: int
    kept: str
    taken_by: str = ""


def mend(table: Table, lake: Lake, now: datetime) -> Iterator[SetAside]:
    """Take the torn commits of a table, its quarantine and its resolutions out of their logs.

    No process may write the table meanwhile (jobs/engine/storage/handover.py).

    Raises:
        DamagedError: A commit is torn that nothing can replace.
    """
    for path in lake.books(table)[
        ::-1
    ]:  # the table last, as in every batch: its newest commit says what is known
        for version in [*_torn(path)]:
            with turn_without_jvm(path):
                yield _taken_out(table, lake, path, version, now)


def _torn(path: Place) -> Iterator[int]:
    for version in sorted(logged_versions(path)):
        try:
            for each in actions(path, version, *Kind):
                json.loads(each.line)
        except (DamagedError, IsADirectoryError):
            yield version


def _taken_out(table: Table, lake: Lake, path: Place, version: int, now: datetime) -> SetAside:
    file = commit_file(path, version)
    taken_by = _taken_by(table, lake, path, version, now)
    if version == 0 or (taken_by and isinstance(table, Ingested)):
        raise DamagedError(
            f"{name_of(path)}: its commit {file} is torn, and {taken_by or 'it is the one that made the table'}",
            hint="only a copy of that file can replace it: restore a snapshot to another folder (`strandline restore`) and "
            "copy the file from there.",
            table=table.id,
            file=str(file),
        )
    kept = lake.root / FOLDER / f"{name_of(path)}.{version}.{now:%Y%m%dT%H%M%S}.json"
    for later in logged_versions(path):
        if later >= version:
            sum_file(path, later).remove_file()  # it sums up what is no longer there
    # Kept first and replaced in one step: a kill leaves the torn commit where it was, and the same is typed again.
    if file.is_file():
        file.copy(kept)
    else:  # a folder of its name
        file.move(kept)
    if taken_by:
        file.put(json.dumps({"commitInfo": _empty(now, version)}) + "\n")
    else:
        file.remove()
    return SetAside(table=name_of(path), version=version, kept=str(kept), taken_by=taken_by)


def _empty(now: datetime, version: int) -> dict[str, object]:
    return {
        "timestamp": int(now.timestamp() * 1000),
        "operation": "MEND",
        "operationParameters": {"in place of": "a torn commit"},
        "readVersion": version - 1,
        "isolationLevel": "Serializable",
        "isBlindAppend": True,
        "operationMetrics": {},
        "engineInfo": "strandline",
    }


def _taken_by(table: Table, lake: Lake, path: Place, version: int, now: datetime) -> str:
    """Return what has taken a commit for written; empty where nothing has."""
    if any(later > version for later in logged_versions(path)):
        return "later commits follow it"
    if _closed_until(path) >= version:
        return "its books were closed after it"
    if len([*log_files(path, version)]) > 1:
        return "Delta has made a checkpoint of it"
    if path != lake.table(table):
        # It is written before the batch's commit to the table, so that one is younger where the batch is whole.
        newest = max(logged_versions(lake.table(table)), default=-1)
        is_whole = newest >= 0 and (
            commit_file(lake.table(table), newest).modified_at()
            >= commit_file(path, version).modified_at()
        )
        return f"{table.id} has a later commit" if is_whole else ""
    return _taken_by_stream(table, lake, version, now) or _taken_by_reader(table, lake, version)


def _closed_until(path: Place) -> int:
    try:
        return int(json.loads(snapshot_file(path).text() or "")["version"])
    except (ValueError, KeyError, TypeError):
        return -1


def _taken_by_stream(table: Table, lake: Lake, version: int, now: datetime) -> str:
    path = lake.table(table)
    before = last_entry(path, version - 1)
    newest = before[1].batch if before else None
    # A batch without rows of its sources may write as well, so the numbers count and not what was read.
    done = newest_done(lake.checkpoint(table))
    if done is not None and (newest is None or done > newest):
        return "the checkpoint of its stream says that it is done"
    beat = heartbeat(lake, now) or {"tables": {}}
    seen = (beat["tables"].get(table.id) or {}).get("at")
    written = commit_file(path, version).modified_at().replace(microsecond=0)
    if seen and datetime.fromisoformat(seen) >= written:
        return "its stream has reported it"
    return ""


def _taken_by_reader(table: Table, lake: Lake, version: int) -> str:
    found = (
        each.id
        for each in catalog.tables()
        if table in each.needs and lake.exists(each) and _has_read(each, table, lake, version)
    )
    reader = next(found, None)
    return f"{reader} has read it" if reader else ""


def _has_read(reader: Table, table: Table, lake: Lake, version: int) -> bool:
    """Return whether a table has read a version of another; true where its own files do not say."""
    try:
        sums = sums_of(lake.table(reader))
        if sums.seen.get(table.id, -1) >= version:
            return True
        if reader.dimension is not None and reader.dimension.source == table:
            return sums.right_until >= version
        at = (unread_from(lake.checkpoint(reader)) or {}).get(table_id(lake.table(table)))
    except Exception as error:
        if damage(error, reader) is None:
            raise
        return True
    return at is not None and (at.version > version or (at.version == version and at.files > 0))
