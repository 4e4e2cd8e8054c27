"""Is it well? A lake in one sentence, and checks of each table's and each publication's health: they need no Spark, and run every few minutes and on demand.

They are not part of the assets, because a table can become unhealthy between two runs. The watchdog's result for each
table (orchestration/strandline_dagster/watchdog.py) is one of them, so that one page shows all.
"""

import json
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from functools import cache
from typing import Any

from dagster import (
    AssetCheckEvaluation,
    AssetCheckExecutionContext,
    AssetCheckResult,
    AssetChecksDefinition,
    AssetCheckSeverity,
    AssetCheckSpec,
    AssetKey,
    AssetMaterialization,
    AssetSpec,
    DefaultSensorStatus,
    MetadataValue,
    SensorEvaluationContext,
    SensorResult,
    SkipReason,
    asset_check,
    get_dagster_logger,
    multi_asset_check,
    sensor,
)
from strandline import catalog

from strandline.core.errors import LakeError
from strandline.core.table import Table
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger import latest_version
from strandline.engine.lake.place import damage
from strandline.engine.proof.day_verdicts import PROMISE, QUESTIONS, Sign, questions, signs
from strandline.engine.publish.books import Progress, Publish, declared, progress
from strandline.engine.runtime import clock
from strandline.engine.runtime.outage import AWAY as STORE
from strandline.engine.service.condition import OVERDUE, Condition, Trouble, condition, damaged
from strandline.engine.service.stream_health import heartbeat, order, watch
from strandline_dagster.resources import (
    Alarm,
    LakeResource,
    More,
    evaluation,
    key,
    let_the_second_pass,
    linked,
    page,
    plain,
    refuse_away,
    send_or_keep,
    unless_away,
)

# A check of each publication, on the table whose rows leave: has its target what the table has?
#
# It is answered on demand, and by the sensor that looks at tables. A module
# ``publish`` that cannot be read costs its checks alone: it may import the client of a target, which is installed where rows are
# sent and not here.

PREFIX = "published_"
"""Before the name of a publication, so that no rule of the table has the same name."""


def publication_checks() -> list[AssetChecksDefinition]:
    """Make the check of each publication."""
    return [_check(name, each) for name, each in _named().items()]


def publications_answered(table: Table, lake: LakeResource) -> Iterator[AssetCheckResult]:
    """Answer the checks of the publications of a table."""
    for name, each in _named().items():
        if each.table == table:
            yield _publication(name, each, lake)


@cache
def _named() -> dict[str, Publish]:
    """Return what the project publishes, by the name of its check; code is loaded once for a process."""
    try:
        found = declared()
    except LakeError as error:
        get_dagster_logger().warning(f"what leaves has no checks: {error.message}")
        return {}
    taken = Counter(plain(each.name) for each in found)
    return {
        PREFIX + (plain(each.name) if taken[plain(each.name)] == 1 else _apart(each.name)): each
        for each in found
    }


def _apart(name: str) -> str:
    """Return a name as Dagster accepts it that differs from those of others with an underscore in place of a dash."""
    return plain(name.replace("-", "__"))


def _check(name: str, publish: Publish) -> AssetChecksDefinition:
    about = (
        f"{publish.shown} has what the table has, or lacks nothing that is older than {publish.within}, "
        "and has refused nothing."
    )

    @asset_check(asset=key(publish.table), name=name, description=about)
    def is_published(lake: LakeResource) -> AssetCheckResult:
        lake.lake().refuse_missing(publish.table)
        found = _publication(name, publish, lake)
        return AssetCheckResult(
            passed=found.passed,
            severity=found.severity,
            description=found.description,
            metadata=found.metadata,
        )

    return is_published


