"""The text of a table's module: how a drafted one is written, and how that of a user is edited."""

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal

from pyspark.sql.types import (
    ArrayType,
    DataType,
    DecimalType,
    DoubleType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
)

from strandline.operate.drafts.sampled_fields import (
    MOST_NAMES,
    Field,
    Of,
    has_names_of_data,
    percent,
    why_not,
)
from strandline.operate.drafts.sampled_traits import is_sensitive

WIDTH = 100
ALWAYS = 0.995
"""The share of records from which on a field is always there: the others are those that a producer has spoiled."""


def quoted(text: str) -> str:
    """Return a text as the formatter writes it.

    >>> print(quoted("a"), quoted('say "a"'))
    "a" 'say "a"'
    """
    written = repr(text)
    if written.startswith("'") and '"' not in written:
        return '"' + written[1:-1].replace("\\'", "'") + '"'
    return written


def plain(text: object, most: int = 300) -> str:
    """Return foreign text as it may be in a comment: one line of signs that are seen, not more than so many.

    What is neither a text nor a number says nothing there, and may be worth more memory than there is.

    >>> plain("a  " + chr(27) + "[2J")
    'a [2J'
    """
    words = str(text).split() if isinstance(text, str | int | float) else []
    shown = "".join(each for each in " ".join(words) if each.isprintable())
    return shown if len(shown) <= most else f"{shown[: most - 1]}…"


def in_docstring(text: object) -> str:
    """Return the same as it may be in a docstring.

    >>> in_docstring('say "a"')
    "say 'a'"
    """
    return plain(text).replace("\\", "").replace('"', "'")


def free(name: str, used: set[str]) -> str:
    """Return a name that is not used, and let it be from now on: a made column would write over one of the payload's own.

    >>> used = {"at"}
    >>> free("At", used), free("At", used)
    ('At_2', 'At_3')
    """
    chosen, number = name, 2
    while chosen.lower() in used:
        chosen, number = f"{name}_{number}", number + 1
    used.add(chosen.lower())
    return chosen


def call(
    name: str, parts: Sequence[str], before: str = "", after: str = ",", margin: int = 0
) -> str:
    """Return a call in a line, in three, or with a line for each part, as its length wants it.

    Args:
        name: What is called, with what is before it in its line.
        parts: Its arguments.
        before: The spaces before it.
        after: What follows it.
        margin: How many more spaces it will get.
    """
    room = WIDTH - margin
    has_lines = any("\n" in each for each in parts)
    line = f"{before}{name}({', '.join(parts)}){after}"
    if len(line) <= room and not has_lines:
        return line
    inner = f"{before}    {', '.join(parts)}"
    if len(inner) > room or has_lines:
        inner = "".join(f"{before}    {each},\n" for each in parts).rstrip("\n")
    return f"{before}{name}(\n{inner}\n{before}){after}"


def type_text(kind: DataType, seen: Field | None, depth: int, *, shows: bool = True) -> str:
    """Return how a type is written, with what was seen of the fields within it."""
    pad = "    " * depth
    match kind:
        case StructType():
            inside = struct_lines(kind, seen or Field(), depth + 2, shows=shows)
            return f"StructType(\n{pad}    [\n{inside}{pad}    ]\n{pad})"
        case ArrayType():
            inner = type_text(
                kind.elementType, seen.items if seen else None, depth + 1, shows=shows
            )
            return (
                f"ArrayType(\n{pad}    {inner}\n{pad})" if "\n" in inner else f"ArrayType({inner})"
            )
        case MapType():
            value = type_text(kind.valueType, seen.values if seen else None, depth + 1, shows=shows)
            if "\n" in value:
                return f"MapType(\n{pad}    StringType(),\n{pad}    {value},\n{pad})"
            return f"MapType(StringType(), {value})"
        case DecimalType():
            return f"DecimalType({kind.precision}, {kind.scale})"
        case _:
            return f"{type(kind).__name__}()"


def struct_lines(
    kind: StructType, seen: Field, depth: int, whole: int = 0, *, shows: bool = True
) -> str:
    """Return the lines of the fields of an object, each below what was seen of it."""
    pad, records = "    " * depth, whole or seen.kinds[Of.OBJECT]
    lines = []
    for each in kind:
        inner = seen.fields.get(each.name, Field())
        is_shown = shows and not is_sensitive(each.name, inner)
        lines.append(f"{pad}# {_remark(each, inner, records, shows=is_shown)}\n")
        lines.append(_field(each, inner, depth, shows=is_shown))
    known = set(kind.fieldNames())
    others = {name: each for name, each in seen.fields.items() if name not in known}
    if not whole:
        lines += [f"{pad}# {left_out(name, why_not(each))}\n" for name, each in others.items()]
        lines += [f"{pad}# {uncounted(seen)}\n"] if seen.cut else []
    return "".join(lines)


