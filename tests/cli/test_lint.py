"""``strandline lint`` finds mistakes by texts alone, within a second; and the schemas that it writes describe the files of people."""

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from strandline.core.errors import DataError
from strandline.engine.runtime.settings import FIELDS
from strandline.operate.lint import lint, schemas
from strandline.project import Project
from tests.architecture.tree import ROOT
from tests.cli.inside import strandline
from tests.cli.typed import ENVIRONMENT

CLEAN = '''"""Totals."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from strandline import Appended

from shop.silver import orders

DAY = "1 day"


def totals(rows: DataFrame) -> DataFrame:
    """Add up."""
    import pandas as pd

    return rows.where("amount > 0").withColumn("at", F.unix_timestamp("event_at"))


TABLE = Appended(name="totals", reads=(orders.TABLE,), transform=totals, rules=lambda: F.col("a"))
'''


class Shop:
    """A project with one table."""

    def __init__(self, root: Path) -> None:
        """Write it."""
        self.root = root
        (root / "shop" / "gold").mkdir(parents=True)
        (root / "rules").mkdir()
        self.file("strandline.toml", '[project]\ntables = "shop"\n')

    def file(self, name: str, text: str) -> Path:
        """Write a file."""
        path = self.root / name
        path.write_text(text)
        return path

    def found(self, monkeypatch: pytest.MonkeyPatch, *files: Path) -> list[tuple[str, int, str]]:
        """Return file, line and rule of each mistake."""
        monkeypatch.setenv("STRANDLINE_PROJECT", str(self.root))
        project = Project(root=self.root, tables="shop")
        return [(each.file, each.line, each.rule) for each in lint(project, files or None)]


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path)


