"""The one noun: a table, what it reads, how its rows come to be, what must hold of them.

Assets, topics, command-line verbs and documents are derived from these values; nothing lists tables twice.
A table is declared at the end of the module that carries its name, and its ``reads`` names the ``TABLE`` of
other modules, so that "go to definition" follows the data.
"""

import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from jobs.core.lateness import Lateness
from jobs.core.parse import parse_json
from quality.expectations import Within
from quality.rules import Rule

Transform: TypeAlias = Callable[..., DataFrame]
Parse: TypeAlias = Callable[[DataFrame, StructType], DataFrame]
"""Adds the declared fields and ``_problem`` to rows of bronze."""


class Layer(StrEnum):
    """How far a table's rows are from the wire."""

    BRONZE = "bronze"
    SILVER = "silver"
    GOLD = "gold"


class Speaks(StrEnum):
    """When a table says something about a row."""

    ON_CLOSE = "on_close"
    """Once, when no admitted row can change it any more."""
    ON_CHANGE = "on_change"
    """Whenever it changes; the table holds the latest word for each key."""
    AS_SETTLED = "as_settled"
    """Whenever something about it is final, as time passes; the table holds the latest word for each key."""
    AFRESH = "afresh"
    """Whenever a source changes: the windows that it touches are computed afresh from all of their rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """A Kafka topic.

    Args:
        name: Its name in the cluster.
        partitions: How many to create where the project makes the topic itself.
        parse: How its payloads are read; a new format is one such function.
    """

    name: str
    partitions: int = 4
    parse: Parse = parse_json

    def __str__(self) -> str:
        """Return the topic's name."""
        return self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class LookUp:
    """A table of what was valid when, and what of it stands beside the rows of another.

    A stream that waited for the static side would stand still with it, and one that did not would say what it
    happened to know. So rows are said at once, with what is known, and put right when a word about their time comes
    later: the same rows in the end, however the two logs were cut.

    Args:
        source: The table with the intervals; where it does not exist, the columns are NULL.
        columns: What to add; text.
        find: Adds columns to rows as of a moment: rows, intervals, the column with the moment, columns.
    """

    source: "Table"
    columns: tuple[str, ...]
    find: Callable[[DataFrame, DataFrame, str, tuple[str, ...]], DataFrame]


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A Delta table and everything that is known of it.

    Args:
        layer: Bronze, silver or gold.
        name: The module, the folder, the asset, the checkpoint and the test all carry it.
        reads: The topic or tables that its rows come from.
        transform: The pure function from what it reads to its rows; bronze has none.
        key: The columns that tell one row from another.
        key_null_ok: Columns of the key that may be NULL in a derived table, such as what a join did not find. A judged
            table holds every row back that lacks a part of its key.
        event_at: The column with the time at which the event happened.
        lateness: The law of time for its rows; gold follows the silver table it reads.
        rules: What must hold of each row, or it goes to the quarantine.
        expects: What must hold of a batch or of the whole table, beside what follows from the rules.
        refers: Columns that name something in another table: the column, the table, and the column there. A look at the
            rows counts those that name nothing; no batch waits for it, because the other table may be behind.
        counts: The column that says of how many rows of its one source a row was made, each of them in one row only;
            a look at the rows compares their sum with the source.
        owner: Who is asked when its rows are not believed.
        sensitive: Columns that are never shown in the clear outside the lake, here and in every table above.
        speaks: When a table above the judged ones says something about a row.
        window: The length of a gold table's windows, as Spark reads it; of unequal ones the longest.
        window_from: The column with the start of a row's window, by which a table that is rewritten is divided; a row in
            whose place others come lies in the window of one of them.
        closes_at: The gold column with the end of a row's window.
        looks_up: What stands beside its rows as of their time, from a static side.
        valid_until: The column with the end of what a row says, where that is longer than a moment; open when NULL.
            Who reads the table asks as of a moment: when a row's end comes, nothing before that end is computed again.
        unknown: What stands in a column of a row for which nothing was found at its time, where that is not NULL.
    """

    layer: Layer
    name: str
    reads: "tuple[Topic | Table, ...]"
    transform: Transform | None = None
    key: tuple[str, ...] = ()
    key_null_ok: tuple[str, ...] = ()
    event_at: str | None = None
    lateness: Lateness = field(default_factory=Lateness)
    rules: tuple[Rule, ...] = ()
    expects: tuple[Within, ...] = ()
    refers: "tuple[tuple[str, Table, str], ...]" = ()
    counts: str | None = None
    owner: str = ""
    sensitive: tuple[str, ...] = ()
    speaks: Speaks = Speaks.ON_CLOSE
    window: str | None = None
    window_from: str | None = None
    closes_at: str | None = None
    valid_until: str | None = None
    looks_up: LookUp | None = None
    unknown: str | None = None

    @property
    def id(self) -> str:
        """Return the one name, ``layer.table``."""
        return f"{self.layer}.{self.name}"

    @property
    def summary(self) -> str:
        """Return what the table's module says of itself."""
        module = inspect.getmodule(self.transform) if self.transform else None
        topics = " and ".join(map(str, self.topics))
        return inspect.getdoc(module) or f"{topics} as received"

    @property
    def topics(self) -> tuple[Topic, ...]:
        """Return the topics that a bronze table is filled from."""
        return tuple(source for source in self.reads if isinstance(source, Topic))

    @property
    def upstream(self) -> "tuple[Table, ...]":
        """Return the tables that this one reads."""
        return tuple(source for source in self.reads if isinstance(source, Table))

    @property
    def judges(self) -> bool:
        """Tell whether the table says of each event of bronze whether it is a row; the others go to a quarantine."""
        reads_bronze = all(source.layer is Layer.BRONZE for source in self.upstream)
        return self.layer is Layer.SILVER and reads_bronze

    @property
    def rewrites(self) -> bool:
        """Tell whether the stream itself replaces rows by later words."""
        is_derived = self.layer is not Layer.BRONZE and not self.judges
        return is_derived and self.speaks is not Speaks.ON_CLOSE

    @property
    def is_put_right(self) -> bool:
        """Tell whether rows are replaced at all, so that a table above it must look at them again."""
        return self.rewrites or self.looks_up is not None

    @property
    def compares(self) -> "tuple[Table, ...]":
        """Return the tables of which it must know what has changed, because it takes their later words as well."""
        return self.upstream if self.speaks is Speaks.AFRESH else self.needs[len(self.upstream) :]

    @property
    def needs(self) -> "tuple[Table, ...]":
        """Return the tables that its rows rest on, looked up or read."""
        return (*self.upstream, *((self.looks_up.source,) if self.looks_up else ()))

    @property
    def secret(self) -> frozenset[str]:
        """Return the columns that are not shown in the clear: its own, and those that come from what it rests on."""
        return frozenset(self.sensitive).union(*(source.secret for source in self.needs))

    def shown(self, columns: Iterable[str]) -> tuple[str, ...]:
        """Return those of some columns that may be shown in the clear; ours may stand for anything."""
        return tuple(n for n in columns if n not in self.secret and not n.startswith("_"))

    def __str__(self) -> str:
        """Return the one name."""
        return self.id
