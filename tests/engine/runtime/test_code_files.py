"""A change of code changes the hash of every table whose rows it may change, and of no other."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import jobs
from jobs.engine.runtime.code_files import files_of
from jobs.gold import site_traffic_1h

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
    assert not {("jobs", "engine"), ("jobs", "cli"), ("jobs", "play")} & found
