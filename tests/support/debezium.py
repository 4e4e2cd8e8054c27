"""Records as Debezium's connectors write them, for a table of customers in Postgres and in MySQL."""

import json
from collections.abc import Mapping
from typing import Any

Row = Mapping[str, Any]

MOMENT = 1_795_161_600_000
"""Eight in the morning of the day of the tests, in milliseconds."""


def postgres(  # noqa: PLR0913  # the parts of an envelope
    op: str,
    *,
    before: Row | None = None,
    after: Row | None = None,
    lsn: int = 24_023_128,
    minute: int = 0,
    within: bool = False,
) -> str:
    """Return a change as the Postgres connector of Debezium 3 writes it, or within ``payload`` and beside its schema."""
    at = MOMENT + minute * 60_000
    envelope = {
        "before": before,
        "after": after,
        "source": {
            "version": "3.0.8.Final",
            "connector": "postgresql",
            "name": "fleet",
            "ts_ms": at,
            "snapshot": "first" if op == "r" else "false",
            "db": "inventory",
            "sequence": f'["{lsn - 8}","{lsn}"]',
            "ts_us": at * 1000 + 125,
            "ts_ns": at * 1_000_000 + 125_330,
            "schema": "public",
            "table": "customers",
            "txId": 555,
            "lsn": lsn,
            "xmin": None,
        },
        "transaction": None,
        "op": op,
        "ts_ms": at + 407,
        "ts_us": at * 1000 + 407_231,
        "ts_ns": at * 1_000_000 + 407_231_005,
    }
    kind = {"type": "struct", "optional": False, "name": "fleet.public.customers.Envelope"}
    return json.dumps({"schema": kind, "payload": envelope} if within else envelope)


def mysql(  # noqa: PLR0913  # the parts of an envelope
    op: str,
    *,
    before: Row | None = None,
    after: Row | None = None,
    file: str = "mysql-bin.000003",
    pos: int = 4696,
    row: int = 0,
    second: int = 0,
) -> str:
    """Return a change as the MySQL connector of Debezium 1.4 writes it, whose clock has seconds."""
    at = MOMENT + second * 1000
    envelope = {
        "before": before,
        "after": after,
        "source": {
            "version": "1.4.2.Final",
            "connector": "mysql",
            "name": "dbserver1",
            "ts_ms": at,
            "snapshot": "false",
            "db": "inventory",
            "table": "customers",
            "server_id": 223344,
            "gtid": None,
            "file": file,
            "pos": pos,
            "row": row,
            "thread": 36,
            "query": None,
        },
        "op": op,
        "ts_ms": at + 823,
        "transaction": None,
    }
    return json.dumps({"payload": envelope})
