"""A contract of others as the draft of a silver table: its columns as fields, its promises and checks as rules on the stream.

What a check asks of a row becomes a rule; what it asks of a whole table, or in words of another tool, is a line with FILL IN.
"""

import math
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from strandline.core.kind import Layer
from strandline.core.parse import DOUBLE_DIGITS
from strandline.operate.drafts import scaffold
from strandline.operate.drafts.contract import FRESHNESS, SEVERITIES, days_of, ours_of
from strandline.operate.drafts.contract_file import Contract, read
from strandline.operate.drafts.draft import table_name
from strandline.operate.drafts.module_text import (
    call,
    free,
    imported,
    in_docstring,
    literal,
    plain,
    quoted,
    type_text,
)
from strandline.operate.drafts.sampled_traits import cannot_be_read, column_names, is_plain
from strandline.project import package
from strandline_quality.linear import Flavour, RefusedError, linear
from strandline_quality.rules import WORDS, OnFail, Rule, hazards

LOGICAL: Mapping[str, DataType] = {
    "string": StringType(),
    "integer": LongType(),
    "number": DoubleType(),
    "boolean": BooleanType(),
    "date": DateType(),
    "timestamp": TimestampType(),
}
PHYSICAL: Mapping[str, str] = {
    **dict.fromkeys(
        ("string", "text", "varchar", "char", "nvarchar", "uuid", "character varying"), "string"
    ),
    **dict.fromkeys(
        ("tinyint", "smallint", "int", "integer", "bigint", "long", "int64", "int32"), "integer"
    ),
    **dict.fromkeys(("float", "double", "real", "double precision", "float64"), "number"),
    **dict.fromkeys(("boolean", "bool"), "boolean"),
    "date": "date",
    **dict.fromkeys(
        ("timestamp", "timestamptz", "datetime", "timestamp_ntz", "timestamp_ltz"), "timestamp"
    ),
}
"""Types of engines, where nothing says the logical one."""
SECRET = frozenset(
    {"restricted", "confidential", "sensitive", "secret", "private", "pii", "personal"}
)
DECIMAL = re.compile(r"(?:decimal|numeric)\((\d{1,4}),\s*(\d{1,4})\)", re.IGNORECASE)
COUNT = re.compile(
    r"\s*select\s+count\(\*\)\s+from\s+\S+\s+where\s+(.+?)\s*;?\s*", re.IGNORECASE | re.DOTALL
)
PATTERN = re.compile(r"`([^`]+)` RLIKE '((?:\\.|[^'\\])*)'", re.DOTALL)
"""How a rule that was made by ``matches`` holds."""
NOT_OURS = re.compile(r"\bselect\b|\$\{|\{\w+\}", re.IGNORECASE)
MOMENT = "2026-11-20T08:15:30Z"
LONGEST = 1_000_000
"""Days that are kept at most."""
ON_WARN = "on_fail=OnFail.WARN"


@dataclass(slots=True)
class Drafted:
    """What a contract becomes.

    Args:
        name: The name of the table.
        fields: The fields of a payload.
        required: The columns that each row has.
        demanded: What a row without a value meets, where a rule of ours says it.
        key: The columns of its key.
        sensitive: The columns that are masked.
        rules: Its other rules, as they are written.
        left: Sentences about what is left to a person.
        values: A value of each field that keeps its rules.
        named: The names of its rules, in small letters.
    """

    name: str
    fields: StructType = field(default_factory=StructType)
    required: list[str] = field(default_factory=list)
    demanded: dict[str, tuple[str, ...]] = field(default_factory=dict)
    key: list[tuple[int, str]] = field(default_factory=list)
    sensitive: list[str] = field(default_factory=list)
    rules: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    values: dict[str, object] = field(default_factory=dict)
    named: set[str] = field(default_factory=set)

    @property
    def event_at(self) -> str:
        """Return the column with the event time: the first time that each row has, else the first."""
        times = [each.name for each in self.fields if isinstance(each.dataType, TimestampType)]
        return next((each for each in times if each in self.required), times[0] if times else "")

    def leave(self, sentence: str) -> None:
        """Leave something to a person, as a comment of the module; the names and texts in the sentence are those of others."""
        self.left.append(plain(sentence))

    def has(self, rule: str) -> bool:
        """Return whether there is a rule of a name, which is then said; there is one from now on."""
        if rule.lower() in self.named:
            self.leave(f"a second check is {rule}: one rule has the name, so write both as one")
            return True
        self.named.add(rule.lower())
        return False


