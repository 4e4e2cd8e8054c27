"""The claims of the front page and of its pages are true: paths exist, commands parse, lists are complete."""

import re
import shlex
from collections.abc import Sequence
from dataclasses import MISSING, Field, fields
from itertools import pairwise
from typing import get_args

import pytest
import typer

from strandline.cli import main
from strandline.cli.verbs.ledger import SHEET
from strandline.core.table import Table
from strandline.engine.ask.locate import Verdict
from strandline.engine.runtime.settings import FIELDS, PREFIX
from strandline_quality.findings import Verdict as DayVerdict
from tests.architecture.tree import library
from tests.docs.pages import (
    BLOCK,
    CODE,
    FOLDER,
    PAGES,
    README,
    ROOT,
    RUNBOOK,
    Link,
    anchors,
    examples,
    inline_commands,
    links,
    listed,
    name,
    shell_lines,
)

TYPED = {line for _, line in shell_lines()}
TARGETS = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
CONTAINERS = ("docker", "kubectl")
PLACES = re.compile(r"`((?:jobs|tests|infra|quality|orchestration)/[\w/.]+)`")
PAGE_IN_CODE = re.compile(r"infra/(?:docs/|runbooks/)?\w+\.md|README(?:\.md)?")


@pytest.fixture(scope="module")
def verbs() -> typer.core.TyperGroup:
    """Return the command line with all its verbs."""
    if not main.app.registered_commands:
        main._load([])
    group = typer.main.get_command(main.app)
    assert isinstance(group, typer.core.TyperGroup)
    return group


@pytest.mark.parametrize("link", links(), ids=str)
def test_a_link_leads_to_a_file_and_a_section(link: Link) -> None:
    """A reader who follows one event must not end at nothing."""
    assert link.target.exists()
    if link.section:
        assert link.section in anchors(link.target)


def test_the_front_page_leads_to_every_page() -> None:
    """A page without a link from the map is found by no reader."""
    linked = {link.target for link in links() if link.page == name(README)}

    assert {RUNBOOK, *FOLDER.glob("*.md")} - linked == set()


def test_every_page_is_found_by_the_tests() -> None:
    """A page in another folder would be checked by nothing."""
    pages = {path for path in (ROOT / "infra").rglob("*.md") if path.is_file()}

    assert pages == set(PAGES) - {README}


def test_a_path_in_a_sentence_exists() -> None:
    """Paths are also named without a link."""
    made = {example.path for example in examples()}
    named = {path for page in PAGES for path in PLACES.findall(page.read_text())}

    assert {path for path in named - made if not (ROOT / path).exists()} == set()


@pytest.mark.parametrize(("page", "line"), [*shell_lines(), *inline_commands()], ids=str)
def test_a_command_can_be_typed(page: str, line: str, verbs: typer.core.TyperGroup) -> None:
    """Each is parsed by the program that it is meant for."""
    program, *words = shlex.split(line)
    if program == "make":
        assert set(words) <= set(TARGETS), page
        return
    if program in CONTAINERS:
        assert all((ROOT / file).exists() for file in _files(words)), page
        if "--" not in words:
            return
        program, *words = words[words.index("--") + 1 :]  # what is typed in a container
    assert program == "strandline", page
    verb, *rest = words[2:] if words[0] == "--profile" else words
    assert verb in verbs.commands, page
    if rest or line in TYPED:  # a sentence may name a verb without its arguments
        verbs.commands[verb].make_context(verb, rest)


def _files(words: Sequence[str]) -> list[str]:
    """Return the files and folders of ours that a program of containers is given."""
    return [word for flag, word in pairwise(words) if flag in {"-f", "-k"}]


def test_the_front_page_begins_with_the_two_commands() -> None:
    """Hands and continuous integration use the same ones."""
    first = next(block for block in BLOCK.finditer(README.read_text()) if block["kind"] == "sh")

    assert first["text"].splitlines() == ["make demo", "make test"]
    assert "make test" in (ROOT / ".ci" / "run").read_text()


