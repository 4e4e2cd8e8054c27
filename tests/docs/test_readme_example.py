"""Adding a gold table takes one module and one test: the README's own example is written down and run."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.readme import ROOT, examples

PACKAGES = ("infra", "jobs", "quality", "orchestration", "tests/support")
FILES = ("pyproject.toml", "README.md", "tests/conftest.py")
TYPED = "import sys; from jobs.cli.main import main; sys.exit(main())"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy of the project to which a reader has added what the README says, and nothing else."""
    folder = tmp_path_factory.mktemp("project")
    for name in PACKAGES:
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in FILES:
        shutil.copy(ROOT / name, folder / name)
    for example in examples():
        path = folder / example.path
        path.parent.mkdir(parents=True, exist_ok=True)
        assert not path.exists(), "the example must be new"
        path.write_text(example.text)
    return folder


def ran(project: Path, *words: str) -> str:
    """Run Python in the copy, whose modules stand before those that are installed."""
    done = subprocess.run(
        [sys.executable, *words],
        cwd=project,
        env={**os.environ, "PYTHONPATH": str(project), "STRANDLINE_LAKE": str(project / "lake")},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


def test_the_example_is_one_module_and_one_test() -> None:
    """No third file."""
    module, test = (example.path for example in examples())

    assert module.startswith("jobs/gold/")
    assert test == f"tests/gold/test_{Path(module).name}"


def test_the_catalog_finds_the_new_table_by_itself(project: Path) -> None:
    """There is no second place in which to write its name."""
    name = Path(examples()[0].path).stem

    tables = json.loads(ran(project, "-c", TYPED, "tables", "--json"))

    assert f"gold.{name}" in [table["table"] for table in tables]


@pytest.mark.slow
def test_the_test_of_the_example_passes(project: Path) -> None:
    """As a reader would run it."""
    said = ran(project, "-m", "pytest", "-q", examples()[1].path)

    assert "1 passed" in said


@pytest.mark.parametrize(
    "tool",
    [
        ("ruff", "check", "--no-cache"),
        ("mypy", "--cache-dir", os.devnull, "--follow-imports", "silent"),
    ],
    ids=lambda tool: str(tool[0]),
)
def test_the_example_keeps_the_house_style(tool: tuple[str, ...], project: Path) -> None:
    """An example is copied, and its mistakes with it."""
    ran(project, "-m", *tool, *(example.path for example in examples()))


def test_the_example_keeps_the_direction_of_imports(project: Path) -> None:
    """Gold reads silver."""
    lint = "from importlinter.cli import lint_imports_command as lint; lint()"

    ran(project, "-c", lint, "--no-cache")
