"""The files of a table that a table above has not read yet, from the ledgers: what is deleted of them would be lost to it."""

from collections.abc import Sequence

from strandline import catalog

from strandline.core.table import Table
from strandline.engine.storage.lake import Lake
from strandline.engine.storage.later_commits import LaterCommits
from strandline.engine.storage.ledger import latest_version
from strandline.engine.storage.ledger_snapshot import sums_of
from strandline.engine.storage.output_files import rows_in
from strandline.engine.storage.retired import fed, retired


def unread_files(table: Table, lake: Lake) -> tuple[dict[str, int], list[str]]:
    """Return the names of the unread files with their rows, and the names of the tables that have not read them.

    The commits since the slowest of these tables read last are opened, and no earlier one. A table that was never run in
    the lake waits for nothing; its stream will begin with what is there then. For one that is retired nothing waits.
    """
    return _unread(table, fed(_readers(table, lake), lake), lake)


def retired_readers(table: Table, lake: Lake) -> dict[Table, set[str]]:
    """Return the retired tables that could read on, each with the names of the files of a table that it has not read."""
    known = retired(lake)
    could = [
        each
        for each in (_readers(table, lake) if known else [])
        if each.id in known and known[each.id].place_kept
    ]
    return {each: {*_unread(table, [each], lake)[0]} for each in could}


def _readers(table: Table, lake: Lake) -> list[Table]:
    return [
        other
        for other in catalog.tables()
        if table.id in {source.id for source in other.needs} and lake.exists(other)
    ]


def _unread(table: Table, readers: Sequence[Table], lake: Lake) -> tuple[dict[str, int], list[str]]:
    latest = latest_version(lake.table(table))
    read = {other.id: _read_until(table, other, lake) for other in readers}
    later = LaterCommits(lake.table(table), min(read.values(), default=latest))
    later.follow(latest)
    rows = {name: rows_in(line) for name, line in later.came.items()}
    return rows, [name for name, version in read.items() if version < latest]


def _read_until(table: Table, other: Table, lake: Lake) -> int:
    sums = sums_of(lake.table(other))
    if table.id in {source.id for source in other.upstream}:
        return sums.seen.get(table.id, -1)
    return sums.right_until
