"""What is done again and again, by the clock: tables are brought up to date, and their lake is kept in order.

Where no stream runs, one schedule brings the whole chain up to date, and not an automation condition per table: a run is one
process and one Spark, and the gate between silver and gold, a file in the lake, decides whether gold may follow.

Whether or not events come: maintenance, deletion by age, the last days again, the day's report. Maintenance is on by default,
every quarter of an hour, beside the stream or the catch-up. Without it a lake gets slower with each batch, so it is for an operator to
switch it off, and not on. A run takes seconds, needs no Spark, and leaves for the next one what it cannot do in ten minutes.
"""

import os
from collections.abc import Iterable
from datetime import date, timedelta

from dagster import (
    AssetCheckEvaluation,
    AssetKey,
    AssetMaterialization,
    AssetSelection,
    Config,
    DagsterInstance,
    DefaultScheduleStatus,
    DependencyDefinition,
    GraphDefinition,
    In,
    JobDefinition,
    MaterializeResult,
    MetadataValue,
    MultiDependencyDefinition,
    Nothing,
    OpDefinition,
    OpExecutionContext,
    Out,
    RunRequest,
    RunsFilter,
    ScheduleDefinition,
    ScheduleEvaluationContext,
    SkipReason,
    define_asset_job,
    in_process_executor,
)
from pydantic import Field

from strandline.core.errors import LakeError, TransientError
from strandline.core.table import Ingested, Recomputed, Table
from strandline.engine.lake.completeness import fed, retired
from strandline.engine.lake.lake import Lake
from strandline.engine.proof.verify import Trial, verify
from strandline.engine.publish.by_settings import bring_up_to_date
from strandline.engine.repair.closed_range import closed_days
from strandline.engine.repair.expire import declares, expire, is_due
from strandline.engine.runtime import clock
from strandline.engine.runtime.settings import settings
from strandline.engine.service.background_stream import Always
from strandline.engine.service.maintain import Left, Maintained, maintain, refuse_idle
from strandline.engine.service.stream_health import heartbeat
from strandline.operate import lakes
from strandline.operate.audit import refuse_different, refuse_untrusted
from strandline.operate.decisions import GENTLE, orphans, policy_of
from strandline_dagster.assets import made
from strandline_dagster.placed import job, op, schedule, titled
from strandline_dagster.resources import (
    UNFINISHED,
    LakeResource,
    SparkResource,
    begins,
    evaluation,
    failure,
    key,
    linked,
    log_answer,
    ordered_by,
    plain,
    pool,
    tables,
)
from strandline_dagster.vitals import answered, answered_by_a_run

# The job that brings all tables up to date: one step per table, after its sources, in one process and one Spark.
#
# Why it does not run the assets: silver and gold are partitioned by days, and Dagster (1.13.27) fails a run without
# partitions as soon as one partitioned asset depends on another that was materialised before. So each step reports its
# materialisation, and the results of all checks of its table, itself. A step that a gate stops skips the steps above, whose
# tables keep their last published rows.


AFTER = "after"


def catch_up() -> JobDefinition:
    """Make the job from the catalog."""
    found = tables()
    graph = GraphDefinition(
        name=titled("catch_up"),
        description="Bring every table up to date, each after its sources.",
        node_defs=[_step(table) for table in found],
        dependencies={titled(name(table)): _after(table) for table in found if _before(table)},
    )
    return graph.to_job(executor_def=in_process_executor)


def _step(table: Table) -> OpDefinition:
    @op(
        name=name(table),
        description=table.summary,
        ins={AFTER: In(Nothing)} if _before(table) else {},
        out=Out(Nothing),
        pool=pool(table),
        tags={"dagster/kind/spark": "", "dagster/kind/delta": ""},
    )
    def step(context: OpExecutionContext, lake: LakeResource, spark: SparkResource) -> None:
        update(context, table, lake, spark)

    return step


def update(
    context: OpExecutionContext, table: Table, lake: LakeResource, spark: SparkResource
) -> None:
    """Bring a table up to date and report what a run of its asset would: the table, and each of its checks."""
    if (ended := retired(lake.lake()).get(table.id)) is not None:
        context.log.info("%s is retired, by %s", table.id, ended.words)
        return
    answers = list[AssetCheckEvaluation]()
    try:
        for each in made(context, table, lake, spark):
            if isinstance(each, MaterializeResult):
                context.log_event(AssetMaterialization(key(table), metadata=each.metadata))
            else:
                answers.append(evaluation(each))
    except Exception:  # the results may explain it, and what is logged is lost
        _report_alone(context, answers)
        raise
    try:
        answers += map(evaluation, answered_by_a_run(table, lake))
    except LakeError as error:  # the table is there; a sensor answers later
        context.log.warning("not all checks of %s are answered: %s", table.id, error.message)
    for answer in answers:
        log_answer(context, answer)


