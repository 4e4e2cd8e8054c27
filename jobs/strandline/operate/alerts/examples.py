"""What alert rules say of their examples, and of an event that is named."""

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession

from strandline.alerting import declared
from strandline.alerting.declared import sources
from strandline.alerting.rules.alert_rule import AlertRule
from strandline.alerting.rules.examples import broken
from strandline.alerting.rules.explain import Explanation, explain
from strandline.alerting.rules.sigma.folder import Folder, read_folder
from strandline.alerting.rules.threshold_examples import broken_thresholds
from strandline.alerting.rules.threshold_rule import ThresholdRule
from strandline.alerting.source import AlertSource
from strandline.core.errors import DefinitionError
from strandline.core.received import PLACE, RECEIVED
from strandline.core.verdict import judged, own_columns
from strandline.core.writer_schema import schemas_from
from strandline.engine.storage.find_rows import Where, look
from strandline.engine.storage.lake import Lake
from strandline.operate.words import placed
from strandline.project import package


@dataclass(frozen=True, slots=True)
class Contradiction:
    """A rule that does the opposite of what an example says, and how."""

    origin: str
    rule: str
    reason: str


def contradictions(found: Folder, spark: SparkSession) -> list[Contradiction]:
    """Run the examples of rules, of each kind through the plan that raises alerts.

    Raises:
        DefinitionError: A source that they look at declares a column that its table does not have.
    """
    named = (source for rule in found.every for source in rule.sources)
    refuse_other_columns(dict.fromkeys(each for each in named if not each.made), spark)
    return [
        *(
            Contradiction(each.rule.origin, each.rule.id, each.reason)
            for each in broken(found.rules, spark)
        ),
        *(
            Contradiction(rule.origin, rule.id, why)
            for rule, why in broken_thresholds(found.thresholds)
        ),
    ]


def wrong_rules(spark: SparkSession) -> list[str]:
    """Return what is wrong with the alert rules of a project: one that cannot be read, one that contradicts an example.

    Args:
        spark: A session, such as that of `trial_spark`.

    Raises:
        DefinitionError: A source declares a column that its table does not have.
    """
    refuse_other_columns(declared.sources(), spark)
    found = read_folder(declared.rules_folder())
    return [
        *(f"{each.origin}: {each.reason}" for each in found.refused),
        *(f"{each.origin}: {each.reason}" for each in contradictions(found, spark)),
    ]


def refuse_other_columns(asked: Iterable[AlertSource], spark: SparkSession) -> None:
    """Refuse sources whose columns are other than those of their tables.

    Raises:
        DefinitionError: A column is not there, or is of another type.
    """
    for source in asked:
        with schemas_from(lambda _: None):
            rows = judged(spark.createDataFrame([], RECEIVED), source.table)
        there = {each.name: each.dataType for each in rows.schema}
        for each in source.fields:
            if each.dataType != there.get(each.name):
                kind = each.dataType.simpleString()
                has = (
                    f"{each.name} of type {there[each.name].simpleString()}"
                    if each.name in there
                    else "no such column"
                )
                raise DefinitionError(
                    f"{package()}.{declared.PART} declares {each.name} of type {kind} of {source.table.id}, which has {has}",
                    hint=f"its columns are {', '.join(own_columns(rows))}.",
                    table=source.table.id,
                )


def lacks(rule: AlertRule | ThresholdRule) -> str:
    """Return in words what a rule that runs should have besides."""
    missing = {
        "an event on which it must fire": not rule.fires_on,
        "one on which it must stay quiet": not rule.quiet_on,
        "a runbook": not rule.runbook,
        "an owner": not rule.owner,
    }
    return ", ".join(what for what, is_missing in missing.items() if is_missing)


def explained(
    source: AlertSource, row: dict[str, object], found: Folder, near: int
) -> tuple[list[Explanation], list[Explanation], int]:
    """Return which rules fire on an event, those that nearly do, the nearest first, and how many look at its table."""
    said = [explain(rule, row) for rule in found.rules if rule.source == source]
    fired = [each for each in said if each.fires]
    missed = sorted(
        (each for each in said if each.is_near), key=lambda e: (-e.held / e.asked, len(e.failing))
    )[:near]
    return fired, missed, len(said)


def event_of(
    asked: tuple[Path | None, str | None], table: str | None, where: Callable[[], Lake]
) -> tuple[AlertSource, dict[str, object]]:
    """Return the event that was named, and the source that it is a row of.

    Args:
        asked: The file with it, or its place in Kafka.
        table: The table of the file's event.
        where: Returns the lake, of which only an event of the lake is asked.

    Raises:
        DefinitionError: It is no event, or no rule looks at its table.
    """
    file, place_in_kafka = asked
    if (file is None) == (place_in_kafka is None):
        raise DefinitionError(
            "name one event", hint="a file, or --event topic/partition/offset for one of the lake."
        )
    if file is None:
        return _of_lake(str(place_in_kafka), where)
    try:
        event = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DefinitionError(
            f"{file} is no event: {error}", hint="write it as one JSON object."
        ) from error
    if not isinstance(event, dict):
        raise DefinitionError(f"{file} is no event", hint="write it as one JSON object.")
    source = declared.find(table) if table else _source_of(event)
    if source is None:
        known = ", ".join(each.table.id for each in sources())
        raise DefinitionError(f"rules do not look at {table}", hint=f"they look at {known}.")
    return source, source.row(event)


def _source_of(event: dict[str, object]) -> AlertSource:
    """Return the source that has the most of an event's fields."""
    return max(
        sources(),
        key=lambda each: sum(name in each.names or name in each.fields.names for name in event),
    )


def _of_lake(text: str, lake: Callable[[], Lake]) -> tuple[AlertSource, dict[str, object]]:
    """Return an event that silver has."""
    spot = placed(text) or ("", 0, 0)
    where = lake()
    for source in sources():
        topics = [topic.name for bronze in source.table.upstream for topic in bronze.topics]
        if spot[0] not in topics:
            continue
        found = look(where.table(source.table), Where(equal=dict(zip(PLACE, spot, strict=True))))
        if found:
            return source, source.row({n: found[0].row[n] for n in source.fields.names})
        raise DefinitionError(
            f"{source.table.id} has no row of {text}", hint=f"`strandline why {text}` explains it."
        )
    raise DefinitionError(
        f"rules look at no table of the topic {spot[0]}",
        hint=f"they look at {', '.join(each.table.id for each in sources())}.",
    )
