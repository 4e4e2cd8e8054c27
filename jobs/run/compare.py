"""Are two lakes the same, row for row?

Silver, quarantine and gold of both are compared as bags of rows: a row that one has twice and the other once is a
difference. Floats are not compared because there are none. Bronze is left out: how Kafka's records are
cut into commits, and when, is no property of the data.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TypeAlias

import duckdb
from deltalake import DeltaTable

from jobs.core.errors import DefinitionError
from jobs.core.received import PLACE
from jobs.core.table import Table
from jobs.run.lake import Lake

SAMPLES = 3

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
        at: The versions of the left table's folders; the newest when absent.
        sides: How a sample says where it was found.
        may_differ: Whether the two may have different columns.
        span: The range of event time to look at; of the quarantine, where a row has none, of its arrival.

    Raises:
        DefinitionError: One of the lakes has no such table, or the columns differ and may not.
    """
    names = (table.id, f"quarantine.{table.name}")
    folders = zip(left.folders(table), right.folders(table), strict=True)
    versions: Sequence[int | None] = at or [None] * len(left.folders(table))
    moments = (f'"{table.event_at}"', "coalesce(event_at, _arrived_at)")
    found = [
        _compared(name, key, (here, there), version, sides, _within(moment, span))
        for name, key, (here, there), version, moment in zip(
            names, (table.key, PLACE), folders, versions, moments, strict=False
        )
    ]
    for one in found:
        if one.apart and not may_differ:
            raise _apart(one.table, one.apart)
    return found


def _within(moment: str, span: Range | None) -> str:
    """Return the condition that a row lies in a range."""
    if span is None:
        return "TRUE"
    since, until = (f"TIMESTAMPTZ '{at.isoformat()}'" for at in span)
    return f"{moment} >= {since} AND {moment} < {until}"


def _compared(  # noqa: PLR0913, PLR0917  # as above
    name: str,
    key: Sequence[str],
    folders: tuple[Path, Path],
    version: int | None,
    sides: tuple[str, str],
    within: str,
) -> Comparison:
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    for side, path, at in (("l", folders[0], version), ("r", folders[1], None)):
        if not (path / "_delta_log").is_dir():
            raise DefinitionError(
                f"there is no table at {path}", hint="run it first: `strandline run`.", table=name
            )
        connection.register(f"all_{side}", DeltaTable(path, version=at).to_pyarrow_table())
        connection.execute(f"CREATE VIEW {side} AS SELECT * FROM all_{side} WHERE {within}")  # noqa: S608  # no user's text
    names, others = (
        [str(row[0]) for row in connection.execute(f"DESCRIBE {side}").fetchall()] for side in "lr"
    )
    apart = tuple(sorted({*names} ^ {*others}))
    if not {*names} & {*others}:
        raise _apart(name, apart)
    columns = ", ".join(f'"{column}"' for column in names if column in others)

    def count(query: str) -> int:
        row = connection.execute(f"SELECT count(*) FROM ({query})").fetchone()  # noqa: S608  # no user's text
        return int(row[0]) if row else 0

    left_only = f"SELECT {columns} FROM l EXCEPT ALL SELECT {columns} FROM r"  # noqa: S608  # as above
    right_only = f"SELECT {columns} FROM r EXCEPT ALL SELECT {columns} FROM l"  # noqa: S608  # as above
    keys = ", ".join(f'"{column}"' for column in key)
    both = f"SELECT {keys} FROM ({left_only}) INTERSECT SELECT {keys} FROM ({right_only})"  # noqa: S608  # as above
    samples = [
        f"only {side}: {row}"
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


def _apart(name: str, columns: Sequence[str]) -> DefinitionError:
    return DefinitionError(
        f"{name} has not the same columns in both lakes: {', '.join(columns)}",
        hint="run both with the same version of the code.",
        table=name,
    )
