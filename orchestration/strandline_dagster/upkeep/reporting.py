"""The report of a day as a job, so that a click or a schedule writes the page that checks link to.

It needs no Spark, and succeeds or fails as ``strandline report`` does: a failed run is a day whose numbers cannot be
trusted, and its page was written in any case.
"""

from datetime import date, timedelta

from dagster import (
    Config,
    JobDefinition,
    MetadataValue,
    OpExecutionContext,
    RunRequest,
    ScheduleEvaluationContext,
    job,
    op,
    schedule,
)
from pydantic import Field

from strandline.core.errors import LakeError
from strandline.operate.answers.report import refuse_untrusted
from strandline_dagster.alarms import failure
from strandline_dagster.links import linked
from strandline_dagster.resources import LakeResource
from strandline_dagster.schedules import by_itself

STEP = "make_report"


class Wanted(Config):
    """Which day."""

    day: str | None = Field(
        default=None,
        description="A day of commits in UTC: 2026-11-01, today or yesterday; the last one when absent.",
    )


@op(name=STEP)
def make_report(context: OpExecutionContext, config: Wanted, lake: LakeResource) -> None:
    """Report whether the numbers of a day can be trusted, and write the page with the reasons."""
    try:
        found, page = lake.report(config.day)
    except LakeError as error:
        raise failure(error) from error
    for line in (found.sentence, *found.because):
        context.log.info(line)
    metadata: dict[str, MetadataValue] = {
        "verdict": MetadataValue.text(found.verdict.value),
        "sentence": MetadataValue.text(found.sentence),
        "page": MetadataValue.path(str(page)),
        **linked(lake, date.fromisoformat(found.since[:10])),
    }
    try:
        refuse_untrusted(found)
    except LakeError as error:
        raise failure(error, metadata) from error
    context.add_output_metadata(metadata)


@job(name="report")
def _report() -> None:
    """Report whether the numbers of a day can be trusted, and write the page that checks link to."""
    make_report()


REPORT: JobDefinition = _report


@schedule(
    job=REPORT,
    cron_schedule="0 6 * * *",
    execution_timezone="UTC",
    default_status=by_itself(usually=False),
)
def every_morning(context: ScheduleEvaluationContext) -> RunRequest:
    """Report on the day before: it is complete, and most late rows have arrived."""
    day = context.scheduled_execution_time.date() - timedelta(days=1)
    return RunRequest(run_config={"ops": {STEP: {"config": {"day": day.isoformat()}}}})
