"""The job that brings all tables up to date: one step per table, after its sources, in one process and one Spark.

Why it does not run the assets: silver and gold are partitioned by days, and Dagster (1.13.27) fails a run without
partitions as soon as one partitioned asset depends on another that was materialised before. So each step reports its
materialisation and its check results itself. A step that a gate stops skips the steps above, whose tables keep their
last published rows.
"""

from dagster import (
    AssetMaterialization,
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
    op,
)
from strandline import catalog

from strandline.core.table import Table
from strandline.engine.lake.retired import retired
from strandline_dagster import checks
from strandline_dagster.assets import made
from strandline_dagster.checks import Answers
from strandline_dagster.keys import key, plain, pool
from strandline_dagster.resources import LakeResource, SparkResource

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
