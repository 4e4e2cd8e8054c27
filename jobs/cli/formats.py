"""An answer of ``query`` as CSV, JSON or Parquet, on the standard output or in a file.

A Variant comes from its file as two runs of bytes, which say nothing to anybody: it is shown as the JSON that it is. A
number of it that a double cannot hold exactly stays a text.
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
from jobs.run.ask import Answer

VARIANT = {"metadata", "value"}


class Format(StrEnum):
    """In what an answer is written."""

    CSV = "csv"
    JSON = "json"
    PARQUET = "parquet"


def chosen(wanted: Format | None, to: Path | None, *, as_json: bool) -> Format | None:
    """Return the format that was asked for, by name or by the file's; None for a person.

    Raises:
        DefinitionError: It contradicts itself, or no file is named where one is needed.
    """
    if as_json and wanted not in (None, Format.JSON):
        raise DefinitionError(
            f"--json and --format {wanted} are two formats", hint="leave one of them out."
        )
    known = [each.value for each in Format]
    found = Format.JSON if as_json else wanted
    if found is None and to is not None:
        if to.suffix[1:] not in known:
            raise DefinitionError(
                f"the name of {to} does not say in which format it is to be written",
                hint=f"say --format {', '.join(known[:-1])} or {known[-1]}.",
            )
        found = Format(to.suffix[1:])
    if found is Format.PARQUET and to is None:
        raise DefinitionError(
            "Parquet is bytes, and they belong into a file", hint="name it: --to answer.parquet."
        )
    return found


def deliver(answer: Answer, how: Format, to: Path | None) -> None:
    """Write an answer to the standard output, or to a file, which is replaced if it is there.

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
            hint="name a file in a folder that is there and that you may write.",
            file=str(to),
        ) from error
    note(f"wrote {len(answer.rows):,} rows to {to}")


def shown(answer: Answer) -> list[tuple[object, ...]]:
    """Return rows as a person reads them."""
    return [tuple(_plain(value, lambda text: text) for value in row) for row in answer.rows]


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
    # Not imported above, because who wants a table on the screen need not wait for it.
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
    """Return a value with each Variant in it as what its JSON is read as."""
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
