"""Contracts of tables in the Open Data Contract Standard: written from the declaration, and compared with what was released.

A contract is derived and never kept beside the declaration by hand; what is kept is what was released to readers
(``contracts/TABLE.odcs.yaml``). A change is breaking where a reader who relied on the released contract may fail or be wrong: a column
that goes or gets another type, a value that may be missing, a promise that is less. Whatever is added is harmless.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias

import yaml
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegralType,
    MapType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)
from strandline import catalog

from strandline.core.errors import DefinitionError
from strandline.core.kind import length_of
from strandline.core.table import Ingested, Judged, Table
from strandline.core.topic import PLACE
from strandline.engine.flow.function_plan import declared_columns
from strandline.operate.drafts import scaffold
from strandline.operate.drafts.contract_file import Contract, read
from strandline.operate.drafts.module_text import plain
from strandline.operate.session import trial_spark
from strandline.project import package
from strandline_quality.rules import OnFail, Rule, Severity

VERSION = "v3.1.0"
"""Of the standard."""

FOLDER, SUFFIX = "contracts", ".odcs.yaml"
OURS = "strandlineRule"
"""The custom property of a check by which our own rule is had back from it."""

SEVERITIES = {Severity.CRITICAL: "error", Severity.WARNING: "warning", Severity.INFO: "info"}
ORDER = ("info", "warning", "error")
RESTRICTED = "restricted"
FRESHNESS = "freshness"
"""The promise of an age; the standard's own list has ``latency`` alone, and takes other names."""
COUNTED = "SELECT COUNT(*) FROM {object} WHERE NOT "
"""Begins the query of a check: the rows that break a rule."""
ONE_OF = re.compile(r"`([^`]+)` IN \((.*)\)")
TEXT = re.compile(r"'((?:\\.|[^'\\])*)'")


def contracts(tables: Sequence[Table]) -> Iterator[Contract]:
    """Yield the contract of each table; their columns are those that Spark finds in their functions."""
    with TemporaryDirectory() as folder, trial_spark(Path(folder)) as spark:
        for table in tables:
            yield contract(table, declared_columns(spark, table))


def contract(table: Table, columns: StructType) -> dict[str, Any]:
    """Return the contract of a table.

    Args:
        table: The table.
        columns: Its columns with their types.
    """
    purpose, grain = _described(table)
    about = {"name": table.name, "physicalName": table.id, "logicalType": "object"}
    schema: dict[str, Any] = {**about, "physicalType": "table", "description": purpose}
    if grain:
        schema["dataGranularityDescription"] = grain
    schema["properties"] = [
        _property(each, table) for each in columns if _is_shown(each.name, table)
    ]
    if checks := [*_key_check(table), *(_check(each) for each in table.rules if not _column(each))]:
        schema["quality"] = checks
    made: dict[str, Any] = {
        "apiVersion": VERSION,
        "kind": "DataContract",
        "id": f"{package()}.{table.id}".replace(".", "-"),
        "name": table.id,
        "version": "1.0.0",
        "status": "active",
        "description": {"purpose": purpose},
        "schema": [schema],
    }
    if table.owner:
        made["team"] = {"name": table.owner}
    if promises := list(_promises(table)):
        made["slaProperties"] = promises
    if isinstance(table, Judged):
        # Later events are held, and are no rows until they are replayed.
        late = {"property": "lateness", "value": f"{int(table.lateness.late.total_seconds())} s"}
        made["customProperties"] = [late]
    return made


def _described(table: Table) -> tuple[str, str]:
    """Return the first sentence of a table's docstring, and its grain."""
    lines = " ".join(table.summary.split("\n\n")[0].split())
    grain = re.search(r"^Grain: (.+)$", table.summary, re.MULTILINE)
    return lines, grain[1] if grain else ""


def _is_shown(name: str, table: Table) -> bool:
    """Return whether a column is the table's own: those of the engine are no promise, except where they are the key."""
    return not name.startswith("_") or name in table.row_key or isinstance(table, Ingested)


def _keys(table: Table) -> tuple[str, ...]:
    return PLACE if isinstance(table, Ingested) else table.row_key


