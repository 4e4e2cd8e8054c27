"""Plain files beside the tables: history that comes, lines and rows that go, logs that have a bound, folders for a while.

Append lines to a file of a user, each as durable as the answer that it was written.
"""

import csv
import gzip
import hashlib
import io
import json
import os
import tempfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, BinaryIO
from uuid import uuid4

import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from strandline.core.errors import DataError, DefinitionError, TransientError
from strandline.core.kind import in_utc
from strandline.engine.lake.locks import is_held
from strandline.engine.lake.place import Place
from strandline.engine.runtime.log_files import add
from strandline.engine.runtime.processes import is_there, own

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer


def takes_lines(file: Place) -> bool:
    """Return whether there is no folder in its place."""
    return not file.local.is_dir()


def append_line(file: Place, line: bytes) -> None:
    """Append a line, on the disk when this returns; after a line that a full disk cut off it begins a new one.

    Raises:
        TransientError: It cannot be written now.
    """
    try:
        file.parent.make()
        with file.local.open("a+b") as stream:
            stream.write((b"" if _ends_a_line(stream) else b"\n") + line + b"\n")
            stream.flush()
            os.fsync(stream.fileno())
    except OSError as error:
        raise TransientError(
            f"{file} cannot be written: {error.strerror}",
            hint="make room, or make it writable.",
            file=str(file),
        ) from error


def _ends_a_line(stream: io.BufferedRandom) -> bool:
    if not stream.seek(0, os.SEEK_END):
        return True
    stream.seek(-1, os.SEEK_END)
    return stream.read(1) == b"\n"


# Files of rows for use outside of the lake, each written completely or not at all.


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


# A log of a lake for people, of which one earlier part is kept: in a folder 20 MB, on a store less, because a line copies it.


MOST = 1_000_000
"""Bytes of the log on a store: a line is appended in some ten milliseconds."""


def add_line(log: Place, line: str) -> None:
    """Append a line, after the log has been put aside if it has grown too long."""
    if log.is_local:
        add(log.local, line)
        return
    if log.is_file() and log.size() > MOST:
        log.move(log.parent / f"{log.name}.1")
    log.append(line)


# Folders for a while: made for a block and removed after it, also when the block is killed.
#
# A kill leaves the folder behind. It has the record of its maker, so the next that makes one in the same folder removes
# those of makers that are gone. A program that the maker started may outlive it and write on; it holds a lease in the
# folder, which then stays until the lease is free.


MAKER = "_maker.json"
"""The file in such a folder with the process that made it."""


@contextmanager
def scratch(within: Place | None = None) -> Iterator[Place]:
    """Make an empty folder for the length of the block; only the record of its maker is in it.

    Args:
        within: The folder in which to make it; the system's own for such folders when None.
    """
    if within:
        for left in abandoned(within):
            left.remove(if_possible=True)
    if within and not within.is_local:
        made = within / f"strandline-{uuid4().hex}"
        (made / MAKER).put(json.dumps(own()))
        try:
            yield made
        finally:
            made.remove(if_possible=True)
        return
    folder = within.make().local if within else None
    with tempfile.TemporaryDirectory(
        prefix="strandline-", dir=folder, ignore_cleanup_errors=True
    ) as name:
        if within:
            (Place(name) / MAKER).put(json.dumps(own()))
        yield Place(name)


def is_scratch(lake: Place) -> bool:
    """Return whether a lake is in such a folder."""
    return (lake.parent / MAKER).is_file()


def abandoned(within: Place) -> list[Place]:
    """Return the scratch folders whose maker is gone and in which no other process writes a table.

    One without a record, or with that of another host, is not among them: its maker is unknown.
    """
    return [place for name in within.names() if _is_abandoned(place := within / name)]


def _is_abandoned(place: Place) -> bool:
    try:
        maker = json.loads((place / MAKER).text() or "{}")
    except ValueError:
        return False
    if "pid" not in maker or is_there(maker) is not False:
        return False
    leases = (place / name / "_leases" for name in place.names())
    return not any(is_held(folder / lock) for folder in leases for lock in folder.names())


# A file of history as records: the bytes of a payload, and the moment at which it arrived.
#
# A line of a text is a payload as it is, whether or not it can be read: a broken line is a record as received, and silver
# judges it. A row of Parquet becomes one line of JSON with its types kept: a decimal is a number with all its digits, a
# moment keeps its zone, NULL is null. What JSON has no value for (bytes, NaN, a map) is refused before anything is read.
#
# Records are numbered from 0 in the order of the file, so a number and a file name one record for ever. They are read one
# after the other, whatever the size of the file; a text is read from its start to find a record again, because neither its
# lines nor a compressed stream have an index.

# Which files of a folder hold history, and in which format: their names say it.


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


# The rows of a Parquet file as payloads of JSON, with their types kept; what JSON has no value for is refused.


ROWS = 5_000
"""Rows that are in memory at a time."""


