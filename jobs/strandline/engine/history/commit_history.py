"""The figures of every commit, in one table of the lake that outlives the logs: one row per figure.

The ledger proves that nothing is lost; this table answers what is usual, what changed since when, and how good a day
was. No batch writes it: the first reader brings it up to date from the ledgers, so it costs a stream nothing and cannot
disagree with them.

Why it holds every commit exactly once, whichever process writes it and whenever that is killed: the rows and the last
version that they cover are one Delta commit, with an application transaction per table. Two processes that catch up at
the same time claim the same transaction, Delta lets one of them commit, and the other reads again and finds nothing
left to do.

A table that was removed and created again counts its versions from 0; the id that Delta gave it distinguishes them.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from strandline.core.errors import TransientError
from strandline.core.table import Table
from strandline.engine.history.commit_metrics import Measured, fingerprint, measured
from strandline.engine.history.queries import Past
from strandline.engine.storage.claimed_rows import ClaimedRows, compact
from strandline.engine.storage.commit_log import is_commit
from strandline.engine.storage.damage import damage
from strandline.engine.storage.files_at_version import table_id
from strandline.engine.storage.lake import Lake
from strandline.engine.storage.ledger import latest_version

SCHEMA = pa.schema(
    [
        ("table", pa.string()),
        ("log", pa.string()),
        ("version", pa.int64()),
        ("mode", pa.string()),
        ("stream", pa.string()),
        ("batch", pa.int64()),
        ("at", pa.timestamp("us", tz="UTC")),
        ("since", pa.timestamp("us", tz="UTC")),
        ("until", pa.timestamp("us", tz="UTC")),
        ("measure", pa.string()),
        ("value", pa.float64()),
        ("note", pa.string()),
        ("code", pa.string()),
        ("rules", pa.string()),
        ("schema", pa.string()),
    ]
)
TRIES = 20
"""How often another process may be faster before this one gives up."""

SLICE = 5_000
"""How many commits of a table are added at once; all commits of a year would not fit into memory."""

MANY = 50
"""The number of files from which on they are compacted; a query of a second would otherwise open each of them."""


def catch_up(lake: Lake, tables: Sequence[Table]) -> int:
    """Add the commits of tables since the last catch-up; return how many were added.

    Raises:
        TransientError: Other processes wrote it in every attempt.
    """
    added = refused = 0
    while refused < TRIES:
        history = ClaimedRows(lake.history, SCHEMA)
        news = [_news_or_none(table, lake, history) for table in tables if lake.exists(table)]
        claims = {each.subject: each.last for each in news if each.subject}
        if not claims:
            return added
        if not history.append([row for each in news for row in each.rows], claims):
            refused += 1  # another process was faster, and has written the missing rows
            continue
        added += sum(each.commits for each in news)
        compact(lake.history, MANY)
    raise TransientError(
        f"other processes write the history of {lake.root} all the time",
        hint="try again; find who else runs `strandline report` or `strandline history` here.",
    )


@dataclass(frozen=True, slots=True)
class _News:
    """The rows of history that a table's commits up to a version still lack, and the subject that they are claimed for."""

    subject: str = ""
    last: int = -1
    rows: list[dict[str, object]] = field(default_factory=list)
    commits: int = 0


def _news_or_none(table: Table, lake: Lake, history: ClaimedRows) -> _News:
    """Leave out a table that cannot be read; its commits follow once it is mended, and the ledger says what is wrong."""
    try:
        return _news(table, lake, history)
    except Exception as error:
        if damage(error, table) is None:
            raise
        return _News()


def _news(table: Table, lake: Lake, history: ClaimedRows) -> _News:
    folder = lake.table(table)
    log = table_id(folder)
    name = f"{table.id}/{log}"
    seen = history.claimed(name)
    last = min(latest_version(folder), seen + SLICE)
    if last <= seen:
        return _News()
    commits = list(_commits(table, lake, seen, last))
    rows = [row for version, schema, each in commits for row in _rows(log, version, schema, each)]
    return _News(name, last, rows, len(commits))


def _commits(table: Table, lake: Lake, seen: int, last: int) -> Iterator[tuple[int, str, Measured]]:
    """Yield the commits after a version, each with the fingerprint of the table's columns after it."""
    folder = lake.table(table)
    # The log may have been cut there, so Delta cannot say which columns the version had; history itself can.
    known = Past(lake).schema_at(table, seen) if seen >= 0 else None
    schema = known or ""
    for version in range(0 if known is None else seen + 1, last + 1):
        found = measured(table, folder, version) if is_commit(folder, version) else None
        changed = found.columns if isinstance(found, Measured) else found
        schema = fingerprint(changed) if changed else schema
        if isinstance(found, Measured) and version > seen:
            yield version, schema, found


def _rows(log: str, version: int, schema: str, found: Measured) -> Iterable[dict[str, object]]:
    entry = found.entry
    common = {
        "table": entry.table,
        "log": log,
        "version": version,
        "mode": entry.mode,
        "stream": entry.stream,
        "batch": entry.batch,
        "at": found.at,
        "since": found.since,
        "until": found.until,
        "code": entry.code,
        "rules": found.rules,
        "schema": schema,
    }
    for measure, value in found.values.items():
        note = found.opened if measure == "opened" else None
        yield {**common, "measure": measure, "value": value, "note": note}
