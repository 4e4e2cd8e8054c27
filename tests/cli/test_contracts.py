"""Contracts of tables: written in the Open Data Contract Standard, compared with what was released, and drafted from."""

import importlib
import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Unpack

import pytest
import yaml
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from fleet.silver import user_actions
from strandline.core.errors import DefinitionError
from strandline.core.kind import Fresh
from strandline.core.table import Judged
from strandline.operate.drafts import contract_import
from strandline.operate.drafts.contract import (
    changes,
    contract,
    differences,
    refuse_breaking,
    released_of,
    text_of,
)
from strandline.operate.drafts.contract_file import Contract
from strandline.operate.session import judge
from strandline_quality.rules import (
    OnFail,
    Options,
    Rule,
    Severity,
    between,
    matches,
    one_of,
    required,
)
from tests.architecture.tree import ROOT
from tests.support.project import TYPED, copied, ran, tried

COLUMNS = (
    StructType()
    .add("action_id", "string")
    .add("user_id", "string")
    .add("action", "string")
    .add("paid", "decimal(10,2)")
    .add("event_at", "timestamp")
    .add("place", StructType().add("city", "string"))
)
TABLE = replace(
    user_actions.TABLE,
    keeps="400 days",
    fresh="5 minutes",
    rules=(
        *required("action_id", "event_at"),
        one_of("action", ["login", "it's"], on_fail=OnFail.WARN),
        between("paid", 0, 100, max_failed=0.2, about="what a person pays"),
        matches("user_id", "^u"),
        Rule(name="odd", holds="paid > 1 OR action IS NULL", null_ok=True),
    ),
)


def of(table: Judged = TABLE, columns: StructType = COLUMNS) -> Contract:
    """Return a contract as a reader gets it."""
    found: Contract = yaml.safe_load(text_of(contract(table, columns)))
    return found


def without(name: str) -> StructType:
    return StructType([each for each in COLUMNS if each.name != name])


def test_a_contract_has_what_is_declared() -> None:
    """Types at each depth, the key, what is required and masked, each rule with its severity, owner and retention."""
    (schema,) = of()["schema"]
    by = {each["name"]: each for each in schema["properties"]}

    assert by["action_id"]["primaryKeyPosition"] == 1
    assert by["event_at"]["required"]
    assert by["user_id"]["classification"] == "restricted"
    assert by["place"]["properties"] == [
        {"name": "city", "logicalType": "string", "physicalType": "string"}
    ]
    (listed,) = by["action"]["quality"]
    assert listed["arguments"] == {"validValues": ["login", "it's"]}
    assert listed["severity"] == "warning"
    (paid,) = by["paid"]["quality"]
    assert (paid["severity"], paid["description"]) == ("error", "what a person pays")
    assert {each["name"] for each in schema["quality"]} == {"one row a key", "odd"}
    assert of()["team"] == {"name": TABLE.owner}
    assert of()["slaProperties"][0]["value"] == 400
    fresh = of()["slaProperties"][1]
    assert (fresh["property"], fresh["value"], fresh["unit"]) == ("freshness", 5, "m")
    assert fresh["element"] == "user_actions.event_at"


