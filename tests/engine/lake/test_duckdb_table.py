"""A table read from its files: at its latest version, with columns that were added later, and when it is empty."""

import subprocess
import sys
from pathlib import Path

import pytest
from deltalake import DeltaTable

from strandline.engine.lake.duckdb_table import peek
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
