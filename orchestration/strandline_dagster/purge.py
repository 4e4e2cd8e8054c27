"""Purge Dagster's own history by a policy, so that its storage is as large after years as after weeks.

The setting ``retention`` of ``dagster.yaml`` bounds the ticks of schedules and sensors, and Dagster's daemon applies it
after each tick. It has none for runs and events. Each pass is bounded in time, ends between two statements, and begins
where the last one ended, because what is left to delete is a question to the storage and not a memory.
"""

import time
from collections.abc import Iterator
from datetime import timedelta

from dagster import (
    Config,
    JobDefinition,
    OpExecutionContext,
    ScheduleDefinition,
    job,
    op,
)
from pydantic import Field

from strandline.engine.runtime import clock
from strandline_dagster.old_events import old_events
from strandline_dagster.old_runs import left_files, old_runs, shrunk, size
from strandline_dagster.switched import by_itself


class Policy(Config):
    """What stays."""

    days: int = Field(default=30, ge=1, description="Days for which an ended run stays.")
    runs: int = Field(default=2_000, ge=1, description="The newest runs that stay at most.")
    results: int = Field(
        default=200,
        ge=1,
        description="The newest results of each check that stay, and the newest events of each kind of each asset.",
    )
    seconds: float = Field(default=300, gt=0, description="How long one pass may take.")


@op(
    description="Delete old runs, events, results and their files; the newest of each asset and check stay."
)
def purge_history(context: OpExecutionContext, config: Policy) -> None:
    """Purge."""
    instance, begun = context.instance, time.monotonic()
    was = size(instance)

    def until_due(steps: Iterator[int]) -> int:
        done = 0
        for count in steps:
            done += count
            if time.monotonic() - begun > config.seconds:
                context.log.info("the time is over; the next pass goes on from here")
                break
        return done

    before = clock.now() - timedelta(days=config.days)
    runs = until_due(1 for _ in old_runs(instance, before, config.runs))
    events = until_due(old_events(instance, config.results))
    files = until_due(1 for _ in left_files(instance))
    for name, lost in shrunk(instance):
        context.log.info("%s is %s bytes smaller", name, lost)
    context.add_output_metadata(
        {
            "runs": runs,
            "events": events,
            "left files": files,
            "bytes before": was,
            "bytes": size(instance),
        }
    )


@job(name="purge", description="Purge Dagster's own history: old runs, events and results.")
def _purge() -> None:
    """Purge."""
    purge_history()


PURGE: JobDefinition = _purge

PURGE_OFTEN = ScheduleDefinition(
    name="purge_often",
    job=PURGE,
    cron_schedule="40 */3 * * *",
    execution_timezone="UTC",
    default_status=by_itself(usually=True),
)
