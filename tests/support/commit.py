"""The commit that is tried: a figure in a report is one of some code."""

import subprocess
from pathlib import Path

HASH = ("git", "rev-parse", "--short", "HEAD")


def commit() -> str:
    """Return the short name of the commit; a dash in a folder that is no repository, such as an unpacked archive."""
    found = subprocess.run(
        HASH, cwd=Path(__file__).parent, capture_output=True, text=True, check=False
    )
    return found.stdout.strip() or "-"
