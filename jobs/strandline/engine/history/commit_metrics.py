"""The figures of a commit, each a name and a value, so every question about the past has the same query.

Most figures are in the ledger entry; the time of the commit, the time range of its rows and their absent values come
from the log's lines beside it. A field that an older entry lacks is absent here as well.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from strandline.core.moment import in_utc
from strandline.core.table import Table
from strandline.engine.storage.commit_log import Kind, actions
from strandline.engine.storage.ledger import Entry, entry_at
from strandline.engine.storage.place import Place

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
    yield "quarantined", float(sum(entry.quarantined.values()))
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
