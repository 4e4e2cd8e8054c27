"""The log of orders: who changed or revealed what in a lake. It is kept in the lake, and only grows.

An order is a verb that changes a lake, copies it out or shows what is masked, whether a person typed it, a run of Dagster did it or a
program asked for it. Its line is written before it is done, and a second one after it, with how it ended: an order that was killed is
one without an end. Each line has all of its order, so what is lost with one line is that line.

    _who/2026-11/30.jsonl      the lines of a day, as they came
    _who/2026-11/30.1.jsonl    its next part, begun when the one before was full

In a folder a line is appended under the file's lock, and is on the disk when the order begins. On a store the part is replaced by one
with a line more, which the server lets one writer do at a time. No line is removed: where a request to forget finds whom to forget, it
replaces the words, and who ordered what and when stays.

What is asked first is what came last, so parts are read from the newest on, and no further than is needed.
"""

import json
import os
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields
from datetime import UTC, datetime
from enum import StrEnum
from itertools import chain, repeat
from typing import Any
from uuid import uuid4

from strandline.core.errors import DefinitionError, LakeError
from strandline.core.kind import in_utc
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.place import Place, each_done, keep_files
from strandline.engine.runtime.log_files import alone, earlier
from strandline.engine.runtime.processes import is_there, own
from strandline.engine.runtime.roles import COPY, Role, RoleError, Roles, parsed

FOLDER = "_who"
MOST = 200_000
"""Bytes of a part beyond which the next one is begun: on a store a line copies its part."""

LONGEST = 2_000
"""Characters of a value that is kept, such as a question; what was typed may be a megabyte."""

NAMES = 200
"""Characters of a person's name and of a table's: what was typed as one may be anything."""

TABLES = 50
"""Names of tables that an order has; of a run over three hundred the first ones and how many more."""

ROLES_EVERY = 5.0
"""Seconds for which a server believes the roles that it has read."""

HIDDEN = "[hidden]"
FORGOTTEN = "[forgotten]"
FORMER = "unmasked"
"""The log of before, which had questions that were answered unmasked, on the machine that answered them."""

FORMER_READ = 1_000_000
"""Its last bytes, which are read; it was never cut."""

AHEAD = (1, 4, 16, 64)
"""Parts that are read at once, more each time: a short answer needs one, a long search on a store as many as it takes at a time."""

PART = re.compile(r"(?P<day>\d\d)(?:\.(?P<number>\d+))?\.jsonl")
SAID = ("asked", "why", "message")
"""What an order has of a person's own words, in which whom to forget may come up."""


class How(StrEnum):
    """How an order ended."""

    DONE = "done"
    SHOWN = "shown"
    FAILED = "failed"
    STOPPED = "stopped"
    REFUSED = "refused"


ONE_LINE = (How.SHOWN, How.REFUSED)
"""Orders that have one line, because nothing is done after it."""

