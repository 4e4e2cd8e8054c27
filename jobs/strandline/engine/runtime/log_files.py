"""Logs that programs append to for months: written as records, bounded meanwhile, and read from their end.

A program that outlives its starter writes to a file that its starter opened, so the log cannot be rotated by renaming.
It appends at the end of the file, wherever that is: the file is copied and then truncated, and the program goes on
writing. Each log has at most two files of this size.
Several programs may look after one log (a broker's, by the stream and by `strandline ui`): the one that has the lock of
the file copies it, or the second would copy the truncated file over the copy of the first.

No reader holds a log in memory: it steps back from the end, block by block, to the line at which it begins, and from
there reads forward.
"""

import errno
import fcntl
import json
import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from functools import lru_cache
from io import BufferedRandom
from itertools import islice, takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TypeAlias

from strandline.core.errors import LakeError
from strandline.engine.runtime.outage import first_line

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger, Processor

MOST = 20_000_000
"""Bytes; as much as Spark's own log has in one file (infra/strandline_infra/spark/log4j2.properties)."""

BLOCK = 65_536
"""Bytes that are read at once."""

LONGEST = 1_000_000
"""Bytes; a longer line is read in pieces."""

ALONE_WITHIN, TURN = 10.0, 0.005
"""Seconds for which a writer waits for another one, whose line takes a thousandth of one; and between two tries."""


def bound(log: Path, most: int = MOST) -> bool:
    """Truncate a log that has grown too long, keep a copy beside it, and return whether that was done."""
    if not log.exists() or log.stat().st_size <= most:
        return False
    with log.open("rb") as old:
        try:
            fcntl.flock(old, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        if os.fstat(old.fileno()).st_size <= most:
            return False
        with earlier(log).open("wb") as copy:
            shutil.copyfileobj(old, copy)
            shutil.copyfileobj(old, copy)  # what another process appended during the long copy
        os.truncate(log, 0)
    return True


def earlier(log: Path) -> Path:
    """Return the file with the copy of the earlier lines of a log."""
    return log.with_name(f"{log.name}.1")


def names(folder: Path) -> list[str]:
    """Return the names of the logs in a folder."""
    return sorted(path.stem for path in folder.glob("*.log"))


def add(log: Path, line: str, most: int = MOST) -> None:
    """Append a line to a log that no process keeps open; what is no text, such as half of a pair of code points, is written as it is named."""
    bound(log, most)
    with alone(log) as file:
        file.write(line.encode("utf-8", "backslashreplace") + b"\n")


@contextmanager
def alone(log: Path) -> Iterator[BufferedRandom]:
    """Open a file for one writer at a time: for what appends to it, and for what replaces it.

    Raises:
        TimeoutError: Another one has it all the time, as a program that was stopped and not ended would.
    """
    until = time.monotonic() + ALONE_WITHIN
    while True:
        with log.open("a+b") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() > until:
                    raise TimeoutError(
                        errno.ETIMEDOUT, "another program has it open all the time", str(log)
                    ) from None
                time.sleep(TURN)
                continue
            if not _is_of(file, log):  # it was replaced while this one waited
                continue
            yield file
            return


def _is_of(file: BufferedRandom, log: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file.fileno()), log.stat())
    except FileNotFoundError:
        return False


def last_lines(log: Path, count: int) -> list[str]:
    """Return the last lines that are not empty, without reading what comes before."""
    if not log.exists():
        return []
    with log.open("rb") as file:
        lines = (text(line).strip() for _, line in backwards(file, file.seek(0, os.SEEK_END)))
        return list(islice(filter(None, lines), count))[::-1]


def backwards(file: BinaryIO, end: int) -> Iterator[tuple[int, bytes]]:
    """Yield each line before a position with its offset, the last one first."""
    rest, is_last = b"", True
    while end > 0:
        start = max(0, end - BLOCK)
        file.seek(start)
        block = file.read(end - start)
        if is_last and block.endswith(b"\n"):
            block = block[:-1]
        rest, is_last, end = block + rest, False, start
        at = start + len(rest)
        first, *whole = rest.split(b"\n")
        for line in reversed(whole):
            at -= len(line)
            yield at, line
            at -= 1
        rest = first
        if start == 0 or len(rest) > LONGEST:
            yield start, rest
            rest = b""


