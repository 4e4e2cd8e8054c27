"""A lake in Python, to be read: tables by name, as DuckDB, Arrow, Polars or Spark, with their types.

>>> from strandline.engine.ask.lake_reader import lake
>>> lake()["gold.device_daily"].arrow(at=12)  # doctest: +SKIP

It has no verb that writes, and each read opens the table anew. Sensitive columns are masked as in ``strandline query``: within
one read equal values have equal masks. A reader that shows them has a reason, and each read is written down with it.
"""

import importlib
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from difflib import get_close_matches
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema
from strandline import catalog

from strandline.core.errors import DefinitionError
from strandline.core.kind import in_utc
from strandline.core.table import Table
from strandline.engine.accounting.balance_sheet import balance
from strandline.engine.ask import sql_query
from strandline.engine.ask.find_moment import Moment
from strandline.engine.ask.lake_views import Source, sources
from strandline.engine.ask.locate import Finding, World
from strandline.engine.ask.moments import choosing, chosen, fixed, live, refuse_apart
from strandline.engine.ask.sql_query import (
    Question,
    Reference,
    names,
    opened,
    pinned,
    view_of,
)
from strandline.engine.ask.why import why
from strandline.engine.lake.commit.delta_commit import rows_at
from strandline.engine.lake.duckdb_table import Duck, Relation, literal, session
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger import latest_version
from strandline.engine.lake.order_log import attempted, roles_of, write_down
from strandline.engine.lake.place import Place
from strandline.engine.runtime import clock, spark_session
from strandline.engine.runtime.roles import Role, RoleError
from strandline.engine.runtime.settings import Settings, connect_variable, settings
from strandline.project import refuse_without

# The rows of a table or of a question in Python: as DuckDB, Arrow, Polars or Spark, read anew each time that they are asked for.


if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa

SHOWN = 10
"""Rows of an answer that a notebook shows when it is the last value of a cell."""


@dataclass(frozen=True, slots=True, repr=False)
class Scope:
    """What is read, and how.

    Args:
        place: The lake.
        all: All tables of the project.
        found: The settings, by which Spark is started where it is asked for.
        unmasked: Why sensitive columns are shown; masked when None.
        moment: The moment at which all tables are read; None for what there is.
    """

    place: Lake
    all: tuple[Table, ...]
    found: Settings
    unmasked: str | None = None
    moment: Moment | None = None

    def write_down(self, what: str) -> None:
        """Log what is read unmasked, before it is."""
        if self.unmasked is not None:
            write_down(
                self.place,
                {"python": what},
                who=clock.login(),
                at=clock.now(),
                why=self.unmasked,
                over="python",
            )


@dataclass(frozen=True, slots=True, repr=False)
class Rows:
    """The rows of a question, read anew each time that they are asked for.

    Args:
        of: The lake.
        question: The question.
        text: It as it was asked.
    """

    of: Scope
    question: Question
    text: str

    def duckdb(self) -> Relation:
        """Return them as a relation of DuckDB, to go on asking; nothing is read before its rows are fetched."""
        with self._opened(through_arrow=True) as duck:
            return duck.sql(self.question.sql)

    def arrow(self) -> "pa.Table":
        """Return them as a table of Arrow: decimals are exact, times in UTC."""
        with self._opened() as duck:
            return duck.execute(self.question.sql).to_arrow_table()

    @contextmanager
    def _opened(self, *, through_arrow: bool = False) -> Iterator[Duck]:
        self.of.write_down(self.text)
        duck, lake, shows = session(), self.of.place, self.of.unmasked is not None
        with opened(
            self.question,
            self.of.all,
            lake,
            unmasked=shows,
            duck=duck,
            through_arrow=through_arrow,
        ):
            yield duck

    def polars(self) -> "pl.DataFrame":
        """Return them as a frame of Polars.

        Raises:
            DefinitionError: Polars is not installed.
        """
        refuse_without("polars")
        library = importlib.import_module("polars")
        frame: pl.DataFrame = library.from_arrow(self.arrow())
        return frame

    def __repr__(self) -> str:
        return str(self.duckdb().limit(SHOWN))


