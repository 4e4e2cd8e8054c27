"""Reports commits that no run made: the batches of a stream, the days that it has closed, and versions of static tables.

The source is the ledgers, not the stream: nothing is lost while Dagster is down, every commit of a stream that died is
reported, and ``jobs`` need not know Dagster. Once a minute is enough: each event takes some kilobytes of Dagster's
storage until it is purged (orchestration/strandline_dagster/purge.py), and a page with every commit shows no more.
"""

import json
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import date, timedelta
from functools import partial
from typing import Any

from dagster import (
    AssetCheckEvaluation,
    AssetMaterialization,
    AssetObservation,
    DefaultSensorStatus,
    MetadataValue,
    SensorEvaluationContext,
    SensorResult,
    TableColumn,
    TableSchema,
    sensor,
)
from strandline import catalog

from strandline.core.modes import MicroBatch
from strandline.core.static import Static
from strandline.core.table import Table
from strandline.engine.flow.lineage.column_lineage import cached_lineage
from strandline.engine.flow.running import Report
from strandline.engine.lake.files.damage import damage
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger import Entry, between, is_table, latest_version
from strandline.engine.lake.read.open_table import kinds, live_rows
from strandline.engine.repair.closed_range import closed_days
from strandline.engine.runtime import clock
from strandline.engine.service.stream_health import heartbeat
from strandline_dagster import checks
from strandline_dagster.assets import figures, lineage_of, versions_since
from strandline_dagster.checks import key, let_the_second_pass
from strandline_dagster.links import linked, newest_alerts
from strandline_dagster.resources import LakeResource, begins, unless_away

EVERY = 60
DAYS = 30
"""Days of a table that are reported at once; the rest follow at the next look."""

Event = AssetMaterialization | AssetObservation | AssetCheckEvaluation
Cursor = dict[str, Any]


@sensor(minimum_interval_seconds=EVERY, default_status=DefaultSensorStatus.RUNNING)
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
        *((each, partial(versions_since, each, where)) for each in catalog.statics()),
        *(
            (each, partial(_of_table, each, where, pulse=pulses.get(each.id), link=link))
            for each in catalog.tables()
        ),
    ]
    for table, look in looks:
        if is_table(where.table(table)):
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


def _of_table(
    table: Table, lake: Lake, seen: Cursor, pulse: Mapping[str, Any] | None, link: checks.More
) -> Iterator[Event]:
    yield from _batches(table, lake, seen, pulse, link)
    yield from _days(table, lake, seen)


def _batches(
    table: Table, lake: Lake, seen: Cursor, pulse: Mapping[str, Any] | None, link: checks.More
) -> Iterator[Event]:
    version = latest_version(lake.table(table))
    first = seen.get("version", version) + 1
    seen["version"] = version
    mode = MicroBatch().name
    found = [each for each in between(lake.table(table), first, version) if each.mode == mode]
    if found:
        yield from _made(table, lake, found, pulse, link)
    elif pulse and pulse["lag"]:
        yield AssetObservation(key(table), metadata=_health(pulse))


def _made(
    table: Table,
    lake: Lake,
    found: list[Entry],
    pulse: Mapping[str, Any] | None,
    link: checks.More,
) -> Iterator[Event]:
    report = Report(table=table.id, mode=found[-1].mode)
    for entry in found:
        report.add(entry)
    path, columns = lake.table(table), cached_lineage(table, lake)
    schema = TableSchema([TableColumn(name, kind) for name, kind in kinds(path).items()])
    newest = {
        "version": latest_version(path),
        "watermark": found[-1].watermark or "none yet",
        "dagster/row_count": live_rows(path),
        "dagster/column_schema": schema,
        **({"dagster/column_lineage": lineage_of(columns)} if columns else {}),
    }
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
    for each in checks.of_report(table, key(table), report, link):
        yield checks.evaluation(each)


def _health(pulse: Mapping[str, Any]) -> dict[str, int | float | str]:
    lag = {} if pulse["lag"] is None else {"lag": pulse["lag"]}
    return {**lag, "state": pulse["state"], "rows per second": pulse["rate"]}


def _days(table: Table, lake: Lake, seen: Cursor) -> Iterator[Event]:
    last = seen.get("day")
    after = date.fromisoformat(last) + timedelta(days=1) if last else begins()
    for _, day in zip(range(DAYS), closed_days(table, lake, after, before_rows=True), strict=False):
        seen["day"] = day.isoformat()
        yield AssetMaterialization(
            key(table),
            partition=day.isoformat(),
            description="Its stream has closed the day.",
        )
