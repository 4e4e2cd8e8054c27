"""A new table runs, passes its test and keeps the house style before it is filled in."""

import json
import os
import shutil
from pathlib import Path

import pytest

from tests.architecture import tree
from tests.docs.pages import examples
from tests.support.project import TYPED, copied, ran, tried

WRITTEN = (
    "bronze/orders",
    "silver/orders",
    "gold/orders_10m",
    "gold/holds_10m",
)
IN_SQL = ("silver/returns", "gold/returns_10m", "gold/holds_1h")
"""Files of SQL; each has a test in Python, as the others have."""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy of the project with a new source and two new answers."""
    folder = copied(tmp_path_factory.mktemp("project"))
    for words in (
        ("topic", "orders"),
        ("silver", "orders", "--reads", "bronze.orders"),
        ("gold", "orders_10m", "--reads", "silver.orders"),
        ("gold", "holds_10m", "--reads", "gold.ip_holds"),
        ("topic", "returned"),
        ("silver", "returns", "--sql", "--reads", "bronze.returned"),
        ("gold", "returns_10m", "--sql", "--reads", "silver.returns"),
        ("gold", "holds_1h", "--sql", "--reads", "gold.ip_holds"),
    ):
        typed(folder, "new", *words)
    return folder


def typed(project: Path, *words: str) -> str:
    return ran(project, "-c", TYPED, *words)


@pytest.mark.whole
def test_the_catalog_knows_the_new_tables_and_what_they_read(project: Path) -> None:
    """A table that reads updated rows is recomputed, or the catalog would refuse it."""
    tables = {row["table"]: row["reads"] for row in json.loads(typed(project, "tables", "--json"))}

    assert tables["bronze.orders"] == "orders"
    assert tables["silver.orders"] == "bronze.orders"
    assert tables["gold.orders_10m"] == "silver.orders"
    assert "TABLE = Recomputed(" in (project / "jobs/fleet/gold/holds_10m.py").read_text()
    assert tables["gold.returns_10m"] == "silver.returns"
    assert "-- kind: Recomputed" in (project / "jobs/fleet/gold/holds_1h.sql").read_text()


@pytest.mark.slow
@pytest.mark.prove(alone="half a minute")
def test_the_new_tests_pass(project: Path) -> None:
    """So that the first red test is about what was filled in."""
    tests = [f"tests/{name.replace('/', '/test_')}.py" for name in (*WRITTEN, *IN_SQL)]

    # Those of the two silver tables run in three modes.
    assert "11 passed" in ran(project, "-m", "pytest", "-q", *tests)


@pytest.mark.whole
def test_the_golden_text_of_the_definitions_holds_with_the_new_tables(project: Path) -> None:
    """The rest of the suite stays as it was; this failed, and no message named `new` as the cause."""
    for name in ("orchestration/test_definitions.py", "orchestration/definitions.txt"):
        target = project / "tests" / name
        target.parent.mkdir(exist_ok=True)
        shutil.copy(tree.ROOT / "tests" / name, target)
    (project / "tests/architecture").mkdir(exist_ok=True)
    shutil.copy(tree.__file__, project / "tests/architecture/tree.py")
    tests = ["agreed", "asset_with_a_writer", "every_job"]

    answer = ran(
        project,
        *(
            "-m",
            "pytest",
            "-q",
            "-k",
            " or ".join(tests),
            "tests/orchestration/test_definitions.py",
        ),
    )

    assert "3 passed" in answer


@pytest.mark.whole
@pytest.mark.parametrize(
    ("verb", "broken"),
    [
        ("tables", "def ("),
        ("tables", "import nothing_like_it"),
        ("tables", "1 / 0"),
        ("produce", "import nothing_like_it"),
        ("doctor", "1 / 0"),
    ],
)
def test_a_module_that_cannot_be_read_is_named_with_its_line(
    verb: str, broken: str, tmp_path: Path
) -> None:
    """By each verb, whether it asks the catalog or needs the module itself."""
    project = copied(tmp_path)
    module = project / "jobs/fleet/silver/device_telemetry.py"
    lines = len(module.read_text().splitlines())
    with module.open("a") as file:
        file.write(f"{broken}\n")

    done = tried(project, "-c", TYPED, verb)

    assert done.returncode == 2, done.stderr
    assert f"jobs/fleet/silver/device_telemetry.py:{lines + 1}: " in done.stdout + done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.whole
@pytest.mark.parametrize(
    "tool",
    [
        ("ruff", "check", "--no-cache"),
        ("ruff", "format", "--check", "--no-cache"),
        ("mypy", "--cache-dir", os.devnull, "--follow-imports", "silent"),
    ],
    ids=lambda tool: " ".join(tool[:2]),
)
def test_the_new_modules_keep_the_house_style(tool: tuple[str, ...], project: Path) -> None:
    """From the first commit on; and so does the example of the pages, for mypy reads all that they import for half a minute."""
    (module, _) = (project / example.path for example in examples())
    module.write_text(examples()[0].text)
    try:
        ran(project, "-m", *tool, *(f"jobs/fleet/{name}.py" for name in WRITTEN), str(module))
    finally:
        module.unlink()


def test_the_new_tests_pass_the_lint(project: Path) -> None:
    """`make test` lints first; in a clone, where the engine is no library, as in a project."""
    tests = [f"tests/{name.replace('/', '/test_')}.py" for name in (*WRITTEN, *IN_SQL)]

    ran(project, "-m", "ruff", "check", "--no-cache", *tests)


REFUSED = {
    "gold orders_10m --reads silver.orders": "exists already",
    "gold Orders --reads silver.orders": "is no name for a table",
    "topic class": "a word of Python's own",
    "silver import --reads bronze.orders": "a word of Python's own",
    "gold list --reads silver.orders": "a word of Python's own",
    "silver required --reads bronze.orders": "needs for something else",
    "gold orders --reads silver.orders": "needs for something else",
    "gold spark --reads silver.orders": "needs for something else",
    "topic two-words": "is no name for a table",
    "silver bills --reads silver.orders": "such a table reads bronze",
    "gold bills --reads silver.bills": "there is no table silver.bills",
    "gold orders_10m --sql --reads silver.orders": "exists already",
    "gold returns_10m --sql --reads silver.returns": "exists already",
}
TYPE_ALL = """
import contextlib, io, json, sys
from strandline.cli.main import main
answers = {}
for line in json.loads(sys.argv[1]):
    sys.argv = ["strandline", "new", *line.split()]
    with contextlib.redirect_stderr(io.StringIO()) as errors:
        try:
            main()
        except SystemExit as end:
            answers[line] = [end.code, errors.getvalue()]
