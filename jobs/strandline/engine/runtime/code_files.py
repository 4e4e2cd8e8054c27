"""The files that decide a table's rows, or what a model learns: their modules, and every module of the project that these import.

A table depends on the tables that it reads or joins with, so their modules count as its own. Imports are read from
the source text, at any depth of a module, and followed wherever a table's function may reach. The packages engine,
operate and cli are not followed: they decide when and where rows are computed, and a certificate shows that this does not
change them. An import by a computed name is not found.

What decides is what they say (jobs/strandline/engine/runtime/code_files.py), not what they are called or where they are.
"""

import ast
import hashlib
import inspect
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from functools import cache, partial
from importlib.metadata import version
from pathlib import Path
from threading import Lock
from types import ModuleType
from typing import Any
from zipfile import ZipFile

from strandline.catalog import module_of
from strandline.core import errors
from strandline.core.kind import BESIDE
from strandline.core.model import Model
from strandline.core.table import Ingested, Table
from strandline.project import package, project, tables_root
from strandline.sql_file import ENCODING, said
from strandline.sql_import import SUFFIX
from strandline_infra import installation
from strandline_quality import rules

# What the statements of a module say, whatever its name, its place, and the order in which it imports.
#
# A fingerprint of code is made of them: of each statement at the top of a module, without docstrings, comments and imports. What
# an import does is kept where it is used: a name carries what it means, which is the name in a library, or the hash of
# the statements that define it in a module of ours. So a function that moves is the same, and another one under the same name is not.
#
# Python's own ``ast.dump`` and ``ast.unparse`` differ from version to version (fields that are new, empty ones left out, quotes in
# f-strings), so the form is one of our own: fields that are empty are never written, texts are written in ASCII, and the
# parts of an f-string that are text are one.


IGNORED = frozenset(["kind", "type_comment", "ctx"])
"""Fields that decide nothing: how a text was written, a comment, and what the place of a name says already."""

KINDS = frozenset({"Ingested", "Judged", "Windowed", "Appended", "Upserted", "Recomputed"})

SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)


@dataclass(frozen=True, slots=True)
class Import:
    """What one import binds a name to: a module, or a name within it.

    Args:
        module: The module's whole name.
        name: The name within it; empty where the module itself is meant.
    """

    module: str
    name: str = ""


Inside = Callable[[str], str]
"""Says what a name within a module of ours means."""

_PARSING = Lock()


def parsed(text: bytes) -> ast.Module:
    """Return the statements of a text, read by one thread at a time.

    The parser of CPython 3.11 counts its depth for all threads together, and raises where two are at it: a run of tables side by side
    failed with "AST constructor recursion depth mismatch".
    """
    with _PARSING:
        return ast.parse(text)


@dataclass
class Reading:
    """One module, read.

    Args:
        text: Its text.
        package: Returns the package at which its relative imports of a level begin.
    """

    text: bytes
    package: Callable[[int], str]
    bound: dict[str, list[ast.stmt]] = field(init=False)
    imports: dict[str, list[Import]] = field(init=False)
    stars: list[str] = field(init=False)
    names: list[str] = field(init=False)
    """All that it imports, as whole names; whether the last part of one is a module is not known from here."""

    def __post_init__(self) -> None:
        """Find what its names are bound to."""
        tree = parsed(self.text)
        self.statements = [each for each in tree.body if not _is_nothing(each)]
        self.bound, self.imports = defaultdict(list), defaultdict(list)
        self.stars, self.names = [], []
        for node in ast.walk(tree):
            match node:
                case ast.Import(names=names):
                    for each in names:
                        self._import(each)
                case ast.ImportFrom():
                    self._import_from(node)
        for statement in self.statements:
            for name in set(_bound(statement)):
                self.bound[name].append(statement)

    def _import(self, each: ast.alias) -> None:
        self.names.append(each.name)
        self.imports[each.asname or each.name].append(Import(each.name))
        if not each.asname and "." in each.name:
            top = each.name.partition(".")[0]
            self.imports[top].append(Import(top))

    def _import_from(self, node: ast.ImportFrom) -> None:
        above = self.package(node.level) if node.level else ""
        whole = ".".join(each for each in (above, node.module or "") if each)
        if node.level and not above:
            whole = f".{whole}"  # a relative import outside the project
        self.names.append(whole)
        for each in node.names:
            self.names.append(f"{whole}.{each.name}")
            if each.name == "*":
                self.stars.append(whole)
            else:
                self.imports[each.asname or each.name].append(Import(whole, each.name))

    def hash_of(self, statements: "list[ast.stmt]", inside: "dict[str, Inside]") -> str:
        """Return the hash of statements in their order; what the names mean that they use is no part of it."""
        return digest([_Form(None, _free(each, inside)).of(each) for each in statements])


