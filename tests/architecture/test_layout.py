"""The shape that the design promises, read from the files themselves."""

import ast
import hashlib
import re
from functools import cache
from pathlib import Path

import pytest
from strandline import catalog

from strandline.core.table import Table
from strandline.engine.runtime.code_files import module_file
from tests.architecture.tree import ROOT, library, modules, tracked

LONGEST = 700
TABLES = catalog.tables()
PLAY = ROOT / "jobs" / "fleet" / "play" / "__init__.py"
INTERFACES = {
    ROOT / "jobs" / "strandline" / "__init__.py",
    ROOT / "orchestration" / "strandline_dagster" / "__init__.py",
}
"""The one package that a project is asked for by its name, as others have a module there: it has the play's function, and no more."""

# Written in halves, so that this file is not found by its own search.
ELSEWHERE = re.compile(
    r"https?:/" + r"/(?!127\.0\.0\.1|localhost|\{"  # any address that is not this machine's own
    r"|(?:store|prometheus):\d"  # nor that of a service of compose.yaml
    r"|www\.w3\.org/2000/svg)"  # nor the name of a format of pictures
    r"|repo1?\.maven"
    + r"\.org|pypi"
    + r"\.org|python"
    + r"hosted|artifact"
    + r"ory|jfrog"
    + r"\.io"
    r"|--(?:extra-)?index" + r"-url",
    re.IGNORECASE,
)
LICENCE = ROOT / "infra" / "LICENSE"
LICENCE_TEXT = "cfc7749b96f63bd31c3c42b5c471bf756814053e847c10f3eb003417bc523d30"
"""The hash of the Apache License 2.0 as its foundation publishes it, with two addresses of that foundation."""

THIS_MACHINE = re.compile(r"(?<![\w.}])/" + r"(?:work|root|home|Users|tmp/(?!second-opinion))/?\b")


def test_no_module_is_longer_than_a_reader_can_hold() -> None:
    """A module is an idea: what changes together is in one file, of at most 700 lines."""
    longer = {
        str(path.relative_to(ROOT)): lines
        for path in modules()
        if (lines := len(path.read_text().splitlines())) > LONGEST
    }

    assert not longer


def test_packages_hold_a_docstring_and_nothing_else() -> None:
    """Nothing happens at import, and every name has one path; the two that users import pass on the names of their interface."""
    for path in modules():
        if path.name == "__init__.py" and path not in {PLAY, *INTERFACES}:
            (only,) = ast.parse(path.read_text()).body
            assert isinstance(only, ast.Expr), path
            assert isinstance(only.value, ast.Constant), path


def test_the_play_is_a_package_with_one_function() -> None:
    """Nothing else happens at its import either."""
    _, *rest = ast.parse(PLAY.read_text()).body
    kinds = (ast.ImportFrom, ast.Assign, ast.FunctionDef)

    assert all(isinstance(node, kinds) for node in rest)
    assert [node.name for node in rest if isinstance(node, ast.FunctionDef)] == ["events"]


def test_each_room_of_the_engine_has_five_lines_of_docstring_and_a_folder_of_tests() -> None:
    """The docstring: what the room is for, what may enter, and where to begin reading."""
    rooms = {
        path.parent.name: path
        for path in modules()
        if path.match("jobs/strandline/engine/*/__init__.py")
    }
    tested = {path.parent.name for path in modules() if path.match("tests/engine/*/*.py")}

    assert tested == set(rooms)
    for room, path in rooms.items():
        docstring = ast.get_docstring(ast.parse(path.read_text())) or ""
        begin = re.search(r"Begin with (\w+)", docstring)
        assert len(docstring.splitlines()) <= 5, room
        assert begin, room
        assert path.with_name(f"{begin[1]}.py").is_file(), room


def test_each_folder_of_use_cases_says_where_to_begin() -> None:
    """As a room of the engine does."""
    room = ROOT / "jobs" / "strandline" / "operate"
    packages = (path for path in modules() if path.name == "__init__.py")
    folders = [path.parent for path in packages if path.is_relative_to(room)]

    assert {folder.name for folder in folders} == {"operate", "alerts", "drafts"}
    for folder in folders:
        docstring = ast.get_docstring(ast.parse((folder / "__init__.py").read_text())) or ""
        begin = re.search(r"Begin with (\w+)", docstring)
        assert len(docstring.splitlines()) <= 5, folder
        assert begin, folder
        assert (folder / f"{begin[1]}.py").is_file(), folder


def test_every_module_has_a_docstring() -> None:
    """Decisions live in the docstring of the module that they bind."""
    texts = ((path, path.read_text()) for path in modules())
    rest = (
        (path, text) for path, text in texts if not re.match(r'"""\S', text)
    )  # spares the parser
    silent = [str(path) for path, text in rest if not ast.get_docstring(ast.parse(text))]

    assert not silent