def _publication(name: str, publish: Publish, lake: LakeResource) -> AssetCheckResult:
    try:
        found = progress(publish, lake.lake(), clock.now())
    except Exception as error:
        if (torn := damage(error, publish.table)) is None:
            raise
        found = Progress(well=False, says=torn.message, grave=True)
    return AssetCheckResult(
        asset_key=key(publish.table),
        check_name=name,
        passed=found.well,
        severity=AssetCheckSeverity.ERROR if found.grave else AssetCheckSeverity.WARN,
        description=found.says,
        metadata={**found.figures},
    )


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
        found = [*answered(table, lake)]
        answers += [evaluation(each) for each in found]
        answers += [evaluation(each) for each in publications_answered(table, lake)]
        _alarm(context, table, where, seen, [each for each in found if each.check_name == PROMISE])
        if time.monotonic() - begun > LONG:
            break
    return SensorResult(asset_events=answers, cursor=json.dumps(seen))


def _alarm(
    context: SensorEvaluationContext,
    table: Table,
    lake: Lake,
    seen: Seen,
    found: Sequence[AssetCheckResult],
) -> None:
    """Send one alarm when a table breaks its promise, which names the hop that is late, and another after it was kept again."""
    mark = f"{OVERDUE} {table.id}"
    broken = [each.description or "" for each in found if not each.passed]
    if not broken:
        seen.pop(mark, None)
    elif mark not in seen:
        seen[mark] = seen[table.id]
        facts = {"job": table.id, "kind": "data", "says": broken[0], "runbook": Alarm.OVERDUE.path}
        context.log.error("%s", json.dumps(facts))
        send_or_keep(facts, lake, plain(mark))  # one that is not accepted is sent again


def due(lake: Lake, seen: Seen, at: float) -> list[Table]:
    """Return the tables to check, the one with the oldest look first; one that promises an age is due at every look.

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
        if at - then >= OLD or table.promise or version != _version(table, lake)
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


# Is it well? One asset, first in the catalog, green or red with one sentence, and from it the way to what a person needs.
#
# A look is six files, so it is made every ten seconds; it reports only what is new, because Dagster keeps every event.
# The same words are in ``strandline status`` (jobs/strandline/engine/service/condition.py), but for a torn commit that no stream has tried to
# read: once a minute a log of each table is looked at here, which ``status`` leaves to ``strandline ledger``.
#
# A table of silver or gold that fails is red in the catalog as well. Dagster (1.13.27) shows there of a partitioned asset only how
# many partitions failed, and no check: so the run that reports the failure names the table's newest day as the one that it
# failed to make, and a table that goes on has that day made again (orchestration/strandline_dagster/watchdog.py).


SAID_EVERY = 10
AGAIN = 300
"""Seconds after which the same is said again."""

AWAY = "store_away"
"""What is wrong where the look itself cannot read the lake."""

LOOK_AT_LOGS = 60
"""Seconds between two looks at the newest commit of each table, which a paused stream would not read."""

KEY = AssetKey(["_is_it_well"])
"""Sorted before all tables: the page's order has the underscore before all letters."""

CHECK = "is_it_well"
ABOUT = "Whether a person is needed, in one sentence, as `strandline status` says it."


def spec() -> AssetSpec:
    """Make the asset; nothing materialises it but the first look."""
    return AssetSpec(
        KEY,
        group_name="well",
        kinds={"strandline"},
        description=f"{ABOUT} Red: a person is needed; yellow: it passes by itself, or has time. Its check leads to the "
        "report, the runbook and what to type.",
    )


def check() -> AssetChecksDefinition:
    """Make its check, to be answered on demand; the sensor answers it over time."""

    @asset_check(asset=KEY, name=CHECK, description=ABOUT)
    def is_it_well(lake: LakeResource) -> AssetCheckResult:
        found = _found(lake, clock.now())
        said = answer(found, lake)
        return AssetCheckResult(
            passed=said.passed,
            severity=said.severity,
            description=said.description,
            metadata=said.metadata,
        )

    return is_it_well


