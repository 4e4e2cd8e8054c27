"""The draft of a dimension: the module of a table of validity intervals over a silver table of changes, and its test."""

import importlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from pyspark.sql.types import StructField, StructType

from strandline.core.changed_rows import AT, OP, PLAIN, POSITION
from strandline.core.errors import DefinitionError
from strandline.core.kind import Layer
from strandline.core.table import Judged
from strandline.operate import scaffold
from strandline.operate.draft_text import call, quoted, type_text
from strandline.operate.sampled_traits import words_of
from strandline.project import package

MODULE = '''"""FILL IN: what held when, of each {{of}}, as validity intervals.

Grain: one row a {{of}} and the start of an interval; the current interval has no end.
Reads: silver.{{source}}. Read by: FILL IN: tables that join it as of a time, by `as_of`.
Late data: a change that arrives late divides the interval into which it falls. If two changes of a {{of}} have the same
time, {{same}} counts.
"""

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql.types import {{types}}
from strandline import Layer, Upserted, validity
from strandline import as_of as joined

from {{package}}.silver import {{source}}

BY = ({{by}},)
{{remark}}COLUMNS = StructType(
    [
{{columns}}    ]
)


def {{name}}(changes: DataFrame) -> DataFrame:
    """Fold the changes of each {{of}} into intervals."""
    return {{validity}}


def as_of(rows: DataFrame, intervals: DataFrame, moment: str, columns: Sequence[str]) -> DataFrame:
    """Add the columns that were valid for each row at the row's time; NULL where no interval is."""
    return joined(rows, intervals, moment, columns, by=BY)


TABLE = Upserted(
    layer=Layer.SILVER,
    name="{{name}}",
    reads=({{source}}.TABLE,),
    transform={{name}},
    key=(*BY, "valid_from"),
    event_at="valid_from",
    window_from="ended_on",
    valid_until="valid_until",
)
'''
TEST = '''"""silver.{{name}} has an interval from each change to the next."""

from datetime import UTC, datetime

from pyspark.sql import SparkSession
from pyspark.sql.types import IntegerType, LongType, StringType, StructType, TimestampType

from {{package}}.silver.{{name}} import BY, COLUMNS, {{name}}

MOMENTS = [datetime(2026, 1, 1, hour, tzinfo=UTC) for hour in (8, 9)]
CHANGES = (
    StructType([*COLUMNS.fields])
    .add("{{at}}", TimestampType())
    .add("_arrived_at", TimestampType())
    .add("_partition", IntegerType())
    .add("_offset", LongType()){{more}}
)


def test_a_change_ends_what_held_before(spark: SparkSession) -> None:
    """The interval of the last change is open."""
    of = {name: "a" if isinstance(COLUMNS[name].dataType, StringType) else 1 for name in BY}
    empty = dict.fromkeys(CHANGES.fieldNames())
    rows = [
        {**empty, **of, "{{at}}": at, "_arrived_at": at, "_partition": 0, "_offset": number{{values}}}
        for number, at in enumerate(MOMENTS)
    ]

    found = {{name}}(spark.createDataFrame(rows, CHANGES)).orderBy("valid_from").collect()

    ends = [row["valid_until"] for row in found]
    assert [end.astimezone(UTC) if end else None for end in ends] == [MOMENTS[1], None]
'''


def write(name: str, reads: str, by: Sequence[str]) -> Iterator[Path]:
    """Write the module and the test of a dimension, and yield the path of each within the project.

    Args:
        name: Its name.
        reads: The silver table with the changes.
        by: The columns that identify what the intervals are of.

    Raises:
        DefinitionError: The table is none of changes, does not say its columns, or has none by which the intervals can be.
    """
    scaffold.refuse_files(Layer.SILVER, name)
    source = scaffold.source(reads, {Layer.SILVER})
    if not isinstance(source, Judged):
        raise DefinitionError(
            f"{source.id} is {type(source).__name__}, and changes are events one by one",
            hint="name a silver table of kind Judged: `strandline tables` lists them.",
            table=source.id,
        )
    fields, left = _columns(source)
    chosen = tuple(by) or _guessed(source, fields)
    if unknown := [each for each in chosen if each not in fields.fieldNames()]:
        raise DefinitionError(
            f"{source.id} has no plain column {' and '.join(unknown)}",
            hint=f"its columns are {', '.join(fields.fieldNames())}.",
            table=source.id,
        )
    words = _words(name, source, chosen, fields, left)
    yield from scaffold.write_texts(
        Layer.SILVER, name, _filled(MODULE, words), _filled(TEST, words)
    )


