"""Alerts of a project of one's own: declared by a draft, tested, and refused where a declaration has a mistake."""

import json
from pathlib import Path

import pytest

from strandline.operate.drafts import scaffold
from tests.support.project import TYPED, copied, ran, tried

pytestmark = pytest.mark.whole

WRITTEN = ("shop/alerts.py", "shop/rules/large_order.yml", "tests/rules/test_rules.py")
SECOND = "shop/rules/small_order.yml"
NEW = ("new", "alerts", "large_order", "--reads", "silver.orders")


@pytest.fixture(scope="module")
def drafted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a project that `init` wrote and that has the draft of alerts."""
    folder = tmp_path_factory.mktemp("own") / "shop"
    scaffold.make(folder)
    typed(folder, *NEW)
    return folder


@pytest.fixture
def shop(drafted: Path) -> Path:
    """Return the same project, with the module and the one rule as they were drafted."""
    (drafted / SECOND).unlink(missing_ok=True)
    module = drafted / WRITTEN[0]
    kept = drafted / "drafted.txt"
    if not kept.exists():
        kept.write_text(module.read_text())
    module.write_text(kept.read_text())
    return drafted


def typed(project: Path, *words: str) -> str:
    return ran(project, "-c", TYPED, *words)


def refused(project: Path, *words: str) -> str:
    done = tried(project, "-c", TYPED, *words)
    assert done.returncode == 2, done.stdout + done.stderr
    return done.stderr


def test_a_project_without_alerts_has_none_of_their_verbs_and_the_error_says_what_writes_them(
    tmp_path: Path,
) -> None:
    """It has neither the verbs nor the tables, and imports nothing of alerts."""
    project = tmp_path / "shop"
    scaffold.make(project)

    assert "strandline new alerts NAME --reads silver.TABLE" in refused(project, "rules", "list")

    look = "from strandline import catalog; catalog.tables(); import sys; print(*sys.modules)"
    assert not [each for each in ran(project, "-c", look).split() if "strandline.alerting" in each]


def test_a_draft_of_alerts_is_a_source_a_rule_and_a_test(shop: Path) -> None:
    """With it the project has the tables of alerts, and the rule runs."""
    tables = {each["table"]: each["reads"] for each in json.loads(typed(shop, "tables", "--json"))}
    (rule,) = json.loads(typed(shop, "rules", "list", "--json"))

    assert all((shop / name).is_file() for name in WRITTEN)
    assert tables["gold.alerts"] == "silver.alerts"
    assert (rule["table"], rule["examples"]) == ("silver.orders", 2)
    assert "runs, and lacks an owner" in typed(shop, "rules", "lint")


def test_a_second_rule_leaves_the_declaration_as_it_is(shop: Path) -> None:
    """A name that is there is refused, and so is a table that the declaration does not have."""
    before = (shop / WRITTEN[0]).read_text()

    typed(shop, "new", "alerts", "small_order", "--reads", "silver.orders")

    assert (shop / SECOND).is_file()
    assert (shop / WRITTEN[0]).read_text() == before
    assert "exists already" in refused(shop, *NEW)
    assert "is gold" in refused(shop, "new", "alerts", "much", "--reads", "gold.sales_10m")
    assert "is no name for a rule" in refused(
        shop, "new", "alerts", "A b", "--reads", "silver.orders"
    )


def test_a_mistake_in_the_declaration_is_named_with_its_line(shop: Path) -> None:
    """Before anything starts, by any verb about tables."""
    module = shop / WRITTEN[0]
    module.write_text(module.read_text().replace('entity="order_id"', 'entity="order"'))

    said = refused(shop, "tables")

    assert "shop/alerts.py:11: the entity 'order' is no column of the source silver.orders" in said
    assert "hint: its columns are order_id, customer" in said


def test_a_table_of_ones_own_with_a_name_of_the_engine_is_refused(shop: Path) -> None:
    """The lake could not have both."""
    own = shop / "shop/bronze/alerts.py"
    own.write_text((shop / "shop/bronze/orders.py").read_text().replace("orders", "alerts"))

    said = refused(shop, "tables")
    own.unlink()

    assert "bronze.alerts is a table of the engine" in said


def test_in_a_clone_a_rule_is_added_beside_those_of_the_example(tmp_path: Path) -> None:
    """A table that is not declared there is named with the line to add."""
    clone = copied(tmp_path)

    typed(clone, "new", "alerts", "odd_lease", "--reads", "silver.dhcp_events")
    said = refused(clone, "new", "alerts", "odd", "--reads", "silver.device_telemetry")

    assert (clone / "jobs/fleet/rules/odd_lease.yml").is_file()
    assert "fleet.alerts does not declare silver.device_telemetry" in said
    assert "add AlertSource(table=device_telemetry.TABLE" in said


@pytest.mark.slow
def test_the_drafted_test_names_a_rule_that_is_wrong_and_not_the_draft(shop: Path) -> None:
    """As `rules test` says it; each run of it starts a Spark, so the two rules have one."""
    typed(shop, "new", "alerts", "small_order", "--reads", "silver.orders")
    rule = shop / SECOND
    rule.write_text(rule.read_text().replace("{order_id: another}", "{order_id: FILL-IN}"))

    done = tried(shop, "-m", "pytest", "-q", WRITTEN[2])

    assert done.returncode == 1
    assert "small_order.yml: fires on" in done.stdout
    assert "large_order.yml" not in done.stdout
