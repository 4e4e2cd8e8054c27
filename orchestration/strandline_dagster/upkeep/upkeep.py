"""Maintenance of the lake, and the deletion of what is older than its table keeps it, each by a schedule.

Maintenance of the lake, every quarter of an hour, beside the stream or the catch-up; it is on by default.

Without it a lake gets slower with each batch, so it is for an operator to switch it off, and not on. A run takes seconds, needs no Spark, and leaves for the next one what it cannot do in ten minutes.
"""

import os

from dagster import (
    Config,
    OpExecutionContext,
    RunRequest,
    ScheduleEvaluationContext,
    SkipReason,
    job,
    op,
    schedule,
)
from pydantic import Field
from strandline import catalog

from strandline.core.errors import LakeError, TransientError
from strandline.core.table import Table
from strandline.engine.lake.lake import Lake
from strandline.engine.repair.expire import declares, expire, is_due
from strandline.engine.runtime import clock
from strandline.engine.service.maintain import Maintained, maintain, refuse_idle
from strandline.operate import lakes
from strandline.operate.maintenance import GENTLE, orphans, policy_of
from strandline_dagster.alarms import failure
from strandline_dagster.resources import LakeResource, SparkResource
from strandline_dagster.schedules import by_itself, unfinished_run


class Upkeep(Config):
    """How maintenance is done."""

    keep: str = Field(
        default="1d", description="How long files stay that a later version replaced."
    )
    most: str = Field(default="10m", description="No step begins after this time.")


@op(description="Put small files together, keep logs short, delete what no reader needs.")
def maintain_lake(context: OpExecutionContext, config: Upkeep, lake: LakeResource) -> None:
    """Maintain the lake, and delete what killed batches left behind."""
    os.nice(GENTLE)  # the process is that of the run
    where = lake.lake()
    try:
        done = []
        for each in maintain(where, clock.now(), policy_of(config.keep, config.most)):
            done.append(each)
            if each.merged or each.commits or each.deleted or each.left:
                context.log.info("%s", each.sentence)
        _refuse_damaged(context, done)
        taken = orphans(where, go=True)
    except LakeError as error:
        raise failure(error) from error
    for orphan in taken:
        context.log.info("%s: %s bytes, %s", orphan.path, orphan.size, orphan.why)


def _refuse_damaged(context: OpExecutionContext, done: list[Maintained]) -> None:
    """Fail a run that left every table because of damage; what works there for an hour ends by itself."""
    try:
        refuse_idle(done)
    except TransientError as error:
        context.log.warning("%s", error.message)


@job(name="maintenance", description="Keep the lake as quick as on its first day.")
def maintenance() -> None:
    """Maintain."""
    maintain_lake()


@schedule(
    job=maintenance,
    cron_schedule="7-59/15 * * * *",
    execution_timezone="UTC",
    default_status=by_itself(usually=True),
)
def maintain_often(context: ScheduleEvaluationContext) -> RunRequest | SkipReason:
    """Maintain the lake, unless there is none yet or the last run is not finished."""
    _, where = lakes.configured(None)
    if not where.root.exists():
        return SkipReason(f"there is no lake at {where.root} yet")
    if running := unfinished_run(context.instance, maintenance.name):
        return SkipReason(f"run {running} is not finished yet")
    return RunRequest()


# Rows that are older than their tables keep them are deleted every night, as ``strandline expire --go`` does.
#
# It is on by default, because a table that declares ``keeps`` means it; where none does, or nothing is old, there is no run
# and no Spark. A table that cannot be done tonight fails the run after the others were done.


@op(description="Delete the rows that are older than their tables keep them.")
def expire_rows(context: OpExecutionContext, lake: LakeResource, spark: SparkResource) -> None:
    """Let old rows of all tables expire."""
    where, failed = lake.lake(), list[LakeError]()
    for table in due(where):
        try:
            for each in expire(spark.spark_session, table, where, clock.now()):
                context.log.info(
                    "%s: %s rows before %s expired", each.table, f"{each.rows:,}", each.until
                )
        except LakeError as error:
            context.log.warning("%s", error)
            failed.append(error)
    if failed:
        raise failure(failed[0]) from failed[0]


@job(name="expire", description="Delete the rows that are older than their tables keep them.")
def expiry() -> None:
    """Let old rows expire."""
    expire_rows()


@schedule(
    job=expiry,
    cron_schedule="30 1 * * *",
    execution_timezone="UTC",
    default_status=by_itself(usually=True),
)
def expire_nightly(lake: LakeResource) -> RunRequest | SkipReason:
    """Let old rows expire, where there are any."""
    if not any(declares(table) for table in catalog.tables()):
        return SkipReason("no table declares how long it keeps its rows")
    return (
        RunRequest() if due(lake.lake()) else SkipReason("no row is older than its table keeps it")
    )


def due(lake: Lake) -> list[Table]:
    """Return the tables of which something would expire."""
    return [table for table in catalog.tables() if is_due(table, lake, clock.now())]
