"""What the statements of a module say, whatever its name, its place, and the order in which it imports.

A fingerprint of code is made of them: of each statement at the top of a module, without docstrings, comments and imports. What
an import does is kept where it is used: a name carries what it means, which is the name in a library, or the hash of
the statements that define it in a module of ours. So a function that moves is the same, and another one under the same name is not.

Python's own ``ast.dump`` and ``ast.unparse`` differ from version to version (fields that are new, empty ones left out, quotes in
f-strings), so the form is one of our own: fields that are empty are never written, texts are written in ASCII, and the
parts of an f-string that are text are one.
"""

import ast
import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock

from strandline.core.kind import BESIDE

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


# The files that statements are read from.


@dataclass(slots=True, eq=False)
class Look:
    """What files said when they were read, by a hash of all their bytes, and where one was looked for."""

    said: dict[str, str] = field(default_factory=dict)
    there: dict[str, bool] = field(default_factory=dict)
    is_torn: bool = False
    """Whether a file was another one at a second look: what was made of it is of no state that the files had."""

    def content(self, file: Path) -> bytes:
        """Return the bytes of a file."""
        content = file.read_bytes()
        self._note(str(file), hash_of_bytes(content))
        return content

    def is_file(self, file: Path) -> bool:
        """Return whether there is a file."""
        name = str(file)
        if name not in self.there:
            self.there[name] = file.is_file()
        return self.there[name]

    def take(self, said: Mapping[str, str], there: Mapping[str, bool]) -> None:
        """Take over what another look has found to be so now."""
        for name, mark in said.items():
            self._note(name, mark)
        for name, is_there in there.items():
            self.is_torn |= self.there.setdefault(name, is_there) is not is_there

    def _note(self, name: str, mark: str) -> None:
        self.is_torn |= self.said.setdefault(name, mark) != mark


def hash_of_bytes(content: bytes) -> str:
    """Return the hash by which the bytes of a file are known."""
    return hashlib.sha256(content).hexdigest()[:32]
