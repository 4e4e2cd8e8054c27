"""The one noun: a table, of one of six kinds; what it reads, how its rows are computed, which rules they must pass.

Assets, topics, command-line verbs and documents are derived from these values; nothing lists tables twice.
A table is declared at the end of the module that carries its name, and its ``reads`` names the ``TABLE`` of
other modules, so that "go to definition" follows the data.

Why ``Table`` is a union of the kinds and not their base class: mypy knows the members of a union, so a ``match`` over a
table that ends in ``assert_never`` fails the type check when it forgets a kind. Each kind has only the fields that it
needs, and is checked when it is made (jobs/strandline/core/declared.py).
"""

import inspect
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import ClassVar, Literal, Protocol, TypeAlias

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from strandline.core import declared
from strandline.core.kind import Emit, Kind, Lateness, Layer, Window, length_of, length_of_window
from strandline.core.parse import (
    HAS_NEW_FIELD,
    NEW_FIELD,
    WRONG_TYPE,
    OnNewField,
    OnWrongType,
    Reading,
    parse_json,
    path_of,
)
from strandline.core.routes import AllBut, KindBy, Takes, in_words, text_of, tuple_of
from strandline.core.static import Static
from strandline.core.topic import (
    ITEM,
    PLACE,
    RECEIVED,
    ROUTED,
    Skip,
    Topic,
    in_rows,
    names_of,
    skips_of,
)
from strandline_quality.expectations import Within
from strandline_quality.rules import Rule


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

    source: "Computed"
    columns: tuple[str, ...]
    join: Callable[[DataFrame, DataFrame, str, tuple[str, ...]], DataFrame]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Table(Kind):
    """A table, and in ``reads`` the topics or tables that its rows come from."""

    reads: "tuple[Topic | Table, ...]"

    def __post_init__(self) -> None:
        declared.check(self)

    @property
    def upstream(self) -> "tuple[Table, ...]":
        """Return the tables that it reads."""
        return tuple(source for source in self.reads if not isinstance(source, Topic))

    @property
    def dimension(self) -> Dimension | None:
        """Return the as-of join that adds columns to its rows."""
        return None

    @property
    def needs(self) -> "tuple[Table, ...]":
        """Return the tables that its rows depend on: those that it reads, and its dimension."""
        return (*self.upstream, *((self.dimension.source,) if self.dimension else ()))

    @property
    def change_sources(self) -> "tuple[Table, ...]":
        """Return the tables whose changed ranges it must follow, because it takes over their updates as well."""
        return self.upstream if isinstance(self, Recomputed) else self.needs[len(self.upstream) :]

    @property
    def replaces_rows(self) -> bool:
        """Return whether rows are replaced at all, by the stream or by the dimension, so that tables above must follow."""
        return isinstance(self, Upserted | Recomputed) or self.dimension is not None

    @property
    def secret(self) -> frozenset[str]:
        """Return the masked columns: its own, and those of every table that it depends on."""
        return frozenset(self.sensitive).union(*(source.secret for source in self.needs))


