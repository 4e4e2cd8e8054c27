"""The module and the test of a table, written from what sampled records are like.

What is written loads and passes its own test, whatever the names of the fields are. Shares are those of the sample; a value of the
sample is written only where it is one of few, and never of a field that looks like a person's.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from textwrap import indent
from typing import Any, cast

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DoubleType,
    MapType,
    StringType,
    StructType,
    TimestampType,
)

from strandline.engine.lake.commit.create_table import ddl
from strandline.operate.drafts.module_text import (
    ALWAYS,
    WIDTH,
    call,
    free,
    imported,
    in_docstring,
    left_out,
    literal,
    quoted,
    struct_lines,
    uncounted,
)
from strandline.operate.drafts.sampled_fields import (
    LAST_SECOND,
    UNITS,
    Field,
    declarable,
    fits,
    percent,
    type_of,
    why_not,
)
from strandline.operate.drafts.sampled_topic import Format, Look, call_of
from strandline.operate.drafts.sampled_traits import (
    Key,
    Moment,
    cannot_be_read,
    column_names,
    is_sensitive,
    keys,
    lateness_of,
    moments,
    places,
    renamed,
    values_of,
    words_of,
)

SHARE = """\
# FILL IN: the share of a batch that may break a rule; beyond it nothing of the batch is published.
MAX_FAILED = 0.2

"""
MILLION = UNITS["micros"]
MOST_REQUIRED = 40
"""Fields that a rule demands: each is a column of the plan; of more, a person chooses."""

EVENT_AT, ARRIVED_AT = "event_at", "arrived_at"
MOMENT = datetime(2026, 11, 20, 8, 15, 30, tzinfo=UTC)
CHANGED_AT, POSITION = "changed_at", "change_position"

NEEDED = frozenset({"bronze", "changes_of", "one_of", "required", "timedelta"})
"""Names that a module needs for something else than its table."""


@dataclass(frozen=True, kw_only=True)
class Draft:
    """What a table is declared with; what follows from it is found once, for a record may have thousands of fields.

    Args:
        name: Its name.
        source: The name of its bronze table.
        look: What was seen.
        fields: The fields of a payload, with their types.
        names: The name of the column of each.
        left_out: The fields that are not declared, and why.
        times: The columns that are made of numbers: their names, and what they are made of.
        moment: The event time, where a field has it.
        event_at: The column with the event time.
        key: The value that identifies an event.
        key_column: Its column.
        takes: The kind that it takes.
        by: How its topic declares that kinds differ, such as ``field('type')``.
        topics: How many topics the bronze table reads.
    """

    name: str
    source: str
    look: Look
    fields: StructType
    names: Mapping[str, str]
    left_out: Mapping[str, str]
    times: Mapping[str, Moment]
    moment: Moment | None
    event_at: str
    key: Key | None
    key_column: str
    takes: str = ""
    by: str = ""
    topics: int = 1

    @property
    def is_change(self) -> bool:
        """Return whether its records are changes of a database's rows."""
        return self.look.form is Format.DEBEZIUM

    @cached_property
    def columns(self) -> dict[str, Field]:
        """Return what was seen of each column that a field becomes."""
        return {self.names[each.name]: self.look.whole.fields[each.name] for each in self.fields}

    @cached_property
    def sensitive(self) -> list[str]:
        """Return the columns that are masked."""
        plain = [name for name, seen in self.columns.items() if is_sensitive(name, seen)]
        more = (
            [self.key_column]
            if self.key and is_sensitive(self.key_column, self.key.place.seen)
            else []
        )
        return list(dict.fromkeys(each for each in [*plain, *more] if each != self.event_at))

    @cached_property
    def required(self) -> list[str]:
        """Return the columns that each row has."""
        first = [*([self.key_column] if self.key else []), self.event_at]
        always = [
            name
            for name, seen in self.columns.items()
            if seen.share(self.look.records) >= ALWAYS and not isinstance(type_of(seen), BinaryType)
        ]
        return list(dict.fromkeys([*first, *always]))[:MOST_REQUIRED]

    @cached_property
    def enums(self) -> dict[str, list[str]]:
        """Return the columns with few values, and these."""
        secret = set(self.sensitive)
        found = {name: values_of(seen) for name, seen in self.columns.items() if name not in secret}
        return {name: values for name, values in found.items() if values}

    def held(self) -> int:
        """Return how many of the records that could be read would be held, for a value of another type or one that is missing."""
        required = set(self.required)
        own = {of: to for of, to in self.names.items() if to in required}
        count = 0
        for record in self.look.again():
            lacks = any(record.get(name) is None for name in own)
            count += lacks or not fits(record, self.fields)
        return count


