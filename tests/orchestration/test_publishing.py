"""What leaves is checked in Dagster on the table that it leaves: by a project of its own, whose module `publish` is read as it is."""

import json
import os
import random
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from strandline.engine.flow.publications import file_of
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.place import Place
from tests.architecture.tree import ROOT
from tests.cli.typed import strandline
from tests.support.paid_shop import Orders, made

PUBLISH = """
from strandline import KafkaTopic, Publish
from .gold import paid_orders


def lines(changes):
    return {each.id: "too dear" for each in changes if each.row and each.row["amount"] > 5}


def bills(changes):
    return {}


PUBLISH = (
    Publish("lines", paid_orders.TABLE, to=lines),
    Publish("bills-at-once", paid_orders.TABLE, to=bills, within="0.001 seconds"),
    Publish("to-kafka", paid_orders.TABLE, to=KafkaTopic("paid-orders"), within="0.001 seconds"),
)
"""
pytestmark = pytest.mark.slow

LINES, BILLS, KAFKA = "published_lines", "published_bills_at_once", "published_to_kafka"

LOOK = """
import json, sys
from dagster import AssetSelection, Definitions, build_sensor_context, define_asset_job
from strandline_dagster.definitions import DEFINITIONS
from strandline_dagster.vitals import PREFIX
from strandline_dagster.resources import LakeResource
from strandline_dagster import vitals
from tests.support.instance import ephemeral

keys = [key for each in DEFINITIONS.asset_checks for key in each.check_keys if key.name.startswith(PREFIX)]
events = []
if sys.argv[1] == "demand":
    look = define_asset_job("look", selection=AssetSelection.checks(*keys))
    job = Definitions.merge(DEFINITIONS, Definitions(jobs=[look])).resolve_job_def("look")
    done = job.execute_in_process(instance=ephemeral())
    events = done.get_asset_check_evaluations()
elif sys.argv[1] == "sensor":
    with build_sensor_context(instance=ephemeral()) as context:
        found = vitals.look_at_tables(context, lake=LakeResource()).asset_events
    events = [each for each in found if each.check_name.startswith(PREFIX)]
from pyspark import SparkContext
assert SparkContext._gateway is None
print(json.dumps({
    "names": [key.name for key in keys],
    "answers": {
        each.check_name: {
            "asset": each.asset_key.to_user_string(),
            "passed": each.passed,
            "severity": each.severity.value,
            "says": each.description,
            **{name: value.value for name, value in each.metadata.items()},
        }
        for each in events
    },
}))
"""


@dataclass
class Shop:
    """The project, and Dagster's definitions of it in a process of their own."""

    folder: Path

    def publish(self, name: str) -> int:
        """Send once; return the exit code."""
        return strandline("publish", name, "--once", cwd=self.folder).code

    def declare(self, text: str) -> None:
        """Write another declaration."""
        (self.folder / "shop" / "publish.py").write_text(text)

    def looked(self, how: str) -> Any:  # noqa: ANN401  # JSON
        """Load the definitions, and let their checks be answered: on demand, by the sensor, or not at all."""
        found = {
            "STRANDLINE_PROJECT": str(self.folder),
            "STRANDLINE_LAKE": str(self.folder / ".lake"),
        }
        done = subprocess.run(
            [sys.executable, "-c", LOOK, how],
            cwd=ROOT,
            env={**os.environ, **found},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-3000:]
        return json.loads(done.stdout.splitlines()[-1])

    def answers(self, how: str = "demand") -> Mapping[str, Mapping[str, Any]]:
        """Return what was answered, by check."""
        answers: Mapping[str, Mapping[str, Any]] = self.looked(how)["answers"]
        return answers


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    """Make the project, and its lake."""
    made(tmp_path)
    (tmp_path / ".lake").mkdir()
    shop = Shop(tmp_path)
    shop.declare(PUBLISH)
    return shop


