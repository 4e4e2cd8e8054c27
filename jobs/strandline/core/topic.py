"""A Kafka topic, how its payloads are read, and how a record becomes rows."""

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import reduce
from typing import Protocol, TypeAlias, runtime_checkable

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructType,
    TimestampType,
)

from strandline.core.errors import DefinitionError
from strandline.core.parse import DRIFT, parse_json
from strandline.core.routes import KIND, KIND_BY, KindBy
from strandline_quality.rules import Rule, broken

Parse: TypeAlias = Callable[[DataFrame, StructType], DataFrame]
"""Adds the declared fields and ``_problem`` to rows of bronze."""

NAME = re.compile(r"[\w.-]{1,249}", re.ASCII)
"""What Kafka takes as the name of a topic."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """A Kafka topic.

    Args:
        name: Its name in the cluster.
        partitions: How many to create where the project makes the topic itself.
        parse: How its payloads are read; a new format is one such function.
        kind: How the kinds of its records differ, where it has several (jobs/strandline/core/routes.py).
    """

    name: str
    partitions: int = 4
    parse: Parse = parse_json
    kind: KindBy | None = None

    def __post_init__(self) -> None:
        """Refuse what Kafka would refuse later, in the middle of a start.

        Raises:
            DefinitionError: The name is no name of a topic, or there is no partition.
        """
        if not NAME.fullmatch(self.name) or self.name in {".", ".."}:
            raise DefinitionError(
                f"a Topic declares name={self.name!r}, which no topic of Kafka can have",
                hint="a name has letters, digits, dots, dashes and underscores, at most 249 of them.",
            )
        if isinstance(self.partitions, bool) or self.partitions < 1:
            raise DefinitionError(
                f"topic {self.name} declares partitions={self.partitions!r}, and has at least one",
                hint="write partitions=1, or leave it out.",
                topic=self.name,
            )
        if self.kind is not None and not isinstance(self.kind, KindBy):
            raise DefinitionError(
                f"topic {self.name} declares kind={self.kind!r}, which does not say how kinds differ",
                hint='write kind=field("type"), header("type"), key_prefix(":") or schema_id(); what a table takes is its '
                "`takes`.",
                topic=self.name,
            )

    def __str__(self) -> str:
        """Return the topic's name."""
        return self.name


