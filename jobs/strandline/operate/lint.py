"""Mistakes that a project's files show without being run: tables that would not give the same answer twice, files that cannot be read.

Only texts and syntax trees are read. Nothing of the project and nothing of Spark is imported, so all of it takes less than a second,
and a hook of git may run it before each commit. What needs the declarations themselves is asked by ``preflight`` and by tests.

The schemas of the files that people write by hand are made here as well, for editors that complete and underline.
"""

import ast
import re
import sys
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from strandline.core.errors import DataError, DefinitionError, LakeError
from strandline.project import EXAMPLE, FILE, KEYS, SECTIONS, Project, near, project
from strandline_infra import installation

LAYERS = ("bronze", "silver", "gold")
ALLOWED = re.compile(r"#\s*lint: ok\b")
"""Ends a line whose mistake is none."""

LINES = 5_000_000
"""Bytes of a file beyond which it is no module of a person."""


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Finding:
    """A mistake.

    Args:
        file: Where, below the folder of the project.
        line: The line.
        rule: Its name.
        says: What is wrong, and why.
    """

    file: str
    line: int
    rule: str
    says: str

    def __str__(self) -> str:
        """Return it as editors and pre-commit find the place."""
        return f"{self.file}:{self.line}: {self.says} ({self.rule})"


FUNCTIONS = "pyspark.sql.functions"

CLOCKS = {
    *("current_timestamp", "now", "current_date", "localtimestamp", "unix_timestamp", "curdate"),
    *("rand", "randn", "uuid", "shuffle", "monotonically_increasing_id", "spark_partition_id"),
}
"""Functions of Spark whose answer is another one at the next run; ``unix_timestamp`` only without arguments."""

OF_PYTHON = {
    *("datetime.datetime.now", "datetime.datetime.utcnow", "datetime.datetime.today"),
    *("datetime.date.today", "time.time", "time.time_ns", "uuid.uuid4", "uuid.uuid1"),
    *("random.random", "random.randint", "random.choice", "random.shuffle", "secrets.token_hex"),
}
"""The same of Python."""

IN_SQL = re.compile(
    r"\b(?:current_timestamp|current_date|localtimestamp|now\(\)|rand\(|randn\(|uuid\(\)|monotonically_increasing_id)",
    re.IGNORECASE,
)
SQL_CALLS = {"expr", "selectExpr", "sql", "filter", "where"}

ACTIONS = {
    "collect": "it runs a query while the table is only described",
    "toPandas": "it runs a query while the table is only described",
    "show": "it runs a query while the table is only described",
    "foreach": "rows leave by a `Publish`, after their commit",
    "foreachPartition": "rows leave by a `Publish`, after their commit",
    "write": "the engine writes the rows and the entry that counts them in one commit",
    "writeTo": "the engine writes the rows and the entry that counts them in one commit",
    "writeStream": "the engine decides how a table runs",
    "cache": "the engine keeps a batch, and knows when it may go",
    "persist": "the engine keeps a batch, and knows when it may go",
    "checkpoint": "the engine keeps a batch, and knows when it may go",
    "withWatermark": "the engine sets the watermark by the table's lateness",
    "dropDuplicates": "which copy is kept is chance, and the ledger cannot count the others; name the `key` of the table",
    "drop_duplicates": "which copy is kept is chance, and the ledger cannot count the others; name the `key` of the table",
    "dropDuplicatesWithinWatermark": "it has no meaning in a batch; name the `key` of the table",
    "limit": "which rows are left is chance",
    "sample": "which rows are left is chance",
}
"""What a table's function does not do to a frame, and why."""

HEAVY = {
    *("pandas", "polars", "sklearn", "scipy", "torch", "tensorflow", "xgboost", "lightgbm"),
    *("matplotlib", "dagster", "great_expectations"),
}
OUTSIDE = {
    *(
        "requests",
        "httpx",
        "aiohttp",
        "urllib3",
        "boto3",
        "psycopg2",
        "psycopg",
        "sqlite3",
        "socket",
    ),
    *("confluent_kafka", "redis"),
}


