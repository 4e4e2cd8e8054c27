"""One plan for all rules raises what each rule alone would, and stays what Spark compiles."""

from collections.abc import Iterator, Sequence

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import IntegerType, StructField, StructType

from strandline.alerting.alert_rule import AlertRule, rules_folder
from strandline.alerting.compile import holds
from strandline.alerting.condition import Glob, Text
from strandline.alerting.one_plan import RULE, alerts
from strandline.alerting.sigma import read_folder
from strandline.core.errors import DefinitionError
from tests.rules.cases import CASES
from tests.support.engine import as_in_production

RULES = [*(case.rule() for case in CASES), *read_folder(rules_folder()).rules]
SOURCE = RULES[0].source
OURS = [rule for rule in RULES if rule.source == SOURCE]
EVENTS = [event for rule in OURS for event in (*rule.fires_on, *rule.quiet_on)]


@pytest.fixture(scope="module")
def production(spark: SparkSession) -> Iterator[SparkSession]:
    """Return the session with the code that Spark generates, which must not be given up on any expression."""
    with as_in_production(spark):
        spark.conf.set("spark.sql.codegen.factoryMode", "CODEGEN_ONLY")
        yield spark


def frame(spark: SparkSession, events: Sequence[dict[str, object]]) -> DataFrame:
    """Return events as rows of the table, numbered."""
    schema = StructType([*SOURCE.fields, StructField("number", IntegerType())])
    return spark.createDataFrame([(*e.values(), n) for n, e in enumerate(events)], schema)


def fired(rows: DataFrame) -> set[tuple[int, str]]:
    """Return which rule fires on which event; each once."""
    found = [(row["number"], row["rule_id"]) for row in rows.select("number", "rule_id").collect()]
    assert len(set(found)) == len(found)
    return set(found)


@pytest.mark.whole
def test_all_rules_at_once_fire_on_what_each_fires_on_alone(production: SparkSession) -> None:
    """Every event of every case meets every rule; what the explanation says is what is raised."""
    expected = {
        (number, rule.id)
        for number, event in enumerate(EVENTS)
        for rule in OURS
        if holds(rule.when, event)
    }

    assert fired(alerts(frame(production, EVENTS), OURS)) == expected


def test_an_alert_has_its_event_and_its_rule(production: SparkSession) -> None:
    (rule,) = (each for each in OURS if each.origin == "process_certutil_decodes_a_file.yml")

    (row,) = alerts(frame(production, rule.fires_on[:1]), [rule]).collect()

    assert tuple(row[name] for name in RULE) == (rule.id, rule.version, rule.severity)
    assert row["CommandLine"] == rule.fires_on[0]["CommandLine"]
    assert row["number"] == 0
    assert set(row.asDict()) == {*SOURCE.fields.names, "number", *RULE}


def test_the_plan_has_neither_python_nor_shuffle(production: SparkSession) -> None:
    """Real-time mode allows neither."""
    plan = alerts(frame(production, EVENTS[:1]), OURS)._jdf.queryExecution().executedPlan()

    shown = plan.toString()
    for forbidden in ("Python", "Pandas", "Exchange", "Sort", "Aggregate"):
        assert forbidden not in shown


@pytest.mark.whole
def test_text_of_a_rule_is_never_read_as_sql(production: SparkSession) -> None:
    """Quotes, backslashes and ${…}, which Spark would replace by a setting or by the environment."""
    texts = [
        "'",
        "\\",
        "\\'",
        "${env:HOME}",
        "${spark.master}",
        "\x00",
        "\n",
        "`",
        "--",
        "%_",
        "'); DROP",
    ]
    rules = [
        AlertRule(id=f"r{n}", title=text, source=SOURCE, when=_contains(text))
        for n, text in enumerate(texts)
    ]
    events = [SOURCE.row({"CommandLine": f"a{text}b"}) for text in texts]
    expected = {(n, r.id) for n, e in enumerate(events) for r in rules if holds(r.when, e)}

    found = fired(alerts(frame(production, events), rules))

    assert found == expected
    assert {(n, f"r{n}") for n in range(len(texts))} <= found


def _contains(text: str) -> Text:
    return Text("CommandLine", Glob.around((text,)))


def test_rules_about_several_tables_need_several_plans(spark: SparkSession) -> None:
    for rules in ([], RULES):
        with pytest.raises(DefinitionError, match="one plan"):
            alerts(frame(spark, EVENTS[:1]), rules)
