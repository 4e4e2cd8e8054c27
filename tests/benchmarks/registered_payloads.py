"""What it costs to read payloads by their schema's id: ``python -m tests.benchmarks.registered_payloads``.

The same records as plain Avro of one schema (``from_avro``, in the JVM), and in the wire format of a registry as Avro and as
JSON Schema (in Python). CPU seconds of this process and all that it started, because the machine may be shared; the scan
alone is taken off. And the cost of finding ids in a slice before its commit.
"""

import io
import json
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StringType, StructType, TimestampType

from strandline.core.parse import avro
from strandline.core.parse_registered import registered
from strandline.core.routes import Format, WriterSchema, schemas_from
from strandline.core.topic import Parse
from strandline.engine.flow.ingest import ids_behind
from strandline.engine.runtime import spark_session
from strandline.engine.runtime.settings import settings
from tests.benchmarks import machine
from tests.engine.records import NOON

ROWS, RUNS, SLICE = 400_000, 3, 50_000
FIELDS = (
    StructType()
    .add("event_id", StringType())
    .add("device_id", StringType())
    .add("signal", StringType())
    .add("value", LongType())
    .add("event_at", TimestampType())
    .add("firmware", StringType())
    .add("seq", LongType())
)
TEXT = json.dumps(
    {
        "type": "record",
        "name": "reading",
        "fields": [
            {"name": "event_id", "type": "string"},
            {"name": "device_id", "type": "string"},
            {"name": "signal", "type": "string"},
            {"name": "value", "type": "long"},
            {"name": "event_at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
            {"name": "firmware", "type": "string"},
            {"name": "seq", "type": "long"},
        ],
    }
)
JSON_TEXT = json.dumps(
    {
        "type": "object",
        "properties": {
            **{name: {"type": "string"} for name in ("event_id", "device_id", "signal")},
            **{name: {"type": "integer"} for name in ("value", "seq")},
        },
        "required": ["event_id"],
    }
)
SCHEMAS = {
    1: WriterSchema(number=1, kind=Format.AVRO, text=TEXT),
    2: WriterSchema(number=2, kind=Format.JSON, text=JSON_TEXT),
}
HEAD = b"\0\0\0\0"


def main() -> None:
    """Measure, and print a line for each."""
    with tempfile.TemporaryDirectory() as folder:
        spark = spark_session.start(settings(lake=folder), Path(folder) / "spark.log")
        files = {name: written(Path(folder), name, head) for name, head in KINDS.items()}
        scan = cpu(lambda: consumed(read(spark, files["plain"]).select(F.xxhash64("_payload"))))
        plain = cpu(lambda: parsed(spark, files["plain"], avro(TEXT))) - scan
        print(f"plain Avro: {plain / ROWS * 1e6:.2f} µs a record")  # noqa: T201  # its answer
        for name in ("avro", "json"):
            with schemas_from(SCHEMAS.get):
                took = cpu(lambda name=name: parsed(spark, files[name], registered())) - scan
            print(f"registered, {name}: {took / ROWS * 1e6:.2f} µs, {took / plain:.1f} times")  # noqa: T201  # its answer
        slice_ = Path(folder) / "slice.parquet"
        pq.write_table(pq.read_table(files["avro"]).slice(0, SLICE), slice_)
        began = time.perf_counter()
        for _ in range(10):
            ids_behind(-1, [str(slice_)], "_payload", ["t"])
        print(f"ids of a slice of {SLICE:,}: {(time.perf_counter() - began) * 100:.1f} ms")  # noqa: T201  # its answer
        spark.stop()


def record(number: int) -> dict[str, object]:
    """Return a reading."""
    return {
        "event_id": f"e{number:012}",
        "device_id": f"dev-{number % 5000:05}",
        "signal": "temperature",
        "value": number % 4000,
        "event_at": NOON + timedelta(milliseconds=number),
        "firmware": "1.4.2",
        "seq": number,
    }


def as_avro(number: int) -> bytes:
    """Return a reading as Avro."""
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, PARSED, record(number))
    return stream.getvalue()


def as_json(number: int) -> bytes:
    """Return a reading as JSON."""
    return json.dumps(record(number), default=lambda at: at.isoformat()).encode()


PARSED = fastavro.parse_schema(json.loads(TEXT))
KINDS: dict[str, Callable[[int], bytes]] = {
    "plain": as_avro,
    "avro": lambda number: HEAD + b"\1" + as_avro(number),
    "json": lambda number: HEAD + b"\2" + as_json(number),
}


def written(folder: Path, name: str, payload: Callable[[int], bytes]) -> str:
    """Write records to a file, and return its path."""
    table = pa.table(
        {
            "_payload": pa.array(map(payload, range(ROWS)), pa.binary()),
            "_topic": pa.array(["t"] * ROWS),
        }
    )
    pq.write_table(table, folder / f"{name}.parquet", row_group_size=ROWS // 8)
    return str(folder / f"{name}.parquet")


def read(spark: SparkSession, file: str) -> DataFrame:
    """Return the records of a file."""
    return spark.read.parquet(file)


def parsed(spark: SparkSession, file: str, parse: Parse) -> None:
    """Parse all records, and use every column."""
    rows = parse(read(spark, file), FIELDS)
    consumed(rows.select(F.xxhash64(*FIELDS.fieldNames(), "_problem")))


def consumed(rows: DataFrame) -> None:
    """Compute all rows."""
    rows.write.format("noop").mode("overwrite").save()


def cpu(work: Callable[[], None]) -> float:
    """Return the least CPU seconds of some runs, with those of all processes that were started."""
    return min(machine.cpu(work) for _ in range(RUNS))


if __name__ == "__main__":
    sys.exit(main())
