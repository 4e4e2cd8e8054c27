"""Export the open rows of a quarantine to a file, completely, for a repair outside the lake."""

import base64
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson
import pyarrow.parquet as pq

from jobs.core.errors import DefinitionError
from jobs.core.table import Table
from jobs.engine.quarantine.browse import chosen, connected
from jobs.engine.storage.lake import Lake

AT_ONCE = 10_000
"""Rows in memory at the same time."""


def export(table: Table, lake: Lake, file: Path, *, reason: str | None = None) -> int:
    """Write all open rows to a file with all their columns; return how many.

    Bytes are base64 in lines of JSON, and bytes in Parquet. The file is written completely or not at all.

    Raises:
        DefinitionError: The file exists, or its name has no known ending.
    """
    if file.suffix not in {".ndjson", ".jsonl", ".parquet"}:
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
    draft = file.with_name(f".{file.name}.new")
    try:
        write = _as_parquet if file.suffix == ".parquet" else _as_lines
        count = write(found.to_arrow_reader(AT_ONCE), draft)
        draft.replace(file)
    except OSError as error:
        raise DefinitionError(
            f"{file} cannot be written: {error.strerror}",
            hint="choose a folder that exists and can be written.",
            file=str(file),
        ) from error
    finally:
        draft.unlink(missing_ok=True)
    return count


def _as_parquet(found: Any, file: Path) -> int:  # noqa: ANN401  # Arrow has no types
    count = 0
    with pq.ParquetWriter(file, found.schema) as writer:
        for batch in found:
            writer.write_batch(batch)
            count += batch.num_rows
    return count


def _as_lines(found: Any, file: Path) -> int:  # noqa: ANN401  # as above
    count = 0
    with file.open("wb") as lines:
        for batch in found:
            for row in _encoded(batch.to_pylist()):
                lines.write(orjson.dumps(row) + b"\n")
                count += 1
    return count


def _encoded(records: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, object]]:
    for row in records:
        headers = row["_headers"]
        yield {
            **row,
            "_message_key": _text(row["_message_key"]),
            "_payload": _text(row["_payload"]),
            "_headers": None
            if headers is None
            else [{"key": each["key"], "value": _text(each["value"])} for each in headers],
        }


def _text(value: bytes | None) -> str | None:
    return None if value is None else base64.b64encode(value).decode()
