"""Assets, made from the catalog, and the commits of them that no run made. Nothing is listed twice.

There is one for each table, model and static table. Silver and gold are partitioned by the day of the event, so that a
backfill is a click: the chosen days are recomputed as one range (jobs/strandline/engine/repair/backfill.py). A table of
local days has the same dates, and means its own days by them: Dagster (1.13.27) refuses dependencies between days of two
zones. Bronze is a log in order of arrival; it has no partitions and catches up. A job brings all tables up to date
(orchestration/strandline_dagster/schedules.py).

Commits that no run of this Dagster made are reported from the ledgers: the batches of a stream, what was filled from a terminal,
the days that are closed, and versions of static tables. So nothing is lost while Dagster is down, every commit of a stream that died
is reported, and ``jobs`` need not know Dagster. Once a minute is enough: each event takes some kilobytes of Dagster's storage until it is purged
(orchestration/strandline_dagster/purge.py), and a page with every commit shows no more.
"""

import json
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import date, timedelta
from functools import partial
from itertools import islice
from typing import Any

from dagster import (
    AssetCheckEvaluation,
    AssetCheckResult,
    AssetCheckSeverity,
    AssetCheckSpec,
    AssetExecutionContext,
    AssetMaterialization,
    AssetObservation,
    AssetsDefinition,
    AssetSpec,
    BackfillPolicy,
    Config,
    DagsterInstance,
    DailyPartitionsDefinition,
    MaterializeResult,
    MetadataValue,
    OpExecutionContext,
    SensorEvaluationContext,
    SensorResult,
    TableColumn,
    TableColumnDep,
    TableColumnLineage,
    TableSchema,
)
from strandline import catalog

from strandline.core.errors import LakeError
from strandline.core.model import Model
from strandline.core.stateful import AvailableNow, MicroBatch
from strandline.core.static import Static
from strandline.core.table import Ingested, Recomputed, Table
from strandline.engine.accounting.gate_files import GateShutError
from strandline.engine.flow.function_plan import Columns, cached_lineage
from strandline.engine.flow.running import Report
from strandline.engine.lake import static_versions
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger import Entry, entries, entry_at, is_table, latest_version
from strandline.engine.lake.open_table import columns, live_rows
from strandline.engine.lake.place import Place, damage
from strandline.engine.repair.backfill import MODE as BACKFILL
from strandline.engine.repair.closed_range import Span, both, closed_days
from strandline.engine.runtime import clock
from strandline.engine.service.stream_health import heartbeat
from strandline_dagster import resources
from strandline_dagster.placed import group, multi_asset, sensor
from strandline_dagster.reading import LOOKED_BACK, VERSION
from strandline_dagster.resources import (
    DAYS,
    MODELS,
    LakeResource,
    SparkResource,
    again_or_failed,
    begins,
    failure,
    key,
    let_the_second_pass,
    linked,
    model_key,
    ordered_by,
    parent_of,
    plain,
    pool,
    source_key,
    topic_key,
    unless_away,
)


def assets() -> list[AssetsDefinition]:
    """Make the assets of all tables."""
    return [asset_of(table, DAYS) for table in resources.tables()]


def spec_of(table: Table, days: DailyPartitionsDefinition) -> AssetSpec:
    """Return what Dagster shows of a table, derived from its declaration."""
    return AssetSpec(
        key(table),
        deps=[
            *(topic_key(topic) for topic in table.topics),
            *(key(each) for each in table.needs),
            *(source_key(each.id) for each in table.static),
        ],
        group_name=group(table.layer.value),  # Dagster accepts no subclass of a text
        kinds={"spark", "delta"},
        owners=[f"team:{table.owner}"] if table.owner else [],
        description=table.summary,
        metadata={
            "dagster/table_name": table.id,
            "dagster/storage_kind": "delta",
            **({"days of": table.local_day.zone} if table.local_day else {}),
        },
        partitions_def=None if isinstance(table, Ingested) else days,
    )