class _Module:
    """A module of a table, read once."""

    def __init__(self, tree: ast.Module, layer: str, stem: str) -> None:
        """Find out what its names mean."""
        self._tree, self._layer, self._stem = tree, layer, stem
        self._names: dict[str, str] = {}
        for node in ast.walk(tree):
            match node:
                case ast.Import(names=names):
                    for each in names:
                        own = each.asname or each.name.partition(".")[0]
                        self._names[own] = each.name if each.asname else own
                case ast.ImportFrom(module=str(above), names=names):
                    self._names |= {e.asname or e.name: f"{above}.{e.name}" for e in names}

    def findings(self) -> Iterator[tuple[int, str, str]]:
        """Yield line, rule and sentence of each mistake."""
        yield from self._imports()
        yield from self._declaration()
        for node in _at_import(self._tree):
            if isinstance(node, ast.Call) and (name := self._of_spark(node)):
                yield (
                    node.lineno,
                    "column-at-import",
                    f"F.{name} needs a JVM, and the catalog is read without one; make it inside a function",
                )
        for node in ast.walk(self._tree):
            yield from self._node(node)

    def _imports(self) -> Iterator[tuple[int, str, str]]:
        for node in self._tree.body:
            match node:
                case ast.Import(names=names):
                    roots = [each.name.partition(".")[0] for each in names]
                case ast.ImportFrom(module=str(above), level=0):
                    roots = [above.partition(".")[0]]
                case _:
                    continue
            for root in roots:
                if root in HEAVY:
                    says = f"{root} is imported whenever the catalog is read; import it where it is used"
                    yield node.lineno, "heavy-import", says
                elif root in OUTSIDE:
                    says = f"a table is made of what it `reads` alone, so that a replay gives the same rows; {root} asks elsewhere"
                    yield node.lineno, "reads-outside", says

    def _declaration(self) -> Iterator[tuple[int, str, str]]:
        for node in self._tree.body:
            match node:
                case ast.Assign(targets=[ast.Name(id="TABLE")], value=ast.Call(keywords=given)):
                    pass
                case ast.AnnAssign(target=ast.Name(id="TABLE"), value=ast.Call(keywords=given)):
                    pass
                case _:
                    continue
            for each in given:
                match each:
                    case ast.keyword(arg="name", value=ast.Constant(value=str(name))):
                        if name != self._stem:
                            says = f"the table is {name!r} and its module {self._stem}.py; a table has one name everywhere"
                            yield node.lineno, "one-name", says

    def _node(self, node: ast.AST) -> Iterator[tuple[int, str, str]]:
        match node:
            case ast.Call(func=ast.Attribute(attr=attr) as func, args=args):
                spark = self._of_spark(node)
                if spark in CLOCKS and not (spark == "unix_timestamp" and args):
                    says = f"F.{spark} is another value at the next run, so a replay gives other rows; take the event's own time"
                    yield node.lineno, "same-answer", says
                elif spark is None and attr in ACTIONS and not self._is_module(func):
                    yield node.lineno, "only-described", f".{attr}(): {ACTIONS[attr]}"
                if attr in SQL_CALLS:
                    yield from self._sql(args)
            case ast.Attribute(attr="write" | "writeStream" as attr, value=inner):
                if not isinstance(inner, ast.Name) or inner.id not in self._names:
                    yield node.lineno, "only-described", f".{attr}: {ACTIONS[attr]}"
        if isinstance(node, ast.Call) and (python := self._dotted(node.func)) in OF_PYTHON:
            says = f"{python} is another value at the next run, so a replay gives other rows; take the event's own time"
            yield node.lineno, "same-answer", says

    @staticmethod
    def _sql(args: Sequence[ast.expr]) -> Iterator[tuple[int, str, str]]:
        for each in args:
            match each:
                case ast.Constant(value=str(text)) if found := IN_SQL.search(text):
                    says = f"{found.group()} is another value at the next run, so a replay gives other rows; take the event's own time"
                    yield each.lineno, "same-answer", says

    def _is_module(self, func: ast.Attribute) -> bool:
        """Return whether a call is one of a module: ``random.sample``, ``Path.write``."""
        return isinstance(func.value, ast.Name) and func.value.id in self._names

    def _of_spark(self, call: ast.Call) -> str | None:
        """Return the name of the function of Spark that is called."""
        name = self._dotted(call.func)
        return name.rpartition(".")[2] if name.startswith(f"{FUNCTIONS}.") else None

    def _dotted(self, func: ast.expr) -> str:
        """Return the whole name of what is called, as its import has it."""
        parts: list[str] = []
        while isinstance(func, ast.Attribute):
            parts.append(func.attr)
            func = func.value
        if not isinstance(func, ast.Name):
            return ""
        return ".".join([self._names.get(func.id, func.id), *reversed(parts)])


