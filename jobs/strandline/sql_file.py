"""One ``.sql`` file is a table: its head says what a declaration in Python would, its body is the SELECT.

The head is the comment at the top. A line ``-- word: value`` declares the field of that name, a line that is indented more goes on
with it, and every other line is prose, the table's summary::

    -- Readings of each device in ten minutes.
    --
    -- kind: Windowed
    -- reads: silver.device_telemetry
    -- key: device_id, window_from
    -- window: 10 minutes
    -- window_from: window_from
    -- closes_at: window_until
    SELECT device_id, window.start AS window_from, window.end AS window_until, count(*) AS readings
    FROM {device_telemetry}
    GROUP BY device_id, window(event_at, '10 minutes')

The file lies beside the modules of its layer and is imported as one of them, so a table in Python reads its ``TABLE``, and every
verb, asset and test knows it by the same name.
"""

import ast
import importlib
import inspect
import pkgutil
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, dataclass, fields
from datetime import timedelta
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from strandline.core.errors import DefinitionError
from strandline.core.kind import AGES, BESIDE, Day, Emit, Fresh, Lateness, Layer, Window, length_of
from strandline.core.table import Appended, Computed, Judged, Recomputed, Table, Upserted, Windowed
from strandline.core.topic import Skip
from strandline.sql_function import Written, made, short
from strandline.sql_text import NAMED, understood
from strandline.sql_words import SqlError, normal
from strandline_quality import rules
from strandline_quality.expectations import Within
from strandline_quality.rules import OnFail, Rule, Severity

ENCODING = "utf-8-sig"
"""Some editors begin a file with a mark of its bytes' order."""

KINDS = {each.__name__: each for each in (Judged, Windowed, Appended, Upserted, Recomputed)}
OF_LAYER = {Layer.SILVER: ("Judged", "Appended", "Upserted"), Layer.GOLD: (*KINDS,)[1:]}


@dataclass(frozen=True, slots=True)
class Declared:
    """A field that a head declares: its name, its text, and the line where it begins."""

    name: str
    text: str
    line: int


@dataclass(frozen=True, slots=True)
class Head:
    """The head of a file.

    Args:
        declared: Its declarations.
        prose: Its other lines.
        ends: The number of lines before the SELECT.
    """

    declared: tuple[Declared, ...]
    prose: str
    ends: int


LINE = re.compile(r"(\s*)([A-Za-z][\w.]*)\s*:(?=\s|$)\s*(.*)")
DEEPER = 3
"""Blanks behind the dashes from which on a line goes on with the declaration before it."""


def head_of(text: str) -> Head:
    """Return the head of a file.

    Raises:
        SqlError: A word is no field of a table.
    """
    found: list[Declared] = []
    prose: list[str] = []
    lines, ends = _comment(text)
    is_open = False
    for number, line in lines:
        said = LINE.fullmatch(line)
        indent = len(line) - len(line.lstrip())
        if is_open and line.strip() and indent >= DEEPER:
            last = found[-1]
            found[-1] = Declared(last.name, f"{last.text}\n{line.strip()}".strip(), last.line)
            continue
        is_open = said is not None and _is_field(said[2], number)
        if said is not None and is_open:
            found.append(Declared(said[2].lower(), said[3].strip(), number))
        else:
            prose.append(line.strip())
    return Head(tuple(found), "\n".join(prose).strip(), ends)


def _comment(text: str) -> tuple[list[tuple[int, str]], int]:
    """Return the lines of the comment at the top, each with its number, and how many lines it has."""
    found: list[tuple[int, str]] = []
    lines = _lines(text)
    number, is_block = 0, False
    for number, line in enumerate(lines, 1):  # where it ends is asked below
        bare = line.strip()
        if is_block or bare.startswith("/*"):
            is_block = "*/" not in bare
            if bare.rpartition("*/")[2].strip() and not is_block:
                raise SqlError(
                    "words are behind the comment at the top, in its last line",
                    hint="write the SELECT in a line of its own.",
                    line=number,
                )
            found.append((number, re.sub(r"^\s*/\*+|\*+/\s*$|^\s*\* ?(?!/)", " ", line)))
        elif bare.startswith("--"):
            found.append((number, bare[2:]))
        elif bare:
            return found, number - 1
    return found, number


