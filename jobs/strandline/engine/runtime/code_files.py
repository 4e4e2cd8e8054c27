"""The files that decide a table's rows, or what a model learns: their modules, and every module of the project that these import.

A table depends on the tables that it reads or joins with, so their modules count as its own. Imports are read from
the source text, at any depth of a module, and followed wherever a table's function may reach. The packages engine,
operate and cli are not followed: they decide when and where rows are computed, and a certificate shows that this does not
change them. An import by a computed name is not found.

What decides is what they say (jobs/strandline/engine/runtime/statements.py), not what they are called or where they are.
"""

import hashlib
import inspect
import json
import os
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields
from functools import cache, partial
from pathlib import Path
from types import ModuleType
from typing import Any
from zipfile import ZipFile

from strandline.catalog import module_of
from strandline.core import errors
from strandline.core.model import Model
from strandline.core.table import Ingested, Table
from strandline.engine.runtime.statements import (
    Import,
    Inside,
    Look,
    Reading,
    digest,
    hash_of_bytes,
    hashes,
)
from strandline.project import package, project, tables_root
from strandline.sql_file import ENCODING, said
from strandline.sql_import import SUFFIX
from strandline_infra import installation
from strandline_quality import rules

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
        look: Through which files are read.
    """

    roots: Mapping[str, Path]
    engine: str = ENGINE
    quality: str = QUALITY
    packed: Mapping[Path, bytes] = field(default_factory=dict)
    look: Look = field(default_factory=Look)
    _readings: dict[Path, Reading] = field(default_factory=dict, init=False)
    _insides: dict[Path, dict[str, Inside]] = field(default_factory=dict, init=False)
    _hashes: dict[tuple[Path, str], str] = field(default_factory=dict, init=False)
    _said: dict[Path, tuple[str, ...]] = field(default_factory=dict, init=False)
    """What was found of each file: with it the hashes of all tables of the example take 0.6 s of CPU, without it 6.5."""
    _files: dict[str, tuple[Path, ...]] = field(default_factory=dict, init=False)
    _leads: dict[Path, tuple[Path, ...]] = field(default_factory=dict, init=False)
    _within: dict[Path, tuple[str, ...]] = field(default_factory=dict, init=False)
    _vocabulary: list[Path] = field(default_factory=list, init=False)

    def vocabulary(self) -> list[Path]:
        """Return the files that apply to every table, imported or not: parsing, verdicts and rules."""
        if not self._vocabulary:
            core, quality = (self._stem(part) for part in (f"{self.engine}.core", self.quality))
            packed = [
                file for file in self.packed if file.is_relative_to(core) or file.parent == quality
            ]
            self._vocabulary.extend([*packed, *core.rglob("*.py"), *quality.glob("*.py")])
        return self._vocabulary

    def text(self, file: Path) -> bytes:
        """Return the text of a file; of one in SQL what it says, as a text of Python."""
        if file in self.packed:
            return self.packed[file]
        text = self.look.content(file)
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
                if file not in self._leads:
                    names = filter(self._is_followed, self._reading(file).names)
                    led = (place for name in names for place in self.files(name))
                    self._leads[file] = tuple(dict.fromkeys(led))
                left += self._leads[file]
        return tuple(sorted(found, key=lambda file: (self.within(file), file)))

    def version(self, files: Collection[Path], *before: str) -> str:
        """Return the hash of all statements of some files: in which of them one is decides nothing."""
        for file in files:
            if file not in self._said:
                self._said[file] = tuple(sorted(self._statements(file)))
        found = sorted(each for file in files for each in self._said[file])
        return digest([*before, *found])[:12]

    def files(self, name: str) -> tuple[Path, ...]:
        """Return the file of a module; none where the name is no module of the packages."""
        if name.partition(".")[0] not in self.roots:
            return ()
        if name not in self._files:
            stem = self._stem(name)
            places = (stem.with_suffix(".py"), stem / "__init__.py", stem.with_suffix(SUFFIX))
            there = (each for each in places if each in self.packed or self.look.is_file(each))
            self._files[name] = tuple(there)
        return self._files[name]

    def within(self, file: Path) -> tuple[str, ...]:
        """Return the parts of a path within the nearest root; an environment may be in a project's folder."""
        if file not in self._within:
            self._within[file] = self._parts(file)
        return self._within[file]

    def _parts(self, file: Path) -> tuple[str, ...]:
        around = [str(root) for root in self.roots.values() if str(file).startswith(f"{root}/")]
        nearest = max(around, key=len, default="")
        return tuple(str(file)[len(nearest) + 1 :].split("/")) if nearest else (file.name,)

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
        return whole if self._is_followed(whole) and self.files(whole) else ""

    def _given(self, each: Import) -> str:
        """Return what an import binds a name to: one of a library by its module, one of ours by what defines it."""
        if each.module.partition(".")[0] not in {*self.roots, "strandline"}:
            return f"{each.module}:{each.name}"
        meant = self._meant(each.module, each.name) if each.name else ""
        module = self._module_of(each)
        if meant or not module:
            return meant
        files = self.files(module)
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
    for each in (_tree, _kept, _releases, _tree_of_then):
        each.cache_clear()