def asset_of(table: Table, days: DailyPartitionsDefinition) -> AssetsDefinition:
    """Make the asset of a table."""

    @multi_asset(
        name=plain(table.id),
        specs=[spec_of(table, days)],
        check_specs=resources.specs(table, key(table)),
        pool=pool(table),
        backfill_policy=BackfillPolicy.single_run(),
    )
    def materialise(
        context: AssetExecutionContext, lake: LakeResource, spark: SparkResource
    ) -> Iterator[MaterializeResult[object] | AssetCheckResult]:
        yield from made(context, table, lake, spark, _chosen(context, table))

    return materialise


def made(
    context: OpExecutionContext | AssetExecutionContext,
    table: Table,
    lake: LakeResource,
    spark: SparkResource,
    span: Span | None = None,
) -> Iterator[MaterializeResult[object] | AssetCheckResult]:
    """Recompute a range of a table, or bring it up to date, and yield the materialisation and the check results.

    Each links to the report of the day, while `strandline ui` serves it.

    Raises:
        Failure: The table cannot be computed, or its gate is shut.
        RetryRequested: It cannot be computed at the moment, and retries are left.
    """
    names = {"tables": (table.id,)}
    try:
        if span is None or isinstance(table, Recomputed):  # it finds changed windows itself
            with ordered_by(context, "run", lake.lake(), **names):
                report = lake.catch_up(table, spark, parent_of(context))
        else:
            range_ = {"since": span.since.isoformat(), "until": span.until.isoformat()}
            with ordered_by(context, "backfill", lake.lake(), **names, **range_):
                report = lake.recompute(table, span, spark, parent_of(context))
    except GateShutError as error:
        yield from resources.of_gate(table, key(table), error, linked(lake))
        raise failure(error) from error
    except LakeError as error:
        raise again_or_failed(error, context.retry_number) from error
    if span is None:  # chosen days are reported by the step itself
        report_days(table, lake.lake(), context.instance)
    yield _result(table, report, lake, spark)
    yield from resources.of_report(table, key(table), report, linked(lake))


def _chosen(context: AssetExecutionContext, table: Table) -> Span | None:
    """Return the chosen days as one range; each key is a date, and whose day it is the table says."""
    if not (context.has_partition_key or context.has_partition_key_range):
        return None
    first, last = (date.fromisoformat(each) for each in context.partition_key_range)
    return Span(since=table.calendar.begins(first), until=table.calendar.ends(last))


def figures(report: Report) -> dict[str, int | float | str]:
    """Return the figures of a run, or of a stream since the last look."""
    return {
        "batches": report.batches,
        "read": report.read,
        "good": report.good,
        "duplicates": report.copies,
        "quarantined": report.held_records,
        **({"held_items": report.held_items} if report.held_items else {}),
        "skipped": report.skipped.total(),
        "dropped_by_watermark": report.dropped_by_watermark,
        "lost_by_function": report.lost_by_function,
        "made_by_function": report.made_by_function,
        "written": report.written,
        "seconds": report.seconds,
        "core_seconds": report.core_seconds,
    }


LONGEST = 1_000
"""Characters of a comment that are shown: Dagster keeps the columns with each materialisation."""


def columns_of(path: Place) -> TableSchema:
    """Return the columns of a table in the form that Dagster lists, each with its type and its comment."""
    found = columns(path).items()
    return TableSchema(
        [TableColumn(name, kind, about[:LONGEST] or None) for name, (kind, about) in found]
    )


def lineage_of(columns: Columns) -> TableColumnLineage:
    """Return column lineage in the form that Dagster draws."""
    return TableColumnLineage(
        {
            name: [TableColumnDep(source_key(source), column) for source, column in of]
            for name, of in columns.items()
        }
    )


def _result(
    table: Table, report: Report, lake: LakeResource, spark: SparkResource
) -> MaterializeResult[object]:
    metadata: dict[str, TableSchema | TableColumnLineage | MetadataValue | int | float | str] = {
        "dagster/column_schema": columns_of(lake.lake().table(table)),
        "dagster/column_lineage": lineage_of(lake.lineage(table, spark)),
        "dagster/row_count": lake.rows(table),
        VERSION: latest_version(lake.lake().table(table)),
        **figures(report),
        **linked(lake),
        **newest_alerts(table, lake.lake()),
    }
    return MaterializeResult(asset_key=key(table), metadata=metadata)


