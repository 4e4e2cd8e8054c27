"""The files that decide a table's rows, or what a model learns: their modules, and every module of the project that these import.

A table depends on the tables that it reads or joins with, so their modules count as its own. Imports are read from
the source text, at any depth of a module, and followed wherever a table's function may reach. The packages engine,
operate, cli and play are not followed: they decide when and where rows are computed, and a certificate shows that this does not
change them. An import by a computed name is not found.

Files are in the order of their places within their package's root. By their whole paths the order, and with it every
hash, would differ with the folder that a project or the engine is installed in.
"""

import ast
import inspect
from collections.abc import Callable, Iterator
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Any

from jobs.core.model import Model
from jobs.core.table import Ingested, Table
from jobs.project import package, project

ROOT = Path(__file__).parents[3]
VOCABULARY = ("jobs/core", "quality")
"""Included whole: parsing, verdicts and rules apply to every table, imported or not."""
ENGINE = ("engine", "operate", "cli", "play")
SHAPING = ("plan.py", "query.py", "stream_frames.py", "make_table.py")
"""Modules of the engine's pipeline that turn a table's function into a query."""


def roots() -> dict[str, Path]:
    """Return where each package is whose modules decide rows: the engine's two, and that of a project of one's own."""
    found = project()
    own = {found.tables.partition(".")[0]: found.root} if found else {}
    return {**own, "jobs": ROOT, "quality": ROOT}


@cache
def files_of(table: Table) -> tuple[Path, ...]:
    """Return the files that decide a table's rows, sorted."""
    vocabulary = [file for part in VOCABULARY for file in (ROOT / part).glob("*.py")]
    return _reached([*vocabulary, *_declared(table)])


def own_texts_of(table: Table) -> Iterator[str]:
    """Yield the text of each of those that are a table's alone: its module, and what that imports beside the vocabulary of all."""
    shared = tuple(ROOT / part for part in VOCABULARY)
    yield from (file.read_bytes().decode() for file in files_of(table) if file.parent not in shared)


def contents_of(table: Table) -> Iterator[bytes]:
    """Yield name and content of each of those files."""
    return map(_content, files_of(table))


def contents_of_model(model: Model) -> Iterator[bytes]:
    """Yield the same of a model's module and of what it imports, beside the files of its table.

    Of a model without such a module, as in a test, what was declared: its table has functions, and their text is
    another one in each process.
    """
    own = _module("models", model.name)
    if not own.exists():
        yield repr(
            [getattr(model, each.name) for each in fields(model) if each.name != "of"]
        ).encode()
        return
    of_table = set(files_of(model.of))
    yield from (_content(file) for file in _reached([own]) if file not in of_table)


def contents_of_queries() -> Iterator[bytes]:
    """Yield the content of each file that decides what a query is, beside the table's own."""
    for name in SHAPING:
        yield (ROOT / "jobs" / "engine" / "pipeline" / name).read_bytes()


def _module(folder: str, name: str) -> Path:
    """Return the file of a table or a model in the package of the tables."""
    parts = package().split(".")
    return roots()[parts[0]].joinpath(*parts, folder, f"{name}.py")


def _reached(coming: list[Path]) -> tuple[Path, ...]:
    """Return some files and all that they import, in an order that no folder changes."""
    found: set[Path] = set()
    while coming:
        file = coming.pop()
        if file not in found:
            found.add(file)
            coming += _imported(file)
    return tuple(sorted(found, key=lambda file: (_within(file), file)))


def _within(file: Path) -> tuple[str, ...]:
    """Return the parts of a path within the nearest root; an environment may be in a project's folder."""
    around = [root for root in roots().values() if file.is_relative_to(root)]
    nearest = max(around, key=lambda root: len(root.parts), default=None)
    return file.relative_to(nearest).parts if nearest else (file.name,)


def _content(file: Path) -> bytes:
    return file.name.encode() + b"\0" + file.read_bytes()


def _declared(table: Table) -> list[Path]:
    """Return the modules of a table and of the tables it depends on, with the functions that they name."""
    own = _module(table.layer, table.name)
    named: list[Callable[..., Any]] = [topic.parse for topic in table.topics]
    named += [] if isinstance(table, Ingested) else [table.transform]
    named += [table.dimension.join] if table.dimension else []
    files = [own] if own.exists() else []
    files += map(_file_of, named)
    return files + [file for source in table.needs for file in _declared(source)]


def _file_of(function: Callable[..., Any]) -> Path:
    """Return the module of a function, of one with some of its arguments given, or of an object that is called."""
    named = getattr(function, "func", function)
    return Path(inspect.getfile(named if inspect.isroutine(named) else type(named)))


@cache
def _imported(file: Path) -> tuple[Path, ...]:
    """Return the files of the project that a file imports by name."""
    names = list(_names(file))
    return tuple(place for name in names for place in _places(name.split(".")))


def _names(file: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_bytes())):
        match node:
            case ast.Import(names=names):
                yield from (each.name for each in names)
            case ast.ImportFrom(module=module, names=names, level=level):
                above = _package(file, level) if level else ()
                whole = ".".join((*above, *((module,) if module else ())))
                yield whole
                yield from (f"{whole}.{each.name}" for each in names)


def _package(file: Path, level: int) -> tuple[str, ...]:
    """Return the package at which a relative import begins; imports outside the project are not followed."""
    folder = file.parents[level - 1]
    is_ours = any(folder.is_relative_to(root) for root in roots().values())
    return _within(folder) if is_ours else ("",)


def _places(parts: list[str]) -> Iterator[Path]:
    """Return the file of a module; none where the name is no module of the project's packages."""
    root = roots().get(parts[0])
    if root is None or (parts[0] == "jobs" and parts[1:2] and parts[1] in ENGINE):
        return
    stem = root.joinpath(*parts)
    yield from (
        place for place in (stem.with_suffix(".py"), stem / "__init__.py") if place.is_file()
    )
