"""A change of code changes the hash of every table whose rows it may change, and of no other."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import jobs
from jobs.engine.runtime import code_files
from jobs.engine.runtime.code_files import files_of
from jobs.gold import site_traffic_1h
from tests.support import own_model

ROOT = Path(jobs.__file__).parents[1]
PROGRAM = """
import json, sys
from pathlib import Path
from jobs.catalog import tables
from jobs.engine.runtime import code_files as decisive, meter

def hashes():
    for each in (meter.code_version, *(f for f in vars(decisive).values() if hasattr(f, "cache_clear"))):
        each.cache_clear()
    return {table.id: meter.code_version(table) for table in tables()}

before = hashes()
for name in sys.argv[1:]:
    file = Path(name)
    text = file.read_text()
    file.write_text(text + "CHANGED = True\\n")
    after = hashes()
    file.write_text(text)
    print(json.dumps(sorted(name for name in before if before[name] != after[name])))
"""
ABOVE_HOLDS = ["gold.attributed_connections", "gold.ip_holds", "gold.site_traffic_1h"]
OF_DEVICES = ["gold.device_daily", "gold.device_signal_10m", "gold.site_traffic_1h"]
CHANGES = {
    "jobs/gold/ip_holds.py": ABOVE_HOLDS,
    "jobs/silver/dhcp_events.py": [*ABOVE_HOLDS, "silver.dhcp_events"],
    "jobs/silver/devices.py": [*OF_DEVICES, "silver.devices"],
    "jobs/silver/user_actions.py": ["gold.confirmed_logins", "silver.user_actions"],
    "jobs/gold/device_daily.py": ["gold.device_daily"],
    "jobs/engine/service/stream_health.py": [],
    "jobs/operate/run.py": [],
}


@pytest.fixture(scope="module")
def changed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """Return the tables whose hash changed, by the file that was changed in a copy of the project."""
    copy = tmp_path_factory.mktemp("copy")
    for package in ("jobs", "quality"):
        shutil.copytree(ROOT / package, copy / package)
    command = [sys.executable, "-c", PROGRAM, *CHANGES]
    done = subprocess.run(command, cwd=copy, check=True, capture_output=True, text=True)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    return dict(zip(CHANGES, lines, strict=True))


@pytest.mark.parametrize("file", CHANGES)
def test_a_change_counts_for_the_tables_that_depend_on_it(
    file: str, changed: dict[str, list[str]]
) -> None:
    """Certificates, shadows and lineage carry this hash."""
    assert changed[file] == CHANGES[file]


def test_the_engine_is_no_part_of_a_table() -> None:
    """A new verb must not invalidate every certificate."""
    found = {file.relative_to(ROOT).parts[:2] for file in files_of(site_traffic_1h.TABLE)}

    assert {("jobs", "core"), ("jobs", "gold"), ("jobs", "silver"), ("jobs", "bronze")} <= found
    assert not {("jobs", each) for each in ("engine", "operate", "cli", "play")} & found


OWN = """
import json
from jobs.catalog import models, tables
from jobs.engine.runtime import meter

found = {table.id: meter.code_version(table) for table in tables()}
print(json.dumps(found | {model.name: meter.model_version(model) for model in models()}))
"""


def hashes(project: Path, seed: int) -> dict[str, str]:
    """Return the hash of each table and each model of a project, as a process of its own computes it."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONHASHSEED": str(seed)}
    done = subprocess.run(
        [sys.executable, "-c", OWN],
        cwd=project,
        env=environment,
        check=True,
        capture_output=True,
        text=True,
    )
    return dict(json.loads(done.stdout))


def test_a_model_of_a_project_of_ones_own_has_one_hash_until_its_code_changes(
    tmp_path: Path,
) -> None:
    """In every process; and its module and what this imports are no part of the table that it scores."""
    project = own_model.made(tmp_path)
    first, again = hashes(project, 1), hashes(project, 2)
    (project / "house" / "thresholds.py").write_text("LEAST = 11\n")
    imported = hashes(project, 3)
    file = project / "house" / "models" / "forced.py"
    file.write_text(file.read_text() + "CHANGED = True\n")
    own = hashes(project, 4)

    assert first == again
    assert {name for name in first if imported[name] != first[name]} == {"forced"}
    assert {name for name in first if own[name] != imported[name]} == {"forced"}


def test_no_folder_is_part_of_a_hash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A project may be before the engine in the order of paths or behind it, and hold the engine's environment."""
    inside = tmp_path / "house" / ".venv" / "lib"
    places = [
        (tmp_path / "a", tmp_path / "b"),
        (tmp_path / "b", tmp_path / "a"),
        (tmp_path / "house", inside),
    ]
    orders = []
    for own, engine in places:
        names = [own / "house" / "gold" / "x.py", engine / "jobs" / "core" / "x.py"]
        for name in names:
            name.parent.mkdir(parents=True, exist_ok=True)
            name.touch()
        monkeypatch.setattr(
            code_files, "roots", lambda own=own, engine=engine: {"house": own, "jobs": engine}
        )
        orders.append([each.parts[-3] for each in code_files._reached(names)])

    assert orders == [["house", "jobs"]] * 3
