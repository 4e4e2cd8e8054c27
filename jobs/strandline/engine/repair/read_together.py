"""A version of a table, and those of its sources whose rows its stream had written into it by then.

The rows of a closed range are compared with what their sources give. As a rule nothing comes to such a range beside a repair, so
it does not matter which versions are read. But a table that believes history gets rows of any time: one that its source has,
and its stream is about to write, was brought by a repair and then once more by the stream; one that the stream wrote between
two looks was taken for a row that must go. So where history is believed, both sides are read as of one moment.
"""

import time
from collections.abc import Mapping, Sequence

from strandline.core.errors import TransientError
from strandline.core.table import Judged, Table
from strandline.engine.accounting.balance_sheet import read_until
from strandline.engine.storage.lake import Lake
from strandline.engine.storage.ledger import between, latest_version
from strandline.engine.storage.locks import is_held

PATIENCE, AGAIN = 120.0, 0.5
"""Seconds to wait for a stream to write what its sources have, and between two looks."""


def believed_by(table: Table) -> list[Judged]:
    """Return the sources of a table that believe history: its stream may write a row of a time that it has left."""
    return [each for each in table.upstream if isinstance(each, Judged) and each.believes_history]


def read_together(
    table: Table, sources: Sequence[Table], lake: Lake
) -> tuple[int, Mapping[str, int]]:
    """Return a version of a table and those of sources, by their names, of which it has all rows and no more."""
    path = lake.table(table)
    while True:
        version = latest_version(path)
        read = {source.id: _read_until(table, source, lake) for source in sources}
        if latest_version(path) == version:
            return version, read


def all_read(table: Table, sources: Sequence[Table], lake: Lake) -> tuple[int, Mapping[str, int]]:
    """Return the same once the table's stream has written all that the sources have now, the change of a repair among it.

    Raises:
        TransientError: The stream does not run, or does not read on.
    """
    wanted = {source.id: latest_version(lake.table(source)) for source in sources}
    deadline = time.monotonic() + PATIENCE
    while True:
        version, read = read_together(table, sources, lake)
        behind = [name for name, until in wanted.items() if read[name] < until]
        if not behind:
            return version, read
        if not is_held(lake.lease(table)) or time.monotonic() > deadline:
            raise TransientError(
                f"{table.id} has not read all of {' and '.join(behind)}, which may have rows of any time",
                hint=f"`strandline run {table.id}`, then the same again.",
                table=table.id,
            )
        time.sleep(AGAIN)


def _read_until(table: Table, source: Table, lake: Lake) -> int:
    """Return the last version of a source without a row that a table's stream has still to read."""
    path, version = lake.table(source), read_until(table, source, lake)
    newest = latest_version(path)
    while version < newest and not any(
        entry.appended for entry in between(path, version + 1, version + 1)
    ):
        version += 1
    return version