@dataclass(frozen=True, slots=True, kw_only=True)
class Ingested(_Table):
    """Bronze: the records of Kafka topics, as received; no time is known but the arrival.

    Args:
        leaves: Kinds of records that no table takes on purpose: they are counted without an alarm. None is what has no kind.
    """

    layer: ClassVar[Layer] = Layer.BRONZE
    key: ClassVar[tuple[str, ...]] = ()
    event_at: ClassVar[None] = None
    closes_at: ClassVar[None] = None
    references: ClassVar[tuple[()]] = ()

    reads: tuple[Topic, ...]
    leaves: str | AllBut | tuple[str | None, ...] = ()

    def __post_init__(self) -> None:
        _Table.__post_init__(self)
        declared.refuse_tables(self, self.reads)
        declared.refuse_leaves(self, self.left, has_kinds=self.has_kinds)

    @property
    def left(self) -> Takes:
        """Return the kinds that no table takes on purpose; None is among them where records without a kind are."""
        return tuple_of(self.leaves)  # type: ignore[arg-type]  # None is of no kind

    @property
    def topics(self) -> tuple[Topic, ...]:
        """Return the topics that it is filled from."""
        return self.reads

    @property
    def has_kinds(self) -> bool:
        """Return whether its records are of several kinds, of which each silver table takes its own."""
        return any(topic.kind for topic in self.reads)

    @property
    def received(self) -> StructType:
        """Return its columns."""
        return ROUTED if self.has_kinds else RECEIVED

    @property
    def kind_by(self) -> dict[str, KindBy | None]:
        """Return how the kinds of each topic differ."""
        return {topic.name: topic.kind for topic in self.reads}

    @property
    def routed_by(self) -> str:
        """Return the same in words, as its ledger has it; empty where its records are of one kind."""
        if not self.has_kinds:
            return ""
        return ", ".join(f"{name}: {text_of(by)}" for name, by in sorted(self.kind_by.items()))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Computed(_Table):
    """A table whose rows a function computes.

    Args:
        transform: The pure function from the rows of what it reads to its own.
        key: The columns that identify a row; ``PLACE`` where events have no id.
        event_at: The column with the time at which the event happened.
        valid_until: The column with the end of a row's validity, where a row holds for longer than a moment; open
            when NULL. Readers join as of a time, so ending a row changes nothing before its end.
        expects: What must hold of a batch or of the whole table, beside what follows from the rules.
        references: Foreign keys: the column, the other table, and the column there. An audit of the rows counts values
            without a match; no batch waits for it, because the other table may be behind.
        static: The static tables that its function joins.
    """

    reads: "tuple[Table, ...]"
    transform: Callable[..., DataFrame]
    key: tuple[str, ...]
    event_at: str
    valid_until: str | None = None
    expects: tuple[Within, ...] = ()
    references: "tuple[tuple[str, Table, str], ...]" = ()
    static: tuple[Static, ...] = ()

    def __post_init__(self) -> None:
        _Table.__post_init__(self)
        for name, value in declared.bound(self, self.transform).items():
            object.__setattr__(self, name, value)
        declared.refuse_empty(self, "key")
        declared.refuse_other_than_static(self, self.static)
        declared.refuse_expectations(self, self.expects, is_judged=isinstance(self, Judged))

    @property
    def summary(self) -> str:
        """Return the docstring of its module."""
        return inspect.getdoc(inspect.getmodule(self.transform)) or ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged(_Computed):
    """Silver: each event of one bronze table, once; or in the quarantine, if it breaks a rule or lacks a part of its key.

    Args:
        lateness: How late and how early its rows may be.
        rules: What must hold of each row, or it goes to the quarantine.
        keeps_held: How long its quarantine keeps records after their arrival; for ever when None.
        believes_history: Whether an event that is later than it admits is believed all the same, as history. Its copies are
            found among the table's rows, because no state is kept for that long, and a stream that reads the table drops
            it where it keeps state. For a table of few such events, such as alerts.
        takes: The kinds of records for which it accounts, where its topic has several.
        also: Kinds that it reads beside them, for which another table accounts.
        rows: The column with a list: each of its items is a row, with the record's other columns. The record is judged whole, a
            rule may name fields of an item, and ``key`` and ``event_at`` are the record's; a row is known by its place in the
            list (``_item``) beside the key.
        bad_items: ``"hold"``: an item that breaks a rule is held by itself, and the other items of its record are rows, where one
            of them is good; items are then counted as well. Without it one bad item holds the record.
        skips: The records that it passes over, as SQL over the columns of its function; each is counted under its name.
        on_new_field: What happens to a record of JSON with a field that is not declared (jobs/strandline/core/parse.py): ``say`` that it is
            there, ``evolve``: and what edit declares it; ``freeze``: hold the record; ``discard_value``: it is left out on purpose;
            ``discard_row``: pass the record over.
        on_wrong_type: The same of a value of another type than its field's: the record is held (``freeze``, ``evolve``), the value is
            NULL (``discard_value``), or the record passed over (``discard_row``).
        leaves: Fields, by their paths, that it leaves undeclared on purpose, with all below them: they are not counted.
    """

    layer: ClassVar[Layer] = Layer.SILVER
    closes_at: ClassVar[None] = None

    reads: tuple[Ingested, ...]
    lateness: Lateness = field(default_factory=Lateness)
    rules: tuple[Rule, ...] = ()
    keeps_held: str | None = None
    believes_history: bool = False
    takes: str | Takes = ()
    also: str | Takes = ()
    rows: str | None = None
    bad_items: Literal["hold"] | None = None
    skips: "str | Skip | tuple[str | Skip, ...]" = ()
    on_new_field: OnNewField = "say"
    on_wrong_type: OnWrongType = "freeze"
    leaves: str | tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _Computed.__post_init__(self)
        declared.refuse_drift(self, self.on_new_field, self.on_wrong_type, self.leaves)
        declared.refuse_list(self, self.rows, (*self.key, self.event_at))
        declared.refuse_bad_items(
            self, self.bad_items, self.rows, believes_history=self.believes_history
        )
        declared.refuse_skips(self, self.skips)
        declared.refuse_short(self, "keeps_held", self.keeps_held)
        declared.refuse_other_than_bronze(self, self.reads)
        declared.refuse_rules(self, self.rules)
        declared.refuse_routes(self, self.taken, has_kinds=self.bronze.has_kinds)

    @property
    def bronze(self) -> Ingested:
        """Return the table whose records it judges."""
        return self.reads[0]

    @property
    def taken(self) -> tuple[Takes, Takes]:
        """Return the kinds for which it accounts, and those that it reads beside them."""
        return tuple_of(self.takes), tuple_of(self.also)

    @property
    def is_routed(self) -> bool:
        """Return whether it takes some of the records of its bronze table only."""
        return self.bronze.has_kinds

    @property
    def takes_in_words(self) -> str:
        """Return the kinds that it reads, as its ledger has them; empty where it reads each record."""
        if not self.is_routed:
            return ""
        takes, also = map(in_words, self.taken)
        return f"{takes}; also {also}" if also else takes

    @property
    def routed_by(self) -> str:
        """Return how kinds are distinguished; empty where its records are of one kind."""
        return self.bronze.routed_by

    @property
    def skipping(self) -> tuple[Skip, ...]:
        """Return the rules by which it passes records over."""
        drifted = (
            (Skip(HAS_NEW_FIELD, name=NEW_FIELD),) if self.on_new_field == "discard_row" else ()
        )
        return (*skips_of(self.skips), *drifted)

    @property
    def passed_names(self) -> tuple[str, ...]:
        """Return the names under which it passes records over, in the order in which they are asked."""
        wrong = (WRONG_TYPE,) if self.on_wrong_type == "discard_row" else ()
        return (*wrong, *names_of(self.skipping, self.rows))

    @property
    def passes_over(self) -> bool:
        """Return whether a record may be no row on purpose: by a rule, or because its list is empty."""
        return bool(self.passed_names)

    @property
    def sees_drift(self) -> bool:
        """Return whether its payloads say what they have beside their declaration."""
        return any(topic.parse is parse_json for topic in self.bronze.topics)

    @property
    def reading(self) -> Reading:
        """Return how its payloads are read."""
        kinds = (path_of(each.path) for each in self.bronze.kind_by.values() if each and each.path)
        left = (self.leaves,) if isinstance(self.leaves, str) and self.leaves else self.leaves
        return Reading(leaves=(*left, *kinds), drops=self.on_wrong_type == "discard_value")

    @property
    def listed(self) -> str:
        """Return the list of whose items it makes rows; empty where a record is a row."""
        return self.rows or ""

    @property
    def holds_items(self) -> bool:
        """Return whether a bad item is held by itself, and the others of its record are rows."""
        return self.bad_items is not None

    @property
    def row_key(self) -> tuple[str, ...]:
        """Return the columns that identify a row."""
        return (*self.key, ITEM) if self.rows else self.key

    @property
    def keeps_copies(self) -> bool:
        """Return whether its events have no id: what came twice is two rows, and nothing is kept to compare it with."""
        return self.key == PLACE


