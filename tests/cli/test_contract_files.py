"""The file of a contract of others: read, whatever it has, and drafted from without a word of it being code."""

import ast
import re
from pathlib import Path
from typing import Any

import pytest

from strandline.core.errors import DefinitionError
from strandline.operate.drafts import contract_import
from strandline.operate.drafts.contract import COUNTED, OURS, differences
from strandline.operate.drafts.contract_file import read

HOSTILE = "x\nimport os; os.system('id')\n# \x1b[2J\u202e\0\u2028\x0c\x85" + "y" * 1_000


def test_no_text_of_others_is_code_of_the_module() -> None:
    """Nor moves a cursor: each is in one comment, of signs that are seen, however long it is."""
    ours = {"property": OURS, "value": {"holds": f"a / {HOSTILE}", "onFail": "quarantine"}}
    schema: dict[str, Any] = {
        "name": "t",
        "properties": [
            {"name": "a", "logicalType": "string", "relationships": [{"to": HOSTILE}]},
            {"name": HOSTILE},
            {"name": "b", "logicalType": "object", "physicalType": HOSTILE},
        ],
        "quality": [
            {"name": HOSTILE, "customProperties": [ours]},
            {"metric": HOSTILE, "description": HOSTILE},
        ],
        "relationships": [{"from": HOSTILE, "to": HOSTILE}],
    }
    clean = contract_import.drafted("orders", schema | {"quality": [], "relationships": []})
    made = contract_import.drafted("orders", schema)
    about = {
        "id": HOSTILE,
        "version": HOSTILE,
        "description": {"purpose": HOSTILE},
        "team": {"name": HOSTILE},
    }
    text = contract_import.module_of(made, about, "records", "")

    assert len(made.left) == 6
    plain = contract_import.module_of(clean, {}, "records", "")
    assert [type(each) for each in ast.parse(text).body] == [
        type(each) for each in ast.parse(plain).body
    ]
    assert all(line.isprintable() for line in text.split("\n"))
    assert max(map(len, made.left)) == 300


@pytest.mark.parametrize(
    "text", ["a: [", "kind: Other", "kind: DataContract\napiVersion: v2.2.0", "", "- 1", "\0"]
)
def test_what_is_no_contract_is_refused_with_a_sentence(text: str, tmp_path: Path) -> None:
    """Whatever the file has."""
    file = tmp_path / "x.yaml"
    file.write_text(text)

    with pytest.raises(DefinitionError):
        read(file)
    with pytest.raises(DefinitionError, match="cannot be read"):
        read(tmp_path / "nothing.yaml")


HEAD = "apiVersion: v3.1.0\nkind: DataContract\n"
BOMB = "a: &a [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{chr(98 + n)}: &{chr(98 + n)} [{', '.join([f'*{chr(97 + n)}'] * 10)}]\n" for n in range(12)
)
ODD = {
    "a day that is none": "version: 2026-02-30",
    "many digits": f"version: {'9' * 5_000}",
    "many digits of sixteen": f"schema: [{{name: 0x{'f' * 5_000}}}]",
    "a value of another type": "version: !!timestamp x",
    "nested": f"x: {'[' * 2_000}",
    "no table": "schema: []",
    "names itself": "schema: [{name: t, properties: [&p {name: a, items: *p}]}]",
    "a bomb": f"schema: [{{name: t}}]\n{BOMB}",
    **{
        f"of a table: {each}": f"schema: [{{name: t, {each}}}]"
        for each in ("properties: {}", "properties: [x]", "quality: x", "quality: [5]", "relationships: [x]")
    },
    **{
        f"of a column: {each}": f"schema: [{{name: t, properties: [{{{each}}}]}}]"
        for each in (
            "logicalType: string", "name: 2024", "name: no", "name: a, primaryKey: true, primaryKeyPosition: x",
            "name: a, items: x", "name: a, logicalTypeOptions: 5", "name: a, quality: [{metric: 5}]", "name: a, required: maybe",
            "name: a, quality: [{metric: invalidValues, arguments: {validValues: 5}}]", "name: a, relationships: [{to: {}}]",
        )
    },
    **{
        f"of a promise: {each}": f"schema: [{{name: t}}]\nslaProperties: {each}"
        for each in ("x", "[x]", "[{property: retention}]", "[{value: 1}]", "[{property: retention, value: []}]")
    },
}  # fmt: skip


