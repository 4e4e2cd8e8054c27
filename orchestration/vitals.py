"""Is a table well: checks that ask the lake and need no Spark, answered every few minutes and whenever somebody asks.

They are no part of the assets, because a table is not well or ill only when a run has just made it. The watchdog's
word on each table (orchestration/watchdog.py) is one of them, so that all of it stands on one page.
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

from jobs import catalog
from jobs.cli.place import now
from jobs.core.table import Table
from jobs.run.beat import heartbeat
from jobs.run.lake import Lake
from jobs.run.ledger import latest_version
from jobs.run.order import order
from jobs.run.vitals import QUESTIONS, Sign, questions, signs
from jobs.run.watch import watch
from orchestration.checks import More, evaluation
from orchestration.keys import key, plain
from orchestration.links import linked
from orchestration.resources import LakeResource

EVERY = 60
OLD = 300
"""Seconds after which an answer is asked for again although nothing was written."""

LONG = 10.0
"""Seconds that a look may take; the tables that it did not come to are the first of the next. What a table costs grows
with the commits of its ledger (half a second for 430 of each of its books), and Dagster ends a sensor after a minute.
"""

KEEPS_UP = "keeps_up"
Seen = dict[str, tuple[int, float]]

WORD = "Its always-on stream, if one is to run, lives, and does not fall behind."


def checks() -> list[AssetChecksDefinition]:
    """Make the checks of all tables."""
    return [_of(table) for table in catalog.tables()]


@sensor(minimum_interval_seconds=EVERY, default_status=DefaultSensorStatus.RUNNING)
def look_at_tables(context: SensorEvaluationContext, lake: LakeResource) -> SensorResult:
    """Answer them for the tables that were written, and for those that nobody has looked at for a while."""
    seen: Seen = json.loads(context.cursor) if context.cursor else {}
    where, begun = lake.lake(), time.monotonic()
    answers = []
    for table in due(where, seen, time.time()):
        seen[table.id] = (latest_version(where.table(table)), time.time())
        answers += [evaluation(each) for each in answered(table, lake)]
        if time.monotonic() - begun > LONG:
            break
    return SensorResult(asset_events=answers, cursor=json.dumps(seen))


def due(lake: Lake, seen: Seen, at: float) -> list[Table]:
    """Return the tables to look at, those first that were looked at longest ago.

    Args:
        lake: Where.
        seen: For each table its version at the last look, and when that was.
        at: The moment.
    """
    there = [table for table in catalog.tables() if lake.exists(table)]
    last = {table: seen.get(table.id, (-1, 0.0)) for table in there}
    news = [
        table
        for table, (version, then) in last.items()
        if at - then >= OLD or version != latest_version(lake.table(table))
    ]
    return sorted(news, key=lambda table: last[table][1])


def answered(table: Table, lake: LakeResource) -> Iterator[AssetCheckResult]:
    """Answer the checks of a table."""
    link = linked(lake)
    yield from (_answer(table, sign, link) for sign in signs(table, lake.lake(), now()))


def word(table: Table, lake: LakeResource) -> AssetCheckResult:
    """Say whether a table's stream is well now; how it does over time, the watchdog says."""
    stream = lake.stream("a look")
    found = watch(
        order(stream.lake), heartbeat(stream.lake, now()), now(), starting=stream.is_starting()
    )
    return AssetCheckResult(
        asset_key=key(table),
        check_name=KEEPS_UP,
        passed=found.ill is None,
        description=found.says or "nothing is wrong with the stream",
    )


def _of(table: Table) -> AssetChecksDefinition:
    @multi_asset_check(
        name=f"{plain(table.id)}_vitals",
        specs=[
            AssetCheckSpec(name, asset=key(table), description=QUESTIONS[name])
            for name in questions(table)
        ]
        + [AssetCheckSpec(KEEPS_UP, asset=key(table), description=WORD)],
        can_subset=True,
    )
    def vitals(
        context: AssetCheckExecutionContext, lake: LakeResource
    ) -> Iterator[AssetCheckResult]:
        lake.lake().refuse_missing(table)
        chosen = {each.name for each in context.selected_asset_check_keys}
        answers = [*answered(table, lake), word(table, lake)]
        yield from (each for each in answers if each.check_name in chosen)

    return vitals


def _answer(table: Table, sign: Sign, link: More) -> AssetCheckResult:
    return AssetCheckResult(
        asset_key=key(table),
        check_name=sign.name,
        passed=sign.well,
        severity=AssetCheckSeverity.ERROR if sign.grave else AssetCheckSeverity.WARN,
        description=sign.says,
        metadata={**sign.figures, **link},
    )
