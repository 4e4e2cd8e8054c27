"""A DuckDB for whole tables: what does not fit its memory goes to a file, and nothing of it remains afterwards."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

import duckdb

MEMORY = "512MB"
"""Most that the engine keeps; beside a session of the default size, whatever the size of the tables."""


@contextmanager
def spilling() -> Iterator[duckdb.DuckDBPyConnection]:
    """Open an engine that sorts and groups more rows than fit its memory; times are in UTC."""
    with tempfile.TemporaryDirectory(prefix="strandline-") as folder, duckdb.connect() as duck:
        duck.execute("SET TimeZone = 'UTC'")
        duck.execute("SET enable_progress_bar = false")  # it would go to standard output
        duck.execute(f"SET memory_limit = '{MEMORY}'")
        duck.execute("SET preserve_insertion_order = false")
        duck.execute(f"SET temp_directory = '{folder.replace(chr(39), chr(39) * 2)}'")
        yield duck
