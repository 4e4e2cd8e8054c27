"""How a drafted module is written: texts, calls, types with what was seen of their fields, values; each as the formatter has it."""

from collections.abc import Sequence
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

from strandline.operate.sampled_fields import (
    MOST_NAMES,
    Field,
    Of,
    has_names_of_data,
    percent,
    why_not,
)
from strandline.operate.sampled_traits import is_sensitive

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
