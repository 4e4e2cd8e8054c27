"""What a commit says in figures: a name and a value each, so that every question about the past is one question.

Most stands in the ledger entry; the moment of the commit, the span of time of its rows and their absent values come
from the log line beside it. What an entry does not say yet, because it is older than the field, is simply absent.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from jobs.core.table import Table
from jobs.run.ledger import Entry, entry_of

ALWAYS = ("read", "good", "duplicates", "written", "duration_ms")
"""Said of every commit; a zero is a figure as well."""

SELDOM = ("dropped_by_watermark", "without_record", "came", "gone", "cpu_ms", "unknown_fields")
"""Said where there is any."""

ARRIVED_AT = "_arrived_at"


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One commit in figures.

    Args:
        entry: Its ledger entry.
        at: When it was committed.
        since: The first moment of which its rows speak: event time, or arrival where there is none.
        until: The last one.
        values: The figures by their names.
        opened: Why a person let the batch pass.
        rules: Fingerprint of the rules that judged it.
        columns: The table's columns from this commit on, if it says them.
    """

    entry: Entry
    at: datetime
    since: datetime | None
    until: datetime | None
    values: Mapping[str, float]
    opened: str | None
    rules: str
    columns: str | None


def measured(table: Table, file: Path) -> Measured | str | None:
    """Read a commit; of one without an entry of ours only the columns, if it says them."""
    actions = list(_actions(file))
    columns = next((str(a["metaData"]["schemaString"]) for a in actions if "metaData" in a), None)
    entry = entry_of(file)
    if entry is None:
        return columns
    info = next(action["commitInfo"] for action in actions if "commitInfo" in action)
    told = json.loads(info["userMetadata"])
    at = datetime.fromtimestamp(info["timestamp"] / 1000, tz=UTC)
    files = [json.loads(a["add"].get("stats") or "{}") for a in actions if "add" in a]
    first, last = _span(files, moment_of(table))
    newest = _moment(told.get("newest")) or (last if moment_of(table) != ARRIVED_AT else None)
    _, arrived = _span(files, ARRIVED_AT)
    is_new = not entry.is_backfill  # what is put right was there, or might have been, long before
    figures = {
        **dict(_counts(entry, told)),
        **dict(_nulls(files)),
        **{f"failed:{name}": 1.0 for name in told.get("failed") or ()},
        **({"freshness_s": (at - newest).total_seconds()} if newest and is_new else {}),
        **({"lag": (at - arrived).total_seconds()} if arrived and is_new else {}),
    }
    return Measured(
        entry=entry,
        at=at,
        since=_moment(entry.since) or first,
        until=_moment(entry.until) or last,
        values=figures,
        opened=told.get("opened"),
        rules=str(told.get("rules") or ""),
        columns=columns,
    )


def fingerprint(columns: str) -> str:
    """Return a hash of a table's columns: names, types, and which may be absent."""
    fields = [
        {name: field[name] for name in ("name", "type", "nullable")}
        for field in json.loads(columns)["fields"]
    ]
    return hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()[:12]


def _actions(file: Path) -> Iterator[dict[str, Any]]:
    with file.open() as log:
        for line in log:
            if line.startswith(('{"commitInfo":', '{"add":', '{"metaData":')):
                yield json.loads(line)


def _counts(entry: Entry, told: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    for name in ALWAYS:
        yield name, float(told[name]) if name in told else 0.0
    yield "quarantined", float(sum(entry.quarantined.values()))
    for name in SELDOM:
        if told.get(name):
            yield name, float(told[name])
    for kind in ("quarantined", "broke"):
        for name, rows in (told.get(kind) or {}).items():
            yield f"{kind}:{name}", float(rows)
    for name in ("replaced", "opened", "since"):
        if told.get(name):
            yield {"since": "backfill"}.get(name, name), 1.0


def _nulls(files: list[dict[str, Any]]) -> Iterator[tuple[str, float]]:
    """Yield which share of a commit's rows lacks a value, for the columns whose statistics are kept."""
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
    """Return the column that says of what time a row speaks."""
    return table.event_at or table.window_from or ARRIVED_AT


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
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
