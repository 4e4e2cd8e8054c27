"""What a quarantine holds now: how much, since when, and a few rows of it as they may be shown.

The rows of a quarantine are those that nobody has settled yet; DuckDB reads them without a JVM, and the payload of
the few that are shown alone.
"""

from datetime import datetime, timedelta

import duckdb
from deltalake import DeltaTable

from jobs.core.table import Table
from jobs.run.lake import Lake
from jobs.run.ledger import is_table
from quality import mask
from quality.report.findings import Open, Sample

SAMPLES = 5
AGES = (
    ("under an hour", timedelta(hours=1)),
    ("under a day", timedelta(days=1)),
    ("under a week", timedelta(days=7)),
    ("under a month", timedelta(days=30)),
)
OLDER = "older"


def open_rows(table: Table, lake: Lake, now: datetime) -> Open | None:
    """Return how many rows a table's quarantine holds, by how long ago they arrived; None where there is none."""
    duck = _opened(table, lake)
    if duck is None:
        return None
    limits = [now - age for _, age in AGES]
    counts = ", ".join("count(*) FILTER (_arrived_at > ? AND _arrived_at <= ?)" for _ in limits)
    newest = datetime.max.replace(tzinfo=now.tzinfo)
    bounds = [
        moment
        for after, until in zip(limits, [newest, *limits], strict=False)
        for moment in (after, until)
    ]
    sql = f"SELECT count(*), min(_arrived_at), {counts} FROM held"  # noqa: S608  # no text of a user's
    rows, oldest, *ages = duck.execute(sql, bounds).fetchall()[0]
    labels = [label for label, _ in AGES]
    return Open(
        rows=rows,
        oldest=oldest.isoformat() if oldest else None,
        ages=(*zip(labels, ages, strict=True), (OLDER, rows - sum(ages))),
    )


def samples(table: Table, lake: Lake, until: datetime) -> tuple[Sample, ...]:
    """Return the newest rows held back before a moment: of each reason the newest first, then those after it."""
    duck = _opened(table, lake)
    if duck is None:
        return ()
    # Payloads are long: they are read of the chosen rows alone.
    sql = """
        WITH chosen AS (
            SELECT _topic, _partition, _offset, row_number() OVER (
                PARTITION BY reasons[1] ORDER BY _arrived_at DESC, _partition, _offset) AS place
            FROM held WHERE _arrived_at < $until
            ORDER BY place, _arrived_at DESC, _partition, _offset LIMIT $count)
        SELECT _topic, _partition, _offset, _arrived_at, reasons, _payload
        FROM held JOIN chosen USING (_topic, _partition, _offset)
        ORDER BY place, _arrived_at DESC, _partition, _offset
    """
    known = _harmless(table, lake)
    return tuple(
        Sample(
            topic=topic,
            partition=partition,
            offset=offset,
            arrived_at=arrived_at.isoformat(),
            reasons=tuple(reasons),
            payload=mask.payload(payload, table.sensitive, known),
        )
        for topic, partition, offset, arrived_at, reasons, payload in duck.execute(
            sql, {"until": until, "count": SAMPLES}
        ).fetchall()
    )


def _opened(table: Table, lake: Lake) -> duckdb.DuckDBPyConnection | None:
    path = lake.quarantine(table)
    if not table.judges or not is_table(path):
        return None
    duck = duckdb.connect()
    duck.execute("SET TimeZone = 'UTC'")
    duck.register("held", DeltaTable(path).to_pyarrow_dataset())
    return duck


def _harmless(table: Table, lake: Lake) -> tuple[str, ...]:
    """Return the columns of a table that may be shown."""
    columns = [field.name for field in DeltaTable(lake.table(table)).schema().fields]
    return tuple(name for name in columns if name not in table.sensitive)