def _is_field(word: str, line: int) -> bool:
    """Return whether a word before a colon declares a field, also with a capital letter; other prose begins with one.

    Raises:
        SqlError: It is near to one, or is in small letters and none.
    """
    name = word.lower()
    if name in FIELDS:
        return True
    near = get_close_matches(name, FIELDS, n=1, cutoff=0.6 if word == name else 0.8)
    if word != name and not near:
        return False
    meant = f"does it mean {near[0]}? " if near else ""
    raise SqlError(
        f"{word} is no field of a table",
        hint=f"{meant}The fields are {', '.join(FIELDS)}; a line of prose begins with a capital letter, and with none of these before a colon.",
        line=line,
    )


# How the text of each field is read.


def _unquoted(text: str) -> str:
    is_quoted = len(text) > 1 and text[0] == text[-1] and text[0] in "'\"`"
    return text[1:-1] if is_quoted else text


def _texts(text: str) -> tuple[str, ...]:
    return tuple(_unquoted(each) for each in re.split(r"[,\s]+", text.strip("()[] ")) if each)


def _bool(text: str) -> bool:
    known = {"true": True, "yes": True, "false": False, "no": False}
    if text.lower() not in known:
        raise _Unread("true or false")
    return known[text.lower()]


def _emits(text: str) -> Emit:
    name = text.lower().rpartition(".")[2]
    if name not in {*Emit}:
        raise _Unread(" or ".join(Emit))
    return Emit(name)


def _length(text: str) -> str:
    try:
        length_of(text)
    except (ValueError, OverflowError) as error:
        raise _Unread("a length such as 10 minutes or 2 hours") from error
    return text


def _window(text: str) -> Window:
    if of_zone := re.fullmatch(r"(?i)days?(?:\s+(?:of|in))?\s+(\S+)|Day\(['\"](\S+)['\"]\)", text):
        return Day(of_zone[1] or of_zone[2])
    return _length(text)


def _lateness(text: str) -> Lateness:
    """Read ``2 hours``, or ``late 2 hours, early 1 minute, disorder 10 minutes``; ``late 0 seconds`` is none."""
    known = {}
    for part in re.split(r"\s*,\s*", text.removeprefix("Lateness(").rstrip(") ")):
        found = re.fullmatch(r"(?:(late|early|disorder)\s*[=:]?\s+)?(.+)", part)
        if not found or not re.match(r"\d|INTERVAL", found[2], re.IGNORECASE):
            raise _Unread("2 hours, or late 2 hours, early 5 minutes, disorder 10 minutes")
        name = found[1] or "late"
        if name in known:
            raise _Unread(f"{name} once")
        is_none = re.fullmatch(r"(?i)(?:interval\s+)?0(?:\s+[a-z]+)?", found[2])
        known[name] = timedelta(0) if is_none else length_of(_length(found[2]))
    try:
        return Lateness(**known)
    except ValueError as error:  # two commits may share a moment
        raise _Unread("a disorder of 1 millisecond or more") from error


def _listed(text: str) -> Iterator[str]:
    """Yield the items of a list: one a line, or several divided by semicolons that are in no quotes and no brackets."""
    depth, quote, item = 0, "", ""
    for letter in f"{text}\n":
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "'\"`":
            quote = letter
        else:
            depth += (letter in "([") - (letter in ")]")
        if letter in ";\n" and not quote and depth <= 0:
            if item.strip():
                yield item.strip()
            item = ""
        else:
            item += letter
    if item.strip():
        yield item.strip()


CALLS: Mapping[str, Callable[..., Any]] = {
    **{
        each.__name__: each
        for each in (
            rules.required,
            rules.not_null,
            rules.between,
            rules.one_of,
            rules.matches,
            rules.no_unknown_fields,
        )
    },
    "Rule": Rule,
}
BY_NAME = re.compile(r"([a-z][\w:]*)\s*:\s+(.+)", re.DOTALL)
EXAMPLE = (
    'required(event_id, max_failed=0.2); between(value, -50, 60); cold: value < 100 OR unit = "F"'
)


def _rules(text: str) -> tuple[Rule, ...]:
    found: list[Rule] = []
    for item in _listed(text):
        if named := BY_NAME.fullmatch(item):
            found.append(Rule(name=named[1], holds=named[2]))
            continue
        made_ = _called(item, CALLS)
        found += made_ if isinstance(made_, tuple) else (made_,)
    return tuple(found)


