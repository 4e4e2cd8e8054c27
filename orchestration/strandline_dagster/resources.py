"""What assets and jobs are run with: one Spark session, the lake, the links to its pages; errors as failures of Dagster, each with its page of the runbook, and the alarm that reaches a person."""

import fnmatch
import json
import logging
import math
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import date
from enum import StrEnum
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from dagster import (
    AssetCheckEvaluation,
    AssetCheckResult,
    AssetCheckSeverity,
    AssetCheckSpec,
    AssetExecutionContext,
    AssetKey,
    ConfigurableResource,
    DagsterEvent,
    DagsterInstance,
    DagsterRun,
    DagsterRunStatus,
    DailyPartitionsDefinition,
    Failure,
    InitResourceContext,
    MetadataValue,
    OpExecutionContext,
    RetryRequested,
    RunFailureSensorContext,
    RunsFilter,
    SkipReason,
)
from dagster_pyspark import LazyPySparkResource
from deltalake.exceptions import DeltaError
from pydantic import Field
from strandline import catalog

from strandline.core.errors import LakeError, TransientError
from strandline.core.model import Model
from strandline.core.stateful import AvailableNow
from strandline.core.static import Static
from strandline.core.table import Ingested, Judged, Table
from strandline.core.topic import Topic
from strandline.engine.accounting.commit_history import moment_of
from strandline.engine.accounting.gate_files import GateShutError
from strandline.engine.flow.function_plan import Columns, lineage
from strandline.engine.flow.readers import Danger
from strandline.engine.flow.runner import Site, run
from strandline.engine.flow.running import Parent, Report
from strandline.engine.kafka.slices import Ends, Part, ends_of
from strandline.engine.lake.completeness import fed
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.open_table import earliest, live_rows
from strandline.engine.lake.place import Place
from strandline.engine.proof import daily_report
from strandline.engine.repair.backfill import MODE
from strandline.engine.repair.closed_range import Span
from strandline.engine.runtime import clock
from strandline.engine.runtime.outage import AWAY
from strandline.engine.runtime.roles import RoleError
from strandline.engine.runtime.settings import settings
from strandline.engine.runtime.webhook import post
from strandline.engine.service.background_stream import ALERTS, Always
from strandline.engine.service.stream_health import SILENT, Ill, Watch
from strandline.operate import lakes, session
from strandline.operate.audit import dangers_of, dangers_to, report_of, write_report
from strandline.operate.backfill import backfilled
from strandline.operate.orders import DAGSTER, ordered
from strandline.operate.stream import always
from strandline_dagster.placed import asset_key, named, ours, placement, run_failure_sensor, sensor
from strandline_infra import installation
from strandline_quality.expectations import Expectation, of_counters
from strandline_quality.findings import Findings
from strandline_quality.rules import Severity

# A table's expectations as Dagster's checks: defined without Spark, answered from the counters of each run.

# Names of tables and topics in Dagster, in one place, because Dagster's spellings differ.


TOPICS = "kafka"
MODELS = "models"


# What is shown of the project: all of it, or what was chosen where our definitions were placed.


def tables() -> tuple[Table, ...]:
    """Return the tables that are shown, each after those that it reads.

    Raises:
        DefinitionError: What was chosen is no table.
    """
    found, wanted = catalog.tables(), placement().tables
    names = {each for pattern in wanted for each in fnmatch.filter([t.id for t in found], pattern)}
    for pattern in wanted:
        if not fnmatch.filter(names, pattern):
            catalog.find(pattern)  # says which tables there are
    return tuple(table for table in found if table.id in names or not wanted)


def statics() -> list[Static]:
    """Return the static tables that these join."""
    joined = {each.id for table in tables() for each in table.static}
    return [each for each in catalog.statics() if each.id in joined]


def models() -> list[Model]:
    """Return the models that are trained with these."""
    shown = {each.id for each in tables()}
    return [each for each in catalog.models() if each.of.id in shown]


def key(table: Table) -> AssetKey:
    """Return a table's one name as Dagster writes it, ``layer/table``."""
    return asset_key(table.layer.value, table.name)


def source_key(name: str) -> AssetKey:
    """Return the same of a name alone, which may be that of a static table."""
    return asset_key(*name.split(".", 1))


def topic_key(topic: Topic) -> AssetKey:
    """Return the name of a topic as Dagster writes it."""
    return asset_key(TOPICS, topic.name)


def model_key(name: str) -> AssetKey:
    """Return the name of a model as Dagster writes it."""
    return asset_key(MODELS, name)


def pool(table: Table) -> str:
    """Return the pool with one slot, for the writer of a table.

    It only saves a run the attempt: the lease in the lake excludes a second writer (jobs/strandline/engine/lake/locks.py).
    """
    return f"writer/{table.id}"


