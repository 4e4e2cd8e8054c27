"""Export the open rows of a quarantine to a file, completely, for a repair outside the lake."""

import base64
from collections.abc import Iterator, Mapping
from typing import Any

import orjson

from strandline.core.errors import DefinitionError
from strandline.core.table import Table
from strandline.engine.quarantine.browse import chosen, connected
from strandline.engine.storage.lake import Lake
from strandline.engine.storage.place import Place
from strandline.engine.storage.row_file import write_lines, write_parquet

AT_ONCE = 10_000
"""Rows in memory at the same time."""


def export(table: Table, lake: Lake, file: Place, *, reason: str | None = None) -> int:
    """Write all open rows to a file with all their columns; return how many.

    Bytes are base64 in lines of JSON, and bytes in Parquet. The file is written completely or not at all.

    Raises:
        DefinitionError: The file exists, or its name has no known ending.
    """
    if not file.name.endswith((".ndjson", ".jsonl", ".parquet")):
        raise DefinitionError(
            f"{file.name} does not name a format by its ending",
            hint="use .ndjson or .jsonl for lines of JSON, or .parquet.",
            file=str(file),
        )
    if file.exists():
        raise DefinitionError(f"{file} exists already", hint="choose another name.", file=str(file))
    where, values = chosen(reason, None)
    found = connected(table, lake).execute(
        f"SELECT * EXCLUDE (_state) FROM records WHERE {where} ORDER BY _topic, _partition, _offset",  # noqa: S608  # no user's text
        values,
    )
    batches = found.to_arrow_reader(AT_ONCE)
    try:
        if file.name.endswith(".parquet"):
            return write_parquet(batches, file)
        return write_lines(map(_line, _rows(batches)), file)
    except OSError as error:
        raise DefinitionError(
            f"{file} cannot be written: {error.strerror}",
            hint="choose a folder that exists and can be written.",
            file=str(file),
        ) from error


def _rows(batches: Any) -> Iterator[Mapping[str, Any]]:  # noqa: ANN401  # Arrow has no types
    for batch in batches:
        yield from batch.to_pylist()


def _line(row: Mapping[str, Any]) -> bytes:
    headers = row["_headers"]
    encoded = {
        **row,
        "_message_key": _text(row["_message_key"]),
        "_payload": _text(row["_payload"]),
        "_headers": None
        if headers is None
        else [{"key": each["key"], "value": _text(each["value"])} for each in headers],
    }
    return orjson.dumps(encoded)


def _text(value: bytes | None) -> str | None:
    return None if value is None else base64.b64encode(value).decode()
