"""Readers of Delta tables that are not ours: deltalake, DuckDB's delta extension, and a Spark that has Delta's jars alone.

Each gives the rows of a table as Arrow; ``same`` compares them as the multiset of their values.
"""

import contextlib
import importlib
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
from deltalake import DeltaTable
from pyarrow import feather

from strandline.engine.lake.duckdb_table import scan, session
from strandline.engine.lake.log.ledger import latest_version
from strandline.engine.lake.place import Place
from strandline_infra import java

Read = Callable[[Place], pa.Table]
ATTEMPTS = 30


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


def same(place: Place, readers: dict[str, Read]) -> int:
    """See that readers find the rows that we find, of one version; return their number.

    Where a stream commits meanwhile, it is read again until all have seen one version.
    """
    for _ in range(ATTEMPTS):
        version = latest_version(place)
        expected = rows_of(by_us(place))
        found = {name: rows_of(read(place)) for name, read in readers.items()}
        if latest_version(place) == version:
            break
    else:
        raise AssertionError(f"{place} has had no quiet moment")
    for name, rows in found.items():
        more, less = rows - expected, expected - rows
        assert not more, f"{name} has {sum(more.values())} rows of {place} more: {min(more)}"
        assert not less, f"{name} lacks {sum(less.values())} rows of {place}: {min(less)}"
    return sum(expected.values())


def by_pyiceberg(address: str, layer: str, name: str) -> pa.Table:
    """Read a table of an Iceberg REST catalog by pyiceberg."""
    from pyiceberg.catalog import load_catalog  # noqa: PLC0415  # part of an extra

    return (
        load_catalog("reader", type="rest", uri=address).load_table((layer, name)).scan().to_arrow()
    )


def by_duckdb_in(address: str, layer: str, name: str) -> pa.Table:
    """Read a table of an Iceberg REST catalog by DuckDB's iceberg extension."""
    with duck("httpfs", "avro", "iceberg") as found:
        found.execute(
            f"ATTACH '' AS lake (TYPE iceberg, ENDPOINT '{address}', AUTHORIZATION_TYPE 'none')"
        )
        return found.execute(f'FROM lake."{layer}"."{name}"').to_arrow_table()  # our own names


def in_ducklake(file: str, layer: str, name: str) -> pa.Table:
    """Read a table of a DuckLake by DuckDB's extension."""
    with duck("ducklake") as found:
        found.execute(f"ATTACH 'ducklake:{file}' AS lake (READ_ONLY)")
        return found.execute(f'FROM lake."{layer}"."{name}"').to_arrow_table()
