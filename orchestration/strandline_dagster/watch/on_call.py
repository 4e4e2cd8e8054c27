"""Operations on the always-on stream as jobs, so that the list of runs shows who did what and why.

They do what the command line does, by the same functions (jobs/strandline/operate). Only the watchdog launches ``revive``: each of its runs is an
incident, and a failed one asks for a person.
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TypeAlias

from dagster import (
    AssetCheckEvaluation,
    AssetCheckSeverity,
    AssetMaterialization,
    Config,
    DagsterEvent,
    DagsterEventType,
    Failure,
    JobDefinition,
    MetadataValue,
    OpExecutionContext,
    job,
    op,
)
from dagster._core.events import (  # noqa: TID251  # no public name makes such an event
    AssetMaterializationPlannedData,
)
from pydantic import Field
from strandline import catalog

from strandline.core.errors import LakeError
from strandline.core.table import Table
from strandline.engine.lake.log.ledger import Entry
from strandline.engine.repair.rewind import rewind
from strandline.engine.runtime.log_files import last_error
from strandline.engine.service.background_stream import Always
from strandline.engine.service.stream_health import Ill
from strandline.operate import lakes
from strandline.operate.repairs.backfill import backfilled, rewind_lines, rewindable, rewound_to
from strandline_dagster.alarms import ALARM, Alarm, failure, page
from strandline_dagster.catch_up import bring_up
from strandline_dagster.keys import key
from strandline_dagster.resources import LakeResource, SparkResource, note, parent_of
from strandline_dagster.watch.well import CHECK, KEY

Start: TypeAlias = Callable[[Always], int]
RESTARTS = "launch the job `restart` or type `strandline restart`"


class Reason(Config):
    """Why the operator does it."""

    why: str = Field(default="", description="Reason; `strandline status` shows it.")


class Back(Config):
    """Where to rewind to."""

    table: str = Field(description="A silver or gold table, such as silver.device_telemetry.")
    to: str = Field(description="A moment of arrival, in UTC, or topic/partition:offset.")
    go: bool = Field(default=False, description="Do it; without this it is only shown.")


class Incident(Config):
    """An incident that the watchdog found."""

    ill: str = Field(description="What is wrong: dead, silent, stuck, fenced or failing.")
    says: str = Field(description="What is wrong, as a sentence.")
    gives_up: bool = Field(default=False, description="Whether no attempt is left.")
    tables: list[str] = Field(default=[], description="The tables that fail.")
    days: dict[str, str] = Field(
        default={}, description="The day of each that this run represents in the catalog."
    )


@op(description="Stop the stream after its running batches, and keep it stopped.")
def pause_stream(context: OpExecutionContext, config: Reason, lake: LakeResource) -> None:
    """Pause."""
    stopped = _stream(context, lake).pause(config.why)
    context.log.info("the stream is stopped" if stopped else "no stream of this lake was running")


@op(description="Start the stream, unless it runs, and wait for its first heartbeat.")
def resume_stream(context: OpExecutionContext, config: Reason, lake: LakeResource) -> None:
    """Resume."""
    _start(context, lambda stream: stream.resume(None, config.why), lake)


@op(
    description="Stop the stream after its running batches and start it again; earlier failures no longer count."
)
def restart_stream(context: OpExecutionContext, config: Reason, lake: LakeResource) -> None:
    """Restart."""
    _start(context, lambda stream: stream.restart(config.why), lake)


@op(
    description="Stop the stream, then read the backlog to its end, so that nothing waits meanwhile."
)
def drain_stream(
    context: OpExecutionContext, config: Reason, lake: LakeResource, spark: SparkResource
) -> None:
    """Drain."""
    _stream(context, lake).pause(config.why)
    bring_up(context, lake, spark)


@op(
    description="Start a stream that died again; fail, so that a person is alerted, when no attempt is left or one table "
    "alone fails."
)
def revive_stream(context: OpExecutionContext, config: Incident, lake: LakeResource) -> None:
    """Revive."""
    context.log.warning(config.says)
    context.log.warning("last error of its log: %s", last_error(lake.lake().log("stream").local))
    if config.ill in {Ill.FAILING, Ill.FENCED}:
        raise _one_fails(context, config, lake)
    if config.gives_up:
        raise given_up(_stream(context, lake), config, RESTARTS, Alarm(config.ill))
    _start(context, lambda stream: stream.again(ends=config.ill != Ill.DEAD), lake)
    # So that the run of an incident is no plain success: its page has a check that did not pass, with why.
    context.instance.report_dagster_event(
        _restarted(context, config), context.run_id, logging.WARNING
    )


@op(
    description="Show what arrived from a moment or an offset on; with go, recompute the days that it touches."
)
def go_back(
    context: OpExecutionContext, config: Back, lake: LakeResource, spark: SparkResource
) -> None:
    """Rewind."""
    where = lake.lake()
    try:
        table = lakes.derived(config.table, where)
        plan = rewind(table, where, rewound_to(config.to))
        for line in rewind_lines(plan):
            context.log.info(line)
        if not config.go:
            return
        span = rewindable(table, where, plan)
        session, parent = spark.spark_session, parent_of(context)
        for each, entry in backfilled(
            session, table, where, span, downstream=True, says=note, parent=parent
        ):
            if entry:
                context.log_event(_again(each, entry))
    except LakeError as error:
        raise failure(error) from error


def _again(table: Table, entry: Entry) -> AssetMaterialization:
    figures = {"since": entry.since, "until": entry.until, "came": entry.came, "gone": entry.gone}
    return AssetMaterialization(key(table), metadata=figures)


def given_up(stream: Always, incident: Incident, restarts: str, alarm: Alarm) -> Failure:
    """Return the failure that asks for a person, because no attempt is left, and note that.

    Args:
        stream: What was restarted.
        incident: What is wrong with it.
        restarts: The job and the command that start it again.
        alarm: What the person gets.
    """
    asked = stream.order()
    if asked:
        stream.note(asked.given_up(stream.clock()))
    tried = len(asked.attempts) if asked else 0
    attempts = f"it was restarted {tried} times; " if tried else ""
    return Failure(
        f"{incident.says}; {attempts}a person is needed.\n\n"
        f"hint: remove the cause, then {restarts} ({alarm.path}).",
        metadata={
            ALARM: alarm.value,
            "last error": last_error(stream.log.local),
            "attempts": MetadataValue.json(list(asked.attempts) if asked else []),
            "log": MetadataValue.path(str(stream.log)),
            "runbook": MetadataValue.md(page(alarm)),
        },
        allow_retries=False,
    )


def _restarted(context: OpExecutionContext, incident: Incident) -> DagsterEvent:
    """Return the answer to *is it well* of a stream that was restarted, as an event of this run."""
    evaluation = AssetCheckEvaluation(
        asset_key=KEY,
        check_name=CHECK,
        passed=False,
        severity=AssetCheckSeverity.WARN,
        description=f"{incident.says}; it was restarted, and counts as well after five minutes",
        metadata={"runbook": MetadataValue.md(page(Alarm(incident.ill)))},
    )
    return DagsterEvent(
        event_type_value=DagsterEventType.ASSET_CHECK_EVALUATION.value,
        job_name=context.job_name,
        step_key=context.op.name,
        event_specific_data=evaluation,
        message=str(evaluation.description),
    )


def _mark_failed(context: OpExecutionContext, days: Mapping[str, str]) -> None:
    """Name the days that this run, which fails, did not make; the catalog shows nothing else of a partitioned table in red."""
    for name, day in days.items():
        planned = AssetMaterializationPlannedData(key(catalog.find(name)), partition=day)
        context.instance.report_dagster_event(
            DagsterEvent.build_asset_materialization_planned_event(
                context.job_name, context.op.name, planned
            ),
            context.run_id,
            logging.DEBUG,
        )


def _one_fails(context: OpExecutionContext, incident: Incident, lake: LakeResource) -> Failure:
    """Return the failure that alerts a person of failing tables; once, until they recover and fail again."""
    _mark_failed(context, incident.days)
    stream, alarm = _stream(context, lake), Alarm(incident.ill)
    asked = stream.order()
    if asked:
        stream.note(replace(asked, alerted=tuple(incident.tables)))
    return Failure(
        f"{incident.says}. The other tables go on.\n\n"
        f"hint: remove the cause; the table is retried at least every ten minutes ({alarm.path}).",
        metadata={
            ALARM: alarm.value,
            "tables": MetadataValue.json(incident.tables),
            "log": MetadataValue.path(str(stream.lake.log("stream"))),
            "runbook": MetadataValue.md(page(alarm)),
        },
        allow_retries=False,
    )


def _stream(context: OpExecutionContext, lake: LakeResource) -> Always:
    return lake.stream(f"run {context.run_id[:8]}")


def _start(context: OpExecutionContext, start: Start, lake: LakeResource) -> None:
    started(context, start, _stream(context, lake))


def started(context: OpExecutionContext, start: Start, stream: Always) -> None:
    """Start a program and log its process."""
    try:
        pid = start(stream)
    except LakeError as error:
        raise failure(error) from error
    context.log.info("%s runs: process %s", stream.program.title, pid)


@job(name="pause", description="Stop the always-on stream and keep it stopped.")
def pause() -> None:
    """Pause."""
    pause_stream()


@job(name="resume", description="Start the always-on stream and keep it running.")
def resume() -> None:
    """Resume."""
    resume_stream()


@job(name="restart", description="Stop the always-on stream and start it again.")
def restart() -> None:
    """Restart."""
    restart_stream()


@job(name="drain", description="Stop the always-on stream and read what is there to the end.")
def drain() -> None:
    """Drain."""
    drain_stream()


@job(
    name="revive",
    description="For the watchdog: start a stream that died. Each run is an incident.",
)
def revive() -> None:
    """Revive."""
    revive_stream()


@job(name="rewind", description="Recompute from bronze what arrived from a moment or an offset on.")
def rewind_job() -> None:
    """Rewind."""
    go_back()


JOBS: list[JobDefinition] = [restart, drain, pause, resume, rewind_job, revive]
