"""``strandline rules backtest``: closed history by the rules that a user names, against another version, as a page."""

import json
import re
import subprocess
from datetime import timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from strandline.alerting.sigma import read_folder
from strandline.alerting.windows import Hit, fired
from strandline.engine.lake.lake import Lake
from tests.cli.inside import strandline, succeeded
from tests.rules.sigma.broken import about
from tests.support.rows import NOON
from tests.support.starts import STARTS, streamed

CLOSED = [start for start in STARTS if start["UtcTime"] < NOON + timedelta(days=3)]  # type: ignore[operator]  # the rows of the domain are dictionaries of objects
RANGE = ("--since", "2026-11-20", "--until", "2026-11-23")
CERTUTIL = "process_certutil_decodes_a_file"


@pytest.fixture
def filled(spark: SparkSession, lake: Lake) -> Lake:
    """Return a lake whose stream has read three days of starts, and has left the first of them."""
    return streamed(spark, lake)


def written(folder: Path, *words: str) -> Path:
    """Write a rule a word, about command lines that contain it."""
    folder.mkdir(exist_ok=True)
    for number, word in enumerate(words):
        text = (
            about("CommandLine|contains", f"'{word}'")
            + f"id: 00000000-0000-4000-8000-{number:012}\n"
        )
        (folder / f"rule_{number}.yml").write_text(text)
    return folder


@pytest.mark.whole
def test_a_rule_of_the_starter_set_is_tried_on_all_closed_history(filled: Lake) -> None:
    """The page has the same figures as the answer for programs, and no value that is masked."""
    answer = succeeded("rules", "backtest", CERTUTIL, "--lake", filled.root).out
    data = succeeded("rules", "backtest", CERTUTIL, "--lake", filled.root, "--json").json

    assert isinstance(data, dict)
    (rule,) = data["rules"]
    closed = [s for s in STARTS if s["UtcTime"].isoformat() < data["until"]]  # type: ignore[attr-defined]  # the rows of the domain are dictionaries of objects
    expected = sum("-decode" in str(start["CommandLine"]) for start in closed)
    assert rule["alerts"] == sum(rule["days"]) == expected > 10
    assert f"would have raised {expected} alerts on {len(closed)} events" in answer
    page = filled.backtest.local.read_text()
    assert f"would have raised {expected} alerts" in page
    assert page.count("<rect") >= len(data["days"])
    assert "SECRET" not in page + answer


@pytest.mark.whole
def test_a_range_is_the_one_that_was_asked_for(filled: Lake, tmp_path: Path) -> None:
    page = tmp_path / "page.html"

    data = succeeded(
        "rules", "backtest", *RANGE, "--to", page, "--lake", filled.root, "--json"
    ).json

    assert isinstance(data, dict)
    assert data["days"] == ["2026-11-20", "2026-11-21", "2026-11-22"]
    assert data["tables"][0]["events"] == sum(
        start["UtcTime"].isoformat() < "2026-11-23"  # type: ignore[attr-defined]  # the rows of the domain are dictionaries of objects
        for start in STARTS
    )
    assert page.read_text().startswith("<!doctype html>")
    assert not filled.backtest.local.exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--since", "2026-11-20"], "a range has two ends"),
        (["--since", "2026-11-20", "--until", "2026-12-20"], "still belongs to its stream"),
        (["--since", "2025-11-20", "--until", "2025-11-21"], "there is no event between"),
        (["nowhere"], "nowhere is no folder, no file, and no rule"),
        (["--against", "live"], "gold.alerts does not exist"),
        (["--against", "nowhere"], "nowhere is no folder, and no commit of Git"),
    ],
)
def test_what_is_not_there_is_refused_with_a_hint(
    words: list[str], said: str, filled: Lake
) -> None:
    answer = strandline("rules", "backtest", *words, "--lake", filled.root)

    assert answer.code == 2
    assert said in answer.err
    assert "hint: " in answer.err


def test_a_lake_without_the_table_is_refused(lake: Lake) -> None:
    answer = strandline("rules", "backtest", CERTUTIL, "--lake", lake.root)

    assert answer.code == 2
    assert "silver.process_events does not exist" in answer.err


def test_the_list_of_rules_has_the_alerts_of_the_last_backtest(
    filled: Lake, tmp_path: Path
) -> None:
    """Of the same version; a rule that was changed since then was not tried."""
    folder = written(tmp_path / "rules", "-decode", "mimikatz", "/c")
    where = ("--lake", filled.root, "--json")
    before = strandline("rules", "list", folder, "--never", *where)
    succeeded("rules", "backtest", folder, *RANGE, *where)
    (folder / "rule_2.yml").write_text((folder / "rule_2.yml").read_text().replace("/c", "/k"))

    listed = succeeded("rules", "list", folder, *where).json
    never = succeeded("rules", "list", folder, "--never", *where).json

    assert "no backtest has said yet" in before.err
    assert isinstance(listed, list)
    assert isinstance(never, list)
    alerts = {each["file"]: each["alerts"] for each in listed}
    assert (alerts["rule_1.yml"], alerts["rule_2.yml"]) == (0, None)
    assert alerts["rule_0.yml"] > 10
    assert [each["file"] for each in never] == ["rule_1.yml"]


