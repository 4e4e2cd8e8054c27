"""What an agent asks of rows, within limits and without a value of a masked column: one SELECT, and what is held back.

* A SELECT is that of ``strandline query``: masked views, no file, nothing that writes. Its time, memory, rows and bytes have limits.
  Beyond one it is refused and not cut, so that a part is not taken for the whole, as over JDBC. Its errors lose what DuckDB quotes of
  the rows that it read, because a cast may fail below the mask.
* A held record is shown as JSON, which its masks are on already.

One call of a function that DuckDB does not interrupt (two long texts compared place by place) ends late. The answer comes in time
all the same, and what still runs keeps its place among those that may (mcp_server.py).
"""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

import duckdb

from strandline.core.errors import DefinitionError
from strandline.core.table import Table
from strandline.engine.accounting.browse_held import Held
from strandline.engine.ask import sql_query
from strandline.engine.ask.moments import choosing
from strandline.engine.ask.sql_query import Question
from strandline.engine.lake.duckdb_table import Duck, duck_error, seal, session
from strandline.engine.lake.lake import Lake
from strandline.engine.runtime.limit import EndedError, interrupted, within
from strandline.operate.listener import exact_json, of_json, plain
from strandline_quality import mask

MEMORY = "256MB"
"""Most memory of a question; it spills to no disk, so a larger one fails."""

CHUNK = 100
"""Rows that are fetched and counted at once."""

LONGEST = 20_000
"""Characters of a question; the parser's tree of one is a hundred times as large."""

HARMLESS = (
    duckdb.ParserException,
    duckdb.SyntaxException,
    duckdb.BinderException,
    duckdb.CatalogException,
    duckdb.OutOfMemoryException,
    duckdb.PermissionException,
)
"""What DuckDB says about a question before it reads a row, or about the machine."""

QUOTED = re.compile(r"[\"'].*|(?<![A-Za-z_\d])[-+]?\d[\d.:,eE+-]*(?![A-Za-z_])", re.DOTALL)
"""What DuckDB repeats of a row: a number, or a text in quotes, whose end looks as a quote within it does."""


class LimitError(DefinitionError):
    """An answer would be more than one may be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one answer may cost.

    Args:
        seconds: After which a question is ended.
        rows: Most rows of an answer.
        size: Most bytes of an answer.
    """

    seconds: float = 30.0
    rows: int = 1_000
    size: int = 200_000


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows of a question, as JSON has them.

    Args:
        columns: The names of the columns.
        rows: The rows.
        masked: The columns of the tables that were masked.
    """

    columns: tuple[str, ...]
    rows: list[list[Any]]
    masked: tuple[str, ...]


def question_of(sql: str, tables: tuple[Table, ...], lake: Lake, limits: Limits) -> Question:
    """Return what a text asks, with the moment that it names; a value that it gives to AT is computed within the limits as well.

    Raises:
        LimitError: It is longer than a question may be, or takes longer to be understood.
        DefinitionError: It is not one SELECT.
    """
    if len(sql) > LONGEST:
        raise LimitError(f"a question has {LONGEST:,} characters at most", hint="ask it in parts.")
    with _limited(limits) as duck:
        seal(duck)
        return sql_query.read(duck, sql, choosing(tables, lake))


@contextmanager
def _limited(limits: Limits) -> Iterator[Duck]:
    """Yield an empty database with the memory and the time of one question, whose errors say what was too much.

    Raises:
        LimitError: It was ended.
        DefinitionError: What else was wrong, without what DuckDB quotes of rows.
    """
    duck = session()
    duck.execute(f"SET memory_limit = '{MEMORY}'")
    duck.execute("SET temp_directory = ''")  # else it spills into the folder that it was started in
    try:
        with within(limits.seconds), interrupted(duck):
            yield duck
    except EndedError:
        raise LimitError(
            f"the question was ended after {limits.seconds:g} s",
            hint="ask for less: a range of time, fewer columns, an aggregate.",
        ) from None
    except LimitError:
        raise
    except DefinitionError as error:
        raise without_values(error) from None


def selected(question: Question, tables: tuple[Table, ...], lake: Lake, limits: Limits) -> Rows:
    """Run one SELECT within limits.

    Raises:
        LimitError: It takes longer, or its answer is longer.
        DefinitionError: DuckDB refuses it.
    """
    with (
        _limited(limits) as duck,
        sql_query.opened(question, tables, lake, unmasked=False, duck=duck) as views,
    ):
        found = duck.execute(question.sql)
        names = tuple(column[0] for column in found.description or ())
        return Rows(names, _fetched(found, limits), views.hashed)


def _fetched(duck: Duck, limits: Limits) -> list[list[Any]]:
    rows, size = list[list[Any]](), 0
    while some := duck.fetchmany(CHUNK):
        for row in some:
            shown = [of_json(plain(value, exact_json)) for value in row]
            written = json.dumps(shown, default=str)
            size += len(written)
            rows.append(json.loads(written))
            if len(rows) > limits.rows or size > limits.size:
                most = (
                    f"{limits.rows:,} rows" if len(rows) > limits.rows else f"{limits.size:,} bytes"
                )
                raise LimitError(
                    f"the answer has more than {most}",
                    hint="aggregate, choose fewer columns, or add LIMIT; a part would be taken for the whole.",
                )
    return rows


def without_values(error: DefinitionError) -> DefinitionError:
    """Return an error of a question without what DuckDB quotes of the rows that it read."""
    cause = error.__cause__
    if not isinstance(cause, duck_error()) or isinstance(cause, HARMLESS):
        return error
    return DefinitionError(QUOTED.sub("[…]", error.message), hint=error.hint)


# A record that is held back, as JSON has it.


def held_as_json(row: Held) -> dict[str, Any]:
    """Return a held record as JSON has it; bytes that are no text as hexadecimal digits."""
    return {
        "place": f"{row.topic}/{row.partition}/{row.offset}",
        **({"item": row.item} if row.item is not None else {}),
        "reasons": list(row.reasons),
        "arrived_at": row.arrived_at,
        "event_at": row.event_at,
        "held_by": row.batch,
        "key": _shown(row.key),
        "payload": _shown(row.payload),
        "headers": {name: _shown(value) for name, value in row.headers},
        "decisions": [asdict(each) for each in row.done],
    }


def _shown(value: bytes | None) -> str | None:
    if value is None:
        return None
    try:
        found = value.decode()
    except UnicodeDecodeError:
        found = value.hex()
    return (
        found if len(found) <= mask.SHOWN else f"{found[: mask.SHOWN]}… ({len(found):,} characters)"
    )
