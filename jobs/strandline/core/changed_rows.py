"""Rows of a database that change: Debezium's change events as columns, and the validity intervals that follow from them.

A record has one of four forms, recognised by what is there, so a connector may change its converter:

* an envelope: ``before``, ``after``, ``source``, ``op``, ``ts_ms``; of an insert, an update, a delete, or a row of a snapshot;
* an envelope within ``payload``, beside its ``schema``, as Kafka Connect's JSON converter writes both by default;
* a flat row, as ``ExtractNewRecordState`` writes it, with or without ``__deleted``, ``__op``, ``__lsn``, ``__source_ts_ms``;
* a tombstone: a key and no value. It follows a delete, so that a compacted topic forgets the row; it changes nothing, and is a
  row here all the same, because each offset is accounted for.

Three columns are added to those of the database's table: ``change_op`` (``c``, ``u``, ``d``, ``r``, or ``tombstone``),
``changed_at`` by the database's clock, and ``change_position``, a text that sorts as the database's log does: Postgres's
``lsn``, MySQL's file, position and row, SQL Server's ``commit_lsn``, ``change_lsn`` and serial number. A connector that restarts sends changes
again; they have the same position and key, so a table with both in its key counts them as copies. A flat row may
lack a position. Then it is the record's own place, which sorts a key's changes as well, and copies are not recognised.

``truncate`` concerns all rows at once and has no key, so it is no row of a table by key: it is held with that reason, for a person
to see. A field of another type, a column that is gone or new: as in any other payload (jobs/strandline/core/parse.py).

Why a second struct within the first and no variant: the parser of the format then judges each field strictly, as it does for any
other topic, and the same code reads JSON and Avro.

A row is valid from one of its changes to the next, and a delete ends it. Of changes of one moment the last in the log counts,
because MySQL's clock has seconds. A change that comes late divides the interval into which it falls. A delete is an interval as
well, which ends as it begins: no moment is in it, so no join finds it. It is there because an interval that begins at that
moment may have been emitted before a late delete came, and an answer can be replaced and not taken back. The last change of a
row stays in the state for ever, because the next one ends its interval, or moves its delete's.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import zip_longest
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    BooleanType,
    ByteType,
    IntegerType,
    IntegralType,
    LongType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from strandline.core.errors import DefinitionError
from strandline.core.fold import Answer, Event, Fold, Folded, Memory, arrival, time_order
from strandline.core.parse import parse_json, reading, reading_now
from strandline.core.parse_registered import Registered
from strandline.core.stateful import folded
from strandline.core.topic import Parse

OP, AT, POSITION = "change_op", "changed_at", "change_position"
CHANGE = StructType().add(OP, StringType()).add(AT, TimestampType()).add(POSITION, StringType())
TOMBSTONE, DELETE, TRUNCATE = "tombstone", "d", "t"
ROW_CHANGES = ("c", "u", "d", "r")
TRUNCATED, NO_CHANGE = "truncate", "no_change"

NUMBERS = ("ts_ms", "ts_us", "lsn", "pos", "row", "event_serial_no")
TEXTS = ("file", "commit_lsn", "change_lsn")
SOURCE = StructType(
    [
        *(StructField(name, LongType()) for name in NUMBERS),
        *(StructField(name, StringType()) for name in TEXTS),
    ]
)
FLAT = StructType(
    [
        StructField("__deleted", StringType()),
        StructField("__op", StringType()),
        StructField("__ts_ms", LongType()),
        # The names of added fields are those that the connector's user has chosen: with their struct, or without.
        *(StructField(f"__{each.name}", each.dataType) for each in SOURCE if each.name != "ts_ms"),
        *(StructField(f"__source_{each.name}", each.dataType) for each in SOURCE),
    ]
)
ENVELOPE = ("before", "after", "source", "op", "ts_ms", "payload")
DIGITS = 20
END_OF_TIME_US = 253_402_300_799_999_999
"""The end of the year 9999, in microseconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Debezium:
    """Parses change events.

    Args:
        parse: How the payloads are encoded.
    """

    parse: Parse

    def __call__(self, events: DataFrame, fields: StructType) -> DataFrame:
        """Add each declared field as a column, and ``_problem``.

        Args:
            events: Rows of bronze.
            fields: The columns of the database's table, and those of ``CHANGE`` that are wanted.

        Raises:
            DefinitionError: A column has the name of a part of the envelope.
        """
        own = StructType([each for each in fields if each.name not in CHANGE.fieldNames()])
        _refuse_parts(own)
        is_tombstone = F.col("_payload").isNull() & F.col("_message_key").isNotNull()
        coming = events.withColumns(
            {
                "_whole": F.col("_payload"),
                "_is_tombstone": is_tombstone,
                "_payload": F.coalesce("_payload", "_message_key"),
            }
        )
        # An envelope has much that is in no table, and the same row twice.
        with reading(replace(reading_now(), notes=False)):
            read = self.parse(coming, _forms(own)).withColumn("_payload", F.col("_whole"))
        op = _op()
        parts = (*ENVELOPE, *FLAT.fieldNames(), "_whole", "_is_tombstone")
        read = read.withColumn("_op", op)
        values = {each.name: _value(each.name) for each in own}
        change = {OP: F.col("_op"), AT: _at(), POSITION: _position()}
        wanted = {name: change[name] for name in fields.fieldNames() if name in change}
        return read.withColumns({**values, **wanted, "_problem": _problem()}).drop(*parts, "_op")