def plain(name: str) -> str:
    """Return a name as Dagster accepts it for ops, jobs and checks."""
    return re.sub(r"\W", "_", name)


More = Mapping[str, MetadataValue]
"""Metadata of every result, such as the link to the report."""


def specs(table: Table, key: AssetKey) -> list[AssetCheckSpec]:
    """Return one check for each expectation of a table's batches."""
    return [
        AssetCheckSpec(
            name=plain(each.name),
            asset=key,
            description=each.about
            or f"Of the batches of a run: no more rows break {each.name} than it admits.",
            metadata={"severity": each.severity.value, "expectation": each.name},
        )
        for each in _expected(table)
    ]


def of_report(
    table: Table, key: AssetKey, report: Report, more: More
) -> Iterator[AssetCheckResult]:
    """Answer every check from the batches of a run."""
    for each in _expected(table):
        yield AssetCheckResult(
            asset_key=key,
            check_name=plain(each.name),
            passed=each.name not in report.failed,
            severity=_severity(each),
            metadata={
                "rows that break it": report.broke.get(each.name, 0),
                "rows": report.good + report.held_records,
                "batches": report.batches,
                **more,
            },
        )


def of_gate(
    table: Table, key: AssetKey, error: GateShutError, more: More
) -> Iterator[AssetCheckResult]:
    """Answer the checks that shut a table's own gate."""
    shut = error.shut
    if shut is None or shut.table != table.id:
        return
    known = {each.name: each for each in _expected(table)}
    for found in shut.findings:
        if found["name"] in known:
            yield AssetCheckResult(
                asset_key=key,
                check_name=plain(found["name"]),
                passed=False,
                severity=AssetCheckSeverity.ERROR,
                description=found["says"],
                metadata={
                    "rows that break it": found["failed"],
                    "rows": found["rows"],
                    "samples": MetadataValue.json(list(shut.samples.get(found["name"], ()))),
                    **more,
                },
            )


def evaluation(found: AssetCheckResult) -> AssetCheckEvaluation:
    """Return the same result as an event that needs no step of an asset."""
    if found.asset_key is None or found.check_name is None:
        message = "a check result without its asset or its name"
        raise TypeError(message)
    return AssetCheckEvaluation(
        asset_key=found.asset_key,
        check_name=found.check_name,
        passed=found.passed,
        metadata=found.metadata,
        severity=found.severity,
        description=found.description,
    )


def _expected(table: Table) -> tuple[Expectation, ...]:
    return of_counters(table.rules, table.expects) if isinstance(table, Judged) else ()


def _severity(expected: Expectation) -> AssetCheckSeverity:
    is_critical = expected.severity is Severity.CRITICAL
    return AssetCheckSeverity.ERROR if is_critical else AssetCheckSeverity.WARN


# Results of checks that are about the newest row of a table.
#
# Dagster's page (1.13.27) counts a result that is of the run that made the table, or that is later than the table; all others
# are "not evaluated", although they had passed. SQLite stores the time of a result in whole seconds.


def log_answer(context: OpExecutionContext, answer: AssetCheckEvaluation) -> None:
    """Report a result as an event of a step's run: the page counts it with what the run has made.

    Dagster stores what a step logs when the step succeeds; of one that fails it is lost.
    """
    context.log_event(answer)  # type: ignore[arg-type]  # its type has no results, its code takes them


def let_the_second_pass(moment: float) -> None:
    """Wait until the second of a moment is over, where a result is of no run."""
    time.sleep(max(0.0, math.floor(moment) + 1 - time.time()))


def note(text: str) -> None:
    """Write what a use case says to the standard error of a step, which Dagster keeps beside its log."""
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


class SparkResource(LazyPySparkResource):
    """The session of dagster-pyspark, started with the settings of the project.

    There is one per process, because starting another takes seconds: a whole chain runs in one application. An asset
    of another project that asks for a ``LazyPySparkResource`` gets Delta and Kafka's connector with it.
    """

    spark_config: dict[str, Any] = Field(default_factory=dict)

    @property
    def spark_session(self) -> Any:  # noqa: ANN401  # as its parent declares
        """Start Spark, or return the running session."""
        return self.site().spark

    def site(self, address: str | None = None, parent: Parent | None = None) -> Site:
        """Return the session with the clock, the address of Kafka, and what records runs as parts of another."""
        found, lake = lakes.configured(None)
        return session.site(found, lake, address, parent=parent, says=note)

    def teardown_after_execution(self, context: InitResourceContext) -> None:
        """End the trace of the run, however it ends."""
        if context.run is not None:
            session.run_over(context.run.run_id)


def parent_of(context: OpExecutionContext | AssetExecutionContext) -> Parent:
    """Return the run of Dagster that a step belongs to, for a catalog of lineage."""
    return Parent(run=context.run.run_id, job=context.run.job_name, namespace="dagster")


