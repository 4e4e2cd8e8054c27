"""Hold tables, their checkpoints and their books as one consistent set, while their streams go on.

What agrees with what, and why it does:

* **A table and its stream.** A batch is planned, committed and then marked as done. While the table's commit lock is held,
  no batch is committed, so every batch of the table is in the plans that are read then, and every batch that is marked as
  done is in the table. What lies in between is what a crash leaves, and the next start repeats it.
* **A table and its quarantine.** A batch is committed to the quarantine first. One that is not in the table yet is awaited; if
  that takes long, the quarantine is taken without it.
* **A table and its sources.** Readers are taken before what they read, so no reader is ahead of its source.
* **An import and the tables above.** The notes about files are taken after bronze, so bronze has no row without one; a range
  that the tables above have not followed is noted as often as a table is taken, and an import that begins and ends in between
  ends the snapshot.
* **A request to forget.** Its record is taken last, and says that it is done only if all tables were taken after that: a restored
  lake that still has some of the rows must say that the request was interrupted.
* **Copies of ledger entries, and the figures of history.** They are taken before all tables, so they never describe a commit
  that the set lacks; what they lack is copied again from the ledgers.

The lock is held while a checkpoint's files get second names, some ten milliseconds, or while a store copies them. Logs and
data follow without it, because a version does not change.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

from strandline.core.errors import TransientError
from strandline.core.table import Ingested, Judged, Table
from strandline.engine.pipeline.shadow_lake import refuse_half_done
from strandline.engine.storage.dead_files import swept_file
from strandline.engine.storage.forgotten import Forgotten, file_of, keep, requests
from strandline.engine.storage.frozen_files import (
    Held,
    freeze_checkpoint,
    freeze_copy,
    freeze_folder,
    freeze_table,
)
from strandline.engine.storage.import_marks import IMPORT
from strandline.engine.storage.import_notes import notes_of, range_file
from strandline.engine.storage.lake import Lake
from strandline.engine.storage.ledger import last_entry, latest_version
from strandline.engine.storage.ledger_snapshot import name_of, snapshot_file, sums_of
from strandline.engine.storage.locks import TURN, turn_without_jvm
from strandline.engine.storage.pinned_versions import pin_versions
from strandline.engine.storage.place import Place
from strandline.engine.storage.scratch import scratch

PATIENCE, AGAIN = 20.0, 0.05
"""Seconds to wait for a batch between its two commits, and between two looks."""

LIFE = TURN / 2
"""Seconds after which another writer takes over a turn on a store (jobs/strandline/engine/storage/locks.py)."""

Versions = Mapping[str, int]


def with_sources(tables: Sequence[Table]) -> list[Table]:
    """Return tables and all that they rest on, readers first."""
    found: dict[str, Table] = {}

    def add(table: Table) -> None:
        for source in table.needs:
            add(source)
        found.setdefault(table.id, table)

    for table in tables:
        add(table)
    return [*found.values()][::-1]


@contextmanager
def frozen(
    lake: Lake, tables: Sequence[Table], note: Callable[[str], None]
) -> Iterator[tuple[Held, Versions]]:
    """Hold tables and all that they rest on for the length of the block; yield the files and the version of each table.

    Raises:
        DefinitionError: A promotion is half done and must be finished first.
        TransientError: Another process commits for too long.
    """
    wanted = [table for table in with_sources(tables) if lake.exists(table)]
    books = [
        lake.closed_entries,
        lake.history,
        *(path for each in wanted for path in lake.books(each)),
    ]
    pins = {path: version for path in books if (version := latest_version(path)) >= 0}
    versions = {}
    asked = {each.mark: each for each in requests(lake)}
    with scratch(lake.frozen) as folder, pin_versions(lake.root, pins):
        held = Held(lake.root, folder)
        for path in (lake.closed_entries, lake.history):
            if path in pins:
                freeze_table(path, held, pins[path])
        taken: dict[str, int] = {}
        _freeze_ranges(lake, wanted, held)
        for table in wanted:
            versions[table.id] = _freeze(table, lake, held, taken)
            _freeze_ranges(lake, wanted, held)
            note(f"{table.id}: version {versions[table.id]}")
        freeze_copy(lake.formats, held)
        freeze_copy(lake.retired, held)
        freeze_copy(lake.gates, held)
        freeze_folder(lake.schemas, held)
        freeze_folder(lake.rules, held)
        freeze_folder(lake.models, held)
        freeze_copy(lake.rule_changes, held)
        _refuse_imported(lake, wanted, held, pins)
        _freeze_requests(lake, held, asked, taken)
        yield held, versions


def _freeze(table: Table, lake: Lake, held: Held, taken: dict[str, int]) -> int:
    version, others = _hold(table, lake, held)
    taken.update(
        {name_of(path): each for path, each in {lake.table(table): version, **others}.items()}
    )
    freeze_table(lake.table(table), held, version)
    for path, number in others.items():
        if number >= 0:
            freeze_table(path, held, number)
    for file in (
        lake.certificate(table),
        lake.certificate(table, is_whole=False),
        lake.lineage(table),
        lake.audit(table),
    ):
        freeze_copy(file, held)
    if isinstance(table, Ingested):
        freeze_copy(notes_of(table, lake), held)
    return version


def _freeze_ranges(lake: Lake, tables: Sequence[Table], held: Held) -> None:
    """Hold the notes of ranges that the tables above have not followed; each stays held, though it may be removed meanwhile."""
    for table in tables:
        freeze_copy(range_file(table, lake), held)


def _refuse_imported(
    lake: Lake, tables: Sequence[Table], held: Held, pins: Mapping[Place, int]
) -> None:
    """Refuse a set between two tables of which a whole import went on: one has its rows, and the other was taken before.

    Raises:
        TransientError: It did.
    """
    for table in tables:
        path = lake.table(table)
        done = sums_of(path).repairs.get(IMPORT) if isinstance(table, Judged) else None
        is_noted = held.there(range_file(table, lake)).is_file()
        if done is not None and done.last > pins[path] and not is_noted:
            raise TransientError(
                f"{table.id} got imported rows while the tables above it were copied",
                hint="type the same again.",
                table=table.id,
            )


def _freeze_requests(
    lake: Lake, held: Held, before: Mapping[str, Forgotten], taken: Mapping[str, int]
) -> None:
    """Hold the records of requests to forget, as they are true of the tables that are held."""
    for each in requests(lake):
        is_whole = all(
            version <= taken.get(name, version) for name, version in each.versions.items()
        )
        was = before.get(each.mark)
        scrubbed_at = each.scrubbed_at if was is not None and was.scrubbed_at else None
        done_at = each.done_at if is_whole else None
        record = replace(each, done_at=done_at, scrubbed_at=scrubbed_at)
        if record == each:  # the file as it is, which the next snapshot takes over from this one
            freeze_copy(file_of(lake, each.mark), held)
        else:
            keep(Lake(held.folder), record)


def _hold(table: Table, lake: Lake, held: Held) -> tuple[int, Mapping[Place, int]]:
    """Hold what changes; return the version of the table, and those of its quarantine and resolutions."""
    deadline = time.monotonic() + PATIENCE
    while True:
        with turn_without_jvm(lake.table(table)):
            began = time.monotonic()
            refuse_half_done(table, lake)
            others = {path: latest_version(path) for path in lake.books(table)[1:]}
            judged = _quarantined(table, lake)
            is_between = judged is not None and judged < others[lake.quarantine(table)]
            if not is_between or time.monotonic() > deadline:
                if judged is not None:
                    others[lake.quarantine(table)] = judged
                freeze_checkpoint(lake.checkpoint(table), held)
                for path in lake.books(table):
                    for file in (snapshot_file(path), swept_file(path)):
                        freeze_copy(file, held)
                version = latest_version(lake.table(table))
                _refuse_slow(table, lake, time.monotonic() - began)
                return version, others
        time.sleep(AGAIN)


def _refuse_slow(table: Table, lake: Lake, seconds: float) -> None:
    """Refuse what took longer than a turn lasts on a store: another writer may have taken it and committed meanwhile.

    Raises:
        TransientError: It did.
    """
    if not lake.root.is_local and seconds > LIFE:
        raise TransientError(
            f"the checkpoint of {table.id} took {seconds:.0f} s to copy, and a commit may wait for {LIFE:.0f} s",
            hint="type the same again; where it is always so, pause the stream for the moment in which snapshots begin.",
            table=table.id,
        )


def _quarantined(table: Table, lake: Lake) -> int | None:
    """Return the version of a table's quarantine without a batch that the table does not have; None if it has none."""
    if not isinstance(table, Judged):
        return None
    path = lake.quarantine(table)
    newest, last = last_entry(path), last_entry(lake.table(table))
    if newest is None:
        return latest_version(path)
    version, entry = newest
    is_ahead = last is None or (entry.stream == last[1].stream and entry.batch > last[1].batch)
    return version - 1 if is_ahead else latest_version(path)
