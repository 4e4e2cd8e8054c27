"""How large the house is, counted: `python -m tests.architecture.house [COMMIT]` prints it as Markdown.

What is counted is what makes a house hard to have in the head: modules, lines, ideas that are spread over several modules,
and questions that are asked in more than one place. Two commits are compared by two calls. Nothing is limited here; what
must not grow has a test of its own. Which of the modules one event runs through is asked by `python -m tests.architecture.way`.
"""

import ast
import io
import subprocess
import sys
import tarfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields

from tests.architecture.tree import PACKAGES, ROOT

MODES = {"Batch", "AvailableNow", "MicroBatch"}
"""The classes of jobs/strandline/core/stateful.py that a table is computed in."""

FULL = 20
"""A folder with more modules than that is not seen at a glance."""

OFTEN = 5
"""A private name in more modules than that is one idea without a place, or several ideas under one name."""


@dataclass(frozen=True, slots=True)
class Lines:
    """Lines of a module or of many; each line is one of the last five."""

    modules: int = 0
    lines: int = 0
    code: int = 0
    docstrings: int = 0
    imports: int = 0
    comments: int = 0
    blanks: int = 0

    def __add__(self, other: "Lines") -> "Lines":
        """Count both."""
        names = [each.name for each in fields(self)]
        return Lines(*(getattr(self, name) + getattr(other, name) for name in names))


@dataclass(frozen=True, slots=True)
class Module:
    """A file of Python, read once."""

    name: str
    text: str
    tree: ast.Module = field(init=False)
    nodes: tuple[ast.AST, ...] = field(init=False)

    def __post_init__(self) -> None:
        """Parse it, and walk it once for all questions."""
        object.__setattr__(self, "tree", ast.parse(self.text))
        object.__setattr__(self, "nodes", tuple(ast.walk(self.tree)))

    @property
    def is_run(self) -> bool:
        """Return whether users run it, rather than the tests."""
        return self.name.startswith(PACKAGES)

    @property
    def room(self) -> str:
        """Return its folder: of the engine's and the tests' the one below, else that of its package."""
        outer, inside = self._parts
        folders = inside[:-1]
        deep = {"jobs": 2, "strandline": 2, "fleet": 2, "tests": 2}.get(folders[0], 1)
        deep += folders[0] in {"jobs", "strandline"} and folders[1:2] == ["engine"]
        return "/".join([*outer, *folders[:deep]])

    @property
    def dotted(self) -> str:
        """Return the name by which it is imported."""
        return ".".join(self._parts[1]).removesuffix(".py")

    @property
    def _parts(self) -> tuple[list[str], list[str]]:
        """Return the folder in which Python looks for it, and its path from there; until November 2026 that was the project's."""
        parts = self.name.split("/")
        has_own = parts[0] in PACKAGES and (
            parts[1] == "fleet" or parts[1].startswith("strandline")
        )
        return parts[: int(has_own)], parts[int(has_own) :]


Places = list[str]
"""Where something is: files and lines."""


def at(commit: str, *folders: str) -> list[Module]:
    """Return the Python files of a commit, or those of some of its folders."""
    command = ["git", "archive", "--format=tar", commit, *folders]
    packed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout
    with tarfile.open(fileobj=io.BytesIO(packed)) as files:
        named = ((each.name, files.extractfile(each)) for each in files if each.isfile())
        return [Module(n, f.read().decode()) for n, f in named if f and n.endswith(".py")]


def counted(module: Module) -> Lines:
    """Count the lines of a module; a comment is no code, so that cutting out a reason saves none."""
    lines = module.text.splitlines()
    kinds = dict(enumerate(map(_kind, lines), 1))
    for node in module.nodes:
        match node:
            case ast.Constant(value=str()) | ast.JoinedStr() if node.end_lineno != node.lineno:
                looks = {line for line in _span(node) if kinds[line] in {"blanks", "comments"}}
                kinds.update(dict.fromkeys(looks, "code"))
            case ast.Import() | ast.ImportFrom():
                kinds.update(dict.fromkeys(_span(node), "imports"))
    for node in module.nodes:  # after the texts, of which they are some
        match node:
            case ast.Expr(value=ast.Constant(value=str())):
                kinds.update(dict.fromkeys(_span(node), "docstrings"))
    return Lines(1, len(lines), **Counter(kinds.values()))


def _kind(line: str) -> str:
    plain = line.strip()
    return "blanks" if not plain else "comments" if plain.startswith("#") else "code"


def _span(node: ast.stmt | ast.expr) -> range:
    return range(node.lineno, (node.end_lineno or node.lineno) + 1)


def by_room(modules: Sequence[Module]) -> dict[str, Lines]:
    """Return the lines of each room."""
    found: dict[str, Lines] = defaultdict(Lines)
    for module in sorted(modules, key=lambda each: each.name):
        found[module.room] += counted(module)
    return dict(found)


def of_one(modules: Sequence[Module]) -> list[Module]:
    """Return those that exactly one other imports; one that is imported by a computed name has no importer."""
    places = {each.dotted: each.name for each in modules}
    by: dict[str, set[str]] = defaultdict(set)
    for module in modules:
        for each in set(_imported(module)) & set(places):
            by[places[each]].add(module.name)
    return [each for each in modules if len(by[each.name] - {each.name}) == 1]


def _imported(module: Module) -> Iterator[str]:
    for node in module.nodes:
        match node:
            case ast.Import(names=names):
                yield from (each.name for each in names)
            case ast.ImportFrom(module=str(above), names=names):
                yield above
                yield from (f"{above}.{each.name}" for each in names)