def debezium(*, parse: Parse = parse_json) -> Debezium:
    """Return a function that parses change events of Debezium.

    Args:
        parse: How they are encoded: ``parse_json``, or ``registered()`` for a converter with a schema registry.
    """
    if isinstance(parse, Registered):
        parse = Registered(defaults=parse.defaults, keys=True)  # a tombstone has only a key
    return Debezium(parse=parse)


def changes_of(fields: StructType) -> StructType:
    """Return the columns of a database's table with those of a change."""
    return StructType([*fields.fields, *CHANGE.fields])


def _forms(own: StructType) -> StructType:
    """Return all forms at once; what a payload does not have is NULL."""
    envelope = [
        StructField("before", own),
        StructField("after", own),
        StructField("source", SOURCE),
        StructField("op", StringType()),
        StructField("ts_ms", LongType()),
        *own.fields,
        *FLAT.fields,
    ]
    return StructType([*envelope, StructField("payload", StructType(envelope))])


def _either(*paths: str) -> Column:
    """Return a value by its paths, each within ``payload`` or without."""
    return F.coalesce(*(F.col(f"{place}{path}") for path in paths for place in ("payload.", "")))


def _is_enveloped() -> Column:
    return F.coalesce("payload.op", "op").isNotNull()


def _op() -> Column:
    is_deleted = F.coalesce(_either("__deleted") == "true", F.lit(False))
    flat = F.when(is_deleted, F.lit(DELETE)).otherwise(F.coalesce(_either("__op"), F.lit("u")))
    return F.when(F.col("_is_tombstone"), F.lit(TOMBSTONE)).otherwise(
        F.coalesce(F.col("payload.op"), F.col("op"), flat)
    )


def _value(name: str) -> Column:
    image = F.when(F.col("_op") == DELETE, _either(f"before.`{name}`")).otherwise(
        _either(f"after.`{name}`")
    )
    return F.when(_is_enveloped(), image).otherwise(_either(f"`{name}`"))


def _at() -> Column:
    micros = F.coalesce(
        _either("source.ts_us", "__source_ts_us", "__ts_us"),
        _either("source.ts_ms", "__source_ts_ms", "ts_ms", "__ts_ms") * 1000,
    )
    known = F.when(micros.between(0, END_OF_TIME_US), F.timestamp_micros(micros))
    # A flat row without a time has that of its arrival, and so has a tombstone, which changes nothing.
    return F.when(micros.isNull(), F.col("_arrived_at")).otherwise(known)


def _position() -> Column:
    found = {
        name: _either(f"source.{name}", f"__source_{name}", f"__{name}")
        for name in SOURCE.fieldNames()
    }
    number = F.call_function("linear_extract", found["file"], F.lit(r"(\d+)$"), F.lit(1))
    mysql = _joined(number, found["pos"], F.coalesce(found["row"], F.lit(0)))
    server = F.when(
        found["commit_lsn"].isNotNull(),
        F.concat_ws(
            "/",
            found["commit_lsn"],
            found["change_lsn"],
            _padded(F.coalesce(found["event_serial_no"], F.lit(0))),
        ),
    )
    place = F.concat(F.lit("offset/"), _joined(F.col("_partition"), F.col("_offset")))
    return F.coalesce(server, mysql, _padded(found["lsn"]), place)


