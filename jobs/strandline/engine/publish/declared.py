"""What a project declares: ``PUBLISH`` in the module ``publish`` of its package, a value for each table and target.

Why not a field of the table: a table's code version is made of its module and of all that this imports, because they decide
its rows. Where rows go decides none of them, so another topic, or a client's library beside a function, must lapse no
certificate; and a stream's executors import the modules of tables, which need no driver of a database for that.
"""

import importlib
import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from strandline import catalog

from strandline.core.errors import DefinitionError
from strandline.core.kind import length_of
from strandline.core.table import Appended, Ingested, Judged, Table
from strandline.core.topic import NAME as TOPIC
from strandline.project import package

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