@dataclass(frozen=True, slots=True, repr=False)
class Readings:
    """A table of a lake.

    Args:
        of: The lake.
        name: Its name.
        source: Where it is.
    """

    of: Scope
    name: str
    source: Source

    @property
    def version(self) -> int:
        """Return the version that is read: its latest, or that of the moment at which the lake was opened."""
        at = self.of.moment.version(self.name) if self.of.moment else None
        return latest_version(self.source.place) if at is None else at

    @property
    def columns(self) -> dict[str, str]:
        """Return its columns and the types that DuckDB has for them; a masked one is text."""
        relation = self.duckdb()
        return dict(zip(relation.columns, map(str, relation.types), strict=True))

    @property
    def masked(self) -> list[str]:
        """Return its columns that are masked."""
        question, unmasked = self._rows(None).question, self.of.unmasked is not None
        with opened(
            question, self.of.all, self.of.place, unmasked=unmasked, duck=session()
        ) as views:
            return views.masked[self.name]

    def duckdb(self, at: int | datetime | None = None) -> Relation:
        """Return its rows as a relation of DuckDB; at a version, or as they were at a moment, or now."""
        return self._rows(at).duckdb()

    def arrow(self, at: int | datetime | None = None) -> "pa.Table":
        """Return its rows as a table of Arrow; at a version, or as they were at a moment, or now."""
        return self._rows(at).arrow()

    def polars(self, at: int | datetime | None = None) -> "pl.DataFrame":
        """Return its rows as a frame of Polars; at a version, or as they were at a moment, or now."""
        return self._rows(at).polars()

    def spark(self, at: int | datetime | None = None, by: SparkSession | None = None) -> DataFrame:
        """Return its rows as a frame of Spark, which is started where none runs; the others need no JVM.

        What is no table of the catalog, such as the open rows of a quarantine, is handed over from DuckDB.

        Args:
            at: A version, or a moment; now when None.
            by: Which Spark reads, that of a platform or of Spark Connect as well: it needs Delta and a way to the lake. That of
                this process when None.

        Raises:
            DefinitionError: This process is a client of Spark Connect, whose packages are not installed.
        """
        if by is None and connect_variable():
            refuse_without("connect")
        lake = self.of.place
        log = lake.program_log("notebook-spark")
        spark = spark_session.for_reading(self.of.found, log, by)
        is_kept = at is None and self.of.moment is not None and self.of.moment.kept is not None
        if self.source.table is None or not self.source.is_plain or is_kept:
            return _handed_over(self.arrow(at), spark)
        self.of.write_down(f"{self.name} in Spark")
        duck, question = session(), self._rows(at).question
        unmasked = self.of.unmasked is not None
        with opened(question, self.of.all, lake, unmasked=unmasked, duck=duck) as views:
            _, version = views.past.get(self.name, (None, self.version))
            rows = rows_by(spark, self.source.place, version)
            return _masked(rows, views.masked[self.name])

    def history_of(self, *key: object, at: datetime | None = None) -> Rows:
        """Return the intervals of a key of a table with validity, the oldest first; or the one in which a moment lies.

        Args:
            key: The values of its key without the begin of the interval, such as the id of a device.
            at: A moment; in UTC where it names no zone.

        Raises:
            DefinitionError: It is no such table, the key has other columns, or one of them is masked.
        """
        table = self.source.table
        until = table.valid_until if table and self.source.is_plain else None
        if table is None or until is None:
            raise DefinitionError(
                f"{self.name} has no intervals of validity",
                hint="name a table that declares valid_until; `strandline new dimension` drafts one.",
                table=self.name,
            )
        columns = [each for each in table.row_key if each != table.event_at]
        if len(key) != len(columns):
            raise DefinitionError(
                f"{self.name} knows a row by {' and '.join(columns)}, and {len(key)} values are given",
                hint=f"write .history_of({', '.join(columns)}).",
                table=self.name,
            )
        self._refuse_masked(columns)
        wanted = [f'"{each}" = {literal(value)}' for each, value in zip(columns, key, strict=True)]
        begin = f'"{table.event_at}"'
        if at is not None:
            moment = f"{literal(in_utc(at))} AT TIME ZONE 'UTC'"
            wanted.append(f'{begin} <= {moment} AND ("{until}" IS NULL OR {moment} < "{until}")')
        whole = self._rows(None).question
        sql = f"{whole.sql} WHERE {' AND '.join(wanted)} ORDER BY {begin}"
        return Rows(self.of, replace(whole, sql=sql), sql)

    def _refuse_masked(self, columns: Sequence[str]) -> None:
        hidden = sorted({*columns} & {*self.masked})
        if hidden:
            raise DefinitionError(
                f"{' and '.join(hidden)} of {self.name} is masked, so that no value of it can be asked for",
                hint='open the lake with a reason: lake(unmasked="fraud case 17"); it is written down.',
                table=self.name,
            )

    def _rows(self, at: int | datetime | None) -> Rows:
        match at:
            case None:
                reference = Reference(self.name)
            case datetime():
                reference = Reference(self.name, "TIMESTAMP", at)
            case _:
                reference = Reference(self.name, "VERSION", at)
        moment = self.of.moment if at is None else None
        if moment is not None:
            refuse_apart(moment, [self.name])
            reference = pinned(reference, moment)
        view = f"FROM {view_of(reference)}"
        question = Question(view, (reference,), lists=False, moment=moment)
        return Rows(self.of, question, question.sql)

    def __repr__(self) -> str:
        listed = [f"{name}: {kind}" for name, kind in self.columns.items()]
        head = f"{self.name}, version {self.version:,}; .polars(), .arrow(), .duckdb(), .spark(), each with at=version or moment"
        return "\n  ".join([head, *listed])


def _handed_over(rows: "pa.Table", spark: SparkSession) -> DataFrame:
    """Return rows of Arrow as a frame; of none PySpark's client of Spark Connect asks what its columns are."""
    return spark.createDataFrame(rows, None if rows.num_rows else from_arrow_schema(rows.schema))


