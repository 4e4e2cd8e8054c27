"""The example for Airflow types only what the command line understands; Airflow itself is in tests/e2e/test_airflow.py."""

import ast
import re

import pytest
import typer

from strandline.cli import main
from strandline.core.errors import DataError, DefinitionError, TransientError
from tests.architecture.tree import ROOT

EXAMPLE = ast.parse((ROOT / "infra/airflow/strandline_dag.py").read_text())
GIVEN = {"table": "silver.device_telemetry", "since": "2026-11-01", "until": "2026-11-02"}


def assigned(name: str) -> ast.expr:
    """Return the value of a name in the example."""
    (found,) = (
        node.value
        for node in ast.walk(EXAMPLE)
        if isinstance(node, ast.Assign)
        and name in {each.id for each in ast.walk(node.targets[0]) if isinstance(each, ast.Name)}
    )
    return found


def listed(words_node: ast.expr) -> list[str]:
    """Return the texts of a list, with those of the lists that are spread in it."""
    assert isinstance(words_node, ast.List)
    words: list[str] = []
    for each in words_node.elts:
        if isinstance(each, ast.Starred):
            words += listed(assigned(ast.unparse(each.value)))
        else:
            words.append(ast.literal_eval(each))
    return words


def filled(word: str) -> str:
    """Put the parameters of a run in the places that Airflow fills."""
    return re.sub(r"\{\{ params\.(\w+) \}\}", lambda found: GIVEN[found[1]], word)


def commands() -> list[list[str]]:
    """Return the words of each task, with the parameters of a run in their places."""
    lists = [
        keyword.value
        for node in ast.walk(EXAMPLE)
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "Strandline"
        for keyword in node.keywords
        if keyword.arg == "words"
    ]
    return [[filled(word) for word in listed(each)] for each in lists]


@pytest.mark.parametrize("words", commands(), ids=lambda words: words[0])
def test_a_task_types_what_the_command_line_understands(words: list[str]) -> None:
    """A verb that is renamed would otherwise be found at night, by a schedule."""
    if not main.app.registered_commands:
        main._load([])
    group = typer.main.get_command(main.app)
    assert isinstance(group, typer.core.TyperGroup)

    group.commands[words[0]].make_context(words[0], words[1:])


def test_what_is_not_tried_again_is_what_would_fail_again() -> None:
    """Exit codes are decided in jobs/strandline/core/errors.py; the example repeats two of them."""
    fix, look = ast.literal_eval(assigned("FIX"))

    assert (fix, look) == (DefinitionError.exit_code, DataError.exit_code)
    assert TransientError.exit_code not in {fix, look}


def test_nothing_of_ours_is_imported() -> None:
    """Airflow's environment is another one, with other versions of what both need."""
    imported = {
        (node.module or "").partition(".")[0]
        for node in ast.walk(EXAMPLE)
        if isinstance(node, ast.ImportFrom)
    }

    assert imported == {"airflow", "collections", "datetime", "pathlib"}
    assert not any(isinstance(node, ast.Import) for node in ast.walk(EXAMPLE))