def hashes(reading: Reading, meanings: dict[str, str], inside: dict[str, Inside]) -> Iterator[str]:
    """Yield the hash of each statement of a module.

    Args:
        reading: The module.
        meanings: What its names mean.
        inside: The names that are modules of ours.
    """
    for each in reading.statements:
        yield digest([_Form(meanings, _free(each, inside)).of(each)])


def digest(parts: list[str]) -> str:
    """Return the hash of some texts in their order."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:24]


def _is_nothing(node: object) -> bool:
    """Return whether a statement does nothing by itself: an import, a docstring, or a place that has to have one."""
    match node:
        case ast.Import() | ast.ImportFrom() | ast.Pass() | ast.Expr(ast.Constant(str())):
            return True
    return False


def _bound(node: ast.AST) -> Iterator[str]:
    """Yield the names that a statement binds in its module; what is bound within a function is the function's own."""
    match node:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
            yield name
    if not isinstance(node, SCOPES):
        for each in ast.iter_child_nodes(node):
            yield from _bound(each)


def _free(statement: ast.stmt, inside: dict[str, Inside]) -> dict[str, Inside]:
    """Return the modules that a statement can mean: those whose names it gives to nothing of its own."""
    if not inside:
        return inside
    own = set()
    for node in ast.walk(statement):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name):
                own.add(name)
    return {name: each for name, each in inside.items() if name.partition(".")[0] not in own}


def _has_beside(call: ast.Call, name: str) -> bool:
    """Return whether a call makes a table with a field that decides no row."""
    return name in KINDS and any(each.arg in BESIDE for each in call.keywords)


@dataclass
class _Form:
    """Writes a statement in one form, in every version of Python."""

    meanings: dict[str, str] | None
    inside: dict[str, Inside]

    def of(self, node: object) -> str:
        """Return a node, or a value of one, as text."""
        match node:
            case ast.Constant(value=value):
                written = ascii(value)
            case ast.Name(id=name):
                written = f"Name({name} {(self.meanings or {}).get(name, '')})"
            case ast.Attribute(value=value, attr=attr) if found := self._module(value):
                written = f"Name({attr} {'' if self.meanings is None else found(attr)})"
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)) if _has_beside(
                node, name
            ):
                named = [each for each in node.keywords if each.arg not in BESIDE]
                written = self.of(ast.Call(node.func, node.args, named))
            case ast.JoinedStr(values=values):
                written = f"JoinedStr({' '.join(self._joined(values))})"
            case ast.AST():
                written = f"{type(node).__name__}({' '.join(self._fields(node))})"
            case list():
                kept = (self.of(each) for each in node if not _is_nothing(each))
                written = f"[{' '.join(kept)}]"
            case _:
                written = ascii(node)
        return written

    def _module(self, node: ast.expr) -> Inside | None:
        """Return the module of ours that an expression names."""
        match node:
            case ast.Name(id=name):
                return self.inside.get(name)
            case ast.Attribute(value=ast.Name() | ast.Attribute()):
                return self.inside.get(ast.unparse(node))
        return None

    def _fields(self, node: ast.AST) -> Iterator[str]:
        for name in node._fields:
            value = getattr(node, name, None)
            if value is None or name in IGNORED:
                continue
            written = self.of(value)
            if written != "[]":
                yield f"{name}={written}"

    def _joined(self, values: list[ast.expr]) -> Iterator[str]:
        text = ""
        for each in values:
            match each:
                case ast.Constant(value=str() as more):
                    text += more
                case _:
                    if text:
                        yield ascii(text)
                    text = ""
                    yield self.of(each)
        if text:
            yield ascii(text)


