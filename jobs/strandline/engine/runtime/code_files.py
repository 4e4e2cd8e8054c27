"""The files that decide a table's rows, or what a model learns: their modules, and every module of the project that these import.

A table depends on the tables that it reads or joins with, so their modules count as its own. Imports are read from
the source text, at any depth of a module, and followed wherever a table's function may reach. The packages engine,
operate and cli are not followed: they decide when and where rows are computed, and a certificate shows that this does not
change them. An import by a computed name is not found.

What decides is what they say (jobs/strandline/engine/runtime/code_statements.py), not what they are called or where they are.
"""

import inspect
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from functools import cache, partial
from pathlib import Path
from typing import Any

from strandline.catalog import module_of
from strandline.core import errors
from strandline.core.model import Model
from strandline.core.table import Ingested, Table
from strandline.engine.runtime.code_statements import Import, Inside, Reading, digest, hashes
from strandline.project import package, tables_root
from strandline_quality import rules

ROOT = Path(__file__).parents[3]
"""Where the engine's package is."""
ENGINE, QUALITY = (each.__name__.partition(".")[0] for each in (errors, rules))
"""The packages of the engine; both are asked for their names, so that no hash depends on these."""
NOT_FOLLOWED = ("engine", "operate", "cli")
PIPELINE = Path(__file__).parents[1] / "pipeline"
SHAPING = ("plan.py", "query.py", "stream_frames.py", "make_table.py")
"""Modules of the engine's pipeline that turn a table's function into a query."""


def roots() -> dict[str, Path]:
    """Return where each package is whose modules decide rows: that of the tables, and the engine's two."""
    tables = package().partition(".")[0]
    return {
        tables: tables_root(),
        ENGINE: ROOT,
        QUALITY: Path(rules.__file__).parents[1],
    }


@dataclass(frozen=True, kw_only=True, eq=False)
class Tree:
    """Modules that may decide rows: those on the disk, or those of a former program.

    Args:
        roots: Where the packages are that count as ours.
        engine: The name of the engine's package.
        quality: The name of the package with the rules of tables.
        packed: The texts of files that are not on the disk.
    """

    roots: Mapping[str, Path]
    engine: str = ENGINE
    quality: str = QUALITY
    packed: Mapping[Path, bytes] = field(default_factory=dict)
    _readings: dict[Path, Reading] = field(default_factory=dict, init=False)
    _insides: dict[Path, dict[str, Inside]] = field(default_factory=dict, init=False)
    _hashes: dict[tuple[Path, str], str] = field(default_factory=dict, init=False)
    _said: dict[Path, tuple[str, ...]] = field(default_factory=dict, init=False)
    """What was found of each file: with it the hashes of all tables of the example take 0.6 s of CPU, without it 6.5."""

    def vocabulary(self) -> list[Path]:
        """Return the files that apply to every table, imported or not: parsing, verdicts and rules."""
        folders = [self._stem(part) for part in (f"{self.engine}.core", self.quality)]
        packed = [file for file in self.packed if file.parent in folders]
        return [*packed, *(file for folder in folders for file in folder.glob("*.py"))]

    def text(self, file: Path) -> bytes:
        """Return the text of a file."""
        return self.packed[file] if file in self.packed else file.read_bytes()

    def reached(self, coming: Iterable[Path]) -> tuple[Path, ...]:
        """Return some files and all that they import, in an order that no folder changes."""
        found, left = set[Path](), list(coming)
        while left:
            file = left.pop()
            if file not in found:
                found.add(file)
                names = self._reading(file).names
                left += [
                    place for name in names if self._is_followed(name) for place in self.files(name)
                ]
        return tuple(sorted(found, key=lambda file: (self.within(file), file)))

    def version(self, files: Collection[Path], *before: str) -> str:
        """Return the hash of all statements of some files: in which of them one is decides nothing."""
        for file in files:
            if file not in self._said:
                self._said[file] = tuple(self._statements(file))
        found = sorted(each for file in files for each in self._said[file])
        return digest([*before, *found])[:12]

    def files(self, name: str) -> Iterator[Path]:
        """Yield the file of a module; none where the name is no module of the packages."""
        if name.partition(".")[0] in self.roots:
            stem = self._stem(name)
            places = (stem.with_suffix(".py"), stem / "__init__.py")
            yield from (each for each in places if each in self.packed or each.is_file())

    def within(self, file: Path) -> tuple[str, ...]:
        """Return the parts of a path within the nearest root; an environment may be in a project's folder."""
        around = [root for root in self.roots.values() if file.is_relative_to(root)]
        nearest = max(around, key=lambda root: len(root.parts), default=None)
        return file.relative_to(nearest).parts if nearest else (file.name,)

    @property
    def _interface(self) -> str:
        """Return the module that the public interface ``strandline`` leads to: its names are those of the vocabulary."""
        return f"{self.engine}.api"

    def _is_followed(self, name: str) -> bool:
        """Return whether a module may decide rows; the interface, by either of its names, only passes names on."""
        package, _, rest = name.partition(".")
        return package != self.engine or rest.partition(".")[0] not in {"", *NOT_FOLLOWED, "api"}

    def _stem(self, name: str) -> Path:
        parts = name.split(".")
        return self.roots[parts[0]].joinpath(*parts)

    def _package(self, file: Path, level: int) -> str:
        """Return the package at which a relative import begins; empty outside the project."""
        folder = file.parents[level - 1]
        is_ours = any(folder.is_relative_to(root) for root in self.roots.values())
        return ".".join(self.within(folder)) if is_ours else ""

    def _reading(self, file: Path) -> Reading:
        if file not in self._readings:
            self._readings[file] = Reading(self.text(file), partial(self._package, file))
        return self._readings[file]

    def _statements(self, file: Path) -> Iterator[str]:
        reading, inside = self._reading(file), self._inside(file)
        own = {name: self._hash(file, name) for name in reading.bound}
        given = {
            name: " ".join(sorted(map(self._given, found)))
            for name, found in reading.imports.items()
        }
        return hashes(reading, given | own, inside)

    def _inside(self, file: Path) -> dict[str, Inside]:
        """Return the names in a module that are modules of ours."""
        if file not in self._insides:
            found = self._reading(file).imports.items()
            modules = {name: self._module_of(each[-1]) for name, each in found}
            self._insides[file] = {
                name: partial(self._meant, each) for name, each in modules.items() if each
            }
        return self._insides[file]

    def _module_of(self, each: Import) -> str:
        """Return the module of ours that is imported; empty where it is another thing, or decides no rows."""
        whole = f"{each.module}.{each.name}" if each.name else each.module
        return whole if self._is_followed(whole) and any(self.files(whole)) else ""

    def _given(self, each: Import) -> str:
        """Return what an import binds a name to: one of a library by its module, one of ours by what defines it."""
        if each.module.partition(".")[0] not in {*self.roots, "strandline"}:
            return f"{each.module}:{each.name}"
        meant = self._meant(each.module, each.name) if each.name else ""
        module = self._module_of(each)
        if meant or not module:
            return meant
        files = list(self.files(module))
        return digest(
            sorted(
                self._reading(file).hash_of([one], {})
                for file in files
                for one in self._reading(file).statements
            )
        )

    def _meant(self, module: str, name: str, seen: frozenset[str] = frozenset()) -> str:
        """Return the hash of what defines a name of a module of ours; empty where nothing does that decides rows."""
        whole = self._interface if module == "strandline" else module
        if whole in seen or not (self._is_followed(whole) or whole == self._interface):
            return ""
        for file in self.files(whole):
            reading = self._reading(file)
            if name in reading.bound:
                return self._hash(file, name)
            passed = [
                (each.module, each.name) for each in reading.imports.get(name, ()) if each.name
            ]
            passed += [(star, name) for star in reading.stars]
            found = (self._meant(*each, seen | {whole}) for each in passed)
            if hash_ := next(filter(None, found), ""):
                return hash_
        return ""

    def _hash(self, file: Path, name: str) -> str:
        if (file, name) not in self._hashes:
            reading = self._reading(file)
            made = reading.hash_of(reading.bound[name], self._inside(file))
            self._hashes[file, name] = f"{name} {made}"
        return self._hashes[file, name]


