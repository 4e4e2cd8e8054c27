"""A file of history as records: the bytes of a payload, and the moment at which it arrived.

A line of a text is a payload as it is, whether or not it can be read: a broken line is a record as received, and silver
judges it. A row of Parquet becomes one line of JSON with its types kept: a decimal is a number with all its digits, a
moment keeps its zone, NULL is null. What JSON has no value for (bytes, NaN, a map) is refused before anything is read.

Records are numbered from 0 in the order of the file, so a number and a file name one record for ever. They are read one
after the other, whatever the size of the file; a text is read from its start to find a record again, because neither its
lines nor a compressed stream have an index.
"""

import csv
import gzip
import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from typing import IO, Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from jobs.core.errors import DataError, DefinitionError
from jobs.core.moment import in_utc
from jobs.engine.storage.place import Place

CHUNK = 1 << 20
LONGEST = 1 << 25
"""Bytes of a line; Kafka's own limit for a record is a thirtieth of it, and a file without line ends must not fill the memory."""

ROWS = 5_000
"""Rows of Parquet that are in memory at a time."""

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MILLISECOND = timedelta(milliseconds=1)


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


@dataclass(frozen=True, slots=True)
class Record:
    """A record of a file.

    Args:
        payload: Its bytes.
        arrived: When it arrived, in milliseconds since 1970; None where it does not say, or cannot be read.
    """

    payload: bytes
    arrived: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryFile:
    """A file of history.

    Args:
        place: Where it is.
        column: The field with the arrival; dots lead into nested ones.
        header: Whether the first line of a CSV names its cells; it is no record.
    """

    place: Place
    column: str
    header: bool = False

    @property
    def format(self) -> Format:
        """Return what it holds.

        Raises:
            DefinitionError: Its name does not say.
        """
        found = format_of(self.place)
        if found is None:
            raise DefinitionError(
                f"{self.place} is neither {', '.join(Format)} by its name",
                hint=f"name it with one of {', '.join(ENDINGS)}; a text may also end with {GZIP}.",
                file=str(self.place),
            )
        return found

    def fingerprint(self) -> str:
        """Return a hash of its bytes.

        Raises:
            DefinitionError: It is gone.
        """
        digest = hashlib.sha256()
        try:
            with self.place.opened() as file:
                while part := file.read(CHUNK):
                    digest.update(part)
        except FileNotFoundError as error:
            raise DefinitionError(
                f"there is no file {self.place}",
                hint="an import that was interrupted reads its file to the end; bring it back.",
                file=str(self.place),
            ) from error
        return digest.hexdigest()

    def records(self) -> Iterator[Record]:
        """Yield its records in their order.

        Raises:
            DataError: It is torn, or holds what no payload can hold.
        """
        read = {Format.JSON: self._lines, Format.CSV: self._cells, Format.PARQUET: self._rows}
        try:
            yield from read[self.format]()
        except (pa.ArrowException, OSError, EOFError) as error:
            if isinstance(error, FileNotFoundError):
                raise
            raise DataError(
                f"{self.place} cannot be read to its end: {str(error).splitlines()[0]}",
                hint="nothing of it was committed by this call; fetch it again from where it came.",
                file=str(self.place),
            ) from error

    def _text(self) -> Iterator[bytes]:
        with self.place.opened() as raw:
            file: IO[bytes] = (
                gzip.GzipFile(fileobj=raw) if self.place.name.endswith(GZIP) else raw  # type: ignore[assignment]
            )
            while line := file.readline(LONGEST):
                if len(line) == LONGEST and not line.endswith(b"\n"):
                    raise DataError(
                        f"a line of {self.place} is longer than {LONGEST:,} bytes",
                        hint="a file of history has one record a line.",
                        file=str(self.place),
                    )
                yield line.removesuffix(b"\n").removesuffix(b"\r")

    def _lines(self) -> Iterator[Record]:
        path = self.column.split(".")
        for line in self._text():
            yield Record(line, _arrival(_parsed(line), path))

    def _cells(self) -> Iterator[Record]:
        lines = self._text()
        place = self._cell(next(lines, b"") if self.header else b"")
        for line in lines:
            cells = next(csv.reader([line.decode("utf-8", "replace")]), [])
            yield Record(line, moment(cells[place]) if place < len(cells) else None)

    def _cell(self, header: bytes) -> int:
        """Return which cell has the arrival, from 0."""
        names = next(csv.reader([header.decode("utf-8", "replace")]), [])
        if self.column in names:
            return names.index(self.column)
        if self.column.isdigit() and int(self.column):
            return int(self.column) - 1
        raise DefinitionError(
            f"{self.place} has no cell {self.column}",
            hint="name the cell with the arrival: --arrived-at-column, by its number from 1, or by its name with "
            "--header.",
            file=str(self.place),
        )

    def _rows(self) -> Iterator[Record]:
        path = self.column.split(".")
        with self.place.opened() as raw, pq.ParquetFile(raw) as file:
            for field in file.schema_arrow:
                self._refuse_unfit(field.name, field.type)
            for batch in file.iter_batches(batch_size=ROWS):
                self._refuse_nan(batch)
                for row in batch.to_pylist():
                    yield Record(orjson.dumps(row, default=_exactly), _arrival(row, path))

    def _refuse_unfit(self, name: str, kind: pa.DataType) -> None:
        """Refuse a column that JSON has no value for.

        Raises:
            DataError: It is one.
        """
        unfit = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_fixed_size_binary)
        if pa.types.is_map(kind) or pa.types.is_duration(kind) or any(is_(kind) for is_ in unfit):
            raise DataError(
                f"column {name} of {self.place} is {kind}, and a payload of JSON has no such value",
                hint="write the file again without it, or with it as a text or a struct.",
                file=str(self.place),
            )
        for number in range(kind.num_fields):
            self._refuse_unfit(f"{name}.{kind.field(number).name}", kind.field(number).type)

    def _refuse_nan(self, batch: pa.RecordBatch) -> None:
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            if _has_nan(column):
                raise DataError(
                    f"column {name} of {self.place} has a number that is none (NaN or infinite), which JSON cannot say",
                    hint="write the file again with NULL in its place.",
                    file=str(self.place),
                )


