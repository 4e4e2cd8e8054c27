"""A project of one's own is written: tables with their tests and a play, a Makefile and a CI file.

Its tables are a topic, a silver and a gold table of a shop, or those of the example.
"""

import ast
import builtins
import keyword
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

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
from strandline import catalog

from strandline.core.errors import DefinitionError
from strandline.core.kind import Layer
from strandline.core.routes import kinds_named
from strandline.core.table import Ingested, Judged, Table
from strandline.operate.sampled_fields import Field, Of, has_names_of_data, percent, why_not
from strandline.operate.sampled_traits import is_sensitive
from strandline.project import ENGINE, EXAMPLE, package, project, tables_root
from strandline_infra import installation

# The drafts of which files of a project are made, those of a new table and those of a new project.
#
# A draft is a text with names to fill in, without loops or conditions; tools that look for modules and tests must not find it.
# Drafts of a table run as they are, and pass their own test and the linter, in a project and in a clone of the engine alike:
# what they import is the public interface and the package of the tables.


TABLE_NAME = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
OF_TABLES = installation.PACKAGE / "table"
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


def bronze(reads: str, takes: str) -> Ingested:
    """Return the bronze table that a new one reads.

    Raises:
        DefinitionError: It is none, or the new table would not say which kinds it takes, or another one takes them.
    """
    found = source(reads, {Layer.BRONZE})
    if isinstance(found, Ingested):
        _refuse_kinds(found, takes)
        return found
    raise DefinitionError(f"{found.id} is no bronze table", hint="name one.", table=found.id)


def _refuse_kinds(source: Ingested, takes: str) -> None:
    if not source.has_kinds and takes:
        raise DefinitionError(
            f"{source.id} has no kinds of records", hint="leave --takes out.", table=source.id
        )
    if source.has_kinds and not takes:
        raise DefinitionError(
            f"{source.id} has several kinds of records, by {source.routed_by}",
            hint="name the one that the table takes: --takes KIND.",
            table=source.id,
        )
    others = [each for each in catalog.tables() if isinstance(each, Judged)]
    for each in others:
        if each.bronze.id == source.id and takes and takes in kinds_named(each.taken[0]):
            raise DefinitionError(
                f"{each.id} takes {takes!r} of {source.id} already",
                hint="name another kind, or let the new table read the rows of that one.",
                table=each.id,
            )


def takes_line(takes: str, *, in_sql: bool) -> str:
    """Return the line of a draft with the kind that its table takes; empty where its source has no kinds.

    Raises:
        DefinitionError: A file of SQL has no words for the kind: there several are divided by blanks or commas, and a line ends a field.
    """
    if not takes:
        return ""
    if not in_sql:
        return f"    takes=({quoted(takes)},),\n"
    if not takes.isprintable() or re.search(r"[\s,()\[\]'\"`]", takes):
        raise DefinitionError(
            f"the kind {takes!r} cannot be written in the head of a file of SQL",
            hint="leave --sql out: a module in Python can name any kind.",
        )
    return f"-- takes: {takes}\n"


def of_kind(found: Ingested, takes: str) -> dict[str, str]:
    """Return how the test of a silver table writes a record of the kind that it takes: what is in its fields, and beside them."""
    topic = found.topics[0]
    beside = f', topic="{topic}"' if len(found.topics) > 1 else ""
    call = ast.parse(str(topic.kind), mode="eval").body if topic.kind and takes else None
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
        return {"fields": "", "beside": beside}
    words = [str(ast.literal_eval(each)) for each in call.args]
    if call.func.id == "field":
        value = quoted(takes)
        for word in reversed(words[1:]):
            value = f"{{{quoted(word)}: {value}}}"
        return {"fields": f", {quoted(words[0])}: {value}", "beside": beside}
    said = (
        {
            "header": f", headers={{{quoted(words[0])}: {quoted(takes)}}}",
            "key_prefix": f", key={quoted(f'{takes}{words[0]}1')}",
        }
        if words
        else {}
    )
    return {"fields": "", "beside": said.get(call.func.id, "") + beside}


