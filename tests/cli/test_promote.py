"""Rules go live with the backtest that they passed, all of them or none, and can be taken back."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from strandline.alerting.alert_rule import rules_folder
from strandline.alerting.rule_folder import RuleFolder, RuleSet
from strandline.alerting.sigma import Folder, read_folder
from strandline.core.errors import DefinitionError
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.shelves import live_rules, promotions
from strandline.engine.runtime.settings import settings
from strandline.operate.alerts import backtest, examples
from strandline.operate.alerts.raising import LiveRules
from strandline_quality.findings import Backtest, RuleFigures, TableCost
from tests.cli.inside import strandline, succeeded
from tests.rules.sigma.broken import about
from tests.support.feeds import DECODES
from tests.support.logged import Logged
from tests.support.starts import streamed

RULE = """
title: {title}
id: 00000000-0000-4000-8000-{number:012}
logsource: {{category: process_creation}}
detection: {{a: {{CommandLine|contains: '{word}'}}, condition: a}}
strandline:
    fires_on: [{{CommandLine: a {word} b}}]
    quiet_on: [{{CommandLine: '{quiet}'}}]
"""
RANGE = ("--since", "2026-11-20", "--until", "2026-11-23")


def write(folder: Path, number: int, word: str = "/c", quiet: str = "x", name: str = "") -> Path:
    """Write a rule about command lines with a word."""
    folder.mkdir(exist_ok=True)
    file = folder / f"{name or number}.yml"
    file.write_text(RULE.format(title=f"rule {number}", number=number, word=word, quiet=quiet))
    return file


def figures(*folders: Folder, micros: float | None = None) -> Backtest:
    """Return the backtest of rules that raised nothing, each with the same cost."""
    rules = [rule for folder in folders for rule in (*folder.rules, *folder.thresholds)]
    return Backtest(
        lake="lake",
        made_at="2026-11-24T12:00:00+00:00",
        since="2026-11-20",
        until="2026-11-23",
        days=(),
        against=None,
        tables=(TableCost(table="t", rules=1, events=1, seconds=1, cpu_seconds=1),),
        rules=tuple(
            replace(_silent(rule.id, rule.version, rule.origin), micros=micros) for rule in rules
        ),
    )


def _silent(rule: str, version: str, file: str) -> RuleFigures:
    none = {"title": rule, "severity": "low", "table": "t", "owner": "", "entity": "computer"}
    return RuleFigures(
        rule=rule,
        version=version,
        file=file,
        alerts=0,
        days=(),
        entities=0,
        top=(),
        samples=(),
        **none,
    )


def put_live(lake: Lake, path: Path) -> None:
    """Promote a file or a folder."""
    own = examples.chosen(str(path))
    backtest.promoted(own, figures(own), str(path), lake)


def test_nothing_is_promoted_where_the_rules_of_another_folder_raise_alerts(tmp_path: Path) -> None:
    """The settings name one; what is promoted would raise nothing."""
    backtest.refuse_elsewhere(settings())

    with pytest.raises(DefinitionError, match="STRANDLINE_RULES"):
        backtest.refuse_elsewhere(settings(rules=tmp_path))


def ids(found: Sequence[object]) -> set[str]:
    return {str(rule).rpartition("-")[2].lstrip("0") for rule in found}


@pytest.mark.whole
def test_rules_go_live_with_the_figures_of_their_backtest_and_are_taken_back(
    spark: SparkSession, lake: Lake, tmp_path: Path
) -> None:
    """They are added to the project's, which is live before; a file is promoted again when it has changed."""
    streamed(spark, lake)
    file = write(tmp_path / "rules", 1)
    words = ("rules", "backtest", file, *RANGE, "--promote", "--lake", lake.root)

    first = succeeded(*words)
    file.write_text(file.read_text().replace("/c", "-decode"))
    second = succeeded(*words, "--json").json["promoted"]
    file.write_text(file.read_text().replace("fires_on: [{CommandLine: a", "fires_on: [{User: a"))
    refused = strandline(*words)
    status = succeeded("status", "--lake", lake.root).out
    undone = succeeded("rules", "undo", "--lake", lake.root).out

    assert "1 rules are live as version 0001" in first.err
    assert second["version"] == "0002"
    assert (
        second["backtest"]["alerts"]
        == second["backtest"]["alerts_by_rule"][second["rules"][0]["rule"]]
        > 10
    )
    assert refused.code == 2
    assert "nothing is promoted: 1.yml: stays quiet on" in refused.err
    assert "rules   version 0002, promoted at" in status
    assert "is taken back; version 0001 is live again" in undone
    live = read_folder(examples.promoted_folder(lake))
    assert {rule.id for rule in read_folder(rules_folder()).rules} < {
        rule.id for rule in live.rules
    }
    assert "/c" in (examples.promoted_folder(lake) / "1.yml").read_text()