@pytest.mark.parametrize("text", ODD.values(), ids=ODD)
def test_a_mistake_in_a_contract_is_named_with_its_file(text: str, tmp_path: Path) -> None:
    """Wherever it is, however deep, and whatever it would be worth in memory."""
    file = tmp_path / "odd.yaml"
    file.write_text(HEAD + text)

    with pytest.raises(DefinitionError, match=r"odd\.yaml") as caught:
        read(file)
    assert caught.value.hint
    assert len(str(caught.value)) < 600


LAX = {
    "nothing": "schema: [{name: t, properties: null, quality: null}]\nslaProperties: null\nteam: null",
    "other types": "schema: [{name: t, relationships: [{from: [a, b], to: [c, d]}]}]\nteam: [x]\ndescription: [y]\nid: 5",
    "mixed values": "schema: [{name: t, properties: [{name: a, logicalType: string, quality: [{name: x, metric: invalidValues, mustBe: 0, arguments: {validValues: [1, a, true, null]}}]}]}]",
    "no bounds": "schema: [{name: t, properties: [{name: a, logicalType: number, logicalTypeOptions: {minimum: .nan, maximum: .inf, maxLength: true}}]}]",
    "a length of time": "schema: [{name: t}]\nslaProperties: [{property: retention, value: 1y}]",
}


@pytest.mark.parametrize("text", LAX.values(), ids=LAX)
def test_what_is_odd_but_no_mistake_is_compared_and_drafted_from(text: str, tmp_path: Path) -> None:
    """Nothing is a value that is not there."""
    file = tmp_path / "lax.yaml"
    file.write_text(HEAD + text)
    found = read(file)
    made = contract_import.drafted("orders", found["schema"][0])
    module = contract_import.module_of(made, found, "records", "")

    check = {"name": "x", "metric": "invalidValues", "arguments": {"validValues": ["b", 2, None]}}
    column = {"name": "a", "quality": [check], "relationships": [{"to": "x.y"}]}
    other = {
        "schema": [{"properties": [column]}],
        "slaProperties": [{"property": "retention", "value": 5, "unit": "d"}],
    }

    assert differences("t", found, found) == []
    assert differences("t", found, other)
    ast.parse(module)
    assert not any("between" in each for each in made.rules)


TYPES: list[tuple[dict[str, Any], str, str]] = [
    ({"physicalType": "bigint"}, "bigint", ""),
    ({"physicalType": "TIMESTAMP"}, "timestamp", ""),
    ({"physicalType": "VARCHAR(20)"}, "string", ""),
    ({"physicalType": "decimal(12,2)"}, "decimal(12,2)", ""),
    ({"logicalType": "number", "physicalType": "decimal(38,2)"}, "double", "decimal(38,2), which no number of JSON has"),
    ({"physicalType": "decimal(5,9)"}, "double", "decimal(5,9)"),
    ({"physicalType": "geography"}, "string", "is geography: it is read as a text"),
    ({}, "string", "is not said: it is read as a text"),
    ({"logicalType": "time"}, "string", "is time: it is read as a text"),
    ({"logicalType": "string", "physicalType": "bigint"}, "string", ""),
]  # fmt: skip


@pytest.mark.parametrize(("said", "kind", "left"), TYPES, ids=[str(each) for each, *_ in TYPES])
def test_a_column_is_of_the_type_that_is_said(said: dict[str, Any], kind: str, left: str) -> None:
    """By the engine's, where the logical one is not; what is read as another is left to a person."""
    made = contract_import.drafted("orders", {"properties": [{"name": "a", **said}]})

    assert made.fields["a"].dataType.simpleString() == kind
    assert [left in each for each in made.left] == ([True] if left else [])


