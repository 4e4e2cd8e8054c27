"""The topics in Dagster: as assets that are observed, and how long Kafka keeps what is not read yet.

The topics as external assets: observed, never materialised.

A sensor reports once a minute the end offsets of each topic and the lag of bronze. That needs no run, and Dagster's own
decorator for observed assets is still in beta.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

from dagster import (
    AssetCheckResult,
    AssetChecksDefinition,
    AssetCheckSeverity,
    AssetKey,
    AssetObservation,
    AssetSpec,
    Config,
    DefaultSensorStatus,
    Failure,
    MetadataValue,
    OpExecutionContext,
    RunRequest,
    SensorEvaluationContext,
    SensorResult,
    SkipReason,
    asset_check,
    job,
    op,
    sensor,
)
from pydantic import Field
from strandline import catalog

from strandline.core.errors import LakeError
from strandline.core.table import Ingested, Table
from strandline.core.topic import Topic
from strandline.engine.flow.readers import URGENT, WARNED, Danger, Level, span, worst
from strandline.engine.kafka.slices import Ends, Part
from strandline.engine.runtime import clock
from strandline_dagster.resources import (
    ALARM,
    TOPICS,
    Alarm,
    LakeResource,
    evaluation,
    key,
    page,
    send_or_keep,
    topic_key,
    unless_away,
)

EVERY = 60


def topics(sources: Mapping[str, Sequence[AssetKey]]) -> list[AssetSpec]:
    """Make the assets of all topics.

    Args:
        sources: The assets from which records come to a topic, by its name; where nothing is known of them, none.
    """
    return [
        _spec(topic, table, sources.get(topic.name, ()))
        for table in catalog.tables()
        for topic in table.topics
    ]


@sensor(minimum_interval_seconds=EVERY, default_status=DefaultSensorStatus.RUNNING)
@unless_away
def look_at_topics(lake: LakeResource) -> SensorResult:
    """Observe all topics: records, offsets, lag."""
    found = [_observed(topic, ends) for table, ends in lake.ends() for topic in table.topics]
    return SensorResult(asset_events=found)


def _spec(topic: Topic, table: Table, sources: Sequence[AssetKey]) -> AssetSpec:
    return AssetSpec(
        topic_key(topic),
        deps=sources,
        group_name=TOPICS,
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

NAME = "retention"
ABOUT = (
    f"Kafka keeps what it has not read for more than {span(WARNED)}, or half of what its topics keep; "
    f"below {span(URGENT)} or a quarter it fails."
)
WELL = "nothing is unread"
JOB = "retention"


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


@job(name=JOB, description="For the radar: each run is an alarm about records that may be lost.")
def retention() -> None:
    """Alert."""
    warn_of_loss()


@sensor(
    job=retention, minimum_interval_seconds=LOOK_EVERY, default_status=DefaultSensorStatus.RUNNING
)
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
    answers = [_answer(table, dangers) for table in _bronze(lake)]
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
    return [_check(table) for table in catalog.tables() if isinstance(table, Ingested)]


def _check(table: Table) -> AssetChecksDefinition:
    @asset_check(asset=key(table), name=NAME, description=ABOUT)
    def kept(lake: LakeResource) -> AssetCheckResult:
        lake.lake().refuse_missing(table)
        found = _answer(table, lake.radar())
        return AssetCheckResult(
            passed=found.passed,
            severity=found.severity,
            description=found.description,
            metadata=found.metadata,
        )

    return kept


def _bronze(lake: LakeResource) -> list[Table]:
    where = lake.lake()
    return [t for t in catalog.tables() if isinstance(t, Ingested) and where.exists(t)]


def _answer(table: Table, dangers: Sequence[Danger]) -> AssetCheckResult:
    own = [each for each in dangers if each.reader == table.id]
    nearest = worst(own)
    level = nearest.level if nearest else Level.SAFE
    left = min((each.seconds for each in own if each.seconds is not None), default=None)
    return AssetCheckResult(
        asset_key=key(table),
        check_name=NAME,
        passed=level.rank < Level.SOON.rank,
        severity=AssetCheckSeverity.ERROR if level.is_alarming else AssetCheckSeverity.WARN,
        description=f"{nearest.source}: {nearest.says}" if nearest and nearest.unread else WELL,
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
                tags={"incident": f"{NAME} {danger.level.value}"},
            )


def _say_over(lake: LakeResource, dangers: Sequence[Danger], alarmed: dict[str, int]) -> None:
    """Send for each alarm whose danger is over that it is, and forget it."""
    now_alarming = {
        reader for reader, each in _worst_of_each(dangers).items() if each.level.is_alarming
    }
    for reader in [each for each in alarmed if each not in now_alarming]:
        del alarmed[reader]
        facts = {
            "job": JOB,
            "kind": "over",
            "says": f"{reader}: Kafka has what it has not read, for long enough",
        }
        send_or_keep(facts, lake.lake(), f"{JOB}-over-{reader}")


def _worst_of_each(dangers: Sequence[Danger]) -> Mapping[str, Danger]:
    readers = dict.fromkeys(each.reader for each in dangers)
    found = {r: worst([each for each in dangers if each.reader == r]) for r in readers}
    return {reader: danger for reader, danger in found.items() if danger is not None}