ROOT = Path(__file__).parents[3]
"""Where the engine's package is."""
ENGINE, QUALITY = (each.__name__.partition(".")[0] for each in (errors, rules))
"""The packages of the engine; both are asked for their names, so that no hash depends on these."""
NOT_FOLLOWED = ("engine", "operate", "cli")
PIPELINE = Path(__file__).parents[1] / "flow"
SHAPING = ("plan.py", "query.py")
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
        core, quality = (self._stem(part) for part in (f"{self.engine}.core", self.quality))
        packed = [
            file for file in self.packed if file.is_relative_to(core) or file.parent == quality
        ]
        return [*packed, *core.rglob("*.py"), *quality.glob("*.py")]

    def text(self, file: Path) -> bytes:
        """Return the text of a file; of one in SQL what it says, as a text of Python."""
        if file in self.packed:
            return self.packed[file]
        text = file.read_bytes()
        return (
            said(text.decode(ENCODING, errors="replace")).encode()
            if file.suffix == SUFFIX
            else text
        )

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
            places = (stem.with_suffix(".py"), stem / "__init__.py", stem.with_suffix(SUFFIX))
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


def text_of(module: ModuleType) -> bytes | None:
    """Return the text of a module's file as it is now; None where it has none, or where that is gone."""
    file = getattr(module, "__file__", None)
    try:
        return None if file is None else Path(file).read_bytes()
    except OSError:
        return None


def read_again() -> None:
    """Forget what files said, because modules were edited; what is known of a table that was asked about stays."""
    for each in (_tree, _releases, _tree_of_then):
        each.cache_clear()


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


def version_of_vocabulary() -> str:
    """Return the hash of what every table is made of beside its own modules."""
    return tree().version(tree().vocabulary())


def version_of_queries(*before: str) -> str:
    """Return the hash of what decides what a query is, beside the table's own."""
    return tree().version([PIPELINE / name for name in SHAPING], *before)


def module_file(folder: str, name: str) -> Path:
    """Return the file of a table or a model; that of a table may be of SQL."""
    parts = module_of(folder, name).split(".")
    stem = roots()[parts[0]].joinpath(*parts)
    in_sql, in_python = stem.with_suffix(SUFFIX), stem.with_suffix(".py")
    return in_sql if in_sql.is_file() and not in_python.is_file() else in_python


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


# The vocabulary of releases before: all that is said in it counts for every table, so a module that is merged with another one, or a
# kind of table that is new, would lapse the certificates of tables whose rows are what they were.
#
# The texts of such a vocabulary are kept, and hash a table as that release did. Before they are kept, the suite, the
# hostile sets and a certificate by both releases show that the rows are the same; a release whose rows are others is not kept.


PACKED = Path("former")
"""Where the files of an archive count as being; there is no such folder."""

RELEASES = Path(installation.__file__).with_name("releases")
"""An archive a release, made by ``python -m tests.support.kept_release COMMIT``."""


@cache
def _releases() -> tuple[Tree, ...]:
    """Return the modules of the releases whose vocabulary makes the same rows as today's, the newest first."""
    found = (_packed(file) for file in sorted(RELEASES.glob("*.zip"), reverse=True))
    return tuple(
        Tree(roots={**roots(), ENGINE: PACKED, QUALITY: PACKED}, packed=each) for each in found
    )


def _packed(archive: Path) -> dict[Path, bytes]:
    with ZipFile(archive) as texts:
        return {PACKED.joinpath(*name.split("/")): texts.read(name) for name in texts.namelist()}


@cache
def versions_of(table: Table) -> frozenset[str]:
    """Return the hashes by which today's code of a table is known: its own, and those of releases that make the same rows."""
    then = {each.version(_then(each, table)) for each in _releases()}
    return frozenset({version_of(table), *then})


def _then(tree: Tree, table: Table) -> tuple[Path, ...]:
    """Return the files that decided a table's rows with a release: its own as they are, and the engine's of then."""
    of_engine = (ROOT / ENGINE, roots()[QUALITY] / QUALITY)
    own = [
        PACKED / file.relative_to(around.parent)
        if (around := next((each for each in of_engine if file.is_relative_to(each)), None))
        else file
        for file in declared(table)
    ]
    there = [file for file in own if file in tree.packed or not file.is_relative_to(PACKED)]
    return tree.reached([*tree.vocabulary(), *there])


