"""A run has failed: tell a person, with what to do about it.

What is transient has been tried again before a run fails, so every failure is worth telling; they differ in who is
asked. ``data`` is for who owns the table, ``definition`` for who changed it last, all else for who is on call.
"""

import json
import logging
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence

from dagster import (
    DagsterEvent,
    DefaultSensorStatus,
    RunFailureSensorContext,
    run_failure_sensor,
)

from jobs.core.errors import TransientError
from jobs.run.settings import settings
from orchestration.failures import KIND

LOG = logging.getLogger("strandline.alarm")
PATIENCE = 10.0
UNFORESEEN = "unforeseen"


@run_failure_sensor(minimum_interval_seconds=30, default_status=DefaultSensorStatus.RUNNING)
def tell_of_failures(context: RunFailureSensorContext) -> None:
    """Tell of each run that has failed."""
    run = context.dagster_run
    steps = context.get_step_failure_events()
    facts = {
        "run": run.run_id,
        "job": run.job_name,
        "steps": [event.step_key for event in steps],
        KIND: next(iter(_kinds(steps)), UNFORESEEN),
        "says": "\n".join(_said(steps)) or context.failure_event.message,
    }
    context.log.error("%s", json.dumps(facts))
    tell(facts)


def tell(facts: Mapping[str, object]) -> None:
    """Write an alarm to the log, and send it where the settings say.

    Raises:
        TransientError: Nobody took it; Dagster shows the sensor as failed and tries again.
    """
    LOG.error("%s", json.dumps(facts))
    webhook = settings().webhook
    if webhook is None:
        return
    request = urllib.request.Request(  # noqa: S310  # the settings accept http and https alone
        webhook, json.dumps(facts).encode(), {"Content-Type": "application/json"}
    )
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE):  # noqa: S310  # as above
            return
    except (urllib.error.URLError, OSError) as error:
        raise TransientError(
            f"the alarm about {facts.get('job')} was not taken: {error}",
            hint="STRANDLINE_WEBHOOK names where alarms are sent; see that it answers to a POST of JSON.",
        ) from error


def _kinds(steps: Sequence[DagsterEvent]) -> Iterator[str]:
    """Yield what is to be done about each failed step, by what it has said of itself."""
    for event in steps:
        told = event.step_failure_data.user_failure_data
        if told and KIND in told.metadata:
            yield str(told.metadata[KIND].value)


def _said(steps: Sequence[DagsterEvent]) -> Iterator[str]:
    for event in steps:
        told, error = event.step_failure_data.user_failure_data, event.step_failure_data.error
        if told and told.description:
            yield told.description
        elif error:
            yield (error.cause or error).message.strip()