# A record that a project's play module sends: what any producer sends, with the time of its arrival.


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A record of a Kafka topic.

    Args:
        topic: The topic.
        key: Its key.
        value: Its payload.
        arrived_at: Its timestamp, by which its lateness is judged.
    """

    topic: str
    key: bytes
    value: bytes
    arrived_at: datetime


# The columns of every bronze table, and those that silver carries along.
#
# Bronze is as received: the bytes, the key, the headers and their place in Kafka.
# ``(_topic, _partition, _offset)`` is the identity of an event and travels with it to the end.
# Every name begins with an underscore, so that none collides with a column of a user's table.
# ``_batch`` numbers the commits, because every replay decides duplicates in commit order, then by arrival; a commit may
# be cut anywhere along that order without changing which copy is the first.
# ``_ingested_at`` is the clock of the reader: a record with a later timestamp was stamped by a broken clock and must not
# move the watermark.
# ``_newest_before`` is the newest arrival in all commits before the row's own, without those of a broken clock
# (``SKEW`` in jobs/strandline/core/kind.py); ``NOTHING_ARRIVED`` in the first commit, NULL in one of an older version. It is
# written into the row so that every mode, every other split of the log into batches and every replay measures disorder
# against the same moment (jobs/strandline/core/kind.py).


HEADERS = ArrayType(StructType().add("key", StringType()).add("value", BinaryType()))

RECEIVED = (
    StructType()
    .add("_topic", StringType())
    .add("_partition", IntegerType())
    .add("_offset", LongType())
    .add("_arrived_at", TimestampType())
    .add("_message_key", BinaryType())
    .add("_payload", BinaryType())
    .add("_headers", HEADERS)
    .add("_batch", LongType())
    .add("_ingested_at", TimestampType())
    .add("_newest_before", TimestampType())
)

ROUTED = StructType([*RECEIVED.fields]).add(KIND, StringType()).add(KIND_BY, StringType())
"""Those of a bronze table whose topics have several kinds."""

NOTHING_ARRIVED = datetime(1970, 1, 1, microsecond=1000, tzinfo=UTC)
"""The newest arrival before the first; a millisecond after the watermark of a stream that has read nothing."""

ORDER = ("_batch", "_arrived_at", "_topic", "_partition", "_offset")
"""The order of bronze; of several copies the first in this order counts."""

CARRIED = (*RECEIVED.fieldNames(), "_problem", DRIFT)
"""The columns that a silver function passes on beside its own; ``_problem`` is the reason why a payload is no row, and ``_drift`` says what
it has beside its declaration."""

PLACE = ("_topic", "_partition", "_offset")
"""The identity of a record. As the key of a judged table it says that its events have none of their own: of two equal
ones each is a row, because nothing says which of them, if any, was sent twice."""

IDENTITY = (*PLACE, "_arrived_at")
"""The place of an event in Kafka and its arrival; every silver row and every quarantined one carries them."""

QUARANTINE = (
    StructType()
    .add("_topic", StringType())
    .add("_partition", IntegerType())
    .add("_offset", LongType())
    .add("_arrived_at", TimestampType())
    .add("reasons", ArrayType(StringType()))
    .add("event_at", TimestampType())
    .add("_message_key", BinaryType())
    .add("_payload", BinaryType())
    .add("_headers", HEADERS)
)
"""A row of the quarantine: every reason, the original bytes, and the identity.

Where items of believed records are held, it has the place of the item as well (``_item``), which is NULL of a record."""

RESOLUTION = (
    StructType()
    .add("_topic", StringType())
    .add("_partition", IntegerType())
    .add("_offset", LongType())
    .add("_arrived_at", TimestampType())
    .add("reasons", ArrayType(StringType()))
    .add("event_at", TimestampType())
    .add("generation", LongType())
    .add("was", StringType())
    .add("status", StringType())
    .add("why", StringType())
    .add("who", StringType())
    .add("resolved_at", TimestampType())
    .add("entry", StringType())
)
"""A decision about a record of the quarantine: the record, its new status, the reason, and who decided."""


# One table from several shapes of the same event.
#
# Why a union of filters: each shape is read by its own function, which does not know the others. The stream still has
# one source, because all sides of the union begin at the same one; its files are read once for each shape,
# which costs little beside parsing them.


def united(
    events: DataFrame, shapes: Mapping[Topic, Callable[[DataFrame], DataFrame]]
) -> DataFrame:
    """Read the events of each topic by its own function, and return the union of the rows.

    The first topic's function also reads events of any other topic, so that no event is without a verdict.
    """
    first, *others = shapes
    names = [topic.name for topic in others]
    parts = [shapes[topic](events.where(F.col("_topic") == topic.name)) for topic in others]
    rest = events.where(~F.col("_topic").isin(names)) if names else events
    return reduce(DataFrame.unionByName, parts, shapes[first](rest))


# What a project's play hands over: many records at once, and the counts that its tables must have of them.
#
# A single record is a ``Record``; a play of millions gives ``Records``, because an object for each record
# costs as much as sending it.


@dataclass(frozen=True, slots=True, kw_only=True)
class Records:
    """Consecutive records of one topic, as columns of one length.

    Args:
        topic: The topic.
        keys: Their keys.
        values: Their payloads.
        arrived_at: Their timestamps in milliseconds since 1970.
    """

    topic: str
    keys: Sequence[bytes]
    values: Sequence[bytes]
    arrived_at: Sequence[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """The records of a table by outcome.

    Args:
        good: The number of rows.
        duplicates: The number of copies of them.
        quarantined: The number of others, by their one reason.
    """

    good: int
    duplicates: int = 0
    quarantined: Mapping[str, int] = field(default_factory=dict)

    def __add__(self, other: "Counts") -> "Counts":
        """Return the sum of the counts of two topics of one table."""
        return Counts(
            good=self.good + other.good,
            duplicates=self.duplicates + other.duplicates,
            quarantined=dict(Counter(self.quarantined) + Counter(other.quarantined)),
        )

    def as_dict(self) -> dict[str, object]:
        """Return the counts as JSON values."""
        reasons = dict(sorted(self.quarantined.items()))
        return {"good": self.good, "duplicates": self.duplicates, "quarantined": reasons}


Played: TypeAlias = Iterable[Record | Records]


@runtime_checkable
class Foreseen(Protocol):
    """Events of a play that knows what becomes of them."""

    def expected(self) -> Mapping[str, Counts]:
        """Return the counts of each table, by its id, for the records that were taken until now."""


@runtime_checkable
class Planned(Protocol):
    """Events of a play that says itself what was asked for."""

    def plan(self) -> Mapping[str, object]:
        """Return it by name; a moment or a span of time is Python's own."""


