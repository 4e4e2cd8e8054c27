"""Faults drawn at random over all rooms, and which of them the tests notice.

python -m tests.mutants.drawn                    300 of them, with seed 38
python -m tests.mutants.drawn --of 30 --seed 7   fewer, others
python -m tests.mutants.drawn --again FILE       those of a former report, wherever their functions are today

A list of planted faults shows that the tests see what was once wrong; it says nothing about other faults. So one
is drawn: a comparison turned, a condition denied, a number off by one, a branch left out. The tests that import its
module run until one fails or the time is over. What was found is kept line by line, so that a run that ends is taken up again.
"""

import argparse
import ast
import json
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from tests.architecture.tree import ROOT, copied, library
from tests.mutants.mutant import FAILED, run
from tests.support.commit import commit

TURNED = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.And: ast.Or,
    ast.Or: ast.And,
}
INNER = ("body", "orelse", "handlers", "finalbody", "cases")
"""What a statement has of other statements."""

HEADED = (ast.Return, ast.Assign, ast.AugAssign, ast.Expr, ast.If, ast.While, ast.For, ast.With)
"""Statements in which a fault can be drawn."""

OURS = ("strandline", "fleet", "strandline_quality", "strandline_dagster", "strandline_infra")
MOST_FILES = 6
"""Files of tests that run for one fault."""

NOTICED = "noticed"
REPORT = ROOT / "tests" / "drawn.md"
HEAD = """# Faults drawn at random

`python -m tests.mutants.drawn` drew {count} faults with seed {seed} over all modules at {commit}, and ran up to {files} files
of tests for each: those that import its module first. What another file would have noticed counts as not noticed.

| room | drawn | noticed |
|---|---:|---:|
{table}| **all** | {all} | {noticed} |

| module | function | before | after | |
|---|---|---|---|---|
{missed}"""


@dataclass(frozen=True, slots=True)
class Drawn:
    """One fault.

    Args:
        file: The module, from the project's root.
        function: In which function, with its class.
        before: The statement as it is.
        after: The statement with the fault.
    """

    file: str
    function: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class Imports:
    """Which modules of ours each test and each module imports."""

    tests: dict[str, set[str]]
    library: dict[str, set[str]]

    @classmethod
    def of(cls, texts: dict[str, str]) -> "Imports":
        """Read them."""
        tests = {
            str(path.relative_to(ROOT)): _imported(path.read_text())
            for path in sorted((ROOT / "tests").rglob("test_*.py"))
        }
        library = {
            ".".join(Path(name).with_suffix("").parts[1:]): _imported(text)
            for name, text in texts.items()
        }
        return cls(tests, library)


def faults(file: str, text: str) -> Iterator[Drawn]:
    """Yield every fault that can be drawn in the functions of a module."""
    for function, statement in _statements(ast.parse(text), ""):
        before = ast.unparse(_head(statement))
        for after in dict.fromkeys(_changed(before)):
            if after != before:
                yield Drawn(file, function, before, after)


def planted(text: str, fault: Drawn) -> str:
    """Return the text of a module with a fault.

    Raises:
        LookupError: The function is not there, or has no such statement.
    """
    tree = ast.parse(text)
    for function, statement in _statements(tree, ""):
        if function == fault.function and ast.unparse(_head(statement)) == fault.before:
            (made,) = ast.parse(fault.after).body
            for name, value in ast.iter_fields(made):
                if name not in INNER:
                    setattr(statement, name, value)
            return ast.unparse(ast.fix_missing_locations(tree))
    raise LookupError(f"{fault.file}: {fault.function} has no {fault.before!r}")


def drawn(texts: dict[str, str], of: int, seed: int) -> list[Drawn]:
    """Return so many faults, each as likely as any other, at most one a statement."""
    found = [each for file, text in sorted(texts.items()) for each in faults(file, text)]
    random.Random(seed).shuffle(found)  # noqa: S311  # a draw, and no secret
    once: dict[tuple[str, str, str], Drawn] = {}
    for each in found:
        once.setdefault((each.file, each.function, each.before), each)
    return list(once.values())[:of]


