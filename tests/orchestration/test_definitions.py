"""What Dagster knows of the project, compared with what was agreed: a change to it is seen in a review.

Renew the golden text with ``python -m tests.orchestration.test_definitions``, and read what changes.
Only tables that are in the text are compared, so that a table that is added, or removed with the example, is no
difference: what is made of a table follows from the table, and the other tests here hold that each has its asset.
"""

import json
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from dagster import (
    AssetChecksDefinition,
    AssetsDefinition,
    AssetSpec,
    ScheduleDefinition,
    SensorDefinition,
)
from strandline import catalog

from strandline.core.kind import Layer
from strandline.core.table import Ingested
from strandline_dagster.definitions import DEFINITIONS
from strandline_dagster.resources import TOPICS, key, pool, topic_key
from tests.architecture.tree import ROOT

SUBJECT = re.compile(r"(?:source|asset|looked at) (?P<key>[^:]+)")
GOLDEN = Path(__file__).with_name("definitions.txt")

LOAD = """
import json, resource, sys
import psutil
from strandline_dagster.definitions import DEFINITIONS
DEFINITIONS.resolve_all_asset_specs()
spent = sum(resource.getrusage(resource.RUSAGE_SELF)[:2])
from pyspark import SparkContext
children = [child.name() for child in psutil.Process().children(recursive=True)]
print(json.dumps({
    "cpu": spent, "spark": SparkContext._gateway is not None, "children": children,
    "heavy": sorted({"great_expectations", "pandas"} & set(sys.modules)),
}))
"""
SECONDS = 5.0


def definition_lines() -> Iterator[str]:
    """Describe every definition in lines."""
    for definition in DEFINITIONS.assets or ():
        if isinstance(definition, AssetSpec):
            yield f"source {definition.key.to_user_string()}: {', '.join(sorted(definition.kinds))}"
            yield from _rests(definition)
            continue
        assert isinstance(definition, AssetsDefinition)
        for spec in definition.specs:
            yield f"asset {spec.key.to_user_string()}"
            yield f"  group {spec.group_name}; kinds {', '.join(sorted(spec.kinds))}; owners {', '.join(spec.owners)}"
            yield f"  days {'yes' if spec.partitions_def else 'no'}; pool {definition.op.pool}"
            yield from _rests(spec)
            own = [check for check in definition.check_specs if check.asset_key == spec.key]
            for check in sorted(own, key=lambda each: each.name):
                severity = (check.metadata or {})["severity"]
                yield f"  check {check.name}: {severity}{', blocking' if check.blocking else ''}"
    yield from _other_lines()


def _rests(spec: AssetSpec) -> Iterator[str]:
    for dep in sorted(dep.asset_key.to_user_string() for dep in spec.deps):
        yield f"  rests on {dep}"


def _other_lines() -> Iterator[str]:
    for definition in DEFINITIONS.asset_checks or ():
        assert isinstance(definition, AssetChecksDefinition)
        for check in definition.check_specs:
            yield f"looked at {check.asset_key.to_user_string()}: {check.name}"
    for job in DEFINITIONS.jobs or ():
        yield f"job {job.name}"
    for schedule in DEFINITIONS.schedules or ():
        assert isinstance(schedule, ScheduleDefinition)
        yield f"schedule {schedule.name}: {schedule.cron_schedule}, job {schedule.job_name}"
    for sensor in DEFINITIONS.sensors or ():
        assert isinstance(sensor, SensorDefinition)
        yield f"sensor {sensor.name}: every {sensor.minimum_interval_seconds} s"


def _by_subject(lines: Iterable[str]) -> dict[str, list[str]]:
    """Return the lines about each asset, and under no name those about the whole project."""
    found: dict[str, list[str]] = {}
    subject = ""
    for line in lines:
        named = SUBJECT.match(line)
        if not line.startswith("  "):
            subject = named["key"] if named else ""
        found.setdefault(subject, []).append(line)
    return found


def test_the_definitions_are_those_that_were_agreed() -> None:
    now, agreed = _by_subject(definition_lines()), _by_subject(GOLDEN.read_text().splitlines())

    assert "" in now
    for subject in now.keys() & agreed.keys():
        assert now[subject] == agreed[subject]


def test_every_table_and_topic_is_one_asset_with_a_writer_of_its_own() -> None:
    found = {spec.key: spec for spec in DEFINITIONS.resolve_all_asset_specs()}
    tables = catalog.tables()
    wanted = {key(t) for t in tables} | {topic_key(n) for t in tables for n in t.topics}

    assert {name for name in found if name.path[0] in {*Layer, TOPICS}} == wanted
    made = [each for each in DEFINITIONS.assets or () if isinstance(each, AssetsDefinition)]
    pools = [str(each.op.pool) for each in made if wanted.issuperset(each.keys)]
    assert sorted(pools) == sorted(map(pool, tables))
    for table in tables:
        assert (found[key(table)].partitions_def is None) == (isinstance(table, Ingested))


def test_every_job_can_be_made_of_them() -> None:
    """A page resolves every job; making the definitions resolves none."""
    found = {job.name for job in DEFINITIONS.get_repository_def().get_all_jobs()}

    assert found >= {job.name for job in DEFINITIONS.jobs or ()}


@pytest.mark.timeout(300)
def test_loading_them_takes_five_seconds_of_one_core_and_starts_nothing() -> None:
    """Seconds of CPU, the best of at most three: what else the machine does stretches them less than those of the clock."""
    command, tries = [sys.executable, "-c", LOAD], []
    while not tries or (len(tries) < 3 and tries[-1]["cpu"] >= SECONDS):
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
        tries.append(json.loads(done.stdout))

    assert tries[-1]["cpu"] < SECONDS, tries
    for found in tries:
        assert (found["spark"], found["children"], found["heavy"]) == (False, [], [])


if __name__ == "__main__":
    GOLDEN.write_text("\n".join(definition_lines()) + "\n")
