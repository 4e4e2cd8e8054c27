"""A folder that is not trusted: what is broken is named with its reason in seconds, and the rest runs."""

import re
import time
from pathlib import Path

import pytest

from strandline.alerting.alert_rule import rules_folder
from strandline.alerting.sigma import read_folder
from tests.rules.sigma import broken

SECONDS = 20.0
"""On a busy machine; one expression alone may use the second that it is given."""


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, str], Path]:
    """Return a folder with what is broken, with three good rules among it, and the reasons."""
    folder = tmp_path_factory.mktemp("rules")
    reasons = broken.write(folder)
    (folder / "below").mkdir()
    (folder / "below" / "good.yaml").write_text(broken.GOOD.format(title="good", number=2))
    (folder / "two.yml").write_text(
        broken.GOOD.format(title="third", number=3) + "\n---\n" + broken.about("Colour", "red")
    )
    return {**reasons, "two.yml#2": "unknown field"}, folder


@pytest.mark.whole
def test_each_broken_file_is_named_with_its_reason_and_the_rest_runs(
    hostile: tuple[dict[str, str], Path],
) -> None:
    reasons, folder = hostile
    started = time.monotonic()

    found = read_folder(folder)

    took = time.monotonic() - started
    given = {each.origin: each.reason for each in found.refused}
    assert set(given) == set(reasons)
    assert {n: given[n] for n in given if not re.search(reasons[n], given[n])} == {}
    assert len(given) >= 50
    assert sorted(rule.title for rule in found.rules) == ["first", "good", "third"]
    assert took < SECONDS


def test_a_reason_is_one_line_that_fits_a_screen(hostile: tuple[dict[str, str], Path]) -> None:
    _, folder = hostile

    reasons = [each.reason for each in read_folder(folder).refused]

    assert [r for r in reasons if "\n" in r or len(r) > 300] == []


def test_a_folder_mounted_by_kubernetes_is_read_once(tmp_path: Path) -> None:
    """Its files are links into a hidden folder, which a link of its own names."""
    hidden = tmp_path / "..2026_11_20"
    hidden.mkdir()
    (hidden / "good.yml").write_text(broken.GOOD.format(title="good", number=2))
    (tmp_path / "..data").symlink_to("..2026_11_20")
    (tmp_path / "good.yml").symlink_to("..data/good.yml")

    found = read_folder(tmp_path)

    assert [rule.title for rule in found.rules] == ["good"]
    assert found.refused == ()


def test_a_rule_without_an_id_is_named_after_its_file(tmp_path: Path) -> None:
    (tmp_path / "nameless.yml").write_text(broken.about("Image", "x"))

    (rule,) = read_folder(tmp_path).rules

    assert rule.id == "nameless.yml"


def test_every_starter_rule_runs_and_has_examples_of_both_kinds() -> None:
    found = read_folder(rules_folder())

    assert found.refused == ()
    every = [*found.rules, *found.thresholds]
    assert [rule.origin for rule in every if not rule.is_tested] == []
    assert [r.origin for r in every if not (r.runbook and r.owner and r.tags)] == []
    assert found.thresholds
