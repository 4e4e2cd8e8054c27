"""The job that brings all tables up to date, and the schedule of it where no stream runs.

One schedule for the whole chain, not an automation condition per table: a run is one process and one Spark, and the
gate between silver and gold, a file in the lake, decides whether gold may follow.
"""

from dagster import (
    AssetMaterialization,
    DagsterInstance,
    DagsterRunStatus,
    DefaultScheduleStatus,
    DependencyDefinition,
    GraphDefinition,
    In,
    JobDefinition,
    MaterializeResult,
    MultiDependencyDefinition,
    Nothing,
    OpDefinition,
    OpExecutionContext,
    Out,
    RunRequest,
    RunsFilter,
    ScheduleEvaluationContext,
    SkipReason,
    op,
    schedule,
)
from strandline import catalog

from strandline.core.table import Table
from strandline.engine.lake.retired import retired
from strandline.engine.runtime import clock
from strandline.engine.runtime.settings import settings
from strandline.engine.service.stream_health import heartbeat
from strandline.operate import lakes
from strandline_dagster import checks
from strandline_dagster.assets import made
from strandline_dagster.checks import Answers, key, plain, pool
from strandline_dagster.resources import LakeResource, SparkResource

# The job that brings all tables up to date: one step per table, after its sources, in one process and one Spark.
#
# Why it does not run the assets: silver and gold are partitioned by days, and Dagster (1.13.27) fails a run without
# partitions as soon as one partitioned asset depends on another that was materialised before. So each step reports its
# materialisation and its check results itself. A step that a gate stops skips the steps above, whose tables keep their
# last published rows.


AFTER = "after"


def job() -> JobDefinition:
    """Make the job from the catalog."""
    tables = catalog.tables()
    graph = GraphDefinition(
        name="catch_up",
        description="Bring every table up to date, each after its sources.",
        node_defs=[_step(table) for table in tables],
        dependencies={name(table): _after(table) for table in tables if table.needs},
    )
    return graph.to_job()


def _step(table: Table) -> OpDefinition:
    @op(
        name=name(table),
        description=table.summary,
        ins={AFTER: In(Nothing)} if table.needs else {},
        out=Out(Nothing),
        pool=pool(table),
        tags={"dagster/kind/spark": "", "dagster/kind/delta": ""},
    )
    def step(
        context: OpExecutionContext, lake: LakeResource, spark: SparkResource, answers: Answers
    ) -> None:
        update(context, table, lake, spark, answers)

    return step


def update(
    context: OpExecutionContext,
    table: Table,
    lake: LakeResource,
    spark: SparkResource,
    answers: Answers,
) -> None:
    """Bring a table up to date and report what its asset would, as runless events: the step belongs to no asset."""
    if (ended := retired(lake.lake()).get(table.id)) is not None:
        context.log.info("%s is retired, by %s", table.id, ended.words)
        return
    try:
        for each in made(context, table, lake, spark):
            if isinstance(each, MaterializeResult):
                answers.hand_in(context.instance)  # those of the previous table
                context.log_event(AssetMaterialization(key(table), metadata=each.metadata))
            else:
                answers.keep(checks.evaluation(each))
    except Exception:  # the kept results may explain it
        answers.hand_in(context.instance)
        raise


def bring_up(context: OpExecutionContext, lake: LakeResource, spark: SparkResource) -> None:
    """Bring all tables up to date in one step."""
    answers = Answers()
    for table in catalog.tables():
        update(context, table, lake, spark, answers)
    answers.hand_in(context.instance)


def name(table: Table) -> str:
    """Return the name of a step; without the suffix it would be that of the asset's step."""
    return f"{plain(table.id)}_catch_up"


def _after(table: Table) -> dict[str, MultiDependencyDefinition]:
    sources = [DependencyDefinition(name(source)) for source in table.needs]
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


CATCH_UP = job()

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
