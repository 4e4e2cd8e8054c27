"""The always-on stream, checked every ten seconds and restarted when it died; and the operations on it as jobs, so that the list of runs shows who did what and why.

It starts no stream itself: it requests a run of ``revive``, so that every incident is in the list of runs. The order in
the lake (jobs/strandline/engine/service/stream_health.py) has the number of attempts and their delays, so that a restarted Dagster
continues to count. There are never two writers, however many streams are started: the JVM holds a table's lease, which
ends with the JVM (jobs/strandline/engine/lake/locks.py).
"""

import json
import logging
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import datetime, timedelta
from typing import Any, TypeAlias

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
    RunRequest,
    SensorEvaluationContext,
    SensorResult,
    SkipReason,
)
from dagster._core.events import (  # noqa: TID251  # no public name makes such an event
    AssetMaterializationPlannedData,
)
from pydantic import Field
from strandline import catalog

from strandline.core.errors import LakeError
from strandline.core.table import Ingested, Table
from strandline.engine.kafka import broker
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger import Entry
from strandline.engine.repair.closed_range import rewind
from strandline.engine.runtime import clock
from strandline.engine.runtime.log_files import last_error
from strandline.engine.runtime.outage import AWAY
from strandline.engine.runtime.settings import settings
from strandline.engine.service.background_stream import Always
from strandline.engine.service.backlog import in_words
from strandline.engine.service.stream_health import (
    LOOKS,
    Act,
    Ill,
    Look,
    Order,
    Watch,
    failing_tables,
    going_on,
    heartbeat,
    is_well,
    looks,
    order,
    warned,
    watch,
)
from strandline.operate import lakes
from strandline.operate.backfill import backfilled, rewind_lines, rewindable, rewound_to
from strandline_dagster.placed import job, op, sensor
from strandline_dagster.resources import (
    ALARM,
    BACK,
    Alarm,
    LakeResource,
    SparkResource,
    begins,
    failure,
    is_back_only_now,
    key,
    note,
    ordered_by,
    page,
    parent_of,
    refuse_away,
    tables,
)
from strandline_dagster.schedules import bring_up, unfinished_run
from strandline_dagster.vitals import CHECK, KEEPS_UP, KEY, without_figures

# Operations on the always-on stream as jobs, so that the list of runs shows who did what and why.
#
# They do what the command line does, by the same functions (jobs/strandline/operate). Only the watchdog launches ``revive``: each of its runs is an
# incident, and a failed one asks for a person.


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
    with ordered_by(context, "pause", lake.lake(), why=config.why):
        stopped = _stream(context, lake).pause(config.why)
    context.log.info("the stream is stopped" if stopped else "no stream of this lake was running")


@op(description="Start the stream, unless it runs, and wait for its first heartbeat.")
def resume_stream(context: OpExecutionContext, config: Reason, lake: LakeResource) -> None:
    """Resume."""
    with ordered_by(context, "resume", lake.lake(), why=config.why):
        _start(context, lambda stream: stream.resume(None, config.why), lake)


@op(
    description="Stop the stream after its running batches and start it again; earlier failures no longer count."
)
def restart_stream(context: OpExecutionContext, config: Reason, lake: LakeResource) -> None:
    """Restart."""
    with ordered_by(context, "restart", lake.lake(), why=config.why):
        _start(context, lambda stream: stream.restart(config.why), lake)


@op(
    description="Stop the stream, then read the backlog to its end, so that nothing waits meanwhile."
)
def drain_stream(
    context: OpExecutionContext, config: Reason, lake: LakeResource, spark: SparkResource
) -> None:
    """Drain."""
    with ordered_by(context, "drain", lake.lake(), why=config.why):
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
        with ordered_by(context, "rewind", where, table=table.id, to=config.to, go=True):
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


LOG = logging.getLogger("strandline.watchdog")
BROKER = "the lake's broker"
"""The thread that starts it, of which there is one at a time."""