def draft(  # noqa: PLR0913  # of what, and how it is reached
    name: str, source: str, look: Look, *, takes: str = "", by: str = "", topics: int = 1
) -> Draft:
    """Return what a table is declared with, by what was seen."""
    seen = {n: each for n, each in look.whole.fields.items() if not cannot_be_read(n)}
    is_cells = look.form is Format.CSV
    declared = StructType()
    for each, values in (seen if is_cells else declarable(seen)).items():
        kind = type_of(values) or (StringType() if is_cells else None)
        declared = declared.add(each, kind) if kind else declared
    if not declared.fields:
        declared = StructType().add("payload", BinaryType())
        look.whole.fields.setdefault("payload", Field())
    names = column_names(declared.fieldNames())
    left_out = {
        each: cannot_be_read(each)
        or (why_not(values) if type_of(values) is None else "another has this name")
        for each, values in look.whole.fields.items()
        if each not in names
    }
    found = list(places(look.whole, look.records))
    key = next(iter(keys(found, [name, source, takes])), None)
    candidates = [each for each in moments(found) if each.place.is_always_there]
    used = {each.lower() for each in names.values()}
    used |= {CHANGED_AT, POSITION} if look.form is Format.DEBEZIUM else set()
    times = {
        free(_time_name(each.place.path, first=not number), used): each
        for number, each in enumerate(candidates)
        if each.unit or (not number and len(each.place.path) > 1)
    }
    moment = candidates[0] if candidates else None
    return Draft(
        name=name,
        source=source,
        look=look,
        fields=declared,
        names=names,
        left_out=left_out,
        times=times,
        moment=moment,
        event_at=_event_at(look, moment, times, names, used),
        key=key,
        key_column=_column(key, names, used) if key else "",
        takes=takes,
        by=by,
        topics=topics,
    )


def _event_at(
    look: Look,
    moment: Moment | None,
    times: Mapping[str, Moment],
    names: Mapping[str, str],
    used: set[str],
) -> str:
    if look.form is Format.DEBEZIUM:
        return CHANGED_AT
    if moment is None:
        return free(ARRIVED_AT, used)
    made = next((name for name, each in times.items() if each is moment), None)
    return made or names[moment.place.path[0]]


def _time_name(path: Sequence[str], *, first: bool) -> str:
    if first:
        return EVENT_AT
    words = [each for each in words_of(path[-1]) if each not in {"ms", "millis", "epoch", "ts"}]
    return "_".join([*(words or words_of(path[-1]) or ["time"]), "at"])


def _column(key: Key, names: Mapping[str, str], used: set[str]) -> str:
    first, *more = key.place.path
    if not more:
        return names[first]
    return free("_".join([names[first], *(word for each in more for word in words_of(each))]), used)


# The silver module.


def silver(found: Draft, package: str) -> str:
    """Return the module of a silver table."""
    parts = [
        _docstring(found),
        _imports(found, package),
        SHARE,
        _fields(found),
        _names(found),
        _function(found),
        _table(found),
    ]
    return "".join(parts)


