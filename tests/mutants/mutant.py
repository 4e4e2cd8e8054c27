"""A fault that a change could put into the engine, the tests that must notice it, and how these are run with it."""

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.architecture.tree import search_path

FAILED = 1
"""What pytest exits with when tests have failed; any other code is no verdict."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """One fault.

    Args:
        what: What it breaks.
        file: The module, from the project's root.
        old: Text that occurs there once.
        new: What is put in its place.
        tests: What must fail: files, or tests in files.
    """

    what: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Ran:
    """What tests did with a fault.

    Args:
        code: What pytest exited with; None where the time was over.
        failed: The first test that failed or could not begin; empty if none did.
        last: The last line of what pytest printed.
    """

    code: int | None
    failed: str = ""
    last: str = ""


def run(project: Path, file: Path, text: str, tests: Sequence[str], most: float) -> Ran:
    """Run tests in a copy of the project in which a module has another text; afterwards it has its own again."""
    own = file.read_text()
    words = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:randomly"]
    file.write_text(text)
    try:
        with subprocess.Popen(
            [*words, *tests],
            cwd=project,
            env={**os.environ, "PYTHONPATH": search_path(project)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        ) as running:
            try:
                out, _ = running.communicate(timeout=most)
            except subprocess.TimeoutExpired:
                os.killpg(running.pid, signal.SIGKILL)  # with the programs that the tests started
                return Ran(None)
    finally:
        file.write_text(own)
    failed = [line for line in out.splitlines() if line.startswith(("FAILED", "ERROR"))]
    first = failed[0].split(" - ")[0] if failed else ""
    return Ran(running.returncode, first, out.strip().rpartition("\n")[2])