# Models as assets: a run trains a version, and its check says whether the version may be promoted.
#
# Nothing is promoted by a run. From when on a version scores is a person's decision (`strandline models promote`), because
# it changes what a table says.


CHECK = "may_be_promoted"


class Training(Config):
    """The range of event time, as `strandline models train` takes it; all rows when absent."""

    since: str = ""
    until: str = ""


def model_assets() -> list[AssetsDefinition]:
    """Make the assets of all models."""
    return [_asset(model) for model in resources.models()]


def _asset(model: Model) -> AssetsDefinition:
    name = model_key(model.name)

    @multi_asset(
        name=f"train_{model.name}",
        specs=[
            AssetSpec(
                name,
                deps=[key(model.of)],
                group_name=group(MODELS),
                kinds={"spark", "model"},
                owners=[f"team:{model.owner}"] if model.owner else [],
                description=model.about,
            )
        ],
        check_specs=[
            AssetCheckSpec(
                CHECK,
                asset=name,
                description="the metrics on the time that was held out fulfil the model's check",
                metadata={"severity": "warning"},
            )
        ],
    )
    def train_model(
        context: AssetExecutionContext, config: Training, lake: LakeResource, spark: SparkResource
    ) -> Iterator[MaterializeResult[object] | AssetCheckResult]:
        # Not imported above: MLlib takes longer than all other definitions.
        from strandline.engine.learning.train_model import everything, train  # noqa: PLC0415  # as above

        where = lake.lake()
        try:
            chosen = both(config.since or None, config.until or None, "leave both out")
            span = chosen or everything(spark.spark_session, model, where)
            with ordered_by(context, "models train", where, name=model.name):
                words = train(spark.spark_session, model, where, span, clock.now())
        except LakeError as error:
            raise again_or_failed(error, context.retry_number) from error
        made = words["certificate"]
        facts = {"version": words["version"], **made["metrics"]}
        complaints = model.against(made)
        yield MaterializeResult(
            asset_key=name,
            metadata={**facts, "since": made["since"], "until": made["until"]},
        )
        yield AssetCheckResult(
            asset_key=name,
            check_name=CHECK,
            passed=not complaints,
            severity=AssetCheckSeverity.WARN,
            description="; ".join(complaints),
        )

    return train_model


# Static tables in Dagster: external assets above which the tables are that join them.
#
# No run makes one. A table that joins it takes its content in, in a run, in a stream or by a command; so all versions are reported
# from the lake, as all commits that no run made.


def static_assets() -> list[AssetSpec]:
    """Make the assets of all static tables."""
    return [static_spec(static) for static in resources.statics()]


def static_spec(static: Static) -> AssetSpec:
    """Return what Dagster shows of a static table, derived from its declaration."""
    return AssetSpec(
        source_key(static.id),
        group_name=group(static.layer),
        kinds={"delta"},
        description=f"From {static_versions.source_said(static)}, joined to rows as of their event.",
        metadata={"dagster/table_name": static.id, "dagster/storage_kind": "delta"},
    )


def versions_since(
    static: Static, lake: Lake, seen: dict[str, Any]
) -> Iterator[AssetMaterialization]:
    """Yield the versions that came since the last look; at the first look the newest."""
    path = lake.table(static)
    newest = latest_version(path)
    after, seen["version"] = seen.get("version", newest - 1), newest
    schema = columns_of(path)
    for version, entry in entries(path) if newest > after else ():
        if version > after:
            yield AssetMaterialization(
                source_key(static.id),
                metadata={
                    "version": version,
                    "dagster/row_count": static_versions.rows_of(static, lake, version),
                    "holds": static_versions.holds_said(entry.holds_from),
                    "changed rows": entry.written,
                    "source": entry.source,
                    "dagster/column_schema": schema,
                },
            )