def _report_alone(context: OpExecutionContext, answers: Iterable[AssetCheckEvaluation]) -> None:
    for each in answers:
        context.instance.report_runless_asset_event(each)


def bring_up(context: OpExecutionContext, lake: LakeResource, spark: SparkResource) -> None:
    """Bring all tables up to date in one step."""
    for table in tables():
        update(context, table, lake, spark)


def name(table: Table) -> str:
    """Return the name of a step; without the suffix it would be that of the asset's step."""
    return f"{plain(table.id)}_catch_up"


def _before(table: Table) -> list[Table]:
    """Return the sources of a table that the job fills too; the others are filled elsewhere."""
    shown = {each.id for each in tables()}
    return [source for source in table.needs if source.id in shown]


def _after(table: Table) -> dict[str, MultiDependencyDefinition]:
    sources = [DependencyDefinition(titled(name(source))) for source in _before(table)]
    return {AFTER: MultiDependencyDefinition(sources)}


# Whether a schedule runs by itself, without a click: as its code says, or all or none of them by a setting, such as a profile's.


def by_itself(*, usually: bool) -> DefaultScheduleStatus:
    """Return the status that a schedule has where no person has started or stopped it.

    Args:
        usually: Whether it runs where the setting is absent.
    """
    wanted = settings().schedules
    runs = usually if wanted is None else wanted
    return DefaultScheduleStatus.RUNNING if runs else DefaultScheduleStatus.STOPPED


CATCH_UP = catch_up()


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
        with ordered_by(context, "maintain", where, keep=config.keep, most=config.most):
            taken = _maintained(context, config, where)
    except LakeError as error:
        raise failure(error) from error
    for orphan in taken:
        context.log.info("%s: %s bytes, %s", orphan.path, orphan.size, orphan.why)


def _maintained(context: OpExecutionContext, config: Upkeep, where: Lake) -> list[Left]:
    done, policy = [], policy_of(config.keep, config.most)
    for each in maintain(where, clock.now(), policy):
        done.append(each)
        if each != Maintained(table=each.table):
            context.log.info("%s", each.sentence)
    _refuse_damaged(context, done)
    for line in bring_up_to_date(settings(), where, clock.now, policy.is_over):
        context.log.info("%s", line)
    return orphans(where, go=True)


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


# Rows that are older than their tables keep them are deleted every night, as ``strandline expire --go`` does.
#
# It is on by default, because a table that declares ``keeps`` means it; where none does, or nothing is old, there is no run
# and no Spark. A table that cannot be done tonight fails the run after the others were done.


@op(description="Delete the rows that are older than their tables keep them.")
def expire_rows(context: OpExecutionContext, lake: LakeResource, spark: SparkResource) -> None:
    """Let old rows of all tables expire."""
    where, failed = lake.lake(), list[LakeError]()
    for table in due(where):
        names = {"tables": (table.id,)}
        try:
            with ordered_by(context, "expire", where, go=True, **names):
                done = [*expire(spark.spark_session, table, where, clock.now())]
            for each in done:
                context.log.info(
                    "%s: %s rows before %s expired", each.table, f"{each.rows:,}", each.until
                )
        except LakeError as error:
            context.log.warning("%s", error)
            failed.append(error)
    if failed:
        raise failure(failed[0]) from failed[0]


@job(name="expire", description="Delete the rows that are older than their tables keep them.")
def expiry() -> None:
    """Let old rows expire."""
    expire_rows()


@schedule(
    job=expiry,
    cron_schedule="30 1 * * *",
    execution_timezone="UTC",
    default_status=by_itself(usually=True),
)
def expire_nightly(lake: LakeResource) -> RunRequest | SkipReason:
    """Let old rows expire, where there are any."""
    if not any(declares(table) for table in tables()):
        return SkipReason("no table declares how long it keeps its rows")
    return (
        RunRequest() if due(lake.lake()) else SkipReason("no row is older than its table keeps it")
    )


def due(lake: Lake) -> list[Table]:
    """Return the tables of which something would expire."""
    return [table for table in tables() if is_due(table, lake, clock.now())]


# Nightly jobs: recompute the last closed days, and verify all tables against bronze.
#
# ``re_read`` recomputes the last closed days, so that the tables above take in later corrections of their sources.
# ``certify`` recomputes every table from bronze, as one batch and as a stream that is killed, and fails when a row differs
# (jobs/strandline/engine/proof/verify.py).


