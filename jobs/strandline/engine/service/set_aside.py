"""Take a torn commit out of a table's log, so that the table can be read and written again.

A commit that a power cut or a failing disk has torn ends every reader of its table. Whether its rows may simply be written
again depends on who has taken the commit for written:

* *nothing has*: it is set aside. The table's stream has the batch planned and not done, finds no entry of it, and writes it
  again, as after any crash (jobs/strandline/engine/lake/log/ledger.py).
* *something has*: a later commit, closed books, the stream's own checkpoint or its heartbeat, a table that reads it. No stream
  would bring its rows again, and a new commit of that number would be passed over by who has read it. So an empty commit
  takes its place, the ledger shows what is missing, and a rebuild and its promotion bring the rows back.
* *it is no batch of a stream*: a repair, an import, a request to forget, a promotion or a person's decision. It was
  acknowledged, and no stream writes it again, so it is treated as taken.

The torn file is kept in ``_damaged``; nothing reads it.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from strandline import catalog

from strandline.core.errors import DamagedError
from strandline.core.table import Ingested, Judged, Recomputed, Table
from strandline.engine.lake.forgotten import requests
from strandline.engine.lake.import_notes import FOLDER as IMPORTS
from strandline.engine.lake.import_notes import ImportSlices
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.locks import WriterWatch, turn_without_jvm
from strandline.engine.lake.log.commit_log import (
    Kind,
    actions,
    commit_file,
    log_files,
    log_of,
    logged_versions,
    sum_file,
)
from strandline.engine.lake.log.ledger import (
    EXPIRE,
    IMPORT,
    Entry,
    between,
    entry_in,
    last_entry,
    newest_checkpoint,
    part_of_imports,
)
from strandline.engine.lake.log.ledger_sums import name_of, snapshot_file, sums_of
from strandline.engine.lake.log.log_actions import table_id
from strandline.engine.lake.mend_checkpoint import unfinished
from strandline.engine.lake.open_table import opened
from strandline.engine.lake.place import Place, damage
from strandline.engine.lake.spark_checkpoint import newest_done, stream_id, unread_from
from strandline.engine.service.stream_health import beats

FOLDER = "_damaged"
"""In the lake: the torn files."""

MERGED = "OPTIMIZE"
"""What Delta calls a commit that puts files together; it has no rows of its own, and the next maintenance makes it again."""

SLICES = f"{IMPORTS}/slices"
"""Where imports note their slices, by table (jobs/strandline/engine/lake/import_notes.py)."""

ENDLESS = 1 << 62
"""An offset behind every row."""

NEAR = 10
"""So many versions after its note the commit of an imported slice is looked for; it is the next, or few slipped between."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SetAside:
    """A torn commit that was taken out of a log.

    Args:
        table: The name of its folder.
        version: Its version.
        kept: Where the torn file is.
        taken_by: What had taken it for written; empty where nothing had, and the rows come again by themselves.
        decides: Whether it had a person's decisions about held rows, which no rebuild brings back.
    """

    table: str
    version: int
    kept: str
    taken_by: str = ""
    decides: bool = False


def mend(
    table: Table, lake: Lake, now: datetime, writer: WriterWatch | None = None
) -> Iterator[SetAside]:
    """Take the torn commits of a table, its quarantine and its resolutions out of their logs.

    No process may write the table meanwhile (jobs/strandline/engine/lake/locks.py).

    Args:
        table: The table.
        lake: Its lake.
        now: The time.
        writer: Asked before each change whether a process writes the table after all.

    Raises:
        DamagedError: A commit is torn that nothing can replace, or another file of the log is.
        HasWriterError: A process has begun to write the table.
    """
    writer = writer or WriterWatch(table, lake)
    # The table last, as in every batch: its newest commit says what is known.
    for path in lake.books(table)[::-1]:
        for version in [*_torn(path)]:
            with turn_without_jvm(path):
                yield _taken_out(table, lake, path, version, now, writer)
    for path in lake.books(table):  # last: what is torn beside it is mended first
        _refuse_unopened(table, path)


def _refuse_unopened(table: Table, path: Place) -> None:
    """Refuse to call a table whole that cannot be opened though its commits can be read: Delta's own checkpoint is torn.

    Raises:
        DamagedError: It cannot be opened.
    """
    if not logged_versions(path):
        return
    try:
        opened(path)
    except DamagedError as error:
        at = newest_checkpoint(path)
        files = [] if at is None else [*log_files(path, at)][1:]
        file = next((str(each) for each in files), str(log_of(path)))
        raise DamagedError(
            f"{name_of(path)}: no commit of its log is torn, and it cannot be opened: {file} is damaged, or a file beside it "
            f"({error.message})",
            hint="only a copy of that file can replace it: restore a snapshot to another folder (`strandline restore`) and "
            "copy the file from there.",
            table=table.id,
            file=file,
        ) from error


def _torn(path: Place) -> Iterator[int]:
    for version in sorted(logged_versions(path)):
        try:
            for each in actions(path, version, *Kind):
                json.loads(each.line)
        except (DamagedError, IsADirectoryError):
            yield version