RULES = TABLE.rules
EDITS: list[tuple[str, Contract, bool]] = [
    ("column paid is gone", of(columns=without("paid")), True),
    ("column more is new", of(columns=StructType([*COLUMNS.fields]).add("more", "integer")), False),
    (
        "column paid was decimal(10,2) and is decimal(12,2)",
        of(columns=StructType([*without("paid")]).add("paid", "decimal(12,2)")),
        False,
    ),
    (
        "column paid was decimal(10,2) and is string",
        of(columns=StructType([*without("paid")]).add("paid", "string")),
        True,
    ),
    (
        "column place.city is gone",
        of(columns=StructType([*without("place")]).add("place", StructType().add("zip", "string"))),
        True,
    ),
    ("column action is masked", of(replace(TABLE, sensitive=("user_id", "action"))), True),
    ("column user_id is masked no more", of(replace(TABLE, sensitive=())), False),
    ("the table is no more checked by odd", of(replace(TABLE, rules=RULES[:-1])), True),
    (
        "the table is checked by new",
        of(replace(TABLE, rules=(*RULES, Rule(name="new", holds="paid < 9")))),
        False,
    ),
    ("column event_at can no more be NULL", of(), False),
    (
        "column action: the check not_listed:action takes 'pay' as well",
        of(
            replace(
                TABLE,
                rules=(
                    *RULES[:2],
                    one_of("action", ["login", "it's", "pay"], on_fail=OnFail.WARN),
                    *RULES[3:],
                ),
            )
        ),
        True,
    ),
    ("retention was 400 d and is 30 d", of(replace(TABLE, keeps="30 days")), True),
    ("retention was 400 d and is 800 d", of(replace(TABLE, keeps="800 days")), False),
    ("retention is promised no more", of(replace(TABLE, keeps=None)), False),
    (
        "freshness was 5 m by event and is 2 h by event",
        of(replace(TABLE, fresh="2 hours")),
        True,
    ),
    (
        "freshness was 5 m by event and is PT30S by event",
        of(replace(TABLE, fresh="30 seconds")),
        False,
    ),
    (
        "freshness was 5 m by event and is 5 m by arrival",
        of(replace(TABLE, fresh=Fresh("5 minutes", by="arrival"))),
        True,
    ),
    ("freshness is promised no more", of(replace(TABLE, fresh=None)), True),
    (
        "column action_id is another part of the key, or none",
        of(replace(TABLE, key=("user_id",))),
        True,
    ),
    ("it has another owner", of(replace(TABLE, owner="others")), False),
]


@pytest.mark.parametrize(("says", "now", "is_breaking"), EDITS, ids=[each[0] for each in EDITS])
def test_a_change_is_breaking_where_a_reader_may_fail(
    says: str,
    now: Contract,
    is_breaking: bool,  # noqa: FBT001  # of the list
) -> None:
    """And harmless otherwise; what is the same is no change."""
    before = of(replace(TABLE, rules=RULES[:1] + RULES[2:])) if "can no more" in says else of()

    found = {each.says: each.is_breaking for each in differences(TABLE.id, before, now)}

    assert found[says] is is_breaking
    assert differences(TABLE.id, before, before) == []
    assert any(found.values()) == is_breaking


def ruled(*rules: Rule) -> Contract:
    return of(replace(TABLE, rules=rules))


def total(holds: str = "paid > 1", **options: Unpack[Options]) -> Contract:
    return ruled(Rule(name="total", holds=holds, **options))


def listed(**options: Unpack[Options]) -> Contract:
    return ruled(one_of("action", ["a"], **options))


WEAKER: list[tuple[Contract, Contract, str]] = [
    (total(), total(on_fail=OnFail.WARN), "was of on_fail quarantine and is of warn"),
    (listed(), listed(on_fail=OnFail.WARN), "was of on_fail quarantine and is of warn"),
    (listed(), listed(null_ok=True), "takes NULL as well"),
    (total(), total(null_ok=True), "takes NULL as well"),
    (
        listed(on_fail=OnFail.WARN, max_failed=0.01),
        listed(on_fail=OnFail.WARN, max_failed=0.9),
        "may be broken by 90.0000% of a batch, and was by 1.0000%",
    ),
    (total(max_failed=0.01), total(max_failed=0.2), "may be broken by 20.0000% of a batch"),
]


@pytest.mark.parametrize(("before", "now", "says"), WEAKER, ids=[each for *_, each in WEAKER])
def test_a_rule_that_holds_fewer_rows_is_a_broken_promise(
    before: Contract, now: Contract, says: str
) -> None:
    """Rows are published that were held; the other way round nothing is broken."""
    (weaker,) = differences(TABLE.id, before, now)
    assert says in weaker.says
    assert weaker.is_breaking
    (stronger,) = differences(TABLE.id, now, before)
    assert not stronger.is_breaking


