"""One log of events, run in every mode, each in a lake of its own; the answers must be the same rows."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TypeVar

from pyspark.sql import SparkSession

from fleet.gold import device_signal_10m as gold
from fleet.silver import device_telemetry as silver
from strandline.core.stateful import AvailableNow, Batch, MicroBatch, Mode
from strandline.core.table import Table
from strandline.engine.accounting.balance_sheet import balance, waiting
from strandline.engine.accounting.held_records import held
from strandline.engine.flow.query import is_settled
from strandline.engine.flow.runner import Site, run
from strandline.engine.flow.running import Report
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger import is_table
from strandline.engine.lake.open_table import opened
from strandline.engine.lake.place import Place
from tests.support import lakes
from tests.support.events import TABLE, Event, commits, received
from tests.support.rows import NOON, Row, shown
from tests.support.upserted import upserted

ON_CHANGE = upserted(gold.TABLE, name="device_signal_10m_now")
"""The same windows, emitted on every change, in a table of their own."""

TABLES = (silver.TABLE, gold.TABLE, ON_CHANGE)
EVERY = 0.05
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """The rows of a lake, as text."""

    silver: list[Row]
    quarantine: list[Row]
    closed: list[Row]
    now: list[Row]

    def of(self, rows: str, *names: str) -> list[Row]:
        """Return some columns of ``silver``, ``quarantine``, ``closed`` or ``now``."""
        return shown(getattr(self, rows), *names)


def in_every_mode(
    spark: SparkSession,
    root: Path,
    events: Sequence[Event],
    tables: Sequence[Table] = TABLES,
    streamed: Sequence[str] | None = None,
) -> Answers:
    """Run silver and gold in all modes and return the one answer.

    Args:
        spark: The session.
        root: A folder for the lakes.
        events: The log.
        tables: What to run.
        streamed: The modes beside the batch; all when absent, which one test of each kind of table asks for.

    Raises:
        AssertionError: Two modes disagree, or a ledger does not balance.
    """
    expected = answered_by("batch", spark, root, events, tables)
    for name in STREAMED if streamed is None else streamed:
        assert answered_by(name, spark, root, events, tables) == expected, f"{name} is not batch"
    return expected


def answered_by(
    name: str,
    spark: SparkSession,
    root: Path,
    events: Sequence[Event],
    tables: Sequence[Table] = TABLES,
) -> Answers:
    """Run tables in one way, in a lake of its own, prove its ledger, and return its rows."""
    lake = Lake(root / name).open_for_writing()
    WAYS[name](spark, lake, commits(events), tables)
    assert proven(lake, tables)
    return answers_of(lake)


def proven(lake: Lake, tables: Sequence[Table], *, bronze: bool = True) -> bool:
    """Assert that every event is accounted for in every table; without bronze if silver was made of nothing."""
    for table in (TABLE, *tables) if bronze else tables:
        assert balance(table, lake).faults == [], f"{table.id} in {lake.root.name}"
    return True


def derive(
    spark: SparkSession, lake: Lake, *tables: Table, mode: Mode | None = None
) -> list[Report]:
    """Run tables one after the other, by default catching up."""
    site = Site(spark=spark, clock=lambda: NOON)
    return [run(table, mode or AvailableNow(), lake, site=site) for table in tables]


def answers_of(lake: Lake) -> Answers:
    """Read the rows of a lake; a table that was not run has none."""
    return Answers(
        silver=_read(lake.table(silver.TABLE)),
        quarantine=_held(lake),
        closed=_read(lake.table(gold.TABLE)),
        now=_read(lake.table(ON_CHANGE)),
    )


def twin(lake: Lake, name: str) -> Lake:
    """Return a new lake with the same bronze table and nothing else."""
    other = Lake(lake.root.parent / name).open_for_writing()
    lakes.copy(lake.table(TABLE), other.table(TABLE))
    return other


def _whole(
    spark: SparkSession, lake: Lake, waiting: list[list[Event]], tables: Sequence[Table]
) -> None:
    received(lake, chain(*waiting))
    derive(spark, lake, *tables, mode=Batch())


def _at_once(
    spark: SparkSession, lake: Lake, waiting: list[list[Event]], tables: Sequence[Table]
) -> None:
    received(lake, chain(*waiting))
    derive(spark, lake, *tables)


def _stepwise(
    spark: SparkSession, lake: Lake, waiting: list[list[Event]], tables: Sequence[Table]
) -> None:
    for batch in waiting:
        received(lake, batch)
        derive(spark, lake, *tables)


def _always(
    spark: SparkSession, lake: Lake, waiting: list[list[Event]], tables: Sequence[Table]
) -> None:
    received(lake, waiting[0])
    later = waiting[1:]
    for table in tables:
        stream(spark, lake, table, later, lambda batch: received(lake, batch))


WAYS: dict[str, Callable[[SparkSession, Lake, list[list[Event]], Sequence[Table]], None]] = {
    "batch": _whole,
    "all commits at once": _at_once,
    "commit by commit": _stepwise,
    "micro-batch": _always,
}
STREAMED = tuple(WAYS)[1:]
STEPWISE = ("commit by commit",)
"""The mode that differs from a batch most: each commit meets state, a checkpoint and a watermark."""


def stream(
    spark: SparkSession,
    lake: Lake,
    table: Table,
    waiting: list[T],
    take_in: Callable[[T], object],
) -> None:
    """Run a table always on, take in what waits whenever it caught up, and stop it when nothing is left."""

    def stopped() -> bool:
        if not has_caught_up(lake, table):
            return False
        if waiting:
            take_in(waiting.pop(0))
            return False
        return True

    site = Site(spark=spark, clock=lambda: NOON)
    run(table, MicroBatch(every=EVERY), lake, site=site, stopped=stopped)


def has_caught_up(lake: Lake, table: Table) -> bool:
    """Return whether a stream has read all there is, and ended the batch that its last watermark causes."""
    return waiting(table, lake) <= 0 and is_settled(table, lake)


def _held(lake: Lake) -> list[Row]:
    if not is_table(lake.quarantine(silver.TABLE)):
        return []
    return shown(held(silver.TABLE, lake).to_pylist())


def _read(path: Place) -> list[Row]:
    if not is_table(path):
        return []
    return shown(opened(path).to_pyarrow_table().to_pylist())
