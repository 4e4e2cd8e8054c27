"""A project of one's own is written: tables with their tests and a play, a Makefile and a CI file.

Its tables are a topic, a silver and a gold table of a shop, or those of the example (jobs/strandline/operate/example.py).
"""

import keyword
import re
import sys
from collections.abc import Iterator, Mapping
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from strandline.core.errors import DefinitionError
from strandline.operate import example
from strandline.operate.drafts import SUFFIX, filled
from strandline.project import ENGINE, EXAMPLE
from strandline_infra import home

DRAFTS = home.PACKAGE / "project"
"""What every project has."""
SHOP, FLEET = (home.PACKAGE / name for name in ("shop", "fleet"))
"""What a project of the one or the other tables has beside it."""
EXTRAS = ("dagster", "quality")
"""What a project installs of the engine's extras; that of the example has alerts as well."""
PACKAGE = "package"
NAME = re.compile(r"[a-z][a-z0-9]*([_-][a-z0-9]+)*")
TAKEN = {*ENGINE, "tests", "pytest", "ruff"}
"""Packages that a project needs and that may not be installed yet."""


def make(folder: Path, *, of_example: bool = False) -> str:
    """Write the files of a project into a folder, and return the name of the project.

    Args:
        folder: Its folder.
        of_example: Whether its tables, models and play are those of the example.

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
        "extras": ",".join(sorted([*EXTRAS, *(["alerts"] if of_example else [])])),
        "next": str(int(version("strandline").partition(".")[0]) + 1),
    }
    try:
        for place, text in _files(words, of_example=of_example):
            file = root / place
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
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
    if package in TAKEN or (package != EXAMPLE and _is_importable(package)):
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


def _files(words: Mapping[str, str], *, of_example: bool) -> Iterator[tuple[Path, str]]:
    """Yield the place of each file below the project's folder, and its text."""
    for drafts in (DRAFTS, FLEET if of_example else SHOP):
        for draft in sorted(drafts.rglob(f"*{SUFFIX}")):
            first, *rest = draft.relative_to(drafts).with_suffix("").parts
            yield Path(words["package"] if first == PACKAGE else first, *rest), filled(draft, words)
    if of_example:
        yield from example.files_of(words["package"])