def format_of(place: Place) -> Format | None:
    """Return what a file holds; None where its name does not say, and for a compressed file that is no text."""
    name = place.name.removesuffix(GZIP)
    found = next((kind for ending, kind in ENDINGS.items() if name.endswith(ending)), None)
    return None if found is Format.PARQUET and name != place.name else found


def files_of(place: Place) -> Iterator[Place]:
    """Yield the file of a place, or the files of a folder and those below it that hold history by their names.

    Raises:
        DefinitionError: There is nothing.
    """
    if place.is_file():
        yield place
        return
    is_empty = True
    for each in place.files():
        if format_of(each) is not None and each.name[0] not in "._":
            is_empty = False
            yield each
    if is_empty:
        raise DefinitionError(
            f"{place} is neither a file nor a folder with files of history",
            hint=f"their names end with one of {', '.join(ENDINGS)}; a text may also end with {GZIP}.",
            file=str(place),
        )


def moment(value: object) -> int | None:
    """Return a moment in milliseconds since 1970, as Kafka has them; without a zone it is in UTC; None for another value."""
    if isinstance(value, str):
        if "-" not in value or ":" not in value:  # a date alone is no moment
            return None
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            return None
    return (in_utc(value) - EPOCH) // MILLISECOND if isinstance(value, datetime) else None


def _parsed(line: bytes) -> object:
    try:
        return orjson.loads(line)
    except orjson.JSONDecodeError:
        return None


def _arrival(row: object, path: list[str]) -> int | None:
    for name in path:
        row = row.get(name) if isinstance(row, dict) else None
    return moment(row)


def _exactly(value: Any) -> object:  # noqa: ANN401  # what orjson does not know
    if isinstance(value, Decimal):
        return orjson.Fragment(format(value, "f"))
    if isinstance(value, datetime):
        return value.isoformat()
    raise TypeError(type(value).__name__)


_NESTED: Callable[[pa.DataType], bool] = pa.types.is_nested


def _has_nan(column: pa.Array) -> bool:
    if pa.types.is_floating(column.type):
        return bool(pc.any(pc.invert(pc.is_finite(column))).as_py())
    return _NESTED(column.type) and any(map(_has_nan, _parts(column)))


def _parts(column: pa.Array) -> list[pa.Array]:
    flat = column.flatten()
    return flat if isinstance(flat, list) else [flat]
