"""A real Airflow in an environment of its own, made once for its pins and kept among the caches."""

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.architecture.tree import ROOT
from tests.cli.typed import ENVIRONMENT

EXAMPLE = ROOT / "infra/airflow/strandline_dag.py"
PINS = ROOT / "infra/airflow/constraints.txt"
WANTED = ("apache-airflow-core", "apache-airflow-providers-standard")


@dataclass(frozen=True, slots=True, kw_only=True)
class Airflow:
    """An Airflow that has the example among its DAGs, as infra/docs/airflow.md puts it there.

    Args:
        programs: The folder of its programs.
        home: What it keeps.
        env: More environment variables for its workers.
    """

    programs: Path
    home: Path
    env: Mapping[str, str]

    def ran(
        self, program: str, *words: str, env: Mapping[str, str] | None = None
    ) -> "subprocess.CompletedProcess[str]":
        """Run one of its programs to its end, its words all in one."""
        own = {
            "AIRFLOW_HOME": str(self.home),
            "AIRFLOW__CORE__DAGS_FOLDER": str(self.home / "dags"),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
            "COLUMNS": "200",
        }
        return subprocess.run(
            [self.programs / program, *words],
            env={**ENVIRONMENT, **own, **self.env, **(env or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=500,
            check=False,
        )


def prepared(home: Path, env: Mapping[str, str]) -> Airflow:
    """Make what Airflow keeps, with the example linked into it."""
    airflow = Airflow(programs=installed() / "bin", home=home, env=env)
    (home / "dags").mkdir()
    (home / "dags" / EXAMPLE.name).symlink_to(EXAMPLE)
    made = airflow.ran("airflow", "db", "migrate")
    assert made.returncode == 0, made.stdout
    return airflow


def installed() -> Path:
    """Return the environment; without its packages the test is skipped, with the reason."""
    pins = hashlib.sha256(PINS.read_bytes() + sys.version.encode()).hexdigest()[:16]
    folder = ROOT / ".cache/airflow" / pins
    done = folder / "done"
    if done.exists():
        return folder
    shutil.rmtree(folder.parent, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    quiet = ("--no-input", "--disable-pip-version-check", "--no-compile", "--quiet")
    asked = subprocess.run(
        [folder / "bin/python", "-m", "pip", "install", *quiet, "-c", PINS, *WANTED],
        env=os.environ,
        capture_output=True,
        text=True,
        check=False,
    )
    if asked.returncode != 0:
        pytest.skip(f"Airflow could not be installed: {asked.stderr.strip()[-300:]}")
    done.touch()
    return folder