def private_names(modules: Sequence[Module]) -> dict[str, int]:
    """Return the private names that many modules define at their top level, and how many do."""
    found = Counter(name for module in modules for name in set(_private(module)))
    return {name: number for name, number in found.most_common() if number > OFTEN}


def _private(module: Module) -> Iterator[str]:
    for node in module.tree.body:
        match node:
            case (
                ast.FunctionDef(name=name)
                | ast.ClassDef(name=name)
                | ast.Assign(targets=[ast.Name(id=name)])
                | ast.AnnAssign(target=ast.Name(id=name))
            ) if name.startswith("_"):
                yield name


def entries(modules: Sequence[Module]) -> Places:
    """Return where an entry of the ledger is built."""
    return _places(modules, _builds)


def _builds(node: ast.AST) -> bool:
    match node:
        case ast.Call(func=ast.Name(id="Entry")):
            return True
        case _:
            return False


def walks(modules: Sequence[Module]) -> Places:
    """Return the functions that know the adds of a Delta log from its removes."""
    return _places(modules, _walks)


def _walks(node: ast.AST) -> bool:
    if not isinstance(node, ast.FunctionDef):
        return False
    known = set()
    for each in ast.walk(node):
        match each:
            case ast.Attribute(value=ast.Name(id="Kind"), attr=kind):
                known.add(kind)
    return {"ADD", "REMOVE"} <= known


def asked_modes(modules: Sequence[Module]) -> Places:
    """Return where it is asked in which mode a table is computed."""
    return _places(modules, _asks)


def _asks(node: ast.AST) -> bool:
    match node:
        case ast.Match(cases=cases):
            asked = [each.pattern for each in cases]
        case ast.Call(func=ast.Name(id="isinstance"), args=[_, kinds]):
            asked = [kinds]
        case _:
            return False
    names = (each for part in asked for each in ast.walk(part))
    return any(isinstance(each, ast.Name) and each.id in MODES for each in names)


def _places(modules: Sequence[Module], is_one: Callable[[ast.AST], bool]) -> Places:
    return [
        f"{module.name}:{getattr(node, 'lineno', 1)}"
        for module in modules
        for node in module.nodes
        if is_one(node)
    ]


def full_folders(modules: Sequence[Module]) -> dict[str, int]:
    """Return the folders with too many modules, and how many they have."""
    files = (each.name for each in modules if not each.name.endswith("/__init__.py"))
    found = Counter(name.rpartition("/")[0] for name in files)
    return {folder: number for folder, number in found.most_common() if number > FULL}


def page(modules: Sequence[Module], commit: str) -> str:
    """Return all of it as Markdown, the lists behind the numbers at its end."""
    ours = [each for each in modules if each.is_run]
    tests = [each for each in modules if not each.is_run]
    lonely = of_one(ours)
    spread, kept = private_names(ours), (entries(ours), walks(ours), asked_modes(ours))
    full = [full_folders(each) for each in (ours, tests)]
    summed = [
        ("modules that exactly one other imports", len(lonely)),
        (f"private names in more than {OFTEN} modules", len(spread)),
        ("places that build an entry", len(kept[0])),
        ("functions that walk the adds and removes of a log", len(kept[1])),
        ("places that ask the mode", len(kept[2])),
        (f"folders with more than {FULL} modules", len(full[0])),
        ("the same of the tests", len(full[1])),
    ]
    listed = {
        "Private names": _numbered(spread),
        "Entries": kept[0],
        "Logs": kept[1],
        "Modes": kept[2],
        "Full folders": [*_numbered(full[0]), *_numbered(full[1])],
    }
    return "\n".join(
        [
            f"# The house at {commit}",
            *_table("room", by_room(ours), Counter(each.room for each in lonely)),
            *_table("tests", by_room(tests), None),
            *("", "| counted | |", "|---|---:|"),
            *(f"| {what} | {number:,} |" for what, number in summed),
            *(line for what, each in listed.items() for line in ("", f"{what}: {', '.join(each)}")),
        ]
    )


def _numbered(found: Mapping[str, int]) -> list[str]:
    return [f"{name} {number}" for name, number in found.items()]


def _table(what: str, rooms: Mapping[str, Lines], lonely: Mapping[str, int] | None) -> list[str]:
    """Return a row for each room and their sum; with how many of its modules have one importer where that is asked."""
    names = [each.name for each in fields(Lines)]
    more = [] if lonely is None else ["one importer"]
    whole = sum(rooms.values(), Lines())
    rows = [(room, lines, (lonely or {}).get(room, 0)) for room, lines in rooms.items()]
    rows.append(("**all**", whole, sum((lonely or {}).values())))
    return [
        "",
        f"| {' | '.join([what, *names, *more])} |",
        f"|---|{'---:|' * len([*names, *more])}",
        *(
            f"| {' | '.join([room, *_cells(lines), *(f'{alone:,}' for _ in more)])} |"
            for room, lines, alone in rows
        ),
    ]


def _cells(lines: Lines) -> list[str]:
    return [f"{getattr(lines, each.name):,}" for each in fields(lines)]


def head(commit: str) -> str:
    """Return the short name of a commit."""
    command = ["git", "rev-parse", "--short", f"{commit}^{{commit}}"]
    named = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return named.stdout.strip()


if __name__ == "__main__":
    asked = sys.argv[1] if len(sys.argv) > 1 else "HEAD"
    sys.stdout.write(page(at(asked), head(asked)) + "\n")