def _called(item: str, known: Mapping[str, Callable[..., Any]]) -> Any:  # noqa: ANN401  # what the function gives
    """Return what a call gives that is written as in Python; a bare name is a text."""
    example = EXAMPLE if "required" in known else OF_WITHIN
    try:
        call = ast.parse(item, mode="eval").body
    except (SyntaxError, ValueError) as error:
        raise _Unread(example) from error
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
        raise _Unread(example)
    if call.func.id not in known:
        near = get_close_matches(call.func.id, known, n=1)
        raise _Unread(
            f"{near[0]}(…)" if near else f"one of {', '.join(known)}, or `name: a condition`"
        )
    values = [_value(each) for each in call.args]
    named = {str(each.arg): _option(str(each.arg), each.value) for each in call.keywords}
    made_of = known[call.func.id]
    usage = f"{call.func.id}{inspect.signature(made_of)}"[:200]
    try:
        given = inspect.signature(made_of).bind(*values, **named)
        _refuse_arguments(given, usage)
        return made_of(*given.args, **given.kwargs)
    except (TypeError, ValueError) as error:
        raise _Unread(usage) from error


def _refuse_arguments(call: inspect.BoundArguments, usage: str) -> None:
    """Make texts of the values of ``one_of``; refuse what is no column, no text or no number, which would be found at the first row."""
    given = call.arguments
    columns = given.get("columns", (given["column"],) if "column" in given else ())
    is_of_columns = {"columns", "column"} & {*call.signature.parameters}
    is_named = columns and all(isinstance(each, str) and "." not in each for each in columns)
    if is_of_columns and not is_named:
        raise _Unread(f"{usage}, with names of columns of the table, not of fields within one")
    if "values" in given:
        several = given["values"]
        listed = several if isinstance(several, tuple) else (several,)
        if not listed:
            raise _Unread("one_of(status, [paid, open])")
        given["values"] = tuple(
            str(each).lower() if isinstance(each, bool) else str(each) for each in listed
        )
    texts = [given[each] for each in ("name", "holds", "aggregate", "pattern") if each in given]
    numbers = [given[each] for each in ("low", "high") if each in given]
    if not all(isinstance(each, str) and each for each in texts) or not all(
        map(_is_number, numbers)
    ):
        raise _Unread(usage)
    if len(numbers) > 1 and numbers[0] > numbers[1]:
        raise _Unread("the lower bound first")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _value(node: ast.expr) -> Any:  # noqa: ANN401  # a number, a text or a list of them
    match node:
        case ast.Name(id=name):
            return {"true": True, "false": False}.get(name.lower(), name)
        case ast.Attribute():
            raise _Unread(
                f"a name without a point, for {ast.unparse(node)} is no column of a table"
            )
        case ast.List(elts=items) | ast.Tuple(elts=items):
            return tuple(map(_value, items))
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError) as error:
        raise _Unread(EXAMPLE) from error


OF_OPTION: Mapping[str, type[OnFail | Severity]] = {"on_fail": OnFail, "severity": Severity}


def _option(name: str, node: ast.expr) -> Any:  # noqa: ANN401  # as above
    """Return the value of an option of a rule, which has no other than its own."""
    if kind := OF_OPTION.get(name):
        word = node.attr if isinstance(node, ast.Attribute) else str(_value(node))
        if word.lower() not in {*kind}:
            raise _Unread(f"{name}={' or '.join(kind)}")
        return kind(word.lower())
    value = _value(node)
    if name == "max_failed" and not (_is_number(value) and 0 <= value <= 1):
        raise _Unread("max_failed=0.2, a share from 0 to 1")
    if name in {"null_ok", "from_history"} and not isinstance(value, bool):
        raise _Unread(f"{name}=true or {name}=false")
    return value


OF_WITHIN = "few_left: count_if(value IS NULL) <= 10"
COMPARED = re.compile(r"(\w+)\s*:\s+(.+?)\s*(<=|>=|=)\s*(-?\d+(?:\.\d+)?)", re.DOTALL)


def _expects(text: str) -> tuple[Within, ...]:
    found: list[Within] = []
    for item in _listed(text):
        if named := COMPARED.fullmatch(item):
            low = float(named[4]) if named[3] in {">=", "="} else None
            high = float(named[4]) if named[3] in {"<=", "="} else None
            found.append(Within(name=named[1], aggregate=named[2], low=low, high=high))
        else:
            found.append(_called(item, {"Within": Within}))
    return tuple(found)


