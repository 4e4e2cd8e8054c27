"""A lake with a past: batches that were committed on days and hours of the test's choice, made without a JVM."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from deltalake import DeltaTable

from strandline.core.table import Table
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger import latest_version
from strandline.engine.lake.place import Place
from tests.engine.written import BRONZE, GOLD, SILVER, entry, numbers, written

TABLES = (BRONZE, SILVER, GOLD)
NINE = datetime(2026, 11, 20, 9, tzinfo=UTC)
HOUR = timedelta(hours=1)
TOPIC = BRONZE.topics[0].name


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """A row of the quarantine."""

    reasons: tuple[str, ...]
    payload: bytes
    event_at: datetime | None = None


_LATE = Held(reasons=("late", "missing:value"), payload=b"{}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Came:
    """What came at a moment, and what became of it.

    Args:
        at: When it was read and committed.
        good: How many good readings.
        duplicates: How many copies.
        held: The rows that were held back.
        extra: More fields of silver's entry, such as ``failed``.
    """

    at: datetime
    good: int
    duplicates: int = 0
    held: Sequence[Held] = ()
    extra: Mapping[str, object] = field(default_factory=dict)

    @property
    def read(self) -> int:
        """Return how many records there were."""
        return self.good + self.duplicates + len(self.held)


def dated(path: Place, at: datetime) -> None:
    """Move the last commit of a table to another moment."""
    file = path / "_delta_log" / f"{latest_version(path):020d}.json"
    lines = [json.loads(line) for line in file.local.read_text().splitlines()]
    for line in lines:
        if "commitInfo" in line:
            line["commitInfo"]["timestamp"] = int(at.timestamp() * 1000)
    file.local.write_text("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines))


def commit(
    lake: Lake,
    table: Table,
    rows: Sequence[Mapping[str, object]],
    at: datetime,
    extra: Mapping[str, object] | None = None,
    **fields: object,
) -> int:
    """Append rows with their entry at a moment; return the version."""
    metadata = json.loads(entry(table, **fields).encoded()) | dict(extra or {})
    written(lake.table(table), rows, json.dumps(metadata))
    dated(lake.table(table), at)
    return latest_version(lake.table(table))


def lived(root: Path, past: Sequence[Came], *, silver: bool = True, gold: bool = True) -> Lake:
    """Make a lake of readings that balances, with a commit a table for each that came."""
    lake = Lake(root)
    for batch, came in enumerate(past):
        receive(lake, came, batch)
        if silver:
            judge(lake, came, batch)
        if silver and gold:
            version = latest_version(lake.table(SILVER))
            source = {SILVER.id: (version, version)}
            counts = {"read": came.good, "good": came.good, "written": 1}
            commit(lake, GOLD, numbers(1), came.at, batch=batch, versions=source, **counts)
    return lake


def receive(lake: Lake, came: Came, batch: int) -> None:
    """Let bronze take in what came."""
    start = 0 if batch == 0 else _read(lake)
    offsets = {f"{TOPIC}/0": (start, start + came.read)}
    counts = {"read": came.read, "good": came.read, "written": came.read}
    rows = [{"number": start + n, "_arrived_at": came.at} for n in range(came.read)]
    commit(lake, BRONZE, rows, came.at, batch=batch, offsets=offsets, **counts)


def judge(lake: Lake, came: Came, batch: int) -> None:
    """Let silver judge the newest version of bronze."""
    version = latest_version(lake.table(BRONZE))
    reasons: dict[str, int] = {}
    for row in came.held:
        reasons[row.reasons[0]] = reasons.get(row.reasons[0], 0) + 1
    fields: dict[str, object] = {
        "batch": batch,
        "versions": {BRONZE.id: (version, version)},
        "read": came.read,
        "good": came.good,
        "duplicates": came.duplicates,
        "quarantined": reasons,
        "written": came.good,
        "duration_ms": 180,
    }
    if came.held:
        held = [_held(row, came.at, version * 1000 + n) for n, row in enumerate(came.held)]
        written(lake.quarantine(SILVER), held, entry(SILVER, **fields).encoded())
        dated(lake.quarantine(SILVER), came.at)
    rows = [{"event_id": f"{batch}-{n}", "event_at": came.at} for n in range(came.good)]
    commit(lake, SILVER, rows, came.at, came.extra, **fields)


def _held(row: Held, at: datetime, offset: int) -> dict[str, object]:
    return {
        "_topic": TOPIC,
        "_partition": 0,
        "_offset": offset,
        "_arrived_at": at,
        "reasons": list(row.reasons),
        "event_at": row.event_at,
        "_payload": row.payload,
    }


def _read(lake: Lake) -> int:
    file = lake.table(BRONZE) / "_delta_log" / f"{latest_version(lake.table(BRONZE)):020d}.json"
    info = next(
        json.loads(line) for line in file.local.read_text().splitlines() if "commitInfo" in line
    )
    metadata = json.loads(info["commitInfo"]["userMetadata"])
    return int(metadata["offsets"][f"{TOPIC}/0"][1])


def morning(root: Path) -> Lake:
    """Make a lake with three batches of each table: one that held a row back, one that failed, one that was opened."""
    return lived(
        root,
        [
            Came(at=NINE, good=3, duplicates=1, held=[_LATE]),
            Came(at=NINE + HOUR, good=4, extra={"failed": ["volume"], "broke": {"late": 1}}),
            Came(at=NINE + 2 * HOUR, good=5, extra={"failed": ["x"], "opened": "a known launch"}),
        ],
    )


def figures(lake: Lake) -> list[tuple[str, int, str, float]]:
    """Return everything that history holds, in order."""
    rows = DeltaTable(lake.history).to_pyarrow_table().to_pylist()
    return sorted((r["table"], r["version"], r["measure"], r["value"]) for r in rows)


def once(lake: Lake) -> bool:
    """Return whether history holds the commits of the morning, each of them once."""
    found = figures(lake)
    counted = Counter((table, version) for table, version, measure, _ in found if measure == "read")
    every = {(table.id, version): 1 for table in TABLES for version in range(3)}
    return counted == every and len(found) == len(set(found))
