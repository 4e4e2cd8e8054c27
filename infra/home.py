"""Where set-up keeps what it made (the choice of Java, jars, archives), in a clone and where a wheel is installed.

A clone has its ``.venv``. An installed wheel has the virtual environment that it is in, so that it goes with it; outside of
one, or in one that is not the user's to write, it has a folder in the user's cache.
"""

import importlib.util
import os
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
"""The folder of the engine's packages: a clone, or the site-packages of an environment."""


def is_clone() -> bool:
    """Return whether the engine runs from a clone of its repository, and not from a wheel.

    Some wheels leave a ``pyproject.toml`` of theirs in site-packages, so its name is read as well.
    """
    try:
        text = (ROOT / "pyproject.toml").read_text()
        return bool(tomllib.loads(text)["project"]["name"] == "strandline")
    except (OSError, ValueError, KeyError, TypeError):
        return False


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
