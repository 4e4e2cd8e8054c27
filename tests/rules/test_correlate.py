"""Threshold rules over tables in Spark raise what their definition says, key by key."""

import json
import random
from collections import defaultdict
from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import IntegerType, LongType, StringType, StructType

from strandline.alerting.alert_rule import (
    AlertRule,
    AlertSource,
    Comparison,
    Counted,
    Part,
    ThresholdRule,
    find,
)
from strandline.alerting.compile import holds
from strandline.alerting.condition import Glob, Text
from strandline.alerting.tables.silver import FIELDS as ALERT
from strandline.alerting.windows import Hit, correlated, fired
from strandline.core.errors import DefinitionError
from tests.support.rows import NOON

PLACED = (
    StructType()
    .add("_topic", StringType())
    .add("_partition", IntegerType())
    .add("_offset", LongType())
)
SECOND = timedelta(seconds=1)
END = NOON + timedelta(hours=2)


def source(name: str) -> AlertSource:
    found = find(name)
    assert found is not None
    return found


ACTIONS, PROCESSES = source("user_actions"), source("process_events")


def acts(action: str) -> AlertRule:
    return AlertRule(
        id=f"acts {action}", title="x", source=ACTIONS, when=Text("action", Glob.parse(action))
    )


STARTED = AlertRule(
    id="started", title="x", source=PROCESSES, when=Text("Image", Glob.parse("*cmd.exe"))
)
BY_USER = Part(rule=acts("failed"), keys=("user_id",), value="device_id")
BY_DEVICE = Part(rule=acts("failed"), keys=("device_id",))


def rule(
    name: str, counted: Counted, *parts: Part, number: int, keys: tuple[str, ...]
) -> ThresholdRule:
    comparison = Comparison.BELOW if name == "few" else Comparison.AT_LEAST
    return ThresholdRule(
        id=name,
        title=name,
        counted=counted,
        parts=parts,
        keys=keys,
        within=60 * SECOND,
        comparison=comparison,
        number=number,
    )


RULES = (
    rule("many", Counted.EVENTS, BY_USER, number=3, keys=("user",)),
    rule("few", Counted.EVENTS, BY_USER, number=2, keys=("user",)),
    rule("spread", Counted.VALUES, BY_USER, number=3, keys=("user",)),
    rule("all together", Counted.EVENTS, Part(rule=acts("denied"), keys=()), number=5, keys=()),
    rule(
        "then in",
        Counted.STEPS,
        BY_DEVICE,
        Part(rule=acts("login"), keys=("device_id",)),
        Part(rule=STARTED, keys=("Computer",)),
        number=3,
        keys=("device",),
    ),
)


def events() -> dict[AlertSource, list[dict[str, object]]]:
    """Return an hour of actions and of starts; some actions have no user."""
    chance = random.Random(11)  # noqa: S311  # no secret
    actions = [
        ACTIONS.row(
            {
                "action_id": f"a{n}",
                "action": chance.choice(("failed", "failed", "denied", "login", "logout")),
                "user_id": chance.choice(("ann", "bob", "cy", "dee", None)),
                "device_id": f"d{chance.randrange(6)}",
                "event_at": NOON + chance.randrange(3_600) * SECOND,
            }
        )
        for n in range(400)
    ]
    programs = [
        PROCESSES.row(
            {
                "ProcessGuid": f"p{n}",
                "Image": chance.choice((r"C:\cmd.exe", "other.exe")),
                "Computer": f"d{chance.randrange(6)}",
                "UtcTime": NOON + chance.randrange(3_600) * SECOND,
            }
        )
        for n in range(200)
    ]
    return {ACTIONS: actions, PROCESSES: programs}


EVENTS = events()


def tables(spark: SparkSession) -> dict[AlertSource, DataFrame]:
    return {
        its: spark.createDataFrame(
            [(*row.values(), its.table.name, 0, n) for n, row in enumerate(rows)],
            StructType([*its.fields, *PLACED]),
        )
        for its, rows in EVENTS.items()
    }


def micros(moment: object) -> int:
    assert isinstance(moment, datetime)
    return int(moment.timestamp() * 1_000_000)


