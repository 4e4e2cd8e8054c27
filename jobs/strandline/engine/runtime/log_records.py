"""The records of a log: one JSON object a line, for programs, and the same record as text, for people.

A record has ``time`` (UTC), ``level`` and ``event``; what concerns a table has ``table`` or ``tables``, and ``batch``.
Everything else is a figure of the event. An error adds ``message``, ``hint``, ``error`` (its class), ``kind`` (who must
act), ``fields`` (its facts) and, unless it was foreseen, ``exception`` (its traceback).

A line that is no record is text of another program or of a crash before logging began. It is shown as it is.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from functools import lru_cache
from itertools import takewhile
from pathlib import Path
from typing import Any, TypeAlias

from strandline.engine.runtime.log_files import last_lines

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
