"""What must come out, from the plan and from DuckDB, neither of which shares a line with Spark.

A run that lost rows, or made some, is not a measurement. Of a small batch rows are counted; where a whole plan was read, each
payload, each reason and each window is compared as well, whatever the format of the tables.
"""

import shutil
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from fleet.play.devices import Fleet
from fleet.play.domain import Counts, Tally
from fleet.play.plan import Chunk, Plan
from tests.benchmarks.contestants.contestant import BRONZE, GOLD, SILVER, Place, files
from tests.benchmarks.contestants.duckdb_batch import FIRST_COPIES, JUDGED, REASONS

DELAY_MINUTES = {"strandline": 75, "tuned": 75, "tutorial": 60}
"""How far each one's watermark stays behind; the windows of others are those of a batch, which has all of them."""

WINDOWS = """
    SELECT * FROM (
      SELECT device_id, signal, epoch_ms(time_bucket(INTERVAL 10 MINUTE, event_at)::TIMESTAMP) AS begins,
        count(*) AS readings, min(value) AS low, max(value) AS high, avg(value) AS mean, quantile_disc(value, 0.95) AS p95
      FROM read_parquet($readings) GROUP BY device_id, signal, begins)
    WHERE $all OR begins + 600000 <= (
      SELECT epoch_ms(max(event_at)::TIMESTAMP) - 60000 * $delay FROM read_parquet($readings))
"""
COMPARED = f"""  -- each window beside the one that must be there
    WITH there AS ({WINDOWS}), found AS (
      SELECT *, epoch_ms(window_from::TIMESTAMP) AS begins FROM read_parquet($windows))
    SELECT (SELECT count(*) FROM there), (SELECT count(*) FROM found), count(DISTINCT (device_id, signal, begins))
      FILTER (there.readings = found.readings AND low = min_value AND high = max_value AND p95 = p95_value
        AND abs(mean - avg_value) < 0.001)
    FROM there JOIN found USING (device_id, signal, begins)
"""
SURELY_RIGHT = 0.95
"""Of the tutorial's windows over its own readings: what came after its watermark is in one table and not in the other, by how
rows fell into batches [1,941 of 152,594 windows lacked readings, 8bae4800]."""
READING = (
    "event_id, device_id, signal, value::DECIMAL(14, 4), epoch_us(event_at), firmware, seq::BIGINT"
)
HASHED = "coalesce(sum(hash({0})::HUGEINT), 0)"


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


@lru_cache(maxsize=2)
def payloads(plan: Plan) -> int:
    """Return a number that another set of payloads would not have."""
    total = 0
    with duckdb.connect() as engine:
        for chunk in Fleet(plan).chunks(65_536):
            engine.register("sent", pa.table({"payload": pa.array(chunk.values, pa.binary())}))
            total += _row(engine, f"SELECT {HASHED.format('payload')} FROM sent")[0]
    return total


def readings(plan: Plan, folder: Path) -> str:
    """Return a table of the readings that silver must have of a plan, made by DuckDB from the payloads alone.

    Raises:
        WrongRowsError: DuckDB counts other readings, or others that are held, than the plan has made: one of both is wrong.
    """
    target = folder / "readings.parquet"
    if not target.exists():
        parts, counts = folder / "sent", truth(plan, plan.events)
        parts.mkdir(parents=True, exist_ok=True)
        with duckdb.connect() as engine:
            engine.execute("SET TimeZone = 'UTC'; SET threads = 1")
            for number, chunk in enumerate(Fleet(plan).chunks(65_536)):
                pq.write_table(sent(chunk, number), parts / f"{number:05d}.parquet")
            engine.execute(
                JUDGED.format(records=f"read_parquet('{parts}/*.parquet')", order="_offset")
            )
            found = dict(engine.execute(REASONS).fetchall())
            _demand("the oracle's reasons", found, {**counts.quarantined})
            draft = target.with_suffix(".draft")
            engine.execute(f"COPY ({FIRST_COPIES}) TO '{draft}' (FORMAT parquet)")
            count = engine.execute(f"SELECT count(*) FROM read_parquet('{draft}')").fetchone()
            _demand("the oracle's readings", count, (counts.good,))
        draft.rename(target)
        shutil.rmtree(parts)
    return str(target)


