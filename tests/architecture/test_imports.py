"""Imports point one way, and the check that says so would notice if they did not."""

import os
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.architecture.tree import ROOT, copied

CONTRACTS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"][
    "contracts"
]
LAYERS = "Gold reads silver, silver reads bronze, and only the runner does I/O"

VIOLATIONS = (
    (
        "Imports point one way: orchestration, jobs, quality, infra",
        {"quality/rules.py": "jobs.core"},
    ),
    ("Imports point one way: orchestration, jobs, quality, infra", {"infra/java.py": "jobs.run"}),
    (
        "Imports point one way: orchestration, jobs, quality, infra",
        {"jobs/catalog.py": "orchestration"},
    ),
    (LAYERS, {"jobs/core/table.py": "jobs.run.lake"}),
    (LAYERS, {"jobs/silver/device_telemetry.py": "jobs.gold.device_signal_10m"}),
    (LAYERS, {"jobs/gold/device_signal_10m.py": "jobs.run.delta"}),
    (LAYERS, {"jobs/run/lake.py": "jobs.cli.screen"}),
    (LAYERS, {"jobs/homeless.py": "jobs.core.modes"}),
    ("Dagster stays in orchestration", {"jobs/run/host.py": "dagster"}),
    ("Great Expectations has one door, in quality", {"jobs/run/fork.py": "great_expectations"}),
    ("No cycles", {"infra/java.py": "infra.jars", "infra/jars.py": "infra.java"}),
)
"""For each contract, modules and what each may not import."""


def linted(folder: Path) -> subprocess.CompletedProcess[str]:
    program = str(Path(sys.executable).with_name("lint-imports"))
    return subprocess.run(
        [program, "--no-cache"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_every_contract_is_kept() -> None:
    """The direction of imports is what lets a reader understand one layer at a time."""
    result = linted(ROOT)

    assert result.returncode == 0, result.stdout


def test_every_contract_has_a_violation_below() -> None:
    """A contract that nobody has seen broken may check nothing at all."""
    assert {contract["name"] for contract in CONTRACTS} == {name for name, _ in VIOLATIONS}


@pytest.mark.parametrize(("contract", "planted"), VIOLATIONS)
def test_a_contract_breaks_when_it_is_violated(
    contract: str, planted: Mapping[str, str], tmp_path: Path
) -> None:
    """Each is planted in a copy of the project, one at a time."""
    project = copied(tmp_path)
    for module, imported in planted.items():
        file = project / module
        text = file.read_text() if file.exists() else '"""A module without a place."""\n'
        file.write_text(f"{text}\nimport {imported}  # noqa\n")

    result = linted(project)

    assert result.returncode == 1
    assert f"{contract} BROKEN" in result.stdout