DAYS = 3
START, END = "dagster/asset_partition_range_start", "dagster/asset_partition_range_end"

DERIVED = [table for table in tables() if not isinstance(table, Ingested)]

RE_READ = define_asset_job(
    titled("re_read"),
    selection=AssetSelection.assets(*map(key, DERIVED)),
    description=f"Recompute the last {DAYS} closed days of all silver and gold tables.",
    executor_def=in_process_executor,
)


class Proof(Config):
    """How often to cut and kill."""

    splits: int = Field(default=5, ge=1, description="Micro-batches into which the log is cut.")
    kills: int = Field(default=2, ge=0, description="How often the stream is killed.")


class _Rest:
    """Pauses the stream while all tables catch up, and resumes it once; the watchdog does, if this process is killed."""

    def __init__(self, stream: Always) -> None:
        self._stream = stream
        self._rests = False

    def begin(self) -> bool:
        self._rests = self._stream.suspend()
        return self._rests

    def end(self) -> None:
        if self._rests:
            self._rests = False
            self._stream.end_suspension()


@op(description="Recompute all tables from bronze, twice, and compare them row by row.")
def certify_tables(
    context: OpExecutionContext, config: Proof, lake: LakeResource, spark: SparkResource
) -> None:
    """Pause the stream until the compared versions are pinned, and write a certificate of each table."""
    where, stream = lake.lake(), lake.stream(f"run {context.run_id[:8]}")
    proven = [table for table in fed(DERIVED, where) if where.exists(table)]
    trial = Trial(splits=config.splits, kills=config.kills)
    context.log.info("seed %s", trial.seed)
    rest = _Rest(stream)
    try:
        with ordered_by(context, "verify", where, everything=True):
            if rest.begin():
                bring_up(context, lake, spark)
            site = spark.site()
            found = verify(proven, where, trial, site, note=context.log.info, pinned=rest.end)
    except LakeError as error:
        raise failure(error) from error
    finally:
        rest.end()
    answers = [evaluation(each) for table in proven for each in answered(table, lake)]
    try:
        refuse_different(found, trial.seed)
    except LakeError as error:
        _report_alone(context, answers)
        different = {each.table: "\n".join(each.differences) for each in found if not each.equal}
        rows = {table: MetadataValue.text(text) for table, text in different.items()}
        raise failure(error, rows) from error
    for answer in answers:
        log_answer(context, answer)


@job(name="certify", description="Verify every silver and gold table, and keep the certificates.")
def certify() -> None:
    """Certify."""
    certify_tables()


CERTIFY_NIGHTLY = ScheduleDefinition(
    name=titled("certify_nightly"),
    job=certify,
    cron_schedule="0 3 * * *",
    execution_timezone="UTC",
    default_status=by_itself(usually=False),
)


@schedule(
    job=RE_READ,
    cron_schedule="0 2 * * *",
    execution_timezone="UTC",
    default_status=by_itself(usually=False),
)
def re_read_nightly(lake: LakeResource) -> RunRequest | SkipReason:
    """Recompute the last closed days as one range."""
    last = last_closed(lake.lake())
    if last is None:
        return SkipReason("no day is closed in all tables yet")
    first = max(last - timedelta(days=DAYS - 1), begins())
    if first > last:
        return SkipReason("no day that Dagster offers is closed in all tables yet")
    return RunRequest(
        tags={START: first.isoformat(), END: last.isoformat()},
        asset_selection=_selection(lake.lake()),
    )


def _selection(lake: Lake) -> list[AssetKey] | None:
    """Return what is recomputed; None for all, where no table is retired."""
    left = fed(DERIVED, lake)
    return None if len(left) == len(DERIVED) else [key(table) for table in left]


def last_closed(lake: Lake) -> date | None:
    """Return the last day that is closed in every table with a stream that is fed."""
    streamed = [table for table in fed(DERIVED, lake) if not isinstance(table, Recomputed)]
    found = [max(closed_days(table, lake, begins()), default=None) for table in streamed]
    known = [day for day in found if day is not None]
    return min(known) if known and len(known) == len(found) else None


# The report of a day as a job, so that a click or a schedule writes the page that checks link to.
#
# It needs no Spark, and succeeds or fails as ``strandline report`` does: a failed run is a day whose numbers cannot be
# trusted, and its page was written in any case.


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
    return RunRequest(run_config={"ops": {make_report.name: {"config": {"day": day.isoformat()}}}})
