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

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache, partial
from typing import Any

import pyarrow as pa

from strandline.core.errors import TransientError
from strandline.core.kind import in_utc
from strandline.core.table import Ingested, Judged, Table
from strandline.engine.accounting.history_queries import Past
from strandline.engine.lake.commit.delta_commit import ClaimedRows, compact
from strandline.engine.lake.duckdb_table import peek_beside
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.commit_log import Kind, actions, is_commit
from strandline.engine.lake.log.ledger import Entry, entry_at, last_entry, latest_version
from strandline.engine.lake.log.log_actions import highest, table_id
from strandline.engine.lake.open_table import opened
from strandline.engine.lake.place import Place, damage

# The figures of a commit, each a name and a value, so every question about the past has the same query.
#
# Most figures are in the ledger entry; the time of the commit, the time range of its rows and their absent values come
# from the log's lines beside it. A field that an older entry lacks is absent here as well.


ALWAYS = ("read", "good", "duplicates", "written", "duration_ms")
"""Recorded for every commit, a zero as well."""

SELDOM = (
    "dropped_by_watermark",
    "lost_by_function",
    "made_by_function",
    "without_record",
    "came",
    "gone",
    "cpu_ms",
    "own_ms",
    "unknown_fields",
)
"""Recorded where it is not zero."""

ARRIVED_AT = "_arrived_at"


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One commit in figures.

    Args:
        entry: Its ledger entry.
        at: When it was committed.
        since: The first event time of its rows, or the first arrival where they have no event time.
        until: The last one.
        values: The figures by their names.
        opened: Why an operator opened the gate for the batch.
        rules: Fingerprint of the rules that judged it.
        columns: The table's columns from this commit on, if it changed them.
    """

    entry: Entry
    at: datetime
    since: datetime | None
    until: datetime | None
    values: Mapping[str, float]
    opened: str | None
    rules: str
    columns: str | None


def measured(table: Table, path: Place, version: int) -> Measured | str | None:
    """Return the figures of a commit; of a commit without a ledger entry only the columns, if it changed them."""
    found = list(actions(path, version, Kind.INFO, Kind.ADD, Kind.METADATA))
    columns = next((str(a.body["schemaString"]) for a in found if a.kind is Kind.METADATA), None)
    entry = entry_at(path, version)
    if entry is None:
        return columns
    info = next(action.body for action in found if action.kind is Kind.INFO)
    written = json.loads(info["userMetadata"])
    at = datetime.fromtimestamp(info["timestamp"] / 1000, tz=UTC)
    files = [json.loads(a.body.get("stats") or "{}") for a in found if a.kind is Kind.ADD]
    first, last = _span(files, moment_of(table))
    newest = _moment(written.get("newest")) or (last if moment_of(table) != ARRIVED_AT else None)
    _, arrived = _span(files, ARRIVED_AT)
    is_new = not entry.is_backfill  # rows that a backfill corrects may be old
    figures = {
        **dict(_counts(entry, written)),
        **dict(_nulls(files)),
        **{f"failed:{name}": 1.0 for name in written.get("failed") or ()},
        **({"freshness_s": (at - newest).total_seconds()} if newest and is_new else {}),
        **({"lag": (at - arrived).total_seconds()} if arrived and is_new else {}),
    }
    return Measured(
        entry=entry,
        at=at,
        since=_moment(entry.since) or first,
        until=_moment(entry.until) or last,
        values=figures,
        opened=written.get("opened"),
        rules=str(written.get("rules") or ""),
        columns=columns,
    )


def fingerprint(columns: str) -> str:
    """Return a hash of a table's columns: names, types, and which are nullable."""
    fields = [
        {name: field[name] for name in ("name", "type", "nullable")}
        for field in json.loads(columns)["fields"]
    ]
    return hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()[:12]