def _at_import(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield what runs when a module is imported: not the bodies of functions."""
    for node in ast.iter_child_nodes(tree):
        match node:
            case (
                ast.FunctionDef(decorator_list=decorators, args=args)
                | ast.AsyncFunctionDef(decorator_list=decorators, args=args)
            ):
                for each in (*decorators, *args.defaults, *filter(None, args.kw_defaults)):
                    yield each
                    yield from _at_import(each)
            case ast.Lambda():
                continue
            case _:
                yield node
                yield from _at_import(node)


def _of_module(text: str, layer: str, stem: str) -> Iterator[tuple[int, str, str]]:
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError) as error:
        line = getattr(error, "lineno", None) or 1
        yield line, "syntax", f"it is no Python: {getattr(error, 'msg', None) or error}"
        return
    if layer:
        yield from _Module(tree, layer, stem).findings()


def _of_project(text: str) -> Iterator[tuple[int, str, str]]:
    try:
        found = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        line = re.search(r"line (\d+)", str(error))
        yield int(line[1]) if line else 1, "syntax", f"it is no TOML: {error}"
        return
    lines = text.splitlines()
    for name, rule, says in _of_sections(found):
        named = (n for n, each in enumerate(lines, 1) if re.search(rf"\b{re.escape(name)}\b", each))
        yield next(named, 1), rule, says


def _of_sections(found: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    for name in found:
        if name not in SECTIONS:
            yield name, "unknown", f"{name} is not a part of this file; {near(name, SECTIONS)}"
    for part in SECTIONS:
        if not isinstance(found.get(part, {}), dict):
            yield part, "unknown", f"{part} is a section: [{part}]"
    for name in _section(found, "project"):
        if name not in KEYS:
            yield name, "unknown", f"[project] has no {name}; {near(name, KEYS)}"
    for profile, values in _section(found, "profile").items():
        for name, value in values.items() if isinstance(values, dict) else ():
            for key, rule, says in _of_setting(name, value):
                yield key, rule, f"profile {profile}: {says}"


def _section(found: Mapping[str, Any], name: str) -> dict[str, Any]:
    return value if isinstance(value := found.get(name), dict) else {}


def _of_setting(name: str, value: object) -> Iterator[tuple[str, str, str]]:
    # Not imported above: it takes a tenth of a second, which no other file needs.
    from strandline.engine.runtime.profiles import (  # noqa: PLC0415  # as above
        FOREIGN,
        OTHERS,
        POSTED_TO,
        is_secret_name,
        secret_in,
    )
    from strandline.engine.runtime.settings import FIELDS  # noqa: PLC0415  # as above

    known = [*FIELDS, OTHERS]
    if name not in known:
        yield name, "unknown", f"{name} is not a setting; {near(name, known)}"
    is_section = isinstance(value, dict) and not {*value} <= {"env", "file"}
    for key, each in value.items() if isinstance(value, dict) and is_section else [(name, value)]:
        if isinstance(each, dict):
            continue
        if is_secret_name(key) or secret_in(each) or (name in POSTED_TO and each):
            yield key, "secret", f'{key} has a secret in plain text; name it: {{ env = "NAME" }}'
        elif name == OTHERS and not FOREIGN.fullmatch(key):
            yield key, "unknown", f"{key} does not belong into {OTHERS}"


RULE_KEYS = {
    *("title", "id", "name", "status", "description", "references", "author", "date", "modified"),
    *("tags", "logsource", "detection", "correlation", "falsepositives", "level", "fields"),
    *("license", "related", "scope", "taxonomy", "strandline"),
}
LEVELS = ("informational", "low", "medium", "high", "critical")


DEEP = 100
"""How deep a rule may be nested; libyaml's loader ends the process at some ten thousand."""


def _too_deep(text: str, loader: Any) -> int | None:  # noqa: ANN401  # either of PyYAML's
    """Return the line at which a text is nested deeper than any rule; its events are read without recursion."""
    import yaml  # noqa: PLC0415  # as below

    depth = 0
    for event in yaml.parse(text, Loader=loader):
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        if depth > DEEP:
            return event.start_mark.line + 1 if event.start_mark else 1
    return None


def _of_rules(text: str) -> Iterator[tuple[int, str, str]]:
    import yaml  # noqa: PLC0415  # most commits change no rule

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        if (line := _too_deep(text, loader)) is not None:
            yield line, "syntax", f"it is nested more than {DEEP} deep"
            return
        documents = list(yaml.load_all(text, Loader=loader))  # a safe one
    except (yaml.YAMLError, ValueError) as error:  # ValueError: of 30 February
        mark = getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None) or str(error).partition("\n")[0]
        yield (mark.line + 1 if mark else 1), "syntax", f"it is no YAML: {problem}"
        return
    for each in documents:
        if each is None:
            continue
        if not isinstance(each, Mapping):
            yield 1, "rule", "a rule is a mapping of names and values"
            continue
        if not {"detection", "correlation"} & {*each}:
            yield 1, "rule", f"{each.get('title', 'a rule')} has neither detection nor correlation"
        for name in each:
            if name not in RULE_KEYS and name != "custom":
                yield (
                    1,
                    "rule",
                    f"{name} is no part of a rule; {near(str(name), [*RULE_KEYS])}".rstrip("; "),
                )
        level = each.get("level")
        if level is not None and not (isinstance(level, str) and level in LEVELS):
            yield 1, "rule", f"level is one of {', '.join(LEVELS)}"


