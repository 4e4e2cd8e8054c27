"""``strandline init`` makes a project and touches nothing that is there; what it makes runs in tests/e2e/test_package.py."""

import shlex
from pathlib import Path

import pytest
import typer

from jobs.cli import main
from tests.cli.inside import strandline, succeeded


@pytest.mark.parametrize(
    "name", ["Shop", "2shop", "class", "json", "jobs", "strandline", "tests", "a b"]
)
def test_a_name_that_is_no_package_is_refused(name: str, tmp_path: Path) -> None:
    """The hint has one that is."""
    answer = strandline("init", tmp_path / name)

    assert answer.code == 2
    assert "is no name for a project" in answer.err
    assert "hint: " in answer.err
    assert not (tmp_path / name).exists()


@pytest.mark.parametrize("name", ["rich", "typer", "numpy", "duckdb", "delta", "dagster", "google"])
def test_a_name_of_an_installed_package_is_refused(name: str, tmp_path: Path) -> None:
    """The project's folder comes first where Python looks, so every verb would end in a traceback; google has no ``__init__``."""
    answer = strandline("init", tmp_path / name)

    assert answer.code == 2
    assert "a package that is installed here has it" in answer.err
    assert f"hint: choose another name, such as {name}-lake." in answer.err
    assert not (tmp_path / name).exists()


def test_an_empty_folder_in_the_working_folder_is_no_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python takes it for one, where the working folder is searched for modules."""
    (tmp_path / "shop").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))

    succeeded("init", "shop")

    assert (tmp_path / "shop" / "shop" / "silver" / "orders.py").is_file()


def test_a_folder_with_files_stays_as_it_is(tmp_path: Path) -> None:
    """A second `init` would write over tables that were filled in."""
    succeeded("init", tmp_path / "shop")
    table = tmp_path / "shop" / "shop" / "silver" / "orders.py"
    table.write_text("mine")

    answer = strandline("init", tmp_path / "shop")

    assert answer.code == 2
    assert "is not empty" in answer.err
    assert table.read_text() == "mine"


def test_no_mark_of_the_drafts_is_left(tmp_path: Path) -> None:
    """In names of files and in their texts; a dash in the name is no part of a package's."""
    succeeded("init", tmp_path / "web-shop")

    root = tmp_path / "web-shop"
    files = [path for path in root.rglob("*") if path.is_file()]
    assert not [path for path in files if path.suffix == ".txt" or "{{" in path.read_text()]
    assert (root / "web_shop" / "bronze" / "orders.py").is_file()
    assert 'tables = "web_shop"' in (root / "strandline.toml").read_text()
    assert 'name = "web-shop"' in (root / "pyproject.toml").read_text()


def test_the_commands_of_its_front_page_can_be_typed(tmp_path: Path) -> None:
    """A stranger types them first."""
    succeeded("init", tmp_path / "shop")
    if not main.app.registered_commands:
        main._load([])
    group = typer.main.get_command(main.app)
    assert isinstance(group, typer.core.TyperGroup)

    text = (tmp_path / "shop" / "README.md").read_text()
    lines = [shlex.split(line)[1:] for line in text.splitlines() if line.startswith("strandline ")]

    assert len(lines) >= 6
    for verb, *words in lines:
        group.commands[verb].make_context(verb, words)