EVERY = 60
ALERTS = "gold.alerts"
TYPED = (AvailableNow().name, BACKFILL)
"""Modes in which a table is filled from a terminal, by cron or by another Dagster, and by the runs of this one."""
LONG = 10.0
"""Seconds after which no table is looked at that was never looked at: Dagster ends a sensor after a minute."""
DAYS_AT_ONCE = 30
"""Days of a table that are reported at once; the rest follow at the next look."""

Event = AssetMaterialization | AssetObservation | AssetCheckEvaluation
Cursor = dict[str, Any]


@sensor(minimum_interval_seconds=EVERY)
@unless_away
def look_at_the_stream(context: SensorEvaluationContext, lake: LakeResource) -> SensorResult:
    """Report the commits of the stream since the last look, the days closed since, and versions of static tables."""
    where = lake.lake()
    beat = heartbeat(where, clock.now())
    pulses = beat["tables"] if beat and beat["alive"] else {}
    seen: Cursor = json.loads(context.cursor) if context.cursor else {}
    events: list[Event] = []
    link = linked(lake)
    looks: list[tuple[Table | Static, Callable[[Cursor], Iterator[Event]]]] = [
        *((each, partial(versions_since, each, where)) for each in resources.statics()),
        *(
            (
                each,
                partial(
                    _of_table, each, where, context.instance, pulse=pulses.get(each.id), link=link
                ),
            )
            for each in resources.tables()
        ),
    ]
    begun = time.monotonic()
    for table, look in looks:
        is_late = time.monotonic() - begun > LONG and table.id not in seen
        if is_table(where.table(table)) and not is_late:
            mine: Cursor = dict(seen.get(table.id, {}))
            try:
                found = [*look(mine)]
            except Exception as error:
                if (damaged := damage(error, table)) is None:
                    raise
                # Reported from here on once it is mended.
                context.log.warning("%s", damaged.message)
                continue
            seen[table.id] = mine
            events += found
    answers = [each for each in events if isinstance(each, AssetCheckEvaluation)]
    if answers:
        for each in events:
            if not isinstance(each, AssetCheckEvaluation):
                context.instance.report_runless_asset_event(each)
        let_the_second_pass(time.time())
    return SensorResult(asset_events=answers or events, cursor=json.dumps(seen))


def _of_table(  # noqa: PLR0913, PLR0917  # whose table, and what is known of it
    table: Table,
    lake: Lake,
    instance: DagsterInstance,
    seen: Cursor,
    pulse: Mapping[str, Any] | None,
    link: resources.More,
) -> Iterator[Event]:
    # Days first: Dagster's page shows of a table what its newest materialisation has, and that of a day has no columns.
    yield from _days(table, lake, instance, seen)
    yield from _batches(table, lake, instance, seen, pulse, link)


def _batches(  # noqa: PLR0913, PLR0917  # as above
    table: Table,
    lake: Lake,
    instance: DagsterInstance,
    seen: Cursor,
    pulse: Mapping[str, Any] | None,
    link: resources.More,
) -> Iterator[Event]:
    path = lake.table(table)
    version, before = latest_version(path), seen.get("version")
    seen["version"] = version
    if before is None or version < before:  # the first look, or the lake was restored
        if before is not None or _shown(table, instance) is None:
            yield _as_found(table, lake)
        return
    new = {number: entry_at(path, number) for number in range(before + 1, version + 1)}
    typed = max((number for number, each in new.items() if each and each.mode in TYPED), default=-1)
    modes = {MicroBatch().name}
    if typed > (_shown(table, instance) or -1):
        if resources.our_runs(instance):
            # One of them may have written it, and reports it when its step ends.
            seen["version"] = before
            return
        modes |= {*TYPED}
    found = [each for each in new.values() if each and each.mode in modes]
    if found:
        yield from _made(table, lake, found, pulse, link)
    elif pulse and pulse["lag"]:
        yield AssetObservation(key(table), metadata=_health(pulse))