def write(layer: Layer, name: str, facts: Mapping[str, str]) -> Iterator[Path]:
    """Write the module and the test of a new table, and yield the path of each within the project.

    Args:
        layer: Its layer.
        name: Its name.
        facts: What the drafts of the layer leave open.

    Raises:
        DefinitionError: The name cannot be that of a table, or a file is there already or cannot be written.
    """
    refuse_name(name)
    words = {**facts, "name": name, "package": package()}
    drafts = (OF_TABLES / f"{each}.py{SUFFIX}" for each in (layer, f"test_{layer}"))
    module, test = (filled(draft, words) for draft in drafts)
    yield from write_texts(layer, name, module, test)


def write_sql(layer: Layer, name: str, facts: Mapping[str, str]) -> Iterator[Path]:
    """Write the file of SQL and the test of a new table, and yield the path of each; see ``write``."""
    refuse_files(layer, name)
    words = {**facts, "name": name, "package": package()}
    drafts = (OF_TABLES / f"{each}.sql{SUFFIX}" for each in (layer, f"test_{layer}"))
    text, test = (filled(draft, words) for draft in drafts)
    places = [
        path.with_suffix(".sql") if path.parts[0] != "tests" else path
        for path in paths_of(layer, name)
    ]
    yield from put(root(), dict(zip(places, (text, test), strict=True)))


def refuse_name(name: str) -> None:
    """Refuse what cannot be the name of a table.

    Raises:
        DefinitionError: It cannot.
    """
    if TABLE_NAME.fullmatch(name) is None:
        raise DefinitionError(
            f"{name!r} is no name for a table",
            hint="write it in small letters, digits and single underscores, such as orders_10m.",
            name=name,
        )
    if is_word(name):
        raise _taken(name, "a word of Python's own")


def is_word(name: str) -> bool:
    """Return whether Python has a name already."""
    return keyword.iskeyword(name) or hasattr(builtins, name)


def write_texts(layer: Layer, name: str, module: str, test: str) -> Iterator[Path]:
    """Write a module and its test, and yield the path of each within the project.

    Raises:
        DefinitionError: The name is one that they need for something else, or a file is there already or cannot be written.
    """
    if max(Counter(_bound(module))[name], Counter([*_bound(test), *_given(test)])[name]) > 1:
        raise _taken(name, "a name that its module or its test needs for something else")
    yield from put(root(), paths_of(layer, name, module, test))


def paths_of(layer: Layer, name: str, module: str = "", test: str = "") -> dict[Path, str]:
    """Return where the module and the test of a table are, with their texts."""
    return {
        folder_of_tables() / layer / f"{name}.py": module,
        Path("tests", layer, f"test_{name}.py"): test,
    }


def refuse_files(layer: Layer, name: str) -> None:
    """Refuse a name whose module or test is there already, before anything is read for it.

    Raises:
        DefinitionError: One is.
    """
    refuse_name(name)
    _refuse_there(root(), paths_of(layer, name))


def root() -> Path:
    """Return the folder of the project, or of the clone.

    Raises:
        DefinitionError: There is neither.
    """
    found = project()
    if found is None and not installation.is_clone():
        raise DefinitionError(
            "this folder is in no project, so nothing can be written into it",
            hint="`strandline init NAME` writes a project; type this again in its folder.",
        )
    return found.root if found else installation.ROOT


def folder_of_tables() -> Path:
    """Return the folder of the package with the tables, within that of the project or of the clone."""
    return tables_root().joinpath(*package().split(".")).relative_to(root())


def put(into: Path, texts: Mapping[Path, str]) -> Iterator[Path]:
    """Write files into a folder, none of which is there, and yield the path of each.

    Raises:
        DefinitionError: One is there already, or cannot be written.
    """
    _refuse_there(into, texts)
    for path, text in texts.items():
        try:
            (into / path).parent.mkdir(parents=True, exist_ok=True)
            (into / path).write_text(text, encoding="utf-8")
        except OSError as error:
            raise DefinitionError(
                f"{into / path} cannot be written: {error.strerror}",
                hint="run it in a project of your own (`strandline init`), or in a clone of the engine.",
                file=str(into / path),
            ) from error
        yield path