def _property(each: StructField, table: Table) -> dict[str, Any]:
    """Return a column with what is promised of it."""
    keys, null_ok = _keys(table), getattr(table, "key_null_ok", ())
    made = {"name": each.name, **_type(each.dataType)}
    demanded = [rule for rule in table.rules if rule.name == f"missing:{each.name}"]
    is_held = any(rule.on_fail is not OnFail.WARN and not rule.null_ok for rule in demanded)
    if is_held or (each.name in keys and each.name not in null_ok):
        made["required"] = True
    if each.name in keys:
        made |= {"primaryKey": True, "primaryKeyPosition": keys.index(each.name) + 1}
    if each.name in table.secret:
        made["classification"] = RESTRICTED
    checks = [_check(rule) for rule in table.rules if _column(rule) == each.name]
    if checks:
        made["quality"] = checks
    references = getattr(table, "references", ())
    if others := [
        f"{other.name}.{column}" for own, other, column in references if own == each.name
    ]:
        made["relationships"] = [{"to": other} for other in others]
    return made


def _type(kind: DataType) -> dict[str, Any]:
    made: dict[str, Any] = {"logicalType": _logical(kind), "physicalType": kind.simpleString()}
    match kind:
        case StructType():
            made["properties"] = [{"name": each.name, **_type(each.dataType)} for each in kind]
        case ArrayType():
            made["items"] = _type(kind.elementType)
    return made


LOGICAL: Sequence[tuple[tuple[type[DataType], ...], str]] = (
    ((BooleanType,), "boolean"),
    ((IntegralType,), "integer"),
    ((DecimalType, DoubleType, FloatType), "number"),
    ((TimestampType, TimestampNTZType), "timestamp"),
    ((DateType,), "date"),
    ((ArrayType,), "array"),
    ((StructType, MapType), "object"),
)


def _logical(kind: DataType) -> str:
    return next((name for kinds, name in LOGICAL if isinstance(kind, kinds)), "string")


def _column(rule: Rule) -> str:
    """Return the one column that a rule is about, where its name says so."""
    kind, _, column = rule.name.partition(":")
    is_ours = kind in {"missing", "out_of_range", "not_listed", "no_match"}
    return column if is_ours and f"`{column}`" in rule.holds else ""


def _check(rule: Rule) -> dict[str, Any]:
    """Return a rule as a check: one of the standard's own where there is one, else a query for the rows that break it."""
    made: dict[str, Any] = {"name": rule.name, "severity": SEVERITIES[rule.weight]}
    if rule.about:
        made["description"] = rule.about
    kind = rule.name.partition(":")[0]
    made["dimension"] = "completeness" if kind == "missing" else "conformity"
    listed = ONE_OF.fullmatch(rule.holds)
    if kind == "missing":
        made |= {"type": "library", "metric": "nullValues"}
    elif kind == "not_listed" and listed:
        values = [
            each.replace("\\'", "'").replace("\\\\", "\\") for each in TEXT.findall(listed[2])
        ]
        made |= {"type": "library", "metric": "invalidValues", "arguments": {"validValues": values}}
    else:
        made |= {"type": "sql", "query": COUNTED + rule.predicate}
    if rule.on_fail is OnFail.WARN and rule.allowed:
        made |= {"mustBeLessOrEqualTo": rule.allowed * 100, "unit": "percent"}
    else:
        made |= {"mustBe": 0, "unit": "rows"}
    ours = {"holds": rule.holds, "nullOk": rule.null_ok, "onFail": rule.on_fail.value}
    if rule.max_failed is not None:
        ours["maxFailed"] = rule.max_failed
    made["customProperties"] = [{"property": OURS, "value": ours}]
    return made


def _key_check(table: Table) -> Iterator[dict[str, Any]]:
    """Yield the check that each key is there once; of records a place is one by itself."""
    if isinstance(table, Ingested) or table.key == PLACE:
        return
    arguments = {"properties": list(table.row_key)}
    yield {
        "name": "one row a key",
        "type": "library",
        "metric": "duplicateValues",
        "arguments": arguments,
        "mustBe": 0,
        "dimension": "uniqueness",
        "severity": "error",
    }


