"""What verbs answer with ``--json`` is declared, documented and as it is printed; whatever the suite asks for is judged as well."""

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import typer
from typer.core import TyperGroup

from strandline.cli import main
from strandline.cli.answers import ANSWERS, Schema, schema
from tests.cli.inside import judge, strandline, succeeded
from tests.cli.test_help import load
from tests.docs.pages import FOLDER

GOLDEN = Path(__file__).with_name("answers.txt")
RENEW = "write it anew with `python -m tests.cli.test_json_answers` and read the difference"
PAGE = FOLDER / "json.md"
SILVER, GOLD = "silver.device_telemetry", "gold.device_signal_10m"
OF_NO_LAKE = {"lint", "doctor", "explain"}
ASKED = {
    "tables": (),
    "ledger": (),
    "cost": (),
    "moments": (),
    "moments show": (),
    "query": ("SELECT 1.5 AS a, NULL AS b, DATE '2026-11-20' AS c",),
    "why": ("device-telemetry/0/3",),
    "diff": (GOLD, "--from", "0", "--by", "device_id"),
    "drift": (),
    "history": (),
    "report": (),
    "compare": (),
    "quarantine list": (),
    "quarantine show": (SILVER,),
    "gate": (),
    "status": (),
    "preflight": (),
    "expire": (),
    "catalog status": (),
    "serve users": (),
    "mcp clients": (),
    "models list": (),
    "lint": (),
    "explain": ("ledger",),
}
"""What verbs that read are asked of a lake that was really filled; without Spark, but for the plans of preflight."""
QUICK = ("tables", "ledger", "why", "quarantine show", "status", "moments show")


def declared() -> Iterator[str]:
    """Yield the verbs that have ``--json``, each with the word of its own verb."""
    load()
    yield from _of(typer.main.get_group(main.app), "")


def _of(group: TyperGroup, before: str) -> Iterator[str]:
    for name, command in group.commands.items():
        whole = f"{before}{name}"
        if any("--json" in each.opts for each in command.params):
            yield whole
        if isinstance(command, TyperGroup):
            yield from _of(command, f"{whole} ")


def listed() -> str:
    """Return what each verb answers: a line for each field, with its type."""
    return "\n".join("\n".join([name, *_lines(schema(name), "  ")]) for name in ANSWERS) + "\n"


def _lines(found: Schema, at: str) -> Iterator[str]:
    for each in found.get("anyOf", [found]):
        kind = each.get("enum") or each.get("type", "anything")
        if "anyOf" not in each:
            yield f"{at}: {' or '.join(kind) if isinstance(kind, list) else kind}"
        for name, inner in each.get("properties", {}).items():
            yield from _lines(inner, f"{at}.{name}{'' if name in each['required'] else '?'}")
        more = each.get("additionalProperties")
        if isinstance(more, dict):
            yield from _lines(more, f"{at}.*")
        for inner in each.get("prefixItems", [each["items"]] if "items" in each else []):
            yield from _lines(inner, f"{at}[]")


def table_of_page() -> str:
    """Return the verbs of the page, each with what it answers."""
    rows = (
        f"| `{name}` | {'a record a line: ' if each.in_lines else ''}{each.says} |"
        for name, each in ANSWERS.items()
    )
    return "\n".join(("| verb | its answer |", "|---|---|", *rows)) + "\n"


def test_each_verb_with_json_has_a_schema_and_no_other() -> None:
    """A verb that is added without one is found here."""
    assert set(declared()) == set(ANSWERS)


def test_each_schema_is_one_and_the_fields_are_those_that_were_read() -> None:
    """A field that gets another name breaks programs of others: a reviewer sees it."""
    for name in ANSWERS:
        jsonschema.Draft202012Validator.check_schema(schema(name))
    assert listed() == GOLDEN.read_text(), RENEW


def test_the_page_has_each_verb_with_what_it_answers() -> None:
    """It is written from the declarations."""
    assert table_of_page() in PAGE.read_text(), f"put it into {PAGE.name}:\n{table_of_page()}"


def test_a_schema_is_printed_and_says_what_fields_are() -> None:
    """The words are those of the class that the answer is made of."""
    found = succeeded("explain", "quarantine", "list", "--schema").json

    assert found == json.loads(json.dumps(schema("quarantine list")))
    about = found["items"]["properties"]["open"]  # type: ignore[index]  # JSON
    assert about == {"type": "integer", "description": "How many rows wait for an operator."}
    assert "--schema" in succeeded("explain", "quarantine").out
    none = strandline("explain", "quarantine", "--schema")
    assert (none.code, "quarantine list" in none.err) == (2, True)
    assert strandline("explain", "ui", "--schema").code == 2


@pytest.mark.parametrize(
    "change",
    [
        lambda row: row.pop("rows"),
        lambda row: row.update(rows="3"),
        lambda row: row.update(extra=1),
    ],
    ids=["a field is gone", "a number is a text", "a field is new"],
)
def test_an_answer_that_is_otherwise_is_refused(filled: Path, change: Any) -> None:  # noqa: ANN401  # a lambda
    """What judges all answers of the suite sees each of these."""
    rows: Any = succeeded("tables", "--lake", filled, "--json").json
    judge(["tables", "--json"], json.dumps(rows))
    change(rows[0])

    with pytest.raises(jsonschema.ValidationError):
        judge(["tables", "--json"], json.dumps(rows))


@pytest.mark.slow
@pytest.mark.whole(*sorted(ASKED.keys() - set(QUICK)))
@pytest.mark.parametrize("verb", ASKED)
def test_what_a_verb_that_reads_answers_is_as_it_is_declared(filled: Path, verb: str) -> None:
    """Of a lake that has rows, a copy, a held record and a window."""
    lakes = (filled, filled) if verb == "compare" else ("--lake", filled)
    words = (*verb.split(), *ASKED[verb], *(() if verb in OF_NO_LAKE else lakes), "--json")

    answer = strandline(*words)

    assert answer.out, answer.err
    judge([str(word) for word in words], answer.out)


def test_several_events_are_answered_in_lines(filled: Path) -> None:
    """Each is a whole answer."""
    places = ("device-telemetry/0/0", "device-telemetry/0/3")
    answer = succeeded("why", *places, "--lake", filled, "--json")

    assert [json.loads(line)["event"] for line in answer.out.splitlines()] == [*places]


if __name__ == "__main__":
    GOLDEN.write_text(listed())
    text = PAGE.read_text()
    old = re.search(r"\| verb \| its answer \|\n(?:\|.*\n)+", text)
    assert old is not None
    PAGE.write_text(text.replace(old[0], table_of_page()))
    sys.stdout.write(f"wrote {GOLDEN.name} and {PAGE.name}\n")