def write(file: Path, reads: str, takes: str, name: str | None) -> Iterator[Path]:
    """Write a silver table for what a contract promises, and yield the path of each file within the project.

    Args:
        file: The contract.
        reads: The bronze table with its records.
        takes: The kind that it takes, where the records are of several.
        name: The name of the table; that of the contract's when None.

    Raises:
        DefinitionError: It is no contract, or a file is there.
    """
    found = read(file)
    source = scaffold.bronze(reads, takes)
    schema = found["schema"][0]
    own = name or table_name(str(schema.get("name", "")))
    scaffold.refuse_files(Layer.SILVER, own)
    made = drafted(own, schema, found["schema"][1:])
    module = module_of(made, found, source.name, takes)
    yield from scaffold.write_texts(Layer.SILVER, own, module, _test(made))


def drafted(name: str, schema: Contract, others: Sequence[Contract] = ()) -> Drafted:
    """Return what the table of a contract becomes; of others in it their names are said."""
    made = Drafted(name)
    for each in others:
        made.leave(
            f"the contract has a table {plain(each.get('name')) or 'without a name'} as well, of which nothing is here"
        )
    # A check of a column may ask for others.
    columns = [each for each in schema.get("properties") or [] if _add_column(made, each)]
    for each in columns:
        _add_asked(made, each["name"], each)
    for check in schema.get("quality") or []:
        _add_check(made, "", check)
    for each in schema.get("relationships") or []:
        made.leave(
            f"the reference {_linked(each, 'from')} to {_linked(each, 'to')} is `references` of the table"
        )
    return made


def _add_column(made: Drafted, each: Contract) -> bool:
    """Add a column, and return whether it is one of the draft."""
    name = str(each.get("name", ""))
    if cannot_be_read(name) or not is_plain(name):
        made.leave(f"the column {quoted(name)} has a name that no column has here")
        return False
    if name.lower() in {known.lower() for known in made.fields.fieldNames()}:
        made.leave(f"the column {quoted(name)} is there twice")
        return False
    kind = _kind(made, name, each)
    if kind is None:
        made.leave(
            f"the column {quoted(name)} is {each.get('logicalType') or each.get('physicalType')}, of unknown fields"
        )
        return False
    made.fields = made.fields.add(name, kind)
    made.values[name] = _value(kind)
    if each.get("primaryKey"):
        made.key.append((int(each.get("primaryKeyPosition") or 1), name))
    if each.get("required") or each.get("primaryKey"):
        made.required.append(name)
    if str(each.get("classification", "")).lower() in SECRET:
        made.sensitive.append(name)
    return True


def _add_asked(made: Drafted, name: str, each: Contract) -> None:
    """Add what is asked of a column."""
    _add_options(made, name, each.get("logicalTypeOptions") or {})
    for check in each.get("quality") or []:
        _add_check(made, name, check)
    for link in each.get("relationships") or []:
        made.leave(f"the reference of {name} to {_linked(link, 'to')} is `references` of the table")


def _linked(link: Contract, side: str) -> str:
    """Return one side of a reference, which may be of several columns."""
    found = link.get(side)
    return ", ".join(map(plain, found[:9])) if isinstance(found, list) else plain(found)


def _kind(made: Drafted, name: str, each: Contract) -> DataType | None:
    """Return the type of a column; None where nothing says which fields it has. What is not read as it is said is left to a person."""
    physical = str(each.get("physicalType") or "")
    logical = str(each.get("logicalType") or _logical(physical))
    digits = DECIMAL.fullmatch(physical)
    if digits and int(digits[2]) <= int(digits[1]) <= DOUBLE_DIGITS:
        return DecimalType(int(digits[1]), int(digits[2]))
    if logical == "array":
        item = _kind(made, f"{name}[]", each.get("items") or {"logicalType": "string"})
        return ArrayType(item) if item else None
    if logical == "object":
        inner = [
            (own, _kind(made, f"{name}.{own}", one))
            for one in each.get("properties") or []
            if (own := str(one.get("name")))
        ]
        fields = StructType([StructField(name, kind) for name, kind in inner if kind])
        return fields if fields.fields and len(column_names(fields.fieldNames())) else None
    if digits:
        made.leave(
            f"the column {quoted(name)} is {physical}, which no number of JSON has exactly: it is read as one that is rounded"
        )
        return DoubleType()
    if logical not in LOGICAL:
        said = logical or physical
        made.leave(f"the type of {quoted(name)} is {said or 'not said'}: it is read as a text")
    return LOGICAL.get(logical, StringType())