@dataclass(frozen=True, slots=True, kw_only=True)
class _Derived(_Computed):
    """A table above the judged ones.

    Args:
        layer: Gold, or silver.
        key_null_ok: Columns of the key that may be NULL, such as those that a join did not match.
        unknown: The value that a column has where a join found nothing for the row's time, if that is not NULL.
    """

    reads: "tuple[Computed, ...]"
    layer: Layer = Layer.GOLD
    key_null_ok: tuple[str, ...] = ()
    unknown: str | None = None

    def __post_init__(self) -> None:
        _Computed.__post_init__(self)
        declared.refuse_raw_sources(self, self.reads)
        if not isinstance(self, Recomputed):
            declared.refuse_updated_sources(self, self.upstream)
        declared.refuse_null_keys(self, self.key, self.key_null_ok)

    def given(self, sources: Sequence[DataFrame]) -> Sequence[DataFrame]:
        """Return what its function gets of the rows of its sources."""
        return sources

    def computed(self, *sources: DataFrame) -> DataFrame:
        """Return what its function makes of the rows of its sources."""
        return self.transform(*self.given(sources))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Windows(_Derived):
    """A table of windows.

    Args:
        window: The length of its windows, as Spark reads it; where lengths differ, the longest. Or ``Day("Europe/Helsinki")``:
            they are the days of that zone.
        window_from: The column with the start of a row's window.
        event_at: The column with the event time, if it is another than the start of the window.
        reach: How far outside of a window the rows of its sources may lie from which it is computed, as Spark reads it, such
            as ``4 hours``. Without it a repair takes it from the plan; where no condition bounds it there, it is refused.
        provisional: How often what its windows have that are not over is computed, beside the table, such as ``1 minute``; never
            without it. It changes no row of the table.
    """

    window: Window
    window_from: str
    event_at: str = ""
    reach: str | None = None
    provisional: str | None = None

    def __post_init__(self) -> None:
        _Derived.__post_init__(self)
        declared.refuse_window(self, self.window)
        declared.refuse_reach(self, self.reach)
        declared.refuse_provisional(self, self.provisional)
        if not self.event_at:
            object.__setattr__(self, "event_at", self.window_from)

    @property
    def window_length(self) -> timedelta:
        """Return the length of its windows; of days, that of the longest."""
        return length_of_window(self.window)

    @property
    def refreshed(self) -> timedelta | None:
        """Return how often its provisional rows are computed; None where it has none."""
        return length_of(self.provisional) if self.provisional else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Windowed(_Windows):
    """Windows, each emitted once, when no admitted row can change it any more.

    Args:
        closes_at: The column with the end of a row's window.
        lateness: How late its rows may be, for a stream that reads them.
        dimension: The as-of join that adds columns of a dimension to its rows.
        source_count: The column with the number of source rows that a row aggregates, where there is one source and
            each of its rows is counted in one row only; an audit of the rows compares the sum with the source.
    """

    closes_at: str
    lateness: Lateness = field(default_factory=Lateness)
    dimension: Dimension | None = None
    source_count: str | None = None

    def __post_init__(self) -> None:
        _Windows.__post_init__(self)
        declared.refuse_several(self, self.reads, self.source_count)