def no_value() -> tuple[type[Exception], ...]:
    """Return what a value raises that is none: a moment of no calendar, a text of no letters."""
    return pa.ArrowException, OverflowError, UnicodeDecodeError, orjson.JSONEncodeError


def parquet_rows(place: Place) -> Iterator[dict[str, Any]]:
    """Yield the rows of a file.

    Raises:
        DataError: It has what no payload can hold.
    """
    with place.opened() as raw, pq.ParquetFile(raw) as file:
        _refuse_twins(place, file.schema_arrow.names)
        for field in file.schema_arrow:
            _refuse_unfit(place, field.name, field.type)
        for batch in file.iter_batches(batch_size=ROWS):
            _refuse_nan(place, batch)
            yield from _in_python(batch)


def as_json(row: dict[str, Any]) -> bytes:
    """Return a row as one line of JSON."""
    return orjson.dumps(row, default=_exactly)


def _in_python(batch: "pa.RecordBatch") -> Iterator[dict[str, Any]]:
    """Yield the rows of a batch; where one of them has no value in Python, those before it."""
    try:
        rows = batch.to_pylist()
    except no_value():
        for number in range(batch.num_rows):
            yield from batch.slice(number, 1).to_pylist()
    else:
        yield from rows


def _refuse_unfit(place: Place, name: str, kind: "pa.DataType") -> None:
    """Refuse a column that JSON has no value for.

    Raises:
        DataError: It is one.
    """
    if pa.types.is_dictionary(kind):
        _refuse_unfit(place, name, kind.value_type)
        return
    unfit = (
        pa.types.is_binary,
        pa.types.is_large_binary,
        pa.types.is_binary_view,
        pa.types.is_fixed_size_binary,
    )
    if pa.types.is_map(kind) or pa.types.is_duration(kind) or any(is_(kind) for is_ in unfit):
        raise DataError(
            f"column {name} of {place} is {kind}, and a payload of JSON has no such value",
            hint="write the file again without it, or with it as a text or a struct.",
            file=str(place),
        )
    if pa.types.is_struct(kind):
        _refuse_twins(place, [each.name for each in kind], f"{name}.")
    for number in range(kind.num_fields):
        _refuse_unfit(place, f"{name}.{kind.field(number).name}", kind.field(number).type)


def _refuse_twins(place: Place, names: list[str], above: str = "") -> None:
    """Refuse two columns of one name, of which an object of JSON can have one.

    Raises:
        DataError: There are two.
    """
    for name in names:
        if names.count(name) > 1:
            raise DataError(
                f"{place} has two columns {above}{name}, and an object of JSON has one value of a name",
                hint="write the file again with other names.",
                file=str(place),
            )


def _refuse_nan(place: Place, batch: "pa.RecordBatch") -> None:
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        if _has_nan(column):
            raise DataError(
                f"column {name} of {place} has a number that is none (NaN or infinite), which JSON cannot say",
                hint="write the file again with NULL in its place.",
                file=str(place),
            )


def _exactly(value: Any) -> object:  # noqa: ANN401  # what orjson does not know
    if isinstance(value, Decimal):
        return orjson.Fragment(format(value, "f"))
    if isinstance(value, datetime):
        return value.isoformat()
    raise TypeError(type(value).__name__)


def _has_nan(column: "pa.Array") -> bool:
    if pa.types.is_floating(column.type):
        return bool(pc.any(pc.invert(pc.is_finite(column))).as_py())
    return pa.types.is_nested(column.type) and any(map(_has_nan, _parts(column)))


def _parts(column: "pa.Array") -> "list[pa.Array]":
    flat = column.flatten()
    return flat if isinstance(flat, list) else [flat]


CHUNK = 1 << 20


class _Hashed(io.RawIOBase):
    def __init__(self, file: BinaryIO, digest: "hashlib._Hash") -> None:
        super().__init__()
        self._file, self._digest = file, digest

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: "WriteableBuffer") -> int:
        view = memoryview(buffer)
        part = self._file.read(len(view))
        self._digest.update(part)
        view[: len(part)] = part
        return len(part)


def hashed(file: BinaryIO, digest: "hashlib._Hash") -> io.BufferedReader:
    """Return a file whose bytes update a digest in their order as it is read to its end.

    A file that is hashed while it is read, so that one that is compressed or long need not be read twice.
    """
    return io.BufferedReader(_Hashed(file, digest), CHUNK)


LONGEST = 1 << 25
"""Bytes of a line; Kafka's own limit for a record is a thirtieth of it, and a file without line ends must not fill the memory."""

END_OF_TIME = 253_402_300_799_999
"""The end of the year 9999, in milliseconds since 1970."""

UNREADABLE: tuple[type[Exception], ...] = (OSError, EOFError, zlib.error)
"""What a reader raises for a file that is wrong; some of it only when it reaches the row."""