def expected(its: ThresholdRule) -> set[tuple[str, tuple[object, ...], int, int]]:
    """Return (rule, key, moment, count) of the alerts, by the evaluator and the definition in Python."""
    by_key: dict[tuple[object, ...], list[Hit]] = defaultdict(list)
    for step, part in enumerate(its.parts):
        table = part.rule.source.table
        for row in EVENTS[part.rule.source]:
            key = tuple(row[column] for column in part.keys)
            if None not in key and holds(part.rule.when, row):
                name = f"{row[table.key[0]]}/{micros(row[table.event_at])}"
                value = str(row[part.value]) if part.value else ""
                by_key[key].append(Hit(micros(row[table.event_at]), name, -step, value))
    return {
        (its.id, key, each.at, each.count)
        for key, hits in by_key.items()
        for each in fired(its, sorted(hits), micros(END))
    }


def test_every_rule_raises_what_its_definition_says(spark: SparkSession) -> None:
    """Five rules over two tables, in one pass."""
    found = correlated(tables(spark), RULES, micros(END)).collect()

    versions = {its.id: its.version for its in RULES}
    counted = {its.id: sum(row["rule_id"] == its.id for row in found) for its in RULES}
    wanted = {its.id: expected(its) for its in RULES}
    assert counted == {name: len(alerts) for name, alerts in wanted.items()}
    assert min(counted.values()) > 1
    for row in found:
        assert row["rule_version"] == versions[row["rule_id"]]
        about = json.loads(row["event"])
        at = micros(row["event_at"])
        assert (at, about["count"]) in {(a, n) for _, _, a, n in wanted[row["rule_id"]]}
    assert len({row["alert_id"] for row in found}) == len(found)


@pytest.mark.whole
def test_an_alert_has_the_shape_of_every_alert_and_shows_no_sensitive_key(
    spark: SparkSession,
) -> None:
    found = correlated(tables(spark), RULES, micros(END))

    assert found.schema.names == ALERT.names
    rows = found.collect()
    shown = {row["event_key"] for row in rows if row["rule_id"] == "many"}
    assert shown <= {'{"user":"[text, 3 to 4 long]"}', '{"user":"[text, 2 long]"}'}
    assert shown
    assert {row["event_table"] for row in rows if row["rule_id"] == "then in"} == {
        "silver.user_actions, silver.process_events"
    }
    for row in rows:
        assert "ann" not in "".join(str(value) for value in row)
        its = next(source for source in EVENTS if source.table.name == row["event_topic"])
        event = EVENTS[its][row["event_offset"]]
        about = json.loads(row["event"])
        if row["rule_id"] != "few":  # which is known when its window is over
            assert event[its.table.event_at] == datetime.fromisoformat(about["until"])


@pytest.mark.whole
def test_the_ids_do_not_depend_on_how_rows_are_dealt_to_partitions(spark: SparkSession) -> None:
    ids = []
    for partitions in (1, 7):
        dealt = {its: rows.repartition(partitions) for its, rows in tables(spark).items()}
        ids.append({row["alert_id"] for row in correlated(dealt, RULES, micros(END)).collect()})

    assert ids[0] == ids[1]
    assert len(ids[0]) > 10


def test_without_a_table_there_is_nothing_to_count(spark: SparkSession) -> None:
    del spark
    with pytest.raises(DefinitionError, match="no table"):
        correlated({}, RULES, micros(END))


@pytest.mark.whole
def test_a_rule_whose_base_rule_was_edited_finds_by_its_new_condition(spark: SparkSession) -> None:
    """Both are in one plan where a feed goes on at its checkpoint, and in a backtest against the former version."""
    edited = replace(acts("denied"), id=BY_USER.rule.id)
    before = replace(RULES[0], number=2)
    after = replace(before, parts=(replace(BY_USER, rule=edited),))

    rows = {ACTIONS: tables(spark)[ACTIONS]}
    both = correlated(rows, [before, after], micros(END)).collect()

    for its in (before, after):
        found = {row["alert_id"] for row in both if row["rule_version"] == its.version}
        alone = correlated(rows, [its], micros(END)).collect()
        assert found == {row["alert_id"] for row in alone} != set()