RUNNING, NO_END = "running", "no end"
"""What is said of an order without an end, whose process is there; or is not, or is another machine's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """An order.

    Args:
        id: Its name, which no other order has.
        at: When it was given, in UTC.
        verb: What was ordered, such as ``quarantine replay``.
        who: Who gave it: a login name, or whom the platform says that the process works for.
        host: The machine.
        pid: The process.
        started: When that process began, by which another one with its number is known.
        over: By which way: the shell, Dagster, Python, JDBC.
        role: What it is: operate, repair, unmask or an export.
        tables: The tables that it names.
        why: The reason that was given.
        asked: What else was asked for, by its name.
        ended: When it ended; empty while it has not.
        how: How it ended.
        message: The error that ended it.
    """

    id: str
    at: str
    verb: str
    who: str
    over: str
    role: str = ""
    host: str = ""
    pid: int = 0
    started: float | None = None
    tables: tuple[str, ...] = ()
    why: str = ""
    asked: Mapping[str, str] = field(default_factory=dict)
    ended: str = ""
    how: str = ""
    message: str = ""

    @property
    def state(self) -> str:
        """Return how it ended, or whether it runs."""
        if self.how:
            return self.how
        return RUNNING if self.host and is_there(asdict(self)) else NO_END

    def is_about(self, table: str) -> bool:
        """Return whether it names a table, also within a question."""
        name = re.compile(rf"(?<![\w.]){re.escape(table)}(?!\w)", re.IGNORECASE)
        return table in self.tables or any(map(name.search, self.asked.values()))

    @property
    def is_hidden(self) -> bool:
        """Return whether what it asked for is shown to those alone who may unmask."""
        return self.role in (Role.UNMASK, COPY)


def order_of(  # noqa: PLR0913  # an order has all of it
    verb: str,
    *,
    who: str,
    at: datetime,
    over: str,
    role: str,
    asked: Mapping[str, object],
    tables: Sequence[str] = (),
    why: str = "",
) -> Order:
    """Return a new order of this process, with texts as long as they are kept."""
    process, more = own(), len(tables) - TABLES
    return Order(
        id=uuid4().hex[:12],
        at=_text(at),
        verb=verb,
        who=cut(who, NAMES),
        over=over,
        role=role,
        host=process["host"],
        pid=process["pid"],
        started=process["started"],
        tables=(
            *(cut(each, NAMES) for each in tables[:TABLES]),
            *([f"and {more} more"] if more > 0 else []),
        ),
        why=cut(why),
        asked={name: cut(str(value)) for name, value in asked.items()},
    )


def cut(text: str, most: int = LONGEST) -> str:
    """Return a text as long as it is kept."""
    return text if len(text) <= most else f"{text[:most]}… ({len(text):,} characters)"


def write_down(  # noqa: PLR0913  # who asked for what, when, why, and how
    lake: Lake, asked: Mapping[str, str | None], *, who: str, at: datetime, why: str, over: str
) -> None:
    """Log a question before it is answered unmasked; it is one line, and has no end.

    Raises:
        DefinitionError: No reason is given.
        RoleError: The roles of the lake do not allow it, which is written down as well.
        OSError: The log cannot be written, so the question may not be answered.
    """
    if not why.strip():
        raise DefinitionError(
            "sensitive columns are shown for a reason only",
            hint='give the reason: --unmasked "fraud case 17"',
        )
    said = {name: value for name, value in asked.items() if value is not None}
    tables = [said["quarantine"]] if "quarantine" in said else []
    shown = order_of(
        "unmask", who=who, at=at, over=over, role="unmask", asked=said, tables=tables, why=why
    )
    try:
        roles_of(lake).refuse(who, Role.UNMASK, "an unmasked answer")
    except RoleError as error:
        refused(lake, shown, at, error)
        raise
    write(lake, _ended(shown, at, How.SHOWN, ""), at)


def refused(lake: Lake, order: Order, at: datetime, error: RoleError) -> None:
    """Write down what was ordered by who may not.

    Raises:
        OSError: The log cannot be written.
    """
    write(lake, _ended(order, at, How.REFUSED, error.message), at)


def attempted(  # noqa: PLR0913  # who came by which way, when, and why not
    lake: Lake, verb: str, *, who: str, at: datetime, over: str, message: str
) -> None:
    """Write down who was not let in to ask; where the log cannot be written there is no line, and no answer either."""
    order = order_of(verb, who=who, at=at, over=over, role=str(Role.READ), asked={})
    with suppress(OSError, LakeError):
        write(lake, _ended(order, at, How.REFUSED, message), at)


def _ended(order: Order, at: datetime, how: How, message: str) -> Order:
    return Order(**{**_values(order), "ended": _text(at), "how": str(how), "message": cut(message)})


def end(lake: Lake, order: Order, at: datetime, how: How, message: str = "") -> None:
    """Write down how an order ended.

    Raises:
        OSError: The log cannot be written.
    """
    write(lake, _ended(order, at, how, message), at)


def write(lake: Lake, order: Order, at: datetime) -> None:
    """Append the line of an order to the part of a day; it is on the disk, or acknowledged by the store, when this returns.

    Raises:
        OSError: It cannot be written.
    """
    held = {
        name: value for name, value in _values(order).items() if value not in ("", (), {}, None)
    }
    line = json.dumps(held, ensure_ascii=False).encode("utf-8", "backslashreplace").decode()
    day = _utc(at)
    folder = lake.root / FOLDER / f"{day:%Y-%m}"
    number = max((each for each, _ in _of_day(folder, f"{day:%d}")), default=0)
    add = _added_here if lake.root.is_local else _added_on_store
    while not add(_part(folder, f"{day:%d}", number), line):
        number += 1


def _values(order: Order) -> dict[str, Any]:
    return {each.name: getattr(order, each.name) for each in fields(Order)}


def _text(at: datetime) -> str:
    return _utc(at).isoformat(timespec="milliseconds")


def _utc(at: datetime) -> datetime:
    return in_utc(at).astimezone(UTC)


def _part(folder: Place, day: str, number: int) -> Place:
    return folder / (f"{day}.{number}.jsonl" if number else f"{day}.jsonl")


def _of_day(folder: Place, day: str) -> Iterator[tuple[int, Place]]:
    for name in folder.names_from(f"{day}."):
        found = PART.fullmatch(name)
        if found is None or found["day"] != day:
            continue
        yield int(found["number"] or 0), folder / name


def _added_here(part: Place, line: str) -> bool:
    """Append a line to a file; False where that is full."""
    part.parent.make()
    with alone(part.local) as file:
        size = file.seek(0, os.SEEK_END)
        if size > MOST:
            return False
        is_torn = size > 0 and os.pread(file.fileno(), 1, size - 1) != b"\n"
        file.write((b"\n" if is_torn else b"") + line.encode() + b"\n")
        file.flush()
        keep_files([part], within=part.parent.parent.parent)
    return True


def _added_on_store(part: Place, line: str) -> bool:
    """Append a line to an object; False where that is full."""
    while True:
        found = part.tagged()
        text, tag = found or ("", None)
        if len(text) > MOST:
            return False
        if part.exchange(f"{text}{line}\n", tag) is not None:
            return True


# What was ordered, the newest first.


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """Which orders are wanted.

    Args:
        since: Given at this time or later; all when None.
        by: Given by this person; by anyone when None.
        table: Naming this table; all when None.
        last: How many at most.
        sees: Whether questions that are hidden are searched for the name: who may not read one must not learn what is in it.
    """

    since: datetime | None = None
    by: str | None = None
    table: str | None = None
    last: int = 50
    sees: bool = True

    def wants(self, order: Order) -> bool:
        """Return whether an order is wanted."""
        return (
            (self.since is None or order.at >= _text(self.since))
            and (self.by is None or order.who == self.by)
            and (self.table is None or self._names_it(order, self.table))
        )

    def _names_it(self, order: Order, table: str) -> bool:
        if order.is_hidden and not self.sees:
            return table in order.tables
        return order.is_about(table)


@dataclass(slots=True, kw_only=True)
class Found:
    """What was found in the log.

    Args:
        orders: The orders, the newest first.
        unread: Lines that are no order, such as one that a full disk cut off.
        parts: How many parts were read for it.
    """

    orders: list[Order] = field(default_factory=list)
    unread: int = 0
    parts: int = 0


def newest(lake: Lake, asked: Asked) -> Found:
    """Return the newest orders that are wanted; of an order that has an end it is known by then."""
    found, ends, open_ = Found(), dict[str, Order](), dict[str, int]()
    for text in _texts(lake, asked.since):
        found.parts += 1
        for line in reversed(
            text.split("\n")
        ):  # a line of ours may have what other programs end one with
            order = _read(line)
            if order is None:
                found.unread += bool(line.strip())
                continue
            later = ends.pop(order.id, None)
            if later is None and order.ended and order.how not in ONE_LINE:
                if (at := open_.pop(order.id, None)) is not None:  # the clock went back meanwhile
                    found.orders[at] = order
                else:
                    ends[order.id] = order
                continue
            whole = later or order
            if asked.wants(whole):
                if not whole.ended:
                    open_[whole.id] = len(found.orders)
                found.orders.append(whole)
            if len(found.orders) >= asked.last:
                return found
    # Of these the beginning is not there: the lake was made by them, or its line could not be written.
    begun = [each for each in ends.values() if asked.wants(each)]
    found.orders = sorted([*found.orders, *begun], key=lambda each: each.at, reverse=True)
    found.orders = found.orders[: asked.last]
    return found


def _texts(lake: Lake, since: datetime | None) -> Iterator[str]:
    """Yield the text of each part, the newest first, and that of the log of before."""
    waiting = list[Place]()
    sizes = chain(AHEAD, repeat(AHEAD[-1]))
    size = next(sizes)
    for part in _parts(lake, since):
        waiting.append(part)
        if len(waiting) >= size:
            yield from _read_all(waiting)
            waiting, size = [], next(sizes)
    yield from _read_all(waiting)
    former = lake.log(FORMER)
    if former.is_file():
        yield former.last_bytes(FORMER_READ).decode("utf-8", "replace")


def _read_all(parts: Sequence[Place]) -> Iterator[str]:
    return each_done(lambda part: part.text() or "", parts, among=parts)


def _parts(lake: Lake, since: datetime | None = None) -> Iterator[Place]:
    """Yield the parts, the newest first; none of a day before a time."""
    first = f"{_utc(since):%Y-%m-%d}" if since else ""
    folder = lake.root / FOLDER
    for month in reversed(folder.names()):
        days = [
            (found["day"], int(found["number"] or 0), name)
            for name in (folder / month).names()
            if (found := PART.fullmatch(name))
        ]
        for day, _, name in sorted(days, reverse=True):
            if f"{month}-{day}" < first:
                return
            yield folder / month / name


def _read(line: str) -> Order | None:
    """Return the order of a line, also of one of before; None where it is none."""
    try:
        held = json.loads(line)
        if "verb" not in held:
            return _former(held)
        known = {each.name for each in fields(Order)}
        values = {name: value for name, value in held.items() if name in known}
        return Order(**{**values, "tables": tuple(values.get("tables", ()))})
    except (ValueError, TypeError, KeyError, AttributeError):
        return None


def _former(held: Mapping[str, Any]) -> Order:
    """Return the order of a line of the log of before."""
    asked = {
        name: str(value)
        for name, value in held.items()
        if name not in ("at", "who", "why", "over") and value is not None
    }
    at = datetime.fromisoformat(held["at"])
    return Order(
        id="",
        at=_text(at),
        verb="unmask",
        who=held["who"],
        over=held.get("over") or ("python" if "python" in asked else "shell"),
        role="unmask",
        why=held["why"],
        asked=asked,
        ended=_text(at),
        how=How.SHOWN,
    )


# The roles of a lake, which its own file says.


def roles_of(lake: Lake) -> Roles:
    """Return who may do what in a lake; all may do all where it has no file of roles.

    Raises:
        DefinitionError: The file cannot be read, so nothing is allowed.
    """
    file = lake.roles
    try:
        text = file.text()
        return parsed(text, str(file), "" if text is None else _owner(file))
    except (OSError, UnicodeDecodeError) as error:
        raise DefinitionError(
            f"{file} cannot be read, so it is not known who may do what: {error}",
            hint="its owner can give it back.",
            file=str(file),
        ) from error


def _owner(file: Place) -> str:
    """Return who can change a file."""
    if not file.is_local:
        return f"who may write objects in {file.bucket}"
    try:
        return f"{file.local.owner()}, who owns it,"
    except KeyError:  # a user without a name
        return "its owner"


class CurrentRoles:
    """The roles of a lake for a server, read anew some seconds after they were."""

    def __init__(self, lake: Lake) -> None:
        """Know none yet."""
        self._lake, self._roles, self._due = lake, Roles(file=str(lake.roles)), -1.0

    def refuse(self, who: str, role: Role, what: str) -> None:
        """Refuse what the roles do not allow.

        Raises:
            RoleError: They do not.
        """
        if time.monotonic() >= self._due:
            self._roles = roles_of(self._lake)
            self._due = time.monotonic() + self._lake.pause(ROLES_EVERY)
        self._roles.refuse(who, role, what)


# A request to forget goes through the log: an order may name whom it is about.


LITERAL = re.compile(r"'((?:[^']|'')*)'|(?<![\w.'-])(\d+(?:\.\d+)?)(?![\w.'-])")
"""A text or a number in a condition."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Whom:
    """Whom to forget, as an order may name them.

    Args:
        words: Texts that are found wherever they are a word.
        short: Texts and numbers that are in much else; found where one of the columns is named beside them.
        columns: The columns of the condition.
    """

    words: Sequence[str]
    short: Sequence[str] = ()
    columns: Sequence[str] = ()

    @classmethod
    def of(cls, where: str, words: Sequence[str], columns: Sequence[str]) -> "Whom":
        """Return whom a condition means: its words, and what else it compares with."""
        found = [text.replace("''", "'") or number for text, number in LITERAL.findall(where)]
        short = [each for each in dict.fromkeys(found) if each and each not in words]
        return cls(words=words, short=short, columns=columns)

    def out_of(self, text: str) -> str:
        """Return a text without them."""
        text = _sub(self.words, text)
        is_near = self.short and self.columns and _word(self.columns).search(text)
        return _sub(self.short, text) if is_near else text


