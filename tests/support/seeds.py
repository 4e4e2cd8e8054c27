"""Lakes that are costly to make: each is made once a process and copied for each test."""

import shutil
from collections.abc import Callable
from pathlib import Path

from jobs.engine.storage.lake import Lake
from tests.support import engine

_made: dict[str, Path] = {}


def copied(lake: Lake, name: str, make: Callable[[Lake], object]) -> Lake:
    """Fill a lake with what a function makes, or with a copy of what it made under the same name.

    Args:
        lake: Gets the copy.
        name: What is made; two that differ need two names.
        make: Fills an empty lake.
    """
    if name not in _made:
        folder = engine.place() / "seeds" / str(len(_made))
        make(Lake(folder).open_for_writing())
        _made[name] = folder
    shutil.copytree(_made[name], lake.root, dirs_exist_ok=True)
    return lake