# Records that are several rows, and records that are none.
#
# A record is judged whole, and its copies are found, before rows are made of its list: so a bad item holds its record, and what came
# twice is one record. A rule may name fields of an item as the rows will have them. It is then asked of each item, within the record:
# the fields are bound as variables of a lambda, because rows that were made first would have to be brought together again.
#
# A table above the judged ones makes rows of a list before its function sees them: what it reads was believed, so nothing is judged,
# and a record whose list is empty or missing has no row.
#
# What a table passes over it says by a rule, and each record that goes is counted under its name: a function that drops records
# itself loses them, for no count distinguishes them from a fault.

ITEM = "_item"
"""The column with the place of an item in its record's list, from 0."""

SKIPPED = "_skipped"
"""The column with the name of the rule by which a record is passed over."""

NO_ITEMS = "no_items"
"""Under which name records with an empty list are passed over."""

ITEM_FAULTS = "_item_faults"
"""The column with the rules that items of a believed record break, where such items are held; NULL where none does."""

OWN = frozenset(
    {ITEM, SKIPPED, ITEM_FAULTS}
    | {"_key", "_bad", "_time", "_reasons", "_broken", "_warned", "_problem"}
)
"""Columns that a verdict adds to a record."""

_EACH = "_one_of_them"


@dataclass(frozen=True, slots=True)
class Skip:
    """Records that a table passes over on purpose; they are counted by name, and are no rows.

    Args:
        where: A SQL predicate over the columns of the table's function; a record of which it is NULL is not passed over.
        name: The name under which they are counted; the predicate itself when empty.
    """

    where: str
    name: str = ""

    def __str__(self) -> str:
        """Return the name."""
        return self.name or self.where


def skips_of(declared: "str | Skip | Sequence[str | Skip]") -> tuple[Skip, ...]:
    """Return what a table passes over; one rule may be without a tuple, and a text is its own name."""
    several = (declared,) if isinstance(declared, str | Skip) else declared
    return tuple(each if isinstance(each, Skip) else Skip(each) for each in several if each)


def skipped_by(skips: Sequence[Skip], listed: str | None) -> Column:
    """Return the name of the first rule by which a record is passed over; NULL where none does.

    Args:
        skips: The rules.
        listed: The column with the list of which rows are made.
    """
    chosen = F.lit(None).cast("string")
    empty = [Skip(f"size(`{listed}`) = 0", NO_ITEMS)] if listed else []
    for skip in reversed([*skips, *empty]):
        chosen = F.when(F.expr(skip.where), F.lit(str(skip))).otherwise(chosen)
    return chosen