def tests_of(file: str, imports: Imports) -> list[str]:
    """Return the files of tests that import a module, then those that import who imports it; few at a time first."""
    module = ".".join(Path(file).with_suffix("").parts[1:])
    near = {module}
    found: list[str] = []
    for _ in range(2):
        tests = [(len(names), test) for test, names in imports.tests.items() if names & near]
        found += [test for _, test in sorted(tests) if test not in found]
        near = {each for each, names in imports.library.items() if names & near}
    return found[:MOST_FILES]


def is_noticed(project: Path, fault: Drawn, tests: list[str], most: float) -> tuple[str, str]:
    """Return whether a test fails with a fault in a copy of the project, and which."""
    if not tests:
        return "no test imports it", ""
    file = project / fault.file
    ran = run(project, file, planted(file.read_text(), fault), tests, most)
    if ran.code is None:
        return "not within the time", ""
    if ran.code == FAILED or ran.failed:
        return NOTICED, ran.failed
    return ("not noticed" if ran.code == 0 else f"no verdict: {ran.last}"), ""


def _statements(
    tree: ast.AST, within: str, *, is_function: bool = False
) -> Iterator[tuple[str, ast.stmt]]:
    """Yield each statement of each function with the function's name."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            name = f"{within}.{node.name}".lstrip(".")
            yield from _statements(node, name, is_function=isinstance(node, ast.FunctionDef))
        else:
            if is_function and isinstance(node, HEADED):
                yield within, node
            yield from _statements(node, within, is_function=is_function)


def _changed(text: str) -> Iterator[str]:
    """Yield a statement with each fault that can be in it."""
    tree = ast.parse(text)
    nodes = list(ast.walk(tree))
    for place in range(len(nodes)):
        if _turn(nodes[place]):
            yield ast.unparse(tree)
            tree = ast.parse(text)
            nodes = list(ast.walk(tree))
    (statement,) = tree.body
    if isinstance(statement, ast.If | ast.While):
        statement.test = ast.UnaryOp(ast.Not(), statement.test)
        yield ast.unparse(ast.fix_missing_locations(tree))


def _turn(node: ast.AST) -> bool:
    """Put a fault into a node; return whether there is one for its kind."""
    match node:
        case ast.Compare(ops=[op, *_]) if type(op) in TURNED:
            node.ops[0] = TURNED[type(op)]()  # type: ignore[abstract]  # one of the table's classes
        case ast.BoolOp(op=op) | ast.BinOp(op=op) if type(op) in TURNED:
            node.op = TURNED[type(op)]()
        case ast.Constant(value=bool()):
            node.value = not node.value
        case ast.Constant(value=int()):
            node.value += 1
        case _:
            return False
    return True


def _head(statement: ast.stmt) -> ast.stmt:
    """Return a statement without the statements in it."""
    inside = dict(ast.iter_fields(statement))
    if "body" not in inside:
        return statement
    inside |= {name: [] for name in INNER if name in inside} | {"body": [ast.Pass()]}
    return ast.fix_missing_locations(type(statement)(**inside))


def _imported(text: str) -> set[str]:
    found = set[str]()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{each.name}" for each in node.names)}
    return {name for name in found if name.partition(".")[0] in OURS}


def main() -> int:
    """Draw, plant and report; return 0, because a fault that no test notices is a finding and no failure."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants.drawn", description=__doc__)
    parser.add_argument("--of", type=int, default=300, help="how many")
    parser.add_argument("--seed", type=int, default=38)
    parser.add_argument("--most", type=float, default=120.0, help="seconds for the tests of one")
    parser.add_argument("--at-once", type=int, default=2, help="how many copies are at work")
    parser.add_argument(
        "--again", type=Path, help="the lines of a former run, whose faults are planted again"
    )
    asked = parser.parse_args()
    texts = dict(library())
    chosen = (
        again(_former(asked.again), texts) if asked.again else drawn(texts, asked.of, asked.seed)
    )
    lines = (
        ROOT / ".cache" / "mutants" / f"{commit()}-{'again' if asked.again else asked.seed}.jsonl"
    )
    lines.parent.mkdir(parents=True, exist_ok=True)
    known = {json.loads(line)["at"]: json.loads(line) for line in _lines(lines)}
    left = [(at, fault) for at, fault in enumerate(chosen) if at not in known]
    imports = Imports.of(texts)
    with tempfile.TemporaryDirectory(prefix="strandline-drawn-") as folder, lines.open("a") as out:
        copies: SimpleQueue[Path] = SimpleQueue()
        for number in range(asked.at_once):
            copies.put(copied(Path(folder) / str(number) / "project", "tests"))

        def tried(at: int, fault: Drawn) -> dict[str, Any]:
            copy, began = copies.get(), time.monotonic()
            try:
                said, test = is_noticed(copy, fault, tests_of(fault.file, imports), asked.most)
            finally:
                copies.put(copy)
            seconds = round(time.monotonic() - began)
            return {"at": at, **asdict(fault), "outcome": said, "test": test, "seconds": seconds}

        with ThreadPoolExecutor(asked.at_once) as pool:
            for result in pool.map(lambda each: tried(*each), left):
                known[result["at"]] = result
                out.write(f"{json.dumps(result)}\n")
                out.flush()
                words = f"{len(known)}/{len(chosen)} {result['outcome']} {result['seconds']} s {result['file']} {result['function']}: {result['after']}"
                print(" ".join(words.split()), flush=True)  # noqa: T201  # a program for people
    REPORT.write_text(report(list(known.values()), asked.seed))
    return 0


