"""Are two lakes the same, row for row?

Silver, what the quarantine holds, and gold of both are compared as bags of rows: a row that one has twice and the other once is a
difference. Floats are not compared because there are none. Bronze is left out: how Kafka's records are
cut into commits, and when, is no property of the data.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, TypeAlias

import duckdb
from deltalake import DeltaTable

from jobs.core.errors import DefinitionError
from jobs.core.received import PLACE
from jobs.core.rescue import RESCUED
from jobs.core.table import Table
from jobs.run.lake import Lake
from jobs.run.resolutions import held
from quality.mask import mask_value

SAMPLES = 3
UNREADABLE = ("_payload", "_message_key", "_headers", RESCUED)
"""Columns that may hold anything, and so what is sensitive."""

Range: TypeAlias = tuple[datetime, datetime]
"""A moment, and the one after the last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """What two versions of a table have in common.

    Args:
        table: Its name, or that of its quarantine.
        left_rows: Rows of the one.
        right_rows: Rows of the other.
        only_left: Rows that the other has not.
        only_right: Rows that the one has not.
        changed: How many of these have a partner of the same key on the other side.
        apart: Columns that only one of them has; the others were compared.
        samples: Some of the rows.
    """

    table: str
    left_rows: int
    right_rows: int
    only_left: int
    only_right: int
    changed: int
    apart: tuple[str, ...]
    samples: tuple[str, ...]

    @property
    def equal(self) -> bool:
        """Tell whether both hold the same rows."""
        return self.only_left == 0 and self.only_right == 0 and not self.apart


def compare(  # noqa: PLR0913  # two sides, and how they are told apart
    table: Table,
    left: Lake,
    right: Lake,
    *,
    at: Sequence[int] | None = None,
    sides: tuple[str, str] = ("in the first", "in the second"),
    may_differ: bool = False,
    span: Range | None = None,
) -> list[Comparison]:
    """Compare a table, and its quarantine if it has one.

    Args:
        table: What to compare.
        left: One lake.
        right: Another.
        at: The versions of the left table's books (``Lake.books``); the newest when absent.
        sides: How a sample says where it was found.
        may_differ: Whether the two may have different columns.
        span: The range of event time to look at; of the quarantine, where a row has none, of its arrival.

    Raises:
        DefinitionError: One of the lakes has no such table, or the columns differ and may not.
    """
    own, quarantine, resolutions, *_ = (*(at or ()), None, None, None)
    rows = [_rows(table, left, own), _rows(table, right)]
    hidden = {*table.secret, *(UNREADABLE if table.secret else ())}
    within = _within(f'"{table.event_at}"', span)
    found = [_compared(table.id, table.key, rows, sides, within, hidden)]
    if table.judges:
        rows = [_held(table, left, (quarantine, resolutions)), _held(table, right)]
        moment = _within("coalesce(event_at, _arrived_at)", span)
        name = f"quarantine.{table.name}"
        found.append(_compared(name, PLACE, rows, sides, moment, hidden))
    for one in found:
        if one.apart and not may_differ:
            raise _apart(one.table, one.apart)
    return found


def _rows(table: Table, lake: Lake, version: int | None = None) -> Any:  # noqa: ANN401  # Arrow has no types
    path = lake.table(table)
    _refuse_missing(table.id, path)
    return DeltaTable(path, version=version).to_pyarrow_table()


def _held(table: Table, lake: Lake, at: tuple[int | None, int | None] = (None, None)) -> Any:  # noqa: ANN401  # as above
    """Return what a quarantine holds, and not what was released since."""
    _refuse_missing(f"quarantine.{table.name}", lake.quarantine(table))
    return held(table, lake, at)


def _refuse_missing(name: str, path: Path) -> None:
    if not (path / "_delta_log").is_dir():
        raise DefinitionError(
            f"there is no table at {path}", hint="run it first: `strandline run`.", table=name
        )


def _within(moment: str, span: Range | None) -> str:
    """Return the condition that a row lies in a range."""
    if span is None:
        return "TRUE"
    since, until = (f"TIMESTAMPTZ '{at.isoformat()}'" for at in span)
    return f"{moment} >= {since} AND {moment} < {until}"


def _compared(  # noqa: PLR0913, PLR0917  # what, how it is told apart, and how it may be shown
    name: str,
    key: Sequence[str],
    rows: Sequence[Any],
    sides: tuple[str, str],
    within: str,
    hidden: Collection[str],
) -> Comparison:
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    for side, found in zip("lr", rows, strict=True):
        connection.register(f"all_{side}", found)
        connection.execute(f"CREATE VIEW {side} AS SELECT * FROM all_{side} WHERE {within}")  # noqa: S608  # no user's text
    names, others = (
        [str(row[0]) for row in connection.execute(f"DESCRIBE {side}").fetchall()] for side in "lr"
    )
    apart = tuple(sorted({*names} ^ {*others}))
    if not {*names} & {*others}:
        raise _apart(name, apart)
    shared = [column for column in names if column in others]
    columns = ", ".join(f'"{column}"' for column in shared)

    def count(query: str) -> int:
        row = connection.execute(f"SELECT count(*) FROM ({query})").fetchone()  # noqa: S608  # no user's text
        return int(row[0]) if row else 0

    left_only = f"SELECT {columns} FROM l EXCEPT ALL SELECT {columns} FROM r"  # noqa: S608  # as above
    right_only = f"SELECT {columns} FROM r EXCEPT ALL SELECT {columns} FROM l"  # noqa: S608  # as above
    keys = ", ".join(f'"{column}"' for column in key)
    both = f"SELECT {keys} FROM ({left_only}) INTERSECT SELECT {keys} FROM ({right_only})"  # noqa: S608  # as above
    samples = [
        f"only {side}: {_shown(row, shared, hidden)}"
        for side, query in zip(sides, (left_only, right_only), strict=True)
        for row in connection.execute(f"{query} ORDER BY ALL LIMIT {SAMPLES}").fetchall()
    ]
    return Comparison(
        table=name,
        left_rows=count("FROM l"),
        right_rows=count("FROM r"),
        only_left=count(left_only),
        only_right=count(right_only),
        changed=count(both) if {*key} <= {*names} & {*others} else 0,
        apart=apart,
        samples=tuple(samples),
    )


def _shown(
    row: Sequence[object], columns: Sequence[str], hidden: Collection[str]
) -> tuple[object, ...]:
    """Return a row with what is sensitive masked."""
    return tuple(
        mask_value(value) if column in hidden else value
        for column, value in zip(columns, row, strict=True)
    )


def _apart(name: str, columns: Sequence[str]) -> DefinitionError:
    return DefinitionError(
        f"{name} has not the same columns in both lakes: {', '.join(columns)}",
        hint="run both with the same version of the code.",
        table=name,
    )