def sql(condition: str, **more: object) -> dict[str, Any]:
    query = f"{COUNTED.removesuffix('NOT ')}{condition}"
    return {"type": "sql", "query": query, "mustBe": 0, **more}


def invalid(**more: object) -> dict[str, Any]:
    return {"metric": "invalidValues", "arguments": {"validValues": ["x"]}, **more}


CHECKS: list[tuple[dict[str, Any], str]] = [
    (sql("a = 'two  blanks'"), ""),
    (sql("length(a) > 3 AND NOT b BETWEEN 1 AND 2 OR a LIKE 'x%' AND place.city IS NULL"), ""),
    (sql("${column} IN ('x', 'y')"), ""),
    (invalid(mustBe=0), ""),
    (invalid(mustBe=0) | {"arguments": {"validValues": ["x", None]}}, ""),
    (invalid(mustBe=0) | {"arguments": {"validValues": [None]}}, "asks nothing"),
    (invalid(mustBeLessThan=50, unit="percent"), "asks nothing that a rule of a row can say"),
    (invalid(), "asks nothing that a rule of a row can say"),
    (
        {"metric": "invalidValues", "arguments": {"pattern": "^x"}, "mustBeLessThan": 5},
        "asks nothing",
    ),
    (sql("a > 1 GROUP BY a"), "GROUP, which is no column"),
    (sql("b > 1) OR (true"), "brackets that do not match"),
    (sql("(b > 1"), "brackets that do not match"),
    (sql("b > 1; DROP TABLE x"), "a second statement"),
    (sql("price > 1"), "price, which is no column"),
    (sql("t.price > 1"), "t, which is no column"),
    (sql('"b" > 1'), "a text here and a column elsewhere"),
    (sql("reflect('java.lang.System', 'exit', 1) = 'x'"), "has reflect"),
    (sql("a RLIKE '(x?)*y'"), "RLIKE, which is no column"),
    (sql("regexp_like(a, '(x?)*y')"), "a call of regexp_like"),
]


@pytest.mark.parametrize(("check", "left"), CHECKS, ids=[str(each) for each, _ in CHECKS])
def test_a_check_of_others_is_a_rule_where_it_asks_for_one_row(
    check: dict[str, Any], left: str
) -> None:
    """By its own letters; of all else nothing is guessed, and no code of others is called."""
    properties: list[dict[str, Any]] = [
        {"name": "a", "logicalType": "string", "quality": [check]},
        {"name": "b", "logicalType": "integer"},
        {"name": "place", "logicalType": "object", "properties": [{"name": "city", "logicalType": "string"}]},
    ]  # fmt: skip
    made = contract_import.drafted("orders", {"properties": properties})

    assert (len(made.rules), len(made.left)) == ((0, 1) if left else (1, 0))
    assert left in "".join(made.left)
    if "blanks" in str(check):
        assert "two  blanks" in made.rules[0]


def test_nothing_may_be_one_of_the_values_that_are_listed() -> None:
    """It is no text of the list, and passes although the column is required otherwise."""
    check = invalid(mustBe=0) | {"arguments": {"validValues": ["x", None]}}
    column = {"name": "a", "logicalType": "string", "required": True, "quality": [check]}
    (rule,) = contract_import.drafted("orders", {"properties": [column]}).rules

    assert "null_ok=True" in rule
    assert "None" not in rule


def test_no_rule_hides_another_and_no_table_is_lost() -> None:
    """Two checks without a name have two; what the draft leaves out is named."""
    checks = [
        sql("a > 1"),
        sql("a > 2"),
        sql("a > 3", name="Check of a"),
        invalid(mustBe=0),
        invalid(mustBe=0),
    ]
    properties = [{"name": "a", "logicalType": "integer", "quality": checks}]
    made = contract_import.drafted("orders", {"properties": properties}, [{"name": "customers"}])
    names = re.findall(r'name="(\w+)"', "".join(made.rules))

    assert names == ["check_of_a", "check_of_a_2", "Check_of_a_3"]
    assert len(made.rules) == 4
    assert "a second check is not_listed:a" in "".join(made.left)
    assert "a table customers as well" in made.left[0]
