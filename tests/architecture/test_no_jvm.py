"""Reading the catalog must not start a JVM: an editor, Dagster and ``--help`` all read it."""

import subprocess
import sys

import pytest

from tests.architecture.tree import ROOT

LOOK = """
import importlib, sys, psutil
for name in sys.argv[1:]:
    importlib.import_module(name)
from pyspark import SparkContext
children = [child.name() for child in psutil.Process().children(recursive=True)]
sys.exit(f"a JVM was started: {children}" if SparkContext._gateway or children else 0)
"""


@pytest.mark.parametrize(
    "names",
    [
        ("jobs.catalog", "quality", "orchestration.definitions", "infra"),
        ("jobs.cli.main", "jobs.cli.work", "jobs.cli.demo", "jobs.cli.answers"),
        ("jobs.run.runner", "jobs.run.host", "jobs.play.send"),
    ],
    ids=["the catalog", "the command line", "the runner"],
)
def test_importing_starts_no_jvm(names: tuple[str, ...]) -> None:
    """A module that makes a Column at import would need Spark to be read at all."""
    command = [sys.executable, "-c", LOOK, *names]

    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )

    assert done.returncode == 0, done.stderr


def test_reading_the_tables_starts_no_jvm() -> None:
    """Finding them all means importing every table's module."""
    code = "from jobs import catalog; assert catalog.tables()\n" + LOOK

    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.returncode == 0, done.stderr
