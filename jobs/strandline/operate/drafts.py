"""The drafts of which files of a project are made, those of a new table and those of a new project.

A draft is a text with names to fill in, without loops or conditions; tools that look for modules and tests must not find it.
Drafts of a table run as they are, and pass their own test and the linter, in a project and in a clone of the engine alike:
what they import is the public interface and the package of the tables.
"""

import ast
import builtins
import keyword
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

from strandline import catalog

from strandline.core.errors import DefinitionError
from strandline.core.kind import Layer
from strandline.core.table import Table
from strandline.project import package, project, tables_root
from strandline_infra import home

NAME = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
OF_TABLES = home.PACKAGE / "table"
SUFFIX = ".txt"


def filled(draft: Path, words: Mapping[str, str]) -> str:
    """Return a draft with its words in place of their names."""
    text = draft.read_text(encoding="utf-8")
    for name, word in words.items():
        text = text.replace(f"{{{{{name}}}}}", word)
    return text


def source(name: str, layers: set[Layer]) -> Table:
    """Return the table that a new one is to read.

    Raises:
        DefinitionError: It is of another layer.
    """
    found = catalog.find(name)
    if found.layer not in layers:
        wanted = " or ".join(sorted(layers, reverse=True))
        raise DefinitionError(
            f"{found.id} is {found.layer}; such a table reads {wanted}",
            hint=f"name a {wanted} table: `strandline tables` lists them.",
            table=found.id,
        )
    return found


def write(layer: Layer, name: str, facts: Mapping[str, str]) -> Iterator[Path]:
    """Write the module and the test of a new table, and yield the path of each within the project.

    Args:
        layer: Its layer.
        name: Its name.
        facts: What the drafts of the layer leave open.

    Raises:
        DefinitionError: The name cannot be that of a table, or a file is there already or cannot be written.
    """
    if NAME.fullmatch(name) is None:
        raise DefinitionError(
            f"{name!r} is no name for a table",
            hint="write it in small letters, digits and single underscores, such as orders_10m.",
            name=name,
        )
    if keyword.iskeyword(name) or hasattr(builtins, name):
        raise _taken(name, "a word of Python's own")
    words = {**facts, "name": name, "package": package()}
    drafts = (OF_TABLES / f"{each}.py{SUFFIX}" for each in (layer, f"test_{layer}"))
    module, test = (filled(draft, words) for draft in drafts)
    if max(Counter(_bound(module))[name], Counter([*_bound(test), *_given(test)])[name]) > 1:
        raise _taken(name, "a name that its module or its test needs for something else")
    yield from put(
        root(),
        {
            folder_of_tables() / layer / f"{name}.py": module,
            Path("tests", layer, f"test_{name}.py"): test,
        },
    )


def root() -> Path:
    """Return the folder of the project, or of the clone.

    Raises:
        DefinitionError: There is neither.
    """
    found = project()
    if found is None and not home.is_clone():
        raise DefinitionError(
            "this folder is in no project, so nothing can be written into it",
            hint="`strandline init NAME` writes a project; type this again in its folder.",
        )
    return found.root if found else home.ROOT


def folder_of_tables() -> Path:
    """Return the folder of the package with the tables, within that of the project or of the clone."""
    return tables_root().joinpath(*package().split(".")).relative_to(root())


def put(into: Path, texts: Mapping[Path, str]) -> Iterator[Path]:
    """Write files into a folder, none of which is there, and yield the path of each.

    Raises:
        DefinitionError: One is there already, or cannot be written.
    """
    for path in texts:
        if (into / path).exists():
            raise DefinitionError(
                f"{path} exists already",
                hint="choose another name, or change that file.",
                file=str(into / path),
            )
    for path, text in texts.items():
        try:
            (into / path).parent.mkdir(parents=True, exist_ok=True)
            (into / path).write_text(text)
        except OSError as error:
            raise DefinitionError(
                f"{into / path} cannot be written: {error.strerror}",
                hint="run it in a project of your own (`strandline init`), or in a clone of the engine.",
                file=str(into / path),
            ) from error
        yield path


def _taken(name: str, why: str) -> DefinitionError:
    return DefinitionError(
        f"{name!r} is no name for a table: it is {why}",
        hint=f"choose another name, such as {name}_10m.",
        name=name,
    )


def _bound(text: str) -> Iterator[str]:
    """Yield each name that a module binds, once per binding."""
    for node in ast.parse(text).body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield from (each.asname or each.name for each in node.names)
        elif isinstance(node, ast.FunctionDef):
            yield node.name


def _given(text: str) -> Iterator[str]:
    """Yield the fixtures that the tests of a module use."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.arg):
            yield node.arg