print(json.dumps(answers))
"""


@pytest.fixture(scope="module")
def refused(project: Path) -> dict[str, tuple[int, str]]:
    """Type what cannot be written, line after line; see that nothing is written and return each message."""
    before = {file: file.read_bytes() for file in project.rglob("*.py")}
    answers: dict[str, tuple[int, str]] = json.loads(
        ran(project, "-c", TYPE_ALL, json.dumps(list(REFUSED)))
    )
    assert {file: file.read_bytes() for file in project.rglob("*.py")} == before
    return answers


@pytest.mark.whole
@pytest.mark.parametrize(("line", "message"), REFUSED.items())
def test_what_cannot_be_written_is_refused_with_a_hint(
    line: str, message: str, refused: dict[str, tuple[int, str]]
) -> None:
    """And nothing is overwritten."""
    code, printed = refused[line]

    assert code == 2
    assert message in printed
    assert "hint:" in printed


@pytest.mark.whole
def test_a_draft_of_silver_has_a_share_of_rows_that_may_break_its_rules(project: Path) -> None:
    """Without a share no batch is too bad, and a producer that changed empties the table in silence."""
    shares = json.loads(
        ran(
            project,
            "-c",
            "import json; from fleet.silver.orders import TABLE;"
            "print(json.dumps({r.name: [r.max_failed, r.weight] for r in TABLE.rules}))",
        )
    )

    assert shares == {
        "missing:event_id": [0.2, "critical"],
        "missing:event_at": [0.2, "critical"],
    }
