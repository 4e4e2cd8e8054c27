"""Purge Dagster's own history by a policy, so that its storage is as large after years as after weeks.

The setting ``retention`` of ``dagster.yaml`` bounds the ticks of schedules and sensors, and Dagster's daemon applies it
after each tick. It has none for runs and events. Each pass is bounded in time, ends between two statements, and begins
where the last one ended, because what is left to delete is a question to the storage and not a memory.
"""

import re
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from dagster import (
    AssetKey,
    Config,
    DagsterInstance,
    DagsterRunStatus,
    JobDefinition,
    OpExecutionContext,
    RunsFilter,
    ScheduleDefinition,
)
from pydantic import Field
from sqlalchemy import bindparam, text

from strandline.engine.lake.place import Place
from strandline.engine.runtime import clock
from strandline_dagster.placed import job, op, titled
from strandline_dagster.schedules import by_itself

# Delete the events of Dagster that belong to no run, all but the newest of each asset and check.
#
# Sensors report the commits of a stream and the results of checks without a run, 200 a minute on the example. Dagster
# (1.13.27) removes an event only with its run or with the whole asset, so these are deleted by statements on its storage,
# of which the tables, columns and indexes below are the same in SQLite and PostgreSQL.
#
# What the pages show stays: of each check the newest results, of each asset the newest events of each kind, and of each
# partition the newest materialization, without which a day would look as if it had never been computed.
#
# A statement deletes at most ``AT_ONCE`` rows in a transaction of its own, so that the daemon, which writes meanwhile, waits
# for milliseconds. Where a pass ends is not stored: the next one finds what is left.


EVENTS_AT_ONCE = 2_000
"""Rows of one statement."""

RUNLESS = ""
"""The run of events without one."""

CHECKS = "SELECT DISTINCT asset_key, check_name FROM asset_check_executions"

OLDEST_RESULT = """
SELECT id FROM asset_check_executions WHERE asset_key = :asset AND check_name = :name
ORDER BY id DESC LIMIT 1 OFFSET :keep
"""

OLD_RESULTS = """
DELETE FROM asset_check_executions WHERE id IN (
    SELECT id FROM asset_check_executions
    WHERE asset_key = :asset AND check_name = :name AND id <= :oldest LIMIT :most)
"""

KINDS = """
SELECT DISTINCT dagster_event_type FROM event_logs WHERE asset_key = :asset
"""

OLDEST_EVENT = """
SELECT id FROM event_logs WHERE asset_key = :asset AND dagster_event_type = :kind
ORDER BY id DESC LIMIT 1 OFFSET :keep
"""

OLD_EVENTS = """
SELECT id FROM event_logs
WHERE asset_key = :asset AND dagster_event_type = :kind AND id <= :oldest AND run_id = ''
AND id NOT IN (
    SELECT max(id) FROM event_logs
    WHERE asset_key = :asset AND dagster_event_type = :kind AND partition IS NOT NULL GROUP BY partition)
LIMIT :most
"""

OTHER_KINDS = """
SELECT DISTINCT dagster_event_type FROM event_logs WHERE run_id = '' AND asset_key IS NULL
"""

OLDEST_OTHER = """
SELECT id FROM event_logs WHERE run_id = '' AND asset_key IS NULL AND dagster_event_type = :kind
ORDER BY id DESC LIMIT 1 OFFSET :keep
"""

OLD_OTHERS = """
SELECT id FROM event_logs
WHERE run_id = '' AND asset_key IS NULL AND dagster_event_type = :kind AND id <= :oldest
AND id NOT IN (
    SELECT evaluation_event_storage_id FROM asset_check_executions
    WHERE evaluation_event_storage_id IS NOT NULL)
LIMIT :most
"""

TAGS = text("DELETE FROM asset_event_tags WHERE event_id IN :ids").bindparams(
    bindparam("ids", expanding=True)
)
EVENTS = text("DELETE FROM event_logs WHERE id IN :ids").bindparams(
    bindparam("ids", expanding=True)
)

OLDEST_COPY = "SELECT id FROM event_logs ORDER BY id DESC LIMIT 1 OFFSET :keep"
OLD_COPIES = """
DELETE FROM event_logs WHERE id IN (SELECT id FROM event_logs WHERE id <= :oldest LIMIT :most)
"""

Connect = Callable[[], AbstractContextManager[Any]]


def old_events(instance: DagsterInstance, keep: int) -> Iterator[int]:
    """Delete them step by step; yield the number of rows that a step deleted, so that the caller may end between two.

    Args:
        instance: Dagster's.
        keep: How many results of each check stay, and how many events of each kind of each asset.
    """
    storage: Any = instance.event_log_storage  # its class is private
    yield from _results(storage.index_connection, keep)
    for asset in instance.all_asset_keys():
        yield from _events(storage.index_connection, asset, keep)
    yield from _others(storage.index_connection, keep)
    if storage.is_run_sharded:
        # SQLite has these events twice: in the index, which answers all questions about assets, and in a file of their own.
        yield from _until_none(
            lambda: storage.run_connection(RUNLESS), OLDEST_COPY, OLD_COPIES, {"keep": keep}
        )


def _results(connect: Connect, keep: int) -> Iterator[int]:
    """Delete results, also of assets that were never computed."""
    for asset, name in _rows(connect, CHECKS, {}):
        values = {"asset": asset, "name": name, "keep": keep}
        yield from _until_none(connect, OLDEST_RESULT, OLD_RESULTS, values)