def test_what_is_right_has_no_finding(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    shop.file("shop/gold/totals.py", CLEAN)
    assert shop.found(monkeypatch) == []


def test_the_example_and_the_project_of_the_benchmark_have_none() -> None:
    """Rules that are wrong of good tables would be switched off."""
    assert lint(None, None) == []
    nexmark = ROOT / "tests" / "benchmarks" / "nexmark" / "project"
    assert list(nexmark.rglob("*.py"))
    found = lint(Project(root=nexmark, tables="nexmark"), [*nexmark.rglob("*.py")])
    assert found == []


@pytest.mark.parametrize(
    ("line", "rule"),
    [
        ("LIMIT = F.lit(5)", "column-at-import"),
        ("def f(a=F.col('x')): ...", "column-at-import"),
        ("import pandas as pd", "heavy-import"),
        ("from sklearn.linear_model import LinearRegression", "heavy-import"),
        ("import requests", "reads-outside"),
        ("def f(d): return d.withColumn('x', F.current_timestamp())", "same-answer"),
        ("def f(d): return d.withColumn('x', F.unix_timestamp())", "same-answer"),
        ("def f(d): return d.withColumn('x', F.expr('now() - at'))", "same-answer"),
        ("def f(d): return d.where('at > current_timestamp')", "same-answer"),
        ("def f(d): return __import__('x') and datetime.now()", "same-answer"),
        ("def f(d): return d.withColumn('x', F.rand())", "same-answer"),
        ("def f(d): return d.collect()", "only-described"),
        ("def f(d): d.write.format('delta').save('x')", "only-described"),
        ("def f(d): return d.dropDuplicates(['a'])", "only-described"),
        ("def f(d): return d.limit(10)", "only-described"),
        ("def f(d): return d.withWatermark('at', '1 day')", "only-described"),
        ("def f(d) return d", "syntax"),
        ("TABLE = Appended(name='other', reads=())", "one-name"),
    ],
)
def test_a_mistake_is_found_at_its_line(
    line: str, rule: str, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    head = "from datetime import datetime\nfrom pyspark.sql import functions as F\n"
    shop.file("shop/gold/totals.py", f"{head}{line}\n")
    assert shop.found(monkeypatch) == [("shop/gold/totals.py", 3, rule)]
    shop.file("shop/gold/totals.py", f"{head}{line}  # lint: ok\n")
    assert shop.found(monkeypatch) == []


def test_only_tables_are_asked_what_only_tables_must_do(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A play may be of chance, and a test may collect; a hook gives files that are none of the project's tables."""
    play = shop.file("shop/play.py", "import random\nrandom.random()\n")
    test = shop.file("test_totals.py", "def test(d): assert d.collect()\n")
    text = shop.file("notes.yaml", "- a\n")
    gone = shop.root / "shop" / "gold" / "gone.py"
    assert shop.found(monkeypatch, play, test, text, gone) == []


@pytest.mark.parametrize(
    ("text", "rule", "line"),
    [
        ("[project\n", "syntax", 1),
        ('[project]\ntable = "shop"\n', "unknown", 2),
        ('[profile.prod]\nkafca = "a:1"\n', "unknown", 2),
        ('[profile.prod]\nwebhook = "http://localhost/there"\n', "secret", 2),
        ('[profile.prod]\nlake = "s3a://a:b@there/lake"\n', "secret", 2),
        ('[profile.prod]\nalarms = "slack+https://localhost/x"  # lint: ok\n', "secret", 2),
        ('[profile.prod.kafka_options]\n"sasl.password" = "x"\n', "secret", 2),
        ('[profile.prod.environment]\nOTEL_EXPORTER_OTLP_HEADERS = "api=x"\n', "secret", 2),
        ('[profile.prod.environment]\nHOME = "x"\n', "unknown", 2),
        ("profile = 3\n", "unknown", 1),
        ("project = 3\n", "unknown", 1),
        (f"a = {'[' * 50_000}\n", "syntax", 1),
    ],
)
def test_mistakes_of_the_projects_file_are_found(
    text: str, rule: str, line: int, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A secret is one whatever the line says of it."""
    shop.file("strandline.toml", text)
    assert shop.found(monkeypatch) == [("strandline.toml", line, rule)]


def test_mistakes_of_rules_are_found(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    shop.file("rules/a.yml", "title: a\nlevel: hihg\ndetection: {}\n")
    shop.file("rules/b.yml", "title: [\n")
    shop.file("rules/c.yml", "title: c\nlevel: high\ndetecton: {}\n")
    found = {(file, rule) for file, _, rule in shop.found(monkeypatch)}
    assert found == {("rules/a.yml", "rule"), ("rules/b.yml", "syntax"), ("rules/c.yml", "rule")}


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("title: a\nlevel: [high]\ndetection: {}\n", "rule"),
        ("title: a\nlevel: {high: low}\ndetection: {}\n", "rule"),
        ("title: a\nlevel: 3\ndetection: {}\n", "rule"),
        ("title: a\ndate: 2024-02-30\ndetection: {}\n", "syntax"),
        (f"title: {'[' * 50_000}\n", "syntax"),
        ("? [a]\n: b\n", "syntax"),
    ],
)
def test_whatever_is_in_a_rule_is_a_finding_and_ends_nothing(
    text: str, rule: str, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a hook cannot read would be a traceback before each commit."""
    shop.file("rules/a.yml", text)
    assert shop.found(monkeypatch) == [("rules/a.yml", 1, rule)]


def test_as_a_hook_it_imports_next_to_nothing(shop: Shop) -> None:
    """That is why it takes less than a second; what time it takes here is the machine's."""
    for number in range(50):
        shop.file(f"shop/gold/t{number}.py", CLEAN.replace("totals", f"t{number}"))
    shop.file("shop/gold/bad.py", "import pandas\n")
    shop.file("rules/a.yml", "title: a\nlevel: high\ndetection: {}\n")
    code = (
        "import runpy, sys; before = {*sys.modules}; sys.argv = ['strandline', 'lint']\n"
        "try:\n    runpy.run_module('strandline.cli', run_name='__main__')\n"
        "except SystemExit as end:\n    code = end.code\n"
        "roots = {each.partition('.')[0] for each in {*sys.modules} - before}\n"
        "print(*sorted(roots - sys.stdlib_module_names), file=sys.stderr)\n"
        "sys.exit(code)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        check=False,
        cwd=shop.root,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == DataError.exit_code, done.stderr
    assert done.stdout.startswith("shop/gold/bad.py:1: pandas is imported")
    own = {each for each in done.stderr.split() if "cython" not in each}
    assert own <= {"_yaml", "yaml", "strandline", "strandline_infra"}


def test_the_verb_says_the_same_with_its_options(shop: Shop) -> None:
    shop.file("shop/gold/bad.py", "import pandas\n")
    env = {"STRANDLINE_PROJECT": str(shop.root)}
    found = strandline("lint", "--json", env=env)
    assert found.code == DataError.exit_code
    (each,) = json.loads(found.out)
    assert (each["file"], each["line"], each["rule"]) == ("shop/gold/bad.py", 1, "heavy-import")
    written = strandline("lint", "--schemas", shop.root / "schemas", env=env)
    assert written.code == 0
    names = {each.name for each in (shop.root / "schemas").iterdir()}
    assert names == {*schemas()}


# The schemas.


def plain(value: object) -> Any:  # noqa: ANN401  # any JSON
    """Return what an editor sees: dates are texts."""
    return json.loads(json.dumps(value, default=str))


def test_the_rules_and_the_profiles_that_there_are_fit_their_schemas() -> None:
    found = schemas()
    for each in found.values():
        jsonschema.Draft7Validator.check_schema(each)
    rules = [*(ROOT / "jobs" / "fleet" / "rules").glob("*.yml")]
    for file in rules:
        for rule in yaml.safe_load_all(file.read_text()):
            jsonschema.validate(plain(rule), found["rule.schema.json"])
    assert len(rules) > 5
    whole = """
        [project]
        tables = "shop"
        [profile.prod]
        lake = "s3a://bucket/lake"
        kafka = "a:9092,b:9092"
        consumer_group = "strandline.{lake}.{table}"
        cores = 8
        first_day = "2026-01-01"
        postgres = { env = "HISTORY" }
        alarms = { file = "alarms.txt" }
        [profile.prod.kafka_options]
        "security.protocol" = "SASL_SSL"
        "sasl.password" = { env = "KAFKA" }
        [profile.prod.environment]
        OTEL_EXPORTER_OTLP_ENDPOINT = "http://localhost:4318"
        AWS_REGION = "eu-north-1"
    """
    jsonschema.validate(plain(tomllib.loads(whole)), found["strandline.schema.json"])


@pytest.mark.parametrize(
    ("profile", "fits"),
    [
        ({"cores": 0}, False),
        ({"cores": "two"}, False),
        ({"kafka": "no port"}, False),
        ({"kafca": "a:1"}, False),
        ({"memory": "4g"}, True),
        ({"kafka_options": {"a": 1}}, False),
        ({"environment": {"HOME": "x"}}, False),
        ({"postgres": {"env": "A", "file": "b"}}, False),
    ],
)
def test_an_editor_underlines_what_the_settings_refuse(
    profile: dict[str, object],
    fits: bool,  # noqa: FBT001  # a case
) -> None:
    schema = schemas()["strandline.schema.json"]
    is_valid = jsonschema.Draft7Validator(schema).is_valid({"profile": {"prod": profile}})
    assert is_valid is fits


def test_each_setting_has_a_sentence_that_an_editor_shows() -> None:
    values = schemas()["strandline.schema.json"]["properties"]["profile"]["additionalProperties"]
    found = values["properties"]
    assert {*found} == {*FIELDS, "environment"}
    assert all(len(each["description"]) > 10 for each in found.values())


def test_the_hook_is_a_verb_that_there_is() -> None:
    """pre-commit reads it from the repository."""
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    assert hook["entry"] == "strandline lint"
    assert hook["language"] == "system"

    for name in ("strandline.toml", "shop/gold/a.py", "rules/a.yml"):
        assert re.search(hook["files"], name)
