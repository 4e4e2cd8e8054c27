"""Each rule is an asset with its backtest and its checks; a folder that is broken, or gone, is failed checks and loads all the same."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from dagster import (
    AssetKey,
    AssetSpec,
    Definitions,
    ExecuteInProcessResult,
    SensorResult,
    SkipReason,
    build_sensor_context,
    materialize,
)
from pyspark.sql import SparkSession

from fleet.silver import process_events as silver
from strandline.alerting.alert_rule import rules_folder
from strandline.alerting.tables import bronze as alerts
from strandline.engine.lake.lake import Lake
from strandline_dagster.resources import RESOURCES, key, topic_key
from strandline_dagster.rule_assets import (
    EXAMPLES,
    FIRES,
    GROUP,
    MOST,
    READABLE,
    RUNS,
    TRIED,
    RuleBook,
    look_at_rules,
    named,
    rule_assets,
    rule_book,
    rule_keys,
)
from tests.cli.test_backtest import STARTS
from tests.rules.sigma.broken import about, rule
from tests.support.instance import ephemeral
from tests.support.modes import derive
from tests.support.seeds import copied
from tests.support.starts import arrived

(TOPIC,) = map(topic_key, alerts.TABLE.topics)
CERTUTIL = "process_certutil_decodes_a_file.yml"
ODD = """
    title: "[x](y) *z*"
    level: low
    tags: [attack.t1059.001, "attack.stealth"]
    logsource: {category: process_creation}
    detection: {a: {Image: x}, condition: a}
    strandline: {owner: "Ops & Co.", runbook: ../../../etc/passwd}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of rules that the settings name, with two that run."""
    found = tmp_path / "rules"
    found.mkdir()
    (found / CERTUTIL).write_text((rules_folder() / CERTUTIL).read_text())
    (found / "never.yml").write_text(about("Image", "nothing.exe"))
    monkeypatch.setenv("STRANDLINE_RULES", str(found))
    return found


def specs(book: RuleBook) -> dict[str, AssetSpec]:
    """Load the definitions of a book, and return its assets by the last part of their names."""
    loaded = Definitions(assets=rule_assets(book, named(book)), resources=RESOURCES)
    loaded.get_repository_def()
    return {
        spec.key.path[-1]: spec
        for spec in loaded.resolve_all_asset_specs()
        if spec.group_name == GROUP
    }


def looked(keys: dict[str, AssetKey], cursor: str | None = None) -> Any:  # noqa: ANN401  # either result
    look = look_at_rules(TOPIC, keys)
    return look(build_sensor_context(instance=ephemeral(), cursor=cursor))


@pytest.mark.whole
def test_a_rule_says_who_answers_how_bad_it_is_and_what_to_do(folder: Path) -> None:
    (folder / "odd name.yml").write_text(ODD)

    found = specs(rule_book())

    certutil = found["process_certutil_decodes_a_file"]
    assert [dep.asset_key for dep in certutil.deps] == [key(silver.TABLE)]
    assert certutil.owners == ["team:security"]
    assert certutil.tags["severity"] == "high"
    assert "attack.t1140" in certutil.tags
    assert "ATT&CK: T1140" in str(certutil.description)
    assert certutil.code_version == certutil.metadata["version"].value
    assert found["odd_name"].owners == [], "Dagster would refuse to load such an owner"


def test_a_file_that_cannot_be_read_is_an_asset_with_the_reason(folder: Path) -> None:
    (folder / "broken.yml").write_text("title: [x")
    (folder / "field.yml").write_text(about("Colour", "red"))

    found = specs(rule_book())

    assert "no YAML" in str(found["broken"].description)
    assert "Colour" in str(found["field"].description)
    assert len(found) == 4


def test_a_folder_that_is_gone_has_no_assets_and_one_failed_check(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STRANDLINE_RULES", str(tmp_path / "nowhere"))

    assert specs(rule_book()) == {}
    (answer,) = looked({}).asset_events
    assert (answer.check_name, answer.passed) == (READABLE, False)
    assert "there is no folder" in answer.description


def test_names_that_are_the_same_to_dagster_are_numbered() -> None:
    origins = ["a-b.yml", "a/b.yml", "a_b.yaml", "c.yml#2"]

    names = [name.path[-1] for name in rule_keys(origins).values()]

    assert names == ["a_b", "a_b__2", "a_b__3", "c_2"]


def test_of_too_many_rules_the_broken_and_the_most_severe_are_shown(folder: Path) -> None:
    (folder / "mild.yml").write_text(
        rule("{a: {Image: y}, condition: a}", head="title: x\nlevel: low")
    )
    book = rule_book()
    mild = book.rules["mild.yml"]
    many = {f"{n}.yml": replace(mild, origin=f"{n}.yml") for n in range(MOST)}

    shown = named(RuleBook(rules={**many, **book.rules}, refused={"broken.yml": "no YAML"}))

    assert len(shown) == MOST
    assert {"broken.yml", CERTUTIL} <= shown.keys()


def test_a_rule_that_is_broken_later_fails_its_check_once(folder: Path) -> None:
    keys = named(rule_book())
    first = looked(keys)
    calm = looked(keys, first.cursor)
    (folder / "never.yml").write_text("title: [x")

    later = looked(keys, first.cursor)

    assert isinstance(first, SensorResult)
    assert all(each.passed for each in first.asset_events)
    assert isinstance(calm, SkipReason)
    answers = {each.check_name: each for each in later.asset_events}
    assert answers.keys() == {READABLE, RUNS}, "the other rule has no news"
    assert answers[RUNS].asset_key == keys["never.yml"]
    assert "no YAML" in str(answers[RUNS].description)
    assert not answers[READABLE].passed


@pytest.mark.slow
def test_chosen_rules_are_tried_on_history_and_answer_every_check(
    spark: SparkSession, lake: Lake, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that fires, one that never does, one with a wrong example, and one that broke after the load."""
    monkeypatch.setenv("STRANDLINE_LAKE", str(lake.root))
    early = materialised(rule_book())
    copied(lake, "starts of programs, judged", lambda seed: judged(spark, seed))
    wrong = about("Image", "x") + "strandline: {fires_on: [{Image: y}], quiet_on: [{Image: z}]}\n"
    (folder / "wrong.yml").write_text(wrong)
    (folder / "breaks.yml").write_text(about("Image", "later.exe"))
    book = rule_book()
    keys = named(book)
    (folder / "breaks.yml").write_text("title: [x")

    done = materialised(book)

    assert not early.success, "the table does not exist yet"
    reasons = {e.check_name: e.description for e in early.get_asset_check_evaluations()}
    assert "does not exist" in str(reasons[TRIED])
    made = {
        e.asset_key: e.step_materialization_data.materialization.metadata
        for e in done.get_asset_materialization_events()
    }
    assert set(made) == {keys[name] for name in (CERTUTIL, "never.yml", "wrong.yml")}
    loud = made[keys[CERTUTIL]]
    closed = [s for s in STARTS if str(s["UtcTime"].isoformat()) < str(loud["until"].value)]
    assert loud["alerts"].value == sum("-decode" in str(s["CommandLine"]) for s in closed) > 10
    assert loud["events"].value == len(closed)
    assert "strandline why process-events/0/" in str(loud["samples"].value)
    assert "When a rule fires" in str(loud["runbook"].value)
    failed = {
        (e.asset_key, e.check_name) for e in done.get_asset_check_evaluations() if not e.passed
    }
    assert failed == {
        (keys["breaks.yml"], RUNS),
        (keys["wrong.yml"], EXAMPLES),
        (keys["never.yml"], EXAMPLES),
        (keys["wrong.yml"], FIRES),
        (keys["never.yml"], FIRES),
    }
    assert lake.backtest_figures.exists()


def materialised(book: RuleBook) -> ExecuteInProcessResult:
    return materialize(
        rule_assets(book, named(book)),
        instance=ephemeral(),
        resources=RESOURCES,
        raise_on_error=False,
    )


def judged(spark: SparkSession, lake: Lake) -> None:
    arrived(lake, STARTS)
    derive(spark, lake, silver.TABLE)
