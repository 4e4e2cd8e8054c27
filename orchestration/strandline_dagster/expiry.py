"""Rows that are older than their tables keep them are deleted every night, as ``strandline expire --go`` does.

It is on by default, because a table that declares ``keeps`` means it; where none does, or nothing is old, there is no run
and no Spark. A table that cannot be done tonight fails the run after the others were done.
"""

from dagster import (
    OpExecutionContext,
    RunRequest,
    SkipReason,
    job,
    op,
    schedule,
)
from strandline import catalog

from strandline.core.errors import LakeError
from strandline.core.table import Table
from strandline.engine.repair.expire import declares, expire, is_due
from strandline.engine.runtime import clock
from strandline.engine.storage.lake import Lake
from strandline_dagster.failures import failure
from strandline_dagster.resources import LakeResource, SparkResource
from strandline_dagster.switched import by_itself


@op(description="Delete the rows that are older than their tables keep them.")
def expire_rows(context: OpExecutionContext, lake: LakeResource, spark: SparkResource) -> None:
    """Let old rows of all tables expire."""
    where, failed = lake.lake(), list[LakeError]()
    for table in due(where):
        try:
            for each in expire(spark.spark_session, table, where, clock.now()):
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
    if not any(declares(table) for table in catalog.tables()):
        return SkipReason("no table declares how long it keeps its rows")
    return (
        RunRequest() if due(lake.lake()) else SkipReason("no row is older than its table keeps it")
    )


def due(lake: Lake) -> list[Table]:
    """Return the tables of which something would expire."""
    return [table for table in catalog.tables() if is_due(table, lake, clock.now())]
