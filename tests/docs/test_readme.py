"""What the README says is so: its paths exist, its commands can be typed."""

import re
import shlex

import pytest
import typer

from jobs.cli import main
from jobs.run.settings import PREFIX, Settings
from tests.docs.readme import README, ROOT, examples, links, said, typed

SAID = set(said()) - set(typed())
TARGETS = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)


@pytest.fixture(scope="module")
def verbs() -> typer.core.TyperGroup:
    """Return the command line with all its verbs."""
    if not main.app.registered_commands:
        main._load([])
    group = typer.main.get_command(main.app)
    assert isinstance(group, typer.core.TyperGroup)
    return group


@pytest.mark.parametrize("path", links())
def test_a_link_leads_somewhere(path: str) -> None:
    """A reader who follows one event must not end at nothing."""
    assert (ROOT / path).exists()


def test_a_path_in_a_sentence_is_there() -> None:
    """Paths are also named without a link."""
    made = {example.path for example in examples()}
    named = set(
        re.findall(r"`((?:jobs|tests|infra|quality|orchestration)/[\w/.]+)`", README.read_text())
    )

    assert {path for path in named - made if not (ROOT / path).exists()} == set()


@pytest.mark.parametrize("line", [*typed(), *said()])
def test_a_command_can_be_typed(line: str, verbs: typer.core.TyperGroup) -> None:
    """Each is parsed by the program that it is meant for."""
    program, *words = shlex.split(line)
    if program == "make":
        assert set(words) <= set(TARGETS)
        return
    assert program == "strandline"
    verb, *rest = words
    assert verb in verbs.commands
    if rest or line not in SAID:  # a sentence may speak of a verb without its words
        verbs.commands[verb].make_context(verb, rest)


def test_every_verb_and_every_setting_is_in_the_readme() -> None:
    """What is not there is found by nobody."""
    text = README.read_text()

    assert {
        verb for verb in main.VERBS if f"`strandline {verb}" not in text and f"`{verb}`" not in text
    } == set()
    settings = {PREFIX + name.upper() for name in Settings.model_fields}
    assert {name for name in settings if name not in text} == set()


def test_words_of_the_glossary_stand_in_order() -> None:
    """So that one is found without searching."""
    glossary = README.read_text().partition("## Glossary")[2]

    words = [word.lower() for word in re.findall(r"^\* \*\*([^*]+)\*\*", glossary, re.MULTILINE)]

    assert words == sorted(words)
    assert words
