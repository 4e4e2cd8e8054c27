"""A project of one's own is written: tables with their tests and a play, a Makefile and a CI file.

Its tables are a topic, a silver and a gold table of a shop, or those of the example.
"""

import ast
import builtins
import json
import keyword
import re
import shlex
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from strandline import catalog

from strandline.core.errors import DefinitionError
from strandline.core.kind import Layer
from strandline.core.routes import kinds_named
from strandline.core.table import Ingested, Judged, Table
from strandline.operate.lint import schemas
from strandline.project import ENGINE, EXAMPLE, package, project, tables_root
from strandline_infra import installation

# The drafts of which files of a project are made, those of a new table and those of a new project.
#
# A draft is a text with names to fill in, without loops or conditions; tools that look for modules and tests must not find it.
# Drafts of a table run as they are, and pass their own test and the linter, in a project and in a clone of the engine alike:
# what they import is the public interface and the package of the tables.


TABLE_NAME = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
LONGEST_NAME = 120
"""Letters of a name: files and folders that are named after the table have more, and a disk takes 255."""
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
    from strandline.operate.drafts.module_text import quoted  # noqa: PLC0415  # with DuckDB, which samples are read by

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
    from strandline.operate.drafts.module_text import quoted  # noqa: PLC0415  # as above

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


def over_topic(topic: str, more: str = "") -> str:
    """Return the command that drafts a table over a topic, as it is typed; one that begins with a dash would be an option.

    >>> over_topic("orders"), over_topic("-orders", " --table orders")
    ('strandline new topic orders --from-topic', 'strandline new topic --from-topic --table orders -- -orders')
    """
    if topic.startswith("-"):
        return f"strandline new topic --from-topic{more} -- {shlex.quote(topic)}"
    return f"strandline new topic {shlex.quote(topic)} --from-topic{more}"


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
    if len(name) > LONGEST_NAME:
        raise DefinitionError(
            f"{name[:40]}… is no name for a table: it has {len(name)} letters, and there may be at most {LONGEST_NAME}",
            hint="choose a shorter one.",
            name=name,
        )
    if is_word(name):
        raise _taken(name, "a word of Python's own")


def is_word(name: str) -> bool:
    """Return whether Python has a name already."""
    return keyword.iskeyword(name) or hasattr(builtins, name)


def is_free(name: str) -> bool:
    """Return whether a table may have a name.

    >>> is_free("orders_10m"), is_free("class"), is_free("Orders"), is_free("x" * 200)
    (True, False, False, False)
    """
    return (
        TABLE_NAME.fullmatch(name) is not None and len(name) <= LONGEST_NAME and not is_word(name)
    )


def write_texts(layer: Layer, name: str, module: str, test: str) -> Iterator[Path]:
    """Write a module and its test, and yield the path of each within the project.

    Raises:
        DefinitionError: The name is one that they need for something else, or a file is there already or cannot be written.
    """
    if max(Counter(bound(module))[name], Counter([*bound(test), *_given(test)])[name]) > 1:
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
        try:
            is_there = (into / path).exists()
        except OSError as error:  # a name that is too long
            raise DefinitionError(
                f"{str(path)[:60]}… cannot be written: {error.strerror}",
                hint="choose a shorter name.",
                file=str(into / path),
            ) from error
        if is_there:
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


def bound(text: str) -> Iterator[str]:
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
        "sources": _sources(),
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


def _sources() -> str:
    """Return where uv finds the engine, in the lines of a project's file; none where that is a registry."""
    found = installation.origin()
    if not found:
        return ""
    # What JSON writes of a text or a truth is TOML as well.
    words = ", ".join(f"{name} = {json.dumps(each)}" for name, each in found.items())
    return f"\n# Where the engine was installed from; without it uv looks in its registry.\n[tool.uv.sources]\nstrandline = {{ {words} }}\n"


def _name(root: Path) -> str:
    name = root.name
    package = name.replace("-", "_")
    if len(name) > LONGEST_NAME:
        raise DefinitionError(
            f"{name[:40]}… is no name for a project: it has {len(name)} letters, and there may be at most {LONGEST_NAME}",
            hint="choose a shorter one.",
        )
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
    # For editors; another version of the engine has others: `strandline lint --schemas .vscode`.
    for name, schema in schemas().items():
        yield Path(".vscode", name), json.dumps(schema, indent=2) + "\n"
