"""What a process leaves to the next: its rules in their versions, from which offsets on, and where it stopped."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from strandline.alerting.alert_rule import AlertRule, Severity, rules_folder
from strandline.alerting.live import (
    Kept,
    Offsets,
    Rule,
    decoded,
    encoded,
    feeds,
    handover,
    stages_of,
)
from strandline.alerting.sigma import read_folder
from strandline.core.table import Feed

STARTERS = read_folder(rules_folder()).every
PLACE = ("process-events", 0)
ENDS: Mapping[str, Offsets] = {"live.process_events": {PLACE: 12}}

RULE = """
title: {title}
id: 00000000-0000-4000-8000-000000000001
date: 2026-11-25
level: {level}
logsource: {{category: process_creation}}
detection: {{a: {{Image|endswith: "{words}"}}, condition: a}}
"""


def rule(folder: Path, words: str, title: str = "t", level: str = "low") -> Rule:
    """Return a rule as it is read from a file."""
    (folder / "one.yml").write_text(RULE.format(words=words, title=title, level=level))
    (found,) = read_folder(folder).every
    return found


def at(offset: int) -> Offsets:
    return {PLACE: offset}


def shape(feed: Feed) -> tuple[object, ...]:
    """Return what a feed of alerts raises."""
    stages = [([(r.id, r.version) for r in s.rules], dict(s.since)) for s in stages_of(feed)]
    return (feed, feed.version, stages)


def test_all_rules_of_the_starter_set_are_kept_in_their_versions() -> None:
    """Of both kinds; those that count bring the rules whose events they count."""
    running = feeds(STARTERS)
    kept = decoded(encoded(running, ENDS), (), lambda _: {})

    assert [*map(shape, kept.feeds)] == [*map(shape, running)]
    assert {(r.id, r.version) for r in kept.rules} == {(r.id, r.version) for r in STARTERS}
    assert kept.ends == ENDS


def test_stages_are_kept_until_the_checkpoint_is_behind_them(tmp_path: Path) -> None:
    """Events between the checkpoint and an offset meet the rules that they met before."""
    one, two, three = (rule(tmp_path, words) for words in ("a", "b", "c"))
    ((first,), (second,), (third,)) = (feeds([each]) for each in (one, two, three))
    running = handover(handover(first, second, at(10), at(0)), third, at(20), at(0))
    text = encoded([running], {})

    def versions(done: int) -> list[str]:
        (feed,) = decoded(text, (), lambda _: at(done)).feeds
        return [stage.rules[0].version for stage in stages_of(feed)]

    every = [each.version for each in (one, two, three)]
    assert (versions(9), versions(10), versions(20)) == (every, every[1:], every[2:])


def test_words_of_today_hold_for_a_rule_that_means_the_same(tmp_path: Path) -> None:
    """Another title needs no new version, and a start shows it as it always did."""
    text = encoded(feeds([rule(tmp_path, "a", "before")]), {})
    today = rule(tmp_path, "a", "after")

    assert [each.title for each in decoded(text, [today], lambda _: {}).rules] == ["after"]
    assert [each.title for each in decoded(text, (), lambda _: {}).rules] == ["before"]


def test_another_severity_is_a_change(tmp_path: Path) -> None:
    """It is recorded as one, so the rules that ran have the one before."""
    text = encoded(feeds([rule(tmp_path, "a")]), {})
    today = rule(tmp_path, "a", level="high")

    (kept,) = decoded(text, [today], lambda _: {}).rules

    assert (kept.version, kept.severity) == (today.version, Severity.LOW)


def test_a_feed_that_never_ran_is_not_kept(tmp_path: Path) -> None:
    """It has judged nothing, so the rules of today judge everything."""
    assert decoded(encoded(feeds([rule(tmp_path, "a")]), ENDS), (), lambda _: None).feeds == ()


def test_a_rule_that_is_read_as_another_version_is_left_out(tmp_path: Path) -> None:
    """The code that reads it has changed, and by its version its alerts are known."""
    found = rule(tmp_path, "a")
    text = encoded(feeds([found]), {}).replace(found.version, "0" * 12)

    assert decoded(text, (), lambda _: {}).feeds == ()


@pytest.mark.parametrize("text", [None, "", "{", "[]", "{}", '{"rules": [{}]}', '{"rules": 7}'])
def test_a_text_that_cannot_be_read_keeps_nothing(text: str | None) -> None:
    """Then a start is as the first one: by the rules of the folder alone."""
    assert decoded(text, (), lambda _: {}) == Kept()


def test_the_document_of_a_rule_is_no_part_of_its_meaning(tmp_path: Path) -> None:
    """Two that differ in words alone are equal, as they were before it was kept."""
    found = rule(tmp_path, "a")

    assert isinstance(found, AlertRule)
    assert found == replace(found, document=None)
    assert "document" not in repr(found)
