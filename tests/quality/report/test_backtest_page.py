"""The page of a backtest shows its figures, runs nothing, and obeys no text of a rule or of an event."""

import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from strandline_quality.findings import (
    AlertSample,
    Backtest,
    Change,
    Compared,
    RuleFigures,
    TableCost,
)
from strandline_quality.page import backtest_page, sentence

HOSTILE = "</script><script>alert(1)</script>\"'&\u202e"
SAMPLE = AlertSample(
    alert_id="a1", at="2026-11-20T12:00:00+00:00", place="t/0/1", key="{}", event=HOSTILE
)


def rule(title: str, days: tuple[int, ...], *, changes: int = 0) -> RuleFigures:
    return RuleFigures(
        rule=title,
        title=title,
        version="v2",
        severity="high",
        table="silver.process_events",
        owner="security",
        file="a_rule.yml",
        alerts=sum(days),
        days=days,
        entity="Computer",
        entities=2,
        top=((HOSTILE, 3), ("d2", 1)) if sum(days) else (),
        samples=(SAMPLE,) if sum(days) else (),
        compared=Compared(
            old_version="v1",
            counts=dict.fromkeys(Change, changes),
            samples=dict.fromkeys(Change, (SAMPLE,)),
        ),
    )


@pytest.fixture
def found() -> Backtest:
    return Backtest(
        lake="lake",
        made_at="2026-11-24T04:00:00+00:00",
        since="2026-11-20T00:00:00+00:00",
        until="2026-11-23T00:00:00+00:00",
        days=("2026-11-20", "2026-11-21", "2026-11-22"),
        against="HEAD~1",
        tables=(
            TableCost(
                table="silver.process_events", rules=2, events=1_234, seconds=1.5, cpu_seconds=2.5
            ),
        ),
        rules=(rule(HOSTILE, (3, 0, 1), changes=7), rule("quiet", (0, 0, 0))),
        skipped=(("broken.yml", HOSTILE),),
    )


class Tags(HTMLParser):
    """The tags of a page, and those that were never closed."""

    def __init__(self) -> None:
        """Begin with none."""
        super().__init__()
        self.seen: list[str] = []
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        """Remember a tag."""
        del attrs
        self.seen.append(tag)
        if tag not in {"meta", "rect", "wbr", "br"}:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        """Close the tag that is open."""
        if self.open and self.open[-1] == tag:
            self.open.pop()


def test_the_page_has_the_figures_and_a_picture_for_each_rule_that_fires(found: Backtest) -> None:
    made = backtest_page(found)

    assert sentence(found) == "1 of 2 rules would have raised 4 alerts on 1,234 events."
    assert f"<h1>{sentence(found)}</h1>" in made
    assert made.count('<svg class="plot"') == 1
    assert "2026-11-20: 3 alerts" in made
    assert re.search(r"data-label=\"moved\">7<", made)
    assert "broken.yml" in made


def test_the_page_holds_its_findings_for_programs(found: Backtest) -> None:
    (data,) = re.findall(
        r'<script type="application/json" id="findings">(.*?)</script>', backtest_page(found)
    )

    assert json.loads(data) == json.loads(json.dumps(found.as_json()))


def test_a_text_of_a_rule_or_an_event_is_text(found: Backtest) -> None:
    made = backtest_page(found)
    tags = Tags()
    tags.feed(made)

    assert tags.seen.count("script") == 1
    assert tags.open == []
    assert "\u202e" not in made
    assert "default-src &#39;none&#39;" in made or "default-src 'none'" in made


@pytest.mark.whole
def test_a_backtest_of_no_alert_has_a_page(found: Backtest) -> None:
    made = backtest_page(replace(found, rules=found.rules[1:], against=None, skipped=()))

    assert "0 of 1 rules would have raised 0 alerts" in made
