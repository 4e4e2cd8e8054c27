"""An answer of ``query`` as CSV, JSON or Parquet, on the standard output or in a file.

A Variant comes from its file as two byte strings that are not readable, so it is shown as JSON. A number in it that a
double cannot hold exactly stays a text.
"""

import csv
import importlib
import io
import json
import sys
from collections.abc import Callable, Mapping
from datetime import date, datetime
from decimal import Decimal
from enum import StrEnum
from pathlib import Path
from typing import Any

from pyspark.sql.types import VariantVal

from jobs.cli.screen import note
from jobs.core.errors import DefinitionError
from jobs.engine.trace.sql_query import Answer

VARIANT = {"metadata", "value"}


class Format(StrEnum):
    """The formats of an answer."""

    TABLE = "table"
    CSV = "csv"
    JSON = "json"
    PARQUET = "parquet"


def chosen(wanted: Format | None, to: Path | None, *, as_json: bool) -> Format | None:
    """Return the format that was asked for, by name or by the file's; None for a table on the screen.

    Raises:
        DefinitionError: Two formats were asked for, or a file is needed and none was named.
    """
    if wanted is Format.TABLE:
        if as_json or to is not None:
            raise DefinitionError(
                "a table is for the screen",
                hint="write CSV, JSON or Parquet, or leave --format out.",
            )
        return None
    if as_json and wanted not in (None, Format.JSON):
        raise DefinitionError(
            f"--json and --format {wanted} are two formats", hint="leave one of them out."
        )
    known = [each.value for each in WRITERS]
    found: Format | None = Format.JSON if as_json else wanted
    if found is None and to is not None:
        if to.suffix[1:] not in known:
            raise DefinitionError(
                f"the name of {to} names no format",
                hint=f"give --format {', '.join(known[:-1])} or {known[-1]}.",
            )
        found = Format(to.suffix[1:])
    if found is Format.PARQUET and to is None:
        raise DefinitionError(
            "Parquet is binary and needs a file", hint="name it: --to answer.parquet."
        )
    return found


def deliver(answer: Answer, how: Format, to: Path | None) -> None:
    """Write an answer to the standard output, or to a file, which is replaced if it exists.

    Raises:
        DefinitionError: The file cannot be written.
    """
    written = WRITERS[how](answer)
    if to is None:
        sys.stdout.write(written.decode())
        return
    try:
        to.write_bytes(written)
    except OSError as error:
        raise DefinitionError(
            f"{to} cannot be written: {error.strerror}",
            hint="name a file in a folder that exists and that you may write.",
            file=str(to),
        ) from error
    note(f"wrote {len(answer.rows):,} rows to {to}")


def shown(answer: Answer) -> list[tuple[object, ...]]:
    """Return rows for the screen."""
    return [tuple(_plain(value, lambda text: text) for value in row) for row in answer.rows]


def text_of(answer: Answer, how: Format) -> str:
    """Return an answer as text, for CSV and JSON."""
    return WRITERS[how](answer).decode()


def _csv(answer: Answer) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(answer.columns)
    writer.writerows([[_cell(value) for value in row] for row in shown(answer)])
    return text.getvalue().encode()


def _json(answer: Answer) -> bytes:
    rows = [
        dict(zip(answer.columns, (_plain(value, _value) for value in row), strict=True))
        for row in answer.rows
    ]
    return (json.dumps(rows, indent=2, default=str) + "\n").encode()


def _parquet(answer: Answer) -> bytes:
    # Not imported above: a table on the screen need not wait for it.
    arrow = importlib.import_module("pyarrow")
    parquet = importlib.import_module("pyarrow.parquet")
    rows = shown(answer)
    columns = [arrow.array([row[n] for row in rows]) for n in range(len(answer.columns))]
    table = arrow.Table.from_arrays(columns, names=list(answer.columns))
    file = io.BytesIO()
    parquet.write_table(table, file)
    return file.getvalue()


WRITERS: Mapping[Format, Callable[[Answer], bytes]] = {
    Format.CSV: _csv,
    Format.JSON: _json,
    Format.PARQUET: _parquet,
}


def _cell(value: object) -> object:
    match value:
        case datetime() | date():
            return value.isoformat()
        case bytes():
            return value.decode(errors="backslashreplace")
        case dict() | list():
            return json.dumps(value, default=str)
        case _:
            return value


def _plain(value: object, as_read: Callable[[str], object]) -> Any:  # noqa: ANN401  # whatever a column holds
    """Return a value in which each Variant is replaced by its JSON, as ``as_read`` reads it."""
    match value:
        case dict() if set(value) == VARIANT and all(isinstance(v, bytes) for v in value.values()):
            try:
                return as_read(VariantVal(value["value"], value["metadata"]).toJson())
            except Exception:  # noqa: BLE001  # a struct of these names that is no Variant
                return value
        case dict():
            return {name: _plain(each, as_read) for name, each in value.items()}
        case list():
            return [_plain(each, as_read) for each in value]
        case _:
            return value


def _value(text: str) -> object:
    return json.loads(text, parse_float=_exact)


def _exact(text: str) -> float | str:
    number = float(text)
    is_same = number - number == 0 and Decimal(repr(number)) == Decimal(text)
    return number if is_same else text
