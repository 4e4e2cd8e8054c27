"""Compare the tables of two lakes, row for row.

Silver, the held rows of the quarantine, and gold are compared as bags of rows: a row that one side has twice and the
other once is a difference. Floats are not compared because there are none. Bronze is left out: how and when Kafka's
records were cut into commits is no property of the data.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias

from strandline.core.errors import DefinitionError
from strandline.core.received import PLACE
from strandline.core.table import Judged, Table
from strandline.engine.pipeline.masked_columns import hidden
from strandline.engine.proof.compare_bags import SIDES, difference
from strandline.engine.quarantine.resolutions import State, offer
from strandline.engine.storage.duckdb_session import Duck, spilling
from strandline.engine.storage.duckdb_view import scan
from strandline.engine.storage.lake import Lake
from strandline.engine.storage.ledger import is_table
from strandline.engine.storage.place import Place
from strandline_quality.mask import mask_value

Range: TypeAlias = tuple[datetime, datetime]
"""The start of a range of event time, and its exclusive end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """What retention has left of a table that was computed from more.

    Args:
        events: Rows of an earlier event time are not compared.
        arrivals: Records of the quarantine that arrived earlier are not compared.
    """

    events: datetime | None = None
    arrivals: datetime | None = None


ALL = Kept()


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The differences between two versions of a table.

    Args:
        table: Its name, or that of its quarantine.
        left_rows: The number of rows on the left.
        right_rows: The number of rows on the right.
        only_left: Rows that the right side has not.
        only_right: Rows that the left side has not.
        changed: How many keys have differing rows on both sides.
        apart: Columns that only one side has; the others were compared.
        samples: Some of the differing rows.
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
        """Return whether both sides have the same rows."""
        return self.only_left == 0 and self.only_right == 0 and not self.apart


def compare(  # noqa: PLR0913  # two sides, and their names
    table: Table,
    left: Lake,
    right: Lake,
    *,
    at: Sequence[int] | None = None,
    sides: tuple[str, str] = ("in the first", "in the second"),
    may_differ: bool = False,
    span: Range | None = None,
    kept: Kept = ALL,
    without: Collection[str] = (),
) -> list[Comparison]:
    """Compare a table, and its quarantine if it has one.

    Args:
        table: The table.
        left: One lake.
        right: The other lake.
        at: The versions of the left table's books (``Lake.books``); the newest when absent.
        sides: The names of the sides in samples.
        may_differ: Whether the two may have different columns.
        span: The range of event time to compare; a quarantined row without event time counts by its arrival.
        kept: What retention has left.
        without: Columns that are left out, such as the place in Kafka where one lake was filled from files.

    Raises:
        DefinitionError: One of the lakes has no such table, or the columns differ although they may not.
    """
    own, quarantine, resolutions, *_ = (*(at or ()), None, None, None)
    with spilling() as duck:
        for side, lake, version in (("l", left, own), ("r", right, None)):
            _offer_rows(duck, side, table, lake, version)
        within = _within(f'"{table.event_at}"', span, kept.events)
        secret = hidden(table, left) | hidden(table, right)
        results = [_compared(table.id, table.key, duck, sides, within, secret, without)]
    if isinstance(table, Judged):
        with spilling() as duck:
            for side, lake, versions in (
                ("l", left, (quarantine, resolutions)),
                ("r", right, (None, None)),
            ):
                _offer_held(duck, side, table, lake, versions)
            moment = _within("coalesce(event_at, _arrived_at)", span)
            moment += f" AND {_within('_arrived_at', None, kept.arrivals)}"
            name = f"quarantine.{table.name}"
            results.append(_compared(name, PLACE, duck, sides, moment, secret, without))
    for one in results:
        if one.apart and not may_differ:
            raise _apart(one.table, one.apart)
    return results


def _offer_rows(duck: Duck, side: str, table: Table, lake: Lake, version: int | None) -> None:
    """Create a side's view of a table's rows."""
    path = lake.table(table)
    _refuse_missing(table.id, path)
    scan(duck, f"all_{side}", path, version)


def _offer_held(
    duck: Duck,
    side: str,
    table: Table,
    lake: Lake,
    at: tuple[int | None, int | None],
) -> None:
    """Create a side's view of the rows that a quarantine holds, without the released ones."""
    _refuse_missing(f"quarantine.{table.name}", lake.quarantine(table))
    offer(duck, f"records_{side}", table, lake, at, scan)
    duck.execute(
        f"CREATE VIEW all_{side} AS SELECT * EXCLUDE (_state) FROM records_{side} "  # noqa: S608  # no user's text
        f"WHERE _state <> '{State.CLOSED}'"
    )


def _refuse_missing(name: str, path: Place) -> None:
    if not is_table(path):
        raise DefinitionError(
            f"there is no table at {path}", hint="make it first: `strandline run`.", table=name
        )


def _within(moment: str, span: Range | None, first: datetime | None = None) -> str:
    """Return the condition that a row is in a range, and not before a first moment."""
    kept = "TRUE" if first is None else f"{moment} >= TIMESTAMPTZ '{first.isoformat()}'"
    if span is None:
        return kept
    since, until = (f"TIMESTAMPTZ '{at.isoformat()}'" for at in span)
    return f"{moment} >= {since} AND {moment} < {until} AND {kept}"


def _compared(  # noqa: PLR0913, PLR0917  # the table, the names of the sides, and the masked columns
    name: str,
    key: Sequence[str],
    duck: Duck,
    sides: tuple[str, str],
    within: str,
    secret: Collection[str],
    without: Collection[str],
) -> Comparison:
    for side in SIDES:
        duck.execute(f"CREATE VIEW {side} AS SELECT * FROM all_{side} WHERE {within}")  # noqa: S608  # no user's text
    names, others = (
        [str(row[0]) for row in duck.execute(f"DESCRIBE {side}").fetchall()] for side in SIDES
    )
    apart = tuple(sorted({*names} ^ {*others}))
    shared = [column for column in names if column in others and column not in without]
    if not shared:
        raise _apart(name, apart)
    differing = difference(duck, shared, key if {*key} <= {*shared} else ())
    return Comparison(
        table=name,
        left_rows=differing.rows[0],
        right_rows=differing.rows[1],
        only_left=differing.only[0],
        only_right=differing.only[1],
        changed=differing.changed,
        apart=apart,
        samples=tuple(
            f"only {side}: {_shown(row, shared, secret)}"
            for side, rows in zip(sides, differing.samples, strict=True)
            for row in rows
        ),
    )


def _shown(
    row: Sequence[object], columns: Sequence[str], secret: Collection[str]
) -> tuple[object, ...]:
    """Return a row with its sensitive values masked."""
    return tuple(
        mask_value(value) if column in secret else value
        for column, value in zip(columns, row, strict=True)
    )


def _apart(name: str, columns: Sequence[str]) -> DefinitionError:
    return DefinitionError(
        f"{name} has different columns in the two lakes: {', '.join(columns)}",
        hint="run both with the same version of the code.",
        table=name,
    )
