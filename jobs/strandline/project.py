"""Whose tables these are: those of a project of one's own, or the example that comes with the engine; and which extra is not installed.

A project is a folder with ``strandline.toml``; its ``[project]`` names the package whose ``bronze``, ``silver`` and ``gold`` have
the tables. It is found from the working folder upwards, as git finds its own; a program that another one starts elsewhere finds it by
STRANDLINE_PROJECT. Without such a file, or with one that names no package, the tables are the example's.

Why this module reads that variable and not the settings: the catalog is below them, and they read the same file.
"""

import os
import sys
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Any

from strandline.core.errors import DefinitionError
from strandline_infra import installation

FILE = "strandline.toml"
VARIABLE = "STRANDLINE_PROJECT"
EXAMPLE = "fleet"
ENGINE = ("strandline", "strandline_dagster", "strandline_infra", "strandline_quality")
"""Names of the engine's packages; a project that has one of these would hide it."""
SECTIONS = ("project", "profile")
KEYS = ("tables",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """A project of one's own.

    Args:
        root: Its folder.
        tables: The package with its tables.
        of_example: Whether that is the example's, because the file names none.
        profiles: The values of each profile, as they are written.
    """

    root: Path
    tables: str
    of_example: bool = False
    profiles: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @property
    def file(self) -> Path:
        """Return its ``strandline.toml``."""
        return self.root / FILE


def project() -> Project | None:
    """Return the project that this process works for; None where it is the example.

    Its folder is then where Python looks for modules, also Python of programs that this one starts, such as Spark's workers.

    Raises:
        DefinitionError: Its file cannot be read, or has something that is no part of it.
    """
    named = os.environ.get(VARIABLE)
    try:
        found = _found(named or os.getcwd(), is_named=bool(named))  # noqa: PTH109  # the key of a cache
    except FileNotFoundError:  # the working folder was removed
        return None
    if found is not None:
        _enter(found)
    return found


def package() -> str:
    """Return the package with the tables, which Python can find then."""
    found = project()
    if (found is None or found.of_example) and str(installation.example()) not in sys.path:
        _find_in(installation.example())
    return found.tables if found else EXAMPLE


def tables_root() -> Path:
    """Return the folder in which that package is."""
    found = project()
    return installation.example() if found is None or found.of_example else found.root


def near(word: str, known: "list[str] | tuple[str, ...]") -> str:
    """Return the begin of a hint that names what a wrong word may mean; empty if nothing is similar."""
    close = get_close_matches(word, known, n=2, cutoff=0.6)
    return f"did you mean {' or '.join(close)}? " if close else ""


@cache
def _found(begin: str, *, is_named: bool) -> Project | None:
    folder = Path(begin)
    if is_named:
        if not (folder / FILE).is_file():
            raise DefinitionError(
                f"{VARIABLE} is {begin}, where no {FILE} is",
                hint="unset it in the folder of a project, or name that folder.",
            )
        return _read(folder.absolute())
    roots = (each for each in (folder, *folder.parents) if (each / FILE).is_file())
    root = next(roots, None)
    return _read(root) if root else None


def _read(root: Path) -> Project:
    file = root / FILE
    try:
        text = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DefinitionError(
            f"{file} cannot be read: {error}", hint="correct it; it is a file in TOML."
        ) from error
    _refuse_unknown(file, text, SECTIONS, "")
    for section in SECTIONS:
        _refuse_other_than_table(file, section, text.get(section, {}))
    own, profiles = text.get("project", {}), text.get("profile", {})
    _refuse_unknown(file, own, KEYS, "[project] ")
    for name, values in profiles.items():
        _refuse_other_than_table(file, f"profile.{name}", values)
    tables = own.get("tables", EXAMPLE)
    if not isinstance(tables, str) or not all(each.isidentifier() for each in tables.split(".")):
        raise DefinitionError(
            f"{file}: [project] tables is {tables!r}, which is no package",
            hint='name the package whose bronze, silver and gold have the tables, such as "shop".',
        )
    taken = [name for name in ENGINE if (root / name).exists()]
    if KEYS[0] in own and taken:
        raise DefinitionError(
            f"{root / taken[0]} would hide a package of the engine",
            hint=f"rename it; the engine's packages are {', '.join(ENGINE)}.",
        )
    return Project(root=root, tables=tables, of_example=KEYS[0] not in own, profiles=profiles)


def _refuse_unknown(
    file: Path, found: Mapping[str, object], known: tuple[str, ...], at: str
) -> None:
    for name in found:
        if name not in known:
            raise DefinitionError(
                f"{file}: {at}{name} is not a part of this file",
                hint=f"{near(name, known)}its parts are {', '.join(known)}.",
            )


def _refuse_other_than_table(file: Path, name: str, value: object) -> None:
    if not isinstance(value, dict):
        raise DefinitionError(
            f"{file}: {name} is {value!r}, not a section", hint=f"write it as [{name}]."
        )


def _enter(found: Project) -> None:
    _find_in(found.root)
    os.environ[VARIABLE] = str(found.root)


def _find_in(folder: Path) -> None:
    root = str(folder)
    if root not in sys.path:
        sys.path.insert(0, root)
    others = [each for each in os.environ.get("PYTHONPATH", "").split(os.pathsep) if each]
    os.environ["PYTHONPATH"] = os.pathsep.join([root, *(each for each in others if each != root)])


# What a project lacks: a package that none must have, of an extra.


class MissingExtraError(DefinitionError):
    """What was asked for needs an extra that is not installed."""


def without(extra: str) -> MissingExtraError:
    """Return the error for an extra that is not installed."""
    return MissingExtraError(
        f"the extra {extra} is not installed: {installation.EXTRAS[extra].for_what}",
        hint=installation.hint(extra),
        extra=extra,
    )


def refuse_without(extra: str) -> None:
    """Refuse to go on without the packages of an extra.

    Raises:
        MissingExtraError: They are not installed.
    """
    if not installation.is_installed(extra):
        raise without(extra)


def missing(error: BaseException) -> MissingExtraError | None:
    """Return the error that is shown for a module that an extra brings; None for every other error."""
    if not isinstance(error, ModuleNotFoundError):
        return None
    extra = installation.of_module(error.name or "")
    return without(extra) if extra else None