def report(results: list[dict[str, Any]], seed: int) -> str:
    """Return the page: by room how many were drawn and noticed, then each that was not."""
    rooms = Counter(str(Path(each["file"]).parent) for each in results)
    seen = Counter(str(Path(each["file"]).parent) for each in results if each["outcome"] == NOTICED)
    table = "".join(f"| {room} | {rooms[room]} | {seen[room]} |\n" for room in sorted(rooms))
    missed = "".join(
        f"| {each['file']} | {each['function']} | `{_short(each['before'])}` | `{_short(each['after'])}` | {each['outcome']} |\n"
        for each in sorted(results, key=lambda each: (each["file"], each["function"]))
        if each["outcome"] != NOTICED
    )
    return HEAD.format(
        count=len(results),
        seed=seed,
        commit=commit(),
        table=table,
        missed=missed,
        files=MOST_FILES,
        all=sum(rooms.values()),
        noticed=sum(seen.values()),
    )


def _short(text: str) -> str:
    words = " ".join(text.removesuffix("pass").split()).replace("|", "\\|")
    return words if len(words) <= 90 else f"{words[:89]}…"


def again(former: list[Drawn], texts: dict[str, str]) -> list[Drawn]:
    """Return faults of a former run, each where its statement is today."""
    places: dict[tuple[str, str], str] = {}
    for name, text in texts.items():
        for function, statement in _statements(ast.parse(text), ""):
            places.setdefault((function, ast.unparse(_head(statement))), name)
    return [
        replace(each, file=places.get((each.function, each.before), each.file)) for each in former
    ]


def _former(file: Path) -> list[Drawn]:
    names = [each.name for each in fields(Drawn)]
    read = (json.loads(line) for line in _lines(file))
    return [Drawn(**{name: each[name] for name in names}) for each in read]


def _lines(file: Path) -> list[str]:
    return file.read_text().splitlines() if file.exists() else []


if __name__ == "__main__":
    sys.exit(main())
