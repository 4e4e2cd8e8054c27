"""The oldest Dagster that the extra admits, beside the pinned one: the same definitions, guests, runs, readings and reports.

A host has a Dagster already, so ours may not ask for one version. The older one has an environment of its own among the caches, which
is in front of the pinned one: what both need is shared, and a test sees that it is what the older one asks for.
"""

import os
import shutil
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.architecture.tree import ROOT
from tests.orchestration.test_definitions import definition_lines

pytestmark = [pytest.mark.slow, pytest.mark.whole, pytest.mark.timeout(1500)]

LISTED = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
CORE = ("dagster", "dagster-graphql", "dagster-pipes", "dagster-shared", "dagster-webserver")
COMPANIONS = ("dagster-pyspark", "dagster-spark", "dagster-postgres")
TESTS = (
    "test_placed.py",
    "test_reading.py",
    "test_assets.py",
    "test_catch_up.py",
    "test_checks.py",
    "test_written.py",
)
LINES = """
import dagster
from tests.orchestration.test_definitions import definition_lines

print(dagster.__version__)
print("\\n".join(definition_lines()))
"""


def oldest(name: str) -> str:
    """Return the oldest version of a package that the extra admits."""
    asked = {
        each.name: each for each in map(Requirement, [*LISTED["dagster"], *LISTED["postgres"]])
    }
    (version,) = [each.version for each in asked[name].specifier if each.operator == ">="]
    return version


@pytest.fixture(scope="module")
def older() -> Path:
    """Return a folder with its packages, kept among the caches."""
    folder = ROOT / ".cache/dagster" / oldest("dagster")
    if (folder / "done").exists():
        return folder
    shutil.rmtree(folder.parent, ignore_errors=True)
    wanted = [f"{name}=={oldest('dagster')}" for name in CORE]
    wanted += [f"{name}=={oldest('dagster-pyspark')}" for name in COMPANIONS]
    quiet = ("--no-input", "--disable-pip-version-check", "--no-compile", "--quiet", "--no-deps")
    asked = subprocess.run(
        [sys.executable, "-m", "pip", "install", *quiet, "--target", folder, *wanted],
        capture_output=True,
        text=True,
        check=False,
    )
    if asked.returncode != 0:
        pytest.skip(f"an older Dagster could not be installed: {asked.stderr.strip()[-300:]}")
    (folder / "done").touch()
    return folder


def ran(older: Path, *words: str) -> str:
    """Run a program of Python with it."""
    path = os.pathsep.join([str(older), os.environ.get("PYTHONPATH", "")]).strip(os.pathsep)
    done = subprocess.run(
        [sys.executable, *words],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-6000:]
    return done.stdout


def test_what_it_asks_for_is_what_is_pinned(older: Path) -> None:
    """So a host with it can install the wheel beside it."""
    versions = {each.name: each.version for each in metadata.distributions(path=[str(older)])}
    assert {*versions} == {*CORE, *COMPANIONS}
    for each in metadata.distributions(path=[str(older)]):
        for text in each.requires or ():
            asked = Requirement(text)
            if asked.marker is None or asked.marker.evaluate({"extra": ""}):
                found = versions.get(asked.name) or metadata.version(asked.name)
                assert asked.specifier.contains(found, prereleases=True), (each.name, text, found)


def test_it_has_the_same_definitions(older: Path) -> None:
    """Each asset, edge, check, job, schedule and sensor."""
    version, *found = ran(older, "-W", "ignore", "-c", LINES).splitlines()

    assert version == oldest("dagster") != metadata.version("dagster")
    assert found == [*definition_lines()]


@pytest.mark.prove(alone="five minutes")
def test_what_is_about_runs_and_guests_holds_with_it(older: Path) -> None:
    """Guests, readings, assets, their checks, the job that fills all tables, and what is reported without a run."""
    files = [str(Path(__file__).with_name(name)) for name in TESTS]
    quiet = ("-q", "-p", "no:randomly", "--no-header", "--tb=short")

    said = ran(older, "-W", "ignore", "-m", "pytest", *quiet, "--whole", *files)

    assert " passed" in said.splitlines()[-1]
    assert "failed" not in said.splitlines()[-1]
