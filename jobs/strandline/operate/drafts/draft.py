"""Drafts of tables from what is there: a topic's records, or those that its bronze table has; begin with draft_table.

Nothing of the lake is written, and of a topic nothing is committed: it is read beside its readers.
"""

import importlib
import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql.types import StructField, StructType
from strandline import catalog

from strandline.core.changed_rows import AT, OP, PLAIN, POSITION
from strandline.core.errors import DefinitionError
from strandline.core.kind import Layer
from strandline.core.routes import WriterSchema
from strandline.core.table import Ingested, Judged
from strandline.core.topic import Topic
from strandline.engine.ask.locate import Sample, of_bronze, of_topic, topics_beside
from strandline.engine.lake.lake import Lake
from strandline.engine.runtime.settings import Settings
from strandline.operate import lakes
from strandline.operate.drafts import scaffold
from strandline.operate.drafts.draft_table import NEEDED, Draft, draft, silver, silver_test
from strandline.operate.drafts.module_text import call, free, in_docstring, quoted, type_text
from strandline.operate.drafts.sampled_fields import MOST_NAMES, percent
from strandline.operate.drafts.sampled_topic import (
    Format,
    Look,
    Schema,
    call_of,
    kind_of,
    look,
    no_registry,
)
from strandline.operate.drafts.sampled_traits import Kinds, words_of
from strandline.project import near, package

if TYPE_CHECKING:
    from strandline.engine.kafka.schema_registry import Registry


