"""A project of one's own is found by its file, and a mistake in the file is an error that names what is near."""

from pathlib import Path

import pytest

from strandline.core.errors import DefinitionError
from strandline.project import FILE, VARIABLE, _found, _read, package, project

WRONG = [
    ("[projekt]\n", "projekt is not a part", "did you mean project"),
    ("[project]\ntable = 'shop'\n", "[project] table is not", "did you mean tables"),
    ("[project]\ntables = 3\n", "tables is 3", "shop"),
    ("[project]\ntables = 'web shop'\n", "no package", "shop"),
    ("[profile]\nprod = 3\n", "profile.prod is 3", "[profile.prod]"),
    ("project = 3\n", "project is 3", "[project]"),
    ("[project\n", "cannot be read", "TOML"),
]


@pytest.mark.parametrize(("text", "message", "hint"), WRONG)
def test_a_mistake_in_the_file_is_named(text: str, message: str, hint: str, tmp_path: Path) -> None:
    """With the file, and with what is near."""
    (tmp_path / FILE).write_text(text)

    with pytest.raises(DefinitionError) as error:
        _read(tmp_path)

    assert message in error.value.message
    assert str(tmp_path / FILE) in error.value.message
    assert hint in error.value.hint


@pytest.mark.parametrize("name", ["strandline", "strandline_dagster", "strandline_quality"])
def test_a_folder_that_would_hide_the_engine_is_refused(name: str, tmp_path: Path) -> None:
    """Python would import it instead of the engine's, and fail far from here."""
    (tmp_path / FILE).write_text("[project]\ntables = 'shop'\n")
    (tmp_path / name).mkdir()

    with pytest.raises(DefinitionError, match=f"{name} would hide a package of the engine"):
        _read(tmp_path)


def test_it_is_found_from_a_folder_inside(tmp_path: Path) -> None:
    """As git finds its own; and nowhere else."""
    (tmp_path / FILE).write_text("[project]\ntables = 'shop'\n[profile.dev]\nlake = 'here'\n")
    inside = tmp_path / "a" / "b"
    inside.mkdir(parents=True)

    found = _found(str(inside), is_named=False)

    assert found is not None
    assert (found.root, found.tables, dict(found.profiles)) == (
        tmp_path,
        "shop",
        {"dev": {"lake": "here"}},
    )


def test_without_one_the_tables_are_the_examples(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A wheel alone runs the demo."""
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.chdir(tmp_path)

    assert project() is None
    assert package() == "fleet"


def test_a_variable_that_leads_nowhere_is_an_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Otherwise a program in the background would run the example's tables."""
    monkeypatch.setenv(VARIABLE, str(tmp_path))

    with pytest.raises(DefinitionError, match=f"where no {FILE} is"):
        project()