def _docstring(found: Draft) -> str:
    look = found.look
    since = f", which arrived from {_day(look.first)} to {_day(look.last)}" if look.first else ""
    of = f" of kind {in_docstring(quoted(found.takes))}" if found.takes else ""
    grain = (
        f"one row an event, by {found.key_column}"
        if found.key
        else "one row a record, by its place in Kafka"
    )
    if found.is_change and found.key:
        grain = f"one row a change of a row, by {found.key_column} and the place of the change in the database's log"
    return (
        '"""FILL IN: what a row is.\n\n'
        f"Grain: {grain}.\n"
        f"Reads: bronze.{found.source}. Read by: FILL IN.\n"
        "Late data: what is later than `lateness` admits, an hour without one, and what clocks that run ahead have stamped, "
        "goes to the quarantine.\n"
        f"Drafted from {look.count:,} records{of}{since}: {look.copies:,} were copies, {look.unread:,} could not be read.\n"
        '"""\n\n'
    )


def _day(at: datetime | None) -> str:
    return at.strftime("%Y-%m-%d %H:%M") if at else ""


def _imports(found: Draft, package: str) -> str:
    kinds = {type(each).__name__ for each in _kinds(found.fields)} | {"StructField", "StructType"}
    own = {"CARRIED", "Judged", "required"}
    own |= {"OnFail", "one_of"} if found.enums else set()
    own |= set() if found.key else {"PLACE"}
    own |= {"changes_of"} if found.is_change else set()
    own |= {"Lateness"} if _lateness(found) else set()
    lines = ["from datetime import timedelta\n\n"] if _lateness(found) else []
    lines.append("from pyspark.sql import DataFrame\n")
    lines += ["from pyspark.sql import functions as F\n"] if _needs_functions(found) else []
    lines.append(imported("pyspark.sql.types", kinds))
    lines.append(imported("strandline", own))
    return "".join(lines) + f"\nfrom {package}.bronze import {found.source} as bronze\n\n"


def _kinds(kind: DataType) -> Iterator[DataType]:
    yield kind
    match kind:
        case StructType():
            for each in kind:
                yield from _kinds(each.dataType)
        case ArrayType():
            yield from _kinds(kind.elementType)
        case MapType():
            yield StringType()
            yield from _kinds(kind.valueType)
        case _:
            return


def _needs_functions(found: Draft) -> bool:
    has_names = _renames(found) or _shapes(found)
    return bool(has_names or found.times or _is_nested_key(found) or _by_arrival(found))


def _by_arrival(found: Draft) -> bool:
    return found.moment is None and not found.is_change


def _is_nested_key(found: Draft) -> bool:
    return found.key is not None and len(found.key.place.path) > 1


def _fields(found: Draft) -> str:
    name = "COLUMNS" if found.is_change else "FIELDS"
    what = "the columns of the database's table" if found.is_change else "the fields of a payload"
    lines = struct_lines(found.fields, found.look.whole, 2, found.look.records)
    lines += "".join(f"        # {left_out(name, why)}\n" for name, why in found.left_out.items())
    if found.look.whole.cut:
        lines += f"        # {uncounted(found.look.whole)}\n"
    text = f"# FILL IN: {what}; what is not declared is not read.\n{name} = StructType(\n    [\n{lines}    ]\n)\n"
    return text + ("FIELDS = changes_of(COLUMNS)\n" if found.is_change else "")


def _renames(found: Draft) -> dict[str, str]:
    return {of: to for of, to in found.names.items() if of != to}


def _shapes(found: Draft) -> dict[str, str]:
    """Return the columns whose inner fields have names that no column can have, with the type by which they get others."""
    return {
        found.names[each.name]: ddl(renamed(each.dataType))
        for each in found.fields
        if renamed(each.dataType) != each.dataType
    }