def test_a_check_of_others_is_compared_by_all_that_it_asks() -> None:
    """Also where it lists values."""
    check = {"name": "x", "metric": "invalidValues", "arguments": {"validValues": ["a"]}}
    before, now = (
        {"schema": [{"properties": [{"name": "a", "quality": [check | {"mustBeLessThan": most}]}]}]}
        for most in (1, 90)
    )
    (found,) = differences("t", before, now)
    assert found.says == "column a: the check x asks for something else"
    assert found.is_breaking
    (other,) = differences("t", total(), total("paid > 2"))
    assert "asks for something else" in other.says


RETENTION: list[tuple[tuple[object, str], tuple[object, str], list[bool]]] = [
    ((2, "y"), (5, "d"), [True]),
    ((5, "d"), (2, "years"), [False]),
    ((2, "y"), (730, "d"), []),
    ((2, "weeks"), (5, "d"), [True]),
    (("2y", "d"), (5, "d"), [True]),
]


@pytest.mark.parametrize(("was", "now", "found"), RETENTION)
def test_a_promise_is_compared_in_days(
    was: tuple[object, str], now: tuple[object, str], found: list[bool]
) -> None:
    """Whatever unit it is written in; what cannot be compared may be less."""
    before, after = (
        {"schema": [{}], "slaProperties": [{"property": "retention", "value": value, "unit": unit}]}
        for value, unit in (was, now)
    )
    assert [each.is_breaking for each in differences("t", before, after)] == found


@pytest.mark.parametrize(
    ("before", "now", "is_breaking"),
    [
        ("map<string,struct<a:int>>", "map<string,struct<a:bigint,b:string>>", False),
        ("map<string,struct<a:int,b:decimal(9,2)>>", "map<string,struct<a:int>>", True),
        ("map<string,array<int>>", "map<string,array<string>>", True),
        ("map<string,int>", "array<int>", True),
        ("map<string,int>", "string", True),
    ],
)
def test_a_type_within_a_map_is_compared_as_one(before: str, now: str, is_breaking: bool) -> None:  # noqa: FBT001  # of the list
    """A field that is new there harms no query."""
    (found,) = differences(
        "t",
        *(
            {"schema": [{"properties": [{"name": "m", "physicalType": each}]}]}
            for each in (before, now)
        ),
    )
    assert found.is_breaking is is_breaking


def test_the_contract_of_a_table_is_chosen_by_its_name(tmp_path: Path) -> None:
    """In a file of several tables; a file of others is refused, and so is one for no table."""
    file = tmp_path / "several.yaml"
    tables = [{"name": "other"}, {"name": "user_actions", "properties": [{"name": "gone"}]}]
    file.write_text(yaml.safe_dump({**of(), "schema": tables}))

    (first,) = released_of(TABLE, file)["schema"]
    assert first["properties"] == [{"name": "gone"}]
    file.write_text(yaml.safe_dump({**of(), "schema": tables[:1]}))
    with pytest.raises(
        DefinitionError, match=r"several\.yaml has no contract of silver.user_actions, but of other"
    ):
        released_of(TABLE, file)
    with pytest.raises(DefinitionError, match="none is named"):
        changes(None, file)


def test_a_breaking_change_ends_with_what_to_type() -> None:
    """With exit code 2, which a CI sees."""
    found = differences(TABLE.id, of(), of(columns=without("paid")))

    with pytest.raises(
        DefinitionError, match=r"break released contracts.*column paid is gone"
    ) as caught:
        refuse_breaking(found)
    assert "contract export silver.user_actions --release" in caught.value.hint
    assert caught.value.exit_code == 2