@cache
def files_of(table: Table) -> tuple[Path, ...]:
    """Return the files that decide a table's rows, sorted."""
    return tree().reached([*tree().vocabulary(), *declared(table)])


def own_texts_of(table: Table) -> Iterator[str]:
    """Yield the text of each of those that are a table's alone: its module, and what that imports beside the vocabulary of all."""

    def found() -> Iterator[str]:
        shared = set(tree().vocabulary())
        yield from (str(file) for file in files_of(table) if file not in shared)

    own = kept().asked("own", declared(table), found)
    yield from (Path(name).read_bytes().decode() for name in own)


def version_of(table: Table) -> str:
    """Return the hash of what those files say."""
    return kept().one("version", declared(table), lambda: tree().version(files_of(table)))


def version_of_model(model: Model) -> str:
    """Return the same of a model's module and of what it imports, beside the files of its table.

    Of a model without such a module, as in a test, what was declared: its table has functions, and their text is
    another one in each process.
    """
    own, of_table = module_file("models", model.name), version_of(model.of)
    if not own.exists():
        values = [getattr(model, each.name) for each in fields(model) if each.name != "of"]
        return digest([of_table, repr(values)])[:12]

    def found() -> str:
        known = set(files_of(model.of))
        mine = [file for file in tree().reached([own]) if file not in known]
        return tree().version(mine, of_table)

    return kept().one("model", [own, *declared(model.of)], found)


def version_of_vocabulary() -> str:
    """Return the hash of what every table is made of beside its own modules."""
    return kept().one("vocabulary", (), lambda: tree().version(tree().vocabulary()))


def version_of_queries(*before: str) -> str:
    """Return the hash of what decides what a query is, beside the table's own."""
    files = [PIPELINE / name for name in SHAPING]
    return kept().one("queries", before, lambda: tree().version(files, *before))


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
def _releases(look: Look) -> tuple[Tree, ...]:
    """Return the modules of the releases whose vocabulary makes the same rows as today's, the newest first."""
    found = (_packed(file) for file in _archives())
    places = {**roots(), ENGINE: PACKED, QUALITY: PACKED}
    return tuple(Tree(roots=places, packed=each, look=look) for each in found)


def _archives() -> list[Path]:
    return sorted(RELEASES.glob("*.zip"), reverse=True)


@cache
def _mark_of(archive: Path) -> str:
    return hash_of_bytes(archive.read_bytes())


def _packed(archive: Path) -> dict[Path, bytes]:
    with ZipFile(archive) as texts:
        return {PACKED.joinpath(*name.split("/")): texts.read(name) for name in texts.namelist()}


@cache
def versions_of(table: Table) -> frozenset[str]:
    """Return the hashes by which today's code of a table is known: its own, and those of releases that make the same rows."""

    def found() -> set[str]:
        return {each.version(_then(each, table)) for each in _releases(_look())}

    then = kept().asked("releases", [*map(_mark_of, _archives()), *declared(table)], found)
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
    found, names = project(), [each.id for each in _with_needs(table)]
    of = [_mark_of(ARCHIVE), code, found.root if found else "", *names, *declared(table)]
    return kept().one("former", of, lambda: _said_with(table, code)) in versions_of(table)


