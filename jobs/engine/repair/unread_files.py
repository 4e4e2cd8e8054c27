"""The files of a table that a table above has not read yet, from the ledgers: what is deleted of them would be lost to it."""

from jobs import catalog
from jobs.core.table import Table
from jobs.engine.storage.lake import Lake
from jobs.engine.storage.later_commits import LaterCommits
from jobs.engine.storage.ledger import latest_version
from jobs.engine.storage.ledger_snapshot import sums_of
from jobs.engine.storage.output_files import rows_in


def unread_files(table: Table, lake: Lake) -> tuple[dict[str, int], list[str]]:
    """Return the names of the unread files with their rows, and the names of the tables that have not read them.

    The commits since the slowest of these tables read last are opened, and no earlier one. A table that was never run in
    the lake waits for nothing; its stream will begin with what is there then.
    """
    latest = latest_version(lake.table(table))
    read = {
        other.id: _read_until(table, other, lake)
        for other in catalog.tables()
        if table.id in {source.id for source in other.needs} and lake.exists(other)
    }
    later = LaterCommits(lake.table(table), min(read.values(), default=latest))
    later.follow(latest)
    rows = {name: rows_in(line) for name, line in later.came.items()}
    return rows, [name for name, version in read.items() if version < latest]


def _read_until(table: Table, other: Table, lake: Lake) -> int:
    sums = sums_of(lake.table(other))
    if table.id in {source.id for source in other.upstream}:
        return sums.seen.get(table.id, -1)
    return sums.right_until
