"""Data Docs show what was found, drop old runs, and contain no value of any row."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from strandline_quality.expectations import Finding, Within, shares
from strandline_quality.rules import Severity, between
from strandline_quality.suite import SITE, STORE, Asked, publish

AT = datetime(2026, 11, 20, 12, tzinfo=UTC)
RULE = between("value", 0, 10, max_failed=0.2, about="what the sensors can measure")
EXPECTED = (*shares((RULE,)), Within(name="copies", aggregate="count(*)", high=0))


def run(folder: Path, number: int, *, failed: int = 0) -> Path:
    finding = {"severity": Severity.CRITICAL, "holds": not failed, "says": ""}
    asked = Asked(
        table="silver.readings",
        expected=EXPECTED,
        findings=(
            Finding(name=RULE.name, failed=failed, rows=100, **finding),
            Finding(name="copies", value=0.0, rows=100, **finding),
        ),
    )
    return publish(folder, [asked], AT + timedelta(hours=number), kept=2)


def pages(folder: Path) -> list[str]:
    return sorted(page.parents[1].name for page in (folder / SITE / "validations").rglob("*.html"))


def test_the_pages_show_what_was_found(tmp_path: Path) -> None:
    index = run(tmp_path, 0, failed=30)

    (page,) = (tmp_path / SITE / "validations").rglob("*.html")
    text = page.read_text()

    assert index.exists()
    assert "what the sensors can measure" in text
    assert "30 unexpected values found" in text
    assert "Failed" in text


@pytest.mark.whole
def test_only_the_last_runs_are_kept(tmp_path: Path) -> None:
    """Neither pages nor what they are made of grow with the age of a lake."""
    for number in range(4):
        run(tmp_path, number)

    kept = ["20261120T140000.000000", "20261120T150000.000000"]
    assert pages(tmp_path) == kept
    assert sorted(file.parents[1].name for file in (tmp_path / STORE).rglob("*.json")) == kept
