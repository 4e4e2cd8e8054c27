"""Hold tables, their checkpoints and their books as one consistent set, while their streams go on.

What agrees with what, and why it does:

* **A table and its stream.** A batch is planned, committed and then marked as done. While the table's commit lock is held,
  no batch is committed, so every batch of the table is in the plans that are read then, and every batch that is marked as
  done is in the table. What lies in between is what a crash leaves, and the next start repeats it.
* **A table and its quarantine.** A batch is committed to the quarantine first. One that is not in the table yet is awaited; if
  that takes long, the quarantine is taken without it.
* **A table and its sources.** Readers are taken before what they read, so no reader is ahead of its source.
* **Copies of ledger entries, and the figures of history.** They are taken before all tables, so they never describe a commit
  that the set lacks; what they lack is copied again from the ledgers.

The lock is held while a checkpoint's files get second names, some ten milliseconds, or while a store copies them. Logs and
data follow without it, because a version does not change.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from jobs.core.errors import TransientError
from jobs.core.table import Judged, Table
from jobs.engine.pipeline.shadow_lake import refuse_half_done
from jobs.engine.storage.dead_files import swept_file
from jobs.engine.storage.frozen_files import (
    Held,
    freeze_checkpoint,
    freeze_copy,
    freeze_folder,
    freeze_table,
)
from jobs.engine.storage.lake import Lake
from jobs.engine.storage.ledger import last_entry, latest_version
from jobs.engine.storage.ledger_snapshot import snapshot_file
from jobs.engine.storage.locks import TURN, turn_without_jvm
from jobs.engine.storage.pinned_versions import pin_versions
from jobs.engine.storage.place import Place
from jobs.engine.storage.scratch import scratch

PATIENCE, AGAIN = 20.0, 0.05
"""Seconds to wait for a batch between its two commits, and between two looks."""

LIFE = TURN / 2
"""Seconds after which another writer takes over a turn on a store (jobs/engine/storage/locks.py)."""

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
    with scratch(lake.frozen) as folder, pin_versions(lake.root, pins):
        held = Held(lake.root, folder)
        for path in (lake.closed_entries, lake.history):
            if path in pins:
                freeze_table(path, held, pins[path])
        for table in wanted:
            versions[table.id] = _freeze(table, lake, held)
            note(f"{table.id}: version {versions[table.id]}")
        freeze_copy(lake.gates, held)
        freeze_folder(lake.schemas, held)
        freeze_folder(lake.rules, held)
        freeze_folder(lake.models, held)
        freeze_copy(lake.rule_changes, held)
        yield held, versions


def _freeze(table: Table, lake: Lake, held: Held) -> int:
    version, others = _hold(table, lake, held)
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
    return version


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
