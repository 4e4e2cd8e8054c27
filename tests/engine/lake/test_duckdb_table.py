"""A table read from its files: at its latest version, with columns that were added later, and when it is empty."""

import random
import subprocess
import sys
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from strandline.engine.lake.duckdb_table import Columns, File, Range, peek, rows_of_files, session
from strandline.engine.lake.place import Place
from tests.engine.written import written


def test_rows_are_those_of_the_latest_version(tmp_path: Path) -> None:
    """Removed files are still in the folder, but their rows are no longer in the table."""
    written(tmp_path, [{"a": 1}, {"a": 2}])
    written(tmp_path, [{"a": 3}])
    DeltaTable(tmp_path).delete("a = 1")

    assert peek(Place.of(tmp_path), "t").ask("SELECT a FROM t ORDER BY a") == [(2,), (3,)]


def test_an_empty_table_has_its_columns(tmp_path: Path) -> None:
    """An empty history can be queried."""
    written(tmp_path, [{"a": 1}])
    DeltaTable(tmp_path).delete()

    assert peek(Place.of(tmp_path), "t").ask("SELECT count(a) FROM t") == [(0,)]


@pytest.mark.whole
def test_values_are_values_whatever_they_contain(tmp_path: Path) -> None:
    """A quote in a value must not end the literal."""
    written(tmp_path, [{"name": "it's"}, {"name": "x' OR 'x' = 'x"}])
    sql = "SELECT name FROM t WHERE name = getvariable('wanted')"

    found = peek(Place.of(tmp_path), "t").named(sql, wanted="x' OR 'x' = 'x")

    assert found == [{"name": "x' OR 'x' = 'x"}]


LOOK = """
import sys
from strandline.engine.lake.duckdb_table import peek
from strandline.engine.lake.place import Place
peek(Place.of(sys.argv[1]), "t").ask("SELECT a + getvariable('n') FROM t", n=1)
sys.exit("pandas" in sys.modules)
"""


@pytest.mark.whole
def test_a_query_imports_no_pandas(tmp_path: Path) -> None:
    """The import takes longer than the answer."""
    written(tmp_path, [{"a": 1}])

    done = subprocess.run([sys.executable, "-c", LOOK, tmp_path], check=False, timeout=300)

    assert done.returncode == 0


def test_rows_of_files_are_those_of_each_whatever_their_columns_and_types_were(
    tmp_path: Path,
) -> None:
    """Files of before lack a column, have it with another type, or in another order; some are of other folders, one has no row."""
    some, noon = random.Random(5), datetime(2026, 11, 1, 12, tzinfo=UTC)  # noqa: S311  # for rows
    kinds = [pa.int32(), pa.int64(), pa.float64(), pa.string()]
    wanted = {"n": "BIGINT", "at": "TIMESTAMPTZ", "late": "VARCHAR", "day": "VARCHAR"}
    columns = Columns(kinds=wanted, key=1)
    files = []
    for number in range(40):
        rows = some.choice([0, 1, 5])
        at = [noon + timedelta(minutes=some.randrange(600)) for _ in range(rows)]
        own: dict[str, pa.Array] = {
            "n": pa.array([some.randrange(9) for _ in range(rows)]).cast(some.choice(kinds)),
            "at": pa.array(at, pa.timestamp("us", tz="UTC")),
        }
        if some.random() < 0.5:
            own["late"] = pa.array([some.choice(["a", None]) for _ in range(rows)], pa.string())
        names = some.sample([*own], len(own))
        file = tmp_path / f"it's {number}.parquet"
        pq.write_table(pa.table({name: own[name] for name in names}), file)
        files.append(File(str(file), rows, {"day": some.choice(["1", "2", None])}))
    within = Range("at", noon, noon + timedelta(hours=5))

    with session() as duck:
        for range_ in (None, within):
            each = [rows_of_files(duck, [file], columns, range_) for file in files]
            alone = Counter(row for sql in each for row in duck.execute(sql).fetchall())
            sql = rows_of_files(duck, files, columns, range_)
            assert Counter(duck.execute(sql).fetchall()) == alone
            assert sql.count(" UNION ALL ") < len(files) - 1
            assert alone
        assert not duck.execute(rows_of_files(duck, [], columns)).fetchall()
