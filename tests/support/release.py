"""A release of the project: a copy of its code with something changed, by which programs are started while it is installed."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.architecture import tree
from tests.cli import typed

PYTHONPATH = "PYTHONPATH"


def released(folder: Path, module: str, before: str, after: str) -> Path:
    """Return a copy of the code in which one module has other words.

    Args:
        folder: Where to.
        module: Its path, such as ``jobs/fleet/gold/device_signal_10m.py``.
        before: Words that it has once.
        after: What it has in their place.
    """
    file = tree.copied(folder) / module
    text = file.read_text()
    assert text.count(before) == 1, f"{module} has {before!r} {text.count(before)} times"
    file.write_text(text.replace(before, after))
    (folder / ".venv").symlink_to(tree.ROOT / ".venv")
    return folder


class Installation:
    """The code by which programs are started from now on: that of this clone, or a release in its place."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        """Begin with the code of this clone."""
        self._patch = patch

    def install(self, release: Path | None) -> None:
        """Have the programs that people type, and those that the watchdog starts, run a release; none for the code of this clone."""
        if release is None:
            self._patch.delenv(PYTHONPATH, raising=False)
            self._patch.delitem(typed.ENVIRONMENT, PYTHONPATH, raising=False)
            return
        self._patch.setenv(PYTHONPATH, tree.search_path(release))
        self._patch.setitem(typed.ENVIRONMENT, PYTHONPATH, tree.search_path(release))


@contextmanager
def installation() -> Iterator[Installation]:
    """Leave behind what was installed before."""
    assert PYTHONPATH not in os.environ
    with pytest.MonkeyPatch.context() as patch:
        yield Installation(patch)