BY_ITSELF = ("dagster/schedule_name", "dagster/sensor_name")
"""Tags of a run that no person has launched."""


@contextmanager
def ordered_by(
    context: OpExecutionContext | AssetExecutionContext, verb: str, lake: Lake, **given: object
) -> Iterator[None]:
    """Write down what a step does before it does it; what a schedule began only where it changes rows after the fact.

    Raises:
        Failure: The roles of the lake do not allow it to who runs Dagster.
    """
    by = next((context.run.tags[each] for each in BY_ITSELF if each in context.run.tags), "")
    run = {"run": context.run.run_id[:8], "job": context.run.job_name, "by": by}
    words = {**given, **run}
    try:
        with ordered(verb, words, says=note, lake=lake, over=DAGSTER, is_automatic=bool(by)):
            yield
    except RoleError as error:
        raise failure(error) from error


class LakeResource(ConfigurableResource):  # type: ignore[type-arg]  # the resource is its own value
    """The lake of the settings, and the verbs that fill its tables."""

    def catch_up(self, table: Table, spark: SparkResource, parent: Parent | None = None) -> Report:
        """Bring one table up to date, as ``strandline run`` does."""
        found, lake = lakes.configured(None)
        lake.open_for_writing()
        address = lakes.demanded_address(found, lake) if table.topics else None
        return run(table, AvailableNow(), lake, site=spark.site(address, parent))

    def recompute(
        self, table: Table, span: Span, spark: SparkResource, parent: Parent | None = None
    ) -> Report:
        """Recompute a closed range of a table, as ``strandline backfill`` does."""
        _, lake = lakes.existing(None, says=note)
        lake.refuse_missing(table)
        report = Report(table=table.id, mode=MODE)
        session = spark.spark_session
        for _, entry in backfilled(
            session, table, lake, span, downstream=False, says=note, parent=parent
        ):
            if entry:
                report.add(entry)
        return report

    def lake(self) -> Lake:
        """Return the lake itself."""
        _, lake = lakes.configured(None)
        return lake

    def stream(self, by: str) -> Always:
        """Return its always-on stream; orders are signed by ``by``."""
        found, lake = lakes.configured(None)
        return always(found, lake, by)

    def alerts(self, by: str) -> Always:
        """Return the process that raises alerts; orders are signed by ``by``."""
        found, lake = lakes.configured(None)
        return always(found, lake, by, ALERTS)

    def radar(self) -> list[Danger]:
        """Look how long what every reader still needs is there, as ``strandline radar`` does."""
        found, lake = lakes.existing(None, says=note)
        return dangers_of(found, lake)

    def radar_of(self, table: Ingested) -> list[Danger]:
        """Look how long what one bronze table still needs is there: a run asks it of each table that it fills."""
        found, lake = lakes.configured(None)
        return dangers_to(table, found, lake)

    def report(self, day: str | None) -> tuple[Findings, Place]:
        """Write the report of a day, as ``strandline report`` does."""
        _, lake = lakes.existing(None, says=note)
        found = report_of(lake, day=day)
        return found, write_report(found, lake)

    def report_link(self, day: date | None = None) -> str | None:
        """Return the address of the report of a day, today by default; None while `strandline ui` does not run."""
        return daily_report.link(self.lake(), day or clock.now().date())

    def backtest_link(self) -> str | None:
        """Return the address of the page of the last backtest; None while `strandline ui` does not run."""
        return daily_report.backtest_link(self.lake())

    def rows(self, table: Table) -> int:
        """Return the number of rows of a table, from its log."""
        return live_rows(self.lake().table(table))

    def lineage(self, table: Table, spark: SparkResource) -> Columns:
        """Return the column lineage of a table."""
        return lineage(spark.spark_session, table, self.lake())

    def ends(self) -> Iterator[tuple[Table, Mapping[Part, Ends]]]:
        """Return the end offsets of each table's topics, and how far the table has read them."""
        found, lake = lakes.configured(None)
        address = lakes.demanded_address(found, lake)
        for table in fed(tables(), lake):
            if table.topics:
                yield table, ends_of(table, lake, address, found.kafka_options)


RESOURCES = named({"lake": LakeResource(), "spark": SparkResource()})
"""By the argument names of assets, steps and sensors."""


# What Dagster does while the store of the lake does not answer: a look ends within seconds, says so, and the next one tries again.
#
# A look that waits as a stream does takes half a minute for each request, and Dagster ends a sensor after one; the error that it
# then shows has no sentence. The lake's first asset is red meanwhile (orchestration/strandline_dagster/vitals.py).


BACK = "the store answers again; a program that waited for it has a minute to write its heartbeat"

_away: list[float] = []
"""When the store was seen to be away last, by this process, which makes all looks."""

Given = ParamSpec("Given")
Result = TypeVar("Result")


