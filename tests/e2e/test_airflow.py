"""The example for Airflow, in a real Airflow on a real lake: a scheduled run, and a failure that a person must look at."""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from tests.cli.inside import succeeded
from tests.support.airflow import Airflow, prepared
from tests.support.days import NINE, Came, lived

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.slow,
    pytest.mark.prove(alone="Airflow takes minutes to install and to start"),
    pytest.mark.timeout(900),
]

SINCE, UNTIL = "2026-11-01", "2026-11-02T12:00"
SILVER = "silver.device_telemetry"
UNRUN = ("--mark-success-pattern", "^run$")
ALL_WELL = dict.fromkeys(("run", "ledger", "report"), ("success", 1))
LOOK = """
import json, sys
from airflow.dag_processing.dagbag import DagBag
found = DagBag()
dags = {name: {t.task_id: sorted(t.downstream_task_ids) for t in dag.tasks} for name, dag in found.dags.items()}
print(json.dumps([found.import_errors, dags]))
"""
STATES = """
SELECT task_id, task_instance.state, try_number FROM task_instance JOIN dag_run USING (dag_id, run_id)
WHERE dag_id = ? AND dag_run.id = (SELECT max(id) FROM dag_run WHERE dag_id = ?)
"""


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a lake that balances, with a few rows of each layer."""
    return lived(tmp_path_factory.mktemp("airflow") / "lake", [Came(at=NINE, good=3)]).root.local


@pytest.fixture(scope="module")
def airflow(lake: Path, tmp_path_factory: pytest.TempPathFactory) -> Airflow:
    """Return an Airflow with one setting, the place of the lake."""
    return prepared(tmp_path_factory.mktemp("home"), {"STRANDLINE_LAKE": str(lake)})


@pytest.fixture
def unread(tmp_path: Path) -> Iterator[Path]:
    """Return a lake with a broker of its own and events of a day and a half, none of them read."""
    lake = tmp_path / "lake"
    succeeded("up", "--lake", lake)
    try:
        succeeded("produce", "--events", 3_000, "--since", SINCE, "--until", UNTIL, "--lake", lake)
        yield lake
    finally:
        succeeded("down", "--lake", lake)


def states(airflow: Airflow, dag: str) -> dict[str, tuple[str, int]]:
    """Return what became of each task of the last run, and how often it was tried."""
    with closing(sqlite3.connect(airflow.home / "airflow.db")) as kept:
        return {task: (state, tries) for task, state, tries in kept.execute(STATES, (dag, dag))}


def test_airflow_reads_it_and_knows_what_follows_what(airflow: Airflow) -> None:
    """Linked into the folder of DAGs, as in infra/docs/airflow.md."""
    read = airflow.ran("python", "-c", LOOK)

    errors, dags = json.loads(read.stdout.splitlines()[-1])
    assert errors == {}
    assert dags == {
        "strandline": {"run": ["ledger", "report"], "ledger": [], "report": []},
        "strandline_backfill": {"backfill": []},
    }


def test_tasks_end_as_their_commands_and_what_a_person_must_look_at_is_not_tried_again(
    airflow: Airflow, lake: Path
) -> None:
    """Without the run itself."""
    see_a_broken_balance(airflow, lake, "event_id = '0-0'")


def test_a_scheduled_run_fills_a_lake(airflow: Airflow, unread: Path) -> None:
    """And then a broken balance, which is not tried again."""
    here = replace(airflow, env={"STRANDLINE_LAKE": str(unread)})
    ran = here.ran("airflow", "dags", "test", "strandline")
    assert ran.returncode == 0, ran.stdout[-3000:]
    assert states(airflow, "strandline") == ALL_WELL
    sheets: Any = succeeded("ledger", "--lake", unread, "--json").json
    assert all(sheet["balanced"] for sheet in sheets)
    assert {sheet["table"] for sheet in sheets} >= {SILVER, "gold.device_signal_10m"}

    see_a_broken_balance(here, unread, "signal = 'temperature'")


def see_a_broken_balance(airflow: Airflow, lake: Path, rows: str) -> None:
    """Delete rows of silver, and see how the tasks end."""
    DeltaTable(lake / "silver/device_telemetry").delete(rows)
    ended = airflow.ran("airflow", "dags", "test", "strandline", *UNRUN)
    assert ended.returncode != 0
    assert "strandline ledger ended with 4" in ended.stdout
    assert states(airflow, "strandline") == {
        "run": ("success", 1),
        "ledger": ("failed", 1),
        "report": ("failed", 1),
    }