EVERY = 10
"""Seconds between two looks; the pauses between attempts do not depend on it."""

ANSWERED_EVERY = 30
"""Seconds after which a check is answered again although the answer is the same: Dagster keeps every event."""

TREND_EVERY = timedelta(seconds=30)
"""Time between two remembered looks at a table: ten of them show five minutes, in which a batch of a slow ``--every`` ends."""

Looks = dict[str, list[Look]]


@sensor(
    job=revive,
    minimum_interval_seconds=EVERY,
)
def watchdog(context: SensorEvaluationContext, lake: LakeResource) -> SensorResult | SkipReason:
    """Check, warn, and request a run when the stream must be restarted."""
    stream, moment = lake.stream("watchdog"), clock.now()
    _revive_broker(context, stream.lake)
    try:
        refuse_away()
    except AWAY as error:
        return SkipReason(f"{error.message}; a stream that runs waits for it")
    asked, beat = order(stream.lake), heartbeat(stream.lake, moment)
    if asked is None or not asked.runs:
        return SkipReason("no stream should run; `strandline resume` starts one")
    if asked.rest and asked.is_suspended(moment):
        return SkipReason(
            f"the stream is suspended by process {asked.rest['pid']}, which resumes it"
        )
    if not stream.lake.has_room():  # no heartbeat can be written, and no stream could start
        return SkipReason("the disk of the lake is full; the stream continues when there is room")
    # Of a stream that is gone nothing is known of its tables, and those that failed may fail again.
    over = (
        set(asked.alerted) - failing_tables(beat).keys() if beat and beat["alive"] else set[str]()
    )
    if is_well(asked, beat, moment):
        asked = asked.well()
        stream.note(asked)
    if over:
        stream.note(replace(asked, alerted=tuple(sorted(set(asked.alerted) - over))))
    found = watch(asked, beat, moment, starting=stream.is_starting())
    if is_back_only_now(found):
        return SkipReason(BACK)
    before: dict[str, Any] = json.loads(context.cursor or "{}")
    seen = _seen(before, beat)
    failed: dict[str, str] = before.get("failed", {})
    # By what was marked, and not by the order: a new one, as of `restart`, knows of no alarm that was sent.
    goes_on = going_on(beat)
    healed = [
        AssetMaterialization(key(table), partition=failed.pop(table.id), description="It goes on.")
        for table in tables()
        if table.id in failed and table.id in goes_on
    ]
    if found.act is Act.ALERT and found.ill in {Ill.FAILING, Ill.FENCED}:
        failed = _newest_days(context, found.tables) | failed
    step = revive_stream.name
    answers = list(_answers(found, seen))
    said = [without_figures(each.description or "") for each in answers if not each.passed]
    at = before.get("answered", 0.0)
    if said == before.get("said") and 0 <= moment.timestamp() - at < ANSWERED_EVERY:
        answers = []
    else:
        at = moment.timestamp()
    news = {"failed": failed, "said": said, "answered": at}
    return SensorResult(
        run_requests=list(requests(context, revive, step, asked, found, moment, days=failed)),
        asset_events=[*healed, *answers],
        cursor=_cursor(seen, beat["pid"] if beat else None, news),
    )


def _newest_days(context: SensorEvaluationContext, names: Sequence[str]) -> dict[str, str]:
    """Return for each partitioned table that fails the newest day that Dagster knows of it, else the first of all."""
    found = [table for table in tables() if table.id in names]
    return {
        table.id: max(
            context.instance.get_materialized_partitions(key(table)), default=str(begins())
        )
        for table in found
        if not isinstance(table, Ingested)
    }