def tree() -> Tree:
    """Return the modules as they are on the disk, each read once."""
    return _tree(tuple(roots().items()))


@cache
def _tree(at: tuple[tuple[str, Path], ...]) -> Tree:
    return Tree(roots=dict(at))


@cache
def files_of(table: Table) -> tuple[Path, ...]:
    """Return the files that decide a table's rows, sorted."""
    return tree().reached([*tree().vocabulary(), *declared(table)])


def own_texts_of(table: Table) -> Iterator[str]:
    """Yield the text of each of those that are a table's alone: its module, and what that imports beside the vocabulary of all."""
    shared = set(tree().vocabulary())
    yield from (file.read_bytes().decode() for file in files_of(table) if file not in shared)


def version_of(table: Table) -> str:
    """Return the hash of what those files say."""
    return tree().version(files_of(table))


def version_of_model(model: Model) -> str:
    """Return the same of a model's module and of what it imports, beside the files of its table.

    Of a model without such a module, as in a test, what was declared: its table has functions, and their text is
    another one in each process.
    """
    own, of_table = module_file("models", model.name), version_of(model.of)
    if not own.exists():
        values = [getattr(model, each.name) for each in fields(model) if each.name != "of"]
        return digest([of_table, repr(values)])[:12]
    known = set(files_of(model.of))
    return tree().version([file for file in tree().reached([own]) if file not in known], of_table)


def version_of_queries(*before: str) -> str:
    """Return the hash of what decides what a query is, beside the table's own."""
    return tree().version([PIPELINE / name for name in SHAPING], *before)


def module_file(folder: str, name: str) -> Path:
    """Return the file of a table or a model."""
    parts = module_of(folder, name).split(".")
    return roots()[parts[0]].joinpath(*parts).with_suffix(".py")


def declared(table: Table) -> list[Path]:
    """Return the modules of a table and of the tables it depends on, with the functions that they name."""
    own = module_file(table.layer, table.name)
    named: list[Callable[..., Any]] = [topic.parse for topic in table.topics]
    named += [] if isinstance(table, Ingested) else [table.transform]
    named += [table.dimension.join] if table.dimension else []
    files = [own] if own.exists() else []
    files += map(_file_of, named)
    return files + [file for source in table.needs for file in declared(source)]


def _file_of(function: Callable[..., Any]) -> Path:
    """Return the module of a function, of one with some of its arguments given, or of an object that is called."""
    named = getattr(function, "func", function)
    return Path(inspect.getfile(named if inspect.isroutine(named) else type(named)))
