"""What must come out, from the plan and from DuckDB, neither of which shares a line with Spark.

A run that lost rows, or made some, is not a measurement.
"""

from collections.abc import Mapping
from pathlib import Path

import duckdb
from deltalake import DeltaTable

from fleet.play.devices import Fleet
from fleet.play.domain import Counts, Tally
from fleet.play.plan import Plan
from tests.benchmarks.contestants.contestant import BRONZE, GOLD, SILVER, Place

DELAY_MINUTES = {"strandline": 75, "tuned": 75, "tutorial": 60}
"""How far each one's watermark stays behind."""

WINDOWS = """
    SELECT count(*), coalesce(sum(readings), 0) FROM (
      SELECT time_bucket(INTERVAL 10 MINUTE, event_at) AS start, count(*) AS readings
      FROM read_parquet($files) GROUP BY device_id, signal, start)
    WHERE $all OR start + INTERVAL 10 MINUTE <= (
      SELECT date_trunc('millisecond', max(event_at)) - to_minutes($delay) FROM read_parquet($files))
"""


class WrongRowsError(Exception):
    """A contestant's rows are not those that there must be."""


def truth(plan: Plan, events: int) -> Counts:
    """Return what silver must make of the first so many events of a plan."""
    tally = Tally()
    for chunk in Fleet(plan).chunks(100 if events < plan.events else 8_192):
        if tally.events >= events:
            break
        tally.add(chunk)
    return tally.counts()


def check_bronze(place: Place, events: int, contestant: str) -> None:
    """Demand each event once."""
    prefix = "" if contestant.startswith("tutorial") else "_"
    identity = f'"{prefix}partition", "{prefix}offset"'
    sql = f"SELECT count(*), count(DISTINCT ({identity})) FROM read_parquet($files)"  # noqa: S608  # our own names
    _demand(f"{contestant} bronze", _ask(sql, place.table(BRONZE)), (events, events))


def check_silver(place: Place, counts: Counts, contestant: str) -> None:
    """Demand the truth of the strict ones; the tutorial knows no law of time and a loose parse."""
    sql = "SELECT count(*), count(DISTINCT event_id) FROM read_parquet($files)"
    rows, ids = _ask(sql, place.table(SILVER))
    held = counts.quarantined
    if contestant.startswith("tutorial"):
        surely = counts.good + held.get("late", 0) + held.get("early", 0)
        loose = held.get("malformed", 0) + held.get("wrong_type", 0) + held.get("missing:signal", 0)
        # A watermark may have refused late ones, by how rows fell into batches.
        if not counts.good <= rows <= surely + loose:
            _demand(f"{contestant} silver", (rows,), (surely,))
        return
    _demand(f"{contestant} silver", (rows, ids), (counts.good, counts.good))
    there = _ask("SELECT count(*) FROM read_parquet($files)", place.quarantine)
    _demand(f"{contestant} quarantine", there, (sum(held.values()),))


def check_gold(place: Place, contestant: str) -> None:
    """Demand the windows that are closed, or all of them, with every reading counted."""
    given: Mapping[str, object] = {
        "all": place.on_change,
        "delay": DELAY_MINUTES[contestant.partition("/")[0]],
    }
    expected = _ask(WINDOWS, place.table(SILVER), **given)
    sql = "SELECT count(*), coalesce(sum(readings), 0) FROM read_parquet($files)"
    _demand(f"{contestant} gold", _ask(sql, place.table(GOLD)), expected)


def _ask(sql: str, table: str, **given: object) -> tuple[int, ...]:
    files = DeltaTable(table).file_uris() if (Path(table) / "_delta_log").exists() else []
    if not files:
        return (0, 0)
    with duckdb.connect() as engine:
        engine.execute("SET TimeZone = 'UTC'; SET threads = 1")
        row = engine.execute(sql, {"files": files, **given}).fetchone()
    return tuple(int(value) for value in row or ())


def _demand(what: str, found: tuple[int, ...], expected: tuple[int, ...]) -> None:
    if found != expected:
        message = f"{what}: {found} rows and identities, but there must be {expected}"
        raise WrongRowsError(message)
