"""Plant each fault of the list in a copy of the project, and see that the tests that must notice do.

make mutants                    all of them
make mutants ONLY="lease gate"  those whose description has one of the words
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.architecture.tree import copied, search_path
from tests.mutants.mutant import Mutant
from tests.mutants.planted import MUTANTS

FAILED = 1
"""What pytest exits with when tests have failed; any other code is no verdict."""


def is_noticed(mutant: Mutant, project: Path, most: float) -> tuple[bool, str]:
    """Plant a fault, run the tests that must notice it, and take it away again."""
    file = project / mutant.file
    text = file.read_text()
    file.write_text(text.replace(mutant.old, mutant.new))
    words = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:randomly", *mutant.tests]
    try:
        done = subprocess.run(
            words,
            cwd=project,
            env={**os.environ, "PYTHONPATH": search_path(project)},
            capture_output=True,
            text=True,
            timeout=most,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return False, f"no verdict after {most:.0f} s"
    finally:
        file.write_text(text)
    failed = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    line = failed[0].split(" - ")[0] if failed else done.stdout.strip().rpartition("\n")[2]
    return done.returncode == FAILED, line


def main() -> int:
    """Return 1 if a fault was not noticed."""
    parser = argparse.ArgumentParser(prog="make mutants", description=__doc__)
    parser.add_argument("words", nargs="*", help="only faults whose description has one of these")
    parser.add_argument("--most", type=float, default=300.0, help="seconds for one fault")
    asked = parser.parse_args()
    chosen = [m for m in MUTANTS if not asked.words or any(w in m.what for w in asked.words)]
    missed = 0
    with tempfile.TemporaryDirectory(prefix="strandline-mutants-") as folder:
        project = copied(Path(folder) / "project", "tests")
        for number, mutant in enumerate(chosen, 1):
            began = time.monotonic()
            noticed, line = is_noticed(mutant, project, asked.most)
            missed += not noticed
            print(  # noqa: T201  # a program for people
                f"{number:2}/{len(chosen)} {'noticed' if noticed else 'MISSED '} {time.monotonic() - began:4.0f} s  "
                f"{mutant.what}: {line}",
                flush=True,
            )
    print(f"{len(chosen) - missed} of {len(chosen)} faults noticed")  # noqa: T201  # as above
    return min(missed, 1)


if __name__ == "__main__":
    sys.exit(main())