def _promises(table: Table) -> Iterator[dict[str, Any]]:
    element = f"{table.name}.{table.event_at or '_arrived_at'}"
    if table.keeps:
        days = length_of(table.keeps).total_seconds() / 86_400
        value = int(days) if days == int(days) else days
        yield {"property": "retention", "value": value, "unit": "d", "element": element}
    if (promise := table.promise) is not None:
        column = table.event_at if promise.by == "event" else "_arrived_at"
        made = {"property": FRESHNESS, **in_units(promise.length)}
        yield {**made, "element": f"{table.name}.{column}", "description": f"by {promise.by}"}


def in_units(length: timedelta) -> dict[str, Any]:
    """Return a length in the largest unit of which it has a whole number, and below a minute as ISO 8601 has it.

    Those are the units that other tools know.

    >>> in_units(timedelta(minutes=90)), in_units(timedelta(hours=48)), in_units(timedelta(seconds=90))
    ({'value': 90, 'unit': 'm'}, {'value': 2, 'unit': 'd'}, {'value': 'PT90S'})
    >>> in_units(timedelta(seconds=1_000_001)), in_units(timedelta(milliseconds=1_500))
    ({'value': 'PT1000001S'}, {'value': 'PT1.5S'})
    """
    for unit, seconds in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if not length % timedelta(seconds=seconds):
            return {"value": length // timedelta(seconds=seconds), "unit": unit}
    text = f"{length.total_seconds():f}".rstrip("0").rstrip(".")
    return {"value": f"PT{text}S"}


# Files.


def text_of(made: Contract) -> str:
    """Return a contract as YAML, its fields in the order in which they were made."""
    text: str = yaml.safe_dump(
        dict(made), sort_keys=False, allow_unicode=True, default_flow_style=False, width=120
    )
    return text


def released(table: Table) -> Path:
    """Return the file with the contract that was released of a table."""
    return scaffold.root() / FOLDER / f"{table.id}{SUFFIX}"


def export(name: str, to: Path | None, *, release: bool) -> tuple[str, Path | None]:
    """Return the contract of a table, and the file into which it was written.

    Raises:
        DefinitionError: There is no such table, or the file cannot be written.
    """
    table = catalog.find(name)
    (made,) = contracts([table])
    text = text_of(made)
    file = released(table) if release else to
    if file is not None:
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        except OSError as error:
            raise DefinitionError(
                f"{file} cannot be written: {error.strerror}", hint="name another file."
            ) from error
    return text, file


# What changed.


@dataclass(frozen=True, slots=True)
class Change:
    """A difference between a contract that was released and today's.

    Args:
        table: The table.
        says: It in a sentence.
        is_breaking: Whether a reader may fail by it.
    """

    table: str
    says: str
    is_breaking: bool


def differences(table: str, before: Contract, now: Contract) -> list[Change]:
    """Return what changed from one contract of a table to another."""
    was, is_now = before["schema"][0], now["schema"][0]
    found = [
        *_of_properties("", was.get("properties", []), is_now.get("properties", [])),
        *_of_checks("the table", was.get("quality", []), is_now.get("quality", [])),
        *_of_promises(before.get("slaProperties", []), now.get("slaProperties", [])),
    ]
    if before.get("team") != now.get("team"):
        found.append(("it has another owner", False))
    return [Change(table, says, is_breaking) for says, is_breaking in found]


Found: TypeAlias = tuple[str, bool]


def _of_properties(
    within: str, before: Sequence[Contract], now: Sequence[Contract]
) -> Iterator[Found]:
    was, is_now = ({each["name"]: each for each in side} for side in (before, now))
    for name, each in was.items():
        if name not in is_now:
            yield f"column {within}{name} is gone", True
        else:
            yield from _of_property(f"{within}{name}", each, is_now[name])
    yield from ((f"column {within}{name} is new", False) for name in is_now if name not in was)


def _of_property(name: str, was: Contract, now: Contract) -> Iterator[Found]:
    kinds = was.get("physicalType"), now.get("physicalType")
    if "properties" in was and "properties" in now:
        yield from _of_properties(f"{name}.", was["properties"], now["properties"])
    elif "items" in was and "items" in now:
        yield from _of_property(f"{name}[]", was["items"], now["items"])
    elif kinds[0] != kinds[1]:
        yield f"column {name} was {kinds[0]} and is {kinds[1]}", not is_wider(*map(str, kinds))
    if bool(was.get("required")) != bool(now.get("required")):
        is_loose = bool(was.get("required"))
        yield f"column {name} {'may' if is_loose else 'can no more'} be NULL", is_loose
    if was.get("primaryKeyPosition") != now.get("primaryKeyPosition"):
        yield f"column {name} is another part of the key, or none", True
    if was.get("classification") != now.get("classification"):
        is_hidden = now.get("classification") == RESTRICTED
        yield f"column {name} is {'masked' if is_hidden else 'masked no more'}", is_hidden
    links = [{str(each.get("to")) for each in side.get("relationships", [])} for side in (was, now)]
    yield from ((f"column {name} refers to {each} no more", True) for each in links[0] - links[1])
    yield from ((f"column {name} refers to {each}", False) for each in links[1] - links[0])
    yield from _of_checks(f"column {name}", was.get("quality", []), now.get("quality", []))


INTEGERS = ("tinyint", "smallint", "int", "bigint")
DECIMAL = re.compile(r"decimal\((\d{1,4}),(\d{1,4})\)")


def is_wider(before: str, now: str) -> bool:
    """Return whether each value of a type is one of another, of the same kind.

    >>> is_wider("int", "bigint"), is_wider("bigint", "int"), is_wider("decimal(10,2)", "decimal(12,2)")
    (True, False, True)
    >>> is_wider("map<string,struct<a:int>>", "map<string,struct<a:int,b:string>>")
    True
    """
    if before in INTEGERS and now in INTEGERS:
        return INTEGERS.index(before) <= INTEGERS.index(now)
    if (before, now) == ("float", "double"):
        return True
    if (inner := _within(before)) and (others := _within(now)):
        return all(name in others and is_wider(kind, others[name]) for name, kind in inner.items())
    was, is_now = DECIMAL.fullmatch(before), DECIMAL.fullmatch(now)
    if not was or not is_now:
        return before == now
    (digits, scale), (more, wider) = map(int, was.groups()), map(int, is_now.groups())
    return wider >= scale and more - wider >= digits - scale


def _within(kind: str) -> dict[str, str]:
    """Return the types within a type by their names; nothing of one that is plain."""
    name, _, rest = kind.partition("<")
    if not rest.endswith(">"):
        return {}
    parts, depth = [""], 0
    for sign in rest[:-1]:
        depth += (sign in "<(") - (sign in ">)")
        if sign == "," and not depth:
            parts.append("")
        else:
            parts[-1] += sign
    if name != "struct":
        return {f"{name} {number}": each for number, each in enumerate(parts)}
    return {field: each for field, _, each in (part.partition(":") for part in parts)}


def _of_checks(of: str, before: Sequence[Contract], now: Sequence[Contract]) -> Iterator[Found]:
    was, is_now = ({_name(each): each for each in side} for side in (before, now))
    for name, each in was.items():
        if name not in is_now:
            yield f"{of} is no more checked by {name}", True
        else:
            yield from _of_check(f"{of}: the check {name}", each, is_now[name])
    yield from ((f"{of} is checked by {name}", False) for name in is_now if name not in was)


def _of_check(name: str, was: Contract, now: Contract) -> Iterator[Found]:
    levels = [_level(side) for side in (was, now)]
    if levels[0] != levels[1]:
        yield f"{name} has another severity", levels[1] < levels[0]
    values = [(side.get("arguments") or {}).get("validValues") for side in (was, now)]
    is_listed = all(each is not None for each in values)
    if is_listed:
        before, after = (set(each or ()) for each in values)
        if more := sorted(after - before, key=repr):
            yield f"{name} takes {', '.join(map(repr, more))} as well", True
        if less := sorted(before - after, key=repr):
            yield f"{name} takes {', '.join(map(repr, less))} no more", False
    ours = ours_of(was), ours_of(now)
    if all(ours):
        yield from _of_ours(name, *ours)
        asked = [{} if is_listed else {"holds": each.get("holds")} for each in ours]
    else:
        known = [each for each in BOUNDS if each != "arguments" or not is_listed]
        asked = [{each: side.get(each) for each in known} for side in (was, now)]
    if asked[0] != asked[1]:
        yield f"{name} asks for something else", True


def ours_of(check: Contract) -> Contract:
    """Return what a check says of the rule of ours that it was made of; nothing of the checks of others."""
    found = (
        each.get("value")
        for each in check.get("customProperties") or []
        if each.get("property") == OURS
    )
    return next((each for each in found if isinstance(each, dict)), {})


def _of_ours(name: str, was: Contract, now: Contract) -> Iterator[Found]:
    """Yield what a rule does to other rows than before: one that is weaker publishes rows that were held."""
    acts = was.get("onFail"), now.get("onFail")
    if acts[0] != acts[1]:
        yield f"{name} was of on_fail {acts[0]} and is of {acts[1]}", acts[1] == OnFail.WARN
    elif (allowed := (_allowed(was), _allowed(now)))[0] != allowed[1]:
        yield (
            f"{name} may be broken by {allowed[1]:.4%} of a batch, and was by {allowed[0]:.4%}",
            allowed[1] > allowed[0],
        )
    if bool(was.get("nullOk")) != bool(now.get("nullOk")):
        is_loose = bool(now.get("nullOk"))
        yield f"{name} takes NULL {'as well' if is_loose else 'no more'}", is_loose


def _allowed(ours: Contract) -> float:
    """Return the share of a batch that may break a rule, as the rule has it (quality/strandline_quality/rules.py)."""
    most = ours.get("maxFailed")
    if isinstance(most, int | float):
        return most
    return 1.0 if ours.get("onFail") == OnFail.QUARANTINE else 0.0


BOUNDS = (
    *("query", "metric", "mustBe", "mustNotBe", "mustBeLessThan", "mustBeLessOrEqualTo"),
    *(
        "mustBeGreaterThan",
        "mustBeGreaterOrEqualTo",
        "mustBeBetween",
        "mustNotBeBetween",
        "arguments",
    ),
)


def _level(check: Contract) -> int:
    severity = str(check.get("severity", "error"))
    return ORDER.index(severity) if severity in ORDER else len(ORDER)


def _name(check: Contract) -> str:
    return str(check.get("name") or check.get("metric") or check.get("query"))


def _of_promises(before: Sequence[Contract], now: Sequence[Contract]) -> Iterator[Found]:
    was, is_now = ({each["property"]: each for each in side} for side in (before, now))
    for name, each in was.items():
        if name not in is_now:
            # Kept for ever is more than was promised; of all else less is promised.
            yield f"{name} is promised no more", name != "retention"
        elif _promised(each) != _promised(is_now[name]):
            # By event is not comparable with by arrival: who relied on the one has it no more.
            is_other = name == FRESHNESS and each.get("element") != is_now[name].get("element")
            yield (
                f"{name} was {_in_words(each)} and is {_in_words(is_now[name])}",
                is_other or _is_less(name, each, is_now[name]),
            )
    yield from (
        (f"{name} is {_in_words(each)}", name == "retention")
        for name, each in is_now.items()
        if name not in was
    )


SECONDS = {
    **dict.fromkeys(("s", "sec", "second", "seconds"), 1),
    **dict.fromkeys(("m", "min", "minute", "minutes"), 60),
    **dict.fromkeys(("h", "hr", "hour", "hours"), 3_600),
    **dict.fromkeys(("d", "day", "days"), 86_400),
    **dict.fromkeys(("y", "yr", "year", "years"), 365 * 86_400),
}
"""Of a unit of the standard."""

ISO = re.compile(
    r"P(?:(?P<d>\d+)D)?(?:T(?:(?P<h>\d+)H)?(?:(?P<m>\d+)M)?(?:(?P<s>\d+(?:\.\d+)?)S)?)?"
)


def days_of(promise: Contract) -> float | None:
    """Return how many days a promise is of, a number with its unit or a text of ISO 8601; None where nothing says that it counts time.

    >>> days_of({"value": 2, "unit": "y"}), days_of({"value": "PT12H"}), days_of({"value": 5})
    (730.0, 0.5, None)
    """
    value, unit = promise.get("value"), SECONDS.get(str(promise.get("unit", "")).lower())
    if isinstance(value, str) and (found := ISO.fullmatch(value)):
        parts = found.groupdict().items()
        return sum(float(n) * SECONDS[each] for each, n in parts if n) / SECONDS["day"]
    if isinstance(value, bool) or not isinstance(value, int | float) or not unit:
        return None
    return value * unit / SECONDS["day"]


def _promised(promise: Contract) -> tuple[object, ...]:
    of_what = promise.get("element") if promise["property"] == FRESHNESS else None
    days = days_of(promise)
    counted = (promise.get("value"), promise.get("unit")) if days is None else (days, "d")
    return *counted, of_what


def _in_words(promise: Contract) -> str:
    words = [str(promise.get("value")), promise.get("unit"), promise.get("description")]
    return " ".join(str(each) for each in words if each)


def _is_less(name: str, was: Contract, now: Contract) -> bool:
    """Return whether less is promised than was; where the two cannot be compared that cannot be known, and may be."""
    lengths: tuple[Any, Any] = days_of(was), days_of(now)
    if lengths == (None, None) and was.get("unit") == now.get("unit"):
        lengths = was.get("value"), now.get("value")
    if not all(isinstance(each, int | float) for each in lengths):
        return True
    return bool(lengths[1] < lengths[0] if name == "retention" else lengths[1] > lengths[0])


def changes(name: str | None, against: Path | None) -> list[Change]:
    """Return what changed since contracts were released.

    Args:
        name: The table; each whose contract was released when None.
        against: The contract to compare with; the one that was released when None.

    Raises:
        DefinitionError: There is no such table, or nothing was released of it.
    """
    if against is not None and name is None:
        raise DefinitionError(
            f"{against} is the contract of one table, and none is named",
            hint=f"`strandline contract diff TABLE --against {against}`.",
        )
    chosen = _chosen(name, against)
    tables = {each.id: each for each in catalog.tables()}
    gone = [
        Change(table, "the table is gone", is_breaking=True)
        for table in chosen
        if table not in tables
    ]
    there = [tables[each] for each in chosen if each in tables]
    if not there:
        return gone
    made = zip(there, contracts(there), strict=True)
    found = [
        each
        for table, now in made
        for each in differences(table.id, released_of(table, chosen[table.id]), now)
    ]
    return [*gone, *found]


def released_of(table: Table, file: Path) -> Contract:
    """Return the contract of a table in a file, which may have those of several.

    Raises:
        DefinitionError: It has none of the table.
    """
    found = read(file)
    for field, names in (("physicalName", {table.id}), ("name", {table.id, table.name})):
        if chosen := [each for each in found["schema"] if each.get(field) in names]:
            return {**found, "schema": chosen[:1]}
    named = ", ".join(
        plain(each.get("name")) or "one without a name" for each in found["schema"][:9]
    )
    raise DefinitionError(
        f"{file} has no contract of {table.id}, but of {named}",
        hint=f"name a file in whose schema a table has the name or physicalName {table.id}.",
        table=table.id,
    )


def _chosen(name: str | None, against: Path | None) -> dict[str, Path]:
    if name is not None:
        table = catalog.find(name)
        file = against or released(table)
        if not file.exists():
            raise DefinitionError(
                f"no contract of {table.id} was released",
                hint=f"`strandline contract export {table.id} --release` writes it.",
                table=table.id,
            )
        return {table.id: file}
    folder = scaffold.root() / FOLDER
    return {each.name.removesuffix(SUFFIX): each for each in sorted(folder.glob(f"*{SUFFIX}"))}


def refuse_breaking(found: Sequence[Change]) -> None:
    """Refuse changes by which readers may fail.

    Raises:
        DefinitionError: There are some.
    """
    breaking = [each for each in found if each.is_breaking]
    if breaking:
        first = breaking[0]
        raise DefinitionError(
            f"{len(breaking)} changes break released contracts; the first: {first.table}: {first.says}",
            hint=f"take them back; or agree with the readers, and `strandline contract export {first.table} --release`.",
            tables=sorted({each.table for each in breaking}),
        )
