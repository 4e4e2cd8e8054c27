"""Refusing a stream that would not continue its own table, from the ledger and the checkpoint alone."""

from strandline import catalog

from strandline.core.errors import DamagedError, DefinitionError
from strandline.core.table import Table
from strandline.engine.storage.lake import Lake
from strandline.engine.storage.ledger import last_entry
from strandline.engine.storage.spark_checkpoint import is_ahead, stream_id


def refuse_strangers(table: Table, lake: Lake) -> None:
    """Refuse a stream that would not continue its own table.

    Raises:
        DefinitionError: The table's rows or its source's were written by another stream or by batch.
        DamagedError: Rows that the stream has written are gone.
    """
    checkpoint = lake.checkpoint(table)
    found = last_entry(lake.table(table))
    newest = found[1] if found else None
    if newest is not None and newest.stream != stream_id(checkpoint):
        by_batch = newest.mode == "batch"
        writer = "a batch run" if by_batch else "a stream whose checkpoint is gone"
        raise DefinitionError(
            f"{table.id} was written by {writer}, so a stream has no state to continue it",
            hint="run it with `--mode batch`, or use another lake for the stream.",
            table=table.id,
        )
    for source in table.upstream:
        read = last_entry(lake.table(source))
        if read is not None and read[1].replaced and read[1].promoted is None:
            raise DefinitionError(
                f"{source.id} is replaced as a whole by batch runs, so no stream can follow it",
                hint=f"run {table.id} with `--mode batch` as well.",
                table=table.id,
                source=source.id,
            )
    sources = [lake.table(source) for source in table.upstream]
    if is_ahead(checkpoint, newest.batch if newest else None, sources):
        above = _above(table, lake)
        then = f", then the same with {' and '.join(above)}, which read them" if above else ""
        raise DamagedError(
            f"{table.id} lacks rows that its stream's checkpoint says were written",
            hint=f"`strandline rebuild {table.id}` and `strandline promote {table.id}` compute them again{then}.",
            table=table.id,
            above=above,
        )


def _above(table: Table, lake: Lake) -> list[str]:
    """Return the existing tables downstream of a table, each after those that it reads."""
    reached = [table]
    for other in catalog.tables():
        if any(source in reached for source in other.needs) and lake.exists(other):
            reached.append(other)
    return [each.id for each in reached[1:]]


def refuse_without_source(table: Table, lake: Lake) -> None:
    """See that there is something to read.

    Raises:
        DefinitionError: A table that this one reads was never made.
    """
    for source in table.upstream:
        if not lake.exists(source):
            raise DefinitionError(
                f"{table.id} reads {source.id}, which does not exist in {lake.root} yet",
                hint=f"run them in order: `strandline run {source.id} {table.id}`.",
                table=table.id,
                source=source.id,
            )
