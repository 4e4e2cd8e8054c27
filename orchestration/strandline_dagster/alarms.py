"""Errors as failures of Dagster, each with its page of the runbook, and the alarm that reaches a person.

Alert a person when a run has failed, with what to do about it.

Transient errors were retried before a run fails, so every failure is worth an alarm. The kind names who must act:
``data`` the owner of the table, ``definition`` the author of the last change, any other kind the person on call.

An alarm that is not accepted is kept in the lake and sent again. Dagster (1.13.27) shows such a sensor as failed, but
evaluates no failure of a run twice.
"""

import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum

from dagster import (
    DagsterEvent,
    DefaultSensorStatus,
    Failure,
    MetadataValue,
    RetryRequested,
    RunFailureSensorContext,
    SkipReason,
    run_failure_sensor,
    sensor,
)

from strandline.core.errors import LakeError, TransientError
from strandline.engine.lake.lake import Lake
from strandline.engine.runtime.settings import settings
from strandline.engine.runtime.webhook import post
from strandline.operate import lakes
from strandline_dagster.resources import unless_away
from strandline_infra import installation

# Errors as failures of Dagster: transient ones are retried, all others wait for a person.
#
# Why no ``RetryPolicy``: Dagster (1.13.27) applies it to interruptions too. A run that a redeploy or the page asked to
# end waited half a minute and ran to its end.


KIND = "kind"
"""What to do: ``transient`` (try again), ``data`` (inspect the rows), ``definition`` (correct the code)."""


TRIES, DELAY = 2, 30
"""Retries of a transient error, and the seconds before each."""


def again_or_failed(error: LakeError, tried: int) -> Failure | RetryRequested:
    """Return a retry for a transient error with retries left, else a failure."""
    if isinstance(error, TransientError) and tried < TRIES:
        return RetryRequested(max_retries=TRIES, seconds_to_wait=DELAY)
    return failure(error)


def failure(error: LakeError, more: Mapping[str, MetadataValue] | None = None) -> Failure:
    """Return a failure with the error's message, hint and kind; only a transient one may be retried."""
    return Failure(
        str(error),
        metadata={"hint": error.hint, KIND: error.kind, **(more or {})},
        allow_retries=isinstance(error, TransientError),
    )


# The pages of the runbook, one an alarm: a failure shows its own, so that no one has to search at 3 a.m.


class Alarm(StrEnum):
    """Every alarm that a person can get; each is the name of its page."""

    DEAD = "dead"
    SILENT = "silent"
    STUCK = "stuck"
    FENCED = "fenced"
    FAILING = "failing"
    ALERTS_DEAD = "alerts_dead"
    ALERTS_SILENT = "alerts_silent"
    ALERTS_STUCK = "alerts_stuck"
    EXPIRING = "expiring"
    LOST = "lost"
    OVERDUE = "overdue"
    RUN_DATA = "run_data"
    RUN_DEFINITION = "run_definition"
    RUN_TRANSIENT = "run_transient"
    RUN_UNFORESEEN = "run_unforeseen"

    @property
    def path(self) -> str:
        """Return the path of its page, from the root of the project."""
        return f"infra/runbooks/{self}.md"


def page(alarm: Alarm) -> str:
    """Return the page of an alarm."""
    return installation.page(alarm.path).read_text(encoding="utf-8")


LOG = logging.getLogger("strandline.alarm")
PATIENCE = 10.0
"""Seconds for a whole answer, however slowly it comes; a sensor has a minute."""

EVERY = 60
UNFORESEEN = "unforeseen"
ALARM = "alarm"
"""The key of a failure's metadata with the name of its alarm, where that is not the kind of its error."""


@run_failure_sensor(minimum_interval_seconds=30, default_status=DefaultSensorStatus.RUNNING)
def alert_of_failures(context: RunFailureSensorContext) -> None:
    """Send an alarm for each failed run."""
    run = context.dagster_run
    steps = context.get_step_failure_events()
    facts = {
        "run": run.run_id,
        "job": run.job_name,
        "steps": [event.step_key for event in steps],
        KIND: next(iter(_kinds(steps)), UNFORESEEN),
        "says": "\n".join(_messages(steps)) or context.failure_event.message,
        "runbook": _page(steps).path,
    }
    context.log.error("%s", json.dumps(facts))
    _, lake = lakes.configured(None)
    if refused := send_or_keep(facts, lake, run.run_id):
        raise refused


@sensor(minimum_interval_seconds=EVERY, default_status=DefaultSensorStatus.RUNNING)
@unless_away
def alert_again() -> SkipReason:
    """Send the kept alarms, oldest first, until one is refused again."""
    _, lake = lakes.configured(None)
    alarms = (each for each in lake.alarms.listed() if each.place.name.endswith(".json"))
    kept = sorted(alarms, key=lambda alarm: alarm.written)
    for alarm in kept:
        send(json.loads(alarm.place.text() or "{}"))
        alarm.place.remove()
    return SkipReason(f"{len(kept)} alarms were sent again" if kept else "every alarm was accepted")


def send_or_keep(facts: Mapping[str, object], lake: Lake, name: str) -> TransientError | None:
    """Send an alarm; one that is not accepted is kept under a name, to be sent again, and why is returned."""
    try:
        send(facts)
    except TransientError as error:
        (lake.alarms / f"{name}.json").put(json.dumps(facts))
        return error
    return None


def send(facts: Mapping[str, object]) -> None:
    """Write an alarm to the log, and post it to the webhook of the settings.

    Raises:
        TransientError: It was not accepted.
    """
    LOG.error("%s", json.dumps(facts))
    webhook = settings().webhook
    if webhook is None:
        return
    refusal = post(webhook, facts, patience=PATIENCE)
    if refusal is not None:
        raise TransientError(
            f"the alarm about {facts.get('job')} was not accepted: {refusal}",
            hint="check that the address in STRANDLINE_WEBHOOK answers to a POST of JSON.",
        ) from refusal


def _kinds(steps: Sequence[DagsterEvent]) -> Iterator[str]:
    """Yield the kind of each failed step that reported one."""
    for event in steps:
        failure = event.step_failure_data.user_failure_data
        if failure and KIND in failure.metadata:
            yield str(failure.metadata[KIND].value)


def _page(steps: Sequence[DagsterEvent]) -> Alarm:
    """Return the alarm of the first failed step: the one that it names, or that of its kind."""
    for event in steps:
        failure = event.step_failure_data.user_failure_data
        if failure and ALARM in failure.metadata:
            return Alarm(str(failure.metadata[ALARM].value))
    kind = next(iter(_kinds(steps)), UNFORESEEN)
    return Alarm(f"run_{kind}")


def _messages(steps: Sequence[DagsterEvent]) -> Iterator[str]:
    for event in steps:
        failure, error = event.step_failure_data.user_failure_data, event.step_failure_data.error
        if failure and failure.description:
            yield failure.description
        elif error:
            yield (error.cause or error).message.strip()