def _taken_out(  # noqa: PLR0913, PLR0917  # which commit of what, when, and who may come between
    table: Table, lake: Lake, path: Place, version: int, now: datetime, writer: WriterWatch
) -> SetAside:
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
    writer.refuse()  # one that was asked to wait may have lost patience
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
    return SetAside(
        table=name_of(path),
        version=version,
        kept=str(kept),
        taken_by=taken_by,
        decides=_decides(table, lake, path),
    )


def _decides(table: Table, lake: Lake, path: Place) -> bool:
    return isinstance(table, Judged) and path == lake.resolutions(table)


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
    if _decides(table, lake, path):
        return "a person's decisions were in it"
    if path != lake.table(table):
        by = _taken_by_table(table, lake, commit_file(path, version))
    else:
        by = _taken_by_stream(table, lake, version, now) or _taken_by_reader(table, lake, version)
    return by or _written_once(table, lake, path, version)


def _taken_by_table(table: Table, lake: Lake, beside: Place) -> str:
    # It is written before the batch's commit to the table, so that one is younger where the batch is whole.
    newest = max(logged_versions(lake.table(table)), default=-1)
    if newest < 0 or (commit_file(lake.table(table), newest).modified_at() < beside.modified_at()):
        return ""
    return f"{table.id} has a later commit"


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
    said = [(beat["tables"].get(table.id) or {}).get("at") for beat in beats(lake, now)]
    seen = max((each for each in said if each), default=None)
    written = commit_file(path, version).modified_at().replace(microsecond=0)
    if seen and datetime.fromisoformat(seen) >= written:
        return "its stream has reported it"
    return ""


def _written_once(table: Table, lake: Lake, path: Place, version: int) -> str:
    """Return why no stream writes a commit again; empty where its stream does, or maintenance."""
    said = _said(path, version)
    wrote = entry_in(said, path, version) if said else None
    if said and not wrote and said.get("operation") == MERGED:
        return ""
    if wrote and wrote.mode == EXPIRE:  # what is too old is deleted at the next time
        return ""
    if wrote and (wrote.is_passed_over or wrote.accepted or wrote.mode == IMPORT):
        return "a promotion wrote it" if wrote.promoted else f"`{wrote.mode}` wrote it"
    if not wrote and (by := _acknowledged(lake, path, version)):
        return by
    if isinstance(table, Ingested | Recomputed):
        # Their own ledger is their checkpoint: the next batch is the one after the newest that is there.
        before = last_entry(path, version - 1)
        due = before[1].batch + 1 if before else 0
        is_due = not wrote or wrote.batch == due
        return (
            "" if is_due else f"it is batch {wrote.batch if wrote else '?'}, and batch {due} is due"
        )
    return _not_open(lake.checkpoint(table), commit_file(path, version), wrote)


def _not_open(checkpoint: Place, file: Place, wrote: Entry | None) -> str:
    """Return why a commit is not the batch that a stream has planned and not finished; empty where it is that."""
    open_batch = unfinished(checkpoint)
    if open_batch is None:
        return "no batch of its stream is open, so a repair, an import or a promotion wrote it"
    if wrote:
        is_it = wrote.batch == open_batch and wrote.stream == (stream_id(checkpoint) or "")
        return "" if is_it else f"it is not batch {open_batch}, which its stream has open"
    # The stream went on beside the torn commit, and planned its next batch, before it found that it cannot write it.
    if (checkpoint / "offsets" / str(open_batch)).modified_at() > file.modified_at():
        return f"its stream planned batch {open_batch} after it, so a repair, an import or a promotion wrote it"
    return ""


def _said(path: Place, version: int) -> Mapping[str, Any] | None:
    """Return what a torn commit says of itself; None where that line is torn too."""
    try:
        lines = (commit_file(path, version).text() or "").splitlines()
    except (IsADirectoryError, UnicodeDecodeError):
        return None
    for line in lines:
        try:
            found = json.loads(line)
        except ValueError:
            continue
        if isinstance(found, dict) and isinstance(found.get("commitInfo"), dict):
            return dict(found["commitInfo"])
    return None


def _acknowledged(lake: Lake, path: Place, version: int) -> str:
    """Return which work of a person may have made a commit that says nothing of itself, by what that work has noted."""
    topics = (lake.root / SLICES / name_of(path)).names()
    for part in map(part_of_imports, topics):
        last = ImportSlices(path, part).of(ENDLESS)
        if last is None or not version - NEAR <= last.after < version:
            continue
        if all(each.mode != IMPORT for each in between(path, last.after + 1, version - 1)):
            return f"`{IMPORT}` noted that its rows come next"
    written = commit_file(path, version).modified_at()
    for each in requests(lake):
        begun = datetime.fromisoformat(each.begun_at) <= written
        if begun and (each.done_at is None or datetime.fromisoformat(each.done_at) >= written):
            return "a request to forget was carried out at that time"
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