FOREIGN: dict[str, Any] = {
    "apiVersion": "v3.0.2",
    "kind": "DataContract",
    "id": "orders",
    "version": "2.1.0",
    "status": "active",
    "description": {"purpose": 'Orders of the "shop"'},
    "team": {"name": "sales"},
    "schema": [
        {
            "name": "Orders",
            "properties": [
                {
                    "name": "order_id",
                    "logicalType": "string",
                    "primaryKey": True,
                    "primaryKeyPosition": 1,
                },
                {"name": "ordered_at", "logicalType": "timestamp", "required": True},
                {
                    "name": "qty",
                    "logicalType": "integer",
                    "logicalTypeOptions": {"minimum": 1, "maximum": 9},
                },
                {"name": "price", "logicalType": "number", "physicalType": "DECIMAL(12, 2)"},
                {"name": "email", "logicalType": "string", "classification": "PII"},
                {
                    "name": "status",
                    "logicalType": "string",
                    "quality": [
                        {
                            "metric": "invalidValues",
                            "arguments": {"validValues": ["new", "paid"]},
                            "mustBe": 0,
                            "severity": "error",
                        },
                        {"type": "text", "description": "is what the shop says"},
                    ],
                },
                {
                    "name": "items",
                    "logicalType": "array",
                    "items": {
                        "logicalType": "object",
                        "properties": [{"name": "sku", "logicalType": "string"}],
                    },
                },
                {"name": "zip code", "logicalType": "string"},
                {"name": "_offset", "logicalType": "integer"},
            ],
            "quality": [
                {
                    "type": "sql",
                    "name": "not free",
                    "query": "SELECT COUNT(*) FROM ${table} WHERE price <= 0",
                    "mustBe": 0,
                },
                {
                    "type": "sql",
                    "query": "SELECT COUNT(*) FROM ${table} WHERE price / qty > 3",
                    "mustBe": 0,
                },
                {"metric": "rowCount", "mustBeGreaterThan": 10},
                {"type": "custom", "engine": "soda", "implementation": "checks: []"},
            ],
        }
    ],
    "slaProperties": [{"property": "retention", "value": 2, "unit": "y"}],
}