def _word(texts: Sequence[str]) -> re.Pattern[str]:
    return re.compile(rf"(?<![\w-])(?:{'|'.join(map(re.escape, texts))})(?![\w-])")


def _sub(texts: Sequence[str], text: str) -> str:
    return _word(texts).sub(FORGOTTEN, text) if texts else text


def forget(lake: Lake, whom: Whom, *, go: bool) -> int:
    """Return how many orders name whom to forget in what was asked, the reason or the error; with ``go`` that is replaced there.

    Args:
        lake: The lake.
        whom: Whom to forget.
        go: Whether it is done.
    """
    found = set[str]()
    former = lake.log(FORMER)
    for part in [*_parts(lake), *([former] if former.is_file() else [])]:
        text = part.text() or ""
        _, hits = _without(text, whom)
        found |= {f"{part} {each}" if each.isdigit() else each for each in hits}
        if hits and go:
            _replace(part, whom)
    return len(found)


# The log of what agents asked (jobs/strandline/operate/mcp_server.py) has their questions, and so what was typed in them.


CALLS = "mcp"
ASKED = "asked"
"""What a line of it has of a request, as JSON within JSON; a long one is cut off and is none any more."""

CODE = re.compile(r"\\u([0-9a-fA-F]{4})")
"""A letter as lines of before have it."""


