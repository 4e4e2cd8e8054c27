"""Give columns of a table another name: its files are written again with it, in one commit that changes no row.

Why not Delta's column mapping, by which a name is changed in the log alone: the files keep the former names, so each reader of
files would have to translate them, and a stream over the table ends at the change until its user says by three settings
that it may go on. The price is the table's bytes once, and nothing is computed.

The commit says ``dataChange: false`` as a compaction does, so streams that have read the table up to it go on after it, and
it has no ledger entry. A stream that has not, or a new one, cannot read what lies before: the former begins anew, the latter
with a snapshot (jobs/strandline/engine/lake/log/ledger_sums.py).
"""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from urllib.parse import quote, unquote
from uuid import uuid4

from strandline.core.errors import DefinitionError, TransientError
from strandline.engine.lake.commit.compact import (
    GROUP,
    HIGHEST,
    LOWEST,
    NULLS,
    is_copied,
    open_file,
    refuse_different,
    removal,
    writing,
)
from strandline.engine.lake.files.place import Place, keep_files
from strandline.engine.lake.locks import turn_without_jvm
from strandline.engine.lake.log.commit_log import commit_file, sum_file
from strandline.engine.lake.log.ledger import latest_version
from strandline.engine.lake.log.log_actions import LiveFiles, live_files
from strandline.engine.lake.read.open_table import WAS, first_names, opened

SKIPPING = "delta.dataSkippingStatsColumns"


def rename_columns(path: Place, names: Mapping[str, str], now: datetime) -> None:
    """Give columns of a table other names, and their values with them.

    Args:
        path: The table, which no other writes meanwhile.
        names: The new name of each, by its former one.
        now: The present.

    Raises:
        DefinitionError: A column is of a type that is not copied here, or the table's rows are divided by it.
        TransientError: Another process changed the table meanwhile.
    """
    found = live_files(path)
    declared = json.loads(found.metadata["schemaString"])
    divided = set(found.metadata["partitionColumns"]).intersection(names)
    if found.reader > 1 or divided or not is_copied(declared):
        raise DefinitionError(
            f"columns of {path.parent.name}.{path.name} get no other name in place: "
            + ("its rows are divided by it" if divided else "it has types that are not copied"),
            hint="without --rename the table is computed anew.",
        )
    changed: list[tuple[Mapping[str, Any], dict[str, Any]]] = []
    try:
        for file in found.files.values():
            written = _renamed(path / unquote(file["path"]), names)
            changed += [(file, _named_anew(file, written, names))] if written else []
        is_done = _commit_names(path, found, changed, names, now)
    except BaseException:
        _remove_written(path, changed)
        raise
    if not is_done:
        _remove_written(path, changed)
        raise TransientError(
            f"{path.parent.name}.{path.name} was changed by another process while its columns were renamed",
            hint="nothing was changed; type it again.",
        )


def _remove_written(path: Place, changed: Sequence[tuple[object, Mapping[str, Any]]]) -> None:
    for _, added in changed:
        (path / unquote(added["path"])).remove()


def _renamed(file: Place, names: Mapping[str, str]) -> Place | None:
    """Write the rows of a file with other names of columns, and return the new file; None where it has none of them."""
    import pyarrow as pa  # noqa: PLC0415  # its import takes longer than most answers

    source = open_file(file)
    own = source.schema_arrow.remove_metadata()
    if not set(own.names).intersection(names):
        return None
    schema = pa.schema([each.with_name(names.get(each.name, each.name)) for each in own])
    target = file.parent / f"part-00000-{uuid4()}-c000.zstd.parquet"
    try:
        with writing(target, schema) as writer:
            for batch in source.iter_batches(batch_size=GROUP, use_threads=False):
                writer.write_batch(pa.RecordBatch.from_arrays(batch.columns, schema=schema))
        refuse_different([file], target)
    except BaseException:
        target.remove()
        raise
    keep_files([target], within=file.parent)
    return target


def _named_anew(
    file: Mapping[str, Any], written: Place, names: Mapping[str, str]
) -> dict[str, Any]:
    folder, slash, _ = file["path"].rpartition("/")
    stats = json.loads(file["stats"]) if file["stats"] else None
    if stats:
        for side in (LOWEST, HIGHEST, NULLS):
            stats[side] = {names.get(name, name): v for name, v in stats.get(side, {}).items()}
    return {
        "path": f"{folder}{slash}{quote(written.name)}",
        "partitionValues": file["partitionValues"],
        "size": written.size(),
        "modificationTime": file["modificationTime"],
        "dataChange": False,
        **({"stats": json.dumps(stats, separators=(",", ":"))} if stats else {}),
    }


def _metadata(path: Place, names: Mapping[str, str]) -> dict[str, Any]:
    """Return what the log will say of the table."""
    table = opened(path)
    about, schema = table.metadata(), json.loads(table.schema().to_json())
    for each in schema["fields"]:
        each["name"] = names.get(each["name"], each["name"])
    properties = dict(about.configuration)
    known = first_names(path)
    firsts = {old: known.get(old, old) for old in names}
    for old in names:
        properties.pop(f"{WAS}{old}", None)
    properties |= {f"{WAS}{new}": firsts[old] for old, new in names.items()}
    if SKIPPING in properties:
        listed = properties[SKIPPING].split(",")
        properties[SKIPPING] = ",".join(names.get(each, each) for each in listed)
    return {
        "id": about.id,
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps(schema, separators=(",", ":")),
        "partitionColumns": about.partition_columns,
        "configuration": properties,
        "createdTime": about.created_time,
    }


def _commit_names(
    path: Place,
    found: LiveFiles,
    changed: Sequence[tuple[Mapping[str, Any], dict[str, Any]]],
    names: Mapping[str, str],
    now: datetime,
) -> bool:
    """Commit the exchange of all files, unless anything else was committed meanwhile."""
    with turn_without_jvm(path):
        version = latest_version(path)
        if version != found.version:
            return False
        at, metadata = int(now.timestamp() * 1000), _metadata(path, names)
        info = {
            "timestamp": at,
            "operation": "RENAME COLUMN",
            "operationParameters": {old: json.dumps(new) for old, new in names.items()},
            "readVersion": version,
            "isBlindAppend": False,
            "engineInfo": "Strandline",
            "txnId": str(uuid4()),
        }
        actions: list[Mapping[str, Any]] = [{"commitInfo": info}, {"metaData": metadata}]
        actions += [removal(file, at) for file, _ in changed]
        actions += [{"add": added} for _, added in changed]
        lines = [json.dumps(action, separators=(",", ":")) for action in actions]
        sum_file(path, version + 1).remove_file()
        if not commit_file(path, version + 1).create("\n".join(lines) + "\n"):
            return False
        _sum_up_names(path, version, metadata, changed, str(info["txnId"]))
        return True


def _sum_up_names(
    path: Place,
    version: int,
    metadata: Mapping[str, Any],
    changed: Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]],
    transaction: str,
) -> None:
    before = sum_file(path, version).text()
    if before is None:
        return
    sums = json.loads(before)
    sums.pop("fileSizeHistogram", None)
    instead = {file["path"]: dict(added) for file, added in changed}
    more = sum(added["size"] - file["size"] for file, added in changed)
    sums |= {
        "txnId": transaction,
        "tableSizeBytes": sums["tableSizeBytes"] + more,
        "metadata": metadata,
    }
    if (known := sums.get("allFiles")) is not None:
        sums["allFiles"] = [instead.get(file["path"], file) for file in known]
    sum_file(path, version + 1).put(json.dumps(sums, separators=(",", ":")))