def rows_by(spark: SparkSession, place: Place, version: int) -> DataFrame:
    """Return the rows of a version, in a session of ours or in another, which has Delta's public door alone."""
    if spark_session.is_ours(spark):
        return rows_at(spark, place, version)
    return spark.read.format("delta").option("versionAsOf", version).load(str(place))


def _masked(rows: DataFrame, columns: list[str]) -> DataFrame:
    """Replace values as the views of DuckDB do.

    In SQL: an expression of PySpark's belongs to the JVM of this process, or to a server, and which one a process asks is one variable.
    """
    if not columns:
        return rows
    salt = secrets.token_hex()
    shown = []
    for name in rows.columns:
        column = "`" + name.replace("`", "``") + "`"
        mask = f"concat('[', left(sha2(concat('{salt}', cast({column} AS STRING)), 256), 12), ']')"
        shown.append(f"{mask} AS {column}" if name in columns else column)
    return rows.selectExpr(*shown)


def lake(
    where: str | None = None,
    *,
    unmasked: str | None = None,
    at: str | int | datetime | None = None,
) -> "Readable":
    """Open a lake to read it.

    Args:
        where: Its folder or address; that of the settings when absent.
        unmasked: Why sensitive columns are shown in the clear; masked when absent.
        at: The moment at which all tables are read (infra/docs/moments.md): ``"LATEST"``, a time, or the number of one. Each
            read is of what there is when absent.

    Raises:
        DefinitionError: There is no lake, or the reason is empty.
        RoleError: The roles of the lake do not let this user read, or see what is masked.
        TransientError: It is being restored.
    """
    found = settings(lake=where)
    place = Lake(Place.of(found.lake))
    if not place.root.exists():
        raise DefinitionError(
            f"there is no lake at {place.root}", hint="name another: lake('path/of/a/lake')."
        )
    place.refuse_restoring()
    who = clock.login()
    try:
        roles_of(place).refuse(who, Role.READ, "lake()")
    except RoleError as error:
        attempted(place, "lake()", who=who, at=clock.now(), over="python", message=error.message)
        raise
    tables = catalog.tables()
    moment = None if at is None else chosen(at, (), tables, place)
    readable = Readable(place, tables, found, unmasked, moment)
    if unmasked is not None:
        readable.write_down("lake()")
    return readable


class Readable(Scope):
    """A lake that can be read and not be changed."""

    __slots__ = ()

    def tables(self) -> list[str]:
        """Return the names of the tables that exist: all layers, quarantines, resolutions, the ledger, the history."""
        return names(self.all, self.place)

    def sql(self, text: str) -> "Rows":
        """Return the rows of one SELECT over these tables, as ``strandline query`` answers it; of AT MOMENT LATEST always the same."""
        choose = choosing(self.all, self.place)
        default = live if self.moment is None else fixed(self.moment)
        return Rows(self, sql_query.read(session(), text, choose, default), text)

    def why(self, event: str, table: str | None = None) -> Finding:
        """Return where an event is and why, as ``strandline why`` does without asking Kafka.

        Args:
            event: TOPIC/PARTITION/OFFSET, or the value of a table's key.
            table: The table that it should be in; the one that judges it when absent.
        """
        wanted = catalog.find(table) if table else None
        sees = roles_of(self.place).allows(clock.login(), Role.UNMASK)
        return why(event, wanted, World(lake=self.place, now=clock.now(), sees_masked=sees))

    def ledger(self) -> list[dict[str, object]]:
        """Return the balance sheet of each table that exists, as ``strandline ledger`` shows it."""
        sheets = [balance(table, self.place) for table in self.all if self.place.exists(table)]
        return [
            {
                "table": sheet.table,
                "read": sheet.read,
                "good": sheet.good,
                "duplicates": sheet.duplicates,
                "quarantined": sheet.held_records,
                "skipped": sum(sheet.skipped.values()),
                "dropped": sheet.dropped_by_watermark,
                "lost": sheet.lost_by_function,
                "made": sheet.made_by_function,
                "healed": sheet.healed,
                "balanced": sheet.balanced,
            }
            for sheet in sheets
        ]

    def __getitem__(self, name: str) -> "Readings":
        known = self.tables()
        if name not in known:
            likely = get_close_matches(name, known, n=1) or [
                each for each in known if each.endswith(f".{name}")
            ]
            listed = (
                f"did you mean {likely[0]}?" if likely else f"the tables are {', '.join(known)}."
            )
            raise DefinitionError(f"there is no table {name} in {self.place.root}", hint=listed)
        return Readings(self, name, sources(self.all, self.place)[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self.tables())

    def __repr__(self) -> str:
        shown = "masked" if self.unmasked is None else f"unmasked: {self.unmasked}"
        return "\n  ".join(
            [
                f"the lake {self.place.root}, read-only, {shown}; lake['gold.…'].polars(), .arrow(), .duckdb(), .spark()",
                *self.tables(),
            ]
        )

    def _ipython_key_completions_(self) -> list[str]:
        return self.tables()
