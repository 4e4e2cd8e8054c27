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
LAYERS = "Gold reads silver, silver reads bronze"
DOWN = "Imports go down from the command line to the vocabulary"

WAYS = "Imports point one way: orchestration, jobs, quality, infra"
EXAMPLE = "The example imports the public interface and its own modules"
ROOMS = "Imports go down through the engine's rooms"
VIOLATIONS = (
    (
        WAYS,
        {"quality/strandline_quality/rules.py": "strandline.core"},
        "strandline_quality.rules -> strandline.core",
    ),
    (
        WAYS,
        {"infra/strandline_infra/java.py": "strandline.engine"},
        "strandline_infra.java -> strandline.engine",
    ),
    (
        WAYS,
        {"jobs/strandline/catalog.py": "strandline_dagster"},
        "strandline.catalog -> strandline_dagster",
    ),
    (
        DOWN,
        {"jobs/strandline/core/table.py": "strandline.engine.lake.lake"},
        "strandline.core.table -> strandline.engine.lake.lake",
    ),
    (
        LAYERS,
        {"jobs/fleet/silver/device_telemetry.py": "fleet.gold.device_signal_10m"},
        "fleet.silver.device_telemetry -> fleet.gold.device_signal_10m",
    ),
    (
        EXAMPLE,
        {"jobs/fleet/gold/device_signal_10m.py": "strandline.engine.lake.commit.delta_commit"},
        "fleet.gold.device_signal_10m -> strandline.engine.lake.commit.delta_commit",
    ),
    (
        DOWN,
        {"jobs/strandline/engine/lake/lake.py": "strandline.cli.screen"},
        "strandline.engine.lake.lake -> strandline.cli.screen",
    ),
    (LAYERS, {"jobs/fleet/homeless.py": "fleet.silver.devices"}, "- fleet.homeless"),
    (DOWN, {"jobs/strandline/homeless.py": "strandline.core.stateful"}, "- strandline.homeless"),
    (
        ROOMS,
        {"jobs/strandline/engine/lake/log/ledger.py": "strandline.engine.kafka.broker"},
        "strandline.engine.lake.log.ledger -> strandline.engine.kafka.broker",
    ),
    (
        ROOMS,
        {"jobs/strandline/engine/homeless.py": "strandline.core.stateful"},
        "- strandline.engine.homeless",
    ),
    (
        "Orchestration imports no command line",
        {"orchestration/strandline_dagster/schedules.py": "strandline.cli.screen"},
        "strandline_dagster.schedules -> strandline.cli.screen",
    ),
    (
        "A use case neither parses a command line nor draws",
        {"jobs/strandline/operate/demo.py": "typer"},
        "strandline.operate.demo -> typer",
    ),
    (
        "Nothing but alerts imports alerts: they are registered by name",
        {"jobs/strandline/operate/audit.py": "strandline.operate.alerts.examples"},
        "strandline.operate.audit -> strandline.operate.alerts.examples",
    ),
    (
        "Nothing but alerts imports alerts: they are registered by name",
        {"jobs/strandline/operate/doctor.py": "strandline.alerting.alert_rule"},
        "strandline.operate.doctor -> strandline.alerting.alert_rule",
    ),
    (
        "The clock is asked where a program begins, and given to all below",
        {"jobs/strandline/engine/repair/backfill.py": "strandline.engine.runtime.clock"},
        "strandline.engine.repair.backfill -> strandline.engine.runtime.clock",
    ),
    (
        "Dagster stays in orchestration",
        {"jobs/strandline/engine/service/stream_host.py": "dagster"},
        "strandline.engine.service.stream_host -> dagster",
    ),
    (
        "Great Expectations has one door, in quality",
        {"jobs/strandline/engine/flow/batch/write_rows.py": "great_expectations"},
        "strandline.engine.flow.batch.write_rows -> great_expectations",
    ),
    (
        "The engine does not import the example domain",
        {"jobs/strandline/engine/lake/log/commit_log.py": "fleet.silver.devices"},
        "strandline.engine.lake.log.commit_log -> fleet.silver.devices",
    ),
    (
        EXAMPLE,
        {"jobs/fleet/play/plan.py": "strandline.core.topic"},
        "fleet.play.plan -> strandline.core.topic",
    ),
    (
        EXAMPLE,
        {"jobs/fleet/bronze/dhcp_events.py": "strandline.core.topic"},
        "fleet.bronze.dhcp_events -> strandline.core.topic",
    ),
    (
        EXAMPLE,
        {"jobs/fleet/silver/dhcp_events.py": "strandline_quality.rules"},
        "fleet.silver.dhcp_events -> strandline_quality.rules",
    ),
    (
        EXAMPLE,
        {"jobs/fleet/gold/ip_holds.py": "strandline.core.fold"},
        "fleet.gold.ip_holds -> strandline.core.fold",
    ),
    (
        EXAMPLE,
        {"jobs/fleet/models/unusual_traffic.py": "strandline.core.model"},
        "fleet.models.unusual_traffic -> strandline.core.model",
    ),
    (
        EXAMPLE,
        {"jobs/fleet/alerts.py": "strandline.alerting.alert_rule"},
        "fleet.alerts -> strandline.alerting.alert_rule",
    ),
    (
        "No cycles",
        {
            "infra/strandline_infra/java.py": "strandline_infra.setup",
            "infra/strandline_infra/setup.py": "strandline_infra.java",
        },
        "No cycles are allowed in strandline_infra",
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
