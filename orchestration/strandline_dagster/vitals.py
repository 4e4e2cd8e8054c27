"""Is it well? A lake in one sentence, checks of tables, publications and topics: without Spark, every few minutes and on demand.

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
    AssetObservation,
    AssetSpec,
    Config,
    Failure,
    MetadataValue,
    OpExecutionContext,
    RunRequest,
    SensorEvaluationContext,
    SensorResult,
    SkipReason,
    get_dagster_logger,
)
from pydantic import Field

from strandline.core.errors import LakeError
from strandline.core.table import Ingested, Table
from strandline.core.topic import Topic
from strandline.engine.flow.publications import Progress, Publish, declared, progress
from strandline.engine.flow.readers import URGENT, WARNED, Danger, Level, span, worst
from strandline.engine.kafka.slices import Ends, Part
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger import latest_version
from strandline.engine.lake.place import damage
from strandline.engine.proof.day_verdicts import PROMISE, QUESTIONS, Sign, questions, signs
from strandline.engine.runtime import clock
from strandline.engine.runtime.outage import AWAY as STORE
from strandline.engine.service.condition import OVERDUE, Condition, Trouble, condition, damaged
from strandline.engine.service.stream_health import heartbeat, order, watch
from strandline_dagster.placed import (
    asset_check,
    asset_key,
    group,
    job,
    multi_asset_check,
    op,
    sensor,
)
from strandline_dagster.resources import (
    ALARM,
    TOPICS,
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
    tables,
    topic_key,
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
        shown = {each.id for each in tables()}
        found = [each for each in declared() if each.table.id in shown]
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
    return [_of(table) for table in tables()]


@sensor(minimum_interval_seconds=EVERY)
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
        answers += [evaluation(each) for each in unwatched(table, lake)]
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
    there = [table for table in tables() if lake.exists(table)]
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


def answered_by_a_run(table: Table, lake: LakeResource) -> Iterator[AssetCheckResult]:
    """Answer every check of a table that its batches do not answer: those of before are no longer counted once a run has made it.

    Raises:
        TransientError: It is bronze, and no broker answers.
    """
    yield from answered(table, lake)
    yield from unwatched(table, lake)
    yield from publications_answered(table, lake)
    if isinstance(table, Ingested):
        yield _retention_answer(table, lake.radar_of(table))


def unwatched(table: Table, lake: LakeResource) -> Iterator[AssetCheckResult]:
    """Answer whether its stream keeps up, where none should run: of one that should, the watchdog says so."""
    asked = order(lake.lake())
    if asked is None or not asked.runs:
        yield keeps_up(table, lake)


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

KEY = asset_key("_is_it_well")
"""Sorted before all tables: the page's order has the underscore before all letters."""

CHECK = "is_it_well"
ABOUT = "Whether a person is needed, in one sentence, as `strandline status` says it."


def spec() -> AssetSpec:
    """Make the asset; nothing materialises it but the first look."""
    return AssetSpec(
        KEY,
        group_name=group("well"),
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


@sensor(minimum_interval_seconds=SAID_EVERY)
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
        for each in damaged(tables(), where)
    ]


def without_figures(says: str) -> str:
    """Return of a sentence what must differ to be new: its figures, such as seconds, change at every look."""
    return "".join(each for each in says if not each.isdigit())


def _kinds(said: Sequence[Sequence[str]] | None) -> list[str] | None:
    if said is None:
        return None
    return sorted(f"{what} {without_figures(says)}" for what, says in said)


# The topics in Dagster: as external assets, observed and never materialised, and how long Kafka keeps what is not read yet.
#
# A sensor reports once a minute the end offsets of each topic and the lag of bronze. That needs no run, and Dagster's own
# decorator for observed assets is still in beta.

TOPICS_EVERY = 60


def topics(sources: Mapping[str, Sequence[AssetKey]]) -> list[AssetSpec]:
    """Make the assets of all topics.

    Args:
        sources: The assets from which records come to a topic, by its name; where nothing is known of them, none.
    """
    return [
        _spec(topic, table, sources.get(topic.name, ()))
        for table in tables()
        for topic in table.topics
    ]