def _joined(*numbers: Column) -> Column:
    """Return numbers as one text that sorts as they do; NULL where one is missing."""
    return reduce(lambda before, each: F.concat(before, F.lit("/"), each), map(_padded, numbers))


def _padded(number: Column) -> Column:
    return F.lpad(number.cast("string"), DIGITS, "0")


def _problem() -> Column:
    is_truncate = F.col("_op") == TRUNCATE
    is_other = ~F.col("_op").isin(TOMBSTONE, TRUNCATE, *ROW_CHANGES)
    return F.coalesce(
        F.col("_problem"),
        F.when(is_truncate, F.lit(TRUNCATED)).when(is_other, F.lit(NO_CHANGE)),
    )


def _refuse_parts(own: StructType) -> None:
    """Refuse a column whose name a flat row and an envelope would both have.

    Raises:
        DefinitionError: There is one.
    """
    parts = {*ENVELOPE, *FLAT.fieldNames()}
    if odd := [name for name in own.fieldNames() if name in parts]:
        raise DefinitionError(
            f"the column {odd[0]} has the name of a part of Debezium's envelope",
            hint="rename it in the connector, by a transformation of Kafka Connect.",
            field=odd[0],
        )


FROM, UNTIL, NEXT = "from_us", "until_us", "next_us"
GONE = "gone"
PLAIN = (StringType, BooleanType, ByteType, ShortType, IntegerType, LongType)
"""The types of columns that state holds, which is JSON (jobs/strandline/core/fold.py)."""


@dataclass(frozen=True, slots=True)
class _Intervals:
    """The step of the fold.

    Args:
        by: The columns that identify a row of the database's table.
        columns: Its other columns.
    """

    by: tuple[str, ...]
    columns: tuple[str, ...]

    def __call__(self, memory: Memory, rows: list[Event], watermark: int) -> Folded:
        """Emit the intervals that new changes begin or divide."""
        changes = memory.waiting("changes", _log_order)
        new = sorted(map(self._remembered, rows), key=_log_order)
        answers: list[Answer] = []
        if new:  # intervals that end before the first of them do not change
            before = changes.before(new[0]["at"]) or memory.head.get("last")
            known = [*([before] if before else []), *changes.since(new[0]["at"])]
            emitted = {each[FROM]: each for each in self._intervals(known)}
            now = self._intervals(sorted([*known, *new], key=_log_order))
            answers = [each for each in now if emitted.get(each[FROM]) != each]
            changes.add(new)
        past = changes.pop(watermark)
        last = past[-1] if past else memory.head.get("last")
        memory.head = {"last": last} if last else {}
        is_one = len(changes) + len(memory.head) <= 1
        return Folded(answers, None if is_one else changes.last)

    def _remembered(self, row: Event) -> dict[str, Any]:
        names = (*self.by, *self.columns, POSITION, GONE)
        return {**arrival(row), **{name: row[name] for name in names}}

    def _intervals(self, changes: Sequence[dict[str, Any]]) -> list[Answer]:
        last_of_moment = list({each["at"]: each for each in changes}.values())
        ends = (each["at"] for each in last_of_moment[1:])
        return [
            {
                **{name: each[name] for name in (*self.by, *self.columns)},
                FROM: each["at"],
                UNTIL: each["at"] if each[GONE] else end,
                NEXT: end,
            }
            for each, end in zip_longest(last_of_moment, ends)
        ]


def _log_order(change: Any) -> list[Any]:  # noqa: ANN401  # a row or what is remembered of it
    at, *place = time_order(change)
    return [at, change[POSITION], *place]