def names_of(skips: Sequence[Skip], listed: str | None) -> list[str]:
    """Return the names under which records may be passed over, in the order in which they are asked."""
    return [*dict.fromkeys([*map(str, skips), *([NO_ITEMS] if listed else [])])]


@dataclass(frozen=True, slots=True)
class Listed:
    """A list of which rows are made.

    Args:
        column: The column with the list.
        fields: The columns that an item becomes, each with how it is read of the item; of a list of plain values the column itself.
    """

    column: str
    fields: Mapping[str, str]

    @property
    def demand(self) -> Rule:
        """Return the rule that a record has a list, and that no item of it is NULL."""
        holds = f"`{self.column}` IS NOT NULL AND NOT exists(`{self.column}`, {_EACH} -> {_EACH} IS NULL)"
        return Rule(name=f"missing:{self.column}", holds=holds)

    def asked(self, rule: Rule) -> str:
        """Return how a rule is asked of a record; of each of its items, where it names one of their fields.

        A name that is only part of a text binds a variable that is not used, which changes no answer. Of a list or an item that
        is missing nothing else is asked: that is a reason by itself.
        """
        named = self._named_in(rule)
        if not named or rule == self.demand:
            return rule.asked
        bound = reduce(_bound, ((name, self.fields[name]) for name in named), rule.asked)
        return f"coalesce(forall(`{self.column}`, {_EACH} -> {_EACH} IS NULL OR ({bound})), true)"

    def of_items(self, rules: Sequence[Rule]) -> tuple[Rule, ...]:
        """Return those of the rules that are asked of each item; that none is NULL is not among them."""
        return tuple(rule for rule in rules if rule != self.demand and self._named_in(rule))

    def has_good(self, rules: Sequence[Rule]) -> Column:
        """Return whether one of the items keeps all rules of items."""
        own = self.of_items(rules)
        whole = " AND ".join(f"({rule.asked})" for rule in own) or "true"
        named = {name: None for rule in own for name in self._named_in(rule)}
        bound = reduce(_bound, ((name, self.fields[name]) for name in named), whole)
        is_bad = f"forall(`{self.column}`, {_EACH} -> {_EACH} IS NULL OR NOT ({bound}))"
        return F.expr(f"NOT coalesce({is_bad}, true)")

    def _named_in(self, rule: Rule) -> list[str]:
        text = rule.asked.lower()
        return [name for name in self.fields if name.lower() in text]

    def any_of(self, condition: str) -> str:
        """Return how a condition is asked that one of the items must meet."""
        return f"NOT {self.asked(Rule(name='', holds=f'NOT coalesce(({condition}), false)'))}"

    def rows(self, records: DataFrame, last: Sequence[str]) -> DataFrame:
        """Make a row of each item.

        Args:
            records: The records.
            last: Their columns that come last.
        """
        return self.judged(records, last, ())

    def judged(self, records: DataFrame, last: Sequence[str], rules: Sequence[Rule]) -> DataFrame:
        """Make a row of each item, with the rules that it breaks in ``_reasons`` where its record has items that break any.

        Args:
            records: The records.
            last: Their columns that come last.
            rules: The rules that decide about a record; none where no item is held.
        """
        own = [name for name in records.columns if name not in {self.column, *last, ITEM_FAULTS}]
        items = [F.expr(how).alias(name) for name, how in self.fields.items()]
        each = F.posexplode(self.column).alias(ITEM, _EACH)
        if not rules:
            made = records.select(*own, *last, each)
            return made.select(*own, *items, *last, ITEM)
        # A rule may name the list beside a field of its items; of plain values the field has the list's name.
        whole = [] if self.column in self.fields else [self.column]
        made = records.select(*own, *whole, *last, ITEM_FAULTS, each)
        made = made.select(*own, *whole, *items, *last, ITEM, ITEM_FAULTS, _EACH)
        faults = F.when(F.col(_EACH).isNull(), F.array(F.lit(self.demand.name))).otherwise(
            broken(self.of_items(rules))
        )
        reasons = F.when(F.col(ITEM_FAULTS).isNotNull() & (F.size(faults) > 0), faults)
        return made.select(*own, *self.fields, *last, ITEM, reasons.alias("_reasons"))


