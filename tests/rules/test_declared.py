"""What a project declares for its rules: each mistake is refused, with a hint, before anything starts."""

import re
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from types import ModuleType
from typing import Any

import pytest
from pyspark.sql.types import (
    DecimalType,
    DoubleType,
    IntegerType,
    StringType,
    StructType,
    TimestampType,
)
from strandline import catalog

from fleet.gold import device_daily
from fleet.silver import dhcp_events, process_events, user_actions
from strandline.alerting import alert_rule, tables
from strandline.alerting.alert_rule import AlertSource
from strandline.core.errors import DefinitionError
from strandline.core.static import Static
from strandline.core.table import Table

PLAIN: dict[str, Any] = {
    "table": dhcp_events.TABLE,
    "fields": dhcp_events.FIELDS,
    "entity": "device_id",
    "categories": ("dhcp",),
}
DHCP = AlertSource(**PLAIN)
WITHOUT_KEY = StructType([each for each in dhcp_events.FIELDS if each.name != "dhcp_id"])


def test_the_example_declares_the_four_tables_that_its_rules_look_at() -> None:
    """In the order in which a rule's category is looked up."""
    assert [each.table.id for each in alert_rule.sources()] == [
        "silver.process_events",
        "silver.network_connections",
        "silver.dhcp_events",
        "silver.user_actions",
    ]
    assert alert_rule.find("dhcp_events") is alert_rule.find("silver.dhcp_events")
    assert alert_rule.find("gold.device_daily") is None
    assert sorted(alert_rule.rules_folder().glob("*.yml"))


MISTAKES: tuple[tuple[dict[str, Any], str, str], ...] = (
    ({"table": device_daily.TABLE}, "gold.device_daily, which is no judged table", "Judged"),
    ({"fields": ["device_id"]}, "fields of the source silver.dhcp_events are", "StructType"),
    ({"fields": WITHOUT_KEY}, "lacks dhcp_id, which is of the table's key", "has its id by it"),
    ({"entity": "device"}, "the entity 'device' is no column", "device_id"),
    (
        {"table": user_actions.TABLE, "fields": user_actions.FIELDS, "entity": "user_id"},
        "'user_id' of the source silver.user_actions is masked",
        "not sensitive",
    ),
    (
        {
            "table": replace(
                dhcp_events.TABLE,
                static=(Static(name="sites", columns="a int, b int", key=("a",), rows=()),),
            )
        },
        "joins static.sites, whose versions are in a lake, and rules have none",
        "let a gold table join it",
    ),
    ({"names": {"Ip": "address"}}, "Ip is to be the column address", "its columns are"),
    ({"categories": "dhcp"}, "'dhcp', which is no tuple", "the comma makes the tuple"),
    (
        {"fields": StructType([*dhcp_events.FIELDS]).add("share", DoubleType())},
        "has share of type double, which no rule can ask about",
        "leave it out",
    ),
)


@pytest.mark.parametrize(
    ("change", "message", "hint"), MISTAKES, ids=[each[1] for each in MISTAKES]
)
def test_a_mistake_in_a_source_has_a_sentence_and_a_hint(
    change: dict[str, Any], message: str, hint: str
) -> None:
    """Where it is declared, so that the catalog adds file and line."""
    with pytest.raises(DefinitionError, match=re.escape(message)) as refused:
        AlertSource(**{**PLAIN, **change})

    assert hint in str(refused.value.hint)


def module(**words: object) -> ModuleType:
    found = ModuleType("shop.alerts")
    found.__file__ = "shop/alerts.py"
    vars(found).update(words)
    return found


def known(*names: str) -> dict[str, Table]:
    return {name: catalog.find(name) for name in names}


def other_table() -> AlertSource:
    return AlertSource(**{**PLAIN, "table": replace(dhcp_events.TABLE, name="leases")})


DECLARATIONS: tuple[tuple[Callable[[], ModuleType], str, str], ...] = (
    (module, "shop.alerts does not declare what alert rules look at", "AlertSource("),
    (lambda: module(SOURCES=(dhcp_events.TABLE,)), "does not declare what", "AlertSource("),
    (lambda: module(SOURCES=()), "declares no source", "has no such module"),
    (
        lambda: module(SOURCES=(other_table(),)),
        "a source reads silver.leases, which no module declares",
        "silver.dhcp_events",
    ),
    (
        lambda: module(SOURCES=(DHCP, AlertSource(**{**PLAIN, "categories": ()}))),
        "two sources have the name dhcp_events",
        "into one source",
    ),
    (
        lambda: module(
            SOURCES=(
                DHCP,
                AlertSource(
                    table=process_events.TABLE,
                    fields=process_events.FIELDS,
                    entity="Computer",
                    categories=("dhcp",),
                ),
            )
        ),
        "the category dhcp is that of silver.dhcp_events and of silver.process_events",
        "`service`",
    ),
)


@pytest.mark.parametrize(
    ("made", "message", "hint"), DECLARATIONS, ids=[each[1] for each in DECLARATIONS]
)
def test_a_mistake_among_sources_has_a_sentence_and_a_hint(
    made: Callable[[], ModuleType], message: str, hint: str
) -> None:
    """Asked with the tables of the project, once all of them are known."""
    with pytest.raises(DefinitionError, match=re.escape(message)) as refused:
        alert_rule.added(made(), known("silver.dhcp_events", "silver.process_events"))

    assert hint in str(refused.value.hint)


def test_without_a_mistake_the_project_gets_the_three_tables_of_alerts() -> None:
    """Each under the name that a lake has it under."""
    modules = alert_rule.added(module(SOURCES=[DHCP]), known("silver.dhcp_events"))

    assert [each.TABLE.id for each in modules] == ["bronze.alerts", "silver.alerts", "gold.alerts"]
    assert all(each.__name__.startswith(tables.__name__) for each in modules)


MONEY = AlertSource(
    table=replace(dhcp_events.TABLE, name="orders"),
    fields=StructType()
    .add("dhcp_id", StringType())
    .add("event_at", TimestampType())
    .add("device_id", StringType())
    .add("amount", DecimalType(6, 2))
    .add("pieces", IntegerType()),
    entity="device_id",
)


@pytest.mark.whole
@pytest.mark.parametrize(
    ("event", "value"),
    [
        ({"amount": 12}, Decimal("12.00")),
        ({"amount": 12.5}, Decimal("12.50")),
        ({"pieces": 3}, 3),
        ({"event_at": "2026-11-20T08:15:30Z"}, datetime(2026, 11, 20, 8, 15, 30, tzinfo=UTC)),
    ],
)
def test_a_value_of_an_example_is_what_the_table_would_have(
    event: dict[str, object], value: object
) -> None:
    """YAML knows no decimals, and a table has them with all of their places."""
    (name,) = event

    assert MONEY.row(event)[name] == value


@pytest.mark.parametrize(
    "event",
    [
        {"amount": 12345.5},
        {"amount": 0.001},
        {"amount": "12"},
        {"amount": True},
        {"amount": float("nan")},
        {"pieces": 1 << 31},
        {"pieces": 1.5},
    ],
    ids=str,
)
def test_a_value_that_no_row_can_have_is_refused(event: dict[str, object]) -> None:
    """Rather than rounded or cut."""
    (name,) = event

    with pytest.raises(DefinitionError, match=f"the value of {name} in an event of silver.orders"):
        MONEY.row(event)