def _logical(physical: str) -> str:
    """Return the logical type of a type of an engine; nothing where none is known."""
    return PHYSICAL.get(physical.lower().partition("(")[0].strip(), "")


def _value(kind: DataType) -> object:  # noqa: PLR0911  # a type a line
    match kind:
        case StructType():
            return {each.name: _value(each.dataType) for each in kind}
        case ArrayType():
            return [_value(kind.elementType)]
        case TimestampType():
            return MOMENT
        case DateType():
            return MOMENT[:10]
        case BooleanType():
            return True
        case StringType():
            return "x1"
        case _:
            return 1


def _add_options(made: Drafted, name: str, options: Contract) -> None:
    low, high = _number(options.get("minimum")), _number(options.get("maximum"))
    for bound, value in (("minimum", low), ("maximum", high)):
        if bound in options and value is None:
            made.leave(f"the {bound} of {name}, {plain(options[bound])}, is no number")
    if low is not None and high is not None:
        made.rules.append(
            f"between({quoted(name)}, {low}, {high}, max_failed=MAX_FAILED, null_ok=True)"
        )
        made.values[name] = low
    elif low is not None:
        _add_rule(made, f"too_small:{name}", f"`{name}` >= {low}", options)
        made.values[name] = low
    elif high is not None:
        _add_rule(made, f"too_large:{name}", f"`{name}` <= {high}", options)
        made.values[name] = high
    if isinstance(options.get("pattern"), str):
        _add_pattern(made, name, options["pattern"], {})
    for bound, sign in (("minLength", ">="), ("maxLength", "<=")):
        if _number(options.get(bound)) is not None:
            _add_rule(made, f"{bound}:{name}", f"length(`{name}`) {sign} {options[bound]}", {})


def _number(value: object) -> int | float | None:
    """Return a number with which another is compared; infinity is no bound."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return value


def _add_check(made: Drafted, column: str, check: Contract) -> None:
    """Add a check as a rule, or as a sentence where it asks nothing of a row."""
    metric = check.get("metric") or check.get("rule")
    arguments = check.get("arguments") or {}
    # Of a share that is allowed no rule of a row knows.
    is_invalid = metric == "invalidValues" and column and check.get("mustBe") == 0
    if ours := ours_of(check):
        _add_ours(made, check, ours)
    elif metric == "nullValues" and column and check.get("mustBe") == 0:
        made.required += [] if column in made.required else [column]
    elif is_invalid and (values := _texts(arguments)):
        may_lack = None in arguments["validValues"] or None
        _add_values(made, column, values, check, null_ok=may_lack)
    elif is_invalid and isinstance(arguments.get("pattern"), str):
        _add_pattern(made, column, arguments["pattern"], check)
    elif metric == "duplicateValues":
        made.leave(
            "that no key is there twice follows from `key`: copies are counted, and are no rows"
        )
    elif check.get("type") == "sql" and (condition := _condition(check, column)):
        name = _rule_name(check, column)
        if why_not := _why_not(condition, made.fields.fieldNames()):
            made.leave(f"the check {name} asks {plain(condition)}, which has {why_not}")
        else:
            _add_rule(made, name, f"NOT ({condition})", check)
    else:
        what = (
            check.get("name") or check.get("description") or metric or check.get("query") or "one"
        )
        made.leave(f"the check {plain(what)} asks nothing that a rule of a row can say")


def _texts(arguments: Contract) -> list[str]:
    """Return the values that a check lists, as texts; nothing is none of them."""
    return [str(each) for each in arguments.get("validValues") or [] if each is not None]


def _add_ours(made: Drafted, check: Contract, ours: Contract) -> None:
    name, holds = str(check.get("name", "")), str(ours.get("holds", ""))
    kind, _, column = name.partition(":")
    if kind == "missing" and column in made.fields.fieldNames() and ours.get("onFail") != "warn":
        made.required += [] if column in made.required else [column]
        made.demanded[column] = tuple(_how(check))
        return
    if kind == "no_match" and (found := PATTERN.fullmatch(holds)):
        pattern = re.sub(r"\\(.)", r"\1", found[2], flags=re.DOTALL)
        _add_pattern(made, column, pattern, check, null_ok=bool(ours.get("nullOk")))
        return
    if kind == "not_listed" and (values := _texts(check.get("arguments") or {})):
        _add_values(made, column, values, check, null_ok=bool(ours.get("nullOk")))
        return
    _add_rule(made, name, holds, check, null_ok=bool(ours.get("nullOk")))


def _condition(check: Contract, column: str) -> str:
    """Return what a query counts, where it counts rows of the one table by a condition on their columns; else nothing."""
    if check.get("mustBe") != 0:
        return ""
    text = (
        str(check.get("query", ""))
        .replace("${column}", f"`{column}`")
        .replace("{property}", f"`{column}`")
    )
    found = COUNT.fullmatch(
        text.replace("${table}", "rows").replace("{object}", "rows").replace("{table}", "rows")
    )
    if found is None or NOT_OURS.search(found[1]) or hazards(found[1]):
        return ""
    return found[1]


KEYWORDS = frozenset(
    [
        "and",
        "or",
        "not",
        "in",
        "is",
        "null",
        "like",
        "ilike",
        "between",
        "true",
        "false",
        "case",
        "when",
        "then",
        "else",
        "end",
        "escape",
    ]
)
CALLS = frozenset(
    [
        "and",
        "or",
        "not",
        "in",
        "when",
        "then",
        "else",
        "between",
        "like",
        "length",
        "char_length",
        "lower",
        "upper",
        "trim",
        "ltrim",
        "rtrim",
        "coalesce",
        "nullif",
        "ifnull",
        "nvl",
        "isnull",
        "isnotnull",
        "year",
        "month",
        "day",
        "substring",
        "substr",
        "left",
        "right",
        "concat",
        "startswith",
        "endswith",
        "contains",
        "greatest",
        "least",
    ]
)
"""What a condition of others may call: others run Java's expressions, which a text can make expensive, or any code that is there."""
DANGER = frozenset(["reflect", "java_method", "try_reflect"])


