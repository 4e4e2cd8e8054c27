"""Delete old runs of Dagster with their events, logs and files, and give the space of SQLite files back.

Dagster deletes a run and its events, but leaves the file in which SQLite had the events of the run alone, the files that
its steps wrote and their output. A purge that was killed in between leaves them too; the next one finds files whose run
is gone.

A run stays, however old it is, while it is the newest that computed an asset, a day of one, or a result of a check: its
events are what the pages show of them.
"""

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Any

from dagster import DagsterInstance, DagsterRunStatus, RunsFilter
from sqlalchemy import text

from strandline.engine.storage.place import Place

ENDED = [DagsterRunStatus.SUCCESS, DagsterRunStatus.FAILURE, DagsterRunStatus.CANCELED]

RUN = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")

AT_ONCE = 100
"""Runs that are looked up at once."""

WAIT = 5.0
"""Seconds to wait for a SQLite file that is in use."""

WORTH = 0.5
"""Share of a SQLite file that must be free before it is written anew: its own free pages are used again without that."""

NEWEST_RUNS = """
SELECT DISTINCT run_id FROM event_logs WHERE id IN (
    SELECT max(id) FROM event_logs
    WHERE dagster_event_type = 'ASSET_MATERIALIZATION' AND asset_key IS NOT NULL GROUP BY asset_key, partition)
UNION
SELECT DISTINCT run_id FROM asset_check_executions WHERE id IN (
    SELECT max(id) FROM asset_check_executions GROUP BY asset_key, check_name)
"""


def old_runs(instance: DagsterInstance, before: datetime, most: int) -> Iterator[str]:
    """Delete runs one by one, the oldest first; yield each, so that the caller may end between two.

    Args:
        instance: Dagster's.
        before: Runs that ended and were created before this go.
        most: How many of the newest runs stay at most, whatever their age.
    """
    stay = _shown(instance)
    limit = _limit(instance, before, most)
    # Run by run from the oldest: those that stay are passed over, and there are few.
    after: str | None = None
    while found := instance.get_run_records(
        RunsFilter(statuses=ENDED, created_before=limit),
        limit=AT_ONCE,
        ascending=True,
        cursor=after,
    ):
        for each in found:
            run = each.dagster_run.run_id
            if run in stay:
                after = run
                continue
            instance.delete_run(run)
            _delete_files(instance, run)
            yield run
        if len(found) < AT_ONCE:
            return


def left_files(instance: DagsterInstance) -> Iterator[str]:
    """Delete the files of runs that are gone; yield the run of each."""
    storage: Any = instance.event_log_storage  # its class is private
    names = set(_folders(instance))
    names |= set(storage.get_all_run_ids()) if storage.is_run_sharded else set()
    names.discard("")
    listed = sorted(names)
    for start in range(0, len(listed), AT_ONCE):
        some = listed[start : start + AT_ONCE]
        known = {each.run_id for each in instance.get_runs(RunsFilter(run_ids=some))}
        for run in (name for name in some if name not in known):
            _delete_files(instance, run)
            yield run


def shrunk(instance: DagsterInstance) -> Iterator[tuple[str, int]]:
    """Write SQLite files anew of which most is free; yield each with the bytes that it lost.

    One that another process uses for longer than a moment is left to the next pass.
    """
    for file in _databases(instance):
        was = file.stat().st_size
        try:
            with closing(sqlite3.connect(file, timeout=WAIT, isolation_level=None)) as connection:
                (free,), (pages,) = (
                    connection.execute(f"PRAGMA {name}").fetchone()
                    for name in ("freelist_count", "page_count")
                )
                if free < pages * WORTH or free < AT_ONCE:
                    continue
                connection.execute("VACUUM")
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        except sqlite3.OperationalError:  # it is in use
            continue
        yield file.name, was - file.stat().st_size


def size(instance: DagsterInstance) -> int:
    """Return the bytes that Dagster's files take in the lake; 0 where a database has them."""
    home = Path(instance.root_directory)
    return sum(file.stat().st_size for file in home.rglob("*") if file.is_file())


def _limit(instance: DagsterInstance, before: datetime, most: int) -> datetime:
    newest = instance.get_run_ids(limit=most)
    if len(newest) < most:
        return before
    (last,) = instance.get_run_records(RunsFilter(run_ids=[newest[-1]]))
    return max(before, last.create_timestamp)


def _shown(instance: DagsterInstance) -> set[str]:
    storage: Any = instance.event_log_storage  # its class is private
    with storage.index_connection() as connection:
        return {row[0] for row in connection.execute(text(NEWEST_RUNS))} - {""}


def _delete_files(instance: DagsterInstance, run: str) -> None:
    instance.compute_log_manager.delete_logs(prefix=[run])
    (Place.of(instance.storage_directory()) / run).remove(if_possible=True)
    storage: Any = instance.event_log_storage  # its class is private
    if storage.is_run_sharded:
        shard = Place.of(storage.path_for_shard(run))
        for suffix in ("-shm", "-wal", ""):
            (shard.parent / f"{shard.name}{suffix}").remove()


def _folders(instance: DagsterInstance) -> list[str]:
    """Return the names of the folders with what steps wrote; each is that of a run."""
    place = Place.of(instance.storage_directory())
    return [name for name in place.names() if _is_run(name) and (place / name).local.is_dir()]


def _is_run(name: str) -> bool:
    return RUN.fullmatch(name) is not None


def _databases(instance: DagsterInstance) -> list[Path]:
    """Return the SQLite files that serve all runs; that of a run goes with it."""
    home = Path(instance.root_directory)
    shared = [home / "history" / "runs.db", home / "schedules" / "schedules.db"]
    shared += [home / "history" / "runs" / name for name in ("index.db", ".db")]
    return [file for file in shared if file.exists()]
