"""A static table: a small table from elsewhere, joined to rows as of their event, before they are counted.

The lake keeps each content that it had as a version, with the moment from which that version holds (jobs/strandline/engine/lake/static_versions.py).
A version begins later than any event that a batch of before can have, so which version a row meets follows from its event time
and from the lake alone: all modes and every recomputation give the same rows.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from typing import ClassVar, TypeAlias

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from strandline.core.errors import DefinitionError

TYPES: Mapping[str, DataType] = {
    "string": StringType(),
    "boolean": BooleanType(),
    "int": IntegerType(),
    "bigint": LongType(),
    "double": DoubleType(),
    "date": DateType(),
    "timestamp": TimestampType(),
}
DECIMAL = re.compile(r"decimal\((\d{1,2}),(\d{1,2})\)")
ADDRESS = re.compile(r"s3a://[^/].*|file:///.*", re.IGNORECASE)
COLUMN = re.compile(r"\s*([A-Za-z]\w*)\s+([^,(]+(?:\([^)]*\))?)\s*(?:,|$)")
NAME = re.compile(r"[a-z][a-z0-9_]*")
VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]*")

WRITTEN: Mapping[type[DataType], type | tuple[type, ...]] = {
    StringType: str,
    BooleanType: bool,
    IntegerType: int,
    LongType: int,
    DoubleType: (float, int),
    DecimalType: (Decimal, int),
    DateType: date,
    TimestampType: datetime,
}
"""The values of Python that a default of a type is written as."""

DIGITS = 38
"""Of a decimal, at most."""

FROM, UNTIL = "_holds_from", "_holds_until"
"""The columns of an interval in which a row holds; the second is the first moment in which it does not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Static:
    """A small table from elsewhere. A table names it in ``static``, and its function joins it: ``CAMPAIGNS.joined(clicks, at="clicked_at")``.

    Args:
        name: Its one name in the lake: ``static.NAME``.
        columns: Its columns with their types, such as ``"product string, price decimal(10,2)"``.
        key: The columns that identify a row; no two rows agree in them, and none of them is NULL.
        file: A file of CSV with a line of names, or of Parquet; a path within the project's folder, or an address on a store.
        delta: The folder of a Delta table elsewhere.
        query: A SELECT that a database of PostgreSQL answers.
        url: The variable of the environment with that database's address, which has a password and is no part of a declaration.
        rows: A few rows, each with the values of all columns in their order.
        holds_from: The moment from which its content holds: the first one, and later ones where this is a later moment. Without
            it the first holds of all time before, and a later one as soon as it can.
        default: The values that columns have for a row that it has no row for, and for an event from before its first version;
            NULL where none is declared.
    """

    layer: ClassVar[str] = "static"

    name: str
    columns: str
    key: tuple[str, ...]
    file: str | None = None
    delta: str | None = None
    query: str | None = None
    url: str | None = None
    rows: tuple[tuple[object, ...], ...] | None = None
    holds_from: datetime | None = None
    default: Mapping[str, object] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        """Refuse a declaration that nothing could be read by."""
        if not NAME.fullmatch(self.name):
            raise self.refused("has a name that is no name of a folder", "use a-z, 0-9 and _.")
        sources = ("file", "delta", "query", "rows")
        named = [each for each in sources if getattr(self, each) is not None]
        if len(named) != 1:
            raise self.refused(
                f"declares {' and '.join(named) or 'nothing'} to read",
                "give it one of file=, delta=, query= and rows=.",
            )
        for name in {*named} & {"file", "delta"}:
            self._refuse_address(name, getattr(self, name))
        self._refuse_query(self.query, self.url)
        self._refuse_columns()
        self._refuse_defaults()
        if self.rows is not None:
            self._refuse_rows(self.rows)
        self._refuse_moment(self.holds_from)

    @property
    def id(self) -> str:
        """Return the one name."""
        return f"{self.layer}.{self.name}"

    def __str__(self) -> str:
        """Return the one name."""
        return self.id

    @property
    def schema(self) -> StructType:
        """Return its columns."""
        return StructType([StructField(name, kind) for name, kind in self._fields()])

    @property
    def values(self) -> tuple[str, ...]:
        """Return the columns that a join adds."""
        return tuple(name for name in self.schema.fieldNames() if name not in self.key)

    def joined(self, rows: DataFrame, at: str, on: str | Sequence[str] | None = None) -> DataFrame:
        """Add its columns to rows, each with the values that held when its event happened.

        Args:
            rows: Rows of a table; none is lost, and none comes twice.
            at: The column with their event time.
            on: The columns with its key, in the key's order, where they have other names than there.

        Raises:
            DefinitionError: The rows lack a column, or have one that it adds, or a key is of another type.
        """
        by = (on,) if isinstance(on, str) else tuple(on or self.key)
        self._refuse_unfit(rows, at, by)
        side = _FRAMES.get()(self, at, rows)
        mine = {name: F.col(_hidden(self, name)) for name in side.columns}
        own = dict(zip(self.key, by, strict=True))
        matches = (F.col(at) >= mine[FROM]) & (F.col(at) < mine[UNTIL])
        for name in self.key:
            matches &= F.col(own[name]) == mine[name]
        hidden = side.select([F.col(name).alias(_hidden(self, name)) for name in side.columns])
        found = rows.join(F.broadcast(hidden), matches, "left")
        is_met = mine[self.key[0]].isNotNull()
        added = [self._value(name, mine[name], is_met).alias(name) for name in self.values]
        return found.select(*(F.col(f"`{name}`") for name in rows.columns), *added)

    def refused(self, sentence: str, hint: str) -> DefinitionError:
        """Return the error of a declaration or of a content; its sentence begins with the name."""
        return DefinitionError(f"{self.id} {sentence}", hint=hint, static=self.id)

    def _value(self, name: str, value: Column, is_met: Column) -> Column:
        if name not in self.default:
            return value
        other = F.lit(self.default[name]).cast(self.schema[name].dataType)
        return F.when(is_met, value).otherwise(other)

    def _fields(self) -> Iterator[tuple[str, DataType]]:
        at = 0
        while at < len(self.columns):
            found = COLUMN.match(self.columns, at)
            kind = _type_of(found[2]) if found else None
            if found is None or kind is None:
                raise self.refused(
                    f"has columns that cannot be read: {self.columns[at:].strip()!r}",
                    f'write columns="product string, price decimal(10,2)"; the types are {", ".join(TYPES)} and decimal(p,s).',
                )
            yield found[1], kind
            at = found.end()

    def _refuse_address(self, name: str, path: object) -> None:
        if not isinstance(path, str):
            raise self.refused(f"has {name}={path!r}, which is no text", f'write {name}="{path}".')
        if "://" in path and not ADDRESS.fullmatch(path):
            raise self.refused(
                f"reads {path}, which is neither a path nor an address of a store",
                "name a path from the project's folder, a whole one, or s3a://bucket/path; what is elsewhere is brought there.",
            )

    def _refuse_query(self, query: object, url: object) -> None:
        if query is None and url is None:
            return
        if not isinstance(query, str) or not query.strip():
            raise self.refused(
                f"has query={query!r} for the database of {url}",
                'write query="SELECT product, price FROM products", with all of its columns.',
            )
        if not isinstance(url, str) or not VARIABLE.fullmatch(url):
            raise self.refused(
                "has a query and no variable of the environment as its url",
                'write url="SHOP_DATABASE" and set that variable to postgresql://…: an address has a password.',
            )

    def _refuse_moment(self, moment: object) -> None:
        if moment is None or (isinstance(moment, datetime) and moment.tzinfo is not None):
            return
        lacking = "names no zone" if isinstance(moment, datetime) else "is no moment"
        raise self.refused(
            f"holds from {moment}, which {lacking}", "write datetime(2026, 1, 1, tzinfo=UTC)."
        )

    def _refuse_defaults(self) -> None:
        for name, value in self.default.items():
            if name in self.key:
                raise self.refused(
                    f"has a default for {name} of its key",
                    f"a row keeps its own key; the added columns are {', '.join(self.values)}.",
                )
            kind = self.schema[name].dataType
            if value is not None and not _is_of(value, kind):
                raise self.refused(
                    f"has the default {value!r} for {name}, which is {kind.simpleString()}",
                    "write a value of the column's type, such as Decimal, date or datetime(…, tzinfo=UTC) for theirs.",
                )

    def _refuse_columns(self) -> None:
        names = [name for name, _ in self._fields()]
        key: object = self.key
        if not isinstance(key, tuple) or not key:
            raise self.refused(
                f"has the key {self.key!r}", 'write key=("product",): the comma makes the tuple.'
            )
        odd = [name for name in (*self.key, *self.default) if name not in names]
        lower = [name.lower() for name in names]
        twice = [name for name in dict.fromkeys(lower) if lower.count(name) > 1]
        if odd or twice or len(names) == len(self.key):
            wrong = (
                f"has no column {' and '.join(odd)}"
                if odd
                else f"has {' and '.join(sorted(twice))} twice"
                if twice
                else "has no column beside its key"
            )
            raise self.refused(wrong, f"its columns are {', '.join(names)}.")
        fractions = [name for name in self.key if self.schema[name].dataType == DoubleType()]
        if fractions:
            raise self.refused(
                f"has {' and '.join(fractions)} as double in its key",
                "a fraction that is computed is seldom equal to another one: declare it as decimal(p,s), or as text.",
            )

    def _refuse_rows(self, rows: object) -> None:
        count = len(self.schema)
        is_fit = isinstance(rows, tuple) and all(
            isinstance(each, tuple) and len(each) == count for each in rows
        )
        if not is_fit:
            raise self.refused(
                f"has rows that are no tuples of {count} values",
                f"write rows=(({', '.join(self.schema.fieldNames())}), …).",
            )
        try:
            hash(rows)
        except TypeError as error:
            raise self.refused(
                f"has rows with a value that is no single one: {error}",
                "write a text, a number, a boolean, a date, a datetime or None for each column.",
            ) from error

    def _refuse_unfit(self, rows: DataFrame, at: str, by: tuple[str, ...]) -> None:
        has = {each.name: each.dataType for each in rows.schema}
        if lacking := [name for name in (at, *by) if name not in has]:
            raise self.refused(
                f"is joined to rows without {' and '.join(lacking)}",
                f"they have {', '.join(has)}; name the columns with its key by on=.",
            )
        if len(by) != len(self.key):
            raise self.refused(
                f"is joined on {', '.join(by)}, and its key is {', '.join(self.key)}",
                "name a column for each of the key, in its order.",
            )
        known = {name.lower() for name in has}
        if both := [name for name in self.values if name.lower() in known]:
            raise self.refused(
                f"adds {' and '.join(both)}, which the rows have already",
                "rename the column before the join, or in the static table.",
            )
        for name, mine in zip(by, self.key, strict=True):
            if has[name] != self.schema[mine].dataType:
                raise self.refused(
                    f"has {mine} as {self.schema[mine].dataType.simpleString()}, and the rows have {name} as "
                    f"{has[name].simpleString()}",
                    "declare the column with the type that the rows have, or cast theirs before the join.",
                )


