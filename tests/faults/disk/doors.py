"""The doors through which the library writes to the disk, and the functions that go through them, read from the code."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from tests.architecture.tree import ROOT

ENGINE = "strandline.engine"


@dataclass(frozen=True, slots=True, order=True)
class Door:
    """A function that writes.

    Args:
        module: Below the engine.
        name: The function, with its class.
    """

    module: str
    name: str


DOORS = (
    Door("lake.place", "Place.put"),
    Door("lake.place", "Place.create"),
    Door("lake.place", "Place.exchange"),
    Door("lake.place", "Place.append"),
    Door("lake.place", "Place.move"),
    Door("lake.place", "Place.remove"),
    Door("lake.commit.delta_commit", "Commit.write"),
    Door("lake.commit.delta_commit", "Commit.commit"),
    Door("lake.commit.delta_commit", "ClaimedRows.append"),
    Door("lake.commit.delta_commit", "compact"),
    Door("lake.snapshot_files", "link_files"),
    Door("lake.plain_files", "append_line"),
    Door("lake.plain_files", "write_parquet"),
    Door("lake.plain_files", "write_lines"),
    Door("lake.mend_checkpoint", "settle"),
    Door("runtime.log_files", "add"),
)
NAMES = {door.name.rpartition(".")[2] for door in DOORS}

RAW = frozenset(
    [
        "write_text",
        "write_bytes",
        "hardlink_to",
        "symlink_to",
        "link",
        "copytree",
        "rmtree",
        "unlink",
        "write_deltalake",
        "writeFiles",
        "ParquetWriter",
        "writeStream",
        "startTransaction",
    ]
)
"""What writes without a door."""


def callers() -> Iterator[str]:
    """Yield every function of the library that goes through a door, or writes without one, as ``module:function``."""
    for name, body in _all():
        if any(_writes(node) for node in ast.walk(body)):
            yield name


def functions() -> Iterator[str]:
    """Yield every function of the library."""
    for name, _ in _all():
        yield name


def _all() -> Iterator[tuple[str, ast.AST]]:
    for path in sorted((ROOT / "jobs").rglob("*.py")):
        module = ".".join(path.relative_to(ROOT / "jobs").with_suffix("").parts)
        if not module.startswith("fleet.play"):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.FunctionDef):
                    yield f"{module}:{node.name}", node


def _writes(node: ast.AST) -> bool:
    match node:
        case ast.Attribute(attr="writeStream"):
            return True
        case ast.Call(func=ast.Attribute(value=receiver, attr=name), args=arguments):
            return _is_door(name, receiver, arguments)
        case ast.Call(func=ast.Name(id=name)) if name not in {"write", "add", "create"}:
            return name in NAMES | RAW
    return False


def _is_door(name: str, receiver: ast.expr, arguments: list[ast.expr]) -> bool:
    """Return whether a method is that of a door: lists, sets and frames have some of the same name."""
    match name:
        case "open":
            mode = next((each.value for each in arguments if isinstance(each, ast.Constant)), "r")
            return isinstance(mode, str) and (not mode.startswith("r") or "+" in mode)
        case "remove":
            return not arguments
        case "append":
            is_list = isinstance(receiver, ast.Name) or not _is_line(arguments)
            return len(arguments) > 1 or not is_list
        case "create" | "add" | "write":
            return False
    return name in NAMES | RAW


def _is_line(arguments: list[ast.expr]) -> bool:
    """Return whether what is appended is a line of JSON, and so the receiver a file."""
    first = arguments[0] if arguments else None
    return isinstance(first, ast.Call) and ast.unparse(first.func) == "json.dumps"