USUAL_PARTITIONS = 4
MOST_KINDS = 20
"""Kinds of which each gets a line to type."""
MOST_TOPICS = 20
"""Topics that are named where another was typed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Drafted:
    """What was written.

    Args:
        paths: The files.
        seen: Sentences about what was seen.
        next: What to type next.
    """

    paths: Sequence[Path]
    seen: Sequence[str]
    next: Sequence[str]


def table_name(text: str) -> str:
    """Return a name of a table for a topic or a kind; empty where nothing of it can be in one.

    >>> table_name("shop-events"), table_name("code.webhooks"), table_name("Bank_Bookings")
    ('shop_events', 'code_webhooks', 'bank_bookings')
    """
    return re.sub(r"[^a-z0-9]+", "_", text.lower()).strip("_").lstrip("0123456789_")


def bronze_name(topic: str) -> str:
    """Return the name of a topic's table, which may be none of the topic's own: a topic may have any name.

    >>> bronze_name("shop-events"), bronze_name("class"), bronze_name("2024"), bronze_name("__")
    ('shop_events', 'topic_class', 'topic_2024', 'topic')
    """
    name = table_name(topic)
    if name and not scaffold.is_word(name):
        return name
    return "_".join(["topic", *re.findall(r"[a-z0-9]+", topic.lower())])


def new_topic(topic: str, sample: int, lake: str | None, table: str = "") -> Drafted:
    """Write the bronze table of a topic, by what its records are like.

    Args:
        topic: The name of the topic.
        sample: How many of its records are looked at.
        lake: As it was typed.
        table: The name of the table; made of the topic's where it is empty.

    Raises:
        DefinitionError: There is no such topic, it is empty, or a file is there.
        TransientError: Kafka does not answer.
    """
    name = table or bronze_name(topic)
    _refuse_second(topic, name)
    try:
        scaffold.refuse_files(Layer.BRONZE, name)
    except DefinitionError as error:
        hint = error.hint if table else _by_another_name(topic, name)
        raise DefinitionError(error.message, hint=hint, topic=topic) from error
    found, place = lakes.configured(lake)
    reads = Topic(name=topic)
    address = lakes.demanded_address(found, place)
    known = topics_beside(address, found.kafka_options, reads)
    if topic not in known:
        raise no_such_topic(topic, known)
    taken = _of_topics([reads], sample, found, place)
    seen = look(taken, _schemas(found))
    used = {each.name for each in catalog.tables() if each.layer is Layer.SILVER}
    module = bronze_module(name, topic, seen)
    paths = list(scaffold.write_texts(Layer.BRONZE, name, module, _bronze_test(name, topic)))
    kinds = seen.kinds.counts if seen.kinds else ()
    return Drafted(
        paths=paths, seen=list(_seen_of_topic(seen)), next=list(after_topic(name, kinds, used))
    )


def _by_another_name(topic: str, name: str) -> str:
    """Return a hint by which the draft of a topic gets another name than one that cannot be."""
    used = {each.name for each in catalog.tables()} | {name}
    other = free(name[:40].strip("_") or "topic", used)
    return f"name the table: `{scaffold.over_topic(topic, f' --table {other}')}`."


def _refuse_second(topic: str, name: str) -> None:
    """Refuse a topic that a table reads already, and a name that the table of another topic has.

    Raises:
        DefinitionError: One does.
    """
    ingested = [each for each in catalog.tables() if isinstance(each, Ingested)]
    for each in ingested:
        if topic in {one.name for one in each.topics}:
            takes = "--takes KIND " if each.has_kinds else ""
            raise DefinitionError(
                f"{each.id} reads topic {topic} already",
                hint=f"`strandline new silver NAME --reads {each.id} {takes}--sample 10000` drafts a table over it.",
                table=each.id,
            )
    for each in ingested:
        if each.name == name:
            others = " and ".join(one.name for one in each.topics)
            raise DefinitionError(
                f"{each.id} is the table of topic {others}, and that of topic {topic} would have the same name",
                hint=_by_another_name(topic, name),
                table=each.id,
            )


def no_such_topic(topic: str, known: Sequence[str]) -> DefinitionError:
    """Return the error about a topic that is not among those of the cluster; no table declares it, so nothing makes it."""
    own = [each for each in known if not each.startswith("__")]
    listed = ", ".join(own[:MOST_TOPICS]) + (
        f" and {len(own) - MOST_TOPICS:,} more" if len(own) > MOST_TOPICS else ""
    )
    has = f"the cluster's topics are {listed}" if own else "the cluster has no topic yet"
    return DefinitionError(
        f"topic {topic} does not exist",
        hint=f"{near(topic, own)}{has}; another cluster is named by STRANDLINE_KAFKA.",
        topic=topic,
    )


def _of_topics(topics: Sequence[Topic], most: int, found: Settings, place: Lake) -> Sample:
    """Return records of topics, as many of each.

    Raises:
        DefinitionError: All of them are empty.
    """
    address = lakes.demanded_address(found, place)
    few = -(-most // len(topics))
    parts = [of_topic(address, found.kafka_options, topic, few) for topic in topics]
    records = [each for part in parts for each in part.records]
    if not records:
        names = " and ".join(topic.name for topic in topics)
        raise DefinitionError(
            f"topic {names} is empty, so there is nothing to see",
            hint="send the first records, then type this again; without --from-topic and --sample a draft is written blind.",
            topic=names,
        )
    return replace(
        parts[0],
        records=records,
        held=sum(part.held for part in parts),
        place=" and ".join(part.place for part in parts),
    )


def _schemas(found: Settings) -> Schema:
    """Return where schemas of payloads are found; a registry is asked when the first payload has one."""
    address = found.schema_registry
    if address is None:
        return no_registry
    asked: list[Registry] = []

    def schema(number: int) -> WriterSchema | None:
        from strandline.engine.kafka.schema_registry import Registry  # noqa: PLC0415  # part of an extra

        if not asked:
            asked.append(Registry(address, found.schema_registry_options))
        return asked[0].schema(number)

    return schema


def bronze_module(name: str, topic: str, seen: Look) -> str:
    """Return the module of a bronze table."""
    kinds = seen.kinds
    words = [f"name={quoted(topic)}"]
    if seen.sample.partitions not in {0, USUAL_PARTITIONS}:
        words.append(f"partitions={seen.sample.partitions}")
    words += [f"parse={seen.form.parse}"] if seen.form.parse else []
    words += [f"kind={_call(kinds.by)}"] if kinds else []
    calls = {
        each.partition("(")[0] for each in (seen.form.parse, kinds.by if kinds else "") if each
    }
    names = ", ".join(["Ingested", "Topic", *sorted(calls)])
    listed = call("Topic", words, "    ", "").strip()
    reads = (
        f"reads=({listed},),"
        if "\n" not in listed
        else f"reads=(\n        {listed.replace(chr(10), chr(10) + '    ')},\n    ),"
    )
    about = "".join(f"\n{each}" for each in _shares(kinds)) if kinds else ""
    return (
        '"""FILL IN: what the records of this topic are, as received.\n\n'
        f"Grain: one row a Kafka record.\nReads: topic {topic}. Read by: FILL IN.\n"
        f"Late data: bronze has no time but the arrival.\nDrafted from {seen.count:,} records.{about}\n"
        '"""\n\n'
        f"from strandline import {names}\n\n"
        f"TABLE = Ingested(\n    name={quoted(name)},\n    {reads}\n)\n"
    )