def _bound(asked: str, named: tuple[str, str]) -> str:
    """Return a predicate in which a field of the item has its name.

    A variable of a lambda is of an array's items: so the field is put into an array of one.
    """
    name, how = named
    return f"forall(array({how}), `{name}` -> {asked})"


def in_rows(
    table: str, records: DataFrame, column: str, source: str, secret: Collection[str] = ()
) -> DataFrame:
    """Return a row for each item of the records that a table above the judged ones reads.

    Args:
        table: The table's one name.
        records: The rows of its source.
        column: Their column with the list.
        source: The one name of the source.
        secret: The masked columns of the table.

    Raises:
        DefinitionError: The source has no such list, or rows cannot have the columns of its items.
    """
    return listed(table, records, column, secret, source=source).rows(records, ())


def counted_items(records: DataFrame, column: str) -> tuple[int, int]:
    """Return how many items records have in a list, and how many of them have none: their list is empty or missing."""
    size = F.greatest(F.coalesce(F.size(column), F.lit(0)), F.lit(0))
    items, empty = records.agg(F.sum(size), F.count_if(size == 0)).collect()[0]
    return items or 0, empty


def listed(
    table: str, rows: DataFrame, column: str, secret: Collection[str] = (), *, source: str = ""
) -> Listed:
    """Return the list of which a table makes rows.

    Args:
        table: The table's one name.
        rows: What its function gives, or the rows of its source.
        column: The column with the list.
        secret: The masked columns of the table.
        source: The one name of the source, where the list is in its rows.

    Raises:
        DefinitionError: Its function gives no such list, or rows cannot have the columns of its items.
    """
    found = {each.name: each.dataType for each in rows.schema}.get(column)
    if not isinstance(found, ArrayType):
        whose = source or "what its function gives"
        has = f"is {found.simpleString()}" if found else f"is no column of {whose}"
        raise DefinitionError(
            f'{table} makes rows of its list {column} (rows="{column}"), which {has}',
            hint=f"let the function{f' of {source}' if source else ''} select {column} as an array, of structs or of plain values; "
            "the columns of a struct become columns of the rows.",
            table=table,
        )
    if ITEM in rows.columns:
        raise DefinitionError(
            f"{source or table} has a column {ITEM}, which is the place of an item in its list",
            hint="give it another name in the function.",
            table=table,
        )
    if not isinstance(found.elementType, StructType):
        return Listed(column, {column: _EACH})
    fields = found.elementType.fieldNames()
    if column in secret:
        raise DefinitionError(
            f"{table} names {column} sensitive, which is no column of its rows: they have the fields of its items",
            hint=f"name those that are: {', '.join(fields)}.",
            table=table,
        )
    taken = {name.lower() for name in rows.columns if name != column} | OWN
    lower = [name.lower() for name in fields]
    odd = [name for name in fields if "`" in name or lower.count(name.lower()) > 1]
    if odd:
        raise DefinitionError(
            f"{table}: a row cannot have the fields {' and '.join(map(repr, odd))} of the items of {column}",
            hint="give each a name of its own, in whichever case, without a backtick.",
            table=table,
        )
    twice = [name for name in fields if name.lower() in taken]
    if twice:
        raise DefinitionError(
            f"{table}: the items of {column} have {' and '.join(twice)}, and so has the record: a row cannot have both",
            hint="give one of the two another name in the function, such as "
            f"transform({column}, x -> named_struct('item_{twice[0]}', x.{twice[0]}, …)).",
            table=table,
        )
    return Listed(column, {name: f"{_EACH}.`{name}`" for name in fields})
