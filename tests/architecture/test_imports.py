"""Each import contract fails when it is violated; `make check` runs the contracts on the project itself."""

import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.architecture.tree import ROOT, copied, search_path

CONTRACTS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"][
    "contracts"
]
LAYERS = "Gold reads silver, silver reads bronze, and only the engine does I/O"

WAYS = "Imports point one way: orchestration, jobs, quality, infra"
EXAMPLE = "The example imports the public interface and its own modules"
ROOMS = "Imports go down through the engine's rooms"
VIOLATIONS = (
    (
        WAYS,
        {"quality/strandline_quality/rules.py": "jobs.core"},
        "strandline_quality.rules -> jobs.core",
    ),
    (WAYS, {"infra/java.py": "jobs.engine"}, "infra.java -> jobs.engine"),
    (WAYS, {"jobs/catalog.py": "orchestration"}, "jobs.catalog -> orchestration"),
    (
        LAYERS,
        {"jobs/core/table.py": "jobs.engine.storage.lake"},
        "jobs.core.table -> jobs.engine.storage.lake",
    ),
    (
        LAYERS,
        {"jobs/silver/device_telemetry.py": "jobs.gold.device_signal_10m"},
        "jobs.silver.device_telemetry -> jobs.gold.device_signal_10m",
    ),
    (
        LAYERS,
        {"jobs/gold/device_signal_10m.py": "jobs.engine.storage.delta_commit"},
        "jobs.gold.device_signal_10m -> jobs.engine.storage.delta_commit",
    ),
    (
        LAYERS,
        {"jobs/engine/storage/lake.py": "jobs.cli.screen"},
        "jobs.engine.storage.lake -> jobs.cli.screen",
    ),
    (LAYERS, {"jobs/homeless.py": "jobs.core.modes"}, "- jobs.homeless"),
    (
        ROOMS,
        {"jobs/engine/storage/ledger.py": "jobs.engine.kafka.admin"},
        "jobs.engine.storage.ledger -> jobs.engine.kafka.admin",
    ),
    (ROOMS, {"jobs/engine/homeless.py": "jobs.core.modes"}, "- jobs.engine.homeless"),
    (
        "Orchestration imports no command line",
        {"orchestration/reporting.py": "jobs.cli.screen"},
        "orchestration.reporting -> jobs.cli.screen",
    ),
    (
        "A use case neither parses a command line nor draws",
        {"jobs/operate/ranges.py": "typer"},
        "jobs.operate.ranges -> typer",
    ),
    (
        "Nothing but alerts imports alerts: they are registered by name",
        {"jobs/operate/radar.py": "jobs.operate.alerts.rules"},
        "jobs.operate.radar -> jobs.operate.alerts.rules",
    ),
    (
        "Nothing but alerts imports alerts: they are registered by name",
        {"jobs/operate/doctor.py": "jobs.alerting.source"},
        "jobs.operate.doctor -> jobs.alerting.source",
    ),
    (
        "The clock is asked where a program begins, and given to all below",
        {"jobs/engine/repair/backfill.py": "jobs.engine.runtime.clock"},
        "jobs.engine.repair.backfill -> jobs.engine.runtime.clock",
    ),
    (
        "Dagster stays in orchestration",
        {"jobs/engine/service/stream_host.py": "dagster"},
        "jobs.engine.service.stream_host -> dagster",
    ),
    (
        "Great Expectations has one door, in quality",
        {"jobs/engine/pipeline/write_silver.py": "great_expectations"},
        "jobs.engine.pipeline.write_silver -> great_expectations",
    ),
    (
        "The engine does not import the example domain",
        {"jobs/engine/storage/commit_log.py": "jobs.silver.devices"},
        "jobs.engine.storage.commit_log -> jobs.silver.devices",
    ),
    (EXAMPLE, {"jobs/play/chance.py": "jobs.core.record"}, "jobs.play.chance -> jobs.core.record"),
    (
        EXAMPLE,
        {"jobs/bronze/dhcp_events.py": "jobs.core.topic"},
        "jobs.bronze.dhcp_events -> jobs.core.topic",
    ),
    (
        EXAMPLE,
        {"jobs/silver/dhcp_events.py": "strandline_quality.rules"},
        "jobs.silver.dhcp_events -> strandline_quality.rules",
    ),
    (EXAMPLE, {"jobs/gold/ip_holds.py": "jobs.core.fold"}, "jobs.gold.ip_holds -> jobs.core.fold"),
    (
        EXAMPLE,
        {"jobs/models/unusual_traffic.py": "jobs.core.model"},
        "jobs.models.unusual_traffic -> jobs.core.model",
    ),
    (
        EXAMPLE,
        {"jobs/alerts.py": "jobs.alerting.source"},
        "jobs.alerts -> jobs.alerting.source",
    ),
    (
        "No cycles",
        {"infra/java.py": "infra.jars", "infra/jars.py": "infra.java"},
        "No cycles are allowed in infra",
    ),
)
"""For each contract, modules, what each may not import, and the line of the report."""


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, str]:
    """Plant every violation in one copy of the project; return the report of each contract."""
    project = copied(tmp_path_factory.mktemp("project"))
    for _, planted, _ in VIOLATIONS:
        for module, imported in planted.items():
            file = project / module
            text = file.read_text() if file.exists() else '"""A module without a place."""\n'
            file.write_text(f"{text}\nimport {imported}  # noqa\n")
    program = str(Path(sys.executable).with_name("lint-imports"))
    done = subprocess.run(
        [program, "--no-cache"],
        cwd=project,
        env={**os.environ, "PYTHONPATH": search_path(project)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 1, done.stdout
    _, *sections = re.split(r"\n([^\n]+)\n-{3,}\n", done.stdout)
    return dict(zip(sections[::2], sections[1::2], strict=True))


def test_every_contract_has_a_violation_below() -> None:
    """A contract that was never seen broken may check nothing at all."""
    assert {contract["name"] for contract in CONTRACTS} == {name for name, *_ in VIOLATIONS}


@pytest.mark.parametrize(("contract", "line"), [(name, line) for name, _, line in VIOLATIONS])
def test_a_contract_breaks_when_it_is_violated(
    contract: str, line: str, report: Mapping[str, str]
) -> None:
    """All violations are in one copy, and each is reported below its own contract."""
    assert line in report[contract]