def _said_with(table: Table, code: str) -> str:
    """Return the hash of what a former program's files said that had a hash of their bytes; empty where it had none of it."""
    tree = _tree_of_then(_look())
    for own in (_of_example(tree, table), _of_project(table)):
        files = tree.reached([*tree.vocabulary(), *own]) if own else ()
        if files and _hash_of_files(files) == code:
            return tree.version([each for each in files if each != MOVED])
    return ""


def _look() -> Look:
    return tree().look


@cache
def _texts() -> dict[Path, bytes]:
    return _packed(ARCHIVE)


@cache
def _tree_of_then(look: Look) -> Tree:
    said = {file: _reworded(text) for file, text in _texts().items()}
    found = project()
    own = {found.tables.partition(".")[0]: found.root} if found else {}
    then = dict.fromkeys((FORMER_ENGINE, FORMER_QUALITY), PACKED)
    places = {**own, **then}
    return Tree(roots=places, engine=FORMER_ENGINE, quality=FORMER_QUALITY, packed=said, look=look)


def _reworded(text: bytes) -> bytes:
    for old, new in REWORDED.items():
        text = text.replace(old.encode(), new.encode())
    return text


def _of_example(tree: Tree, table: Table) -> list[Path]:
    """Return the modules in the archive of a table of the example; none where the table is another one."""
    files = [
        PACKED.joinpath(FORMER_ENGINE, each.layer, f"{each.name}.py") for each in _with_needs(table)
    ]
    return files if all(file in tree.packed for file in files) else []


def _with_needs(table: Table) -> list[Table]:
    tables = [table]
    for each in tables:
        tables += [source for source in each.needs if source not in tables]
    return tables


def _of_project(table: Table) -> list[Path]:
    """Return the modules of a table of a project of one's own: its files as they are."""
    found = project()
    return [each for each in declared(table) if found and each.is_relative_to(found.root)]


def _hash_of_files(files: tuple[Path, ...]) -> str:
    """Return the hash as former programs made it: name and bytes of each file, in the order of their places."""
    digest, packed = hashlib.sha256(), _texts()
    for file in files:
        content = packed[file] if file in packed else _look().content(file)
        digest.update(file.name.encode() + b"\0" + content)
    return digest.hexdigest()[:12]


# What was found before, for as long as every file that it was made of says what it said.
#
# To hash the code of three hundred tables takes more than a second, and to read its files some hundredths of one. So what was found
# is kept beside what set-up made, with the hash of the bytes of each file that was read and with each place where a module was looked for.
# Before any of it is believed all of these are looked at again. No time, size or number of a file decides: an edit within a tick of the
# clock, a checkout, a copy or a clock that was set back can leave them as they were.
#
# What was made by another engine or another Python counts for nothing, nor does a file that is damaged; who may not write there finds
# all of it anew each time. A process writes at its end, and only if no file changed while it looked.


FOLDER, MOST_PROJECTS, MOST_KEPT = "hashes", 20, 20_000
"""Below the home of an installation, a file a project; of more projects, those that were asked last; of more answers, none of before."""


def _basis() -> str:
    """Return the hash of what decides how hashes are made: this Python, and the modules that make them as they are on the disk."""
    modules = [*(ROOT / ENGINE).glob("*.py"), *(ROOT / ENGINE / "core").rglob("*.py")]
    own = [Path(__file__), Path(__file__).with_name("statements.py")]
    found = hashlib.sha256(sys.version.encode())
    try:
        for file in (*own, *sorted(modules)):
            found.update(file.read_bytes())
    except OSError:  # of an engine that is not in files nothing is kept
        return ""
    return found.hexdigest()


BASIS = _basis()
"""As they are when they are loaded: a process goes on by them where the engine is exchanged on the disk."""


