"""Delta tables with ledger entries, made without a JVM, for tests of what only reads logs."""

import json
import os
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Literal

import pyarrow as pa
from deltalake import CommitProperties, write_deltalake

from fleet.gold import device_signal_10m
from fleet.silver import device_telemetry as silver
from strandline.core.table import Table
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.commit_log import commit_file
from strandline.engine.lake.log.ledger import Entry, latest_version
from strandline.engine.lake.open_table import delta_options
from strandline.engine.lake.place import Place
from tests.support.rows import NOON

BRONZE, SILVER, GOLD = silver.TABLE.upstream[0], silver.TABLE, device_signal_10m.TABLE
NUMBER = pa.schema([("number", pa.int64())])


def written(
    path: "Place | os.PathLike[str]",
    rows: Sequence[Mapping[str, object]],
    metadata: str | None = None,
    *,
    mode: Literal["append", "overwrite"] = "append",
) -> None:
    """Commit rows, one file, with the given user metadata."""
    properties = CommitProperties(custom_metadata={"userMetadata": metadata} if metadata else {})
    schema = None if rows else NUMBER
    table = pa.Table.from_pylist(list(rows), schema=schema)
    place = Place.of(path)
    write_deltalake(
        str(place),
        table,
        mode=mode,
        commit_properties=properties,
        storage_options=delta_options(place),
    )


def entry(table: Table, **fields: object) -> Entry:
    """Return an entry whose other fields have usual values."""
    usual: dict[str, object] = {"mode": "available-now", "stream": "s", "batch": 0, "source": "x"}
    return Entry(table=table.id, **{**usual, **fields})  # type: ignore[arg-type]  # a test's own values


def numbers(count: int) -> list[dict[str, object]]:
    """Return so many rows."""
    return [{"number": number} for number in range(count)]


def long_log(lake: Lake, commits: int) -> None:
    """Let bronze have so many commits more, all of one day, that change no row."""
    path = lake.table(BRONZE)
    first = latest_version(path) + 1
    for version in range(first, first + commits):
        at = round((NOON + timedelta(milliseconds=version)).timestamp() * 1000)
        line = {"commitInfo": {"timestamp": at, "operation": "OPTIMIZE", "said": "x" * 2_000}}
        commit_file(path, version).local.write_text(json.dumps(line) + "\n")


def small_lake(root: Place | Path) -> Lake:
    """Make a lake that balances: 5 records, of them 3 good, 1 a copy, 1 held; one window of 3 readings."""
    lake = Lake(Place.of(root))
    for batch, (count, offsets) in enumerate([(3, {"0": (0, 3)}), (2, {"0": (3, 5)})]):
        one = entry(BRONZE, batch=batch, offsets=offsets, read=count, good=count, written=count)
        written(lake.table(BRONZE), numbers(count), one.encoded())
    good = entry(
        SILVER,
        versions={BRONZE.id: (0, 1)},
        read=5,
        good=3,
        duplicates=1,
        quarantined={"late": 1},
        written=3,
    )
    written(lake.quarantine(SILVER), numbers(1), good.encoded())
    written(lake.table(SILVER), numbers(3), good.encoded())
    one = entry(GOLD, versions={SILVER.id: (0, 0)}, read=3, good=3, written=1)
    written(lake.table(GOLD), numbers(1), one.encoded())
    return lake