def _why_not(condition: str, columns: Collection[str] | None) -> str:
    """Return what a condition has that is no condition on one row; nothing where there is none.

    Args:
        condition: It.
        columns: The columns of a row, and then it may call a few functions alone; None of a rule that was exported.
    """
    words = WORDS.findall(condition)
    depth, known = 0, {each.lower() for each in columns or ()}
    for before, word, after in zip(["", *words], words, [*words[1:], ""], strict=False):
        depth += (word == "(") - (word == ")")
        if depth < 0:
            break
        if word == ";":
            return "a second statement"
        if after == "(" and word.lower() in DANGER:
            return plain(word)
        if columns is not None and (odd := _odd(before, word, after, known)):
            return odd
    return "brackets that do not match" if depth else ""


def _odd(before: str, word: str, after: str, columns: Collection[str]) -> str:
    """Return what a word of a condition is, where it is neither a column nor of the few words that are known."""
    low = word.lower()
    if word.startswith('"'):
        return f"{plain(word)}, a text here and a column elsewhere"
    if before == "." or not re.match(r"[^\W\d]|`", word) or low.strip("`") in columns:
        return ""
    if after == "(":
        return "" if low in CALLS else f"a call of {plain(word)}"
    return "" if low in KEYWORDS else f"{plain(word)}, which is no column"


def _rule_name(check: Contract, column: str) -> str:
    text = str(check.get("name") or f"check_of_{column or 'a_row'}")
    return re.sub(r"[^\w:]+", "_", text).strip("_") or "check"


def _how(check: Contract) -> list[str]:
    """Return what happens to a row that breaks a rule, and to its batch: as ours says it, else by the severity of others."""
    ours = ours_of(check)
    severity = str(check.get("severity", "error")).lower()
    if not ours:
        is_severe = severity in {"error", "critical", "high", "blocker"}
        return ["max_failed=MAX_FAILED" if is_severe else ON_WARN]
    known = {each.value: each for each in OnFail}
    on_fail = known.get(str(ours.get("onFail")), OnFail.QUARANTINE)
    most = _number(ours.get("maxFailed"))
    usual = Rule(name="usual", holds="true", on_fail=on_fail, max_failed=most).weight
    weight = next((each for each, text in SEVERITIES.items() if text == severity), usual)
    return [
        *([f"on_fail=OnFail.{on_fail.name}"] if on_fail is not OnFail.QUARANTINE else []),
        *([f"severity=Severity.{weight.name}"] if weight is not usual else []),
        *([f"max_failed={most}"] if most is not None else []),
    ]