Reader = Callable[[str], Iterator[tuple[int, str, str]]]


def lint(project: Project | None, files: Iterable[Path] | None) -> list[Finding]:
    """Return the mistakes of some files of a project, or of all that it has.

    Args:
        project: The project; None for the example.
        files: Which; those that the project does not own are passed over, as a hook gives all that were changed.

    Raises:
        DefinitionError: A file cannot be read.
    """
    is_own = project is not None and not project.of_example
    root = project.root if project is not None and is_own else installation.example()
    package = root.joinpath(*(project.tables.split(".") if project else [EXAMPLE]))
    top = project.root if project else root
    chosen = [*_all(top, package)] if files is None else [each.absolute() for each in files]
    found = {finding for each in chosen for finding in _of_file(each, top, package)}
    return sorted(found)


def hook(files: Sequence[str]) -> int | None:
    """Print the mistakes of files, and return the exit code; None where an error is to be explained, which is left to others."""
    try:
        found = lint(project(), [Path(each) for each in files] or None)
    except LakeError:
        return None
    sys.stdout.writelines(f"{each}\n" for each in found)
    return DataError.exit_code if found else 0


def _all(top: Path, package: Path) -> Iterator[Path]:
    yield from sorted(package.rglob("*.py"))
    for folder in (package, top):
        yield from sorted((folder / "rules").rglob("*.y*ml"))
    if (top / FILE).is_file():
        yield top / FILE


def _of_file(file: Path, top: Path, package: Path) -> Iterator[Finding]:
    reads = _reader(file, package)
    if reads is None or not file.is_file():
        return
    try:
        if file.stat().st_size > LINES:
            return
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise DefinitionError(
            f"{file} cannot be read: {getattr(error, 'strerror', None) or 'it is no text'}",
            hint="see that it is a text in UTF-8 that this user may read.",
        ) from error
    shown = str(file.relative_to(top)) if file.is_relative_to(top) else str(file)
    lines = text.splitlines()
    for line, rule, says in reads(text):
        if rule == "secret" or not ALLOWED.search(lines[line - 1] if line <= len(lines) else ""):
            yield Finding(file=shown, line=line, rule=rule, says=says)


def _reader(file: Path, package: Path) -> Reader | None:
    """Return what reads a file; None where it is no file of ours."""
    if file.name == FILE:
        return _of_project
    if file.suffix in {".yml", ".yaml"} and "rules" in file.parts:
        return _of_rules
    if file.suffix != ".py" or not file.is_relative_to(package):
        return None
    layer = file.relative_to(package).parts[0]
    is_table = layer in LAYERS and file.name != "__init__.py"
    return lambda text: _of_module(text, layer if is_table else "", file.stem)


# Schemas of the files that people write: JSON Schema, draft 7, which editors of YAML and TOML take.

DRAFT = "http:/" + "/json-schema.org/draft-07/schema#"


def schemas() -> dict[str, dict[str, Any]]:
    """Return the schema of each kind of file, by the name of its own file."""
    return {"strandline.schema.json": _of_toml(), "rule.schema.json": _of_a_rule()}


