"""``strandline init`` makes a project and touches nothing that is there; what it makes runs in tests/e2e/test_package.py."""

import ast
import json
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import jsonschema
import pytest
import typer
import yaml
from strandline import catalog

from strandline.cli import main
from strandline.operate.drafts.scaffold import of_a_project
from tests.architecture import tree
from tests.cli.inside import strandline, succeeded


@pytest.fixture(autouse=True)
def _no_shop_of_another_test(monkeypatch: pytest.MonkeyPatch) -> None:
    """A project that was imported in this process would be an installed package of that name."""
    for name in [each for each in sys.modules if each.partition(".")[0] == "shop"]:
        monkeypatch.delitem(sys.modules, name)
    # The root of a project stays on the path of the process that has read it.
    elsewhere = [each for each in sys.path if not (Path(each) / "shop").is_dir()]
    monkeypatch.setattr(sys, "path", elsewhere)


@pytest.mark.parametrize(
    "name", ["Shop", "2shop", "class", "json", "pytest", "strandline", "tests", "a b"]
)
def test_a_name_that_is_no_package_is_refused(name: str, tmp_path: Path) -> None:
    """The hint has one that is."""
    answer = strandline("init", tmp_path / name)

    assert answer.code == 2
    assert "is no name for a project" in answer.err
    assert "hint: " in answer.err
    assert not (tmp_path / name).exists()


def test_a_name_that_no_folder_can_have_is_refused(tmp_path: Path) -> None:
    """That was an error of the file system, without a hint."""
    answer = strandline("init", tmp_path / ("x" * 300))

    assert answer.code == 2
    assert "it has 300 letters" in answer.err


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


def test_an_editor_is_given_schemas_that_its_files_fit(tmp_path: Path) -> None:
    """The first line of the TOML file names one, the settings of the editor the other; a mistake is underlined."""
    succeeded("init", "--demo", tmp_path / "park")
    root = tmp_path / "park"
    read = {
        name: json.loads((root / ".vscode" / name).read_text())
        for name in ("settings.json", "extensions.json")
    }
    ((named, files),) = read["settings.json"]["yaml.schemas"].items()
    first = (root / "strandline.toml").read_text().splitlines()[0]
    schema = json.loads((root / first.removeprefix("#:schema ")).read_text())
    project = tomllib.loads((root / "strandline.toml").read_text())

    jsonschema.validate(project, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**project, "profiles": {}}, schema)
    rules = [*root.glob(files)]
    assert rules
    for rule in rules:
        for each in yaml.safe_load_all(rule.read_text()):
            jsonschema.validate(each, json.loads((root / named).read_text()))
    assert "charliermarsh.ruff" in read["extensions.json"]["recommendations"]


def test_uv_finds_the_engine_where_it_was_installed_from(tmp_path: Path) -> None:
    """Otherwise it looks in a registry, which has another one or none; here it is this clone."""
    succeeded("init", tmp_path / "shop")
    written = tomllib.loads((tmp_path / "shop" / "pyproject.toml").read_text())

    assert written["tool"]["uv"]["sources"] == {
        "strandline": {"path": str(tree.ROOT), "editable": True}
    }
    assert written["dependency-groups"] == {"dev": ["shop[dev]"]}


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


LIBRARIES = {"numpy", "pyspark"}