# The code of former programs: what lakes keep of it is a hash of whole files, which nothing that is here today has.
#
# Up to a day of November 2026 certificates, ledgers and caches of lineage had the hash of the bytes of modules, with their comments.
# The texts of those modules are kept in an archive, and give that hash again. It means today's code as long as
# the statements of both are the same; once a statement of a table or of the vocabulary changes, it is other code, as it should be.
#
# The archive is opened only where a hash is not today's.


ARCHIVE = Path(installation.__file__).with_name("former_code.zip")
FORMER_ENGINE, FORMER_QUALITY = "jobs", "quality"
"""What the packages were called then."""
MOVED = PACKED.joinpath(FORMER_ENGINE, "core", "project.py")
"""Was among the vocabulary, and decided no row."""
REWORDED = {
    f"module in {FORMER_ENGINE}/bronze,": "module of bronze,",
    f"over it in {FORMER_ENGINE}/silver,": "over it in silver,",
}
"""Sentences of errors that named a folder; what they name today."""


@cache
def was_code_of(table: Table, code: str) -> bool:
    """Return whether a hash is of a release that makes the same rows, or of the files of a former program that says what today's says."""
    if code in versions_of(table):
        return True
    tree = _tree_of_then()
    for own in (_of_example(tree, table), _of_project(table)):
        files = tree.reached([*tree.vocabulary(), *own]) if own else ()
        if files and _hash_of_files(files) == code:
            said = tree.version([each for each in files if each != MOVED])
            return said in versions_of(table)
    return False


@cache
def _texts() -> dict[Path, bytes]:
    return _packed(ARCHIVE)


@cache
def _tree_of_then() -> Tree:
    said = {file: _reworded(text) for file, text in _texts().items()}
    found = project()
    own = {found.tables.partition(".")[0]: found.root} if found else {}
    then = dict.fromkeys((FORMER_ENGINE, FORMER_QUALITY), PACKED)
    return Tree(roots={**own, **then}, engine=FORMER_ENGINE, quality=FORMER_QUALITY, packed=said)


def _reworded(text: bytes) -> bytes:
    for old, new in REWORDED.items():
        text = text.replace(old.encode(), new.encode())
    return text


def _of_example(tree: Tree, table: Table) -> list[Path]:
    """Return the modules in the archive of a table of the example; none where the table is another one."""
    tables = [table]
    for each in tables:
        tables += each.needs
    files = [PACKED.joinpath(FORMER_ENGINE, each.layer, f"{each.name}.py") for each in tables]
    return files if all(file in tree.packed for file in files) else []


def _of_project(table: Table) -> list[Path]:
    """Return the modules of a table of a project of one's own: its files as they are."""
    found = project()
    return [each for each in declared(table) if found and each.is_relative_to(found.root)]


def _hash_of_files(files: tuple[Path, ...]) -> str:
    """Return the hash as former programs made it: name and bytes of each file, in the order of their places."""
    digest, packed = hashlib.sha256(), _texts()
    for file in files:
        content = packed[file] if file in packed else file.read_bytes()
        digest.update(file.name.encode() + b"\0" + content)
    return digest.hexdigest()[:12]


# What a lake keeps of it: each is computed once per process.


@cache
def code_version(table: Table) -> str:
    """Return a hash of the statements that decide a table's rows."""
    return version_of(table)


def is_code_of(table: Table, code: str) -> bool:
    """Return whether a hash that is kept in a lake is of today's code: of its statements, or of the files that had the same once."""
    return code == code_version(table) or was_code_of(table, code)


@cache
def model_version(model: Model) -> str:
    """Return a hash of the statements that decide a table's rows, and of those of the model that learns from them."""
    return version_of_model(model)


@cache
def vocabulary_version() -> str:
    """Return a hash of what decides the rows of every table beside its own statements."""
    return version_of_vocabulary()


@cache
def query_version() -> str:
    """Return a hash of what turns a table's function into a query: those modules of ours, and the versions of Spark and Delta."""
    return version_of_queries(*map(version, ("pyspark", "delta-spark")))
