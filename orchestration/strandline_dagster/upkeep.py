"""Maintenance of the lake, every quarter of an hour, beside the stream or the catch-up; it is on by default.

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

from strandline.core.errors import LakeError, TransientError
from strandline.engine.runtime import clock
from strandline.engine.service.maintain import Maintained, maintain, refuse_idle
from strandline.operate import lakes
from strandline.operate.maintenance import GENTLE, orphans, policy_of
from strandline_dagster.failures import failure
from strandline_dagster.resources import LakeResource
from strandline_dagster.schedules import unfinished_run
from strandline_dagster.switched import by_itself


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
