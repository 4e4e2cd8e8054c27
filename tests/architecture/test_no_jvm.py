"""Reading the catalog must not start a JVM: an editor, Dagster and ``--help`` all read it."""

import json
import subprocess
import sys

import pytest

from tests.architecture.tree import ROOT

LOOK = """
import importlib, json, sys, psutil
from pyspark import SparkContext
found = {}
for what, names in json.loads(sys.argv[1]).items():
    for name in names:
        module = importlib.import_module(name)
        if name == "strandline.catalog":
            assert module.tables()  # imports the module of every table
    children = [child.name() for child in psutil.Process().children(recursive=True)]
    found[what] = [*children, *(["a gateway"] if SparkContext._gateway else [])]
print(json.dumps(found))
"""
READ = {
    "the catalog": ("strandline.catalog", "strandline_quality", "strandline_infra"),
    "the command line": (
        "strandline.cli.main",
        "strandline.cli.verbs.stream",
        "strandline.cli.verbs.play",
        "strandline.cli.verbs.ledger",
    ),
    "the runner": (
        "strandline.engine.flow.runner",
        "strandline.engine.service.stream_host",
        "strandline.engine.kafka.send_records",
    ),
    "the definitions": ("strandline_dagster.definitions",),
}


@pytest.fixture(scope="module")
def started() -> dict[str, list[str]]:
    """Import one after the other in a new process; return what each has started."""
    command = [sys.executable, "-c", LOOK, json.dumps(READ)]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, list[str]] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("what", READ)
def test_importing_starts_no_jvm(what: str, started: dict[str, list[str]]) -> None:
    """A module that makes a Column at import would need Spark to be read at all."""
    assert started[what] == []
