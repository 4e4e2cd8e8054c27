"""The example as a project of one's own: its modules as they are, in a package of another name.

They import what a project may, the public interface and their own package. A module that imports more of the engine
stays behind, and so does each that imports one of these.
"""

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from strandline.core.kind import Layer
from strandline.project import ENGINE, EXAMPLE
from strandline_infra import home

PARTS = (*(layer.value for layer in Layer), "models", "play")
ALERTS, RULES = "alerts", "rules"
"""The module that says what alert rules look at, and the folder with these."""
INTERFACE = "strandline"
OURS = frozenset({*ENGINE, EXAMPLE})
OWN = re.compile(rf"\b{EXAMPLE}([./])({'|'.join((*PARTS, ALERTS, RULES))})\b")
OF_OUR_LINT = re.compile(r"  # noqa: [A-Z0-9, ]+?(?=  #|$)", re.MULTILINE)
"""Answers to rules of a linter that a project need not have."""


def files_of(package: str) -> Iterator[tuple[Path, str]]:
    """Yield the place of each file below the project's folder, and its text there: modules, and rules of alerts."""
    root = home.example()
    example = root / EXAMPLE
    files = {
        ".".join(file.relative_to(root).with_suffix("").parts).removesuffix(".__init__"): file
        for part in (f"{ALERTS}.py", *(f"{part}/*.py" for part in PARTS))
        for file in example.glob(part)
    }
    texts = {name: file.read_text(encoding="utf-8") for name, file in files.items()}
    found = of_a_project(texts)
    for name in sorted(found):
        text = OF_OUR_LINT.sub("", texts[name])
        yield Path(package) / files[name].relative_to(example), OWN.sub(rf"{package}\1\2", text)
    if f"{EXAMPLE}.{ALERTS}" in found:
        for file in sorted(example.glob(f"{RULES}/*.yml")):
            yield Path(package) / file.relative_to(example), file.read_text(encoding="utf-8")


def of_a_project(texts: Mapping[str, str]) -> set[str]:
    """Return the modules that import nothing of the engine but its interface, and no module that does.

    Args:
        texts: The text of each module of the example, by its whole name.
    """
    needs = {name: set(_ours(text, texts)) for name, text in texts.items()}
    found = set(texts)
    while left := {name for name in found if not needs[name] <= found}:
        found -= left
    return found


def _ours(text: str, texts: Mapping[str, str]) -> Iterator[str]:
    """Yield each module of ours that a text imports."""
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Import(names=names):
                found = [each.name for each in names]
            case ast.ImportFrom(module=str(module), names=names):
                wholes = (f"{module}.{each.name}" for each in names)
                found = [whole if whole in texts else module for whole in wholes]
            case _:
                continue
        yield from (name for name in found if name != INTERFACE and name.partition(".")[0] in OURS)