def _names(found: Draft) -> str:
    text = ""
    if renames := _renames(found):
        lines = "".join(f"    {quoted(of)}: {quoted(to)},\n" for of, to in renames.items())
        text += f"NAMES = {{\n{lines}}}\n"
        text += '"""Columns whose fields have names that would need quotes in every query."""\n'
    if shapes := _shapes(found):
        lines = "".join(f"    {quoted(of)}: {quoted(to)},\n" for of, to in shapes.items())
        text += f"SHAPES = {{\n{lines}}}\n"
        text += '"""The same of fields within others."""\n'
    return f"\n{text}" if text else ""


def _function(found: Draft) -> str:
    topic = (
        "(topic,) = bronze.TABLE.topics" if found.topics == 1 else "topic = bronze.TABLE.topics[0]"
    )
    lines = [topic]
    renames = _renames(found)
    if renames:
        lines.append("names = FIELDS.fieldNames()")
        lines.append(
            'columns = [F.col(f"`{name}`").alias(NAMES.get(name, name)) for name in names]'
        )
    selected = "*columns" if renames else "*FIELDS.fieldNames()"
    made = f"topic.parse(events, FIELDS).select(*CARRIED, {selected})"
    more = list(_made_columns(found))
    if not more:
        lines.append(f"return {made}")
    else:
        lines.append(f"rows = {made}")
        if _shapes(found):
            lines.append(
                "for name, shape in SHAPES.items():\n    rows = rows.withColumn(name, F.col(name).cast(shape))"
            )
        listed = "".join(f"        {quoted(name)}: {how},\n" for name, how in more if name)
        lines.append(
            f"return rows.withColumns(\n    {{\n{listed}    }}\n)" if listed else "return rows"
        )
    body = indent("\n".join(lines), "    ")
    return f'\n\ndef {found.name}(events: DataFrame) -> DataFrame:\n    """Read each event\'s payload."""\n{body}\n\n\n'


def _made_columns(found: Draft) -> Iterator[tuple[str, str]]:
    """Yield the columns that no field is; one without a name where only the names within a column change."""
    if _shapes(found):
        yield "", ""
    for name, moment in found.times.items():
        yield name, _time(moment, _path(moment.place.path, found))
    if found.key and _is_nested_key(found):
        yield found.key_column, f"F.col({quoted(_path(found.key.place.path, found))})"
    if _by_arrival(found):
        yield found.event_at, 'F.col("_arrived_at")'


def _path(path: Sequence[str], found: Draft) -> str:
    """Return how a value is named among the columns: names within others were made plain beside their own neighbours."""
    first, *more = path
    named, kind = [found.names[first]], found.fields[first].dataType
    for each in more:
        inner = cast("StructType", kind)
        named.append(column_names(inner.fieldNames())[each])
        kind = inner[each].dataType
    return ".".join(named)


def _time(moment: Moment, path: str) -> str:
    """Return how a number becomes a time; one that counts none of our days becomes none, and is missing."""
    name = quoted(path)
    if not moment.unit:
        return f"F.col({name})"
    parts = UNITS[moment.unit]
    last = LAST_SECOND * parts
    number = f"F.col({name})"
    micros = number if parts == MILLION else f"{number} * {MILLION // parts}"
    if parts > MILLION:
        micros = f"{number} / {parts // MILLION}"
    made = f'F.timestamp_micros(({micros}).cast("long"))'
    if isinstance(moment.place.kind, DoubleType):
        made = f'F.timestamp_micros(F.round({micros}).cast("long"))'
    return f"F.when(\n            {number}.between(0, {last:_}),\n            {made},\n        )"


def _lateness(found: Draft) -> str:
    if found.moment is None or found.is_change:
        return ""
    usual, _ = lateness_of(found.moment)
    if usual is None:
        return ""
    return f"Lateness(late={_span(usual.late)}, early={_span(usual.early)})"


