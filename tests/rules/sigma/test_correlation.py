"""A correlation of Sigma becomes a threshold rule, or is listed with the reason why not."""

from datetime import timedelta
from pathlib import Path

import pytest

from strandline.alerting.alert_rule import Comparison, Counted
from strandline.alerting.sigma import Folder, read_folder

FAILED = """
title: failed
name: failed
id: 929a690e-bef0-4204-a928-000000000001
logsource: {category: authentication}
detection: {a: {Action: failed}, condition: a}
"""
REFUSED_BY_FIREWALL = """
title: blocked
name: blocked
id: 929a690e-bef0-4204-a928-000000000002
logsource: {category: firewall}
detection: {a: {DestinationPort: 22}, condition: a}
"""
HEAD = "title: many\nid: 929a690e-bef0-4204-a928-000000000009\n"
COUNT = "type: event_count, rules: [failed], group-by: [User], timespan: 5m, condition: {gte: 10}"


def read(tmp_path: Path, correlation: str, *others: str) -> Folder:
    for number, text in enumerate((FAILED, REFUSED_BY_FIREWALL, *others)):
        (tmp_path / f"{number}.yml").write_text(text)
    (tmp_path / "many.yml").write_text(f"{HEAD}correlation: {{{correlation}}}\n")
    return read_folder(tmp_path)


def test_a_count_of_events_by_key_within_a_time(tmp_path: Path) -> None:
    (rule,) = read(tmp_path, COUNT).thresholds

    assert (rule.counted, rule.comparison, rule.number) == (Counted.EVENTS, Comparison.AT_LEAST, 10)
    assert rule.within == timedelta(minutes=5)
    assert rule.keys == ("User",)
    (part,) = rule.parts
    assert (part.rule.title, part.keys, part.value) == ("failed", ("user_id",), None)
    assert rule.owner == part.rule.owner


def test_a_rule_that_is_only_counted_raises_no_alert_of_its_own(tmp_path: Path) -> None:
    """Unless the correlation says so."""
    alone = read(tmp_path, COUNT)
    both = read(tmp_path, COUNT + ", generate: true")

    assert [rule.title for rule in alone.rules] == ["blocked"]
    assert [rule.title for rule in both.rules] == ["failed", "blocked"]


def test_a_count_of_values_names_a_column_of_each_table(tmp_path: Path) -> None:
    (rule,) = read(
        tmp_path,
        "type: value_count, rules: [blocked], group-by: [SourceIp], timespan: 1h, "
        "condition: {gt: 3, field: DestinationIp}",
    ).thresholds

    assert (rule.counted, rule.comparison, rule.number) == (Counted.VALUES, Comparison.ABOVE, 3)
    assert rule.parts[0].value == "dst_ip"


def test_rules_about_several_tables_meet_by_an_alias(tmp_path: Path) -> None:
    (rule,) = read(
        tmp_path,
        "type: temporal_ordered, rules: [failed, blocked], group-by: [who], timespan: 1d, "
        "aliases: {who: {failed: device_id, blocked: SourceIp}}",
    ).thresholds

    assert (rule.counted, rule.number) == (Counted.STEPS, 2)
    assert [part.keys for part in rule.parts] == [("device_id",), ("src_ip",)]
    assert [source.table.name for source in rule.sources] == ["user_actions", "network_connections"]


def test_the_version_is_that_of_the_meaning(tmp_path: Path) -> None:
    """Of the rule's own, and of the rules that it counts."""
    (first,) = read(tmp_path, COUNT).thresholds
    (other,) = read(tmp_path, COUNT.replace("10", "11")).thresholds
    (part,) = read(tmp_path, COUNT, FAILED.replace("000001", "000003")).thresholds
    (tmp_path / "0.yml").write_text(FAILED.replace("Action: failed", "Action: denied"))
    (changed,) = read_folder(tmp_path).thresholds

    assert first.version == part.version
    assert len({first.version, other.version, changed.version}) == 3


@pytest.mark.parametrize(
    ("correlation", "reason"),
    [
        ("type: event_count", "without rule references"),
        (COUNT.replace("[failed]", "[nothing]"), "it names nothing, and no rule of the folder"),
        (COUNT.replace("[User]", "[Colour]"), "unknown field Colour: silver.user_actions has no"),
        (
            COUNT.replace("event_count", "value_sum").replace("10", "10, field: x"),
            "value_sum is not",
        ),
        (COUNT.replace("event_count", "value_count"), "without field reference"),
        (COUNT.replace("5m", "5 minutes"), "imespan"),
        (COUNT.replace("5m", "90d"), "longer than 31 days"),
        (COUNT.replace("gte: 10", "gte: 1.5"), "1.5, which is no count"),
        (COUNT.replace("gte: 10", "about: 10"), "exactly one condition"),
        (COUNT.replace("event_count", "temporal").replace("gte", "lt"), "cannot wait for lt"),
        (
            "type: temporal, rules: [failed, blocked], timespan: 5m, condition: failed and not blocked",
            "a condition of words",
        ),
        (
            "type: temporal_ordered, rules: [failed, blocked], timespan: 5m, condition: {gte: 1}",
            "for all of its rules",
        ),
        (
            "type: temporal, rules: [failed, blocked], group-by: [who], timespan: 5m, aliases: {who: {failed: User}}",
            "the alias who says nothing of blocked",
        ),
    ],
)
def test_what_is_not_supported_is_listed_with_its_reason(
    correlation: str, reason: str, tmp_path: Path
) -> None:
    """And the other rules run."""
    found = read(tmp_path, correlation)

    (refused,) = found.refused
    assert refused.origin == "many.yml"
    assert reason in refused.reason
    assert found.thresholds == ()
    assert len(found.rules) == 2
