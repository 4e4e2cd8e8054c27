"""The newest rows of a Delta table, from the few files that hold them, however many others there are."""

from datetime import UTC, datetime
from typing import Any
from urllib.parse import unquote

from strandline.engine.storage.duckdb_table import peek_files
from strandline.engine.storage.ledger import is_table
from strandline.engine.storage.open_table import opened, statistics
from strandline.engine.storage.place import Place

EARLIEST = datetime.min.replace(tzinfo=UTC)


def newest_rows(path: Place, column: str, number: int) -> list[dict[str, Any]]:
    """Return the rows with the latest times in a column, the latest first.

    A file that ends before the newest files that hold as many rows is not opened. Rows that are appended in the order of
    their times, as arrivals are, are the newest; of others it is a row of the newest files.
    """
    if not is_table(path):
        return []
    adds = statistics(opened(path))
    names = [name for name in ("path", "num_records", f"max.{column}") if name in adds.schema.names]
    files = [
        {name: value.as_py() for name, value in zip(names, values, strict=True)}
        for values in zip(*(adds[name] for name in names), strict=True)
    ]
    files.sort(key=lambda file: _aware(file.get(f"max.{column}")), reverse=True)
    chosen, rows = [], 0
    for file in files:
        if rows >= number:
            break
        chosen.append(str(path / unquote(file["path"])))
        rows += file["num_records"]
    if not chosen:
        return []
    sql = f'SELECT * FROM rows ORDER BY "{column}" DESC LIMIT {number}'  # noqa: S608  # our own names
    found = peek_files(chosen, "rows").named(sql)
    return [{name: _zoned(value) for name, value in row.items()} for row in found]


def _aware(moment: datetime | None) -> datetime:
    if moment is None:
        return EARLIEST
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _zoned(value: object) -> object:
    """Return a value; Spark's files hold times without a zone, which are in UTC."""
    return value.replace(tzinfo=UTC) if isinstance(value, datetime) and not value.tzinfo else value