def _refuse_there(into: Path, texts: Mapping[Path, str]) -> None:
    for path in texts:
        if (into / path).exists():
            raise DefinitionError(
                f"{path} exists already",
                hint="choose another name, or change that file.",
                file=str(into / path),
            )


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


# The example as a project of one's own: its modules as they are, in a package of another name.
#
# They import what a project may, the public interface and their own package. A module that imports more of the engine
# stays behind, and so does each that imports one of these.


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
    root = installation.example()
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


DRAFTS = installation.PACKAGE / "project"
"""What every project has."""
SHOP, FLEET = (installation.PACKAGE / name for name in ("shop", "fleet"))
"""What a project of the one or the other tables has beside it."""
EXTRAS = ("dagster", "quality")
"""What a project installs of the engine's extras; that of the example has alerts as well."""
PACKAGE = "package"
PROJECT_NAME = re.compile(r"[a-z][a-z0-9]*([_-][a-z0-9]+)*")
TAKEN = {*ENGINE, "tests", "pytest", "ruff"}
"""Packages that a project needs and that may not be installed yet."""


def make(folder: Path, *, of_example: bool = False) -> str:
    """Write the files of a project into a folder, and return the name of the project.

    Args:
        folder: Its folder.
        of_example: Whether its tables, models and play are those of the example.

    Raises:
        DefinitionError: The folder is not empty or cannot be written, or its name is no name for a project.
    """
    root = folder.absolute()
    name = _name(root)
    if root.exists() and (not root.is_dir() or any(root.iterdir())):
        raise DefinitionError(
            f"{folder} exists and is not empty", hint="name a folder that does not exist yet."
        )
    package = name.replace("-", "_")
    words = {
        "name": name,
        "package": package,
        "upper": package.upper(),
        "version": version("strandline"),
        "extras": ",".join(sorted([*EXTRAS, *(["alerts"] if of_example else [])])),
        "next": str(int(version("strandline").partition(".")[0]) + 1),
    }
    try:
        for place, text in _files(words, of_example=of_example):
            file = root / place
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise DefinitionError(
            f"{error.filename or root} cannot be written: {error.strerror}",
            hint="name a folder where you may write.",
        ) from error
    return name


def _name(root: Path) -> str:
    name = root.name
    package = name.replace("-", "_")
    if (
        PROJECT_NAME.fullmatch(name) is None
        or keyword.iskeyword(package)
        or package in sys.stdlib_module_names
    ):
        raise DefinitionError(
            f"{name!r} is no name for a project",
            hint="write it in small letters, digits and single dashes or underscores, such as web-shop; "
            "a word or a module of Python's own is none.",
        )
    if package in TAKEN or (package != EXAMPLE and _is_importable(package)):
        raise DefinitionError(
            f"{name!r} is no name for a project: a package that is installed here has it, and the project would hide it",
            hint=f"choose another name, such as {name}-lake.",
        )
    return name


def _is_importable(package: str) -> bool:
    """Return whether another package has the name; a folder of this name that is only near by is none.

    Python finds modules in the working folder too, so an empty folder for the project looks like a package there.
    """
    found = find_spec(package)
    if found is None:
        return False
    places = found.submodule_search_locations or [str(found.origin)]
    return any(Path(each).parent != Path.cwd() for each in places)


def _files(words: Mapping[str, str], *, of_example: bool) -> Iterator[tuple[Path, str]]:
    """Yield the place of each file below the project's folder, and its text."""
    for drafts in (DRAFTS, FLEET if of_example else SHOP):
        for draft in sorted(drafts.rglob(f"*{SUFFIX}")):
            first, *rest = draft.relative_to(drafts).with_suffix("").parts
            yield Path(words["package"] if first == PACKAGE else first, *rest), filled(draft, words)
    if of_example:
        yield from files_of(words["package"])


# How a drafted module is written: texts, calls, types with what was seen of their fields, values; each as the formatter has it.

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
    return "".join(lines)


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
    if isinstance(each.dataType, StringType) and seen.looks_like("number") and shows:
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