def _add_rule(
    made: Drafted, name: str, holds: str, check: Contract, *, null_ok: bool = True
) -> None:
    if hazards(holds):
        made.leave(f"the check {name} asks {plain(holds)}, which can throw on a row")
        return
    if why_not := _why_not(holds, None):
        made.leave(f"the check {name} asks {plain(holds)}, which has {why_not}")
        return
    words = [
        f"name={quoted(free(name, made.named))}",
        f"holds={quoted(holds)}",
        *(["null_ok=True"] if null_ok else []),
    ]
    if about := check.get("description"):
        words.append(f"about={quoted(plain(about))}")
    words += _how(check)
    made.rules.append(call("Rule", words, "    ", "", margin=4).strip())


def _add_values(
    made: Drafted,
    name: str,
    values: Sequence[str],
    check: Contract,
    *,
    null_ok: bool | None = None,
) -> None:
    if made.has(f"not_listed:{name}"):
        return
    listed = f"[{', '.join(map(quoted, values))}]"
    may_lack = name not in made.required if null_ok is None else null_ok
    more = ["null_ok=True"] if may_lack else []
    made.rules.append(
        call("one_of", [quoted(name), listed, *more, *_how(check)], "    ", "", margin=4).strip()
    )
    if isinstance(made.values.get(name), str):
        made.values[name] = values[0]


def _add_pattern(
    made: Drafted, name: str, pattern: str, check: Contract, *, null_ok: bool = True
) -> None:
    try:
        linear(pattern, flavour=Flavour.JAVA)
    except RefusedError as error:
        made.leave(f"the pattern {quoted(pattern)} of {name} is not run: {error}")
        return
    if made.has(f"no_match:{name}"):
        return
    words = [quoted(name), quoted(pattern), *(["null_ok=True"] if null_ok else []), *_how(check)]
    made.rules.append(call("matches", words, "    ", "", margin=4).strip())
    made.values[name] = None


# What is written.


def module_of(made: Drafted, found: Contract, source: str, takes: str) -> str:
    """Return the module of the table, with a line for each thing that is left to a person."""
    owner = _owner(found)
    arrival = not made.event_at
    own = (
        {"CARRIED", "Judged"}
        | ({"required"} if made.required else set())
        | ({"PLACE"} if not made.key else set())
        | ({"Fresh"} if _fresh(found).startswith("Fresh(") else set())
    )
    used = " ".join([*made.rules, *(word for how in made.demanded.values() for word in how)])
    own |= {
        each
        for each in ("Rule", "one_of", "matches", "between", "OnFail", "Severity")
        if re.search(rf"\b{each}\b", used)
    }
    kinds = {type(each).__name__ for each in _kinds(made.fields)} | {"StructField", "StructType"}
    functions = "from pyspark.sql import functions as F\n" if arrival else ""
    purpose = (
        (found.get("description") or {}).get("purpose")
        if isinstance(found.get("description"), dict)
        else ""
    )
    lines = "".join(
        f"        StructField({quoted(each.name)}, {type_text(each.dataType, None, 2)}),\n"
        for each in made.fields
    )
    left = "".join(f"# FILL IN: {each}.\n" for each in made.left)
    selected = (
        'rows = topic.parse(events, FIELDS).select(*CARRIED, *FIELDS.fieldNames())\n    return rows.withColumn("arrived_at", F.col("_arrived_at"))'
        if arrival
        else "return topic.parse(events, FIELDS).select(*CARRIED, *FIELDS.fieldNames())"
    )
    return (
        f'"""{_sentence(purpose) or "FILL IN: what a row is."}\n\n'
        f"Grain: one row an event, by {', '.join(name for _, name in sorted(made.key)) or 'its place in Kafka'}.\n"
        f"Reads: bronze.{source}. Read by: FILL IN.\n"
        "Late data: up to an hour; later rows, and rows of clocks that run ahead, go to the quarantine.\n"
        f'Drafted from the contract {_sentence(str(found.get("id", "")))}, version {_sentence(str(found.get("version", "")))}\n"""\n\n'
        f"from pyspark.sql import DataFrame\n{functions}"
        f"{imported('pyspark.sql.types', kinds)}{imported('strandline', own)}\n"
        f"from {package()}.bronze import {source} as bronze\n\n"
        f"MAX_FAILED = 0.2\n\n{left}"
        f"FIELDS = StructType(\n    [\n{lines}    ]\n)\n\n\n"
        f"def {made.name}(events: DataFrame) -> DataFrame:\n"
        f'    """Read each event\'s payload."""\n    topic = bronze.TABLE.topics[0]\n    {selected}\n\n\n'
        f"{_table(made, takes, owner, _keeps(found), _fresh(found))}"
    )