def test_the_list_of_slow_rules_has_what_each_costs_alone(
    filled: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a limit that no rule keeps; whether one is slow on this machine is no question for a test."""
    monkeypatch.setattr("strandline.alerting.backtest.LIMIT", float("-inf"))
    monkeypatch.setattr("strandline.alerting.backtest.EVENTS", 500)
    folder = written(tmp_path / "rules", "-decode")
    where = ("--lake", filled.root)
    succeeded("rules", "backtest", folder, *RANGE, *where)
    before = strandline("rules", "list", folder, "--slow", *where)
    answer = succeeded("rules", "backtest", folder, *RANGE, "--cost", *where).out

    (rule,) = succeeded("rules", "list", folder, "--slow", *where, "--json").json

    assert before.code == 2
    assert "has not measured what each rule costs" in before.err
    assert isinstance(rule["micros"], float)
    assert f"slow: {rule['title']} takes" in answer


def test_another_folder_is_compared(filled: Lake, tmp_path: Path) -> None:
    """A rule that is changed has alerts that come, go and move."""
    old, new = written(tmp_path / "old", "-decode", "/c"), written(tmp_path / "new", "-", "/c")

    answer = succeeded(
        "rules", "backtest", new, *RANGE, "--against", old, "--lake", filled.root
    ).out

    decoded = sum("-decode" in str(start["CommandLine"]) for start in CLOSED if _inside(start))
    (row,) = (line for line in answer.splitlines() if "→" in line)
    assert re.search(rf"→ \w+ +0 +0 +{decoded}$", row)
    assert "1 of 2 rules change some alert" in answer


def test_a_commit_of_git_is_compared(filled: Lake, tmp_path: Path) -> None:
    """The same folder, as it was."""
    folder = written(tmp_path / "rules", "-decode", "/c")
    git = ("git", "-C", str(tmp_path), "-c", "user.name=x", "-c", "user.email=x@example.org")
    for words in (("init", "-q"), ("add", "."), ("commit", "-q", "-m", "rules")):
        subprocess.run((*git, *words), check=True)
    (folder / "rule_1.yml").unlink()

    data = succeeded(
        "rules", "backtest", folder, *RANGE, "--against", "HEAD", "--lake", filled.root, "--json"
    ).json

    assert isinstance(data, dict)
    counts = {each["version"] is None: each["compared"]["counts"] for each in data["rules"]}
    shells = sum("/c" in str(start["CommandLine"]) for start in CLOSED if _inside(start))
    assert counts[True] == {"added": 0, "gone": shells, "moved": 0}
    assert counts[False] == {"added": 0, "gone": 0, "moved": 0}


@pytest.mark.whole
def test_one_file_is_one_rule_and_a_broken_one_stops_no_other(filled: Lake, tmp_path: Path) -> None:
    folder = written(tmp_path / "rules", "-decode", "/c")
    (folder / "broken.yml").write_text(about("Colour", "red"))
    words = ("--lake", filled.root, *RANGE, "--json")

    one = succeeded("rules", "backtest", folder / "rule_1.yml", *words).json
    all_ = succeeded("rules", "backtest", folder, *words).json

    assert isinstance(one, dict)
    assert isinstance(all_, dict)
    assert [rule["file"] for rule in one["rules"]] == ["rule_1.yml"]
    assert len(all_["rules"]) == 2
    assert [name for name, _ in all_["skipped"]] == ["broken.yml"]


def test_a_correlation_is_tried_in_the_windows_of_its_definition(
    filled: Lake, tmp_path: Path
) -> None:
    """And so are windows that began before the range; the rule that it counts raises nothing by itself."""
    folder = written(tmp_path / "rules", "/c")
    (folder / "many.yml").write_text(
        "title: many\ncorrelation: {type: event_count, rules: [00000000-0000-4000-8000-000000000000], "
        "group-by: [Image], timespan: 9h, condition: {gte: 3}}\n"
    )
    data = succeeded(
        "rules",
        "backtest",
        folder,
        *RANGE[:1],
        "2026-11-21",
        *RANGE[2:],
        "--lake",
        filled.root,
        "--json",
    ).json

    assert isinstance(data, dict)
    (rule,) = data["rules"]
    (threshold,) = read_folder(folder).thresholds
    day = NOON.replace(hour=0) + timedelta(days=1)
    hits = [
        Hit(int(at.timestamp() * 1e6), str(start["ProcessGuid"]), 0)
        for start in STARTS
        if "/c" in str(start["CommandLine"])
        and day - timedelta(hours=9) <= (at := start["UtcTime"]) < day + timedelta(days=2)  # type: ignore[operator]  # the rows of the domain are dictionaries of objects
    ]
    until = int((day + timedelta(days=2)).timestamp() * 1e6)
    alerts = [each for each in fired(threshold, hits, until) if each.at >= day.timestamp() * 1e6]
    assert rule["alerts"] == len(alerts) > 3
    assert rule["title"] == "many"
    assert rule["entities"] == 1
    assert json.loads(rule["samples"][0]["event"])["count"] == 3


def _inside(start: object) -> bool:
    assert isinstance(start, dict)
    return bool(start["UtcTime"].isoformat() < "2026-11-23")
