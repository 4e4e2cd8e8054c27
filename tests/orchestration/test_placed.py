"""Our definitions as guests: in the code location of a project that has assets, jobs, resources and an executor of its own.

Each is a process of its own, because code is loaded once for a process, and is placed as the first call says.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.architecture.tree import ROOT
from tests.orchestration.test_definitions import definition_lines

LINES = """
from strandline_dagster import definitions

definitions(key_prefix="warehouse", job_prefix="warehouse_")
from tests.orchestration.test_definitions import definition_lines

print("\\n".join(definition_lines()))
"""
HOST = """
import json
import dagster as dg
from strandline_dagster import definitions

@dg.asset(deps=[["gold", "device_daily"]], group_name="gold")
def takings(spark: dg.ResourceParam[str]) -> None:
    assert spark == "a Spark of theirs"

@dg.op
def pause_stream() -> None: ...

@dg.job
def forecast() -> None:
    pause_stream()

theirs = dg.Definitions(
    assets=[takings],
    jobs=[forecast],
    resources={{"spark": "a Spark of theirs", "lake": "a lake of theirs"}},
    executor=dg.multiprocess_executor,
)
merged = dg.Definitions.merge(theirs, definitions(job_prefix="lake_", **{words}))
repository = merged.get_repository_def()
jobs = {{job.name: job.executor_def.name for job in repository.get_all_jobs()}}
graph = repository.asset_graph
print(json.dumps({{
    "jobs": jobs,
    "keys": sorted(key.to_user_string() for key in graph.get_all_asset_keys()),
    "parents": sorted(key.to_user_string() for key in graph.get(dg.AssetKey("takings")).parent_keys),
    "schedules": {{each.name: each.default_status.value for each in repository.schedule_defs}},
    "sensors": {{each.name: each.default_status.value for each in repository.sensor_defs}},
    "resources": sorted(repository.get_top_level_resources()),
}}))
"""
LOADED = """
from strandline_dagster import definitions, resources
definitions({words})
"""
TWICE = """
from strandline_dagster import definitions
assert definitions(lake={first!r}) is definitions(lake={first!r})
definitions(lake={second!r})
"""
LATER = """
from strandline_dagster import definitions
assert definitions() is definitions(lake={lake!r})
"""
READ = """
from strandline_dagster import definitions
from strandline_dagster.reading import TableIOManager
from strandline.core.errors import DefinitionError
definitions()
try:
    TableIOManager(lake={lake!r})._readings("silver.devices")
except DefinitionError as error:
    assert "as its lake already" in error.message
from strandline.engine.runtime.settings import settings
print(settings().lake)
"""
FAILED = """
import json
import dagster as dg
from strandline_dagster import definitions

@dg.op
def fails() -> None:
    raise ValueError("theirs")

@dg.job
def forecast() -> None:
    fails()

definitions(lake={lake!r})
from strandline_dagster import resources, vitals
said = []
LOSS = {{"reader": "bronze.alerts", "level": "urgent", "says": "it may be gone soon"}}
resources.LOG.error = lambda text, facts: said.append(json.loads(facts)["job"])
with dg.DagsterInstance.local_temp() as instance:
    for job, words in ((forecast, {{}}), (vitals.retention, {{"run_config": {{"ops": {{"warn_of_loss": {{"config": LOSS}}}}}}}})):
        done = job.execute_in_process(instance=instance, raise_on_error=False, **words)
        assert not done.success
        context = dg.build_run_status_sensor_context(
            sensor_name="alert_of_failures",
            dagster_event=done.get_run_failure_event(),
            dagster_instance=instance,
            dagster_run=done.dagster_run,
        ).for_run_failure()
        resources.alert_of_failures(context)
