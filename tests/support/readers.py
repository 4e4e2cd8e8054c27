"""Readers of Delta tables that are not ours: deltalake, DuckDB's delta extension, and a Spark that has Delta's jars alone.

Each gives the rows of a table as Arrow; ``same`` compares them as the multiset of their values.
"""

import contextlib
import importlib
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import duckdb
import pyarrow as pa
from deltalake import DeltaTable
from pyarrow import feather

from strandline.engine.lake.duckdb_table import scan, session
from strandline.engine.lake.log.ledger import latest_version
from strandline.engine.lake.place import Place
from strandline_infra import java
from tests.support.s3_server import S3Server

Read = Callable[[Place], pa.Table]


def extension(name: str) -> str:
    """Return the file of an extension of DuckDB, which a wheel brings."""
    module = importlib.import_module(f"duckdb_extension_{name}")
    (found,) = Path(str(module.__file__)).parent.rglob(f"{name}.duckdb_extension")
    return str(found)


@contextlib.contextmanager
def duck(*extensions: str) -> Iterator[duckdb.DuckDBPyConnection]:
    """Open a database with some extensions, in UTC."""
    with duckdb.connect() as found:
        found.execute("SET TimeZone = 'UTC'; SET autoinstall_known_extensions = false")
        for name in extensions:
            found.execute(f"LOAD '{extension(name)}'")
        yield found


def by_us(place: Place, version: int | None = None) -> pa.Table:
    """Read a table as Strandline does, at a version or at its latest."""
    with session() as own:
        scan(own, "rows", place, version)
        return own.execute("FROM rows").to_arrow_table()


def by_deltalake(place: Place) -> pa.Table:
    """Read a table by delta-rs, with none of its options."""
    return DeltaTable(str(place)).to_pyarrow_table()


def by_duckdb(place: Place) -> pa.Table:
    """Read a table by DuckDB's delta extension, with none of its options."""
    with duck("delta") as found:
        return found.execute("FROM delta_scan(?)", [str(place)]).to_arrow_table()


class PlainSpark:
    """A Spark in a process of its own that knows nothing of Strandline: Delta's jars, and its defaults."""

    def __init__(self, folder: Path) -> None:
        """Start it; what it reads it leaves in the folder."""
        self._folder, self._number = folder, 0
        jars = [str(jar) for jar in java.spark_jars() if jar.name.startswith("delta-")]
        home = java.java_home()
        assert jars
        assert home
        self._log = (folder / "plain_spark.log").open("wb")
        self._child = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, ",".join(jars), str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            env={"JAVA_HOME": str(home), "PATH": "/usr/bin:/bin", "TZ": "UTC"},
            cwd=folder,
            text=True,
        )

    def __call__(self, place: Place) -> pa.Table:
        """Read a table."""
        assert self._child.stdin
        assert self._child.stdout
        self._number += 1
        file = self._folder / f"{self._number}.arrow"
        self._child.stdin.write(json.dumps([str(place), str(file)]) + "\n")
        self._child.stdin.flush()
        answer = self._child.stdout.readline().strip()
        assert answer == "done", answer or (self._folder / "plain_spark.log").read_text()[-3000:]
        return feather.read_table(file, memory_map=False)

    def close(self) -> None:
        """End it."""
        self._child.communicate(timeout=120)
        self._log.close()


PROGRAM = """
import json, sys
from pathlib import Path
from pyspark.sql import SparkSession
import pyarrow.feather as feather
jars, folder = sys.argv[1:]
spark = (
    SparkSession.builder.master("local[1]")
    .config("spark.jars", jars)
    .config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
    .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
    .config("spark.sql.session.timeZone", "UTC")
    .config("spark.driver.host", "127.0.0.1")
    .config("spark.driver.bindAddress", "127.0.0.1")
    .config("spark.ui.enabled", "false")
    .config("spark.sql.warehouse.dir", folder + "/warehouse")
    .config("spark.databricks.delta.snapshotPartitions", "1")
    .config("spark.sql.shuffle.partitions", "1")
    .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
    .config("spark.sql.execution.arrow.pyspark.selfDestruct.enabled", "false")
    .getOrCreate()
)
for line in sys.stdin:
    path, file = json.loads(line)
    try:
        rows = spark.read.format("delta").load(path).toArrow()
        feather.write_feather(rows, file, compression="uncompressed")
        print("done", flush=True)
    except Exception as error:
        print(type(error).__name__, str(error).replace("\\n", " ")[:2000], flush=True)
spark.stop()
"""