def test_the_balance_sheet_of_the_ledgers_page_has_the_columns_of_the_real_one() -> None:
    """A sheet that no command prints any more misleads its readers; the front page's picture is drawn from a real one."""
    text = (FOLDER / "ledger.md").read_text()
    pictures = [b["text"].splitlines() for b in BLOCK.finditer(text) if b["kind"] == "text"]
    sheet = next(lines for lines in pictures if lines[0].startswith(SHEET[0]))

    assert tuple(sheet[0].split()) == tuple(name for name in SHEET if name != "skipped")
    for line in sheet[1:]:
        assert len(line.split()) in {len(SHEET), len(SHEET) - 1}, line


def test_every_verb_has_a_row() -> None:
    """A verb that is not on its page is found by no reader."""
    text = (FOLDER / "verbs.md").read_text()
    named = {code.removeprefix("strandline ").split()[0] for code in CODE.findall(text)}

    assert set(main.VERBS) - named == set()


def test_every_setting_has_a_row() -> None:
    """A setting that is not on its page is found by no reader."""
    text = (FOLDER / "settings.md").read_text()
    settings = {PREFIX + field.upper() for field in FIELDS}

    assert {setting for setting in settings if f"`{setting}`" not in text} == set()


def test_every_kind_of_table_and_every_field_has_a_row() -> None:
    """A cell has whether the kind needs the field, may have it, or has no such field."""
    kinds = get_args(Table)
    known = {kind: {field.name: field for field in fields(kind)} for kind in kinds}
    cells = {kind: {each: need(known[kind][each]) for each in known[kind]} for kind in kinds}
    names, listing = [kind.__name__ for kind in kinds], listed("table_fields.md")
    rows = {row[0].strip("`"): row[2:] for row in table_rows("table_fields.md")}
    assert listing[: len(names)] == names
    assert rows["field"] == names
    assert {*listing[len(names) :]} == {field for kind in kinds for field in known[kind]}
    for field in listing[len(names) :]:
        assert rows[field] == [cells[kind].get(field, "") for kind in kinds], field


def need(field: Field[object]) -> str:
    has_default = field.default is not MISSING or field.default_factory is not MISSING
    return "may" if has_default else "needs"


def table_rows(page: str) -> list[list[str]]:
    lines = (FOLDER / page).read_text().splitlines()
    return [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in lines
        if line.startswith("|")
    ]


def test_every_verdict_has_a_meaning() -> None:
    """Programs act on verdicts, so the list of the page must be the list of the code."""
    named = set(CODE.findall((FOLDER / "verdicts.md").read_text()))

    assert {str(verdict) for verdict in (*Verdict, *DayVerdict)} - named == set()
    assert listed("verdicts.md") == [str(verdict) for verdict in DayVerdict]


def test_every_room_of_the_engine_has_a_row_from_the_top_floor_down() -> None:
    """The map must have the rooms of the import contract, in its order."""
    (contract,) = re.findall(
        r'containers = \["strandline\.engine"\]\nlayers = \[(.*?)\]',
        (ROOT / "pyproject.toml").read_text(),
        re.DOTALL,
    )
    rooms = re.findall(r"\w+", contract)

    shown = re.findall(
        r"^\| \[(\w+)\]\(\.\./\.\./jobs/strandline/engine/\1\)",
        (FOLDER / "rooms.md").read_text(),
        re.MULTILINE,
    )

    assert shown == rooms


def test_a_page_that_the_code_names_exists() -> None:
    """A hint that leads to nothing costs time when there is none."""
    named = {page for _, text in library() for page in PAGE_IN_CODE.findall(text)}

    assert {page for page in named if not (ROOT / page).exists()} == set()


def test_words_of_the_glossary_are_in_order() -> None:
    """A word is found without searching."""
    glossary = (FOLDER / "glossary.md").read_text()

    words = [word.lower() for word in re.findall(r"^\* \*\*([^*]+)\*\*", glossary, re.MULTILINE)]

    assert words == sorted(words)
    assert words
