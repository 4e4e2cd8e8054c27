"""Quarantines as literals: records, and what was done about them, written without a JVM."""

from collections.abc import Mapping, Sequence
from datetime import timedelta

import pyarrow as pa
from deltalake import CommitProperties, write_deltalake

from strandline.core.table import Table
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger import Entry
from tests.support.rows import NOON

MOMENT = pa.timestamp("us", "UTC")
RECORDS = pa.schema(
    [
        ("_topic", pa.string()),
        ("_partition", pa.int32()),
        ("_offset", pa.int64()),
        ("_arrived_at", MOMENT),
        ("reasons", pa.list_(pa.string())),
        ("event_at", MOMENT),
        ("_message_key", pa.binary()),
        ("_payload", pa.binary()),
        ("_headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
    ]
)
RESOLUTIONS = pa.schema(
    [
        *(RECORDS.field(name) for name in RECORDS.names[:6]),
        ("generation", pa.int64()),
        ("was", pa.string()),
        ("status", pa.string()),
        ("why", pa.string()),
        ("who", pa.string()),
        ("resolved_at", MOMENT),
        ("entry", pa.string()),
    ]
)


def record(offset: int, *reasons: str, **fields: object) -> dict[str, object]:
    """Return a held record that arrived as many minutes after noon as its offset."""
    usual: dict[str, object] = {
        "_topic": "t",
        "_partition": 0,
        "_offset": offset,
        "_arrived_at": NOON + timedelta(minutes=offset),
        "reasons": list(reasons),
        "event_at": None,
        "_message_key": b"key",
        "_payload": b"payload",
        "_headers": [],
    }
    return usual | fields


def resolution(of: Mapping[str, object], status: str, **fields: object) -> dict[str, object]:
    """Return what was done about a record."""
    usual: dict[str, object] = {
        **{name: of[name] for name in RECORDS.names[:6]},
        "generation": 0,
        "was": "open",
        "status": status,
        "why": None,
        "who": None,
        "resolved_at": NOON,
        "entry": "e",
    }
    return usual | fields


def hold(lake: Lake, table: Table, rows: Sequence[Mapping[str, object]], entry: Entry) -> None:
    """Commit records to a quarantine."""
    _commit(lake.quarantine(table), pa.Table.from_pylist(list(rows), schema=RECORDS), entry)


def resolve(lake: Lake, table: Table, rows: Sequence[Mapping[str, object]], entry: Entry) -> None:
    """Commit what was done about records."""
    _commit(lake.resolutions(table), pa.Table.from_pylist(list(rows), schema=RESOLUTIONS), entry)


def _commit(path: object, rows: pa.Table, entry: Entry) -> None:
    metadata = {"userMetadata": entry.encoded()}
    mode = "overwrite" if entry.replaced else "append"
    properties = CommitProperties(custom_metadata=metadata)
    write_deltalake(str(path), rows, mode=mode, commit_properties=properties)