def forwards(file: BinaryIO, start: int, end: int) -> Iterator[bytes]:
    """Yield each line between two positions."""
    file.seek(start)
    while start < end and (line := file.readline(min(LONGEST, end - start))):
        start += len(line)
        yield line.removesuffix(b"\n")


def text(line: bytes) -> str:
    """Return a line as text, whatever a program wrote into it."""
    return line.decode(errors="replace")


# Read a log that a program still writes: its newest lines at once, then each further line as it comes.
#
# A log that reaches its bound is copied and truncated, or renamed and begun again, as
# Spark does with its own. A reader notices both and first reads on in the earlier file.


class LogReader:
    """Reads the lines of one log in their order."""

    def __init__(self, log: Path) -> None:
        """Open a log that exists; what it has now is its newest lines, and the rest is read by ``more``."""
        self._log = log
        self._file = log.open("rb")
        self._at = self._file.seek(0, os.SEEK_END)
        self._unfinished = b""
        if self._at and not _ends_with_newline(self._file, self._at):
            begin, self._unfinished = next(backwards(self._file, self._at))
            self._whole = begin
        else:
            self._whole = self._at

    def newest(
        self,
        is_wanted: Callable[[str], bool],
        is_too_old: Callable[[str], bool],
        most: int | None = None,
    ) -> Iterator[str]:
        """Yield the newest whole lines that are wanted, the oldest of them first.

        Args:
            is_wanted: Whether a line is yielded.
            is_too_old: Whether this line and all before it are not wanted.
            most: How many lines at most; all when None.
        """
        with ExitStack() as opened:
            parts: list[tuple[BinaryIO, int]] = [(self._file, self._whole)]
            if earlier(self._log).exists():
                copy = opened.enter_context(earlier(self._log).open("rb"))
                parts.append((copy, copy.seek(0, os.SEEK_END)))
            spans: list[tuple[BinaryIO, int, int]] = []
            left = most
            for file, end in parts:
                begin, left = _begin(file, end, is_wanted, is_too_old, left)
                spans.append((file, begin, end))
                if left == 0:
                    break
            for file, begin, end in reversed(spans):
                yield from filter(is_wanted, map(text, forwards(file, begin, end)))

    def more(self) -> Iterator[str]:
        """Yield the whole lines that were written since the last call."""
        if os.fstat(self._file.fileno()).st_size < self._at:
            if earlier(self._log).exists():
                with earlier(self._log).open("rb") as copy:
                    yield from self._read(copy)
            self._at = 0
        yield from self._read(self._file)
        if self._is_renamed():
            self._file.close()
            self._file, self._at = self._log.open("rb"), 0
            yield from self._read(self._file)

    def unfinished(self) -> str:
        """Return what follows the last whole line."""
        return text(self._unfinished)

    def _read(self, file: BinaryIO) -> Iterator[str]:
        file.seek(self._at)
        while block := file.read(BLOCK):
            self._at += len(block)
            *lines, self._unfinished = (self._unfinished + block).split(b"\n")
            yield from map(text, lines)
            if len(self._unfinished) > LONGEST:
                yield self.unfinished()
                self._unfinished = b""

    def _is_renamed(self) -> bool:
        """Return whether the log's name has another file by now."""
        try:
            named = self._log.stat()
        except FileNotFoundError:
            return False
        return named.st_ino != os.fstat(self._file.fileno()).st_ino

    def close(self) -> None:
        """Close the log."""
        self._file.close()


def _begin(
    file: BinaryIO,
    end: int,
    is_wanted: Callable[[str], bool],
    is_too_old: Callable[[str], bool],
    most: int | None,
) -> tuple[int, int | None]:
    """Return where the wanted lines of a file begin, and how many are still wanted from the file before it."""
    begin, left = end, most
    for at, line in backwards(file, end):
        if left == 0 or is_too_old(text(line)):
            return begin, 0
        if is_wanted(text(line)):
            begin, left = at, None if left is None else left - 1
    return begin, left


def _ends_with_newline(file: BinaryIO, end: int) -> bool:
    file.seek(end - 1)
    return file.read(1) == b"\n"


