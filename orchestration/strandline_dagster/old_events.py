"""Delete the events of Dagster that belong to no run, all but the newest of each asset and check.

Sensors report the commits of a stream and the results of checks without a run, 200 a minute on the example. Dagster
(1.13.27) removes an event only with its run or with the whole asset, so these are deleted by statements on its storage,
of which the tables, columns and indexes below are the same in SQLite and PostgreSQL.

What the pages show stays: of each check the newest results, of each asset the newest events of each kind, and of each
partition the newest materialization, without which a day would look as if it had never been computed.

A statement deletes at most ``AT_ONCE`` rows in a transaction of its own, so that the daemon, which writes meanwhile, waits
for milliseconds. Where a pass ends is not stored: the next one finds what is left.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

from dagster import AssetKey, DagsterInstance
from sqlalchemy import bindparam, text

AT_ONCE = 2_000
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
    limits = {"oldest": newest_to_go[0], "most": AT_ONCE}
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
            limits = {"oldest": found[0], "most": AT_ONCE}
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
