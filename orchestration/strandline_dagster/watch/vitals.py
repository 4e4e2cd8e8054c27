"""Checks of a table's health: they read the lake, need no Spark, and run every few minutes and on demand.

They are not part of the assets, because a table can become unhealthy between two runs. The watchdog's result for each
table (orchestration/strandline_dagster/watch/watchdog.py) is one of them, so that one page shows all.
"""

import json
import time
from collections.abc import Iterator

from dagster import (
    AssetCheckExecutionContext,
    AssetCheckResult,
    AssetChecksDefinition,
    AssetCheckSeverity,
    AssetCheckSpec,
    DefaultSensorStatus,
    SensorEvaluationContext,
    SensorResult,
    multi_asset_check,
    sensor,
)
from strandline import catalog

from strandline.core.table import Table
from strandline.engine.lake.files.damage import damage
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger import latest_version
from strandline.engine.runtime import clock
from strandline.engine.service.desired_state import order
from strandline.engine.service.heartbeat import heartbeat
from strandline.engine.service.stream_health import watch
from strandline.engine.trust.table_checks import QUESTIONS, Sign, questions, signs
from strandline_dagster.checks import More, evaluation
from strandline_dagster.keys import key, plain
from strandline_dagster.links import linked
from strandline_dagster.resources import LakeResource, unless_away

EVERY = 60
OLD = 300
"""Seconds after which a table is checked again although nothing was written."""

LONG = 10.0
"""Seconds that a look may take; the remaining tables are the first of the next look. The cost of a table grows with
the commits of its ledger (half a second for 430 of each of its books), and Dagster ends a sensor after a minute.
"""

KEEPS_UP = "keeps_up"
Seen = dict[str, tuple[int, float]]

KEEPS_UP_ABOUT = "Its always-on stream, if one should run, is alive and does not fall behind."


def checks() -> list[AssetChecksDefinition]:
    """Make the checks of all tables."""
    return [_of(table) for table in catalog.tables()]


@sensor(minimum_interval_seconds=EVERY, default_status=DefaultSensorStatus.RUNNING)
@unless_away
def look_at_tables(context: SensorEvaluationContext, lake: LakeResource) -> SensorResult:
    """Answer the checks of the tables with new commits, and of those whose last look is old."""
    seen: Seen = json.loads(context.cursor) if context.cursor else {}
    where, begun = lake.lake(), time.monotonic()
    answers = []
    for table in due(where, seen, time.time()):
        seen[table.id] = (_version(table, where), time.time())
        answers += [evaluation(each) for each in answered(table, lake)]
        if time.monotonic() - begun > LONG:
            break
    return SensorResult(asset_events=answers, cursor=json.dumps(seen))


def due(lake: Lake, seen: Seen, at: float) -> list[Table]:
    """Return the tables to check, the one with the oldest look first.

    Args:
        lake: The lake.
        seen: For each table its version at the last look, and the time of that look.
        at: The current time.
    """
    there = [table for table in catalog.tables() if lake.exists(table)]
    last = {table: seen.get(table.id, (-1, 0.0)) for table in there}
    news = [
        table
        for table, (version, then) in last.items()
        if at - then >= OLD or version != _version(table, lake)
    ]
    return sorted(news, key=lambda table: last[table][1])


def _version(table: Table, lake: Lake) -> int:
    """Return a table's newest version; of one that cannot be read none, and its checks say why."""
    try:
        return latest_version(lake.table(table))
    except Exception as error:
        if damage(error, table) is None:
            raise
        return -1


def answered(table: Table, lake: LakeResource) -> Iterator[AssetCheckResult]:
    """Answer the checks of a table."""
    link = linked(lake)
    yield from (_answer(table, sign, link) for sign in signs(table, lake.lake(), clock.now()))


def keeps_up(table: Table, lake: LakeResource) -> AssetCheckResult:
    """Check a table's stream now; the watchdog checks it over time."""
    stream = lake.stream("a look")
    found = watch(
        order(stream.lake),
        heartbeat(stream.lake, clock.now()),
        clock.now(),
        starting=stream.is_starting(),
    )
    return AssetCheckResult(
        asset_key=key(table),
        check_name=KEEPS_UP,
        passed=found.ill is None,
        description=found.message or "nothing is wrong with the stream",
    )


def _of(table: Table) -> AssetChecksDefinition:
    @multi_asset_check(
        name=f"{plain(table.id)}_vitals",
        specs=[
            AssetCheckSpec(name, asset=key(table), description=QUESTIONS[name])
            for name in questions(table)
        ]
        + [AssetCheckSpec(KEEPS_UP, asset=key(table), description=KEEPS_UP_ABOUT)],
        can_subset=True,
    )
    def vitals(
        context: AssetCheckExecutionContext, lake: LakeResource
    ) -> Iterator[AssetCheckResult]:
        lake.lake().refuse_missing(table)
        chosen = {each.name for each in context.selected_asset_check_keys}
        answers = [*answered(table, lake), keeps_up(table, lake)]
        yield from (each for each in answers if each.check_name in chosen)

    return vitals


def _answer(table: Table, sign: Sign, link: More) -> AssetCheckResult:
    return AssetCheckResult(
        asset_key=key(table),
        check_name=sign.name,
        passed=sign.well,
        severity=AssetCheckSeverity.ERROR if sign.grave else AssetCheckSeverity.WARN,
        description=sign.message,
        metadata={**sign.figures, **link},
    )
