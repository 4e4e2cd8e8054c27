"""A process that feeds tables reads edited modules anew; what was not edited stays the object that it was."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark import cloudpickle
from strandline import catalog

from strandline.core.errors import DefinitionError
from strandline.engine.lake.lake import Lake
from strandline.engine.runtime.code_files import code_version
from strandline.engine.service import edited_code
from strandline.engine.service.edited_code import Loaded, LoadedCode, answer, ask, requested
from strandline.project import VARIABLE
from tests.cli.inside import succeeded


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Return the package of a project of one's own, whose tables this process reads."""
    kept = dict(sys.modules)
    with monkeypatch.context() as words:
        words.chdir(tmp_path)
        succeeded("init", tmp_path / "own_shop")
        words.setenv(VARIABLE, str(tmp_path / "own_shop"))
        edited_code._forget()
        yield tmp_path / "own_shop" / "own_shop"
    for name in {*sys.modules} - {*kept}:
        if name.partition(".")[0] == "own_shop":
            del sys.modules[name]
    with_value = cloudpickle.list_registry_pickle_by_value()  # type: ignore[no-untyped-call]
    assert with_value <= {"own_shop"}
    sys.path[:] = [each for each in sys.path if "own_shop" not in each]
    edited_code._forget()


def by_name() -> dict[str, object]:
    """Return the tables of the catalog."""
    return {table.id: table for table in catalog.tables()}


def module(project: Path, name: str) -> Path:
    """Return the module of a table."""
    layer, _, table = name.partition(".")
    return project / layer / f"{table}.py"


def names(project: Path) -> tuple[str, str, str]:
    """Return the tables that `init` wrote."""
    found = [f"{file.parent.name}.{file.stem}" for file in sorted(project.glob("*/*.py"))]
    (bronze, silver, gold) = (
        next(each for each in found if each.startswith(layer) and "__init__" not in each)
        for layer in ("bronze", "silver", "gold")
    )
    return bronze, silver, gold


def test_an_edited_module_and_those_that_import_it_are_read_anew_and_the_others_stay(
    project: Path,
) -> None:
    bronze, silver, gold = names(project)
    code, before = LoadedCode(), by_name()
    versions = {name: code_version(table) for name, table in before.items()}  # type: ignore[arg-type]
    file = module(project, gold)
    file.write_text(file.read_text().replace('"10 minutes"', '"20 minutes"'))

    after = {table.id: table for table in code.load()}

    assert after[bronze] is before[bronze]
    assert after[silver] is before[silver]
    assert after[gold] is not before[gold]
    assert code_version(after[gold]) != versions[gold]
    assert code_version(after[silver]) == versions[silver]
    assert code_version(before[gold]) == versions[gold]  # type: ignore[arg-type]  # its rows are of the code of before


def test_an_edit_below_reaches_all_above_and_a_comment_reaches_none(project: Path) -> None:
    bronze, silver, gold = names(project)
    code, before = LoadedCode(), by_name()
    file = module(project, silver)
    file.write_text(file.read_text() + "\n# a remark\n")
    assert {table.id: table for table in code.load()} == before

    file.write_text(file.read_text() + "\nMORE = 1\n")
    after = {table.id: table for table in code.load()}

    assert after[bronze] is before[bronze]
    assert after[silver] is not before[silver]
    assert after[gold] is not before[gold]
    assert after[gold].upstream[0] is after[silver]


@pytest.mark.parametrize("broken", ["def (\n", "raise RuntimeError('no')\n", "TABLE = 7\n"])
def test_a_module_that_cannot_be_read_leaves_all_as_it_was(project: Path, broken: str) -> None:
    bronze, silver, gold = names(project)
    code, before = LoadedCode(), by_name()
    sound = module(project, silver).read_text()
    module(project, silver).write_text(sound + broken)

    with pytest.raises(DefinitionError, match=f"{silver.partition('.')[2]}"):
        code.load()
    assert by_name() == before
    assert all(by_name()[name] is before[name] for name in (bronze, silver, gold))

    module(project, silver).write_text(sound)
    assert all(table is before[table.id] for table in code.load())


def test_a_helper_that_is_imported_from_its_package_is_read_anew(project: Path) -> None:
    """The package knows the former module too, and an import from there would ask no further."""
    _, silver, gold = names(project)
    helper = project / "kinds.py"
    helper.write_text("ROWS = 1\n")
    file = module(project, silver)
    file.write_text(file.read_text() + "\nfrom own_shop import kinds\n\nMINE = kinds.ROWS\n")
    edited_code._forget()
    for name in [each for each in sys.modules if each.startswith("own_shop.")]:
        edited_code._take_out(name)
    code, before = LoadedCode(), by_name()
    assert sys.modules[f"own_shop.{silver}"].MINE == 1

    helper.write_text("ROWS = 2222\n")
    after = {table.id: table for table in code.load()}

    assert sys.modules[f"own_shop.{silver}"].MINE == 2222
    assert after[gold] is not before[gold]


def test_a_table_comes_with_its_module_and_goes_with_it(project: Path) -> None:
    _, silver, gold = names(project)
    code = LoadedCode()
    name = gold.partition(".")[2]
    text = module(project, gold).read_text().replace(f'name="{name}"', 'name="more"')
    more = module(project, "gold.more")
    more.write_text(text)
    assert "gold.more" in {table.id for table in code.load()}

    more.unlink()
    assert "gold.more" not in {table.id for table in code.load()}
    assert silver in by_name()


def test_who_asks_gets_the_answer_to_the_own_request(lake: Lake) -> None:
    seen: list[str] = []

    def is_there() -> bool:
        asked = requested(lake)
        if asked is not None:
            seen.append(asked.mark)
            answer(lake, Loaded(mark=asked.mark, changed=asked.hold))
        return True

    answer(lake, Loaded(mark="another", changed=("gold.other",)))
    found = ask(lake, is_there, ["gold.t"], patience=5)

    assert found is not None
    assert (found.mark, found.changed) == (seen[-1], ("gold.t",))
    assert ask(lake, lambda: False) is None


def test_what_the_stream_could_not_load_is_an_error_with_its_sentence(lake: Lake) -> None:
    def is_there() -> bool:
        asked = requested(lake)
        if asked is not None:
            error = DefinitionError("silver/x.py:7: no", hint="correct it.")
            answer(lake, edited_code.refused(asked.mark, error))
        return True

    with pytest.raises(
        DefinitionError, match=r"goes on by the code of before: silver/x.py:7"
    ) as found:
        ask(lake, is_there, patience=5)
    assert found.value.hint == "correct it."