@pytest.mark.parametrize("table", TABLES, ids=str)
def test_a_table_is_described_in_its_module_and_tested_under_its_name(table: Table) -> None:
    """One name everywhere: the name of the table finds its code and its test."""
    module = module_file(table.layer, table.name)

    docstring = ast.get_docstring(ast.parse(module.read_text())) or ""

    assert "Grain:" in docstring
    assert "Reads:" in docstring
    assert "Late data:" in docstring
    assert (ROOT / "tests" / table.layer / f"test_{table.name}.py").is_file()


@pytest.mark.parametrize("table", TABLES, ids=str)
def test_a_table_is_the_last_statement_of_its_module(table: Table) -> None:
    """The declaration is where every reader looks for it."""
    module = module_file(table.layer, table.name)

    last = ast.parse(module.read_text()).body[-1]

    assert isinstance(last, ast.Assign)
    assert ast.unparse(last.targets[0]) == "TABLE"


@pytest.mark.parametrize(
    ("what", "doors"),
    [
        (r"\bisStreaming\b", {"jobs/strandline/core/stateful.py"}),
        (r"\bcase Batch\(", {"jobs/strandline/engine/flow/runner.py"}),
        (r"\bisinstance\([^)]*\b(?:Batch|AvailableNow|MicroBatch)\b", set()),
        (r"^\s*(?:import|from) dagster\b", {"orchestration"}),
        (r"^\s*(?:import|from) great_expectations\b", {"quality"}),
        (
            r"\b(?:readStream|writeStream)\b",
            {
                "jobs/strandline/engine/flow/query.py",
                "jobs/strandline/engine/flow/plan.py",
                "jobs/strandline/operate/lint.py",  # names what a table's function does not do
                "jobs/strandline/engine/flow/feed_query.py",
            },
        ),
        (
            r"\bdatetime\.(?:now|utcnow)\(|\bcurrent_timestamp\(",
            # The second is the clock of a streaming batch, which Spark notes in its plan: a batch that runs again has it again.
            {
                "jobs/strandline/engine/runtime/clock.py",
                "jobs/strandline/engine/flow/feed_query.py",
            },
        ),
        (
            r"\bBatchWriter\b|\bdropDuplicatesWithinWatermark\b",
            {"jobs/strandline/operate/lint.py"},  # as above
        ),
    ],
)
def test_what_must_have_one_door_has_one_door(what: str, doors: set[str]) -> None:
    """A second door is how batch and stream, or test and production, begin to differ."""
    found = {name for name, text in library() if re.search(what, _code(text), re.MULTILINE)}

    assert {name for name in found if not name.startswith(tuple(doors))} == set()


def test_the_environment_is_read_by_the_settings_alone() -> None:
    """Set-up is the exception, because it runs before settings can; and three options of libraries are variables only."""
    allowed = {
        "jobs/strandline/engine/runtime/settings.py",
        "jobs/strandline/engine/runtime/spark_session.py",
        "infra/strandline_infra/java.py",
        "infra/strandline_infra/installation.py",  # where a person's cache is
        "jobs/strandline/project.py",  # which project: the catalog is below the settings
    }
    allowed.add(
        "infra/strandline_infra/programs.py"
    )  # what Spark's driver says to a pod, by variables
    allowed.add("quality/strandline_quality/suite.py")
    allowed.add(
        "jobs/strandline/engine/runtime/processes.py"
    )  # with which program this one ends; no setting
    found = {name for name, text in library() if re.search(r"os\.environ|getenv", _code(text))}
    session = dict(library())["jobs/strandline/engine/runtime/spark_session.py"]

    assert found <= allowed
    assert set(re.findall(r'os\.environ\W(?:setdefault\()?"(\w+)"', session)) <= {
        "JAVA_HOME",
        "PYSPARK_PYTHON",
        "SPARK_AUTH_SOCKET_TIMEOUT",
        "SPARK_LOCAL_IP",
    }


def test_only_the_screen_prints() -> None:
    """An answer for a program must not be mixed with words for a person."""
    found = {
        name
        for name, text in library()
        if "print" in text
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "print"
    }

    assert not found


def test_no_address_of_an_index_and_no_path_of_one_machine_is_in_the_repository() -> None:
    """Where packages come from is the machine's affair, and a path of one machine works on one only."""
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()[:100]}"
        for path in tracked()
        if path != LICENCE
        for number, line in enumerate(_lines(path), 1)
        if ELSEWHERE.search(line) or THIS_MACHINE.search(line)
    ]

    assert not found


def test_the_licence_is_the_text_that_others_know() -> None:
    """A text that differs by a word is another licence."""
    assert hashlib.sha256(LICENCE.read_bytes()).hexdigest() == LICENCE_TEXT


def test_nothing_is_left_to_be_done_without_a_number() -> None:
    """What is missing belongs into an issue, where it is found."""
    found = [
        str(path)
        for path in modules()
        if re.search(r"\b(?:TO" + r"DO|FIX" + r"ME|XX" + r"X)\b", path.read_text())
    ]

    assert not found


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except UnicodeDecodeError:
        return []


@cache
def _code(text: str) -> str:
    """Return a module without its comments and docstrings, which may mention anything."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(
            node
        ):
            node.body = node.body[1:] or [ast.Pass()]
    return ast.unparse(tree)
