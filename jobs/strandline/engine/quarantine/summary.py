"""The open rows of a quarantine: their number by age, and a few masked samples.

Rows that were replayed or discarded are settled and not counted (jobs/strandline/engine/quarantine/resolutions.py). DuckDB reads the rows
without a JVM, and the payloads of the samples only.
"""

from collections.abc import Collection, Mapping
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

from strandline.core.table import Judged, Table
from strandline.engine.quarantine.browse import connected
from strandline.engine.quarantine.resolutions import State
from strandline.engine.storage.duckdb_table import Peek
from strandline.engine.storage.lake import Lake
from strandline.engine.storage.ledger import is_table
from strandline.engine.storage.open_table import kinds
from strandline_quality import mask
from strandline_quality.report.findings import Open, Sample

SAMPLES = 5
AGES = (
    ("under an hour", timedelta(hours=1)),
    ("under a day", timedelta(days=1)),
    ("under a week", timedelta(days=7)),
    ("under a month", timedelta(days=30)),
)
OLDER = "older"
OLDEST = "SELECT count(*), min(_arrived_at) FROM held"
YOUNGER = "SELECT count(*) FROM held WHERE _arrived_at > getvariable('limit_')"
NEWEST = """
    WITH chosen AS (
        SELECT _topic, _partition, _offset, row_number() OVER (
            PARTITION BY reasons[1] ORDER BY _arrived_at DESC, _partition, _offset) AS place
        FROM held WHERE _arrived_at < getvariable('until_')
        ORDER BY place, _arrived_at DESC, _partition, _offset LIMIT getvariable('count_'))
    SELECT _topic, _partition, _offset, _arrived_at, reasons, _payload
    FROM held JOIN chosen USING (_topic, _partition, _offset)
    ORDER BY place, _arrived_at DESC, _partition, _offset
"""
"""Payloads are long, so they are read for the chosen rows only."""


def open_rows(table: Table, lake: Lake, now: datetime) -> Open | None:
    """Return the number of open rows by how long ago they arrived; None where there is no quarantine."""
    held = _opened(table, lake)
    if held is None:
        return None
    ((rows, oldest),) = held.ask(OLDEST)
    limits = [now - age for _, age in AGES]
    younger = [held.ask(YOUNGER, limit_=limit)[0][0] for limit in limits]
    totals = [int(str(each)) for each in (*younger, rows)]
    counts = [after - before for before, after in pairwise([0, *totals])]
    return Open(
        rows=totals[-1],
        oldest=oldest.isoformat() if isinstance(oldest, datetime) else None,
        ages=tuple(zip((*(label for label, _ in AGES), OLDER), counts, strict=True)),
    )


def samples(table: Table, lake: Lake, until: datetime) -> tuple[Sample, ...]:
    """Return the newest rows that were held back before a time: first the newest of each reason, then the next."""
    held = _opened(table, lake)
    if held is None:
        return ()
    known = harmless(table, lake)
    found = held.named(NEWEST, until_=until, count_=SAMPLES)
    return tuple(_sample(row, table, known) for row in found)


def _sample(row: Mapping[str, Any], table: Table, known: Collection[str]) -> Sample:
    return Sample(
        topic=row["_topic"],
        partition=row["_partition"],
        offset=row["_offset"],
        arrived_at=row["_arrived_at"].isoformat(),
        reasons=tuple(row["reasons"]),
        payload=mask.payload(row["_payload"], table.secret, known),
    )


def _opened(table: Table, lake: Lake) -> Peek | None:
    if not isinstance(table, Judged) or not is_table(lake.quarantine(table)):
        return None
    duck = connected(table, lake)
    duck.execute(f"CREATE VIEW held AS SELECT * FROM records WHERE _state = '{State.OPEN}'")  # noqa: S608  # no user's text
    return Peek(duck)


def harmless(table: Table, lake: Lake) -> tuple[str, ...]:
    """Return the columns of a table that may be shown unmasked."""
    return table.shown(kinds(lake.table(table)))