def _of_toml() -> dict[str, Any]:
    from strandline.engine.runtime.profiles import OPTIONS, OTHERS  # noqa: PLC0415  # as above
    from strandline.engine.runtime.settings import FIELDS, bounds_of  # noqa: PLC0415  # as above

    secret = {
        "type": "object",
        "description": "where the value is: a variable, or a file",
        "properties": {"env": {"type": "string"}, "file": {"type": "string"}},
        "minProperties": 1,
        "maxProperties": 1,
        "additionalProperties": False,
    }
    values: dict[str, Any] = {}
    for name in FIELDS:
        kind = _kind(name)
        if name in OPTIONS:
            texts = {"anyOf": [{"type": "string"}, {"$ref": "#/definitions/secret"}]}
            kind = {"type": "object", "additionalProperties": texts}
        about = bounds_of(name).description
        values[name] = {"description": about, "anyOf": [kind, {"$ref": "#/definitions/secret"}]}
    values[OTHERS] = {
        "type": "object",
        "description": "variables for the store, for lineage and for telemetry",
        "patternProperties": {
            "^(AWS|OPENLINEAGE|OTEL)_": {
                "anyOf": [
                    {"type": ["string", "number", "boolean"]},
                    {"$ref": "#/definitions/secret"},
                ]
            }
        },
        "additionalProperties": False,
    }
    profile = {"type": "object", "properties": values, "additionalProperties": False}
    tables = {
        "type": "string",
        "description": "package whose bronze, silver and gold have the tables; the example when absent",
    }
    return {
        "$schema": DRAFT,
        "title": FILE,
        "type": "object",
        "additionalProperties": False,
        "properties": {
            "project": {
                "type": "object",
                "properties": {"tables": tables},
                "additionalProperties": False,
            },
            "profile": {"type": "object", "additionalProperties": profile},
        },
        "definitions": {"secret": secret},
    }


def _kind(name: str) -> dict[str, Any]:
    """Return what the value of a setting may be; a date is a text in JSON and a date in TOML."""
    from strandline.engine.runtime.settings import bounds_of, kind_of  # noqa: PLC0415  # as above

    bounds = bounds_of(name)
    asked = {"pattern": bounds.pattern, "minimum": bounds.ge, "maximum": bounds.le}
    types = {int: "integer", float: "number", bool: "boolean"}
    known = {key: each for key, each in asked.items() if each is not None}
    return {"type": types.get(kind_of(name), "string"), **known}


def _of_a_rule() -> dict[str, Any]:
    text = {"type": "string"}
    texts = {"type": "array", "items": text}
    event = {"type": "object"}
    events = {"type": "array", "items": {"anyOf": [event, {"type": "array", "items": event}]}}
    own = {
        "type": "object",
        "description": "what Strandline needs beside Sigma: who answers, which page says what to do, and examples",
        "properties": {
            "owner": text,
            "runbook": text,
            "fires_on": {
                **events,
                "description": "events, or lists of events, that raise an alert",
            },
            "quiet_on": {**events, "description": "events, or lists of events, that raise none"},
        },
        "additionalProperties": False,
    }
    kinds = [
        *("event_count", "value_count", "temporal", "temporal_ordered"),
        *("value_sum", "value_avg", "value_percentile", "value_median"),
    ]
    correlation = {
        "type": "object",
        "required": ["type", "rules"],
        "properties": {
            "type": {"enum": kinds},
            "rules": texts,
            "group-by": texts,
            "timespan": {"type": "string", "pattern": "^[0-9]+[smhdwMqy]$"},
            "generate": {"type": "boolean"},
            "condition": {"type": ["object", "string"]},
            "aliases": {"type": "object"},
        },
    }
    properties: dict[str, Any] = {name: {} for name in sorted(RULE_KEYS)}
    properties |= {
        "title": text,
        "id": text,
        "status": {"enum": ["stable", "test", "experimental", "deprecated", "unsupported"]},
        "level": {"enum": [*LEVELS]},
        "tags": texts,
        "logsource": {
            "type": "object",
            "properties": dict.fromkeys(("category", "product", "service"), text),
        },
        "detection": {
            "type": "object",
            "required": ["condition"],
            "properties": {"condition": {"anyOf": [text, texts]}},
        },
        "correlation": correlation,
        "strandline": own,
    }
    return {
        "$schema": DRAFT,
        "title": "an alert rule",
        "type": "object",
        "required": ["title"],
        "anyOf": [{"required": ["detection"]}, {"required": ["correlation"]}],
        "properties": properties,
        "additionalProperties": False,
    }
