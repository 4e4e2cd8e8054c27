"""SQL queries without a JVM: delta-rs lists a table's files, DuckDB reads them.

Spark needs seconds to start; a query here takes about one. It cannot change anything: one SELECT is accepted
(jobs/strandline/engine/trace/sql_text.py), the database is in memory, and it may open the files of the tables that it names and
nothing else. Each query opens its tables anew, so no answer is older than the last commit.
"""

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from strandline.core.errors import DefinitionError
from strandline.core.table import Table
from strandline.engine.storage.duckdb_session import Duck, DuckError, seal, session
from strandline.engine.storage.lake import Lake
from strandline.engine.storage.past_versions import refuse_deleted_files
from strandline.engine.trace import sql_text
from strandline.engine.trace.masked_views import Views, names, open_views
from strandline.engine.trace.sql_text import Question


@dataclass(frozen=True, slots=True)
class Answer:
    """Columns and rows, and the columns of the queried tables that were masked."""

    columns: tuple[str, ...]
    rows: tuple[tuple[object, ...], ...]
    masked: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Result:
    """A query that was run, before its rows are fetched.

    Args:
        duck: The database with its rows.
        masked: The columns of the queried tables that were masked.
    """

    duck: Duck
    masked: tuple[str, ...]


def ask(  # noqa: PLR0913  # what, of what, how, and where
    sql: str,
    tables: Collection[Table],
    lake: Lake,
    *,
    unmasked: bool = False,
    duck: Duck | None = None,
    most: int | None = None,
) -> Answer:
    """Run one SELECT over the lake's tables and quarantines.

    Args:
        sql: The query.
        tables: All tables of the lake.
        lake: The lake.
        unmasked: Whether sensitive columns are shown in the clear.
        duck: An empty database to run it in, which its owner may interrupt.
        most: How many rows to fetch; all by default.

    Raises:
        DefinitionError: The text is not one SELECT, or DuckDB refuses it.
    """
    with asked(sql, tables, lake, unmasked=unmasked, duck=duck) as result:
        columns = tuple(column[0] for column in result.duck.description or ())
        rows = result.duck.fetchall() if most is None else result.duck.fetchmany(most)
        return Answer(columns, tuple(rows), result.masked)


@contextmanager
def asked(
    sql: str,
    tables: Collection[Table],
    lake: Lake,
    *,
    unmasked: bool = False,
    duck: Duck | None = None,
) -> Iterator[Result]:
    """Run one SELECT like ``ask``, and let its rows be fetched in the block in another form."""
    duck = session() if duck is None else duck
    question = sql_text.read(duck, sql)
    with opened(question, tables, lake, unmasked=unmasked, duck=duck) as views:
        masked = [f"{name}.{each}" for name, columns in views.masked.items() for each in columns]
        yield Result(duck.execute(question.sql), tuple(masked))


@contextmanager
def opened(  # noqa: PLR0913  # what, of what, where, and how
    question: Question,
    tables: Collection[Table],
    lake: Lake,
    *,
    unmasked: bool,
    duck: Duck,
    through_arrow: bool = False,
) -> Iterator[Views]:
    """Open the tables of a question in an empty database, and explain what goes wrong in the block."""
    views = Views()
    try:
        views = open_views(
            duck, question, tables, lake, unmasked=unmasked, through_arrow=through_arrow
        )
        seal(duck)
        yield views
    except (DuckError, OSError) as error:
        _refuse_past(views)
        raise _refusal(error, names(tables, lake)) from error


def _refuse_past(views: Views) -> None:
    """Explain an error by the files of past versions, where some are gone."""
    for name, (place, version) in views.past.items():
        refuse_deleted_files(place, name, version)


def _refusal(error: Exception, known: list[str]) -> DefinitionError:
    return DefinitionError(
        sql_text.sentence(error), hint=f"the tables here are {', '.join(known)}."
    )