# The records of a log: one JSON object a line, for programs, and the same record as text, for people.
#
# A record has ``time`` (UTC), ``level`` and ``event``; what concerns a table has ``table`` or ``tables``, and ``batch``.
# Everything else is a figure of the event. An error adds ``message``, ``hint``, ``error`` (its class), ``kind`` (who must
# act), ``fields`` (its facts) and, unless it was foreseen, ``exception`` (its traceback).
#
# A line that is no record is text of another program or of a crash before logging began. It is shown as it is.


Record: TypeAlias = Mapping[str, Any]

LAST = 20
"""Lines from the end among which the last error is searched."""

IN_TEXT = frozenset(
    ("time", "level", "event", "table", "tables", "message", "hint", "exception", "fields", "error")
)
"""The keys that a line has a place for; all others follow as ``key=value``."""

INDENT = "    "


class Level(StrEnum):
    """How much attention a record needs, the least first."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"
    CRITICAL = "critical"

    def is_at_least(self, other: "Level") -> bool:
        """Return whether it needs as much attention as another level."""
        levels = list(Level)
        return levels.index(self) >= levels.index(other)


@dataclass(frozen=True, slots=True)
class Text:
    """A record as text: what is printed in a colour, and what follows."""

    time: str
    level: Level
    body: str

    def __str__(self) -> str:
        """Return all of it; the lines after the first are indented."""
        return f"{self.time} {self.level:<8} {self.body}"


@lru_cache(maxsize=1)  # a line is asked about several times in a row
def record(line: str) -> Record | None:
    """Return the record in a line; None when the line is no record."""
    if not line.startswith("{"):
        return None
    try:
        found = json.loads(line)
    except ValueError:
        return None
    is_one = (
        {"time", "level", "event"} <= found.keys()
        and found["level"] in list(Level)
        and isinstance(found.get("tables", []), list)
        and isinstance(found.get("fields", {}), dict)
    )
    return found if is_one else None


def is_before(found: Record, moment: datetime) -> bool:
    """Return whether a record was written before a moment."""
    try:
        return datetime.fromisoformat(str(found["time"])) < moment
    except (ValueError, TypeError):  # not written by us
        return False


def concerns(found: Record, table: str) -> bool:
    """Return whether a record is about a table, or about the whole program."""
    tables = [found["table"]] if "table" in found else found.get("tables")
    return tables is None or table in tables


def as_text(found: Record) -> Text:
    """Return a record as text."""
    time = str(found["time"]).partition(".")[0].replace("T", " ").removesuffix("Z") + "Z"
    return Text(time, Level(found["level"]), _body(found))


def last_error(log: Path) -> str:
    """Return the last error in a log with its hint and the text after it, or the last line of the log."""
    lines = last_lines(log, LAST)
    if not lines:
        return "its log is empty"
    for number, line in reversed(list(enumerate(lines))):
        found = record(line)
        if found is not None and Level(found["level"]).is_at_least(Level.ERROR):
            after = takewhile(lambda each: record(each) is None, lines[number + 1 :])
            return " ".join((_short(found), *after))
        if line.startswith("error"):
            return " ".join(map(_plain, lines[number:]))
    return _plain(lines[-1])


def _short(found: Record) -> str:
    hint = f" hint: {found['hint']}" if found.get("hint") else ""
    return f"error: {found.get('message') or found['event']}{hint}"


def _plain(line: str) -> str:
    found = record(line)
    return line if found is None else _body(found)


def _body(found: Record) -> str:
    subject = found.get("table") or _some(found.get("tables", ()))
    first = f"{subject}: {found['event']}" if subject else str(found["event"])
    if found.get("message"):
        first += f": {found['message']}"
    figures = {**found.get("fields", {}), **found}
    words = (f"{name}={_value(figures[name])}" for name in figures if _is_shown(name, figures))
    parts = [" ".join((first, *words))]
    if found.get("hint"):
        parts.append(f"hint: {found['hint']}")
    if found.get("exception"):
        parts.append(str(found["exception"]))
    return "\n".join(_indented("\n".join(parts)))


def _is_shown(name: str, figures: Record) -> bool:
    return name not in IN_TEXT and figures[name] is not None


def _indented(text: str) -> Iterator[str]:
    for number, line in enumerate(text.splitlines()):
        yield INDENT + line if number else line


def _some(tables: list[str]) -> str:
    return (
        tables[0]
        if len(tables) == 1
        else f"{tables[0]} and {len(tables) - 1} more"
        if tables
        else ""
    )


def _value(value: object) -> str:
    match value:
        case bool():
            return str(value).lower()
        case int():
            return f"{value:,}"
        case float():
            return f"{value:,.1f}"
        case str() if value and not any(letter.isspace() for letter in value):
            return value
        case _:
            return json.dumps(value, ensure_ascii=False, default=str)


# Write a stream's log as records, by structlog.
#
# Why structlog and not the standard library's logging: a record is its event with keys and values, and a logger is a
# value with a list of functions. With logging the same takes a formatter of our own, a handler, a name in a global
# tree, and figures in ``extra``, which must not have the names of logging's own attributes. Dagster installs structlog
# in any case. Its import takes a third of a second, so it is imported where a log is begun: by no other verb than ``stream``.

Event = MutableMapping[str, Any]

ORDER = ("time", "level", "event", "table", "tables", "batch")
"""The keys with which a record begins."""

MOST_OF_A_TRACEBACK = 20_000
"""Characters of its beginning, and as many of its end: Spark adds whole plans and the stack of the JVM."""


def logger(
    write: Callable[[str], None], clock: Callable[[], datetime], *, as_json: bool
) -> "FilteringBoundLogger":
    """Return a logger that writes each record as a line of JSON, or as text.

    An error that is passed as ``exc_info`` becomes its message, hint, name and facts, and its traceback when it was
    not foreseen.
    """
    import structlog  # noqa: PLC0415  # as above

    json_line = (
        _ordered,
        structlog.processors.JSONRenderer(default=str, ensure_ascii=False, skipkeys=True),
    )
    found: FilteringBoundLogger = structlog.wrap_logger(
        _Lines(write),
        processors=[
            structlog.processors.add_log_level,
            _stamp(clock),
            _trace,
            _explain,
            structlog.processors.format_exc_info,
            _shorten,
            *(json_line if as_json else (_as_text,)),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(0),
    )
    return found


class _Lines:
    """Receives what structlog has made of each record."""

    def __init__(self, write: Callable[[str], None]) -> None:
        self.debug = self.info = self.warning = self.error = self.critical = write


def _stamp(clock: Callable[[], datetime]) -> "Processor":
    def stamp(_logger: object, _method: str, record: Event) -> Event:
        record["time"] = clock().isoformat(timespec="milliseconds").replace("+00:00", "Z")
        return record

    return stamp


TRACES: dict[str, tuple[str, str]] = {}
"""For each table the ids of the trace and of the span of its newest batch, where spans are sent (jobs/strandline/engine/service/telemetry.py)."""


def _trace(_logger: object, _method: str, record: Event) -> Event:
    if ids := TRACES.get(record.get("table", "")):
        record["trace_id"], record["span_id"] = ids
    return record


def _explain(_logger: object, _method: str, record: Event) -> Event:
    error = record.get("exc_info")
    if isinstance(error, LakeError):
        del record["exc_info"]
        facts = {"message": error.message, "hint": error.hint, "fields": error.fields}
    elif isinstance(error, BaseException):
        facts = {"message": f"{type(error).__name__}: {first_line(error)}"}
    else:
        return record
    kind = error.kind if isinstance(error, LakeError) else LakeError.kind
    for name, value in {**facts, "error": type(error).__name__, "kind": kind}.items():
        record.setdefault(name, value)
    return record


def _shorten(_logger: object, _method: str, record: Event) -> Event:
    trace = record.get("exception", "")
    left_out = len(trace) - 2 * MOST_OF_A_TRACEBACK
    if left_out > 0:
        begin, end = trace[:MOST_OF_A_TRACEBACK], trace[-MOST_OF_A_TRACEBACK:]
        record["exception"] = f"{begin}\n… {left_out:,} characters are left out …\n{end}"
    return record


def _as_text(_logger: object, _method: str, record: Event) -> str:
    return str(as_text(record))


def _ordered(_logger: object, _method: str, record: Event) -> Event:
    first = {name: record[name] for name in ORDER if name in record}
    return {**first, **record}