@pytest.fixture(scope="module")
def park(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the example as a project of its own, under another name than its folder here has."""
    root = tmp_path_factory.mktemp("own") / "park"
    succeeded("init", "--demo", root)
    return root


def imported(text: str) -> Iterator[str]:
    """Yield the package of each import."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from (each.name.partition(".")[0] for each in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield str(node.module).partition(".")[0]


def is_dagsters(park: Path, file: Path) -> bool:
    """Return whether a file of the package is for Dagster, and has no table."""
    return file.relative_to(park / "park").parts[0] in {"definitions.py", "defs"}


def test_the_example_as_a_project_imports_the_public_interface_alone(park: Path) -> None:
    """Its tables, its model and its play; beside the libraries that they compute with."""
    texts = [
        file.read_text() for file in (park / "park").rglob("*.py") if not is_dagsters(park, file)
    ]
    found = {name for text in texts for name in imported(text)}

    assert found - LIBRARIES - sys.stdlib_module_names == {"strandline", "park"}


def test_the_example_as_a_project_has_all_that_the_example_has(park: Path) -> None:
    """Nothing of it needs more than a project may import, so nothing stays behind."""
    parts = ("bronze", "silver", "gold", "models", "play", "rules")
    example = tree.ROOT / "jobs" / "fleet"
    had = {
        file.relative_to(example) for part in parts for file in example.glob(f"{part}/*.[py][ym]*")
    }

    files = (park / "park").rglob("*.*")
    # A test before this one may have run the project, and Python has compiled it.
    there = {
        file.relative_to(park / "park")
        for file in files
        if file.suffix != ".pyc" and not is_dagsters(park, file)
    }

    assert had | {Path("alerts.py"), Path("__init__.py")} == there


def test_it_may_have_the_name_that_the_example_has_here(tmp_path: Path) -> None:
    """In a clone a package of this name is found already; the project's comes before it, with the same tables."""
    root = tmp_path / "fleet"
    succeeded("init", "--demo", root)

    shown = typed_in(root, tmp_path, "tables", "--json")

    assert [each["table"] for each in json.loads(shown)] == [each.id for each in catalog.tables()]


@pytest.mark.whole
def test_the_verbs_find_the_example_in_its_folder(park: Path, tmp_path: Path) -> None:
    """As they find any project, without a Spark."""
    (tmp_path / "lake").mkdir()
    tables = typed_in(park, tmp_path, "tables", "--json")
    verdicts = typed_in(park, tmp_path, "preflight", "--json")
    models = typed_in(park, tmp_path, "models", "list", "--json")

    assert [each["table"] for each in json.loads(tables)] == [each.id for each in catalog.tables()]
    assert json.loads(verdicts) == []  # there is no checkpoint yet that anything could contradict
    assert [each["model"] for each in json.loads(models)] == ["unusual_traffic"]


def typed_in(root: Path, folder: Path, *words: str, lake: bool = True) -> str:
    """Type a verb in the project's folder, and return what it answers."""
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "strandline.cli",
            *words,
            *(["--lake", str(folder / "lake")] if lake else []),
        ],
        cwd=root,
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": tree.search_path(tree.ROOT), "TZ": "UTC"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.whole
def test_the_example_as_a_project_keeps_the_lint_of_a_project(park: Path) -> None:
    """Its `make test` lints first."""
    for more in ([], ["--select", "I"]):
        done = subprocess.run(
            [sys.executable, "-m", "ruff", "check", "--no-cache", *more],
            cwd=park,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout


@pytest.mark.whole
def test_dagsters_own_commands_read_its_layout(tmp_path: Path) -> None:
    """As one that `create-dagster` made: `dg` checks it, lists its assets, and writes the YAML of a component into it."""
    root = tmp_path / "mill"
    succeeded("init", root)

    typed_to_dg(root, tmp_path, "check", "toml")
    typed_to_dg(root, tmp_path, "check", "defs")
    listed = json.loads(typed_to_dg(root, tmp_path, "list", "defs", "--json"))
    typed_to_dg(root, tmp_path, "scaffold", "defs", "dagster.PythonScriptComponent", "letters")

    assert {"bronze/orders", "silver/orders", "gold/sales_10m"} <= {
        each["asset_key"] for each in listed["assets"]
    }
    assert (root / "mill/defs/letters/defs.yaml").is_file()


def typed_to_dg(root: Path, folder: Path, *words: str) -> str:
    """Type a command of Dagster's in the project's folder, and return what it answers."""
    done = subprocess.run(
        [Path(sys.executable).with_name("dg"), *words],
        cwd=root,
        env={
            "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
            "HOME": str(folder),
            "PYTHONPATH": f"{root}:{tree.search_path(tree.ROOT)}",
            "DAGSTER_DG_UPDATE_CHECK_ENABLED": "0",
            "DAGSTER_DISABLE_TELEMETRY": "yes",
            "PYTHONWARNINGS": "ignore",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


ALL_TESTS = (
    "from tests import test_tables as t; [f() for n, f in vars(t).items() if n.startswith('test_')]"
)


@pytest.mark.whole
@pytest.mark.parametrize("demo", [[], ["--demo"]], ids=["shop", "example"])
def test_the_test_of_a_projects_tables_holds_with_tables_of_its_own(
    demo: list[str], tmp_path: Path
) -> None:
    """Whatever their names are: one of the example's, in SQL, or those that alerts bring."""
    root = tmp_path / "mill"
    succeeded("init", *demo, root)
    if not demo:
        of_it = (root / "mill/silver/orders.py").read_text().replace("orders", "device_telemetry")
        of_it = of_it.replace("bronze import device_telemetry", "bronze import orders")
        (root / "mill/silver/device_telemetry.py").write_text(of_it)
    reads = "silver.orders" if not demo else "silver.device_telemetry"
    typed_in(root, tmp_path, "new", "gold", "parts_10m", "--sql", "--reads", reads, lake=False)
    if not demo:
        typed_in(root, tmp_path, "new", "alerts", "large_order", "--reads", reads, lake=False)

    done = subprocess.run(
        [sys.executable, "-c", ALL_TESTS],
        cwd=root,
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": f"{root}:{tree.search_path(tree.ROOT)}"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr


def test_what_imports_more_of_the_engine_stays_behind_with_all_that_reads_it() -> None:
    """A project that was written with it would break with the next version."""
    texts = {
        "fleet.bronze.plain": "from strandline import Ingested\n",
        "fleet.silver.plain": "from fleet.bronze import plain as bronze\n",
        "fleet.bronze.deep": "from strandline.core.table import Ingested\n",
        "fleet.silver.deep": "from fleet.bronze import deep as bronze\n",
        "fleet.gold.deep": "import strandline_quality.rules\n",
    }

    assert of_a_project(texts) == {"fleet.bronze.plain", "fleet.silver.plain"}
