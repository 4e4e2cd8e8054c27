"""Edit a table's module: declare a field, or give one another type, in the text that the user wrote.

The module is read as Python reads it, and only what must change is written: one line of its fields, its import of types, and where the
function names its columns one by one, the new one. What cannot be decided from the text is left to its author, with a sentence that says
what; a wrong guess in a user's module costs more than a line that is typed.
"""

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
"""A field that can be a column as it is; an engine's column begins with an underscore, and a point would be a path."""

STEP = re.compile(r"`(?:[^`]|``)*`|[^.\[\]{}`]+|\[\]|\{\}")
WIDTH = 100


@dataclass(frozen=True, slots=True)
class Edited:
    """A text with one edit.

    Args:
        text: The text.
        left: What its author has to do, in a sentence; empty where nothing is left.
    """

    text: str
    left: str = ""


class UnclearError(Exception):
    """Why an edit cannot be made from the text, as a sentence."""


@dataclass(frozen=True, slots=True)
class _Module:
    """A module, its lines, and the names that are given a value in it."""

    text: str
    tree: ast.Module

    @classmethod
    def of(cls, text: str) -> "_Module":
        return cls(text, ast.parse(text))

    @property
    def values(self) -> dict[str, ast.expr]:
        found: dict[str, ast.expr] = {}
        for node in self.tree.body:
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                found[node.targets[0].id] = node.value
            elif (
                isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value
            ):
                found[node.target.id] = node.value
        return found

    def place(self, line: int, column: int) -> int:
        """Return where a place of a node is in the text; a node counts bytes, and lines as Python does: a form feed ends none."""
        lines = [f"{each}\n" for each in self.text.split("\n")]
        before = lines[line - 1].encode()[:column].decode()
        return sum(map(len, lines[: line - 1])) + len(before)

    def end(self, node: ast.expr | ast.stmt) -> int:
        return self.place(node.end_lineno or 0, node.end_col_offset or 0)

    def span(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        return self.place(node.lineno, node.col_offset), self.end(node)

    def with_(self, start: int, end: int, new: str) -> "_Module":
        return _Module.of(self.text[:start] + new + self.text[end:])


def steps(path: str) -> list[str]:
    """Return the names on the way to a field, and ``[]`` and ``{}`` where a list or a map is passed."""
    return [
        each[1:-1].replace("``", "`") if each.startswith("`") else each
        for each in STEP.findall(path)
    ]


def with_field(text: str, path: str, kind: str) -> Edited:
    """Return the text of a module that declares a field.

    Args:
        text: The module.
        path: Where the field is in the payload.
        kind: Its type, as it is written in Python.

    Raises:
        UnclearError: It cannot be made from the text.
    """
    *way, name = steps(path)
    if not NAME.fullmatch(name):
        raise UnclearError(f"{path} cannot be a column under its own name: read it in the function")
    module = _Module.of(text)
    root = _fields_of(module)
    chain = _at(module, module.values[root], way, path)
    _refuse_known(chain, name, path)
    if not way:
        _refuse_made(module, name)
    module = _with_declared(module, chain, name, kind)
    module = _with_import(module, kind)
    if way:
        return Edited(module.text, _left_of_nested(module, root, way, path))
    return _with_selected(module, root, name)


def with_type(text: str, path: str, kind: str) -> Edited:
    """Return the text of a module in which a field has another type.

    Raises:
        UnclearError: It cannot be made from the text.
    """
    *way, name = steps(path)
    module = _Module.of(text)
    chain = _at(module, module.values[_fields_of(module)], way, path)
    for declared, value in _declared(chain):
        if declared == name and value is not None:
            start, end = module.span(value)
            return Edited(_with_import(module.with_(start, end, kind), kind).text)
    raise UnclearError(f"the declaration of {path} is not written out in the module")


def _fields_of(module: _Module) -> str:
    """Return the name of the fields by which payloads are read: what a parser is called with."""
    values, found = module.values, dict[str, None]()
    for call in _calls(module.tree):
        function = call.func.attr if isinstance(call.func, ast.Attribute) else ""
        function = call.func.id if isinstance(call.func, ast.Name) else function
        if "parse" in function and len(call.args) > 1 and isinstance(call.args[1], ast.Name):
            found[call.args[1].id] = None
    known = [name for name in found if name in values]
    if len(known) == 1:
        return known[0]
    if not known:
        raise UnclearError(
            "its fields are not declared in its own module: no parser is called with them there"
        )
    raise UnclearError(
        f"it reads several shapes ({', '.join(known)}): declare the field in those that have it"
    )


def _calls(tree: ast.AST) -> Iterator[ast.Call]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.Call))