def _shown(table: Table, instance: DagsterInstance) -> int | None:
    """Return the version that the newest materialisation with one has shown; None where the table was never materialised."""
    records = instance.fetch_materializations(key(table), limit=LOOKED_BACK).records
    found = [each.asset_materialization for each in records if each.asset_materialization]
    shown = (int(str(each.metadata[VERSION].value)) for each in found if VERSION in each.metadata)
    return next(shown, -1) if found else None


def _as_found(table: Table, lake: Lake) -> AssetMaterialization:
    """Return what a table is that was filled before this Dagster looked at it."""
    return AssetMaterialization(
        key(table),
        description="It was filled before, by a stream or from a terminal.",
        metadata=_shape(table, lake),
    )


def _shape(table: Table, lake: Lake) -> dict[str, Any]:
    """Return what Dagster draws of a table: columns, where they come from, rows, the version."""
    path, came_from = lake.table(table), cached_lineage(table, lake)
    return {
        VERSION: latest_version(path),
        "dagster/row_count": live_rows(path),
        "dagster/column_schema": columns_of(path),
        **({"dagster/column_lineage": lineage_of(came_from)} if came_from else {}),
    }


def _made(
    table: Table,
    lake: Lake,
    found: list[Entry],
    pulse: Mapping[str, Any] | None,
    link: resources.More,
) -> Iterator[Event]:
    report = Report(table=table.id, mode=found[-1].mode)
    for entry in found:
        report.add(entry)
    newest = {**_shape(table, lake), "watermark": found[-1].watermark or "none yet"}
    offsets = {part: end for part, (_, end) in found[-1].offsets.items()}
    where = {"offsets": MetadataValue.json(offsets)} if offsets else {}
    metadata: dict[str, Any] = {
        **figures(report),
        **newest,
        **where,
        **newest_alerts(table, lake),
        **(_health(pulse) if pulse else {}),
    }
    yield AssetMaterialization(key(table), metadata=metadata)
    for each in resources.of_report(table, key(table), report, link):
        yield resources.evaluation(each)


def _health(pulse: Mapping[str, Any]) -> dict[str, int | float | str]:
    lag = {} if pulse["lag"] is None else {"lag": pulse["lag"]}
    share = {"shard": shard} if (shard := pulse.get("shard")) else {}
    return {**lag, **share, "state": pulse["state"], "rows per second": pulse["rate"]}


def report_days(table: Table, lake: Lake, instance: DagsterInstance) -> None:
    """Report the days that a run has closed, before what it made of the table as a whole.

    A look after it would report them as well, and Dagster's page counts only answers to checks that are newer than the newest
    materialisation, that of a day too: a table that a run fills once a day showed none of its checks as passed until the next run.
    """
    if isinstance(table, Ingested):
        return
    known = instance.get_materialized_partitions(key(table))
    seen: Cursor = {"day": max(known)} if known else {}
    for event in _days(table, lake, instance, seen):
        instance.report_runless_asset_event(event)


def _days(
    table: Table, lake: Lake, instance: DagsterInstance, seen: Cursor
) -> Iterator[AssetMaterialization]:
    last = seen.get("day")
    after = date.fromisoformat(last) + timedelta(days=1) if last else begins()
    found = [*islice(closed_days(table, lake, after, before_rows=True), DAYS_AT_ONCE)]
    known = instance.get_materialized_partitions(key(table)) if found else ()
    for day in map(date.isoformat, found):
        seen["day"] = day
        if day not in known:
            yield AssetMaterialization(
                key(table), partition=day, description="Its stream has closed the day."
            )


def newest_alerts(table: Table, lake: Lake) -> Mapping[str, MetadataValue]:
    """Return the metadata with links to the newest alerts, for the table that has them; empty for all others."""
    if table.id != ALERTS or not catalog.declares("alerts"):
        return {}
    # Not imported above: a project of other tables has no rules, and the other links.
    from strandline_dagster.rule_assets import alert_lines  # noqa: PLC0415  # as above

    return alert_lines(lake)