def _events(connect: Connect, asset: AssetKey, keep: int) -> Iterator[int]:
    for kind in _column(connect, KINDS, {"asset": asset.to_string()}):
        values = {"asset": asset.to_string(), "kind": kind, "keep": keep}
        yield from _found(connect, OLDEST_EVENT, OLD_EVENTS, values)


def _others(connect: Connect, keep: int) -> Iterator[int]:
    """Delete events that the storage files under no asset: the results of checks, whose copies beside their check stay."""
    for kind in _column(connect, OTHER_KINDS, {}):
        yield from _found(connect, OLDEST_OTHER, OLD_OTHERS, {"kind": kind, "keep": keep})


def _found(connect: Connect, oldest: str, old: str, values: dict[str, Any]) -> Iterator[int]:
    """Delete the events that a question finds, with their tags."""
    newest_to_go = _column(connect, oldest, values)
    if not newest_to_go:
        return
    limits = {"oldest": newest_to_go[0], "most": EVENTS_AT_ONCE}
    while ids := _column(connect, old, {**values, **limits}):
        with connect() as connection:
            connection.execute(TAGS, {"ids": ids})
            connection.execute(EVENTS, {"ids": ids})
        yield len(ids)


def _until_none(
    connect: Connect, oldest: str, delete: str, values: dict[str, Any]
) -> Iterator[int]:
    """Delete what is as old as the row after those that stay, or older."""
    found = _column(connect, oldest, values)
    while found:
        with connect() as connection:
            limits = {"oldest": found[0], "most": EVENTS_AT_ONCE}
            count = connection.execute(text(delete), _of(delete, {**values, **limits})).rowcount
        if not count:
            return
        yield count


def _column(connect: Connect, question: str, values: dict[str, Any]) -> list[Any]:
    return [row[0] for row in _rows(connect, question, values) if row[0] is not None]


def _rows(connect: Connect, question: str, values: dict[str, Any]) -> list[Any]:
    with connect() as connection:
        return list(connection.execute(text(question), _of(question, values)))


def _of(statement: str, values: dict[str, Any]) -> dict[str, Any]:
    """Return the values that a statement names; the driver refuses others."""
    return {name: value for name, value in values.items() if f":{name}" in statement}


# Delete old runs of Dagster with their events, logs and files, and give the space of SQLite files back.
#
# Dagster deletes a run and its events, but leaves the file in which SQLite had the events of the run alone, the files that
# its steps wrote and their output. A purge that was killed in between leaves them too; the next one finds files whose run
# is gone.
#
# A run stays, however old it is, while it is the newest that computed an asset, a day of one, or a result of a check: its
# events are what the pages show of them.


ENDED = [DagsterRunStatus.SUCCESS, DagsterRunStatus.FAILURE, DagsterRunStatus.CANCELED]

RUN = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")

RUNS_AT_ONCE = 100
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
        limit=RUNS_AT_ONCE,
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
        if len(found) < RUNS_AT_ONCE:
            return


def left_files(instance: DagsterInstance) -> Iterator[str]:
    """Delete the files of runs that are gone; yield the run of each."""
    storage: Any = instance.event_log_storage  # its class is private
    names = set(_folders(instance))
    names |= set(storage.get_all_run_ids()) if storage.is_run_sharded else set()
    names.discard("")
    listed = sorted(names)
    for start in range(0, len(listed), RUNS_AT_ONCE):
        some = listed[start : start + RUNS_AT_ONCE]
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
                if free < pages * WORTH or free < RUNS_AT_ONCE:
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


class Policy(Config):
    """What stays."""

    days: int = Field(default=30, ge=1, description="Days for which an ended run stays.")
    runs: int = Field(default=2_000, ge=1, description="The newest runs that stay at most.")
    results: int = Field(
        default=200,
        ge=1,
        description="The newest results of each check that stay, and the newest events of each kind of each asset.",
    )
    seconds: float = Field(default=300, gt=0, description="How long one pass may take.")


@op(
    description="Delete old runs, events, results and their files; the newest of each asset and check stay."
)
def purge_history(context: OpExecutionContext, config: Policy) -> None:
    """Purge."""
    instance, begun = context.instance, time.monotonic()
    was = size(instance)

    def until_due(steps: Iterator[int]) -> int:
        done = 0
        for count in steps:
            done += count
            if time.monotonic() - begun > config.seconds:
                context.log.info("the time is over; the next pass goes on from here")
                break
        return done

    before = clock.now() - timedelta(days=config.days)
    runs = until_due(1 for _ in old_runs(instance, before, config.runs))
    events = until_due(old_events(instance, config.results))
    files = until_due(1 for _ in left_files(instance))
    for name, lost in shrunk(instance):
        context.log.info("%s is %s bytes smaller", name, lost)
    context.add_output_metadata(
        {
            "runs": runs,
            "events": events,
            "left files": files,
            "bytes before": was,
            "bytes": size(instance),
        }
    )


@job(name="purge", description="Purge Dagster's own history: old runs, events and results.")
def _purge() -> None:
    """Purge."""
    purge_history()


PURGE: JobDefinition = _purge

PURGE_OFTEN = ScheduleDefinition(
    name=titled("purge_often"),
    job=PURGE,
    cron_schedule="40 */3 * * *",
    execution_timezone="UTC",
    default_status=by_itself(usually=True),
)
