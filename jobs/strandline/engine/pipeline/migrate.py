"""Do what a verdict of the pre-flight asks for, where no row must be computed again.

Each step leaves a checkpoint from which either the former code or that of today goes on, and a step that was killed is
simply done again.
"""

from pyspark.sql import SparkSession

from strandline.core.errors import DefinitionError
from strandline.core.table import Streamed
from strandline.engine.pipeline.compare_plans import Remedy
from strandline.engine.pipeline.compare_tables import former_sources
from strandline.engine.pipeline.preflight import Verdict, columns_of, judge, tight_columns
from strandline.engine.pipeline.run_fingerprint import source_tables
from strandline.engine.pipeline.stateful_plan import stateful_plan
from strandline.engine.pipeline.stream_frames import Frames, framed
from strandline.engine.storage.checkpoint_rewrite import retire_state, rewrite_sources
from strandline.engine.storage.create_table import add_columns, let_be_null
from strandline.engine.storage.lake import Lake
from strandline.engine.storage.locks import lease
from strandline.engine.storage.run_record import read_record
from strandline.engine.storage.spark_checkpoint import source_ids


def migrate(spark: SparkSession, table: Streamed, lake: Lake) -> Verdict:
    """Do what a table's verdict asks for, and return the verdict after it.

    Raises:
        DefinitionError: It must be computed again.
        TransientError: A stream writes the table.
    """
    with lease(spark, table, lake):
        verdict = judge(spark, table, lake)
        refuse_rebuild(verdict)
        if not verdict.remedies:
            return verdict
        if Remedy.LET_BE_NULL in verdict.remedies:
            for source in table.upstream:
                columns = tight_columns(table, lake).get(source.id, ())
                let_be_null(spark, lake.table(source), columns)
            return judge(spark, table, lake)
        run = framed(spark, table, lake)
        if Remedy.ADD_COLUMNS in verdict.remedies:
            add_columns(spark, lake.table(table), columns_of(table, run))
        if Remedy.REWRITE_SOURCES in verdict.remedies:
            _rewrite(table, lake, run)
        if Remedy.HAND_OVER in verdict.remedies:
            retire_state(lake.checkpoint(table))
        return judge(spark, table, lake)


def refuse_rebuild(verdict: Verdict) -> None:
    """Refuse a table for which no migration is enough.

    Raises:
        DefinitionError: It must be computed again.
    """
    if Remedy.REBUILD in verdict.remedies:
        reasons = [each.what for each in verdict.differences if each.remedy is Remedy.REBUILD]
        raise DefinitionError(
            f"{verdict.table} cannot be migrated: {'; '.join(reasons)}",
            hint=verdict.hint,
            table=verdict.table,
        )


def _rewrite(table: Streamed, lake: Lake, run: Frames) -> None:
    checkpoint = lake.checkpoint(table)
    ids = {name: each.id for name, each in source_tables(table, lake).items()}
    plan = stateful_plan(table, run.sources, run.result)
    were = former_sources(source_ids(checkpoint), plan, ids, read_record(checkpoint))
    rewrite_sources(
        checkpoint, [were.index(name) if name in were else None for name in plan.sources]
    )
