"""Plant each fault of the list in a copy of the project, and see that the tests that must notice do.

make mutants                    all of them
make mutants ONLY="lease gate"  those whose description has one of the words
"""

import argparse
import sys
import tempfile
import time
from pathlib import Path

from tests.architecture.tree import copied
from tests.mutants.mutant import FAILED, Mutant, run
from tests.mutants.planted import MUTANTS


def is_noticed(mutant: Mutant, project: Path, most: float) -> tuple[bool, str]:
    """Plant a fault, run the tests that must notice it, and take it away again."""
    file = project / mutant.file
    text = file.read_text().replace(mutant.old, mutant.new)
    ran = run(project, file, text, mutant.tests, most)
    if ran.code is None:
        return False, f"no verdict after {most:.0f} s"
    return ran.code == FAILED, ran.failed or ran.last


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
