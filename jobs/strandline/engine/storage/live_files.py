"""The files of a table's latest version as its log names them, from Delta's newest checkpoint and the commits after it.

delta-rs parses the statistics and decodes the paths; a commit that removes a file must repeat the path as it is, and one that
puts files together needs their statistics as they are. No JVM is needed.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow.parquet as pq

from strandline.engine.storage.commit_log import Kind, actions, log_of
from strandline.engine.storage.ledger import latest_version
from strandline.engine.storage.place import Place

COLUMNS = ("path", "partitionValues", "size", "modificationTime", "stats")
METADATA = ("schemaString", "partitionColumns", "configuration")
ROWS = 10_000
"""Rows of a checkpoint that are in memory at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveFiles:
    """The files of a version.

    Args:
        version: The version.
        files: What the log says of each, by its path as in the log.
        metadata: The table's columns, partitions and properties, as in the log.
        reader: The version of Delta that a reader needs: above 1, a file may hold rows that the log says are deleted.
    """

    version: int
    files: Mapping[str, Mapping[str, Any]]
    metadata: Mapping[str, Any]
    reader: int


def live_files(path: Place) -> LiveFiles:
    """Read the files of a table's latest version."""
    latest = latest_version(path)
    known = json.loads((log_of(path) / "_last_checkpoint").text() or "{}")
    begun = int(known.get("version", -1))
    files: dict[str, Mapping[str, Any]] = {}
    metadata: Mapping[str, Any] = {}
    reader = 1
    for name in _parts(begun, known.get("parts")) if begun >= 0 else ():
        for kind, body in _checkpointed(log_of(path) / name):
            match kind:
                case Kind.METADATA:
                    metadata = body
                case Kind.PROTOCOL:
                    reader = body["minReaderVersion"]
                case _:
                    files[body["path"]] = body
    for version in range(begun + 1, latest + 1):
        added: dict[str, Mapping[str, Any]] = {}
        for action in actions(path, version, Kind.ADD, Kind.REMOVE, Kind.METADATA, Kind.PROTOCOL):
            match action.kind:
                case Kind.ADD:
                    added[action.body["path"]] = {name: action.body.get(name) for name in COLUMNS}
                case Kind.REMOVE:
                    files.pop(action.body["path"], None)
                case Kind.PROTOCOL:
                    reader = action.body["minReaderVersion"]
                case _:
                    metadata = action.body
        files |= added
    return LiveFiles(version=latest, files=files, metadata=metadata, reader=reader)


def _parts(version: int, parts: int | None) -> Iterator[str]:
    if not parts:
        yield f"{version:020d}.checkpoint.parquet"
        return
    for part in range(1, parts + 1):
        yield f"{version:020d}.checkpoint.{part:010d}.{parts:010d}.parquet"


def _checkpointed(file: Place) -> Iterator[tuple[Kind, Mapping[str, Any]]]:
    wanted = [
        "protocol.minReaderVersion",
        *(f"add.{name}" for name in COLUMNS),
        *(f"metaData.{name}" for name in METADATA),
    ]
    for batch in pq.ParquetFile(file.source()).iter_batches(batch_size=ROWS, columns=wanted):
        for row in batch.to_pylist():
            add, metadata, protocol = row["add"], row["metaData"], row["protocol"]
            if add and add["path"]:
                yield Kind.ADD, {**add, "partitionValues": dict(add["partitionValues"] or ())}
            elif metadata and metadata["schemaString"]:
                known = dict(metadata["configuration"] or ())
                yield Kind.METADATA, {**metadata, "configuration": known}
            elif protocol and protocol["minReaderVersion"]:
                yield Kind.PROTOCOL, protocol
