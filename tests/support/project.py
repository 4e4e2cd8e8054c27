"""A copy of the project, to which a test does what a reader would do to theirs."""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.architecture import tree

TYPED = "import sys; from strandline.cli.main import main; sys.exit(main())"

HANGS = 400
"""Seconds after which a program hangs: mypy reads all that the interface leads to, 34 s of CPU, 134 s beside a whole suite."""


def copied(folder: Path) -> Path:
    """Copy what a table and its test need."""
    tree.copied(folder)
    shutil.copytree(
        tree.ROOT / "tests/support",
        folder / "tests/support",
        ignore=shutil.ignore_patterns("__pycache__"),
    )
    shutil.copy(tree.ROOT / "tests/conftest.py", folder / "tests/conftest.py")
    return folder


def ran(project: Path, *words: str, env: Mapping[str, str] | None = None) -> str:
    """Run Python in the copy, whose modules come before the installed ones."""
    done = tried(project, *words, env=env)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


def tried(
    project: Path, *words: str, env: Mapping[str, str] | None = None
) -> "subprocess.CompletedProcess[str]":
    """Run Python in the copy, whatever comes of it."""
    own = {"PYTHONPATH": tree.search_path(project), "STRANDLINE_LAKE": str(project / "lake")}
    return subprocess.run(
        [sys.executable, *words],
        cwd=project,
        env={**os.environ, **own, **(env or {})},
        capture_output=True,
        text=True,
        timeout=HANGS,
        check=False,
    )