def _call(by: str) -> str:
    """Return a call with its texts as the formatter writes them."""
    name, words = call_of(by)
    return f"{name}({', '.join(map(quoted, words))})"


def _shares(kinds: Kinds) -> Iterator[str]:
    whole = sum(kinds.counts.values())
    yield "Kinds, by the shares that were seen:"
    yield from (
        f"* {in_docstring(kind)}: {percent(count / whole)}" for kind, count in kinds.counts.items()
    )


def _bronze_test(name: str, topic: str) -> str:
    words = {"name": name, "package": package(), "topic": topic}
    return scaffold.filled(scaffold.OF_TABLES / f"test_{Layer.BRONZE}.py{scaffold.SUFFIX}", words)


def _seen_of_topic(seen: Look) -> Iterator[str]:
    yield _looked(seen)
    yield f"payloads are {seen.form}" + (f"; {seen.unread:,} cannot be read" if seen.unread else "")
    if seen.copies:
        yield f"{seen.copies:,} are copies, byte by byte"
    if kinds := seen.kinds:
        whole = sum(kinds.counts.values())
        named = ", ".join(f"{kind} {percent(n / whole)}" for kind, n in kinds.counts.items())
        yield f"of several kinds, by {_call(kinds.by)}: {named}"
    else:
        yield "all are of one kind: no field, header or key decides which other fields there are"


def _looked(seen: Look) -> str:
    span = (
        f", which arrived from {seen.first:%Y-%m-%d %H:%M} to {seen.last:%Y-%m-%d %H:%M}"
        if seen.first and seen.last
        else ""
    )
    return f"looked at {seen.count:,} of {seen.sample.held:,} records of {seen.sample.place}{span}"


def after_topic(name: str, kinds: Iterable[str], used: Iterable[str] = ()) -> Iterator[str]:
    """Yield what to type after a topic's table: a line for each kind, as a shell takes it.

    Args:
        name: The name of the table.
        kinds: The kinds of its records; none where all are of one.
        used: The names of tables that are there.
    """
    taken = {*used, *NEEDED}
    numbered = list(enumerate(list(kinds)[:MOST_KINDS], 1))
    if not numbered:
        own = _first_free([name, f"{name}_rows"], taken)
        yield f"strandline new silver {own} --reads bronze.{name} --sample 10000"
    for number, kind in numbered:
        own = _first_free(_names_of(name, kind, number), taken)
        yield f"strandline new silver {own} --reads bronze.{name} {_takes(kind)}--sample 10000"


def _takes(kind: str) -> str:
    """Return the option with a kind as it is typed; a word that begins with a dash would be an option, whatever is before it."""
    return f"--takes{'=' if kind.startswith('-') else ' '}{shlex.quote(kind)} " if kind else ""


def _names_of(name: str, kind: str, number: int) -> Iterator[str]:
    """Yield names for the table of a kind, the best first; letters that no such name has are left out."""
    stem, snake = name[:40].rstrip("_"), "_".join(words_of(kind))
    words = re.findall(r"[a-z0-9]+", snake)
    yield table_name(snake)
    if words:
        yield "_".join([stem, *words])
    yield f"{stem}_kind_{number}"


def _first_free(names: Iterable[str], taken: set[str]) -> str:
    """Return the first of some names that a table may have and none has, and let it be taken."""
    chosen = ""
    for chosen in names:
        if scaffold.is_free(chosen) and chosen not in taken:
            taken.add(chosen)
            return chosen
    return free(chosen, taken)