def _sentence(text: object) -> str:
    shown = in_docstring(text or "")
    return shown if not shown or shown.endswith(".") else f"{shown}."


def _owner(found: Contract) -> str:
    team = found.get("team")
    name = team.get("name") if isinstance(team, Mapping) else None
    return plain(name) or plain(found.get("domain"))


def _keeps(found: Contract) -> str:
    for each in found.get("slaProperties") or []:
        days = days_of(each)
        is_whole = days is not None and days == int(days) and 0 < days < LONGEST
        if each.get("property") == "retention" and days and is_whole:
            return f"{int(days)} days"
    return ""


def _fresh(found: Contract) -> str:
    """Return how a promised age is declared; nothing where none is promised, or in a unit that is none of time."""
    for each in found.get("slaProperties") or []:
        days = days_of(each) if each.get("property") == FRESHNESS else None
        if seconds := round((days or 0) * 86_400):
            length = quoted(_in_words(seconds))
            by_arrival = str(each.get("element", "")).endswith("._arrived_at")
            return f'Fresh({length}, by="arrival")' if by_arrival else length
    return ""


def _in_words(seconds: float) -> str:
    for unit, length in (("days", 86_400), ("hours", 3_600), ("minutes", 60)):
        if not seconds % length:
            return f"{seconds / length:g} {unit}"
    return f"{seconds:g} seconds"


def _kinds(kind: DataType) -> Iterator[DataType]:
    yield kind
    inner: Sequence[Any] = [each.dataType for each in kind] if isinstance(kind, StructType) else []
    for each in [*inner, *([kind.elementType] if isinstance(kind, ArrayType) else [])]:
        yield from _kinds(each)


def _table(made: Drafted, takes: str, owner: str, keeps: str, fresh: str) -> str:
    key = [name for _, name in sorted(made.key)]
    lines = [
        f"name={quoted(made.name)},",
        "reads=(bronze.TABLE,),",
        f"transform={made.name},",
        f"key=({', '.join(map(quoted, key))}{',' if len(key) == 1 else ''}),"
        if key
        else "key=PLACE,",
        f"event_at={quoted(made.event_at or 'arrived_at')},",
        *([f"takes=({quoted(takes)},),"] if takes else []),
        *([f"owner={quoted(owner)},"] if owner else []),
        *([f"keeps={quoted(keeps)},"] if keeps else []),
        *([f"fresh={fresh},"] if fresh else []),
    ]
    if made.sensitive:
        comma = "," if len(made.sensitive) == 1 else ""
        lines.append(f"sensitive=({', '.join(map(quoted, made.sensitive))}{comma}),")
    rules = [f"    {each}," for each in made.rules]
    by_how: dict[tuple[str, ...], list[str]] = {}
    for name in made.required:
        by_how.setdefault(made.demanded.get(name, ("max_failed=MAX_FAILED",)), []).append(name)
    demanded = (
        call("*required", [*map(quoted, names), *how], "    ", margin=4)
        for how, names in by_how.items()
    )
    rules = [*demanded, *rules]
    if rules:
        lines += ["rules=(", *rules, "),"]
    inner = "".join(f"    {line}\n" for each in lines for line in each.split("\n"))
    return f"TABLE = Judged(\n{inner})\n"


def _test(made: Drafted) -> str:
    values = {name: value for name, value in made.values.items() if value is not None}
    table = f"from {package()}.silver.{made.name} import TABLE\n"
    return (
        f'"""silver.{made.name} has the columns of its contract."""\n\n'
        "import json\nfrom datetime import UTC, datetime\n\n"
        "from pyspark.sql import SparkSession\nfrom strandline import judge\n\n"
        f"{table}\nCLEAN = {literal(values, 0)}\n\n\n"
        "def test_a_payload_of_the_contract_can_be_read(spark: SparkSession) -> None:\n"
        '    """FILL IN: with values that keep each rule its reasons are None."""\n'
        "    arrived_at = datetime(2026, 11, 20, 9, tzinfo=UTC)\n\n"
        "    (row,) = judge(spark, TABLE, json.dumps(CLEAN).encode(), arrived_at=arrived_at)\n\n"
        '    assert "wrong_type" not in (row["reasons"] or [])\n'
        '    assert "malformed" not in (row["reasons"] or [])\n'
    )