def _filled(text: str, words: dict[str, str]) -> str:
    for name, word in words.items():
        text = text.replace(f"{{{{{name}}}}}", word)
    return text


def _columns(source: Judged) -> tuple[StructType, list[str]]:
    """Return the columns that intervals can keep, and the others.

    Raises:
        DefinitionError: The module of the table does not say which it has.
    """
    module = importlib.import_module(f"{package()}.{source.layer}.{source.name}")
    fields = getattr(module, "COLUMNS", getattr(module, "FIELDS", None))
    if not isinstance(fields, StructType):
        raise DefinitionError(
            f"the module of {source.id} has no FIELDS, so its columns are not known",
            hint="let FIELDS be the StructType by which it parses, then type this again.",
            table=source.id,
        )
    names = getattr(module, "NAMES", {})
    own = {source.event_at, OP, AT, POSITION, *(source.key[:1] if _has_own_id(source) else ())}
    plain, left = StructType(), []
    for each in fields:
        name = names.get(each.name, each.name)
        if isinstance(each.dataType, PLAIN) and name not in own:
            plain = plain.add(name, each.dataType)
        elif name not in own:
            left.append(name)
    return plain, left


def _is_change(source: Judged) -> bool:
    return POSITION in source.key


def _has_own_id(source: Judged) -> bool:
    """Return whether the first column of its key identifies the change, and not what changes."""
    return not _is_change(source) and not source.keeps_copies


def _guessed(source: Judged, fields: StructType) -> tuple[str, ...]:
    """Return by which columns the intervals are.

    Raises:
        DefinitionError: No column, or one of several, may be meant.
    """
    if _is_change(source):
        return tuple(each for each in source.key if each != POSITION)
    found = [
        each for each in fields.fieldNames() if words_of(each)[-1:] in (["id"], ["key"], ["code"])
    ]
    if len(found) == 1:
        return (found[0],)
    known = found or fields.fieldNames()
    raise DefinitionError(
        f"{source.id} does not say what its changes are of",
        hint=f"name it: --by {known[0] if known else 'COLUMN'}; its columns are {', '.join(fields.fieldNames())}.",
        table=source.id,
    )


def _words(
    name: str, source: Judged, by: tuple[str, ...], fields: StructType, left: Sequence[str]
) -> dict[str, str]:
    is_change = _is_change(source)
    at = AT if is_change else source.event_at
    given = [] if is_change else [f"at={quoted(at)}", "op=None", "position=None"]
    kept = StructType([each for each in fields if each.name in by or each.name != source.event_at])
    kinds = {type(each.dataType).__name__ for each in kept} | {"StructField", "StructType"}
    remark = f"# FILL IN: intervals keep texts, whole numbers and booleans; cast in silver what is to be kept of {', '.join(left)}.\n"
    more = (
        f'\n    .add("{OP}", StringType())\n    .add("{POSITION}", StringType())'
        if is_change
        else ""
    )
    values = f', "{OP}": "u", "{POSITION}": str(number)' if is_change else ""
    return {
        "name": name,
        "package": package(),
        "source": source.name,
        "of": " and ".join(by),
        "by": ", ".join(map(quoted, by)),
        "same": "the later one in the database's log"
        if is_change
        else "the one that arrived later",
        "types": ", ".join(sorted(kinds)),
        "columns": "".join(_line(each) for each in kept),
        "remark": remark if left else "",
        "validity": call("validity", ["changes", "BY", "COLUMNS", *given], "    ", "").strip(),
        "at": at,
        "more": more,
        "values": values,
    }


def _line(each: StructField) -> str:
    return f"        StructField({quoted(each.name)}, {type_text(each.dataType, None, 2)}),\n"
