"""A Python in which some packages are not installed, with all programs that it starts.

Python looks for them and finds none, so the errors are its own; nothing is uninstalled, and nothing of the engine is replaced.
"""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from strandline_infra.installation import EXTRAS
from tests.architecture.tree import PACKAGES, ROOT

VARIABLE = "ABSENT_PACKAGES"
SITE = f"""
import os
import sys
from importlib.machinery import PathFinder

ABSENT = frozenset(os.environ["{VARIABLE}"].split(","))


class Without:
    @staticmethod
    def find_spec(name, path=None, target=None):
        absent = name.partition(".")[0] in ABSENT
        return None if absent else PathFinder.find_spec(name, path, target)

    invalidate_caches = staticmethod(PathFinder.invalidate_caches)
    find_distributions = staticmethod(PathFinder.find_distributions)


sys.meta_path[sys.meta_path.index(PathFinder)] = Without
"""
"""Python imports a module of this name at its start, before any other of ours."""


def without(folder: Path, extras: Iterable[str]) -> Mapping[str, str]:
    """Return the variables of a Python that has no package of some extras.

    Args:
        folder: Where a file of it may lie.
        extras: The extras that are not installed.
    """
    (folder / "sitecustomize.py").write_text(SITE)
    modules = ",".join(module for extra in extras for module in EXTRAS[extra].modules)
    paths = [str(folder), str(ROOT), *(str(ROOT / name) for name in PACKAGES)]
    return {VARIABLE: modules, "PYTHONPATH": os.pathsep.join(paths)}
