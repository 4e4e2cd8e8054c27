"""When tables are brought up to date, where no stream is always on.

One schedule for the whole chain rather than an automation condition for each table: a run is one process and one
Spark, and what decides whether gold may follow silver is the gate between them, which stands in the lake.
"""

from dagster import (
    DagsterRunStatus,
    RunRequest,
    RunsFilter,
    ScheduleEvaluationContext,
    SkipReason,
    schedule,
)

from jobs.cli.place import configured, now
from jobs.run.beat import heartbeat
from orchestration import catch_up

CATCH_UP = catch_up.job()

UNFINISHED = [
    DagsterRunStatus.QUEUED,
    DagsterRunStatus.NOT_STARTED,
    DagsterRunStatus.STARTING,
    DagsterRunStatus.STARTED,
    DagsterRunStatus.CANCELING,
]


@schedule(job=CATCH_UP, cron_schedule="*/15 * * * *", execution_timezone="UTC")
def every_quarter_of_an_hour(context: ScheduleEvaluationContext) -> RunRequest | SkipReason:
    """Catch up, unless a stream does so already or the last run is not done."""
    _, lake = configured(None)
    beat = heartbeat(lake, now())
    if beat and beat["alive"]:
        return SkipReason(f"the stream of process {beat['pid']} keeps the tables up to date")
    found = RunsFilter(job_name=CATCH_UP.name, statuses=UNFINISHED)
    running = context.instance.get_run_records(found, limit=1)
    if running:
        return SkipReason(f"run {running[0].dagster_run.run_id} is not done yet")
    return RunRequest()