@dataclass(frozen=True, slots=True, kw_only=True)
class Appended(_Derived):
    """Rows without windows, each emitted once, when it is final: a selection, or a join of streams within a time.

    Args:
        closes_at: The column with the time at which a row that waited in vain is final; without it, it is so at once.
        lateness: How late its rows may be, for a stream that reads them.
        dimension: The as-of join that adds columns of a dimension to its rows.
        scored_by: The name of the model that scores its rows (jobs/strandline/core/model.py).
        reach: How far apart the rows of its sources may lie that meet in a row, as Spark reads it. Without it a repair takes
            it from the plan.
        rows: The column of its one source with a list: each of its items is a row, with the record's other columns and the
            place in the list (``_item``), before the function sees it. ``_item`` is a part of the key.
    """

    closes_at: str | None = None
    lateness: Lateness = field(default_factory=Lateness)
    dimension: Dimension | None = None
    scored_by: str | None = None
    reach: str | None = None
    rows: str | None = None

    def __post_init__(self) -> None:
        _Derived.__post_init__(self)
        declared.refuse_reach(self, self.reach)
        declared.refuse_list(self, self.rows, (*self.key, self.event_at))
        if self.rows is not None:
            later = "closes_at" if self.closes_at else "a dimension" if self.dimension else ""
            declared.refuse_list_above(self, self.reads, self.key, later)

    @property
    def listed(self) -> str:
        """Return the list of its source of whose items it makes rows; empty where its function gets the records."""
        return self.rows or ""

    def given(self, sources: Sequence[DataFrame]) -> Sequence[DataFrame]:
        """Return what its function gets of the rows of its sources: of a list a row for each item."""
        if self.rows is None:
            return sources
        ((rows,), (source,)) = sources, self.reads
        return [in_rows(self.id, rows, self.rows, source.id, self.secret)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Upserted(_Derived):
    """The latest row of each key; its stream emits updates.

    Args:
        window_from: The column with the start of a row's window. It partitions the table; replacement rows must include
            the replaced row's partition.
        emits: When it emits a row.
        window: The length of its windows, where it has windows; or the days that they are.
        closes_at: The column with the end of a row's window.
        dimension: The as-of join that adds columns of a dimension to its rows.
        reach: How far outside of a window the rows of its sources may lie from which it is computed.
    """

    window_from: str
    emits: Emit = Emit.ON_CHANGE
    window: Window | None = None
    closes_at: str | None = None
    dimension: Dimension | None = None
    reach: str | None = None

    def __post_init__(self) -> None:
        _Derived.__post_init__(self)
        declared.refuse_reach(self, self.reach)
        declared.refuse_endless(self, self.window, self.closes_at)

    @property
    def window_length(self) -> timedelta:
        """Return the length of its windows; zero without windows."""
        return length_of_window(self.window) if self.window else timedelta(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recomputed(_Windows):
    """Windows that are computed again from all of their rows whenever a source changes in them.

    Args:
        closes_at: The column with the end of a row's window, where windows overlap.
        emits: When a window is computed first: at its first row, or once no admitted row can change it any more. A source with
            intervals (``valid_until``) is looked up and not waited for; what comes late there is computed again.
        every: How far apart the ends of windows lie that are emitted once they are over; the length of one without it.
    """

    closes_at: str | None = None
    emits: Emit = Emit.ON_CHANGE
    every: str | None = None

    def __post_init__(self) -> None:
        _Windows.__post_init__(self)
        declared.refuse_emission(self, self.emits, self.every, self.closes_at, self.timed)
        declared.refuse_provisional(self, self.provisional, waits=self.waits)

    @property
    def timed(self) -> "tuple[Computed, ...]":
        """Return the sources whose rows its windows wait for."""
        return tuple(source for source in self.reads if not source.valid_until)

    @property
    def waits(self) -> bool:
        """Return whether a window is computed only once it is over."""
        return self.emits is Emit.ON_WATERMARK

    @property
    def step(self) -> timedelta:
        """Return how far apart the ends of its windows lie; days of a zone end where these do."""
        return length_of(self.every) if self.every else self.window_length


Derived: TypeAlias = Windowed | Appended | Upserted | Recomputed
Streamed: TypeAlias = Judged | Windowed | Appended | Upserted
Computed: TypeAlias = Judged | Derived
Table: TypeAlias = Ingested | Computed


# A feed: a topic whose records are computed from those of other topics, without the lake in between.
#
# It reads what judged tables are filled from, judges each event by its table's own function and rules, and gives the
# believed rows to a function. That of an ``EventFeed`` keeps no state, so it runs in every mode. That of a ``CountingFeed``
# counts in state, so it runs in micro-batches. The records that come out go to a topic; a bronze table reads that
# topic as any other, which is how they get into the lake.
#
# Why it is no kind of table: it has no rows in the lake. Whatever a table is asked for (its version, a backfill, an
# audit, a certificate) a feed could only refuse. It has what a stream needs: a lease, a checkpoint, and a ledger
# (jobs/strandline/engine/flow/feed_ledger.py).
#
# Why one judged table an event feed: real-time mode reads no source twice in a union, and continuous mode has no union at all.
#
# What an event is judged by is what it says itself, its arrival included. Two reasons depend on the reader
# (``from_the_future`` and ``disordered``, jobs/strandline/core/kind.py). An event feed believes such events: they are held in silver,
# and admitted there by a replay. In a counting feed they would move the watermark, below which its state drops events. So it
# judges ``from_the_future`` by the clock of its batch, as bronze does by that of its commit. An event that arrived too late
# behind others moves no watermark; where it is below one it is dropped, which the ledger names and calls a fault
# (jobs/strandline/engine/flow/feed_query.py).
#
# No feed remembers copies, so a record has an id that follows from its event, and copies of it have the same.


@dataclass(frozen=True, slots=True, kw_only=True)
class Feed:
    """Records of a topic, computed from the believed events of judged tables.

    Args:
        name: What its checkpoint, its ledger and its log are found by.
        key: The column that identifies a record; copies of an event make records of one key.
        to: The topic of its records.
        version: What changes with the function.
    """

    layer: ClassVar[str] = "live"

    name: str
    key: str
    to: Topic
    version: str = ""

    @property
    @abstractmethod
    def tables(self) -> tuple[Judged, ...]:
        """Return the tables whose events it reads."""

    @property
    def id(self) -> str:
        """Return the one name."""
        return f"{self.layer}.{self.name}"

    @property
    def topics(self) -> tuple[Topic, ...]:
        """Return the topics that it reads: those of the tables' sources."""
        return tuple(topic for table in self.tables for topic in topics_of(table))

    def __str__(self) -> str:
        """Return the one name."""
        return self.id


@dataclass(frozen=True, slots=True, kw_only=True)
class EventFeed(Feed):
    """A feed whose records are computed from one event each.

    Args:
        of: The table.
        transform: The function from believed rows to the columns of its records; no state, no Python.
    """

    of: Judged
    transform: Callable[[DataFrame], DataFrame] = field(compare=False)

    @property
    def tables(self) -> tuple[Judged, ...]:
        """Return the table."""
        return (self.of,)


class Counts(Protocol):
    """The function of a feed that counts."""

    def __call__(self, tables: Sequence[DataFrame]) -> DataFrame:
        """Return the columns of its records, from the believed rows of each table."""
        ...

    def waiting(self, tables: Sequence[DataFrame | None]) -> DataFrame:
        """Return the rows that it keeps in state, with their ``time``; of a table that is None there are none."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class CountingFeed(Feed):
    """A feed whose records are computed from several events, which wait in state.

    Args:
        of: The tables; a feed of the same name always has the same, because its checkpoint has a source for each.
        transform: The function from believed rows of each table, with their watermark, to the columns of its records.
    """

    of: tuple[Judged, ...]
    transform: Counts = field(compare=False)

    @property
    def tables(self) -> tuple[Judged, ...]:
        """Return the tables."""
        return self.of


def topics_of(table: Judged) -> tuple[Topic, ...]:
    """Return the topics from which a judged table is filled."""
    return tuple(topic for source in table.upstream for topic in source.topics)
