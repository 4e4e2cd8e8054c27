"""Open rows of a quarantine that are given up, with the reason why, and taken up again.

The books do not change: the event is in no other place, so the ledger counts it as quarantined as before. It is only
that nobody has to look at it any more, and that no replay does. One commit, so nothing can be left half done.
"""

import uuid

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from jobs.core.errors import DefinitionError
from jobs.core.received import PLACE
from jobs.core.table import Table
from jobs.run.backfill import ROLE
from jobs.run.closing import Signed, open_records, records, resolve
from jobs.run.heal import Choice
from jobs.run.lake import Lake
from jobs.run.lease import lease
from jobs.run.ledger import Entry
from jobs.run.resolutions import (
    DISCARD,
    REOPEN,
    State,
    Status,
    refuse_unheld,
    resolved,
    unfinished,
)
from jobs.run.shadow import refuse_half_done
from jobs.run.span import refuse_streamless


def refuse_unfit(table: Table, lake: Lake) -> None:
    """See, before Spark is started, that what is said about a quarantine would last.

    Raises:
        DefinitionError: The table has no quarantine, a batch replaces it as a whole, or another verb was interrupted.
    """
    refuse_unheld(table, lake)
    refuse_half_done(table, lake)
    refuse_streamless(table, lake)
    half = unfinished(table, lake)
    if half is not None:
        raise DefinitionError(
            f"a {half.mode} of {table.id} was interrupted, so it is not known which of its rows are open",
            hint="`strandline ledger` says what to type to finish it.",
            table=table.id,
        )


def refuse_vague(table: Table, choice: Choice, signed: Signed) -> None:
    """See that a discard says which rows, and why.

    Raises:
        DefinitionError: It does not.
    """
    if choice.is_whole or not signed.why:
        raise DefinitionError(
            "a discard says which rows, and why",
            hint='give --reason or --at, and --because "…".',
            table=table.id,
        )


def discard(spark: SparkSession, table: Table, lake: Lake, choice: Choice, signed: Signed) -> int:
    """Give up open rows, and return how many.

    Raises:
        DefinitionError: There is none, no row or no reason was named, or see ``refuse_unfit``.
        TransientError: A backfill or replay is under way.
    """
    refuse_vague(table, choice, signed)
    refuse_unfit(table, lake)
    with lease(spark, table, lake, role=ROLE):
        chosen = open_records(spark, table, lake).where(choice.holds())
        if not chosen.limit(1).count():
            raise _none(table, "no open row that was meant")
        done = resolve(
            spark,
            table,
            lake,
            chosen,
            status=Status.DISCARDED,
            signed=signed,
            entry=_entry(table, DISCARD, f"{DISCARD} {uuid.uuid4()}"),
        )
        return done.written


def reopen(spark: SparkSession, table: Table, lake: Lake, signed: Signed) -> int:
    """Take the last discard back, and return how many rows are open again.

    Raises:
        DefinitionError: There is none, or see ``refuse_unfit``.
        TransientError: A backfill or replay is under way.
    """
    refuse_unfit(table, lake)
    with lease(spark, table, lake, role=ROLE):
        last = _last(table, lake)
        said = spark.read.format("delta").load(str(lake.resolutions(table)))
        places = said.where(F.col("entry") == last.stream).select(*PLACE, "reasons")
        given_up = records(spark, table, lake).where(F.col("_state") == State.DISCARDED.value)
        done = resolve(
            spark,
            table,
            lake,
            given_up.join(places, [*PLACE, "reasons"], "left_semi"),
            status=Status.REOPENED,
            signed=signed,
            entry=_entry(table, REOPEN, f"{REOPEN} {last.stream}"),
        )
        return done.written


def _last(table: Table, lake: Lake) -> Entry:
    """Return the newest discard that was not taken back."""
    told = resolved(table, lake)
    undone = {entry.stream for entry in told if entry.mode == REOPEN}
    for entry in reversed(told):
        if entry.mode == DISCARD and f"{REOPEN} {entry.stream}" not in undone:
            return entry
    raise _none(table, "no discard that could be taken back")


def _entry(table: Table, mode: str, stream: str) -> Entry:
    return Entry(table=table.id, mode=mode, stream=stream, batch=0, source="")


def _none(table: Table, what: str) -> DefinitionError:
    return DefinitionError(
        f"the quarantine of {table.id} has {what}",
        hint=f"`strandline quarantine list {table.id}` says what is open.",
        table=table.id,
    )
