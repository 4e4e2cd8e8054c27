"""What a project declares to leave the lake, how far each target has come, what it refused, and what it waits for.

How far each has come is read without the declarations, because every lake is asked for its status; and without a JVM.
"""

import importlib
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from datetime import datetime
from typing import Any, TypeAlias

from strandline import catalog

from strandline.core.errors import DefinitionError
from strandline.core.kind import length_of
from strandline.core.table import Appended, Ingested, Judged, Table
from strandline.core.topic import NAME as TOPIC
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.commit_log import committed_at, is_commit
from strandline.engine.lake.log.ledger import latest_version
from strandline.engine.lake.place import Place
from strandline.engine.lake.store_lease import note_of_holder
from strandline.project import package

# What a project declares: ``PUBLISH`` in the module ``publish`` of its package, a value for each table and target.
#
# Why not a field of the table: a table's code version is made of its module and of all that this imports, because they decide
# its rows. Where rows go decides none of them, so another topic, or a client's library beside a function, must lapse no
# certificate; and a stream's executors import the modules of tables, which need no driver of a database for that.

PART = "publish"
NAME = re.compile(r"[a-z][a-z0-9_-]{0,63}")
VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]*")
TABLE = re.compile(r"([A-Za-z_]\w*\.)?[A-Za-z_]\w*", re.ASCII)
EXAMPLE = 'PUBLISH = (Publish("paid-orders", orders.TABLE, to=KafkaTopic("paid-orders")),)'


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A row of a table that is new or another one, or is gone.

    Args:
        id: The same whenever this change is sent; another one for each other change.
        table: The table.
        generation: How often all was sent anew; of two changes of a key the later one has the higher generation, then version.
        version: The version of the table that brought it.
        key: The columns that identify the row.
        row: All its columns; None for a row that is gone.
    """

    id: str
    table: str
    generation: int
    version: int
    key: Mapping[str, object]
    row: Mapping[str, object] | None


Function: TypeAlias = Callable[[tuple[Change, ...]], Mapping[str, str] | None]
"""Takes changes; returns the ids of those that it refuses, each with the reason. What it raises is tried again."""


@dataclass(frozen=True, slots=True)
class KafkaTopic:
    """A topic of the lake's cluster. A row is a record of JSON whose key is its key; a row that is gone is one without a value.

    Args:
        name: The topic.
        partitions: How many to create where the broker is the lake's own.
    """

    name: str
    partitions: int = 4

    def __post_init__(self) -> None:
        """Refuse what is no topic."""
        if not TOPIC.fullmatch(self.name) or self.name in {".", ".."}:
            raise DefinitionError(
                f"{self.name!r} is no name of a topic",
                hint="a name has letters, digits, dots, dashes and underscores, at most 249 of them.",
            )


@dataclass(frozen=True, slots=True)
class PostgresTable:
    """A table of PostgreSQL, which is created where it is missing: a row for each row, with its key and its version.

    Args:
        name: The table, with its schema or without.
        url: The variable of the environment with the address: ``postgresql://user:password@host:port/database``.
    """

    name: str
    url: str

    def __post_init__(self) -> None:
        """Refuse what is no table, and an address in plain text."""
        if not TABLE.fullmatch(self.name):
            raise DefinitionError(
                f"{self.name!r} is no name of a table of PostgreSQL",
                hint='write PostgresTable("shop.paid_orders", url="SHOP_DATABASE"): letters, digits and underscores.',
            )
        if not VARIABLE.fullmatch(self.url):
            raise DefinitionError(
                f"the table {self.name} of PostgreSQL has no variable of the environment as its url",
                hint='write url="SHOP_DATABASE" and set that variable to postgresql://…: an address has a password.',
            )


@dataclass(frozen=True, slots=True)
class Publish:
    """A table whose changes leave, and where to.

    Args:
        name: By which it is known; its offsets belong to it.
        table: A silver or gold table.
        to: Where its changes go.
        unmasked: Why masked columns leave in the clear; without a reason they leave masked.
        within: How old the oldest commit may be that the target has not got, as Spark reads it, before its check in Dagster fails.
    """

    name: str
    table: Table
    to: KafkaTopic | PostgresTable | Function
    unmasked: str = ""
    within: str = "1 hour"

    def __post_init__(self) -> None:
        """Refuse what could be sent nowhere."""
        if not NAME.fullmatch(self.name):
            raise DefinitionError(
                f"{self.name!r} is no name of what leaves",
                hint="begin with a-z; a-z, 0-9, _ and - may follow, 64 of them at most.",
            )
        if isinstance(self.table, Ingested) or not isinstance(self.table, Table):
            raise DefinitionError(
                f"{self.name} publishes {self.table}, and only the rows of silver and gold leave",
                hint="name the TABLE of a module in silver or gold; what a topic brought to bronze is in that topic.",
            )
        if not isinstance(self.to, KafkaTopic | PostgresTable) and not callable(self.to):
            raise DefinitionError(
                f"{self.name} publishes to {self.to!r}, which is no target",
                hint="write to=KafkaTopic(…), PostgresTable(…), or a function that takes changes.",
            )
        try:
            length_of(self.within)
        except (ValueError, AttributeError) as error:
            raise DefinitionError(
                f"{self.name} declares within={self.within!r}, which is no length of time",
                hint="write within='15 minutes': as old as a commit may be that the target has not got.",
            ) from error

    @property
    def shown(self) -> str:
        """Return what people call the target."""
        match self.to:
            case KafkaTopic(name=name):
                return f"kafka:{name}"
            case PostgresTable(name=name):
                return f"postgres:{name}"
            case function:
                return f"function:{getattr(function, '__name__', type(function).__name__)}"

    @property
    def place(self) -> str:
        """Return the target as no other is called: a table of PostgreSQL with its schema and its database."""
        if not isinstance(self.to, PostgresTable):
            return self.shown
        name = self.to.name if "." in self.to.name else f"public.{self.to.name}"
        return f"postgres:{name} of {self.to.url}"


def identity(table: Table) -> tuple[str, ...]:
    """Return the columns that identify a row: of events, which may share a key, the event time as well (``COPIES`` of an audit)."""
    is_of_events = isinstance(table, Judged | Appended) and not table.keeps_copies
    return (*dict.fromkeys((*table.row_key, *((table.event_at,) if is_of_events else ()))),)


def declared() -> tuple[Publish, ...]:
    """Return what the project publishes; nothing where it has no such module.

    Raises:
        DefinitionError: The module has a mistake.
    """
    known = {table.id: table for table in catalog.tables()}
    if not catalog.declares(PART):
        return ()
    module = f"{package()}.{PART}"
    try:
        found = getattr(importlib.import_module(module), "PUBLISH", None)
    except DefinitionError as error:
        raise DefinitionError(f"{module}: {error.message}", hint=error.hint) from error
    except Exception as error:
        raise catalog.unreadable(error, module) from error
    if not isinstance(found, tuple) or not all(isinstance(each, Publish) for each in found):
        raise DefinitionError(
            f"{module} does not declare what leaves", hint=f"end the module with {EXAMPLE}."
        )
    for each in found:
        if known.get(each.table.id) is not each.table:
            raise DefinitionError(
                f"{module}: {each.name} publishes {each.table.id}, which no module declares",
                hint=f"name the TABLE of a module in {package()}/silver or gold.",
            )
    for what, count in Counter(
        each for one in found for each in (f"the name {one.name}", f"the target {one.place}")
    ).items():
        if count > 1 and "function:" not in what:
            raise DefinitionError(
                f"{module}: two publications have {what}",
                hint="give each a name of its own, and a target that nothing else writes.",
            )
    return found


def find(name: str) -> Publish:
    """Return a publication by its name.

    Raises:
        DefinitionError: There is none.
    """
    found = {each.name: each for each in declared()}
    if name not in found:
        raise DefinitionError(
            f"nothing of the name {name} is published",
            hint=f"{package()}.{PART} publishes {', '.join(found)}."
            if found
            else f"add the module {PART} to the package {package()}, with {EXAMPLE}.",
        )
    return found[name]


STORED, LOCK = ".json", ".lock"


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """Where a target is in its table. Its counts are of one generation, and each change is counted once.

    Args:
        version: The version of the table that is sent.
        done: How many of its rows were.
        whole: Whether all its rows are sent; otherwise those that it changed.
        mark: When the version before it was committed, or this one of which all is sent; another moment is another table.
        generation: How often all was sent anew.
        read: Changes that were read from the table.
        refused: Those of them that the target has refused; it has accepted the others.
    """

    version: int
    done: int = 0
    whole: bool = False
    mark: str = ""
    generation: int = 1
    read: int = 0
    refused: int = 0

    @property
    def accepted(self) -> int:
        """Return the changes that the target has acknowledged."""
        return self.read - self.refused

    @property
    def known(self) -> int:
        """Return the version whose moment is its mark."""
        return self.version if self.whole else self.version - 1

    def text(self) -> str:
        """Return it as a target keeps it."""
        return json.dumps(asdict(self))


def position(text: str) -> Position:
    """Return a position that a target has kept."""
    return Position(**json.loads(text))


@dataclass(kw_only=True)
class Books:
    """What the lake keeps of a target.

    Args:
        table: The table.
        target: The target, as people call it.
        place: Where it is; None before the first change is read.
        refused: The changes that the target has refused and has no later one of: by key the id, the version and the reason.
        replayed: Rows that were sent again on request.
        away: What it waits for.
        passes: Whether that passes by itself.
        at: When this was written.
    """

    table: str
    target: str
    place: Position | None = None
    refused: dict[str, dict[str, Any]] = field(default_factory=dict)
    replayed: int = 0
    away: str | None = None
    passes: bool = True
    at: str = ""

    def text(self) -> str:
        """Return them as they are stored."""
        return json.dumps(asdict(self), ensure_ascii=False)


def books_of(text: str) -> Books:
    """Return stored books."""
    stored = json.loads(text)
    known = {each.name for each in fields(Books)}
    place = stored.pop("place", None)
    kept = {name: value for name, value in stored.items() if name in known}
    return Books(**kept, place=Position(**place) if place else None)


def mark_of(path: Place, version: int) -> str:
    """Return when a version was committed, by which a table that was restored or made anew is another; empty where it is gone."""
    return committed_at(path, version).isoformat() if is_commit(path, version) else ""


def file_of(lake: Lake, name: str, kind: str = STORED) -> Place:
    """Return the file of a publication, or of its lock."""
    return lake.publications / f"{name}{kind}"


def refusals(lake: Lake, name: str) -> Mapping[str, Mapping[str, Any]]:
    """Return by key the changes that a target has refused and has no later one of."""
    text = file_of(lake, name).text()
    return books_of(text).refused if text else {}


def publications(lake: Lake) -> Iterator[Mapping[str, Any]]:
    """Yield each target of the lake with its figures: what it got, how far it is behind, and the process that sends to it."""
    for file in lake.publications.names():
        text = (lake.publications / file).text() if file.endswith(STORED) else None
        if text is None:
            continue
        name = file.removesuffix(STORED)
        books = books_of(text)
        at = books.place
        layer, _, table = books.table.partition(".")
        holder = note_of_holder(file_of(lake, name, LOCK))
        yield {
            "name": name,
            "table": books.table,
            "target": books.target,
            "read": at.read if at else 0,
            "accepted": at.accepted if at else 0,
            "refused": len(books.refused),
            "replayed": books.replayed,
            "lag": _behind(lake.root / layer / table, at),
            "away": books.away,
            "at": books.at,
            "process": json.loads(holder) if holder else None,
        }


def published(lake: Lake, tables: Sequence[str] | None = None) -> Iterator[str]:
    """Yield a sentence for each target of all tables, or of some: where the changes are that were read for it."""
    for each in publications(lake):
        if tables and each["table"] not in tables:
            continue
        who = f"process {each['process'].get('pid')}" if each["process"] else "no process"
        behind = f"{each['lag']:,} versions behind" if each["lag"] else "up to date"
        more = f", {each['replayed']:,} sent once more" if each["replayed"] else ""
        yield (
            f"published from {each['table']} to {each['target']} ({each['name']}): {each['read']:,} changes read = "
            f"{each['accepted']:,} accepted + {each['read'] - each['accepted']:,} refused, {behind}{more}; {who}, as of {each['at']}"
        )
        if each["refused"]:
            yield f"        {each['refused']:,} rows are refused: `strandline publish {each['name']} --refused` lists them"
        if each["away"]:
            yield f"        waits: {each['away']}"


def _behind(path: Place, at: Position | None) -> int:
    """Return how many versions of the table are not sent to their end."""
    latest = latest_version(path)
    return latest + 1 if at is None else latest - at.version + 1


# Has a target what its table has? An answer from the file of its position and the newest commits, without a JVM and without history.
#
# A target is behind for a moment after each commit. So what counts is how old the oldest commit is that it has not got, against
# the time that its declaration gives it. One that is away waits and loses nothing; rows that it has refused need a person.


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a target is.

    Args:
        well: Whether there is nothing to do.
        says: The answer as a sentence.
        grave: Whether it needs a person, and does not pass by itself.
        figures: Its position, how far it is behind, what it got and what it refused.
    """

    well: bool
    says: str
    grave: bool = False
    figures: Mapping[str, int | float | str] = field(default_factory=dict)


