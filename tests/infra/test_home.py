"""What set-up makes is kept in the environment, and outside of one in the user's cache."""

import sys
from pathlib import Path

import pytest

from strandline_infra import installation as where
from strandline_infra.installation import Installed, home, setup_command, spark_folder


def test_in_a_clone_it_is_the_environment() -> None:
    """As `make setup` made it."""
    assert home() == Path(sys.prefix)
    assert setup_command() == "make setup"


def test_a_wheel_in_an_environment_keeps_it_there(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It goes with the environment."""
    monkeypatch.setattr(where, "ROOT", tmp_path)

    assert home() == Path(sys.prefix)
    assert setup_command() == "strandline setup"


def test_a_wheel_outside_of_one_keeps_it_in_the_users_cache(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The folder of the system's Python is not the user's to write."""
    monkeypatch.setattr(where, "ROOT", tmp_path)
    monkeypatch.setattr(sys, "prefix", sys.base_prefix)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    assert home().parent == tmp_path / "cache" / "strandline"
    place = Installed()
    assert place.venv == home()
    assert place.lock.is_file()


@pytest.mark.parametrize("text", ['[project]\nname = "other"\n', "[tool.x]\n", "no toml ["])
def test_the_file_of_another_package_makes_no_clone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: str
) -> None:
    """Some wheels leave theirs in site-packages."""
    monkeypatch.setattr(where, "ROOT", tmp_path)
    (tmp_path / "pyproject.toml").write_text(text)

    assert setup_command() == "strandline setup"


def test_spark_is_found_where_it_is_installed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Also where it is in another folder than what set-up makes."""
    monkeypatch.setattr(where, "ROOT", tmp_path)

    found = spark_folder(tmp_path)

    assert found is not None
    assert list(found.glob("ivy-*.jar"))
