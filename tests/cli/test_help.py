"""The help is a page of the manual: it is read in review, and every example in it is valid."""

import re
import shlex
from collections.abc import Mapping
from pathlib import Path

import pytest
import typer
from typer.core import TyperCommand
from typer.testing import CliRunner

from strandline.cli import main

GOLDEN = Path(__file__).with_name("help.txt")
RENEW = "write it anew with `python -m tests.cli.test_help` and read the difference"


def load() -> None:
    """Let the program know all of its verbs."""
    if not main.app.registered_commands:
        main._load([])


def help_of(*words: str) -> str:
    """Return what the help of a verb prints on a terminal of 100 columns."""
    runner = CliRunner(env={"COLUMNS": "100", "TERMINAL_WIDTH": "100", "NO_COLOR": "1"})
    result = runner.invoke(main.app, [*words, "--help"], prog_name="strandline")
    assert result.exit_code == 0, result.output
    return result.output


def whole() -> str:
    """Return the help of the program and of each verb."""
    load()
    verbs = ((), *((verb,) for verb in main.VERBS))
    return "\n".join(f"$ strandline {' '.join((*v, '--help'))}\n{help_of(*v)}" for v in verbs)


def examples(page: str) -> dict[str, list[list[str]]]:
    """Return the examples of each verb, as lists of words."""
    found: dict[str, list[list[str]]] = {}
    verb = ""
    for line in page.splitlines():
        if line.startswith("$ strandline "):
            verb = line.split()[2]
        elif re.match(r" +strandline ", line):
            found.setdefault(verb, []).append(shlex.split(line)[1:])
    return found


def test_the_help_is_the_one_that_was_read() -> None:
    """A reviewer sees each change of a text."""
    assert whole() == GOLDEN.read_text(), RENEW


@pytest.fixture(scope="module")
def commands() -> Mapping[str, TyperCommand]:
    """Return the program's verbs."""
    load()
    return typer.main.get_command(main.app).commands  # type: ignore[attr-defined,no-any-return]  # an app of several verbs


@pytest.mark.parametrize("verb", list(main.VERBS))
def test_a_verb_has_examples_that_can_be_typed(
    verb: str, commands: Mapping[str, TyperCommand]
) -> None:
    """An example is what most people read first, and many read last; the page is the real one (see the test above)."""
    found = examples(GOLDEN.read_text()).get(verb, [])

    assert found
    for words in found:
        assert words[0] == verb
        commands[words[0]].make_context(words[0], words[1:])


def test_no_verb_is_missing_from_the_table_by_which_it_is_loaded() -> None:
    """A verb that its module registers and the table does not name could not be typed."""
    load()

    known = [*main.app.registered_commands, *main.app.registered_groups]
    assert {command.name for command in known} == set(main.VERBS)


if __name__ == "__main__":
    GOLDEN.write_text(whole())