def fold_of(by: Sequence[str], columns: StructType) -> Fold:
    """Return the fold of changes to intervals.

    Args:
        by: The columns that identify a row.
        columns: All columns of the rows, with their types.

    Raises:
        DefinitionError: A column is of a type that state cannot hold.
    """
    for field in columns:
        if not isinstance(field.dataType, PLAIN):
            raise DefinitionError(
                f"column {field.name} is {field.dataType.simpleString()}, and intervals are kept as texts and integers",
                hint="cast it to a text in the table of changes, and back above the intervals.",
                field=field.name,
            )
    others = _others(by, columns)
    return Fold(
        by=tuple(by),
        reads=(*others, POSITION, GONE, "arrived", "_partition", "_offset"),
        output=StructType(
            [*columns.fields, *(StructField(each, LongType()) for each in (FROM, UNTIL, NEXT))]
        ),
        key=(*by, FROM),
        step=_Intervals(tuple(by), others),
        form=1,  # 0 is one JSON value of a step that has no queues (jobs/strandline/core/fold.py)
        migrate=_keep,
    )


def validity(  # noqa: PLR0913  # the names that a user's columns have
    changes: DataFrame,
    by: Sequence[str],
    columns: StructType,
    *,
    at: str = AT,
    op: str | None = OP,
    position: str | None = POSITION,
    deletes: str = DELETE,
) -> DataFrame:
    """Return the intervals in which rows of a database's table were valid, with ``valid_from``, ``valid_until``, ``ended_on``.

    The last is the day of the next change, and the first day of all where there is none: the folder of an interval's file. All open
    intervals are in one, so that joins read few files, and whatever replaces an interval has a part in the folder
    of that interval, also a delete. (The intervals of an Upserted table are replaced folder by folder.)

    Args:
        changes: Rows of a judged table of changes, with ``_arrived_at`` and their place.
        by: The columns that identify a row.
        columns: All columns of the rows, with their types.
        at: The column with the time of a change.
        op: The column that says what a change does; None where none ends a row.
        position: The column by which changes of one moment are sorted; None where the later arrival counts.
        deletes: The value of ``op`` by which a row ends.
    """
    kept = changes.where(F.col(OP) != TOMBSTONE) if op == OP else changes
    own = {"arrived": F.unix_micros("_arrived_at"), GONE: _is_gone(op, deletes)}
    if position != POSITION:
        own[POSITION] = _sortable(changes, position)
    never = F.lit("1970-01-01").cast("timestamp")
    intervals = folded(kept.withColumns(own), fold_of(by, columns), time=at)
    return intervals.select(
        *by,
        F.timestamp_micros(FROM).alias("valid_from"),
        F.timestamp_micros(UNTIL).alias("valid_until"),
        *_others(by, columns),
        F.coalesce(F.date_trunc("day", F.timestamp_micros(NEXT)), never).alias("ended_on"),
    )


def _is_gone(op: str | None, deletes: str) -> Column:
    return F.lit(False) if op is None else F.col(op) == deletes


def _sortable(changes: DataFrame, position: str | None) -> Column:
    """Return a position as a text that sorts as it does."""
    if position is None:
        return F.lit("")
    is_number = isinstance(changes.schema[position].dataType, IntegralType)
    return _padded(F.col(position)) if is_number else F.col(position).cast("string")


def as_of(
    rows: DataFrame,
    intervals: DataFrame,
    moment: str,
    columns: Sequence[str],
    *,
    by: Sequence[str],
) -> DataFrame:
    """Add the columns that were valid for each row at its time; NULL where no interval is.

    Args:
        rows: Rows with the columns of ``by``.
        intervals: A table of ``validity``.
        moment: The column with the time of the join.
        columns: The columns to add.
        by: The columns that identify what the intervals are of.
    """
    valid = intervals.select(
        *(F.col(name).alias(f"_of_{name}") for name in by),
        F.col("valid_from").alias("_from"),
        F.col("valid_until").alias("_until"),
        *columns,
    )
    at = F.col(moment)
    is_valid = (F.col("_from") <= at) & (F.col("_until").isNull() | (at < F.col("_until")))
    for name in by:
        is_valid &= F.col(name) == F.col(f"_of_{name}")
    joined = rows.join(valid, is_valid, "left_outer")
    return joined.drop(*(f"_of_{name}" for name in by), "_from", "_until")


def _others(by: Sequence[str], columns: StructType) -> tuple[str, ...]:
    return tuple(name for name in columns.fieldNames() if name not in by)


def _keep(_: Memory) -> None:
    """Migrate nothing: there is one form so far."""
