"""Files of rows for use outside of the lake, each written completely or not at all."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from strandline.engine.storage.place import Place


def write_parquet(batches: Any, file: Place) -> int:  # noqa: ANN401  # Arrow has no types
    """Write batches of Arrow to a Parquet file; return the number of rows."""
    count = 0
    with _whole(file) as draft, pq.ParquetWriter(draft, batches.schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
            count += batch.num_rows
    return count


def write_lines(lines: Iterable[bytes], file: Place) -> int:
    """Write lines to a file; return their number."""
    count = 0
    with _whole(file) as draft, draft.open("wb") as text:
        for line in lines:
            text.write(line + b"\n")
            count += 1
    return count


@contextmanager
def _whole(file: Place) -> Iterator[Path]:
    """Name a draft that becomes the file when the block ends well, and is removed otherwise."""
    draft = file.parent / f".{file.name}.new"
    try:
        yield draft.local
        draft.move(file)
    finally:
        draft.remove()
