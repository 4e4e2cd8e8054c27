"""Where set-up keeps what it made (the choice of Java, jars, archives), in a clone and where a wheel is installed.

A clone has its ``.venv``. An installed wheel has the virtual environment that it is in, so that it goes with it; outside of
one, or in one that is not the user's to write, it has a folder in the user's cache.
"""

import importlib.util
import os
import sys
import tomllib
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).parent
ROOT = PACKAGE.parents[1]
"""The folder of a clone; of a wheel's it is none of ours."""


def is_clone() -> bool:
    """Return whether the engine runs from a clone of its repository, and not from a wheel.

    A wheel may be in a folder that another project's ``pyproject.toml`` is in, so its name is read as well.
    """
    return _is_clone(ROOT)


@cache
def _is_clone(root: Path) -> bool:
    # Read once: to parse it takes 4 ms, and to find the tables and their versions asks some 370 times.
    try:
        text = (root / "pyproject.toml").read_text()
        return bool(tomllib.loads(text)["project"]["name"] == "strandline")
    except (OSError, ValueError, KeyError, TypeError):
        return False


def top() -> Path:
    """Return the folder from which files of ours are named: a clone, or the site-packages of an environment."""
    return ROOT if is_clone() else PACKAGE.parent


def page(name: str) -> Path:
    """Return a file of ``infra`` that is no module, named as in a clone (``infra/docs/jdbc.md``): a wheel has it in this package."""
    return ROOT / name if is_clone() else PACKAGE / name.removeprefix("infra/")


def example() -> Path:
    """Return the folder in which the package of the example is; a wheel has it among its files, so that no program finds it by chance."""
    return ROOT / "jobs" if is_clone() else PACKAGE / "example"


def home() -> Path:
    """Return the folder of what set-up made for this Python."""
    prefix = Path(sys.prefix)
    if is_clone() or (sys.prefix != sys.base_prefix and os.access(prefix, os.W_OK)):
        return prefix
    cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(cache) / "strandline" / f"python{sys.version_info.major}.{sys.version_info.minor}"


def setup_command() -> str:
    """Return what a person types to have missing parts fetched."""
    return "make setup" if is_clone() else "strandline setup"


def spark_folder(environment: Path) -> Path | None:
    """Return the folder of the jars that pyspark brings; None where it is not installed.

    Args:
        environment: The environment that set-up makes; the running Python may be another one.
    """
    found = next(iter(sorted(environment.glob("lib/python3.*/site-packages/pyspark/jars"))), None)
    if found is None and not is_clone():
        spec = importlib.util.find_spec("pyspark")
        inside = spec.submodule_search_locations if spec else None
        found = next(
            (folder for each in inside or () if (folder := Path(each) / "jars").is_dir()), None
        )
    return found