@sensor(minimum_interval_seconds=TOPICS_EVERY)
@unless_away
def look_at_topics(lake: LakeResource) -> SensorResult:
    """Observe all topics: records, offsets, lag."""
    found = [_observed(topic, ends) for table, ends in lake.ends() for topic in table.topics]
    return SensorResult(asset_events=found)


def _spec(topic: Topic, table: Table, sources: Sequence[AssetKey]) -> AssetSpec:
    return AssetSpec(
        topic_key(topic),
        deps=sources,
        group_name=group(TOPICS),
        kinds={"kafka"},
        description=f"The Kafka topic {topic}, which fills {table.id}.",
    )


def _observed(topic: Topic, ends: Mapping[Part, Ends]) -> AssetObservation:
    own = {str(number): part for (name, number), part in sorted(ends.items()) if name == topic.name}
    return AssetObservation(
        topic_key(topic),
        metadata={
            "records": sum(part.end - part.first for part in own.values()),
            "lag": sum(part.lag for part in own.values()),
            "offsets": MetadataValue.json({number: part.end for number, part in own.items()}),
        },
    )


# Watches how long Kafka keeps what is not read yet: a check for each bronze table, and an alarm before the first loss.
#
# The alarm is a run that fails, as that of every incident (orchestration/strandline_dagster/watchdog.py). It comes once when a reader's next record
# may soon be gone, and once more when one is gone; when the reader has what it needs again, a last message says that it is
# over, and the next danger is a new incident. Feeds of alerts are watched with the tables.


LOOK_EVERY = 300
ANSWERED_EVERY = 3600
"""Seconds after which a check is answered again although the answer is the same: Dagster keeps every answer."""

RETENTION = "retention"
RETENTION_ABOUT = (
    f"Kafka keeps what it has not read for more than {span(WARNED)}, or half of what its topics keep; "
    f"below {span(URGENT)} or a quarter it fails."
)
NOTHING_UNREAD = "nothing is unread"
RETENTION_JOB = "retention"


class Expiry(Config):
    """What may be lost."""

    reader: str = Field(description="A bronze table or a feed.")
    level: str = Field(description="urgent, or lost.")
    says: str = Field(description="What is wrong, as a sentence.")


@op(description="Fail, so that a person is alerted: records may soon be gone unread, or are gone.")
def warn_of_loss(context: OpExecutionContext, config: Expiry) -> None:
    """Alert."""
    alarm = Alarm.LOST if config.level == Level.LOST else Alarm.EXPIRING
    context.log.warning(config.says)
    raise Failure(
        f"{config.reader}: {config.says}\n\nhint: `strandline radar {config.reader}` ({alarm.path}).",
        metadata={ALARM: alarm.value, "runbook": MetadataValue.md(page(alarm))},
        allow_retries=False,
    )


@job(
    name=RETENTION_JOB,
    description="For the radar: each run is an alarm about records that may be lost.",
)
def retention() -> None:
    """Alert."""
    warn_of_loss()


@sensor(job=retention, minimum_interval_seconds=LOOK_EVERY)
@unless_away
def watch_retention(
    context: SensorEvaluationContext, lake: LakeResource
) -> SensorResult | SkipReason:
    """Look, answer the checks, and alert a person before something is lost."""
    try:
        dangers = lake.radar()
    except LakeError as error:  # the stream itself waits for its broker and says so
        return SkipReason(error.message)
    moment, before = clock.now(), json.loads(context.cursor) if context.cursor else {}
    answers = [_retention_answer(table, dangers) for table in _bronze(lake)]
    is_due = moment.timestamp() - before.get("answered", 0.0) >= ANSWERED_EVERY
    is_news = _levels(answers) != before.get("levels")
    alarmed = dict(before.get("alarmed", {}))
    requests = [*_requests(dangers, alarmed, moment)]
    _say_over(lake, dangers, alarmed)
    cursor = {
        "alarmed": alarmed,
        "levels": _levels(answers) if is_due or is_news else before.get("levels"),
        "answered": moment.timestamp() if is_due or is_news else before.get("answered", 0.0),
    }
    return SensorResult(
        run_requests=requests,
        asset_events=[evaluation(each) for each in answers] if is_due or is_news else [],
        cursor=json.dumps(cursor),
    )


