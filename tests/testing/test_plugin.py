"""The plugin: found by its entry point, without Spark where no scenario is, in the modes that a mark chooses."""

import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from strandline.testing import plugin, scenario

NO_SCENARIO = """
import sys

def test_nothing_is_imported(request):
    assert "strandline.testing.plugin" in sys.modules
    assert "pyspark" not in sys.modules

def test_another_fixture(stream):
    assert stream == "mine"
"""
OWN = """
import pytest

@pytest.fixture
def stream():
    return "mine"
"""
MODES = """
import pytest

def test_all(stream):
    pass

@pytest.mark.stream_modes("stream", "batch")
def test_two(stream):
    pass
"""


def pytest_of(folder: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    """Run pytest in a folder that has no settings of ours."""
    command = [sys.executable, "-m", "pytest", "-p", "no:randomly", "-p", "no:cacheprovider"]
    return subprocess.run(
        [*command, *words], cwd=folder, capture_output=True, text=True, timeout=300, check=False
    )


def test_it_is_an_entry_point_of_the_package() -> None:
    """So a project has the fixture without a line of its own."""
    (found,) = (each for each in entry_points(group="pytest11") if each.name == "strandline")

    assert found.load() is plugin


def test_the_modes_are_those_of_a_scenario() -> None:
    """The list is written twice, because the one module imports Spark."""
    assert plugin.MODES == scenario.MODES
    assert set(scenario.WAYS) == set(plugin.MODES)


def test_a_suite_without_a_scenario_imports_nothing_of_spark(tmp_path: Path) -> None:
    """And one with a fixture of the same name keeps that, once."""
    (tmp_path / "test_it.py").write_text(NO_SCENARIO)
    (tmp_path / "conftest.py").write_text(OWN)

    done = pytest_of(tmp_path, "-q")

    assert "2 passed" in done.stdout, done.stdout


def test_a_test_is_collected_in_each_mode_or_in_those_of_its_mark(tmp_path: Path) -> None:
    """By the name of the mode."""
    (tmp_path / "test_it.py").write_text(MODES)

    done = pytest_of(tmp_path, "-q", "--collect-only", "--strict-markers")

    assert done.stdout.split("\n\n")[0].splitlines() == [
        "test_it.py::test_all[batch]",
        "test_it.py::test_all[catch-up]",
        "test_it.py::test_all[stream]",
        "test_it.py::test_two[stream]",
        "test_it.py::test_two[batch]",
    ]


def test_a_mode_that_there_is_not_is_refused(tmp_path: Path) -> None:
    """With those that there are."""
    (tmp_path / "test_it.py").write_text(MODES.replace('"batch"', '"daily"'))

    done = pytest_of(tmp_path, "-q", "--collect-only")

    assert "stream_modes takes 'batch', 'catch-up', 'stream'" in done.stdout + done.stderr


@pytest.mark.whole
@pytest.mark.slow
def test_a_project_that_init_wrote_passes_its_tests_with_two_workers(tmp_path: Path) -> None:
    """In a folder of its own, as its users run them; the seconds of the verbs come from both workers."""
    command = [sys.executable, "-m", "strandline.cli"]
    subprocess.run([*command, "init", "shop"], cwd=tmp_path, check=True, capture_output=True)
    shop = tmp_path / "shop"
    for words in (
        ("topic", "refunds"),
        ("silver", "refunds", "--reads", "bronze.refunds"),
        ("gold", "refunds_10m", "--reads", "silver.refunds"),
    ):
        subprocess.run([*command, "new", *words], cwd=shop, check=True, capture_output=True)

    done = pytest_of(shop, "-q", "-n", "2", "--stream-seconds")

    assert "17 passed" in done.stdout, done.stdout[-5000:]
    assert "stop_at, stream" in done.stdout
    assert "expect, batch" in done.stdout
