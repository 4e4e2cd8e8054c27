"""Delta tables as Spark writes them, made without it: a commit takes milliseconds instead of a second.

Most tests begin with tables that something else wrote: bronze, or the sources of a gold table. How Spark writes them is
proven where the engine does (tests/engine/flow/test_ingest.py, tests/engine/lake/test_delta_commit.py), and
tests/bronze/test_device_telemetry.py sees that these are the same to the column, the statistic and the checksum.
"""

import json
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from urllib.parse import unquote
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from strandline.engine.lake.commit.create_table import ALWAYS, write_first_commit
from strandline.engine.lake.log.commit_log import (
    commit_file,
    commit_text,
    logged_versions,
    sum_file,
)
from strandline.engine.lake.log.ledger import is_table, latest_version
from strandline.engine.lake.log.log_actions import live_files
from strandline.engine.lake.place import Place

NO_EXTREMES = (pa.types.is_binary, pa.types.is_boolean, pa.types.is_nested)
"""Columns of which Delta counts the NULLs alone."""

LONGEST = 32
"""Characters of a text that Delta keeps in a statistic; longer ones would have to be cut, and no test has any."""


def create(place: Place, schema: StructType, properties: Mapping[str, str] | None = None) -> None:
    """Create an empty table unless it exists."""
    if is_table(place):
        return
    write_first_commit(place, schema, (), {**ALWAYS, **(properties or {})})


def commit(
    place: Place, files: Sequence[pa.Table], metadata: str, at: datetime | None = None
) -> int:
    """Append rows, one file for each table of them that has any, with the given user metadata; return their number.

    Args:
        place: The table.
        files: The rows.
        metadata: What the commit says of them.
        at: When; now when absent.
    """
    written_at = _now() if at is None else int(at.timestamp() * 1000)
    version = latest_version(place)
    sums = json.loads(sum_file(place, version).text() or "")
    columns = _measured(sums["metadata"], files)
    added = [_file(place, rows, columns, written_at) for rows in files if len(rows)]
    size = sum(file["size"] for file in added)
    sums.pop("fileSizeHistogram", None)  # of a commit that Spark made
    sums |= {
        "tableSizeBytes": sums["tableSizeBytes"] + size,
        "numFiles": sums["numFiles"] + len(added),
    }
    if "allFiles" in sums:  # Delta leaves it out of a table with features
        sums["allFiles"] = [*sums["allFiles"], *({**file, "dataChange": False} for file in added)]
    info = {
        "timestamp": written_at,
        "operation": "WRITE",
        "operationParameters": {"mode": "Append"},
        "readVersion": version,
        "userMetadata": metadata,
    }
    _publish(place, version + 1, [info, *({"add": file} for file in added)], sums)
    return sum(len(rows) for rows in files)


def table(schema: StructType, rows: Sequence[Sequence[object]]) -> pa.Table:
    """Return rows as columns."""
    wanted = to_arrow_schema(schema, timezone="UTC")
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(wanted)
    arrays = [pa.array(values, field.type) for values, field in zip(columns, wanted, strict=True)]
    return pa.Table.from_arrays(arrays, schema=wanted)


def _file(place: Place, rows: pa.Table, columns: Sequence[str], at: int) -> dict[str, Any]:
    name = f"part-00000-{uuid4()}-c000.snappy.parquet"
    buffer = pa.BufferOutputStream()
    pq.write_table(rows, buffer, store_schema=False)
    content = buffer.getvalue().to_pybytes()
    with (place / name).written() as file:
        file.write(content)
    return {
        "path": name,
        "partitionValues": {},
        "size": len(content),
        "modificationTime": at,
        "dataChange": True,
        "stats": json.dumps(_statistics(rows, columns)),
    }


def _statistics(rows: pa.Table, columns: Sequence[str]) -> dict[str, Any]:
    lowest, highest, nulls = {}, {}, {}
    for name in columns:
        values = rows[name]
        nulls[name] = values.null_count
        if any(is_of(values.type) for is_of in NO_EXTREMES) or values.null_count == len(values):
            continue
        found = pc.min_max(values).as_py()
        lowest[name], highest[name] = _as_statistic(found["min"]), _as_statistic(found["max"])
    return {
        "numRecords": len(rows),
        "minValues": lowest,
        "maxValues": highest,
        "nullCount": nulls,
    }


def _as_statistic(value: object) -> object:
    """Return a value as Delta's statistics have it: moments end with their millisecond."""
    match value:
        case datetime():
            return value.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        case Decimal():
            return float(value)
        case str() if len(value) > LONGEST:
            raise ValueError(f"a text of {len(value)} characters: {value}")
        case _:
            return value


def _measured(metadata: Mapping[str, Any], files: Sequence[pa.Table]) -> list[str]:
    """Return the columns of which a table keeps statistics."""
    chosen = metadata["configuration"].get("delta.dataSkippingStatsColumns")
    names = files[0].column_names if files else []
    return [name for name in names if chosen is None or name in chosen.split(",")]


def _publish(
    place: Place, version: int, actions: Sequence[Mapping[str, Any]], sums: Mapping[str, Any]
) -> None:
    """Write a commit and its checksum, which must be there first: without it Delta asks Spark to compute it."""
    txn = str(uuid4())
    info = {
        **actions[0],
        "isolationLevel": "Serializable",
        "isBlindAppend": True,
        "operationMetrics": {},
        "engineInfo": "by hand",
        "txnId": txn,
    }
    lines = [json.dumps(each) for each in ({"commitInfo": info}, *actions[1:])]
    sum_file(place, version).put(json.dumps({**sums, "txnId": txn}))
    commit_file(place, version).put("\n".join(lines) + "\n")


def _now() -> int:
    return time.time_ns() // 1_000_000


def as_before(place: Place) -> int:
    """Write the files of a table of this machine again as Spark did before, their times as INT96; return how many there are.

    They keep their names, so the log says of them what it said but for their sizes.
    """
    sizes = {path: _as_int96(place / unquote(path)) for path in live_files(place).files}
    for version in logged_versions(place):
        lines = [json.loads(line) for line in (commit_text(place, version) or "").splitlines()]
        for body in (line["add"] for line in lines if "add" in line):
            body["size"] = sizes.get(body["path"], body["size"])
        text = "\n".join(json.dumps(line, separators=(",", ":")) for line in lines)
        commit_file(place, version).put(f"{text}\n")
        _resize(sum_file(place, version), sizes)
    return len(sizes)


def _resize(file: Place, sizes: Mapping[str, int]) -> None:
    sums = json.loads(file.text() or "{}")
    for each in sums.get("allFiles") or ():
        sums["tableSizeBytes"] += sizes.get(each["path"], each["size"]) - each["size"]
        each["size"] = sizes.get(each["path"], each["size"])
    if sums:
        sums.pop("fileSizeHistogram", None)
        file.put(json.dumps(sums))


def _as_int96(file: Place) -> int:
    rows = pq.ParquetFile(file.local).read()
    pq.write_table(rows, file.local, use_deprecated_int96_timestamps=True, store_schema=False)
    return file.size()


def written_as(place: Place) -> dict[str, int]:
    """Return how many columns of times a table's files have, by how they are written."""
    found = Counter[str]()
    for path in live_files(place).files:
        schema = pq.ParquetFile((place / unquote(path)).local).schema
        columns = (schema.column(number) for number in range(len(schema.names)))
        found.update(
            each.physical_type
            for each in columns
            if each.physical_type == "INT96" or each.logical_type.type == "TIMESTAMP"
        )
    return dict(found)
