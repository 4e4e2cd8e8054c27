"""The commit that is tried: a figure in a report is one of some code."""

import subprocess
from functools import cache
from pathlib import Path

GIT = ("git",)
HERE = Path(__file__).parent


@cache
def commit() -> str:
    """Return the short name of the commit as it was when first asked, with a plus where code was changed since it.

    A dash where there is no repository, as in an unpacked archive, or no git. Asked once: a long measurement is one of the
    code that was there when it began, whatever is committed beside it. Reports change while they are made, and are no code.
    """
    try:
        name = _asked("rev-parse", "--short", "HEAD")
        # From the top: a bare "*.py" is one of the folder that git is asked in.
        kinds = (f":(top)*.{kind}" for kind in ("py", "scala", "java", "toml", "txt"))
        changed = _asked("status", "--porcelain", "--", *kinds)
    except (OSError, subprocess.CalledProcessError):
        return "-"
    return f"{name}+" if changed else name


def _asked(*words: str) -> str:
    found = subprocess.run((*GIT, *words), cwd=HERE, capture_output=True, text=True, check=True)
    return found.stdout.strip()