def forget_calls(lake: Lake, whom: Whom, *, go: bool) -> int:
    """Return how many requests of agents name whom to forget, in the log of this machine; with ``go`` that is replaced there."""
    log = lake.log(CALLS)
    if not log.is_file():
        return 0
    found = 0
    with alone(log.local):  # under the lock of the one that is written the other is copied, too
        for part in (log, Place(str(earlier(log.local)))):
            lines = (part.text() or "").split("\n") if part.is_file() else []
            new = [_call_without(line, whom) for line in lines]
            hits = sum(one != other for one, other in zip(lines, new, strict=True))
            if hits and go:
                part.put("\n".join(new))
            found += hits
    return found


def _call_without(line: str, whom: Whom) -> str:
    try:
        held = json.loads(line)
    except ValueError:
        return whom.out_of(line)
    if not isinstance(held, dict):
        return whom.out_of(line)
    new = {
        name: _request_without(each, whom) if name == ASKED else _value_without(each, whom)
        for name, each in held.items()
        if name not in ("time", "who")
    }
    same = {name: held[name] for name in ("time", "who") if name in held}
    whole = {name: {**new, **same}[name] for name in held}
    return line if whole == held else json.dumps(whole, ensure_ascii=False)


def _request_without(text: Any, whom: Whom) -> Any:  # noqa: ANN401  # as JSON has it
    """Return a request without words; as text, where it was cut off."""
    if not isinstance(text, str):
        return _value_without(text, whom)
    try:
        asked = json.loads(text)
    except ValueError:
        plain = CODE.sub(lambda each: chr(int(each[1], 16)), text)
        new = whom.out_of(plain)
        return text if new == plain else new
    found = _value_without(asked, whom)
    return text if found == asked else json.dumps(found, ensure_ascii=False)