print(json.dumps(said))
"""


def ran(script: str, lake: Path, *, fails: bool = False) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script],
        cwd=ROOT,
        env={**os.environ, "STRANDLINE_LAKE": str(lake)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert bool(done.returncode) == fails, done.stderr
    return done.stderr if fails else done.stdout


def host(lake: Path, **words: object) -> Any:  # noqa: ANN401  # what the script prints
    return json.loads(ran(HOST.format(words=words), lake).splitlines()[-1])


def without_purge(lines: Iterator[str]) -> list[str]:
    """Leave out what works on the whole of Dagster."""
    return [each for each in lines if "purge" not in each]


def test_under_a_prefix_they_are_what_they_are_alone(tmp_path: Path) -> None:
    """Each asset, edge, check, job, schedule and sensor; but for the purge of a history that is the host's."""
    found = ran(LINES, tmp_path).splitlines()

    assert not [each for each in found if "purge" in each]
    assets = [each for each in found if each.startswith(("asset ", "source ", "  rests on "))]
    assert all("warehouse/" in each for each in assets)
    bare = [each.replace("warehouse/", "").replace("warehouse_", "") for each in found]
    assert bare == without_purge(definition_lines())


def test_a_host_keeps_its_executor_its_resources_and_its_names(tmp_path: Path) -> None:
    """Ours bring theirs; an asset of the host hangs on a table by its key, with no prefix as the key is in every lake."""
    found = host(tmp_path)

    assert found["jobs"]["forecast"] == "multiprocess"
    ours = {name: each for name, each in found["jobs"].items() if name.startswith("lake_")}
    assert {"lake_catch_up", "lake_re_read", "lake_restart"} <= ours.keys()
    assert {*ours.values()} == {"in_process"}
    assert "lake_purge" not in ours
    assert found["parents"] == ["gold/device_daily"]
    assert {"spark", "lake", "strandline_lake", "strandline_tables"} <= {*found["resources"]}


def test_schedules_and_sensors_run_by_themselves_or_not(tmp_path: Path) -> None:
    by_word = {each: host(tmp_path, schedules=each, sensors=each) for each in (True, False)}

    for on, found in by_word.items():
        ours = [found[kind].values() for kind in ("schedules", "sensors")]
        assert all({*each} == {"RUNNING" if on else "STOPPED"} for each in ours)


def test_some_tables_are_shown_and_worked_on(tmp_path: Path) -> None:
    """With their topics; what they read and is not shown is an edge to a key of another code location."""
    found = host(tmp_path, tables=["gold.device_daily", "bronze.*_telemetry"])

    layers = [
        key for key in found["keys"] if key.partition("/")[0] in {"bronze", "silver", "kafka"}
    ]
    assert "bronze/device_telemetry" in layers
    assert "kafka/device-telemetry" in layers
    assert "silver/user_actions" not in layers
    assert "live/user_actions" not in found["keys"]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("tables=['gold.device_dayly']", "did you mean gold.device_daily"),
        ("key_prefix='my lake'", "cannot begin names"),
    ],
)
def test_what_cannot_be_placed_is_an_error_with_a_hint(
    words: str, says: str, tmp_path: Path
) -> None:
    assert says in ran(
        f"from strandline_dagster import definitions\ndefinitions({words})", tmp_path, fails=True
    )


def test_one_process_has_one_lake(tmp_path: Path) -> None:
    """A second one would have the tables of the first; and what was made before a prefix was known has none."""
    two = TWICE.format(first=str(tmp_path / "a"), second=str(tmp_path / "b"))

    assert "a code location of its own" in ran(two, tmp_path, fails=True)
    late = LOADED.format(words="key_prefix='lake'")
    assert "before other modules" in ran(late, tmp_path, fails=True)


def test_a_lake_that_was_not_said_is_decided_once_the_definitions_are_made(tmp_path: Path) -> None:
    """Our resources ask the settings at each run, so who reads another lake in the same process would send our rows there."""
    other = str(tmp_path / "b")
    assert "a code location of its own" in ran(LATER.format(lake=other), tmp_path / "a", fails=True)
    assert str(tmp_path / "a") in ran(READ.format(lake=other), tmp_path / "a").splitlines()
    assert ran(LATER.format(lake=str(tmp_path / "a")), tmp_path / "a") is not None


def test_alarms_are_about_our_runs_alone(tmp_path: Path) -> None:
    """A failed run of the host is the host's to alert of."""
    assert json.loads(ran(FAILED.format(lake=str(tmp_path / "lake")), tmp_path)) == ["retention"]