def test_a_running_process_takes_a_promotion_over(
    spark: SparkSession, lake: Lake, tmp_path: Path
) -> None:
    """What the promotion does not name runs on unchanged, so nothing else is handed over."""
    folder = tmp_path / "base"
    folder.mkdir()
    (folder / DECODES.origin).write_text((rules_folder() / DECODES.origin).read_text())
    write(folder, 1)
    running = LiveRules(
        lambda: examples.promoted_folder(lake) if live_rules(lake) else folder,
        lake,
        spark,
        Logged(),
    )
    running.feeds()
    put_live(lake, write(tmp_path / "rules", 1, "/k"))

    renewed = running.renewed()

    assert renewed is not None
    _, record = renewed
    assert ids(each.split()[0] for each in record["changed"]) == {"1"}
    assert set(record) == {"by", "added", "changed"}
    assert running.renewed() is None


@pytest.mark.whole
def test_a_file_of_another_name_with_the_same_rule_is_replaced(lake: Lake, tmp_path: Path) -> None:
    """A folder with one rule twice would run neither as it was tried."""
    put_live(lake, write(tmp_path / "rules", 1, name="old"))
    put_live(lake, write(tmp_path / "others", 1, "/k", name="new"))

    folder = examples.promoted_folder(lake)
    assert not (folder / "old.yml").exists()
    assert len(promotions(lake)) == 2


def test_what_a_correlation_counts_is_promoted_with_it(lake: Lake, tmp_path: Path) -> None:
    folder = tmp_path / "rules"
    write(folder, 1, name="part")
    (folder / "many.yml").write_text(
        "title: many\nid: 00000000-0000-4000-8000-000000000002\n"
        "correlation: {type: event_count, rules: [00000000-0000-4000-8000-000000000001], "
        "group-by: [Computer], timespan: 9h, condition: {gte: 3}}\n"
    )
    put_live(lake, folder / "many.yml")

    assert ids(read_folder(examples.promoted_folder(lake)).thresholds) > {"2"}


@pytest.mark.parametrize(
    ("others", "reason"),
    [
        (["1"], "the live rule rule 1 (1.yml) would raise nothing any more"),
        (["2#1"], "2.yml#2 has a rule that was not tried"),
    ],
)
def test_a_promotion_that_would_do_more_than_it_names_is_refused(
    lake: Lake, tmp_path: Path, others: list[str], reason: str
) -> None:
    """It neither takes the place of another live rule, nor brings one along."""
    put_live(lake, write(tmp_path / "rules", 1))
    file = write(tmp_path / "new", 2, name="1" if others == ["1"] else "2")
    if others != ["1"]:
        write(tmp_path / "new", 3)
        file.write_text(file.read_text() + "---" + (tmp_path / "new" / "3.yml").read_text())
        (tmp_path / "new" / "3.yml").unlink()
    own = examples.chosen(str(file))
    tried = Folder(own.rules[:1], ())

    with pytest.raises(DefinitionError, match="nothing is promoted") as refused:
        backtest.promoted(tried, figures(tried), str(file), lake)

    assert reason in refused.value.message
    assert len(promotions(lake)) == 1


def test_what_is_not_fit_is_refused_before_anything_runs(tmp_path: Path) -> None:
    folder = tmp_path / "rules"
    folder.mkdir()
    (folder / "a.yml").write_text(about("Colour", "red"))
    (folder / "b.yml").write_text(about("Image", "x"))

    with pytest.raises(DefinitionError, match="nothing is promoted") as refused:
        backtest.refuse_unfit(read_folder(folder))

    assert "a.yml: " in refused.value.message
    assert "b.yml lacks examples of both kinds" in refused.value.message


def test_what_was_not_tried_or_is_too_slow_is_refused(tmp_path: Path) -> None:
    """A rule about a table without events has shown nothing; one of a second an event would hold the stream."""
    write(tmp_path / "rules", 1)
    own = read_folder(tmp_path / "rules")
    backtest.refuse_untried(own, figures(own, micros=backtest.SLOWEST))

    with pytest.raises(DefinitionError, match="takes 101 µs of CPU an event alone"):
        backtest.refuse_untried(own, figures(own, micros=backtest.SLOWEST + 1))
    with pytest.raises(DefinitionError, match=r"1\.yml was not tried"):
        backtest.refuse_untried(own, figures())


def test_a_folder_that_became_another_one_is_looked_at_as_a_change_of_files(tmp_path: Path) -> None:
    write(tmp_path / "one", 1)
    write(tmp_path / "two", 1)
    write(tmp_path / "two", 2)
    found = RuleFolder(tmp_path / "one", lambda _: ())
    before = found.look() or RuleSet()
    found.folder = tmp_path / "two"

    after = found.look()

    assert after is not None
    assert list(after.changes(before)) == ["added"]