def _counts(entry: Entry, written: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    for name in ALWAYS:
        yield name, float(written[name]) if name in written else 0.0
    yield "quarantined", float(entry.held_records)
    if entry.skipped:
        yield "skipped", float(sum(entry.skipped.values()))
    for name in SELDOM:
        if written.get(name):
            yield name, float(written[name])
    for kind in ("quarantined", "broke"):
        for name, rows in (written.get(kind) or {}).items():
            yield f"{kind}:{name}", float(rows)
    for name in ("replaced", "opened", "since"):
        if written.get(name):
            yield {"since": "backfill"}.get(name, name), 1.0


def _nulls(files: list[dict[str, Any]]) -> Iterator[tuple[str, float]]:
    """Yield the share of a commit's rows that lack a value, for the columns with statistics."""
    rows = sum(file.get("numRecords", 0) for file in files)
    counts: dict[str, int] = {}
    for file in files:
        for name, count in file.get("nullCount", {}).items():
            if isinstance(count, int) and not name.startswith("_"):
                counts[name] = counts.get(name, 0) + count
    for name, count in counts.items():
        if rows:
            yield f"null:{name}", count / rows


def moment_of(table: Table) -> str:
    """Return the column with a row's time: of the event, or of the arrival."""
    return table.event_at or ARRIVED_AT


def _span(files: list[dict[str, Any]], column: str) -> tuple[datetime | None, datetime | None]:
    lows = [_moment(file.get("minValues", {}).get(column)) for file in files]
    highs = [_moment(file.get("maxValues", {}).get(column)) for file in files]
    return (
        min((low for low in lows if low), default=None),
        max((high for high in highs if high), default=None),
    )


def _moment(text: object) -> datetime | None:
    if not isinstance(text, str):
        return None
    try:
        return in_utc(datetime.fromisoformat(text))
    except ValueError:
        return None


def figure_columns() -> "pa.Schema":
    """Return the columns of the history: one row for each figure of a commit."""
    return pa.schema(
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
        history, past = ClaimedRows(lake.history, figure_columns), cache(partial(Past, lake))
        news = [
            _news_or_none(table, lake, history.claimed, past)
            for table in tables
            if lake.exists(table)
        ]
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


def read_on(lake: Lake, tables: Sequence[Table]) -> Past:
    """Return the history with the commits that it lacks beside it: for a reader that may write nothing.

    Raises:
        TransientError: It lacks more commits of a table than are read at once.
    """
    version = latest_version(lake.history)
    written = opened(lake.history, version) if version >= 0 else None

    def claimed(subject: str) -> int:
        known = written.transaction_version(subject) if written else None
        return -1 if known is None else known

    existing, past = [table for table in tables if lake.exists(table)], cache(partial(Past, lake))
    news = [_news_or_none(table, lake, claimed, past) for table in existing]
    for table, each in zip(existing, news, strict=True):
        if each.subject and each.last < latest_version(lake.table(table)) and each.is_slice:
            raise TransientError(
                f"the history of {lake.root} lacks more than {SLICE:,} commits of {table.id}",
                hint="`strandline history` brings it up to date; the stream may run meanwhile.",
                table=table.id,
            )
    rows = pa.Table.from_pylist(
        [row for each in news for row in each.rows], schema=figure_columns()
    )
    return Past(lake, peek_beside(lake.history, version, "history", rows))


@dataclass(frozen=True, slots=True)
class _News:
    """The rows of history that a table's commits up to a version still lack, and the subject that they are claimed for."""

    subject: str = ""
    last: int = -1
    rows: list[dict[str, object]] = field(default_factory=list)
    commits: int = 0
    is_slice: bool = False


Opened = Callable[[], Past]
"""Returns the history as it is, opened once for all tables, where one needs it."""


def _news_or_none(table: Table, lake: Lake, claimed: Callable[[str], int], past: Opened) -> _News:
    """Leave out a table that cannot be read; its commits follow once it is mended, and the ledger says what is wrong."""
    try:
        return _news(table, lake, claimed, past)
    except Exception as error:
        if damage(error, table) is None:
            raise
        return _News()


def _news(table: Table, lake: Lake, claimed: Callable[[str], int], past: Opened) -> _News:
    folder = lake.table(table)
    log = table_id(folder)
    name = f"{table.id}/{log}"
    seen = claimed(name)
    last = min(latest_version(folder), seen + SLICE)
    if last <= seen:
        return _News()
    commits = list(_commits(table, lake, (seen, last), past))
    rows = [row for version, schema, each in commits for row in _rows(log, version, schema, each)]
    return _News(name, last, rows, len(commits), is_slice=last == seen + SLICE)


def _commits(
    table: Table, lake: Lake, ends: tuple[int, int], past: Opened
) -> Iterator[tuple[int, str, Measured]]:
    """Yield the commits after a version up to another, each with the fingerprint of the table's columns after it."""
    folder, (seen, last) = lake.table(table), ends
    # The log may have been cut there, so Delta cannot say which columns the version had; history itself can.
    known = past().schema_at(table, seen) if seen >= 0 else None
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


# The time of a table's newest row, by event and by arrival, from its last commits.


SEEN = 50
"""The newest commits among which the newest event is looked for; the last one may have late rows alone."""


def newest_event(table: Table, lake: Lake) -> datetime | None:
    """Return the newest event time among the rows that the last commits of a table brought."""
    path = lake.table(table)
    last = latest_version(path)
    versions = range(last, max(last - SEEN, -1), -1)
    texts = (_newest_of(table, path, version) for version in versions)
    return max((moment for text in texts if (moment := _moment(text))), default=None)


def _newest_of(table: Table, path: Place, version: int) -> str | None:
    entry = entry_at(path, version) if isinstance(table, Judged) else None
    return (entry.newest if entry else None) or highest(path, version, str(table.event_at))


def newest_arrival(table: Table, lake: Lake, until: int | None = None) -> datetime | None:
    """Return when the newest record arrived that a table has read, as far as a version of it."""
    path = lake.table(table)
    if isinstance(table, Ingested):
        newest = last_entry(path, until)
        return _moment(newest[1].newest_arrival) if newest else None
    seen, version = dict[str, int](), until
    for _ in range(SEEN):
        found = last_entry(path, version)
        if found is None or len(seen) == len(table.upstream):
            break
        for source, (_, last) in found[1].versions.items():
            seen.setdefault(source, last)
        version = found[0] - 1
    below = (
        newest_arrival(source, lake, seen[source.id])
        for source in table.upstream
        if source.id in seen
    )
    return max((each for each in below if each), default=None)
