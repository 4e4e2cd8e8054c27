"""Write the rows of several data files of a table into one, sorted, and compare them before a version names it.

Without a JVM: the work runs beside a stream on the same cores, and Arrow needs a fifth of the memory that a second Spark
would. Times are written as Spark writes them here (INT96), so a table's files stay alike.

The rows of a table with a key are sorted by it, so that a look-up by key reads a few groups of a file. Those of bronze stay
in their order, which is that of their commits.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from strandline.core.errors import DataError
from strandline.engine.storage.duckdb_session import Duck, let_read, spilling
from strandline.engine.storage.lasting_files import keep_files
from strandline.engine.storage.place import Place

if TYPE_CHECKING:
    import pyarrow as pa

GROUP = 50_000
"""Rows of a group, the piece of a file that a reader skips or reads."""

COMPARED = """
    SELECT count(*), sum(hash(rows)::HUGEINT)
    FROM read_parquet(getvariable('files_'), union_by_name = true, hive_partitioning = false) AS rows
"""
"""The number of rows, and a sum over all of their values that no order changes."""


def merged_file(files: Sequence[Place], folder: Place, sorted_by: Sequence[str]) -> Place:
    """Write the rows of some files into one of a folder, and return it; nothing is committed.

    Args:
        files: The files, in the order of their rows.
        folder: Where the new file comes.
        sorted_by: The columns by which the rows are sorted; none to keep their order.

    Raises:
        DataError: A file cannot be read, or the rows of the new file are not those of the others.
    """
    import pyarrow as pa  # noqa: PLC0415  # its import takes longer than most answers

    target = folder / f"part-00000-{uuid4()}-c000.zstd.parquet"
    try:
        if sorted_by:
            _write_sorted(files, target, sorted_by)
        else:
            _write_one_by_one(files, target)
        _refuse_different(files, target)
    except BaseException as error:
        target.remove()
        if isinstance(error, pa.ArrowException):
            raise _unreadable(folder, files, error) from error
        raise
    keep_files([target], within=folder)  # the others are deleted one day
    return target


def _unreadable(folder: Place, files: Sequence[Place], error: Exception) -> DataError:
    return DataError(
        f"{len(files)} files of {folder} were not put together, because one cannot be read: {error}",
        hint="nothing was changed; `strandline ledger` names a table that lacks rows, and `strandline rebuild` makes it anew.",
        folder=str(folder),
    )


def _write_sorted(files: Sequence[Place], target: Place, columns: Sequence[str]) -> None:
    import pyarrow as pa  # noqa: PLC0415  # as above

    schema = _schema(files)
    rows = pa.concat_tables(
        [_shaped(_opened(file).read(use_threads=False), schema) for file in files]
    )
    known = [(name, "ascending") for name in columns if name in schema.names]
    with _writer(target, schema) as writer:
        writer.write_table(rows.sort_by(known), row_group_size=GROUP)


def _write_one_by_one(files: Sequence[Place], target: Place) -> None:
    """Copy rows in pieces, so that memory does not grow with the files."""
    import pyarrow as pa  # noqa: PLC0415  # as above

    schema = _schema(files)
    with _writer(target, schema) as writer:
        gathered: list[Any] = []
        for file in files:
            for batch in _opened(file).iter_batches(batch_size=GROUP, use_threads=False):
                gathered.append(_shaped(pa.Table.from_batches([batch]), schema))
                if sum(map(len, gathered)) >= GROUP:
                    writer.write_table(pa.concat_tables(gathered), row_group_size=GROUP)
                    gathered = []
        if gathered:
            writer.write_table(pa.concat_tables(gathered), row_group_size=GROUP)


def _opened(file: Place) -> Any:  # noqa: ANN401  # Arrow has no types
    import pyarrow.parquet as pq  # noqa: PLC0415  # as above

    return pq.ParquetFile(
        file.source(), coerce_int96_timestamp_unit="us", page_checksum_verification=True
    )


@contextmanager
def _writer(target: Place, schema: "pa.Schema") -> Iterator[Any]:
    import pyarrow.parquet as pq  # noqa: PLC0415  # as above

    target.parent.make()
    how = {
        "compression": "zstd",
        "use_deprecated_int96_timestamps": True,
        "store_schema": False,
        "write_page_checksum": True,
    }
    with target.written() as file, pq.ParquetWriter(file, schema, **how) as writer:
        yield writer


def _schema(files: Sequence[Place]) -> "pa.Schema":
    """Return the columns of all files; older ones may lack some."""
    import pyarrow as pa  # noqa: PLC0415  # as above

    found = [_opened(file).schema_arrow.remove_metadata() for file in files]
    return pa.unify_schemas(found)


def _shaped(rows: "pa.Table", schema: "pa.Schema") -> "pa.Table":
    """Return rows in the columns of a schema; one that is missing is NULL."""
    import pyarrow as pa  # noqa: PLC0415  # as above

    columns = [
        rows[each.name].cast(each.type)
        if each.name in rows.schema.names
        else pa.nulls(len(rows), each.type)
        for each in schema
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def _refuse_different(files: Sequence[Place], target: Place) -> None:
    """Compare the rows by another reader than the one that copied them."""
    with spilling() as duck:
        before, after = _sums(duck, files), _sums(duck, [target])
    if before != after:
        raise DataError(
            f"{len(files)} files of {target.parent} were put together, and the rows of the result differ from theirs",
            hint="nothing was changed; report it with the table's columns.",
            rows_before=before[0],
            rows_after=after[0],
        )


def _sums(duck: Duck, files: Sequence[Place]) -> tuple[int, int]:
    let_read(duck, map(str, files))
    duck.execute("SET VARIABLE files_ = $files", {"files": [str(file) for file in files]})
    ((rows, total),) = duck.execute(COMPARED).fetchall()
    return int(rows), int(total or 0)