class Kept:
    """What was found of the modules of a project, by this process and by those before it."""

    def __init__(self, tree: Tree) -> None:
        """Take what was kept, where it is still so."""
        self._look = tree.look
        self._listed = sorted(map(str, tree.vocabulary()))
        places = json.dumps([(name, str(root)) for name, root in tree.roots.items()])
        self._file = _folder() / f"{hash_of_bytes(places.encode())}.json"
        self._found: dict[str, list[str]] = {}
        self._has_news = False
        record = self._read()
        if record is not None and _is_so(record["said"], record["there"]):
            self._look.take(record["said"], record["there"])
            self._found = record["found"]

    def asked(
        self, what: str, of: Iterable[object], make: Callable[[], Iterable[str]]
    ) -> list[str]:
        """Return what was found; it is made where it was not.

        Args:
            what: The question.
            of: All that the answer depends on beside files that are read through the look.
            make: Makes the answer, which it reads through the look.
        """
        name = "\0".join([what, *map(str, of)])
        if name not in self._found:
            self._found[name] = [*make()]
            self._has_news = True
        return self._found[name]

    def one(self, what: str, of: Iterable[object], make: Callable[[], str]) -> str:
        """Return the same of a question whose answer is one text."""
        (found,) = self.asked(what, of, lambda: (make(),))
        return found

    def keep(self) -> None:
        """Write down what was found, with what another process has found of the same files meanwhile."""
        if not self._has_news or self._look.is_torn or _basis() != BASIS:
            return
        self._has_news = False
        said, there, found = self._look.said, self._look.there, self._found
        other = self._read()
        if other is not None and _agree(other["said"], said) and _agree(other["there"], there):
            together = {**other["found"], **found}
            if len(together) <= MOST_KEPT:
                found = together
                said, there = {**other["said"], **said}, {**other["there"], **there}
        own = {"basis": BASIS, "listed": self._listed}
        text = json.dumps({**own, "said": said, "there": there, "found": found}).encode()
        draft = self._file.with_name(f".{self._file.name}.{os.getpid()}")
        with suppress(OSError):  # a folder of another user, a full disk
            draft.parent.mkdir(parents=True, exist_ok=True)
            draft.write_bytes(b"\n".join([hash_of_bytes(text).encode(), text]))
            draft.replace(self._file)
            _forget_others(draft.parent)

    def _read(self) -> dict[str, Any] | None:
        """Return what was kept by such an engine of as many modules; None where there is none, or it is damaged."""
        try:
            mark, _, text = self._file.read_bytes().partition(b"\n")
        except OSError:
            return None
        if not BASIS or mark.decode(errors="replace") != hash_of_bytes(text):
            return None
        found: dict[str, Any] = json.loads(text)
        is_own = (found.get("basis"), found.get("listed")) == (BASIS, self._listed)
        return found if is_own else None


def _folder() -> Path:
    try:
        return installation.home() / FOLDER
    except RuntimeError:  # a user without a home, as in a pod: a name that is no folder, where nothing is found or kept
        return Path(os.devnull) / FOLDER


def _is_so(said: Mapping[str, str], there: Mapping[str, bool]) -> bool:
    """Return whether each file says what it said, and is where it was and nowhere else."""
    try:
        for name, mark in said.items():
            with open(name, "rb", buffering=0) as file:  # noqa: PTH123  # some hundred in each answer
                if hash_of_bytes(file.read()) != mark:
                    return False
    except OSError:
        return False
    return all(os.path.isfile(name) is is_there for name, is_there in there.items())  # noqa: PTH113  # some thousand


def _agree(one: Mapping[str, object], other: Mapping[str, object]) -> bool:
    return all(other.get(name, value) == value for name, value in one.items())


def _forget_others(folder: Path) -> None:
    """Leave the files of the projects that were asked last."""
    by_age = sorted(folder.iterdir(), key=lambda file: file.stat().st_mtime, reverse=True)
    for file in by_age[MOST_PROJECTS:]:
        file.unlink(missing_ok=True)


def kept() -> Kept:
    """Return what was found of the modules as they are on the disk."""
    return _kept(tree())


@cache
def _kept(tree: Tree) -> Kept:
    return Kept(tree)


def keep() -> None:
    """Keep what this process has found, for those after it."""
    if _kept.cache_info().currsize:
        kept().keep()


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
    from importlib.metadata import version  # noqa: PLC0415  # it imports what reads mail

    return version_of_queries(*map(version, ("pyspark", "delta-spark")))