@sensor(minimum_interval_seconds=SAID_EVERY, default_status=DefaultSensorStatus.RUNNING)
def look_whether_it_is_well(
    context: SensorEvaluationContext, lake: LakeResource
) -> SensorResult | SkipReason:
    """Answer the check when there is something new to say."""
    seen: dict[str, Any] = json.loads(context.cursor) if context.cursor else {}
    moment = time.time()
    torn = seen.get("torn", [])
    if looked := moment - seen.get("looked", 0.0) >= LOOK_AT_LOGS:
        torn = _torn(lake)
    found = _found(lake, clock.now(), torn)
    said = [[each.what, each.says] for each in found.troubles] or [["", found.sentence]]
    cursor = {
        "said": said,
        "torn": torn,
        "looked": moment if looked else seen.get("looked", 0.0),
        "at": moment,
    }
    if _kinds(said) == _kinds(seen.get("said")) and moment - seen.get("at", 0.0) < AGAIN:
        context.update_cursor(json.dumps({**cursor, "at": seen["at"]}))
        return SkipReason(found.sentence)
    if not seen:  # an asset that was never materialised is grey, whatever its checks say
        context.instance.report_runless_asset_event(
            AssetMaterialization(KEY, description="It is looked at from now on.")
        )
        let_the_second_pass(time.time())
    return SensorResult(asset_events=[answer(found, lake)], cursor=json.dumps(cursor))


def answer(found: Condition, lake: LakeResource) -> AssetCheckEvaluation:
    """Return the answer for a condition, with the ways on from it."""
    severity = AssetCheckSeverity.ERROR if found.is_grave else AssetCheckSeverity.WARN
    return AssetCheckEvaluation(
        asset_key=KEY,
        check_name=CHECK,
        passed=found.is_well,
        severity=severity,
        description=found.sentence,
        metadata=_ways(found, lake),
    )


def _ways(found: Condition, lake: LakeResource) -> Mapping[str, MetadataValue]:
    """Return where to read on: all that is wrong, what to type, the pages of the runbook, the report."""
    lines = [f"* {each.says}" + (f" *{each.hint}*" if each.hint else "") for each in found.troubles]
    pages = {each.page: page(Alarm(each.page)) for each in found.troubles if each.page}
    return {
        **({"all of it": MetadataValue.md("\n".join(lines))} if lines else {}),
        "what to type": MetadataValue.text(f"strandline status --lake {lake.lake().root}"),
        **{f"runbook {name}": MetadataValue.md(text) for name, text in pages.items()},
        **({} if any(each.what == AWAY for each in found.troubles) else linked(lake)),
    }


def _found(
    lake: LakeResource, at: datetime, torn: Sequence[Mapping[str, Any]] | None = None
) -> Condition:
    """Return the condition, with the tables whose newest commit is torn, which no stream may have tried to read.

    Where the store does not answer, that is the condition: an error here would leave the page with what it said before.
    """
    stream = lake.stream("a look")
    try:
        refuse_away()
        seen = condition(stream.lake, at, starting=stream.is_starting())
    except STORE as error:
        return Condition(troubles=(Trouble(what=AWAY, says=error.message, hint=error.hint or ""),))
    return seen.beside(
        Trouble(**{**each, "tables": tuple(each["tables"])})
        for each in (_torn(lake) if torn is None else torn)
    )


def _torn(lake: LakeResource) -> list[dict[str, Any]]:
    """Return the torn tables as the sensor's cursor keeps them."""
    where = lake.lake()
    return [
        {"what": each.what, "says": each.says, "tables": list(each.tables), "page": each.page}
        | {"hint": each.hint}
        for each in damaged(catalog.tables(), where)
    ]


def without_figures(says: str) -> str:
    """Return of a sentence what must differ to be new: its figures, such as seconds, change at every look."""
    return "".join(each for each in says if not each.isdigit())


def _kinds(said: Sequence[Sequence[str]] | None) -> list[str] | None:
    if said is None:
        return None
    return sorted(f"{what} {without_figures(says)}" for what, says in said)