def _skips(text: str) -> tuple[Skip, ...]:
    """Read conditions, each a line; a name may come before one."""
    found = []
    for item in _listed(text):
        named = BY_NAME.fullmatch(item)
        found.append(Skip(named[2], name=named[1]) if named else Skip(item))
    return tuple(found)


def _fresh(text: str) -> Fresh:
    """Read a promise: ``5 minutes``, or ``5 minutes by arrival``."""
    within, by, age = text.partition(" by ")
    found = age.strip() if by else "event"
    if found not in AGES:
        raise _Unread("5 minutes, or 5 minutes by arrival")
    return Fresh(_length(within.strip()), found)


class _Unread(Exception):  # noqa: N818  # said as a SqlError, with the field
    """A text is not what its field needs; what it needs is said."""


TEXTS = ("key", "key_null_ok", "sensitive", "unmasked", "takes", "also", "leaves")
LENGTHS = ("keeps", "keeps_held", "reach", "every", "provisional")
READERS: Mapping[str, Callable[[str], Any]] = {
    "owner": _unquoted,
    "event_at": _unquoted,
    "valid_until": _unquoted,
    "window_from": _unquoted,
    "closes_at": _unquoted,
    "source_count": _unquoted,
    "unknown": _unquoted,
    "scored_by": _unquoted,
    "rows": _unquoted,
    "bad_items": _unquoted,
    "on_new_field": _unquoted,
    "on_wrong_type": _unquoted,
    **dict.fromkeys(TEXTS, _texts),
    **dict.fromkeys(LENGTHS, _length),
    "fresh": _fresh,
    "believes_history": _bool,
    "emits": _emits,
    "window": _window,
    "lateness": _lateness,
    "rules": _rules,
    "expects": _expects,
    "skips": _skips,
}
"""The fields of a table that a text can be, with how it is read."""
OF_OTHERS = ("reads", "references")
"""Those that name other tables."""
FIELDS = ("kind", *OF_OTHERS, "fields", *READERS)
IN_PYTHON = {
    "name": "it is the name of the file",
    "layer": "it is the folder of the file",
    "transform": "it is the SELECT",
    "dimension": "declare the dimension in Python, with transform=sql(…); or join the table, as Recomputed",
    "static": "declare it in Python, with the function",
}
"""Fields that no head declares, and why."""


# The table of a file.


def said(text: str) -> str:
    """Return what a file says, without its comments and how it looks: its declarations, and its SELECT.

    It is a text of Python, as the code version of a table is made of statements (jobs/strandline/engine/runtime/code_files.py).
    """
    try:
        head = head_of(text)
        body = normal(_body(text, head))
        deciding = (each for each in head.declared if each.name not in BESIDE)
        named = sorted((each.name, _said(each)) for each in deciding)
    except SqlError:
        return f"TABLE = {text!a}\n"
    return f"TABLE = {named!a}, {body!a}\n"


QUOTED = re.compile(r"""('(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"|`[^`]*`)""", re.DOTALL)
OF_ITEMS = frozenset(["rules", "expects", "skips", "references"])
BEGINS = re.compile(r"[A-Za-z_][\w.:]*\s*(?:\(|:\s|->)")
"""How an item begins that is none within another one: a call, a name before a colon, a column before an arrow."""


def _said(each: Declared) -> str:
    """Return what a declaration says: with one blank where it has several, but as it is within quotes.

    Its lines are joined as they always were, so that no certificate lapses, but where two of them could be one item as well.
    """
    parts = QUOTED.split(each.text)
    text = "".join(
        part if number % 2 else re.sub(r"\s+", " ", part) for number, part in enumerate(parts)
    ).strip()
    items = list(_listed(each.text)) if each.name in OF_ITEMS and "\n" in each.text else []
    if all(map(BEGINS.match, items[1:])):
        return text
    return "\n".join(_said(Declared("", item, each.line)) for item in items)


def _body(text: str, head: Head) -> str:
    return "\n".join(_lines(text)[head.ends :])


def _lines(text: str) -> list[str]:
    """Return the lines of a text; other marks by which Python divides lines are letters of a text in SQL."""
    lines = re.split(r"\r\n|\r|\n", text)
    return lines if lines[-1] else lines[:-1]