def _span(of: timedelta) -> str:
    minutes = int(of.total_seconds() // 60)
    return (
        f"timedelta(hours={minutes // 60})"
        if minutes % 60 == 0
        else f"timedelta(minutes={minutes})"
    )


def _table(found: Draft) -> str:
    lines = [
        f"name={quoted(found.name)},",
        "reads=(bronze.TABLE,),",
        f"transform={found.name},",
        *_key_lines(found),
        *_time_lines(found),
    ]
    if found.takes:
        lines.append(f"takes=({quoted(found.takes)},),")
    if found.sensitive:
        lines.append("# FILL IN: what looks like a person's, by its name or its values.")
        lines.append(call("sensitive=", [quoted(each) for each in found.sensitive], margin=4))
        if len(found.sensitive) == 1:
            lines[-1] = f"sensitive=({quoted(found.sensitive[0])},),"
    lines.append(_rules(found))
    return "TABLE = Judged(\n" + indent("\n".join(lines), "    ") + "\n)\n"


def _key_lines(found: Draft) -> list[str]:
    key, records = found.key, found.look.records
    if key is None:
        copies = found.look.copies
        lines = [
            "# FILL IN: no field identifies an event, so its place in Kafka does, and copies are rows."
        ]
        if copies:
            lines.append(
                f'# {copies:,} of {found.look.count:,} came again byte by byte: by F.sha2(F.col("_payload"), 256) they were copies.'
            )
        return [*lines, "key=PLACE,"]
    about = f"# {percent(key.unique)} of {records:,} records differ by it"
    if not key.is_named:
        about += "; FILL IN: is it the event's?"
    columns = [found.key_column, *([POSITION] if found.is_change else [])]
    return [
        about + ".",
        f"key=({', '.join(map(quoted, columns))}{',' if len(columns) == 1 else ''}),",
    ]


def _time_lines(found: Draft) -> list[str]:
    lines = []
    if _by_arrival(found):
        lines.append("# FILL IN: no field is a time, so that of the arrival is.")
    elif found.moment and not found.is_change and found.moment.ages:
        lines.append(f"# {percent(found.moment.in_time)} lie within the hour before their arrival.")
    lines.append(f"event_at={quoted(found.event_at)},")
    if found.moment and not found.is_change:
        usual, is_history = lateness_of(found.moment)
        if usual:
            lines.append(
                call(
                    "lateness=Lateness",
                    _lateness(found)[len("Lateness(") : -1].split(", "),
                    margin=4,
                )
            )
        if is_history:
            lines.append(
                "# FILL IN: these are events of more than a month ago, which are believed as history."
            )
            lines.append("believes_history=True,")
    return lines


def _rules(found: Draft) -> str:
    demanded = [*map(quoted, found.required), "max_failed=MAX_FAILED"]
    if not found.enums:
        return call("rules=required", demanded, margin=4)
    lines = [call("*required", demanded, "    ", margin=4)]
    for name, values in found.enums.items():
        null_ok = ["null_ok=True"] if name not in found.required else []
        listed = f"[{', '.join(map(quoted, values))}]"
        if len(listed) > WIDTH - 40:
            listed = (
                "[\n" + "".join(f"            {quoted(each)},\n" for each in values) + "        ]"
            )
        lines.append(
            call(
                "one_of", [quoted(name), listed, *null_ok, "on_fail=OnFail.WARN"], "    ", margin=4
            )
        )
    return "rules=(\n" + "\n".join(lines) + "\n),"


# Its test.


def silver_test(found: Draft, package: str) -> str:
    """Return the test of a silver table, with a payload that is made up."""
    head = f'"""silver.{found.name} takes rows that are complete, of the declared types, in time, and new."""\n\n'
    table = f"from {package}.silver.{found.name} import TABLE\n\n"
    if found.look.form in {Format.REGISTERED, Format.RAW}:
        return (
            head + table + "\ndef test_its_event_time_is_declared() -> None:\n"
            '    """FILL IN: `judge(spark, TABLE, payload)` of strandline has the row of a payload."""\n'
            f"    assert TABLE.event_at == {quoted(found.event_at)}\n"
        )
    is_line = found.look.form is Format.CSV
    imports = "" if is_line else "import json\n"
    payload = "CLEAN" if is_line else "json.dumps(CLEAN).encode()"
    return (
        f"{head}{imports}{chr(10) if imports else ''}from strandline import Scenarios\n\n"
        f"{table}{_clean(found)}\n\n"
        "def test_a_clean_payload_is_a_row(stream: Scenarios) -> None:\n"
        '    """Field by field, so that a swapped name is seen."""\n'
        "    s = stream(TABLE)\n\n"
        + call("s.send", [payload, *_beside(found)], "    ", "")
        + "\n\n"
        '    s.expect(quarantined={}, ledger={"read": 1, "good": 1})\n'
        "    (row,) = s.rows()\n"
        f"    assert row[{quoted(found.event_at)}] is not None\n"
        + (f"    assert row[{quoted(found.key_column)}] is not None\n" if found.key else "")
    )


def _beside(found: Draft) -> list[str]:
    """Return what its record has beside the payload: where the kind is in the key or a header, that."""
    name, words = call_of(found.by)
    kind = f"b{quoted(found.takes)}" if found.takes.isascii() else f"{quoted(found.takes)}.encode()"
    more = []
    if name == "header":
        more = [f"headers={{{quoted(words[0])}: {kind}}}"]
    if name == "key_prefix":
        more = [f"key={kind} + b{quoted(words[0] + '1')}"]
    if found.topics > 1:
        more.append("topic=TABLE.bronze.topics[0]")
    return ['at="09:00:00"', *more]


def _with_kind(values: dict[str, Any], found: Draft) -> None:
    """Let a payload be of the kind that the table takes, where that is in a field."""
    name, words = call_of(found.by)
    if name != "field":
        return
    *outer, last = words
    for each in outer:
        values = values.setdefault(each, {})
    is_number = isinstance(values.get(last), int)
    values[last] = int(found.takes) if is_number else found.takes


def _clean(found: Draft) -> str:
    values = dict(_values(found))
    _with_kind(values, found)
    if found.look.form is Format.CSV:
        cells = ",".join("" if each is None else str(each) for each in values.values())
        return f"CLEAN = b{quoted(cells)}\n"
    payload: object = values
    if found.is_change:
        millis = int(MOMENT.timestamp() * 1000)
        payload = {"op": "c", "source": {"ts_ms": millis, "lsn": 1}, "after": values}
    return f"CLEAN = {literal(payload, 0)}\n"


def _values(found: Draft) -> Iterator[tuple[str, object]]:
    wanted = set(found.required) | {found.event_at}
    roots = {each.place.path[0] for each in found.times.values()}
    roots |= {found.key.place.path[0]} if found.key else set()
    is_small = len(found.fields.fields) <= MOST_REQUIRED or found.look.form is Format.CSV
    for each in found.fields:
        if is_small or found.names[each.name] in wanted or each.name in roots:
            yield (
                each.name,
                _value(each.name, each.dataType, found.look.whole.fields[each.name], found),
            )


def _value(name: str, kind: DataType, seen: Field, found: Draft) -> object:  # noqa: PLR0911  # a type a line
    match kind:
        case StructType():
            return {
                each.name: _value(each.name, each.dataType, seen.fields[each.name], found)
                for each in kind
            }
        case ArrayType():
            return [_value(name, kind.elementType, seen.items or Field(), found)]
        case MapType():
            return {"a": _value(name, kind.valueType, seen.values, found)}
        case StringType():
            shown = found.enums.get(found.names.get(name, ""), [])
            return shown[0] if shown else "x1"
        case BooleanType():
            return True
        case TimestampType():
            return MOMENT.isoformat().replace("+00:00", "Z")
        case DateType():
            return MOMENT.date().isoformat()
        case _:
            is_time = seen.units.total() >= max(seen.count, 1) * ALWAYS
            unit = seen.units.most_common(1)[0][0] if is_time else ""
            return int(MOMENT.timestamp() * UNITS[unit]) if unit else 1
