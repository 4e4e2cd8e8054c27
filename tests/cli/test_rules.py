"""``strandline rules``: what there is, what is broken, and what rules say of an event; without a broker."""

import json
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from fleet.silver import process_events
from strandline.engine.lake.lake import Lake
from tests.cli.inside import strandline, succeeded
from tests.rules.sigma import broken
from tests.support.rows import NOON

CERTUTIL = {"Image": r"C:\Windows\System32\certutil.exe", "CommandLine": "certutil -decode a b"}


@pytest.fixture
def event(tmp_path: Path) -> Path:
    """Return a file with the start of a program."""
    file = tmp_path / "event.json"
    file.write_text(json.dumps(CERTUTIL))
    return file


def test_the_starter_rules_are_listed_with_version_and_owner() -> None:
    listed = succeeded("rules", "list", "--json").json

    assert {rule["file"] for rule in listed} >= {"process_certutil_decodes_a_file.yml"}
    assert [rule["file"] for rule in listed if not (rule["version"] and rule["owner"])] == []


def test_attack_tags_are_counted() -> None:
    counted = succeeded("rules", "list", "--attack", "--json").json

    assert {"tag": "attack.t1140", "rules": 1} in counted


def test_lint_finds_nothing_in_the_starter_rules() -> None:
    found = succeeded("rules", "lint", "--json").json

    assert found["refused"] == []
    assert found["lacking"] == []


def test_lint_names_what_does_not_run_and_exits_with_2(tmp_path: Path) -> None:
    (tmp_path / "good.yml").write_text(broken.GOOD.format(title="good", number=2))
    (tmp_path / "bad.yml").write_text(broken.about("Colour", "red"))

    answer = strandline("rules", "lint", tmp_path)

    assert answer.code == 2
    assert "bad.yml: unknown field Colour" in answer.out
    assert "good.yml: runs, and lacks an event on which it must fire" in answer.out
    assert "1 rules run, 1 do not" in answer.out


def test_a_folder_that_is_not_there_is_named() -> None:
    answer = strandline("rules", "list", "nowhere")

    assert answer.code == 2
    assert "there is no folder nowhere" in answer.err


def test_explain_shows_what_fires(event: Path) -> None:
    answer = succeeded("rules", "explain", event)

    assert "fires: Certutil turns a text into a program (high," in answer.out


def test_explain_shows_the_clause_that_fails_in_a_near_miss(tmp_path: Path) -> None:
    """And no value of the event, which may be masked elsewhere."""
    event = tmp_path / "event.json"
    event.write_text(json.dumps(CERTUTIL | {"CommandLine": "certutil -dump SECRET"}))

    answer = succeeded("rules", "explain", event)

    assert "near miss, 1 of 2 parts hold: Certutil turns a text into a program" in answer.out
    assert "none of: CommandLine contains '-decode'" in answer.out
    assert "SECRET" not in answer.printed


def test_explain_says_that_a_field_is_missing(tmp_path: Path) -> None:
    event = tmp_path / "event.json"
    event.write_text(json.dumps({"Image": r"C:\Windows\System32\vssadmin.exe"}))

    answer = succeeded("rules", "explain", event, "--json").json

    failing = [reason for each in answer for reason in each["failing"]]
    assert "not: CommandLine contains 'delete' (CommandLine is missing)" in failing


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "name one event"),
        (["event.json", "--event", "process-events/0/1"], "name one event"),
        (["nowhere.json"], "is no event"),
        (["--event", "seventeen"], "no place in Kafka"),
    ],
)
def test_explain_refuses_what_is_not_one_event(words: list[str], said: str) -> None:
    answer = strandline("rules", "explain", *words)

    assert answer.code == 2
    assert said in answer.err


def test_explain_refuses_a_field_that_no_table_has(tmp_path: Path) -> None:
    event = tmp_path / "event.json"
    event.write_text('{"Image": "x", "Colour": "red"}')

    answer = strandline("rules", "explain", event)

    assert answer.code == 2
    assert "has no column Colour" in answer.err


def test_explain_reads_an_event_of_the_lake(tmp_path: Path) -> None:
    """Its values come from silver, in the types of its columns."""
    lake = Lake(tmp_path)
    row = {"_topic": "process-events", "_partition": 0, "_offset": 17, **CERTUTIL}
    missing = {name: None for name in process_events.FIELDS.names if name not in row}
    table = pa.Table.from_pylist([{**row, **missing, "UtcTime": NOON, "ProcessId": 4}])
    texts = [n for n in table.column_names if pa.types.is_null(table.schema.field(n).type)]
    for name in texts:
        table = table.set_column(
            table.column_names.index(name), name, table[name].cast(pa.string())
        )
    write_deltalake(str(lake.table(process_events.TABLE)), table)

    found = succeeded("rules", "explain", "--event", "process-events/0/17", "--lake", tmp_path)
    absent = strandline("rules", "explain", "--event", "process-events/0/18", "--lake", tmp_path)

    assert "fires: Certutil turns a text into a program" in found.out
    assert absent.code == 2
    assert "strandline why process-events/0/18" in absent.err


@pytest.mark.whole
@pytest.mark.usefixtures("spark")
def test_the_examples_of_the_starter_rules_hold(tmp_path: Path) -> None:
    answer = succeeded("rules", "test", "--lake", tmp_path, "--json").json

    assert answer["broken"] == []
    assert answer["untested"] == 0
    assert answer["examples"] >= 2 * answer["rules"]


@pytest.mark.usefixtures("spark")
def test_an_example_that_contradicts_its_rule_is_named_and_the_exit_code_is_2(
    tmp_path: Path,
) -> None:
    own = "strandline: {fires_on: [{Image: y}, {Image: x}], quiet_on: [{Image: X}, {}]}"
    (tmp_path / "wrong.yml").write_text(broken.about("Image", "x") + own)

    answer = strandline("rules", "test", tmp_path, "--lake", tmp_path / "lake")

    assert answer.code == 2
    assert "wrong.yml: stays quiet on {'Image': 'y'}" in answer.out
    assert "wrong.yml: fires on {'Image': 'X'}" in answer.out
    assert "1 rules, 4 examples, 2 of them wrong" in answer.out