def load(file: Path, module: str, packed: str = "") -> Computed:
    """Return the table of a file.

    Args:
        file: The file.
        module: The name of its module; its last parts are those of the layer and of the table.
        packed: Its text, where the file is in an archive.

    Raises:
        DefinitionError: It does not declare one; the fields have the file and the line.
    """
    head: Head | None = None
    try:
        text = packed or file.read_text(encoding=ENCODING)
        head = head_of(text)
        return _table(file, module, text, head)
    except SqlError as error:
        raise _at(file, error.line, error.message, error.hint) from error
    except UnicodeDecodeError as error:
        raise _at(
            file, 1, f"it is no text in UTF-8: {error.reason}", "save it as UTF-8."
        ) from error
    except DefinitionError as error:
        if "line" in error.fields:
            raise
        more = {key: value for key, value in error.fields.items() if key != "file"}
        line = _line_of(error.message, head)
        raise _at(file, line, error.message, _in_head(error.hint), **more) from error


def _at(file: Path, line: int, message: str, hint: str, **more: object) -> DefinitionError:
    return DefinitionError(message, hint=hint, **{**more, "file": short(str(file)), "line": line})


def _in_head(hint: str) -> str:
    """Return a hint about a declaration in Python as one about a head."""
    return re.sub(r"\b(\w+)=\(…,\) to its TABLE", r"`-- \1: …` to its head", hint)


def _line_of(message: str, head: Head | None) -> int:
    """Return the line of the declaration that a message is about."""
    found = head.declared if head else ()
    for each in found:
        if re.search(rf"\b{each.name}\b\s*[=:]", message) or f" {each.name} " in message:
            return each.line
    return next((each.line for each in found if re.search(rf"\b{each.name}\b", message)), 1)


def _table(file: Path, module: str, text: str, head: Head) -> Computed:
    above, _, name = module.rpartition(".")
    package, _, layer = above.rpartition(".")
    values = _values(head)
    kind = _kind(Layer(layer), values.pop("kind", None))
    body = _body(text, head)
    if not body.strip():
        raise SqlError(
            "it has a head, and no SELECT", hint="write the SELECT below.", line=head.ends
        )
    written = Written(file=short(str(file)), line=head.ends + 1, is_own=True)
    fields_ = values.pop("fields", None)
    given: dict[str, Any] = {"name": name}
    if Layer(layer) is Layer.SILVER and kind is not Judged:
        given["layer"] = Layer.SILVER
    reads = values.pop("reads", None) or _reads_of(body, head)
    others = _Others(package, module)
    given["reads"] = tuple(others.find(each, reads.line) for each in _texts(reads.text))
    for field, each in values.items():
        _refuse_field_of_others(kind, each)
        given[field] = others.references(each) if field == "references" else _read(each)
    _refuse_missing_fields(kind, given, head)
    function = made(body, written, module, fields_.text if fields_ else None)
    table: Computed = kind(transform=function, **given)
    return table


def _values(head: Head) -> dict[str, Declared]:
    found: dict[str, Declared] = {}
    for each in head.declared:
        if not each.text:
            raise SqlError(
                f"{each.name} says nothing", hint="write a value behind the colon.", line=each.line
            )
        if each.name in found and each.name not in {"rules", "expects", "skips", "references"}:
            raise SqlError(
                f"{each.name} is declared twice, in line {found[each.name].line} as well",
                hint="leave one of the two.",
                line=each.line,
            )
        known = found.get(each.name)
        both = f"{known.text}\n{each.text}" if known else each.text
        found[each.name] = Declared(each.name, both, known.line if known else each.line)
    return found


def _kind(layer: Layer, declared: Declared | None) -> Any:  # noqa: ANN401  # one of the kinds
    if declared is None:
        raise SqlError(
            "its head does not say of which kind the table is",
            hint=f"write a line `-- kind: {OF_LAYER[layer][0]}` at the top; the kinds of {layer} are {', '.join(OF_LAYER[layer])} "
            "(infra/docs/sql.md says which is which).",
        )
    names = {each.lower(): each for each in OF_LAYER[layer]}
    if (known := names.get(declared.text.lower())) is None:
        near = get_close_matches(declared.text.lower(), names, n=1, cutoff=0.5)
        meant = f"does it mean {names[near[0]]}? " if near else ""
        raise SqlError(
            f"{declared.text} is no kind of a table of {layer}",
            hint=f"{meant}The kinds are {', '.join(OF_LAYER[layer])}.",
            line=declared.line,
        )
    return KINDS[known]