def rows_of(table: pa.Table, *, by_pyiceberg: bool = False) -> Counter[str]:
    """Return the rows of a table as texts, whatever their order and that of the columns.

    Where one side is read by pyiceberg 0.12, a list that is NULL counts as an empty one on both: it makes the former the latter.
    """
    names = sorted(table.column_names)
    columns = [[_text(each) for each in _values(table[name])] for name in names]
    if by_pyiceberg:
        columns = [
            ["[]" if each == "None" else each for each in column]
            if pa.types.is_nested(table[name].type) and not pa.types.is_struct(table[name].type)
            else column
            for name, column in zip(names, columns, strict=True)
        ]
    return Counter(
        "; ".join(f"{name}={value}" for name, value in zip(names, row, strict=True))
        for row in zip(*columns, strict=True)
    )


def _values(column: pa.ChunkedArray) -> list[Any]:
    if pa.types.is_timestamp(column.type):  # of any year
        kind = pa.timestamp("us", column.type.tz)
        return list(column.cast(kind).cast(pa.int64()).to_pylist())
    return list(column.to_pylist())


def _text(value: object) -> str:
    match value:
        case datetime():
            return value.astimezone(UTC).isoformat()
        case date():
            return value.isoformat()
        case dict():
            return f"{{{', '.join(f'{k}: {_text(v)}' for k, v in sorted(value.items()))}}}"
        case list() | tuple():
            return f"[{', '.join(map(_text, value))}]"
        case memoryview() | bytearray():
            return repr(bytes(value))
        case _:
            return repr(value)


def same(place: Place, readers: Mapping[str, Read]) -> int:
    """See that each reader finds the rows that we find, of one version; return their number.

    A stream may commit meanwhile: then it is a version between the one before the reader began and the one when it was done.
    """
    ours: dict[int, Counter[str]] = {}
    number = 0
    for name, read in readers.items():
        first = latest_version(place)
        found = rows_of(read(place))
        last = latest_version(place)
        for version in range(first, last + 1):
            if version not in ours:
                ours[version] = rows_of(by_us(place, version))
        number = sum(found.values())
        if all(found != ours[version] for version in range(first, last + 1)):
            more, less = found - ours[last], ours[last] - found
            raise AssertionError(
                f"{name} reads no version from {first} to {last} of {place}: {number} rows, beside the last one "
                f"{sum(more.values())} more ({min(more, default='')}), {sum(less.values())} fewer ({min(less, default='')})"
            )
    return number


def by_pyiceberg(address: str, layer: str, name: str, s3: S3Server | None = None) -> pa.Table:
    """Read a table of an Iceberg REST catalog by pyiceberg."""
    from pyiceberg.catalog import load_catalog  # noqa: PLC0415  # part of an extra

    known = load_catalog("reader", type="rest", uri=address, **iceberg_options(s3))
    return known.load_table((layer, name)).scan().to_arrow()


def iceberg_options(s3: S3Server | None) -> dict[str, str]:
    """Return what pyiceberg's client must know of a store."""
    return (
        {
            "s3.endpoint": s3.address,
            "s3.access-key-id": s3.key,
            "s3.secret-access-key": s3.secret,
            "s3.region": "us-east-1",
        }
        if s3
        else {}
    )


def by_duckdb_in(address: str, layer: str, name: str, s3: S3Server | None = None) -> pa.Table:
    """Read a table of an Iceberg REST catalog by DuckDB's iceberg extension."""
    with duck("httpfs", "avro", "iceberg") as found:
        if s3:
            found.execute(
                f"CREATE SECRET (TYPE s3, KEY_ID '{s3.key}', SECRET '{s3.secret}', REGION 'us-east-1', "
                f"ENDPOINT '{urlsplit(s3.address).netloc}', URL_STYLE 'path', USE_SSL false)"
            )
        found.execute(
            f"ATTACH '' AS lake (TYPE iceberg, ENDPOINT '{address}', AUTHORIZATION_TYPE 'none')"
        )
        return found.execute(f'FROM lake."{layer}"."{name}"').to_arrow_table()  # our own names


def by_duckdb_in_unity(address: str, token: str, catalog: str, layer: str, name: str) -> pa.Table:
    """Read a table of a Unity Catalog by DuckDB's extension."""
    with duck("httpfs", "delta", "unity_catalog") as found:
        found.execute(
            f"CREATE SECRET (TYPE unity_catalog, TOKEN '{token}', ENDPOINT '{address}', AWS_REGION 'us-east-1')"
        )
        found.execute(f"ATTACH '{catalog}' AS uc (TYPE unity_catalog)")
        return found.execute(f'FROM uc."{layer}"."{name}"').to_arrow_table()


def in_ducklake(file: str, layer: str, name: str) -> pa.Table:
    """Read a table of a DuckLake by DuckDB's extension."""
    with duck("ducklake") as found:
        found.execute(f"ATTACH 'ducklake:{file}' AS lake (READ_ONLY)")
        return found.execute(f'FROM lake."{layer}"."{name}"').to_arrow_table()
