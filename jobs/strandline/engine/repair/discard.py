"""Discard open rows of a quarantine, with the reason why, and reopen them.

The books do not change: the event is in no other place, so the ledger counts it as quarantined as before. But no
operator has to look at it any more, and replays skip it. Each is one commit, so nothing can be left half done.
"""

import uuid

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from strandline.core.errors import DefinitionError
from strandline.core.table import Table
from strandline.core.topic import PLACE
from strandline.engine.flow import new_entry
from strandline.engine.flow.shadow_lake import refuse_half_done
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.locks import lease
from strandline.engine.lake.log.ledger import Entry
from strandline.engine.quarantine.held_records import (
    DISCARD,
    REOPEN,
    Signed,
    State,
    Status,
    open_records,
    records,
    refuse_unheld,
    resolve,
    resolved,
    unfinished,
)
from strandline.engine.repair.backfill import ROLE
from strandline.engine.repair.closed_range import refuse_streamless
from strandline.engine.repair.replay import Choice


def refuse_unfit(table: Table, lake: Lake) -> None:
    """Refuse, before Spark is started, a quarantine in which a decision would not last.

    Raises:
        DefinitionError: The table has no quarantine, a batch replaces it as a whole, or another verb was interrupted.
    """
    refuse_unheld(table, lake)
    refuse_half_done(table, lake)
    refuse_streamless(table, lake)
    half = unfinished(table, lake)
    if half is not None:
        raise DefinitionError(
            f"a {half.mode} of {table.id} was interrupted, so it is unknown which of its rows are open",
            hint="`strandline ledger` prints the command that finishes it.",
            table=table.id,
        )


def refuse_vague(table: Table, choice: Choice, signed: Signed) -> None:
    """Refuse a discard that does not name its rows and the reason.

    Raises:
        DefinitionError: One of the two is missing.
    """
    if choice.is_whole or not signed.why:
        raise DefinitionError(
            "a discard must name its rows and the reason",
            hint='give --reason or --at, and --because "…".',
            table=table.id,
        )


def discard(spark: SparkSession, table: Table, lake: Lake, choice: Choice, signed: Signed) -> int:
    """Discard open rows, and return how many.

    Raises:
        DefinitionError: No open row matches, rows or reason are not named, or see ``refuse_unfit``.
        TransientError: A backfill or replay is under way.
    """
    refuse_vague(table, choice, signed)
    refuse_unfit(table, lake)
    with lease(spark, table, lake, role=ROLE):
        chosen = open_records(spark, table, lake).where(choice.holds())
        if not chosen.limit(1).count():
            raise _none(table, "no open row that matches")
        done = resolve(
            spark,
            table,
            lake,
            chosen,
            status=Status.DISCARDED,
            signed=signed,
            entry=new_entry.mark(table, DISCARD, f"{DISCARD} {uuid.uuid4()}"),
        )
        return done.written


def reopen(spark: SparkSession, table: Table, lake: Lake, signed: Signed) -> int:
    """Undo the last discard, and return how many rows are open again.

    Raises:
        DefinitionError: There is no discard to undo, or see ``refuse_unfit``.
        TransientError: A backfill or replay is under way.
    """
    refuse_unfit(table, lake)
    with lease(spark, table, lake, role=ROLE):
        last = _last(table, lake)
        decisions = spark.read.format("delta").load(str(lake.resolutions(table)))
        places = decisions.where(F.col("entry") == last.stream).select(*PLACE, "reasons")
        discarded = records(spark, table, lake).where(F.col("_state") == State.DISCARDED.value)
        done = resolve(
            spark,
            table,
            lake,
            discarded.join(places, [*PLACE, "reasons"], "left_semi"),
            status=Status.REOPENED,
            signed=signed,
            entry=new_entry.mark(table, REOPEN, f"{REOPEN} {last.stream}"),
        )
        return done.written


def _last(table: Table, lake: Lake) -> Entry:
    """Return the newest discard that was not undone."""
    decided = resolved(table, lake)
    undone = {entry.stream for entry in decided if entry.mode == REOPEN}
    for entry in reversed(decided):
        if entry.mode == DISCARD and f"{REOPEN} {entry.stream}" not in undone:
            return entry
    raise _none(table, "no discard to undo")


def _none(table: Table, what: str) -> DefinitionError:
    return DefinitionError(
        f"the quarantine of {table.id} has {what}",
        hint=f"`strandline quarantine list {table.id}` prints what is open.",
        table=table.id,
    )