def uncounted(seen: Field) -> str:
    """Return the sentence about fields of an object that were not looked at, because it has so many."""
    return f"FILL IN: {len(seen.cut):,} more fields are left out: of one object {MOST_NAMES:,} are looked at"


def left_out(name: str, why: str) -> str:
    """Return the sentence about a field that is not declared."""
    return f"FILL IN: {quoted(name[:80])} is left out: {why}"


def _field(each: StructField, seen: Field | None, depth: int, *, shows: bool) -> str:
    pad, name = "    " * depth, quoted(each.name)
    kind = type_text(each.dataType, seen, depth, shows=shows)
    line = f"{pad}StructField({name}, {kind}),\n"
    if "\n" not in kind and len(line) <= WIDTH + 1:
        return line
    kind = type_text(each.dataType, seen, depth + 1, shows=shows)
    return f"{pad}StructField(\n{pad}    {name},\n{pad}    {kind},\n{pad}),\n"


def _remark(each: StructField, seen: Field, records: int, *, shows: bool) -> str:
    parts = [f"in {percent(seen.share(records))} of {records:,}"]
    if isinstance(each.dataType, LongType | DoubleType | DecimalType) and shows and seen.count:
        if seen.units.total() >= seen.count * ALWAYS:
            parts.append(f"counts {seen.units.most_common(1)[0][0]} since 1970")
        elif not isinstance(seen.low, float):  # that of none is infinite
            low, high = _number(seen.low), _number(seen.high)
            parts.append(f"always {low}" if low == high else f"from {low} to {high}")
    is_number = seen.looks_like("number") and not seen.forms["digits"]
    if isinstance(each.dataType, StringType) and is_number and shows:
        parts.append("numbers as text: cast them in the function where they are counted with")
    if isinstance(each.dataType, ArrayType) and isinstance(each.dataType.elementType, StructType):
        parts.append('`rows` of the table makes a row of each item (rows="…")')
    if has_names_of_data(seen) and isinstance(each.dataType, MapType):
        parts.append(f"{len(seen.fields):,} names, which are data")
    return "; ".join(parts)


def _number(value: object) -> str:
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    return text if len(text) <= 24 else f"{Decimal(text):.6g}"  # noqa: PLR2004  # digits of a large one


def literal(value: object, depth: int) -> str:
    """Return a value of JSON as Python, a line for each field."""
    pad = "    " * (depth + 1)
    match value:
        case dict() if value:
            inner = "".join(
                f"{pad}{quoted(name)}: {literal(each, depth + 1)},\n"
                for name, each in value.items()
            )
            return f"{{\n{inner}{'    ' * depth}}}"
        case list() if value and isinstance(value[0], dict | list):
            inner = "".join(f"{pad}{literal(each, depth + 1)},\n" for each in value)
            return f"[\n{inner}{'    ' * depth}]"
        case list():
            return f"[{', '.join(literal(each, depth) for each in value)}]"
        case str():
            return quoted(value)
        case _:
            return repr(value)


def imported(module: str, names: set[str]) -> str:
    """Return the line that imports names, or a line for each."""
    # Constants first, then classes, then functions, as the formatter of imports has them.
    ordered = sorted(names, key=lambda each: (not each.isupper(), each[0].islower(), each))
    line = f"from {module} import {', '.join(ordered)}\n"
    if len(line) <= WIDTH + 1:
        return line
    return f"from {module} import (\n" + "".join(f"    {each},\n" for each in ordered) + ")\n"


# Edit a table's module: declare a field, or give one another type, in the text that the user wrote.
#
# The module is read as Python reads it, and only what must change is written: one line of its fields, its import of types, and where the
# function names its columns one by one, the new one. What cannot be decided from the text is left to its author, with a sentence that says
# what; a wrong guess in a user's module costs more than a line that is typed.

NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
"""A field that can be a column as it is; an engine's column begins with an underscore, and a point would be a path."""

STEP = re.compile(r"`(?:[^`]|``)*`|[^.\[\]{}`]+|\[\]|\{\}")


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
