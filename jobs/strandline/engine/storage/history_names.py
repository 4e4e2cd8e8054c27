"""Which files of a folder hold history, and in which format: their names say it."""

from collections.abc import Callable, Iterator
from enum import StrEnum

from strandline.core.errors import DefinitionError
from strandline.engine.storage.place import Place


class Format(StrEnum):
    """What a file holds, by the end of its name."""

    JSON = "JSON lines"
    CSV = "CSV"
    PARQUET = "Parquet"


ENDINGS = {
    ".jsonl": Format.JSON,
    ".ndjson": Format.JSON,
    ".json": Format.JSON,
    ".csv": Format.CSV,
    ".parquet": Format.PARQUET,
}
GZIP = ".gz"
DELTA_LOG = "_delta_log"


def format_of(place: Place) -> Format | None:
    """Return what a file holds; None where its name does not say, and for a compressed file that is no text."""
    name = place.name.lower().removesuffix(GZIP)
    found = next((kind for ending, kind in ENDINGS.items() if name.endswith(ending)), None)
    return None if found is Format.PARQUET and is_compressed(place) else found


def is_compressed(place: Place) -> bool:
    """Return whether a file is compressed, by its name."""
    return place.name.lower().endswith(GZIP)


def files_of(place: Place, on_other: Callable[[Place], None] = lambda _: None) -> Iterator[Place]:
    """Yield the file of a place, or the files of a folder and those below it that hold history by their names.

    What begins with a dot or an underscore belongs to the program that wrote the folder.

    Args:
        place: A file or a folder.
        on_other: Called with each file of the folder whose name names no format.

    Raises:
        DefinitionError: There is nothing, or it is a Delta table.
    """
    if place.is_file():
        yield place
        return
    is_empty = True
    for each in place.files():
        above = each.below(place).split("/")
        if DELTA_LOG in above:
            raise _delta(each, place)
        if any(name[0] in "._" for name in above):
            continue
        if format_of(each) is None:
            on_other(each)
            continue
        is_empty = False
        yield each
    if is_empty:
        raise DefinitionError(
            f"{place} is neither a file nor a folder with files of history",
            hint=f"their names end with one of {', '.join(ENDINGS)}; a text may also end with {GZIP}.",
            file=str(place),
        )


def _delta(found: Place, folder: Place) -> DefinitionError:
    return DefinitionError(
        f"{folder} has a Delta table, which may have removed rows that are still in its files: {found}",
        hint="write the rows of its version into a folder of their own, for example with DuckDB: "
        "COPY (FROM delta_scan('table')) TO 'a.parquet'.",
        file=str(folder),
    )
