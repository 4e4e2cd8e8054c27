"""A project of one's own is written: a topic, a silver and a gold table with their tests, a Makefile and a CI file."""

import keyword
import re
import sys
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from infra.home import ROOT
from jobs.core.errors import DefinitionError
from jobs.operate.drafts import SUFFIX, filled
from jobs.project import ENGINE

DRAFTS = ROOT / "infra" / "project"
PACKAGE = "package"
NAME = re.compile(r"[a-z][a-z0-9]*([_-][a-z0-9]+)*")
TAKEN = {*ENGINE, "tests", "pytest", "ruff"}
"""Packages that a project needs and that may not be installed yet."""


def make(folder: Path) -> str:
    """Write the files of a project into a folder, and return the name of the project.

    Raises:
        DefinitionError: The folder is not empty or cannot be written, or its name is no name for a project.
    """
    root = folder.absolute()
    name = _name(root)
    if root.exists() and (not root.is_dir() or any(root.iterdir())):
        raise DefinitionError(
            f"{folder} exists and is not empty", hint="name a folder that does not exist yet."
        )
    package = name.replace("-", "_")
    words = {
        "name": name,
        "package": package,
        "upper": package.upper(),
        "version": version("strandline"),
        "next": str(int(version("strandline").partition(".")[0]) + 1),
    }
    try:
        for draft in sorted(DRAFTS.rglob(f"*{SUFFIX}")):
            place = root / _target(draft, package)
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(filled(draft, words), encoding="utf-8")
    except OSError as error:
        raise DefinitionError(
            f"{error.filename or root} cannot be written: {error.strerror}",
            hint="name a folder where you may write.",
        ) from error
    return name


def _name(root: Path) -> str:
    name = root.name
    package = name.replace("-", "_")
    if (
        NAME.fullmatch(name) is None
        or keyword.iskeyword(package)
        or package in sys.stdlib_module_names
    ):
        raise DefinitionError(
            f"{name!r} is no name for a project",
            hint="write it in small letters, digits and single dashes or underscores, such as web-shop; "
            "a word or a module of Python's own is none.",
        )
    if package in TAKEN or _is_importable(package):
        raise DefinitionError(
            f"{name!r} is no name for a project: a package that is installed here has it, and the project would hide it",
            hint=f"choose another name, such as {name}-lake.",
        )
    return name


def _is_importable(package: str) -> bool:
    """Return whether another package has the name; a folder of this name that is only near by is none.

    Python finds modules in the working folder too, so an empty folder for the project looks like a package there.
    """
    found = find_spec(package)
    if found is None:
        return False
    places = found.submodule_search_locations or [str(found.origin)]
    return any(Path(each).parent != Path.cwd() for each in places)


def _target(draft: Path, package: str) -> Path:
    """Return where a draft goes, below the project's folder."""
    first, *rest = draft.relative_to(DRAFTS).with_suffix("").parts
    return Path(package if first == PACKAGE else first, *rest)
