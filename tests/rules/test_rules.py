"""The alert rules of this project do what their examples say."""

from dataclasses import replace

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import LongType, StringType, StructType
from strandline import wrong_rules

from fleet.silver import dhcp_events
from strandline.alerting import alert_rule as declared
from strandline.alerting.alert_rule import AlertSource
from strandline.core.errors import DefinitionError
from strandline.operate.alerts.examples import refuse_other_columns


@pytest.mark.whole
def test_every_rule_runs_and_does_what_its_examples_say(spark: SparkSession) -> None:
    """What is wrong is named: a rule that cannot be read, or one that fires where it must not."""
    assert wrong_rules(spark) == []


@pytest.mark.parametrize(
    ("added", "kind", "message"),
    [
        (
            "lease",
            StringType(),
            "declares lease of type string of silver.dhcp_events, which has no such column",
        ),
        ("mac", LongType(), "which has mac of type string"),
    ],
)
def test_a_column_that_the_table_does_not_have_is_refused(
    spark: SparkSession, added: str, kind: StringType | LongType, message: str
) -> None:
    """Spark knows the columns of the function; what Spark would say of it at the first event names no declaration."""
    plain = declared.find("silver.dhcp_events")
    assert plain is not None
    others = [each for each in dhcp_events.FIELDS if each.name != added]
    source: AlertSource = replace(plain, fields=StructType(others).add(added, kind))

    with pytest.raises(DefinitionError, match=message) as refused:
        refuse_other_columns([source], spark)

    assert "mac" in str(refused.value.hint)
