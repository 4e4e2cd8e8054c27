"""The schedule that brings tables up to date where no stream runs.

One schedule for the whole chain, not an automation condition per table: a run is one process and one Spark, and the
gate between silver and gold, a file in the lake, decides whether gold may follow.
"""

from dagster import (
    DagsterInstance,
    DagsterRunStatus,
    DefaultScheduleStatus,
    RunRequest,
    RunsFilter,
    ScheduleEvaluationContext,
    SkipReason,
    schedule,
)

from strandline.engine.runtime import clock
from strandline.engine.runtime.settings import settings
from strandline.engine.service.heartbeat import heartbeat
from strandline.operate import lakes
from strandline_dagster import catch_up

# Whether a schedule runs by itself, without a click: as its code says, or all or none of them by a setting, such as a profile's.


def by_itself(*, usually: bool) -> DefaultScheduleStatus:
    """Return the status that a schedule has where no person has started or stopped it.

    Args:
        usually: Whether it runs where the setting is absent.
    """
    wanted = settings().schedules
    runs = usually if wanted is None else wanted
    return DefaultScheduleStatus.RUNNING if runs else DefaultScheduleStatus.STOPPED


CATCH_UP = catch_up.job()

UNFINISHED = [
    DagsterRunStatus.QUEUED,
    DagsterRunStatus.NOT_STARTED,
    DagsterRunStatus.STARTING,
    DagsterRunStatus.STARTED,
    DagsterRunStatus.CANCELING,
]


def unfinished_run(instance: DagsterInstance, job: str) -> str | None:
    """Return the id of a job's run that is not finished yet; None where all are."""
    found = RunsFilter(job_name=job, statuses=UNFINISHED)
    running = instance.get_run_records(found, limit=1)
    return running[0].dagster_run.run_id if running else None


@schedule(
    job=CATCH_UP,
    cron_schedule="*/15 * * * *",
    execution_timezone="UTC",
    default_status=by_itself(usually=False),
)
def every_quarter_of_an_hour(context: ScheduleEvaluationContext) -> RunRequest | SkipReason:
    """Catch up, unless a stream runs or the last run is not finished."""
    _, lake = lakes.configured(None)
    beat = heartbeat(lake, clock.now())
    if beat and beat["alive"]:
        return SkipReason(f"the stream of process {beat['pid']} keeps the tables up to date")
    if running := unfinished_run(context.instance, CATCH_UP.name):
        return SkipReason(f"run {running} is not finished yet")
    return RunRequest()
