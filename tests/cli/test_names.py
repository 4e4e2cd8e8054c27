"""Names that were nearly right, names that a shell completes, and the version."""

from importlib.metadata import version

import pytest
from strandline import catalog

from strandline.core.errors import DefinitionError
from tests.cli.inside import strandline, succeeded


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("silver.device_telemetri", "did you mean silver.device_telemetry"),
        ("gold.devices", "did you mean silver.devices?"),
        (
            "device_telemetry",
            "did you mean bronze.device_telemetry or silver.device_telemetry?",
        ),
        ("silver.nothing", "the tables are "),
    ],
)
def test_a_table_that_is_nearly_right_is_named(typed: str, meant: str) -> None:
    """Also when only the layer is another one."""
    with pytest.raises(DefinitionError) as refused:
        catalog.find(typed)

    assert refused.value.hint.startswith(meant)


def test_a_verb_that_is_nearly_right_is_named() -> None:
    answer = strandline("querry")

    assert answer.code == 2
    assert "Did you mean 'query'?" in answer.err


def test_the_version_is_that_of_the_package() -> None:
    assert succeeded("--version").out == f"strandline {version('strandline')}\n"


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("strandline wh", ["why", "who"]),
        ("strandline ledger silver.device_t", ["silver.device_telemetry"]),
        ("strandline why e1 --in gold.confirmed", ["gold.confirmed_logins"]),
        ("strandline quarantine repl", ["replay"]),
        ("strandline query x --form", ["--format"]),
    ],
)
def test_a_shell_completes_verbs_options_and_tables(line: str, offered: list[str]) -> None:
    """As bash asks: the line and the word in the environment."""
    asked = {
        "_STRANDLINE_COMPLETE": "complete_bash",
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(line.split()) - 1),
    }

    answer = strandline(env=asked)

    assert answer.out.split() == offered, answer.printed


def test_the_completion_script_of_a_shell_is_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines for one's own profile; whether tests run below a shell is no matter of theirs."""
    monkeypatch.setattr("shellingham.detect_shell", lambda: ("bash", "/bin/bash"))

    assert "_STRANDLINE_COMPLETE=complete_bash" in succeeded("--show-completion").out