def _at(module: _Module, value: ast.expr, way: Sequence[str], path: str) -> ast.expr:
    """Return the expression of the record in which a field is."""
    for step in way:
        value = _resolved(module, value)
        if step in {"[]", "{}"}:
            value = _within(value, step, path)
            continue
        inner = dict(_declared(value)).get(step)
        if inner is None:
            raise UnclearError(
                f"the declaration of {step}, in which {path} is, is not written out in the module"
            )
        value = inner
    value = _resolved(module, value)
    if not _is_record(value):
        raise UnclearError(
            f"the record in which {path} is is not written as StructType().add(…) in the module"
        )
    return value


def _resolved(module: _Module, value: ast.expr) -> ast.expr:
    seen = set[str]()
    while isinstance(value, ast.Name) and value.id in module.values and value.id not in seen:
        seen.add(value.id)
        value = module.values[value.id]
    return value


def _within(value: ast.expr, step: str, path: str) -> ast.expr:
    """Return the type of a list's items or of a map's values."""
    at = 0 if step == "[]" else 1
    if isinstance(value, ast.Call) and len(value.args) > at:
        return value.args[at]
    raise UnclearError(f"the type within which {path} is is not written out in the module")


def _is_record(value: ast.expr) -> bool:
    return _root(value) is not None or _listed(value) is not None


def _root(value: ast.expr) -> ast.Call | None:
    """Return the ``StructType()`` with which a chain of ``.add`` begins."""
    while isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute):
        if value.func.attr != "add":
            return None
        value = value.func.value
    is_root = isinstance(value, ast.Call) and _called(value) == "StructType" and not value.args
    return value if is_root and isinstance(value, ast.Call) else None


def _listed(value: ast.expr) -> ast.List | None:
    """Return the list of ``StructType([StructField(…), …])``, where it is one of plain fields."""
    if not isinstance(value, ast.Call) or _called(value) != "StructType" or not value.args:
        return None
    first = value.args[0]
    return first if isinstance(first, ast.List) and first.elts else None


def _called(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def _declared(value: ast.expr) -> Iterator[tuple[str, ast.expr | None]]:
    """Yield the fields of a record with their types, as they are written."""
    if (listed := _listed(value)) is not None:
        calls = [each for each in listed.elts if isinstance(each, ast.Call)]
        yield from (_named(each) for each in calls if each.args)
        return
    while isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute):
        if value.args:
            yield _named(value)
        value = value.func.value


def _named(call: ast.Call) -> tuple[str, ast.expr | None]:
    first = call.args[0]
    name = str(first.value) if isinstance(first, ast.Constant) else ""
    return name, call.args[1] if len(call.args) > 1 else None


def _refuse_known(chain: ast.expr, name: str, path: str) -> None:
    known = [each for each, _ in _declared(chain) if each.lower() == name.lower()]
    if known == [name]:
        raise UnclearError(f"{path} is declared by now")
    if known:
        raise UnclearError(
            f"{path} differs from the declared {known[0]} in case alone: Spark holds them for one column"
        )


def _refuse_made(module: _Module, name: str) -> None:
    """Refuse a field with the name of a column that the function makes, which would be there twice, or written over."""
    if name.lower() in {each.lower() for each in _made(module)}:
        raise UnclearError(
            f"the function makes a column {name} itself: read the field there, under another name"
        )


def _made(module: _Module) -> Iterator[str]:
    """Yield the names of columns that are written out as such: aliases, what is added, and what fields are renamed to."""
    for call in _calls(module.tree):
        made: list[ast.expr | None] = []
        match _called(call):
            case "alias" | "withColumn":
                made = [*call.args[:1]]
            case "withColumns":
                made = [
                    key for each in call.args if isinstance(each, ast.Dict) for key in each.keys
                ]
            case "withColumnRenamed":
                made = [*call.args[1:2]]
        yield from _texts(made)
    names = module.values.get("NAMES")
    yield from _texts(names.values if isinstance(names, ast.Dict) else [])