def sent(chunk: Chunk, number: int) -> pa.Table:
    """Return a chunk's records, all of one partition."""
    size = len(chunk.values)
    return pa.table(
        {
            "_partition": pa.array([0] * size, pa.int32()),
            "_offset": pa.array(range(number * 65_536, number * 65_536 + size), pa.int64()),
            "_arrived_at": pa.array(chunk.arrived_at, pa.timestamp("ms", "UTC")),
            "_message_key": pa.array(chunk.keys, pa.binary()),
            "_payload": pa.array(chunk.values, pa.binary()),
        }
    )


def check_bronze(place: Place, events: int, contestant: str, plan: Plan | None = None) -> None:
    """Demand each event once, and of a whole plan each payload as it was sent."""
    prefix = "" if contestant.startswith("tutorial") else "_"
    identity, payload = f'"{prefix}partition", "{prefix}offset"', "_payload" if prefix else "value"
    counts = "count(*), count(DISTINCT ({0}))"
    found = _ask(f"SELECT {counts.format(identity)} FROM read_parquet($files)", place.table(BRONZE))
    _demand(f"{contestant} bronze", found, (events, events))
    if plan is not None:
        sql = f"SELECT {HASHED.format(payload)} FROM read_parquet($files)"
        _demand(f"{contestant} payloads", _ask(sql, place.table(BRONZE)), (payloads(plan),))


def check_silver(
    place: Place, counts: Counts, contestant: str, readings: str | None = None
) -> None:
    """Demand the truth of the strict ones; the tutorial knows no law of time and a loose parse.

    Args:
        place: Where the tables are.
        counts: The truth.
        contestant: Who made them.
        readings: A table whose readings it must have, one by one.
    """
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
    if readings is not None:
        sql = f"SELECT {HASHED.format(f'({READING})')} FROM read_parquet($files)"
        _demand(f"{contestant} readings", _ask(sql, place.table(SILVER)), _ask(sql, readings))
        _demand(f"{contestant} reasons", _reasons(place.quarantine), {**held})


def check_gold(place: Place, contestant: str, silver: str | None = None) -> None:
    """Demand the windows that are closed, or all of them, with each reading counted.

    Args:
        place: Where the tables are.
        contestant: Who made them.
        silver: The readings that they rest on, if not the contestant's own.
    """
    delay = DELAY_MINUTES.get(contestant.partition("/")[0])
    given = {
        "all": place.on_change or delay is None,
        "delay": delay or 0,
        "readings": files(silver or place.table(SILVER)),
        "windows": files(place.table(GOLD)),
    }
    if not given["windows"]:
        del given["windows"]
        (there,) = _answer(f"SELECT count(*) FROM ({WINDOWS})", given)
        _demand(f"{contestant} gold", (0,), (there,))
        return
    there, found, equal = _answer(COMPARED, given)
    if contestant.startswith("tutorial") and silver is None and equal >= SURELY_RIGHT * there:
        equal = there
    _demand(f"{contestant} gold", (found, equal), (there, there))


def _reasons(quarantine: str) -> dict[str, int]:
    """Return how many rows are held for each reason, of a row with several for its first."""
    given = {"files": files(quarantine)}
    with duckdb.connect() as engine:
        columns = engine.execute("DESCRIBE SELECT * FROM read_parquet($files)", given).fetchall()
        reason = "reasons[1]" if "reasons" in {name for name, *_ in columns} else "reason"
        sql = f"SELECT {reason}, count(*) FROM read_parquet($files) GROUP BY ALL"
        return dict(engine.execute(sql, given).fetchall())


def _ask(sql: str, table: str) -> tuple[int, ...]:
    there = files(table)
    return _answer(sql, {"files": there}) if there else (0, 0)


def _answer(sql: str, given: Mapping[str, object]) -> tuple[int, ...]:
    with duckdb.connect() as engine:
        engine.execute("SET TimeZone = 'UTC'; SET threads = 1")
        return _row(engine, sql, given)


def _row(
    engine: duckdb.DuckDBPyConnection, sql: str, given: Mapping[str, object] | None = None
) -> tuple[int, ...]:
    row = engine.execute(sql, {**given} if given else None).fetchone()
    return tuple(int(value) for value in row or ())


def _demand(what: str, found: object, expected: object) -> None:
    if found != expected:
        message = f"{what}: {found} rows and identities, but there must be {expected}"
        raise WrongRowsError(message)