def retention_checks() -> list[AssetChecksDefinition]:
    """Make the check of each bronze table, to be answered on demand; the sensor answers it over time."""
    return [_retention_check(table) for table in tables() if isinstance(table, Ingested)]


def _retention_check(table: Table) -> AssetChecksDefinition:
    @asset_check(asset=key(table), name=RETENTION, description=RETENTION_ABOUT)
    def kept(lake: LakeResource) -> AssetCheckResult:
        lake.lake().refuse_missing(table)
        found = _retention_answer(table, lake.radar())
        return AssetCheckResult(
            passed=found.passed,
            severity=found.severity,
            description=found.description,
            metadata=found.metadata,
        )

    return kept


def _bronze(lake: LakeResource) -> list[Table]:
    where = lake.lake()
    return [t for t in tables() if isinstance(t, Ingested) and where.exists(t)]


def _retention_answer(table: Table, dangers: Sequence[Danger]) -> AssetCheckResult:
    own = [each for each in dangers if each.reader == table.id]
    nearest = worst(own)
    level = nearest.level if nearest else Level.SAFE
    left = min((each.seconds for each in own if each.seconds is not None), default=None)
    return AssetCheckResult(
        asset_key=key(table),
        check_name=RETENTION,
        passed=level.rank < Level.SOON.rank,
        severity=AssetCheckSeverity.ERROR if level.is_alarming else AssetCheckSeverity.WARN,
        description=f"{nearest.source}: {nearest.says}"
        if nearest and nearest.unread
        else NOTHING_UNREAD,
        metadata={
            "unread": sum(each.unread for each in own),
            **({"hours left": round(left / 3600, 2)} if left is not None else {}),
            "level": level.value,
        },
    )


def _levels(answers: Sequence[AssetCheckResult]) -> dict[str, str]:
    """Return what makes an answer news: the sentence has a time in it, which runs."""
    return {
        each.asset_key.to_user_string(): str(each.metadata["level"].value)
        for each in answers
        if each.asset_key
    }


def _requests(
    dangers: Sequence[Danger], alarmed: dict[str, int], moment: datetime
) -> Iterator[RunRequest]:
    """Yield the alarms that were not sent yet, and note them."""
    for reader, danger in _worst_of_each(dangers).items():
        rank = danger.level.rank
        if danger.level.is_alarming and rank > alarmed.get(reader, -1):
            alarmed[reader] = rank
            incident = {
                "reader": reader,
                "level": danger.level.value,
                "says": f"{danger.source}: {danger.says}",
            }
            yield RunRequest(
                run_key=f"{reader} {danger.level.value} {moment.isoformat()}",
                run_config={"ops": {warn_of_loss.name: {"config": incident}}},
                tags={"incident": f"{RETENTION} {danger.level.value}"},
            )


def _say_over(lake: LakeResource, dangers: Sequence[Danger], alarmed: dict[str, int]) -> None:
    """Send for each alarm whose danger is over that it is, and forget it."""
    now_alarming = {
        reader for reader, each in _worst_of_each(dangers).items() if each.level.is_alarming
    }
    for reader in [each for each in alarmed if each not in now_alarming]:
        del alarmed[reader]
        facts = {
            "job": retention.name,
            "kind": "over",
            "says": f"{reader}: Kafka has what it has not read, for long enough",
        }
        send_or_keep(facts, lake.lake(), f"{RETENTION_JOB}-over-{reader}")


def _worst_of_each(dangers: Sequence[Danger]) -> Mapping[str, Danger]:
    readers = dict.fromkeys(each.reader for each in dangers)
    found = {r: worst([each for each in dangers if each.reader == r]) for r in readers}
    return {reader: danger for reader, danger in found.items() if danger is not None}
