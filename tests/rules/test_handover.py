"""Events before an offset meet the former rules, the others the new ones, and each event each rule once."""

from collections.abc import Mapping

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from strandline.alerting.alert_rule import AlertRule, AlertSource, find
from strandline.alerting.condition import Glob, Missing, Not, Text
from strandline.alerting.live import Raising, Stage
from tests.support.feeds import PLACED
from tests.support.rows import NOON


def processes() -> AlertSource:
    found = find("process_events")
    assert found is not None
    return found


def rule(name: str, words: str) -> AlertRule:
    """Return a rule that fires on every event; other words make another version."""
    when = Not(Text("Image", Glob.parse(words)))
    return AlertRule(id=name, title="x", source=processes(), when=when)


A1, A2, A3 = rule("a", "x1"), rule("a", "x2"), rule("a", "x3")
B = AlertRule(id="b", title="x", source=processes(), when=Not(Missing("Image")))
START = Raising((Stage(rules=(A1, B), since={}),))


def at(first: int, second: int) -> Mapping[tuple[str, int], int]:
    return {("t", 0): first, ("t", 1): second}


def raised(spark: SparkSession, raising: Raising) -> dict[tuple[str, int], str]:
    """Return which versions fire on which of four events of each of two partitions, as text."""
    rows = [
        (
            *processes().row({"ProcessGuid": f"{p}/{n}", "UtcTime": NOON, "Image": "i"}).values(),
            "t",
            p,
            n,
        )
        for p in range(2)
        for n in range(4)
    ]
    frame = spark.createDataFrame(rows, StructType([*processes().fields, *PLACED]))
    found: dict[tuple[str, int], list[str]] = {}
    names = {each.version: str(n) for n, each in enumerate((A1, A2, A3), 1)}
    for row in raising(frame).collect():
        place = (row["rule_id"], row["event_partition"])
        found.setdefault(place, []).append(
            f"{row['event_offset']}:{names.get(row['rule_version'], '')}"
        )
    return {place: " ".join(sorted(each)) for place, each in found.items()}


@pytest.mark.whole
@pytest.mark.parametrize(
    ("raising", "of_a"),
    [
        (START, ("0:1 1:1 2:1 3:1", "0:1 1:1 2:1 3:1")),
        (START.then([A2, B], since=at(2, 1), done=at(0, 0)), ("0:1 1:1 2:2 3:2", "0:1 1:2 2:2 3:2")),
        (
            START.then([A2, B], since=at(1, 0), done=at(0, 0)).then([A3, B], since=at(3, 4), done=at(0, 0)),
            ("0:1 1:2 2:2 3:3", "0:2 1:2 2:2 3:2"),
        ),
        (START.then([B], since=at(1, 3), done=at(0, 0)), ("0:1", "0:1 1:1 2:1")),
        (
            START.then([B], since=at(1, 1), done=at(0, 0)).then([A1, B], since=at(3, 3), done=at(0, 0)),
            ("0:1 3:1", "0:1 3:1"),
        ),
    ],
    ids=["one", "changed", "changed twice", "removed", "removed and added again"],
)  # fmt: skip
def test_a_rule_judges_the_events_of_its_own_stages_only(
    spark: SparkSession, raising: Raising, of_a: tuple[str, str]
) -> None:
    """And one that did not change judges all of them once."""
    found = raised(spark, raising)

    assert (found["a", 0], found["a", 1]) == of_a
    assert found["b", 0] == found["b", 1] == "0: 1: 2: 3:"


def test_stages_before_the_checkpoint_are_dropped() -> None:
    """A feed whose rules change every day must not carry all of them for ever."""
    second = START.then([A2, B], since=at(5, 5), done=at(0, 0))

    assert len(second.then([A3, B], since=at(9, 9), done=at(5, 4)).stages) == 3
    assert [
        stage.rules for stage in second.then([A3, B], since=at(9, 9), done=at(5, 5)).stages
    ] == [
        (A2, B),
        (A3, B),
    ]


def test_a_feed_without_rules_for_a_while_raises_nothing_meanwhile(spark: SparkSession) -> None:
    """All rules about a table were muted, and one is not any more."""
    muted = START.then([], since=at(1, 1), done=at(0, 0))

    found = raised(spark, muted.then([A2], since=at(3, 3), done=at(0, 0)))

    assert found == {
        ("a", 0): "0:1 3:2",
        ("a", 1): "0:1 3:2",
        ("b", 0): "0:",
        ("b", 1): "0:",
    }
