"""The help has each verb once, whole; and what a verb reads, changes and ends with is said before it is typed."""

import json
import re
from pathlib import Path

import pytest

from strandline.cli import main
from strandline.cli.groups import ABOUT, GROUPS, NOTHING
from strandline.cli.verbs.project import own_endings
from strandline.core.errors import DataError, DefinitionError, TransientError
from strandline.operate import listener
from tests.cli.inside import strandline, succeeded
from tests.docs.pages import FOLDER
from tests.engine.written import small_lake

PAGE = (FOLDER / "verbs.md").read_text()
NARROW = {"COLUMNS": "80", "TERMINAL_WIDTH": "80"}
ASKED = (
    ("tables",),
    ("ledger", "--audit"),
    ("status",),
    ("logs",),
    ("probe", "stream"),
    ("metrics", "--once"),
    ("gate",),
    ("preflight",),
    ("query", "SELECT count(*) FROM silver.device_telemetry"),
)
"""Questions that are asked of a lake without Spark."""


def test_the_help_has_each_verb_once_in_a_line_that_is_whole() -> None:
    """Half of the lines ended in the middle of a sentence, and fifty verbs were one list."""
    page = succeeded("--help", env=NARROW).out

    lines = re.findall(r"^  ([a-z][a-z-]*) +(\S.*)$", page, re.MULTILINE)
    assert dict(lines) == {name: verb.line for name, verb in ABOUT.items()}
    assert len(lines) == len(ABOUT) == sum(map(len, GROUPS.values()))
    assert max(map(len, page.splitlines())) <= 80
    assert [group for group in GROUPS if f"\n{group}:\n" in page] == list(GROUPS)
    assert "..." not in page.replace("[ARGS]...", "")


def test_what_is_explained_is_what_can_be_typed() -> None:
    """A verb without its line would be missing in the help."""
    assert set(ABOUT) == set(main.VERBS)


def test_the_exit_codes_are_those_of_the_page_and_of_the_errors() -> None:
    """Two lists of one promise drift apart."""
    listed = {
        int(code): text for code, text in re.findall(r"^\| (\d+) \| (.+) \|$", PAGE, re.MULTILINE)
    }

    assert listed == listener.CODES
    assert {each.exit_code for each in (DataError, DefinitionError, TransientError)} < set(listed)
    for verb in ABOUT:
        for sentence in own_endings(verb):
            named = {int(code) for code in re.findall(r"\b\d\b", sentence)}
            assert named <= set(listed), (verb, sentence)


def test_a_verb_is_explained_with_the_endings_that_are_its_own() -> None:
    """They are those of its help, where they are written once."""
    text = succeeded("explain", "ledger").out
    facts = json.loads(succeeded("explain", "probe", "--json").out)

    assert "Exits with 4 when the sums differ, and names the batch." in text
    assert f"changes  {NOTHING}" in text
    assert facts["exits"]["3"] == "try again"
    (own,) = facts["of_its_own"]
    assert own.startswith("Exit with 0 if the stream")


def test_a_word_that_is_no_verb_is_refused_with_the_nearest() -> None:
    """Its exit code is the one that the page has for a wrong command."""
    answer = strandline("explain", "prefligt")

    assert answer.code == 2
    assert "did you mean 'preflight'?" in answer.err


@pytest.mark.whole
@pytest.mark.parametrize("words", ASKED, ids=lambda words: words[0])
def test_a_verb_that_says_that_it_changes_nothing_changes_nothing(
    words: tuple[str, ...], tmp_path: Path
) -> None:
    """No file of the lake comes, goes or is another."""
    lake = small_lake(tmp_path / "lake").root.local
    before = _files(lake)

    answer = strandline(*words, "--lake", lake)

    assert ABOUT[words[0]].changes.partition(";")[0] in {NOTHING, "a file with --to"}
    assert answer.code in listener.CODES
    assert answer.code != listener.UNFORESEEN, answer.err
    assert _files(lake) == before


@pytest.mark.parametrize("option", ["--delete", "--go", "--unmasked"])
def test_an_option_by_which_a_verb_changes_more_is_in_its_sentence(option: str) -> None:
    """``retire`` said that it changes no row, and ``--delete`` takes all rows of a table away."""
    helps = {verb: strandline(verb, "--help", env=NARROW).out for verb in ABOUT}
    having = {verb for verb, text in helps.items() if re.search(rf"{option}\b", text)}

    assert having
    assert [v for v in sorted(having) if option.strip("-") not in ABOUT[v].changes] == []


def _files(lake: Path) -> dict[str, bytes]:
    return {str(each): each.read_bytes() for each in lake.rglob("*") if each.is_file()}
