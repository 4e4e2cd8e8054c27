"""The one noun: a table, what it reads, how its rows are computed, which rules they must pass.

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


class Emit(StrEnum):
    """When a derived table emits a row."""

    ON_CLOSE = "on_close"
    """Once, when no admitted row can change it any more."""
    ON_CHANGE = "on_change"
    """An update whenever the row changes; the table holds the latest row of each key."""
    ON_WATERMARK = "on_watermark"
    """An update whenever the watermark makes a part of the row final; the table holds the latest row of each key."""
    RECOMPUTED = "recomputed"
    """Whenever a source changes: the windows that the change touches are recomputed from all of their rows."""


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
class Dimension:
    """An as-of join: the columns of a table of validity intervals that are added to the rows of another.

    A stream that waited for the dimension would stop with it, and one that did not wait would keep what it happened
    to know. So rows are emitted at once, with what is known, and replaced when the dimension changes for their time:
    the same rows in the end, however the two logs were cut into batches.

    Args:
        source: The table with the intervals; where it does not exist, the columns are NULL.
        columns: The columns to add; text.
        join: Adds columns to rows as of a moment: rows, intervals, the column with the moment, columns.
    """

    source: "Table"
    columns: tuple[str, ...]
    join: Callable[[DataFrame, DataFrame, str, tuple[str, ...]], DataFrame]


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A Delta table and everything that is declared about it.

    Args:
        layer: Bronze, silver or gold.
        name: The module, the folder, the asset, the checkpoint and the test all carry it.
        reads: The topic or tables that its rows come from.
        transform: The pure function from what it reads to its rows; bronze has none.
        key: The columns that identify a row.
        key_null_ok: Columns of the key that may be NULL in a derived table, such as those that a join did not match.
            A judged table holds back every row that lacks a part of its key.
        event_at: The column with the time at which the event happened.
        lateness: How late and how early its rows may be; gold follows the silver table it reads.
        rules: What must hold of each row, or it goes to the quarantine.
        expects: What must hold of a batch or of the whole table, beside what follows from the rules.
        references: Foreign keys: the column, the other table, and the column there. An audit of the rows counts values
            without a match; no batch waits for it, because the other table may be behind.
        source_count: The column with the number of source rows that a row aggregates, where there is one source and
            each of its rows is counted in one row only; an audit of the rows compares the sum with the source.
        owner: Who is asked when its rows are not believed.
        sensitive: Columns that are masked outside the lake, here and in every table above.
        emits: When a derived table emits a row.
        window: The length of a gold table's windows, as Spark reads it; where lengths differ, the longest.
        window_from: The column with the start of a row's window. It partitions a table whose stream emits updates;
            replacement rows must include the replaced row's partition.
        closes_at: The gold column with the end of a row's window.
        valid_until: The column with the end of a row's validity, where a row holds for longer than a moment; open
            when NULL. Readers join as of a time, so ending a row changes nothing before its end.
        dimension: The as-of join that adds columns of a dimension to its rows.
        unknown: The value that a column has where a join found nothing for the row's time, if that is not NULL.
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
    references: "tuple[tuple[str, Table, str], ...]" = ()
    source_count: str | None = None
    owner: str = ""
    sensitive: tuple[str, ...] = ()
    emits: Emit = Emit.ON_CLOSE
    window: str | None = None
    window_from: str | None = None
    closes_at: str | None = None
    valid_until: str | None = None
    dimension: Dimension | None = None
    unknown: str | None = None

    @property
    def id(self) -> str:
        """Return the one name, ``layer.table``."""
        return f"{self.layer}.{self.name}"

    @property
    def summary(self) -> str:
        """Return the docstring of the table's module."""
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
        """Return whether the table admits or rejects each event of bronze; rejected events go to its quarantine."""
        reads_bronze = all(source.layer is Layer.BRONZE for source in self.upstream)
        return self.layer is Layer.SILVER and reads_bronze

    @property
    def emits_updates(self) -> bool:
        """Return whether the table's own stream replaces rows that it has emitted."""
        is_derived = self.layer is not Layer.BRONZE and not self.judges
        return is_derived and self.emits is not Emit.ON_CLOSE

    @property
    def replaces_rows(self) -> bool:
        """Return whether rows are replaced at all, by the stream or by the dimension, so that tables above must follow."""
        return self.emits_updates or self.dimension is not None

    @property
    def change_sources(self) -> "tuple[Table, ...]":
        """Return the tables whose changed ranges it must follow, because it takes over their updates as well."""
        return self.upstream if self.emits is Emit.RECOMPUTED else self.needs[len(self.upstream) :]

    @property
    def needs(self) -> "tuple[Table, ...]":
        """Return the tables that its rows depend on: those that it reads, and its dimension."""
        return (*self.upstream, *((self.dimension.source,) if self.dimension else ()))

    @property
    def secret(self) -> frozenset[str]:
        """Return the columns that are masked: its own, and those of every table that it depends on."""
        return frozenset(self.sensitive).union(*(source.secret for source in self.needs))

    def shown(self, columns: Iterable[str]) -> tuple[str, ...]:
        """Return the given columns that may be shown in the clear; the project's own (``_``) may hold any value."""
        return tuple(n for n in columns if n not in self.secret and not n.startswith("_"))

    def __str__(self) -> str:
        """Return the one name."""
        return self.id
