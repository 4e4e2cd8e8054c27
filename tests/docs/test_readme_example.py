"""Adding a gold table takes one module and one test: the example of the pages is written down and run."""

import json
from pathlib import Path

import pytest

from tests.docs.pages import examples
from tests.support.project import TYPED, copied, ran


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy of the project to which a reader has added the files of the pages, and nothing else."""
    folder = copied(tmp_path_factory.mktemp("project"))
    for example in examples():
        path = folder / example.path
        path.parent.mkdir(parents=True, exist_ok=True)
        assert not path.exists(), "the example must be new"
        path.write_text(example.text)
    return folder


def test_the_example_is_one_module_and_one_test() -> None:
    """No third file."""
    module, test = (example.path for example in examples())

    assert module.startswith("jobs/fleet/gold/")
    assert test == f"tests/gold/test_{Path(module).name}"


def test_the_catalog_finds_the_new_table_by_itself(project: Path) -> None:
    """There is no second place in which to write its name."""
    name = Path(examples()[0].path).stem

    tables = json.loads(ran(project, "-c", TYPED, "tables", "--json"))

    assert f"gold.{name}" in [table["table"] for table in tables]


@pytest.mark.slow
def test_the_test_of_the_example_passes(project: Path) -> None:
    """As a reader would run it."""
    output = ran(project, "-m", "pytest", "-q", examples()[1].path)

    assert "1 passed" in output


def test_the_example_keeps_the_house_style(project: Path) -> None:
    """An example is copied, and its mistakes with it; its types are asked for with those of the drafts (tests/cli/test_new.py)."""
    ran(project, "-m", "ruff", "check", "--no-cache", *(example.path for example in examples()))


def test_the_example_keeps_the_direction_of_imports(project: Path) -> None:
    """Gold reads silver."""
    lint = "from importlinter.cli import lint_imports_command as lint; lint()"

    ran(project, "-c", lint, "--no-cache")
