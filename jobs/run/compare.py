"""Are two lakes the same, row for row?

Silver, what the quarantine holds, and gold of both are compared as bags of rows: a row that one has twice and the other once is a
difference. Floats are not compared because there are none. Bronze is left out: how Kafka's records are
cut into commits, and when, is no property of the data.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TypeAlias

import duckdb
from deltalake import DeltaTable

from jobs.core.errors import DefinitionError
from jobs.core.received import PLACE
from jobs.core.table import Table
from jobs.run.bags import SIDES, difference
from jobs.run.hidden import hidden
from jobs.run.lake import Lake
from jobs.run.resolutions import State, offer
from jobs.run.scan import scan
from jobs.run.spill import spilling
from quality.mask import mask_value

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
    with spilling() as duck:
        for side, lake, version in (("l", left, own), ("r", right, None)):
            _offer_rows(duck, side, table, lake, version)
        within = _within(f'"{table.event_at}"', span)
        secret = hidden(table, left)
        found = [_compared(table.id, table.key, duck, sides, within, secret)]
    if table.judges:
        with spilling() as duck:
            for side, lake, versions in (
                ("l", left, (quarantine, resolutions)),
                ("r", right, (None, None)),
            ):
                _offer_held(duck, side, table, lake, versions)
            moment = _within("coalesce(event_at, _arrived_at)", span)
            name = f"quarantine.{table.name}"
            found.append(_compared(name, PLACE, duck, sides, moment, secret))
    for one in found:
        if one.apart and not may_differ:
            raise _apart(one.table, one.apart)
    return found


def _offer_rows(
    duck: duckdb.DuckDBPyConnection, side: str, table: Table, lake: Lake, version: int | None
) -> None:
    """Make a side's view of a table's rows."""
    path = lake.table(table)
    _refuse_missing(table.id, path)
    scan(duck, f"all_{side}", DeltaTable(path, version=version))


def _offer_held(
    duck: duckdb.DuckDBPyConnection,
    side: str,
    table: Table,
    lake: Lake,
    at: tuple[int | None, int | None],
) -> None:
    """Make a side's view of what a quarantine holds, and not of what was released since."""
    _refuse_missing(f"quarantine.{table.name}", lake.quarantine(table))
    offer(duck, f"records_{side}", table, lake, at, scan)
    duck.execute(
        f"CREATE VIEW all_{side} AS SELECT * EXCLUDE (_state) FROM records_{side} "  # noqa: S608  # no user's text
        f"WHERE _state <> '{State.CLOSED}'"
    )


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
    duck: duckdb.DuckDBPyConnection,
    sides: tuple[str, str],
    within: str,
    secret: Collection[str],
) -> Comparison:
    for side in SIDES:
        duck.execute(f"CREATE VIEW {side} AS SELECT * FROM all_{side} WHERE {within}")  # noqa: S608  # no user's text
    names, others = (
        [str(row[0]) for row in duck.execute(f"DESCRIBE {side}").fetchall()] for side in SIDES
    )
    apart = tuple(sorted({*names} ^ {*others}))
    shared = [column for column in names if column in others]
    if not shared:
        raise _apart(name, apart)
    found = difference(duck, shared, key if {*key} <= {*shared} else ())
    return Comparison(
        table=name,
        left_rows=found.rows[0],
        right_rows=found.rows[1],
        only_left=found.only[0],
        only_right=found.only[1],
        changed=found.changed,
        apart=apart,
        samples=tuple(
            f"only {side}: {_shown(row, shared, secret)}"
            for side, rows in zip(sides, found.samples, strict=True)
            for row in rows
        ),
    )


def _shown(
    row: Sequence[object], columns: Sequence[str], secret: Collection[str]
) -> tuple[object, ...]:
    """Return a row with what is sensitive masked."""
    return tuple(
        mask_value(value) if column in secret else value
        for column, value in zip(columns, row, strict=True)
    )


def _apart(name: str, columns: Sequence[str]) -> DefinitionError:
    return DefinitionError(
        f"{name} has not the same columns in both lakes: {', '.join(columns)}",
        hint="run both with the same version of the code.",
        table=name,
    )