def new_silver(name: str, reads: str, takes: str, sample: int, lake: str | None) -> Drafted:
    """Write a silver table over a bronze one, by what its records are like.

    Args:
        name: The name of the table.
        reads: The bronze table.
        takes: The kind that it takes, where its records are of several.
        sample: How many of them are looked at.
        lake: As it was typed.

    Raises:
        DefinitionError: There are no such records, or a file is there.
        TransientError: Kafka does not answer.
    """
    source = scaffold.bronze(reads, takes)
    scaffold.refuse_files(Layer.SILVER, name)
    found, place = lakes.configured(lake)
    taken = _records(source, takes, sample, found, place)
    schemas = _schemas(found)
    if takes:
        taken = _of_kind(taken, source, takes, schemas)
    seen = look(taken, schemas)
    if not seen.records:
        raise DefinitionError(
            f"none of {seen.count:,} records of {taken.place} can be read",
            hint=f"`strandline new silver {name} {_takes(takes)}--reads {source.id}` writes a draft to fill in.",
            table=source.id,
        )
    by = str(source.topics[0].kind or "")
    made = draft(name, source.name, seen, takes=takes, by=by, topics=len(source.topics))
    texts = silver(made, package()), silver_test(made, package())
    paths = list(scaffold.write_texts(Layer.SILVER, name, *texts))
    return Drafted(
        paths=paths,
        seen=list(seen_of_rows(made)),
        next=[f"strandline run {source.id} silver.{name}", f"strandline ledger silver.{name}"],
    )


def _records(source: Ingested, takes: str, most: int, found: Settings, place: Lake) -> Sample:
    """Return records of the lake where it has any, else of the topics."""
    if place.root.exists() and place.exists(source):
        taken = of_bronze(place.table(source), source, most, takes)
        if taken.records:
            return taken
    # Of one kind among several there may be few.
    return _of_topics(source.topics, most if not takes else most * 5, found, place)


def _of_kind(taken: Sample, source: Ingested, takes: str, schema: Schema) -> Sample:
    """Return the records of one kind.

    Raises:
        DefinitionError: There are none.
    """
    whole = look(replace(taken, records=taken.records[:2_000]), schema)
    by = {name: str(each) if each else "topic" for name, each in source.kind_by.items()}
    kinds = [
        (each, kind_of(each, by[each.topic], whole.decode))
        for each in taken.records
        if each.topic in by
    ]
    chosen = [each for each, kind in kinds if kind == takes]
    if not chosen:
        known = sorted({kind for _, kind in kinds if kind})[:20]
        raise DefinitionError(
            f"none of {len(kinds):,} records of {taken.place} is of kind {takes!r}",
            hint=f"their kinds are {', '.join(map(repr, known))}."
            if known
            else "they have no kind.",
            table=source.id,
        )
    return replace(taken, records=chosen)


def seen_of_rows(made: Draft) -> Iterator[str]:
    """Yield sentences about the records of a table that is drafted."""
    seen = made.look
    yield _looked(seen)
    names = list(made.left_out)
    more = [f"{len(names) - 10:,} more"] if len(names) > 10 else []  # noqa: PLR2004  # as many are named
    yield f"{len(made.fields.fields):,} fields are declared" + (
        f"; left out: {', '.join([*map(quoted, names[:10]), *more])}" if names else ""
    )
    if seen.whole.cut:
        yield f"{len(seen.whole.cut):,} more are left out: of one object {MOST_NAMES:,} fields are looked at"
    if made.key:
        yield f"the key is {made.key_column}: {percent(made.key.unique)} of the records differ by it"
    else:
        yield "no field identifies an event: its place in Kafka is the key, and copies are rows"
    yield f"the event time is {made.event_at}"
    if made.sensitive:
        yield f"masked, because they look like a person's: {', '.join(made.sensitive)}"
    held, unread = made.held(), seen.unread
    yield f"of these records {unread:,} could not be read, {held:,} would be held for a value, {seen.copies:,} are copies"
    if seen.form is Format.REGISTERED:
        yield "its test asks for no payload: a registry's schemas are needed for one"


# The draft of a dimension: the module of a table of validity intervals over a silver table of changes, and its test.

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