def _texts(found: Sequence[ast.expr | None]) -> Iterator[str]:
    for each in found:
        if isinstance(each, ast.Constant) and isinstance(each.value, str):
            yield each.value


def _with_declared(module: _Module, chain: ast.expr, name: str, kind: str) -> _Module:
    if (listed := _listed(chain)) is not None:
        at = module.end(listed.elts[-1])
        return _with_import(module.with_(at, at, f', StructField("{name}", {kind})'), "StructField")
    at, more = module.end(chain), f'.add("{name}", {kind})'
    return module.with_(at, at, f"{_before_a_step(module, chain)}{more}")


def _before_a_step(module: _Module, chain: ast.expr) -> str:
    """Return what is before each ``.add`` of a chain: nothing, or a new line with its indentation."""
    if not isinstance(chain, ast.Call) or not isinstance(chain.func, ast.Attribute):
        return ""
    before = module.text[module.end(chain.func.value) : module.end(chain.func)]
    blank = before[: before.rfind(".")]
    return blank if blank.strip() == "" else ""


def _with_import(module: _Module, kind: str) -> _Module:
    """Import the types that are named in the text of a type."""
    for node in module.tree.body:
        if isinstance(node, ast.ImportFrom) and node.module == "pyspark.sql.types":
            known = [
                each.name if not each.asname else f"{each.name} as {each.asname}"
                for each in node.names
            ]
            lacking = set(re.findall(r"\b[A-Z]\w+(?=\()", kind)) - {*known}
            lacking |= {kind} - {*known} if kind == "StructField" else set()
            if not lacking:
                return module
            start, end = module.span(node)
            names = sorted({*known, *lacking})
            line = f"from pyspark.sql.types import {', '.join(names)}"
            if len(line) > WIDTH:
                line = (
                    "from pyspark.sql.types import (\n"
                    + "".join(f"    {n},\n" for n in names)
                    + ")"
                )
            return module.with_(start, end, line)
    raise UnclearError("its module does not import from pyspark.sql.types by name")


def _selects(module: _Module) -> list[ast.Call]:
    """Return the selections that pass on the columns of bronze."""
    return [
        call
        for call in _calls(module.tree)
        if _called(call) == "select"
        and any(
            isinstance(a, ast.Starred) and getattr(a.value, "id", "") == "CARRIED"
            for a in call.args
        )
    ]


def _takes_all(call: ast.Call, root: str) -> bool:
    """Return whether a selection takes all fields of a declaration, whichever they are."""
    texts = [ast.unparse(each.value) for each in call.args if isinstance(each, ast.Starred)]
    return any(text.startswith(f"{root}.") for text in texts)


def _with_selected(module: _Module, root: str, name: str) -> Edited:
    found = _selects(module)
    if found and all(_takes_all(each, root) for each in found):
        return Edited(module.text)
    if len(found) != 1:
        return Edited(module.text, f"let the function of the table select {name}")
    (call,) = found
    if any(
        isinstance(each, ast.Starred) and ast.unparse(each.value) != "CARRIED" for each in call.args
    ):
        # What it names may have the field by now, and twice is an error.
        return Edited(
            module.text,
            f"see that the function of the table selects {name}: it takes columns from a list",
        )
    last = call.args[-1]
    at = module.end(last)
    is_below = last.lineno > call.lineno
    blank = "\n" + " " * last.col_offset if is_below else " "
    return Edited(module.with_(at, at, f',{blank}"{name}"').text)


def _left_of_nested(module: _Module, root: str, way: Sequence[str], path: str) -> str:
    """Return what is left to do for a field within another one: nothing, where that is a column as a whole."""
    found = _selects(module)
    whole = [
        call
        for call in found
        if _takes_all(call, root)
        or any(isinstance(each, ast.Constant) and each.value == way[0] for each in call.args)
    ]
    if found and len(whole) == len(found):
        return ""
    plain = re.sub(r"[`\[\]{}]", "", path)
    return f'select it in the function, such as F.col("{plain}").alias("{steps(path)[-1]}")'