def _revive_broker(context: SensorEvaluationContext, lake: Lake) -> None:
    """Have the lake's own broker started again if it has died, as of a full disk: without it the stream waits for ever.

    In a thread, because a broker may take a minute to answer, and meanwhile a stream that died is to be seen.
    """
    if settings().kafka is not None or not broker.is_wanted(lake) or not lake.has_room():
        return
    if broker.status(lake) is not None or any(
        each.name == BROKER for each in threading.enumerate()
    ):
        return
    context.log.warning("the lake's broker has died; it is started again")
    threading.Thread(target=_up, args=(lake,), name=BROKER, daemon=True).start()


def _up(lake: Lake) -> None:
    try:
        broker.up(lake)
    except LakeError as error:  # the next look tries again
        LOG.warning("the lake's broker does not start: %s", error.message)


def requests(  # noqa: PLR0913, PLR0917  # who asks, for what, and why
    context: SensorEvaluationContext,
    job: JobDefinition,
    step: str,
    asked: Order,
    found: Watch,
    moment: datetime,
    days: Mapping[str, str] | None = None,
) -> Iterator[RunRequest]:
    """Yield the request of the run that deals with an incident, unless one does already."""
    if found.act not in {Act.RESTART, Act.ALERT, Act.GIVE_UP}:
        return
    if unfinished_run(context.instance, job.name):
        return
    incident = {
        "ill": str(found.ill),
        "says": found.message,
        "gives_up": found.act is Act.GIVE_UP,
        "tables": list(found.tables),
        **({"days": {name: days[name] for name in found.tables if name in days}} if days else {}),
    }
    yield RunRequest(
        # The minute: an attempt that ended before it was counted must be repeated.
        run_key=f"{asked.at} {len(asked.attempts)} {moment:%H:%M}",
        run_config={"ops": {step: {"config": incident}}},
        tags={"incident": str(found.ill)},
    )


def _answers(found: Watch, seen: Looks) -> Iterator[AssetCheckEvaluation]:
    """Yield for each table whether it keeps up."""
    for table in tables():
        mine = seen.get(table.id, [])
        if found.ill is not None and table.id in (found.tables or [table.id]):
            yield _answer(table, found.message, mine, AssetCheckSeverity.ERROR)
        elif mine:
            warnings = "; ".join(each.message for each in warned(table.id, mine))
            yield _answer(table, warnings, mine, AssetCheckSeverity.WARN)


def _answer(
    table: Table, problem: str, seen: Sequence[Look], severity: AssetCheckSeverity
) -> AssetCheckEvaluation:
    last = seen[-1] if seen else None
    said = in_words(last.behind_rows, last.falls) if last else ""
    figures: dict[str, int | str] = (
        {"lag": last.lag or 0, "state": last.state, "caught up": said or "yes"} if last else {}
    )
    return AssetCheckEvaluation(
        asset_key=key(table),
        check_name=KEEPS_UP,
        passed=not problem,
        severity=severity,
        description="; ".join(each for each in (problem, said) if each) or "it keeps up",
        metadata=figures,
    )


def _seen(before: Mapping[str, Any], beat: Mapping[str, Any] | None) -> Looks:
    """Return the last looks at each table, with this one if it is due; looks at an earlier process do not count."""
    if not beat or not beat["alive"]:
        return {}
    same = before.get("pid") == beat["pid"]
    found: Looks = {}
    for table, look in looks(beat).items():
        earlier = [Look(**each) for each in before["looks"].get(table, ())] if same else []
        found[table] = [*earlier, look][-LOOKS:] if _is_due(earlier, look) else earlier
    return found


def _is_due(earlier: Sequence[Look], look: Look) -> bool:
    if not earlier:
        return True
    # Neither order of the two is assumed: a clock may be set back.
    return (
        abs(datetime.fromisoformat(look.at) - datetime.fromisoformat(earlier[-1].at)) >= TREND_EVERY
    )


def _cursor(seen: Looks, pid: int | None, news: Mapping[str, Any]) -> str:
    kept = {table: [asdict(look) for look in each] for table, each in seen.items()}
    return json.dumps({"pid": pid, "looks": kept, **news})
