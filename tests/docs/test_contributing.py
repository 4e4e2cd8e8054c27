"""A newcomer finds the place of a question in two steps: from contributing.md to a page, a room or a file, and from that to the file."""

import ast
import re
import tomllib
from pathlib import Path

from tests.docs.pages import FOLDER, ROOT, anchors, links, name

CONTRIBUTING = FOLDER / "contributing.md"

QUESTIONS = {
    "where is a commit made atomic?": "jobs/strandline/engine/lake/commit/delta_commit.py",
    "where do I add a parser?": "jobs/strandline/core/parse.py",
    "what decides the size of a batch?": "jobs/strandline/engine/flow/batch/governor.py",
    "what makes a row late?": "jobs/strandline/core/kind.py",
    "why is a row in the quarantine?": "jobs/strandline/core/verdict.py",
    "what does an entry of the ledger hold?": "jobs/strandline/engine/lake/log/ledger.py",
    "who may write a table?": "jobs/strandline/engine/lake/locks.py",
    "which mode is a table computed in?": "jobs/strandline/engine/flow/runner.py",
    "how does a stream go on after a kill?": "jobs/strandline/engine/flow/batch/batch_writer.py",
    "which records of Kafka are read next?": "jobs/strandline/engine/kafka/slices.py",
    "where is a range computed again?": "jobs/strandline/engine/repair/backfill.py",
    "do the books balance?": "jobs/strandline/engine/accounting/balance_sheet.py",
    "what makes a certificate lapse?": "jobs/strandline/engine/runtime/code_files.py",
    "may older code read this lake?": "jobs/strandline/engine/lake/lake.py",
    "which settings are there?": "jobs/strandline/engine/runtime/settings.py",
    "how is Spark started?": "jobs/strandline/engine/runtime/spark_session.py",
    "with which exit code does an error end?": "jobs/strandline/core/errors.py",
    "where is a verb registered?": "jobs/strandline/cli/main.py",
    "what becomes of a rule of a table?": "quality/strandline_quality/rules.py",
    "where is a table shown as a check in Dagster?": "orchestration/strandline_dagster/resources.py",
}


def test_each_of_twenty_questions_is_answered_by_a_file_that_two_steps_lead_to() -> None:
    """What takes three is searched for, which is what the rooms are to spare."""
    first = _led_to(CONTRIBUTING)
    found = first | {place for step in first for place in _led_to(step)}

    assert len(QUESTIONS) == 20
    assert {ask for ask, path in QUESTIONS.items() if ROOT / path not in found} == set()
    assert [path for path in QUESTIONS.values() if not (ROOT / path).is_file()] == []


def _led_to(place: Path) -> set[Path]:
    """Return where a page leads by its links, and a room by the sentence of its docstring that says where to begin."""
    if place.suffix == ".md":
        return {each.target for each in links() if each.page == name(place)}
    room = place / "__init__.py"
    if not room.is_file():
        return set()
    docstring = ast.get_docstring(ast.parse(room.read_text())) or ""
    _, _, begin = docstring.partition("Begin with ")
    files = {place / f"{word}.py" for word in re.findall(r"\w+", begin)}
    return {each for each in files if each.is_file()}


def test_the_page_is_read_in_minutes() -> None:
    """Two minutes; a longer one is read later, which is never."""
    assert len(CONTRIBUTING.read_text().split()) < 900


def test_the_changelog_begins_with_the_version_that_the_wheel_has() -> None:
    """A release without its lines would be found out by those who upgrade."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    page = (FOLDER / "changelog.md").read_text()

    assert re.findall(r"^## (\d\S*)", page, re.MULTILINE)[0] == project["version"]
    assert "upgrade-while-it-runs" in anchors(FOLDER / "changelog.md")


def test_each_dependency_of_the_wheel_is_in_the_notices_with_its_licence() -> None:
    """A wheel that is shipped brings what it asks for."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = [
        each
        for extra, names in project["optional-dependencies"].items()
        if extra != "dev"
        for each in names
    ]
    notices = (ROOT / "infra" / "NOTICE").read_text()
    asked = {re.split(r"[^\w-]", each)[0] for each in [*project["dependencies"], *extras]}

    assert {
        each for each in asked if not re.search(rf"(?<![\w-]){each}(?![\w-])", notices)
    } == set()