BYTE_ORDER_MARK = "\ufeff".encode()
csv.field_size_limit(
    LONGEST
)  # a cell may be as long as a line; else one beyond 131,072 letters has no arrival

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MILLISECOND = timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True)
class Record:
    """A record of a file.

    Args:
        payload: Its bytes.
        arrived: When it arrived, in milliseconds since 1970; None where it does not say, where it cannot be read, and
            where nothing can have arrived then.
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
        until: When it was looked at first, in milliseconds since 1970: nothing in it arrived later, as nothing in Kafka
            arrived before 1970. A record that says so has a wrong clock, and one of them in a month of good records
            must not keep the month out.
    """

    place: Place
    column: str
    header: bool = False
    until: int = END_OF_TIME

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

    def stamp(self) -> str:
        """Return what changes when the file is written, without reading it.

        Raises:
            DefinitionError: It is gone.
        """
        try:
            return self.place.stamp()
        except FileNotFoundError as error:
            raise self._gone() from error

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
            raise self._gone() from error
        return digest.hexdigest()

    def records(self, digest: "hashlib._Hash | None" = None) -> Iterator[Record]:
        """Yield its records in their order.

        Args:
            digest: What the bytes of a text update as they are read; the parts of Parquet are not read in their order.

        Raises:
            DataError: It is torn, or holds what no payload can hold.
            DefinitionError: It is gone.
        """
        read = {Format.JSON: self._lines, Format.CSV: self._cells, Format.PARQUET: self._rows}
        number = 0
        try:
            for number, record in enumerate(read[self.format](digest), start=1):  # noqa: B007  # named in the error
                yield record if self._can_arrive(record.arrived) else Record(record.payload, None)
        except FileNotFoundError as error:
            raise self._gone() from error
        except UNREADABLE + no_value() as error:
            reason = (str(error) or type(error).__name__).splitlines()[0]
            raise DataError(
                f"{self.place} cannot be read to its end: behind {number:,} records, {reason}",
                hint="no record behind a wrong one is imported; fetch it again from where it came, or write it again "
                "without the record that is wrong.",
                file=str(self.place),
                row=number + 1,
            ) from error

    def _gone(self) -> DefinitionError:
        return DefinitionError(
            f"there is no file {self.place}",
            hint="an import that was interrupted reads its file to the end: bring it back, or leave the rest out with "
            "--give-up.",
            file=str(self.place),
        )

    def _can_arrive(self, moment: int | None) -> bool:
        return moment is not None and 0 <= moment <= self.until

    def _text(self, digest: "hashlib._Hash | None") -> Iterator[bytes]:
        with self.place.opened() as opened:
            raw = hashed(opened, digest) if digest else opened
            file: IO[bytes] = gzip.GzipFile(fileobj=raw) if is_compressed(self.place) else raw  # type: ignore[assignment]
            mark = BYTE_ORDER_MARK  # of the file, and of no record
            while line := file.readline(LONGEST):
                line, mark = line.removeprefix(mark), b""
                if len(line) == LONGEST and not line.endswith(b"\n"):
                    raise DataError(
                        f"a line of {self.place} is longer than {LONGEST:,} bytes",
                        hint="a file of history has one record a line.",
                        file=str(self.place),
                    )
                yield line.removesuffix(b"\n").removesuffix(b"\r")

    def _lines(self, digest: "hashlib._Hash | None") -> Iterator[Record]:
        path = self.column.split(".")
        for line in self._text(digest):
            yield Record(line, _arrival(_parsed(line), path))

    def _cells(self, digest: "hashlib._Hash | None") -> Iterator[Record]:
        lines = self._text(digest)
        place = self._cell(next(lines, b"") if self.header else b"")
        for line in lines:
            cells = _split(line)
            yield Record(line, moment(cells[place]) if place < len(cells) else None)

    def _cell(self, header: bytes) -> int:
        """Return which cell has the arrival, from 0."""
        names = _split(header)
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

    def _rows(self, _: "hashlib._Hash | None") -> Iterator[Record]:
        path = self.column.split(".")
        for row in parquet_rows(self.place):
            yield Record(as_json(row), _arrival(row, path))


def moment(value: object) -> int | None:
    """Return a moment in milliseconds since 1970, as Kafka has them; without a zone it is in UTC; None for another value."""
    if isinstance(value, str):
        if "-" not in value or ":" not in value:  # a date alone is no moment
            return None
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            return None
    return milliseconds_of(value) if isinstance(value, datetime) else None


def milliseconds_of(value: datetime) -> int:
    """Return a moment in milliseconds since 1970; without a zone it is in UTC."""
    return (in_utc(value) - EPOCH) // MILLISECOND


def _split(line: bytes) -> list[str]:
    """Return the cells of a line; none where it is no line of cells, which is for silver to say."""
    try:
        return next(csv.reader([line.decode("utf-8", "replace")]), [])
    except csv.Error:
        return []


def _parsed(line: bytes) -> object:
    try:
        return orjson.loads(line)
    except orjson.JSONDecodeError:
        return None


def _arrival(row: object, path: list[str]) -> int | None:
    for name in path:
        row = row.get(name) if isinstance(row, dict) else None
    return moment(row)