def _hidden(static: Static, name: str) -> str:
    return f"__{static.name}__{name}"


def _type_of(text: str) -> DataType | None:
    said = text.strip().lower().replace(" ", "")
    if found := DECIMAL.fullmatch(said):
        digits, behind = int(found[1]), int(found[2])
        return DecimalType(digits, behind) if behind <= digits and 0 < digits <= DIGITS else None
    return TYPES.get(said)


def _is_of(value: object, kind: DataType) -> bool:
    if isinstance(value, bool) or isinstance(kind, BooleanType):
        return isinstance(value, bool) and isinstance(kind, BooleanType)
    if isinstance(value, datetime):
        return isinstance(kind, TimestampType) and value.tzinfo is not None
    return isinstance(value, WRITTEN[type(kind)])


Frames: TypeAlias = Callable[[Static, str, DataFrame], DataFrame]
"""Returns the rows of a static table with the interval in which each holds; of which, as of which column, and beside which rows."""


def no_frames(static: Static, at: str, rows: DataFrame) -> DataFrame:  # noqa: ARG001  # the shape of all
    """Refuse to join, because no lake was named.

    Raises:
        DefinitionError: Always.
    """
    raise static.refused(
        "was asked for outside of a lake",
        "in a test, call the function within `trial_spark(…)`, which reads what it declares; rules and models of alerts have no lake.",
    )


_FRAMES: ContextVar[Frames] = ContextVar("frames", default=no_frames)


@contextmanager
def frames_from(frames: Frames) -> Iterator[None]:
    """Let the functions of tables that are called in the block find static tables there."""
    token = _FRAMES.set(frames)
    try:
        yield
    finally:
        _FRAMES.reset(token)
