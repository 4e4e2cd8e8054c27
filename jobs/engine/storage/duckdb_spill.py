"""A DuckDB for whole tables: what exceeds its memory goes to a temporary folder, which is removed afterwards."""

from collections.abc import Iterator
from contextlib import contextmanager

import duckdb

from jobs.engine.storage.scratch import scratch

MEMORY = "512MB"
"""Most memory that the engine takes, whatever the size of the tables; it fits beside a default session of Spark."""


@contextmanager
def spilling() -> Iterator[duckdb.DuckDBPyConnection]:
    """Open an engine that sorts and groups more rows than fit its memory; times are in UTC."""
    with scratch() as folder, duckdb.connect() as duck:
        duck.execute("SET TimeZone = 'UTC'")
        duck.execute("SET enable_progress_bar = false")  # it would go to standard output
        duck.execute(f"SET memory_limit = '{MEMORY}'")
        duck.execute("SET preserve_insertion_order = false")
        duck.execute(f"SET temp_directory = '{str(folder).replace(chr(39), chr(39) * 2)}'")
        yield duck