def progress(publish: Publish, lake: Lake, at: datetime) -> Progress:
    """Return how far the target of a publication is.

    Args:
        publish: The publication, whose table exists.
        lake: The lake.
        at: The current time.
    """
    text = file_of(lake, publish.name).text()
    books = books_of(text) if text else Books(table=publish.table.id, target=publish.shown)
    if (books.table, books.target) != (publish.table.id, publish.shown):
        says = f"{publish.name} has published {books.table} to {books.target}: give what is new a name of its own"
        return Progress(well=False, says=says, grave=True)
    place = books.place
    sent, latest = place.version - 1 if place else -1, latest_version(lake.table(publish.table))
    behind = latest - sent
    late = _seconds(publish, lake, sent + 1, at) if behind > 0 else 0.0
    if (
        place and place.whole and books.at
    ):  # the commit may be years old whose rows are on their way
        late = min(late or 0.0, max((at - datetime.fromisoformat(books.at)).total_seconds(), 0.0))
    figures: dict[str, int | float | str] = {
        "position": sent,
        "commits behind": max(behind, 0),
        **({"seconds behind": round(late, 1)} if late is not None else {}),
        "changes sent": place.accepted if place else 0,
        "rows refused": len(books.refused),
    }
    if books.refused:
        figures["what shows them"] = f"strandline publish {publish.name} --refused"
    if books.away:
        figures["waits for"] = books.away
    there = mark_of(lake.table(publish.table), place.known) if place and place.known >= 0 else ""
    if behind < 0 or (place and there and there != place.mark):
        says = (
            f"{publish.shown} has got {publish.table.id} of another history: the lake was restored, or the table made anew. "
            f"`strandline publish {publish.name} --again` sends all rows as they are now"
        )
        return Progress(well=False, says=says, grave=True, figures=figures)
    return _judged(publish, books, figures, late)


