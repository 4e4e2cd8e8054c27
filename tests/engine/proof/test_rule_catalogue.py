"""The catalogue shows the rules of a table to people; a new field of rules is one more line."""

from dataclasses import replace

from fleet.gold import device_signal_10m
from fleet.silver import device_telemetry
from strandline.engine.proof.daily_report import rulebook
from strandline_quality.rules import between, required


def test_each_rule_has_what_must_hold_and_what_becomes_of_a_row() -> None:
    """Rules come in the order of their declaration, then the law of time."""
    table = replace(
        device_telemetry.TABLE, rules=(*required("site"), between("value", 0, 9, null_ok=True))
    )

    site, value, late, early, disordered = rulebook(table)

    assert (site["rule"], site["holds"]) == ("missing:site", "`site` IS NOT NULL")
    assert site["when unknown"] == "is broken"
    assert value["when unknown"] == "passes"
    assert late["holds"] == "event_at is at most 1 h before the arrival"
    assert early["holds"] == "event_at is at most 5 min after the arrival"
    assert (
        disordered["holds"]
        == "the arrival is less than 10 min before the newest of earlier commits"
    )
    assert {each["on failure"] for each in rulebook(table)} == {"quarantine"}


def test_a_table_that_judges_nothing_has_no_rules_of_time() -> None:
    """Gold takes every row that it reads."""
    assert rulebook(device_signal_10m.TABLE) == ()