def refuse_away() -> None:
    """Ask the store of the lake for one object, and wait for it no longer than a person does; a folder is not asked.

    Raises:
        StoreAwayError: It does not answer.
        KeysRefusedError: It refuses the keys.
    """
    try:
        lakes.asked(None)
    except AWAY:
        _away[:] = [time.monotonic()]
        raise


def is_back_only_now(found: Watch) -> bool:
    """Return whether a heartbeat may be old because the store was away: a stream that waited for it lives, and writes the next one."""
    within = SILENT.total_seconds()
    return found.ill is Ill.SILENT and any(time.monotonic() - each < within for each in _away)


def unless_away(look: Callable[Given, Result]) -> Callable[Given, Result | SkipReason]:
    """Skip a look of a sensor while the store does not answer."""

    @wraps(look)
    def skips(*args: Given.args, **kwargs: Given.kwargs) -> Result | SkipReason:
        try:
            refuse_away()
            return look(*args, **kwargs)
        except AWAY as error:
            return SkipReason(error.message)

    return skips


# The days that Dagster offers: from the lake's first row on, as it was when this process began, or from the configured day.
#
# From the configured day alone a lake of this week showed 330 days as missing that no run could ever fill. Days without a row
# are done when their stream has left them, whether a table had rows then or begins later; so they are reported as well
# (orchestration/strandline_dagster/assets.py). A lake that has no row yet, or cannot be read, offers all days from the configured one on; when
# the code is loaded again, as `strandline ui` does at its start, days begin with the first row.


def days_since(first: date) -> DailyPartitionsDefinition:
    """Return the days of events from the first one on; today is the last, and the streams still own it."""
    return DailyPartitionsDefinition(start_date=first.isoformat(), timezone="UTC", end_offset=1)


def first_day(lake: Lake) -> date:
    """Return the day of the first row of all tables, but none before the configured day."""
    configured = settings().first_day
    try:
        found = [
            earliest(lake.table(table), moment_of(table))
            for table in tables()
            if not isinstance(table, Ingested)
        ]
    except (LakeError, DeltaError, OSError):  # without it no page at all could be shown
        return configured
    return max(configured, min((at.date() for at in found if at), default=configured))


DAYS = days_since(first_day(LakeResource().lake()))
"""The days of this process."""


def begins() -> date:
    """Return the first of them."""
    return DAYS.start.date()


def linked(lake: LakeResource, day: date | None = None) -> Mapping[str, MetadataValue]:
    """Return the metadata with the link to a day's report, today by default; empty while no process serves it."""
    address = lake.report_link(day)
    return {"report": MetadataValue.url(address)} if address else {}


def backtest_linked(lake: LakeResource) -> Mapping[str, MetadataValue]:
    """Return the metadata with the link to the page of the last backtest of rules; empty while no process serves it."""
    address = lake.backtest_link()
    return {"backtest": MetadataValue.url(address)} if address else {}


# Errors as failures of Dagster, each with its page of the runbook, and the alarm that reaches a person.
#
# Alert a person when a run has failed, with what to do about it.
#
# Transient errors were retried before a run fails, so every failure is worth an alarm. The kind names who must act:
# ``data`` the owner of the table, ``definition`` the author of the last change, any other kind the person on call.
#
# An alarm that is not accepted is kept in the lake and sent again. Dagster (1.13.27) shows such a sensor as failed, but
# evaluates no failure of a run twice.

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

UNFINISHED = [
    DagsterRunStatus.QUEUED,
    DagsterRunStatus.NOT_STARTED,
    DagsterRunStatus.STARTING,
    DagsterRunStatus.STARTED,
    DagsterRunStatus.CANCELING,
]
UNFINISHED_AT_MOST = 1_000
EVERY = 60
UNFORESEEN = "unforeseen"
ALARM = "alarm"
"""The key of a failure's metadata with the name of its alarm, where that is not the kind of its error."""


@run_failure_sensor(minimum_interval_seconds=30)
def alert_of_failures(context: RunFailureSensorContext) -> None:
    """Send an alarm for each failed run."""
    run = context.dagster_run
    if placement().is_guest and not _is_ours(run):
        return
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


def our_runs(instance: DagsterInstance) -> list[str]:
    """Return the runs of ours that are not finished."""
    found = instance.get_runs(RunsFilter(statuses=UNFINISHED), limit=UNFINISHED_AT_MOST)
    return [run.run_id for run in found if _is_ours(run)]


def _is_ours(run: DagsterRun) -> bool:
    """Return whether a run is one of our jobs or makes an asset of ours; a host has alarms of its own for the others."""
    if run.asset_selection:
        return bool(run.asset_selection & {each.key for each in ours().resolve_all_asset_specs()})
    return run.job_name in {each.name for each in ours().jobs or ()}


@sensor(minimum_interval_seconds=EVERY)
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
