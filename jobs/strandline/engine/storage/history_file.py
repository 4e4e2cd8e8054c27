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
import io
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import IO, TYPE_CHECKING, BinaryIO

import orjson

from strandline.core.errors import DataError, DefinitionError
from strandline.core.moment import in_utc
from strandline.engine.storage.history_names import ENDINGS, GZIP, Format, format_of, is_compressed
from strandline.engine.storage.history_rows import NO_VALUE, as_json, parquet_rows
from strandline.engine.storage.place import Place

if TYPE_CHECKING:
    import hashlib

    from _typeshed import WriteableBuffer

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

UNREADABLE = (OSError, EOFError, zlib.error, *NO_VALUE)
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
        except UNREADABLE as error:
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