def _judged(
    publish: Publish, books: Books, figures: Mapping[str, int | float | str], late: float | None
) -> Progress:
    if books.refused:
        says = f"{publish.shown} has refused {len(books.refused):,} rows of {publish.table.id}"
        return Progress(well=False, says=says, grave=True, figures=figures)
    if books.away:
        says = f"{publish.shown} {'waits' if books.passes else 'gets nothing'}: {books.away}"
        return Progress(well=False, says=says, grave=not books.passes, figures=figures)
    if late is None or late > length_of(publish.within).total_seconds():
        since = f"the oldest of them for {late:,.0f} s" if late is not None else "some for long"
        says = (
            f"{publish.shown} has not got {figures['commits behind']:,} commits of {publish.table.id}, {since}: is "
            f"`strandline publish {publish.name}` running?"
        )
        return Progress(well=False, says=says, grave=True, figures=figures)
    behind = figures["commits behind"]
    says = f"{behind:,} commits are on their way" if behind else "it has all of it"
    return Progress(well=True, says=f"{publish.shown}: {says}", figures=figures)


def _seconds(publish: Publish, lake: Lake, version: int, at: datetime) -> float | None:
    """Return how old a commit is; None where it is no more in the log, and so is old."""
    path = lake.table(publish.table)
    if not is_commit(path, version):
        return None
    return max((at - committed_at(path, version)).total_seconds(), 0.0)
