"""Nightly jobs: recompute the last closed days, and verify all tables against bronze.

``re_read`` recomputes the last closed days, so that the tables above take in later corrections of their sources.
``certify`` recomputes every table from bronze, as one batch and as a stream that is killed, and fails when a row differs
(jobs/strandline/engine/proof/verify.py).
"""

from datetime import date, timedelta

from dagster import (
    AssetKey,
    AssetSelection,
    Config,
    MetadataValue,
    OpExecutionContext,
    RunRequest,
    ScheduleDefinition,
    SkipReason,
    define_asset_job,
    job,
    op,
    schedule,
)
from pydantic import Field
from strandline import catalog

from strandline.core.errors import LakeError
from strandline.core.table import Ingested, Recomputed
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.retired import fed
from strandline.engine.proof.verify import Trial, verify
from strandline.engine.repair.closed_range import closed_days
from strandline.engine.service.background_stream import Always
from strandline.operate.answers.verification import refuse_different
from strandline_dagster.alarms import failure
from strandline_dagster.catch_up import bring_up
from strandline_dagster.checks import evaluation
from strandline_dagster.days import begins
from strandline_dagster.keys import key
from strandline_dagster.resources import LakeResource, SparkResource
from strandline_dagster.schedules import by_itself
from strandline_dagster.watch.vitals import answered

DAYS = 3
START, END = "dagster/asset_partition_range_start", "dagster/asset_partition_range_end"

DERIVED = [table for table in catalog.tables() if not isinstance(table, Ingested)]

RE_READ = define_asset_job(
    "re_read",
    selection=AssetSelection.assets(*map(key, DERIVED)),
    description=f"Recompute the last {DAYS} closed days of all silver and gold tables.",
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
    tables = [table for table in fed(DERIVED, where) if where.exists(table)]
    trial = Trial(splits=config.splits, kills=config.kills)
    context.log.info("seed %s", trial.seed)
    rest = _Rest(stream)
    try:
        if rest.begin():
            bring_up(context, lake, spark)
        found = verify(tables, where, trial, spark.site(), note=context.log.info, pinned=rest.end)
    except LakeError as error:
        raise failure(error) from error
    finally:
        rest.end()
    for table in tables:
        for each in answered(table, lake):
            context.instance.report_runless_asset_event(evaluation(each))
    try:
        refuse_different(found, trial.seed)
    except LakeError as error:
        different = {each.table: "\n".join(each.differences) for each in found if not each.equal}
        rows = {table: MetadataValue.text(text) for table, text in different.items()}
        raise failure(error, rows) from error


@job(name="certify", description="Verify every silver and gold table, and keep the certificates.")
def certify() -> None:
    """Certify."""
    certify_tables()


CERTIFY_NIGHTLY = ScheduleDefinition(
    name="certify_nightly",
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
