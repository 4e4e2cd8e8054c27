"""What a scenario expects, compared with what a lake has: the difference as a small table.

An expected row names the columns that matter. Its values are written as a person writes them: a time of the day, a number for a
decimal.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal, InvalidOperation
from difflib import get_close_matches
from typing import Any, TypeAlias

from strandline.core.errors import DefinitionError

Row: TypeAlias = Mapping[str, Any]
Read: TypeAlias = Callable[[object], datetime]
"""Reads a moment that is written as a text."""

MOST, WIDE = 10, 40
"""Rows of a difference, and characters of a value, that are shown."""


def differences(
    expected: Sequence[Row], found: Sequence[Row], key: Sequence[str], read: Read
) -> list[str]:
    """Return the lines of a table of the rows that are missing, unexpected or other than expected; none where all agree.

    Args:
        expected: The rows that should be there, each with the columns that matter.
        found: Those that are.
        key: The columns by which a row is known.
        read: Reads moments.
    """
    names = [*dict.fromkeys(name for row in expected for name in row)]
    missing, left = list[Row](), list(found)
    for row in sorted(expected, key=len, reverse=True):
        at = next((each for each in left if _is_met(row, each, read)), None)
        if at is None:
            missing.append(row)
        else:
            left.remove(at)
    if not missing and not left:
        return []
    if not names:
        names = [*left[0]]
    lines = list[list[str]]()
    known = [name for name in key if name in names]
    for row in missing:
        near = next(
            (each for each in left if known and _is_met(_only(row, known), each, read)), None
        )
        if near is None:
            lines.append(
                ["missing", *(_text(row[name], read) if name in row else "" for name in names)]
            )
            continue
        left.remove(near)
        lines.append(["differs", *(_other(name, row, near, read) for name in names)])
    lines += [["unexpected", *(_text(row.get(name), read) for name in names)] for row in left]
    return aligned([["", *names], *_cut(lines)])


def refuse_unknown(names: Iterable[str], known: Iterable[str], what: str, noun: str) -> None:
    """Refuse a name that is not known.

    Raises:
        DefinitionError: One is not.
    """
    there = [*known]
    for name in names:
        if name not in there:
            near = get_close_matches(name, there, 1)
            meant = f"did you mean {near[0]}? " if near else ""
            raise DefinitionError(
                f"{what} has no {noun} {name}", hint=f"{meant}it has {', '.join(there)}.", name=name
            )


def counts_differ(expected: Mapping[str, object], found: Mapping[str, object]) -> list[str]:
    """Return the lines of a table of counts that are not as expected; none where all are."""
    lines = [
        [name, _count(expected.get(name, 0)), _count(found.get(name, 0))]
        for name in dict.fromkeys([*expected, *found])
        if expected.get(name, 0) != found.get(name, 0)
    ]
    return aligned([["", "expected", "found"], *lines]) if lines else []


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return rows of cells as lines, each column as wide as its widest cell."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


def _cut(lines: list[list[str]]) -> list[list[str]]:
    if len(lines) <= MOST:
        return lines
    more = Counter(line[0] for line in lines[MOST:])
    said = ", ".join(f"{count} more {what}" for what, count in more.items())
    return [*lines[:MOST], [said, *[""] * (len(lines[0]) - 1)]]


def _only(row: Row, names: Sequence[str]) -> Row:
    return {name: row[name] for name in names if name in row}


def _other(name: str, row: Row, near: Row, read: Read) -> str:
    found = _text(near.get(name), read)
    if name not in row or _is_equal(row[name], near.get(name), read):
        return found
    return f"{found} (expected {_text(row[name], read)})"


def _is_met(row: Row, found: Row, read: Read) -> bool:
    return all(_is_equal(value, found.get(name), read) for name, value in row.items())


def _is_equal(expected: object, found: object, read: Read) -> bool:  # noqa: PLR0911  # a kind of value a line
    if expected is None or found is None:
        return expected is found
    match found:
        case bool():
            return expected is found
        case datetime():
            return isinstance(expected, str | datetime) and read(expected) == found
        case date():
            return str(expected) == found.isoformat()
        case Decimal():
            return _decimal(expected) == found
        case bytes():
            return (expected.encode() if isinstance(expected, str) else expected) == found
        case Mapping():
            return (
                isinstance(expected, Mapping)
                and expected.keys() == found.keys()
                and all(_is_equal(expected[name], found[name], read) for name in found)
            )
        case list() | tuple():
            return (
                isinstance(expected, list | tuple)
                and len(expected) == len(found)
                and all(_is_equal(*pair, read) for pair in zip(expected, found, strict=True))
            )
        case _:
            return expected == found


def _decimal(value: object) -> Decimal | None:
    try:
        return Decimal(str(value))
    except InvalidOperation:
        return None


def _text(value: object, read: Read) -> str:
    match value:
        case None:
            text = "-"
        case datetime():
            day = read("00:00").date()
            text = value.strftime("%H:%M:%S.%f").removesuffix(".000000")
            text = text if value.date() == day else f"{value.date()} {text}"
        case bytes():
            text = value.decode(errors="backslashreplace")
        case _:
            text = str(value)
    return text if len(text) <= WIDE else f"{text[: WIDE - 1]}…"


def _count(value: object) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {count}" for name, count in value.items()) or "none"
    return str(value)


def held_lines(records: Iterable[Row], read: Read) -> Iterator[str]:
    """Yield a line for each of some held records: its reasons, when it arrived, and the begin of its payload."""
    kept = [*records]
    for row in kept[:MOST]:
        reasons = ", ".join(row["reasons"] or ())
        yield f"{reasons}: {_text(row['_payload'], read)} (arrived {_text(row['_arrived_at'], read)})"
    if len(kept) > MOST:
        yield f"and {len(kept) - MOST} more"