@pytest.fixture
def orders(shop: Shop, chance: random.Random) -> Orders:
    """Return the table that is published."""
    return Orders(Place.of(shop.folder / ".lake"), chance)


def test_a_check_passes_where_its_target_has_all_and_says_what_it_got(
    shop: Shop, orders: Orders
) -> None:
    """Also where it lacks what is not yet as old as it may be; another, which may lack nothing, fails for the same."""
    orders.add(3)
    assert shop.publish("lines") == shop.publish("bills-at-once") == 0
    sent = shop.answers()
    orders.add(2)
    behind = shop.answers("sensor")

    assert {*sent} == {*behind} == {LINES, BILLS, KAFKA}
    for name in (LINES, BILLS):
        figures = {each: sent[name][each] for each in ("passed", "position", "commits behind")}
        assert figures == {"passed": True, "position": 0, "commits behind": 0}
        assert sent[name]["asset"] == "gold/paid_orders"
        assert (sent[name]["changes sent"], sent[name]["rows refused"]) == (3, 0)
        assert behind[name]["commits behind"] == 1
        assert behind[name]["seconds behind"] > 0
    assert behind[LINES]["passed"]
    assert (behind[BILLS]["passed"], behind[BILLS]["severity"]) == (False, "ERROR")
    assert "`strandline publish bills-at-once` running?" in behind[BILLS]["says"]


@pytest.mark.whole
def test_a_commit_that_is_torn_is_said_and_ends_no_look(shop: Shop, orders: Orders) -> None:
    """A power cut may leave one; the other tables are looked at all the same."""
    orders.add(1)
    assert shop.publish("lines") == 0
    orders.add(1)
    (Path(orders.path) / "_delta_log" / f"{1:020}.json").write_text("")

    found = shop.answers("sensor")[LINES]

    assert (found["passed"], found["severity"]) == (False, "ERROR")


def test_what_a_target_refused_fails_with_the_command_that_shows_it(
    shop: Shop, orders: Orders
) -> None:
    """Until a later change of the row is taken."""
    orders.add(1)
    orders.add(2, amount="9.00")
    assert shop.publish("lines") == 0

    found = shop.answers()[LINES]

    assert (found["passed"], found["severity"], found["rows refused"]) == (False, "ERROR", 2)
    assert found["what shows them"] == "strandline publish lines --refused"
    assert found["changes sent"] == 1


def test_a_target_that_is_away_is_a_warning_however_far_it_is_behind(
    shop: Shop, orders: Orders
) -> None:
    """It passes by itself."""
    orders.add(1)
    assert shop.publish("to-kafka") != 0

    found = shop.answers()[KAFKA]

    assert (found["passed"], found["severity"]) == (False, "WARN")
    assert found["says"].startswith("kafka:paid-orders waits: ")
    assert found["position"] == -1


@pytest.mark.whole
def test_a_module_that_cannot_be_read_here_costs_its_checks_alone(shop: Shop) -> None:
    """The client of a target is installed where rows are sent; names that Dagster writes alike have a check each."""
    shop.declare("import a_client_of_a_target\n" + PUBLISH)
    unread = shop.looked("not")["names"]
    shop.declare(PUBLISH.replace('"bills-at-once"', '"to_kafka"'))

    assert unread == []
    assert shop.looked("not")["names"] == [LINES, KAFKA, "published_to__kafka"]


@pytest.mark.whole
def test_a_lake_that_was_restored_behind_its_target_is_a_failure(
    shop: Shop, orders: Orders
) -> None:
    """It was said to have all of it, and its publisher would take the next commits for known ones."""
    orders.add(1)
    assert shop.publish("lines") == 0
    file = file_of(Lake(Place.of(shop.folder / ".lake")), "lines")
    books = json.loads(file.text() or "")
    books["place"]["version"] += 7
    file.put(json.dumps(books))

    found = shop.answers()[LINES]

    assert (found["passed"], found["severity"]) == (False, "ERROR")
    assert "another history" in found["says"]
