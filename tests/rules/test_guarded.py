"""Guards pass over rules that cannot fire, and over no others; a rule that several guards let through fires once."""

from collections import Counter
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from fleet.alerts import SOURCES
from strandline.alerting.alert_rule import AlertRule
from strandline.alerting.compile import holds
from strandline.alerting.condition import AnyOf, Glob, Missing, Not, Text
from strandline.alerting.one_plan import FEW, GROUP, Numbered, _by_key, alerts
from tests.benchmarks.generated_rules import Maker
from tests.support.engine import as_in_production

(SOURCE,) = (each for each in SOURCES if "process_creation" in each.categories)


@pytest.fixture(scope="module")
def maker() -> Maker:
    """Choose the words of the generated rules and events."""
    return Maker(3)


@pytest.fixture(scope="module")
def rules(maker: Maker) -> list[AlertRule]:
    """Generate rules of every kind."""
    return maker.rules(150)


@pytest.fixture(scope="module")
def production(spark: SparkSession) -> Iterator[SparkSession]:
    """Return the session with the code that Spark generates, which must not be given up on any expression."""
    with as_in_production(spark):
        spark.conf.set("spark.sql.codegen.factoryMode", "CODEGEN_ONLY")
        spark.conf.set("spark.sql.codegen.fallback", "false")
        yield spark
        spark.conf.unset("spark.sql.codegen.fallback")


def named(number: int, *programs: str) -> AlertRule:
    when = AnyOf(tuple(Text("Image", Glob.parse(f"*\\{name}")) for name in programs))
    return AlertRule(id=f"r{number}", title="x", source=SOURCE, when=when)


def keyed() -> list[AlertRule]:
    """Return rules with one program, with two, with many, and more rules with one program than a group has."""
    one = [named(n, f"p{n}.exe") for n in range(2 * GROUP)]
    two = [named(100 + n, f"p{n}.exe", f"p{n + GROUP}.exe") for n in range(GROUP)]
    many = [named(200 + n, *(f"p{n + m}.exe" for m in range(FEW + 2))) for n in range(GROUP + 1)]
    crowd = [named(300 + n, "cmd.exe", f"p{n}.exe") for n in range(2 * GROUP + 1)]
    return [*one, *two, *many, *crowd]


def test_each_rule_is_behind_each_of_its_keys_once() -> None:
    """Else it would not fire, or twice."""
    rules = Numbered.of(keyed(), SOURCE)
    groups = list(_by_key(rules))

    for each in rules:
        assert each.key is not None
        for value in each.key.values:
            behind = [group for group in groups if value in group.keys and each in group.rules]
            assert len(behind) == 1, (each.rule.id, value)
    assert max(len(group.rules) for group in groups) <= GROUP
    assert len(groups) > 5


@pytest.mark.whole
def test_many_rules_fire_on_what_each_fires_on_alone(
    production: SparkSession, maker: Maker, rules: list[AlertRule]
) -> None:
    """Generated rules of every kind, rules with shared keys, and rules that are asked of every event."""
    always = AlertRule(id="always", title="x", source=SOURCE, when=Not(Missing("Image")))
    rules = [*rules, *keyed(), always]
    events = [dict(zip(SOURCE.fields.names, row, strict=True)) for row in maker.events(120)]
    programs = ["cmd.exe", *(f"p{n}.exe" for n in range(2 * GROUP))]
    for number, name in enumerate(programs):
        events[number] |= {"Image": f"C:\\{name}"}

    frame = production.createDataFrame([tuple(row.values()) for row in events], SOURCE.fields)
    found = [(row["ProcessGuid"], row["rule_id"]) for row in alerts(frame, rules).collect()]

    expected = [
        (row["ProcessGuid"], rule.id) for row in events for rule in rules if holds(rule.when, row)
    ]
    assert Counter(found) == Counter(expected)
    assert len(expected) > 300


@pytest.mark.whole
def test_no_method_is_too_large_for_the_jvm_to_compile(
    production: SparkSession, rules: list[AlertRule]
) -> None:
    """Whole stages are few and small; the answers of the rules are computed apart, in small methods."""
    frame = production.createDataFrame([], SOURCE.fields)

    stages = alerts(frame, [*rules, *keyed()])._jdf.queryExecution().debug().codegenToSeq()

    sizes = [stages.apply(n)._3().maxMethodCodeSize() for n in range(stages.size())]
    assert max(sizes, default=0) < 8_000