def test_the_checks_of_a_foreign_contract_are_rules_of_the_stream(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each by its name; what no rule can say is named, and no name and no query of others is run as it is."""
    module = _written(tmp_path, monkeypatch, FOREIGN)
    table = module.TABLE
    text = Path(str(module.__file__)).read_text()

    good = {
        "order_id": "o1",
        "ordered_at": "2026-11-20T11:30:00Z",
        "qty": 1,
        "price": 2,
        "status": "new",
    }
    edits: list[dict[str, Any]] = [
        {},
        {"qty": 10},
        {"price": -1},
        {"status": "odd"},
        {"ordered_at": None},
        {"order_id": None},
    ]
    rows = judge(spark, table, *(json.dumps(good | edit).encode() for edit in edits))

    assert [row["reasons"] for row in rows] == [
        None, ["out_of_range:qty"], ["not_free"], ["not_listed:status"], ["missing:ordered_at"], ["missing:order_id"],
    ]  # fmt: skip
    assert (table.owner, table.keeps, table.sensitive) == ("sales", "730 days", ("email",))
    for named in ("zip code", "_offset", "rowCount", "is what the shop says", "price / qty"):
        assert named in text


ROUND = (
    *RULES,
    *required("user_id", on_fail=OnFail.FAIL, max_failed=0.01),
    Rule(name="pos:paid", holds="`paid` > 0"),
    Rule(name="fails", holds="paid > 3", on_fail=OnFail.FAIL, max_failed=0.01, about="so it is"),
    Rule(name="shown", holds="paid > 2", severity=Severity.INFO),
    Rule(name="warns", holds="paid > 1", on_fail=OnFail.WARN, max_failed=0.5),
    matches("action", r"^\w+'s$", on_fail=OnFail.WARN),
)


def test_a_contract_that_was_exported_is_drafted_from_without_loss(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its rules are the same: by name and predicate, and in what becomes of rows and batches that break them."""
    table = _written(tmp_path, monkeypatch, of(replace(TABLE, rules=ROUND))).TABLE

    def said(rules: Sequence[Rule]) -> set[tuple[object, ...]]:
        return {(r.name, r.predicate, r.on_fail, r.weight, r.allowed, r.runs_as) for r in rules}

    assert said(table.rules) == said(ROUND)
    assert table.key == TABLE.key
    assert table.promise == TABLE.promise


@pytest.mark.parametrize("fresh", [Fresh("90 seconds", by="arrival"), Fresh("2 days"), None])
def test_a_promise_of_freshness_is_had_back_from_a_contract(
    fresh: Fresh | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = _written(tmp_path, monkeypatch, of(replace(TABLE, fresh=fresh))).TABLE

    assert (table.promise and (table.promise.length, table.promise.by)) == (
        fresh and (fresh.length, fresh.by)
    )


def _written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, found: Contract) -> Any:  # noqa: ANN401  # a module
    """Return the module that is drafted from a contract."""
    name = f"contracts_{tmp_path.name.replace('-', '_')}"
    root = tmp_path / name
    for folder in (root, root / "bronze", root / "silver"):
        folder.mkdir()
        (folder / "__init__.py").write_text("")
    (root / "bronze/records.py").write_text(
        'from strandline import Ingested, Topic\n\nTABLE = Ingested(name="records", reads=(Topic(name="records"),))\n'
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(contract_import, "package", lambda: name)
    made = contract_import.drafted("orders", found["schema"][0])
    text = contract_import.module_of(made, found, "records", "")
    (root / "silver/orders.py").write_text(text)
    importlib.invalidate_caches()
    return importlib.import_module(f"{name}.silver.orders")


@pytest.mark.whole
@pytest.mark.slow
def test_an_edit_that_breaks_a_contract_fails_in_the_ci_that_init_wrote(tmp_path: Path) -> None:
    """The step is in the file, nothing is wrong before a contract is released, and the edit ends it with 2."""
    step = (ROOT / "infra/strandline_infra/project/.github/workflows/test.yml.txt").read_text()
    assert "strandline contract diff" in step
    project = copied(tmp_path)
    module = project / "jobs/fleet/silver/user_confirmations.py"

    ran(project, "-c", TYPED, "contract", "diff")
    ran(project, "-c", TYPED, "contract", "export", "silver.user_confirmations", "--release")
    assert "nothing has changed" in ran(project, "-c", TYPED, "contract", "diff")
    module.write_text(module.read_text().replace('.add("method", StringType())\n', ""))
    done = tried(project, "-c", TYPED, "contract", "diff")

    assert done.returncode == 2
    assert "breaking  silver.user_confirmations: column method is gone" in done.stdout


LINTED = """
import glob, json, os, sys
import jsonschema, open_data_contract_standard as standard, yaml
from datacontract.data_contract import DataContract
schema = json.load(open(os.path.join(os.path.dirname(standard.__file__), "schema.json")))
found = []
for file in glob.glob(sys.argv[1] + "/*.yaml"):
    errors = jsonschema.Draft201909Validator(schema).iter_errors(yaml.safe_load(open(file)))
    found += [f"{file}: {each.message}" for each in errors]
    run = DataContract(data_contract_file=file).lint()
    found += [] if run.has_passed() else [f"{file}: {run.pretty()}"]
print(json.dumps(found))
"""
LINTERS = ("datacontract-cli==1.2.8", "open-data-contract-standard==3.2.0", "jsonschema==4.26.0")


@pytest.mark.whole
@pytest.mark.slow
@pytest.mark.prove(alone="a minute: it fetches two linters")
def test_the_contracts_of_all_tables_pass_two_linters(tmp_path: Path) -> None:
    """That of the standard's own schema, and that of the tool which others use; in an environment of their own."""
    home = ROOT / ".cache/contracts"
    python = home / "bin/python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(home)], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "-q", *LINTERS], check=True)
    asked = (
        "import sys; from pathlib import Path; from strandline import catalog;"
        "from strandline.operate.drafts.contract import contracts, text_of; tables = catalog.tables();"
        "[Path(sys.argv[1], t.id + '.yaml').write_text(text_of(c)) for t, c in zip(tables, contracts(tables))]"
    )
    subprocess.run([sys.executable, "-c", asked, str(tmp_path)], check=True, cwd=ROOT)

    done = subprocess.run(
        [str(python), "-c", LINTED, str(tmp_path)], check=True, capture_output=True, text=True
    )

    assert len(list(tmp_path.glob("*.yaml"))) > 20
    assert json.loads(done.stdout.splitlines()[-1]) == []
