"""The clock, and the name of the user: what only the beginning of a program asks.

All code between takes a moment and a name as arguments, so that what it does depends on nothing else. Ask it as ``clock.now()``:
a test sets this one attribute, and every program has another time.
"""

import getpass
from datetime import UTC, datetime

from strandline.engine.runtime.settings import identity


def now() -> datetime:
    """Read the clock, in UTC."""
    return datetime.now(UTC)  # noqa: TID251  # the one place


def login() -> str:
    """Return whom this process works for, where the platform says it, or else the name of the user."""
    if (named := identity()) is not None:
        return named
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container without names
        return "unknown"