def _replace(part: Place, whom: Whom) -> None:
    """Replace words in a part, beside programs that append to it."""
    if part.is_local:
        with alone(part.local):
            part.put(_without(part.text() or "", whom)[0])
        return
    while (found := part.tagged()) is not None:
        if part.exchange(_without(found[0], whom)[0], found[1]) is not None:
            return


def _without(text: str, whom: Whom) -> tuple[str, set[str]]:
    """Return the lines of a part without words, and which orders had one: their ids, or else the numbers of their lines."""
    lines, hits = list[str](), set[str]()
    for number, line in enumerate(text.split("\n")):
        new, id_ = _line_without(line, whom)
        lines.append(new)
        if new != line:
            hits.add(id_ or str(number))
    return "\n".join(lines), hits


def _line_without(line: str, whom: Whom) -> tuple[str, str]:
    try:
        held = json.loads(line)
        said = {name for name in held if name in SAID or "verb" not in held}
    except (ValueError, TypeError):
        return whom.out_of(line), ""
    new = {
        name: _value_without(value, whom) if name in said - {"at", "who"} else value
        for name, value in held.items()
    }
    return (line if new == held else json.dumps(new, ensure_ascii=False)), held.get("id", "")


def _value_without(value: Any, whom: Whom) -> Any:  # noqa: ANN401  # as JSON has it
    match value:
        case str():
            return whom.out_of(value)
        case dict():
            return {name: _value_without(each, whom) for name, each in value.items()}
        case list():
            return [_value_without(each, whom) for each in value]
        case _:
            return value