def _reads_of(body: str, head: Head) -> Declared:
    """Return what a file without `reads` reads, if its SELECT names each with its layer."""
    found = [each[1].strip() for each in NAMED.finditer(body)]
    if found and all("." in each for each in found):
        return Declared("reads", ", ".join(dict.fromkeys(found)), head.ends + 1)
    understood(body)
    raise SqlError(
        "its head does not say what it reads",
        hint="write a line `-- reads: silver.device_telemetry`, or name the tables with their layers: {silver.device_telemetry}.",
    )


def _refuse_field_of_others(kind: Any, each: Declared) -> None:  # noqa: ANN401  # as above
    known = [field.name for field in fields(kind)]
    if each.name not in known:
        has = [name for name in known if name in FIELDS]
        raise SqlError(
            f"{kind.__name__} has no {each.name}",
            hint=f"it may have {', '.join(has)}; infra/docs/table_fields.md says which kind of table has which field.",
            line=each.line,
        )


def _refuse_missing_fields(kind: Any, given: Mapping[str, object], head: Head) -> None:  # noqa: ANN401  # as above
    for field in fields(kind):
        is_needed = field.default is MISSING and field.default_factory is MISSING
        if is_needed and field.name not in given and field.name != "transform":
            line = next((each.line for each in head.declared if each.name == "kind"), 1)
            raise SqlError(
                f"{kind.__name__} needs {field.name}",
                hint=f"write a line `-- {field.name}: …` in the head; infra/docs/table_fields.md says what it is.",
                line=line,
            )


def _read(each: Declared) -> object:
    try:
        return READERS[each.name](each.text)
    except _Unread as error:
        raise SqlError(
            f"{each.name}: {each.text.splitlines()[0]} cannot be read",
            hint=f"write {error}.",
            line=each.line,
        ) from error


@dataclass(frozen=True, slots=True)
class _Others:
    """The other tables of the package."""

    package: str
    module: str

    def references(self, declared: Declared) -> tuple[tuple[str, Table, str], ...]:
        """Read ``device_id -> silver.devices.device_id``, one a line."""
        found = []
        for item in _listed(declared.text):
            said_ = re.fullmatch(r"(\w+)\s*(?:->|→|:)\s*(\w+\.\w+)\.(\w+)", item)
            if said_ is None:
                raise SqlError(
                    f"references: {item} cannot be read",
                    hint="write device_id -> silver.devices.device_id.",
                    line=declared.line,
                )
            found.append((said_[1], self.find(said_[2], declared.line), said_[3]))
        return tuple(found)

    def find(self, name: str, line: int) -> Any:  # noqa: ANN401  # a table of any kind
        """Return the table of a name.

        Raises:
            SqlError: There is none.
        """
        layer, _, bare = name.rpartition(".")
        if layer not in {*Layer} or not self._is_there(layer, bare):
            raise self._unknown(name, line)
        module = f"{self.package}.{layer}.{bare}"
        loaded = sys.modules.get(module)
        if loaded is not None and not hasattr(loaded, "TABLE"):
            raise SqlError(
                f"it reads {name}, which is read itself at this moment: tables read each other in a circle",
                hint="let one of them read a lower layer instead.",
                line=line,
            )
        table = getattr(importlib.import_module(module), "TABLE", None)
        if table is None:
            raise self._unknown(name, line)
        return table

    def _is_there(self, layer: str, name: str) -> bool:
        return name in self._names(layer)

    def _names(self, layer: str) -> list[str]:
        try:
            folders = importlib.import_module(f"{self.package}.{layer}").__path__
        except ModuleNotFoundError:
            return []
        in_sql = (file.stem for each in folders for file in Path(each).glob("*.sql"))
        names = {*in_sql, *(each.name for each in pkgutil.iter_modules(folders))}
        return sorted(each for each in names if each[0] not in "._")

    def _unknown(self, name: str, line: int) -> SqlError:
        known = [f"{layer}.{each}" for layer in Layer for each in self._names(layer)]
        bare = name.rpartition(".")[2]
        same = [each for each in known if each.rpartition(".")[2] == bare]
        near = same or get_close_matches(name, known, n=2, cutoff=0.6)
        meant = f"does it mean {' or '.join(near)}? " if near else ""
        return SqlError(
            f"it reads {name}, and there is no such table",
            hint=f"{meant}The tables are {', '.join(known)}.",
            line=line,
        )
