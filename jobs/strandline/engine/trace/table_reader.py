"""The rows of a table or of a question in Python: as DuckDB, Arrow, Polars or Spark, read anew each time that they are asked for."""

import importlib
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from strandline.core.table import Table
from strandline.engine.runtime import clock, spark_session
from strandline.engine.runtime.extras import refuse_without
from strandline.engine.runtime.settings import Settings
from strandline.engine.storage.duckdb_session import Duck, Relation, session
from strandline.engine.storage.lake import Lake
from strandline.engine.storage.ledger import latest_version
from strandline.engine.storage.read_version import rows_at
from strandline.engine.trace.named_tables import Source
from strandline.engine.trace.sql_query import opened
from strandline.engine.trace.sql_text import Question, Reference, view_of
from strandline.engine.trace.unmasked_log import write_down

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
    """

    place: Lake
    all: tuple[Table, ...]
    found: Settings
    unmasked: str | None = None

    def write_down(self, what: str) -> None:
        """Log what is read unmasked, before it is."""
        if self.unmasked is not None:
            write_down(
                self.place, {"python": what}, who=clock.login(), at=clock.now(), why=self.unmasked
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
        """Return its latest version."""
        return latest_version(self.source.place)

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

    def spark(self, at: int | datetime | None = None) -> DataFrame:
        """Return its rows as a frame of Spark, which is started where none runs; the others need no JVM.

        What is no table of the catalog, such as the open rows of a quarantine, is handed over from DuckDB.
        """
        lake = self.of.place
        spark = spark_session.start(self.of.found, lake.program_log("notebook-spark"))
        if self.source.table is None or self.source.is_quarantine:
            return spark.createDataFrame(self.arrow(at))
        self.of.write_down(f"{self.name} in Spark")
        duck, question = session(), self._rows(at).question
        unmasked = self.of.unmasked is not None
        with opened(question, self.of.all, lake, unmasked=unmasked, duck=duck) as views:
            _, version = views.past.get(self.name, (None, self.version))
            return _masked(rows_at(spark, self.source.place, version), views.masked[self.name])

    def _rows(self, at: int | datetime | None) -> Rows:
        match at:
            case None:
                reference = Reference(self.name)
            case datetime():
                reference = Reference(self.name, "TIMESTAMP", at)
            case _:
                reference = Reference(self.name, "VERSION", at)
        question = Question(f"FROM {view_of(reference)}", (reference,), lists=False)
        return Rows(self.of, question, question.sql)

    def __repr__(self) -> str:
        listed = [f"{name}: {kind}" for name, kind in self.columns.items()]
        head = f"{self.name}, version {self.version:,}; .polars(), .arrow(), .duckdb(), .spark(), each with at=version or moment"
        return "\n  ".join([head, *listed])


def _masked(rows: DataFrame, columns: list[str]) -> DataFrame:
    """Replace values as the views of DuckDB do."""
    salt = F.lit(secrets.token_hex())
    hashes: dict[str, Any] = {
        name: F.concat(
            F.lit("["),
            F.left(F.sha2(F.concat(salt, F.col(name).cast("string")), 256), F.lit(12)),
            F.lit("]"),
        )
        for name in columns
    }
    return rows.withColumns(hashes)
