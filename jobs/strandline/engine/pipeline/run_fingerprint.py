"""A hash of all that decides what a table's stream runs: found from files alone, so that an unchanged table costs no JVM."""

import hashlib
import inspect
from collections.abc import Iterator, Mapping

from strandline.core.table import Judged, Streamed
from strandline.engine.pipeline.stateful_plan import output_mode
from strandline.engine.runtime.meter import code_version, query_version
from strandline.engine.storage.declared_table import DeclaredTable, declared_table
from strandline.engine.storage.lake import Lake


def source_tables(table: Streamed, lake: Lake) -> dict[str, DeclaredTable]:
    """Return the tables that a stream reads, as they are now; one that was never made is absent."""
    found = {each.id: declared_table(lake.table(each)) for each in table.upstream}
    return {name: each for name, each in found.items() if each is not None}


def fingerprint(table: Streamed, lake: Lake, sources: Mapping[str, DeclaredTable]) -> str:
    """Return the hash of code, declaration, sources and sink."""
    digest = hashlib.sha256()
    for part in _parts(table, lake, sources):
        digest.update(part.encode() + b"\0")
    return digest.hexdigest()


def _parts(table: Streamed, lake: Lake, sources: Mapping[str, DeclaredTable]) -> Iterator[str]:
    yield code_version(table)
    yield query_version()
    function = inspect.unwrap(getattr(table.transform, "func", table.transform))
    yield f"{type(table).__name__} {function.__qualname__}"
    yield f"{table.key} {table.event_at} {table.closes_at} {table.lateness} {table.rules}"
    if isinstance(table, Judged) and table.believes_history:
        yield "believes history"
    yield f"{output_mode(table)} {getattr(table, 'window_from', '')}"
    for source in table.upstream:
        yield f"{source.id} {source.event_at} {source.lateness} {sources.get(source.id)}"
    yield str(declared_table(lake.table(table)))
