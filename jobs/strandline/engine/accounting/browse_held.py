"""Read a quarantine without a JVM: rows by reason and age, each row as received, and what was done about it."""

import base64
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any, TypeAlias

import orjson
import pyarrow as pa
import pyarrow.compute as pc
from strandline import catalog

from strandline.core.errors import DefinitionError
from strandline.core.routes import KIND, KIND_BY, NO_KIND
from strandline.core.table import Ingested, Judged, Table
from strandline.core.topic import ITEM, PLACE, QUARANTINE
from strandline.engine.accounting.held_records import State, has_items, offer, refuse_unheld, shared
from strandline.engine.lake.commit.file_index import EPOCH
from strandline.engine.lake.duckdb_table import Duck, Peek, rows_where, scan, session
from strandline.engine.lake.find_rows import batch_of, version_of
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger import entry_at, is_table
from strandline.engine.lake.open_table import kinds
from strandline.engine.lake.place import Place
from strandline.engine.lake.plain_files import write_lines, write_parquet
from strandline_quality import mask
from strandline_quality.findings import Open, Sample

KafkaPlace: TypeAlias = tuple[str, int, int]
"""Topic, partition, offset."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pile:
    """The rows of a quarantine with one reason; a row with several reasons is in several piles.

    Args:
        table: The judged table.
        reason: Why they are held.
        open: How many rows wait for an operator.
        discarded: How many were given up.
        oldest: When the first open row arrived.
        newest: When the last open row arrived.
        age: How long ago the first open row arrived.
    """

    table: str
    reason: str
    open: int
    discarded: int
    oldest: datetime | None
    newest: datetime | None
    age: timedelta | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """What was done about a row.

    Args:
        status: The decision.
        who: A login name, if it is known.
        at: When, if it is known.
        why: The reason that was given.
    """

    status: str
    who: str | None
    at: datetime | None
    why: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """A record of a quarantine.

    Args:
        topic: With partition and offset, the place of the event in Kafka.
        partition: See topic.
        offset: See topic.
        state: Open, discarded or closed.
        reasons: Why it is held.
        arrived_at: When the event arrived.
        event_at: When it happened, if its payload can be trusted.
        batch: The batch of the table's stream, or the backfill or replay, that held it back.
        key: The original bytes.
        payload: The original bytes.
        headers: The original bytes, by their names.
        done: The decisions about the event, oldest first.
        item: The place of the item in the list of its record, where an item is held; the record is believed.
    """

    topic: str
    partition: int
    offset: int
    state: str
    reasons: tuple[str, ...]
    arrived_at: datetime
    event_at: datetime | None
    batch: str | None
    key: bytes | None
    payload: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    done: tuple[Done, ...]
    item: int | None = None


def piles(table: Table, lake: Lake, now: datetime) -> list[Pile]:
    """Count a quarantine by reason, the largest first; a row with several reasons is counted under each."""
    connection = connected(table, lake)
    found = connection.execute("""
        SELECT reason,
               count(*) FILTER (_state = 'open') AS open,
               count(*) FILTER (_state = 'discarded') AS discarded,
               min(_arrived_at) FILTER (_state = 'open') AS oldest,
               max(_arrived_at) FILTER (_state = 'open') AS newest
        FROM (SELECT unnest(reasons) AS reason, _state, _arrived_at FROM records)
        WHERE _state <> 'closed' GROUP BY reason ORDER BY open DESC, reason
    """)
    return [
        Pile(
            table=table.id,
            reason=reason,
            open=open_,
            discarded=discarded,
            oldest=oldest,
            newest=newest,
            age=now - oldest if oldest else None,
        )
        for reason, open_, discarded, oldest, newest in found.fetchall()
    ]


def rows(
    table: Table,
    lake: Lake,
    *,
    reason: str | None = None,
    at: KafkaPlace | None = None,
    limit: int = 20,
) -> list[Held]:
    """Return rows as received, in the order of their arrival.

    Args:
        table: A judged table.
        lake: Its lake.
        reason: Only rows with this reason.
        at: Only the row of this place, in any state; without it only open rows are returned.
        limit: How many rows at most.
    """
    connection = connected(table, lake)
    where, values = chosen(reason, at)
    names = [row[0] for row in connection.execute("DESCRIBE records").fetchall()]
    order = ", ".join(("_arrived_at", *PLACE, *(n for n in (ITEM,) if n in names), "_state"))
    found = connection.execute(
        f"SELECT * FROM records WHERE {where} ORDER BY {order} LIMIT ?",  # noqa: S608  # no user's text
        [*values, limit],
    ).to_arrow_table()
    records = found.to_pylist()
    batches, done = _batches(table, lake, records), _done(table, lake, records)
    return [
        Held(
            topic=row["_topic"],
            partition=row["_partition"],
            offset=row["_offset"],
            state=row["_state"],
            reasons=tuple(row["reasons"]),
            arrived_at=row["_arrived_at"],
            event_at=row["event_at"],
            batch=batches.get(_one(row)),
            key=row["_message_key"],
            payload=row["_payload"],
            headers=tuple((each["key"], each["value"]) for each in row["_headers"] or ()),
            done=tuple(done.get((*_place(row), row.get(ITEM)), ())),
            item=row.get(ITEM),
        )
        for row in records
    ]


def connected(table: Table, lake: Lake) -> Duck:
    """Return a database with a quarantine's ``records``, each with its state in ``_state``.

    DuckDB reads the files itself: Arrow's data sets import pandas, which takes longer than an answer.

    Raises:
        DefinitionError: The table has no quarantine.
    """
    connection = session()
    if isinstance(table, Ingested) and table.has_kinds:
        _offer_kindless(connection, table, lake)
        return connection
    refuse_unheld(table, lake)
    offer(connection, "records", table, lake, read=scan)
    return connection


def _offer_kindless(connection: Duck, table: Ingested, lake: Lake) -> None:
    """Offer the records of bronze that have no kind, as the records of a quarantine; they are in bronze, and nowhere else."""
    lake.refuse_missing(table)
    if KIND not in kinds(lake.table(table)):
        raise DefinitionError(
            f"{table.id} has no record yet that came since its topic has kinds",
            hint=f"run it: `strandline run {table.id}`; what came before is asked by the tables that read it.",
            table=table.id,
        )
    scan(connection, "__bronze", lake.table(table))
    own = {"reasons": f"['{NO_KIND}']", "event_at": "NULL::TIMESTAMPTZ"}
    columns = ", ".join(f"{own.get(each, each)} AS {each}" for each in QUARANTINE.fieldNames())
    connection.execute(
        f"CREATE VIEW records AS SELECT {columns}, '{State.OPEN}' AS _state FROM __bronze "  # noqa: S608  # our own names
        f"WHERE {KIND} IS NULL AND {KIND_BY} IS NOT NULL"
    )


def chosen(reason: str | None, at: KafkaPlace | None) -> tuple[str, list[object]]:
    """Return the SQL condition that selects records, and its values."""
    wanted, values = ["TRUE" if at else f"_state = '{State.OPEN}'"], list[object]()
    if reason is not None:
        wanted.append("list_contains(reasons, ?)")
        values.append(reason)
    if at is not None:
        wanted += [f"{name} = ?" for name in PLACE]
        values += at
    return " AND ".join(wanted), values


def _place(row: Mapping[str, Any]) -> KafkaPlace:
    return (row["_topic"], row["_partition"], row["_offset"])


def _batches(
    table: Table, lake: Lake, records: Sequence[Mapping[str, Any]]
) -> dict[tuple[object, ...], str]:
    """Return the commit that held back each record; of two commits the later."""
    if not records or isinstance(table, Ingested):
        return {}
    path = lake.quarantine(table)
    offsets = pa.array([row["_offset"] for row in records])
    is_near = pc.field("_offset").isin(offsets)
    own = [ITEM] if has_items(path) else []
    found = rows_where(path, is_near, [*PLACE, "reasons", *own, "__filename"])
    known = {name: _version(path, name) for name in {row["__filename"] for row in found}}
    versions = [_version_of_row(table, lake, row, known[row["__filename"]]) for row in found]
    in_order = sorted(zip(versions, found, strict=True), key=lambda each: each[0])
    return {_one(row): _batch(path, version) for version, row in in_order}


def _one(row: Mapping[str, Any]) -> tuple[object, ...]:
    return (*_place(row), tuple(row["reasons"]), row.get(ITEM))


def _version(path: Place, file: str) -> int | None:
    return version_of(path, path / Place(file).name)  # a quarantine has no folders


def _version_of_row(table: Table, lake: Lake, row: Mapping[str, Any], version: int | None) -> int:
    """Return the version that held a record back; where its file was put together with others, by its offset."""
    if version is not None:
        return version
    (bronze,) = table.upstream
    part = f"{row['_topic']}/{row['_partition']}"
    found = batch_of(lake.quarantine(table), lake.table(bronze), part, row["_offset"])
    return -1 if found is None else found


def _batch(path: Place, version: int) -> str:
    entry = entry_at(path, version)
    if entry is None:
        return "unknown"
    return entry.mode if entry.is_backfill else f"batch {entry.batch}"


def _done(
    table: Table, lake: Lake, records: Sequence[Mapping[str, Any]]
) -> dict[tuple[object, ...], list[Done]]:
    path = lake.resolutions(table)
    if not records or isinstance(table, Ingested) or not is_table(path):
        return {}
    offsets = pa.array([row["_offset"] for row in records])
    is_near = pc.field("_offset").isin(offsets)
    resolutions = rows_where(path, is_near)
    found: dict[tuple[object, ...], list[Done]] = {}
    for row in sorted(resolutions, key=lambda row: row["resolved_at"] or EPOCH):
        done = Done(status=row["status"], who=row["who"], at=row["resolved_at"], why=row["why"])
        found.setdefault((*_place(row), row.get(ITEM)), []).append(done)
    return found


# The open rows of a quarantine: their number by age, and a few masked samples.
#
# Rows that were replayed or discarded are settled and not counted (jobs/strandline/engine/accounting/held_records.py). DuckDB reads the rows
# without a JVM, and the payloads of the samples only.


SAMPLES = 5
AGES = (
    ("under an hour", timedelta(hours=1)),
    ("under a day", timedelta(days=1)),
    ("under a week", timedelta(days=7)),
    ("under a month", timedelta(days=30)),
)
OLDER = "older"
COUNTED = f"""
    SELECT count(*), min(_arrived_at),
    {", ".join(f"count(*) FILTER (_arrived_at > getvariable('limit{n}_'))" for n in range(len(AGES)))} FROM held
"""  # noqa: S608  # numbers of our own
NEWEST = """
    WITH chosen AS (
        SELECT _topic, _partition, _offset, _of, row_number() OVER (
            PARTITION BY reasons[1] ORDER BY _arrived_at DESC, _partition, _offset, _of) AS place
        FROM held WHERE _arrived_at < getvariable('until_')
        ORDER BY place, _arrived_at DESC, _partition, _offset, _of LIMIT getvariable('count_'))
    SELECT _topic, _partition, _offset, _arrived_at, reasons, _payload
    FROM held JOIN chosen USING (_topic, _partition, _offset, _of)
    ORDER BY place, _arrived_at DESC, _partition, _offset, _of
"""
"""Payloads are long, so they are read for the chosen rows only."""


def open_rows(table: Table, lake: Lake, now: datetime, opened: Peek | None = None) -> Open | None:
    """Return the number of open rows by how long ago they arrived; None where there is no quarantine.

    Args:
        table: The table.
        lake: Its lake.
        now: The time.
        opened: What ``open_records`` returned, for who asks more of it.
    """
    if not has_quarantine(table, lake):
        return None
    held = opened or open_records(table, lake)
    limits = {f"limit{number}_": now - age for number, (_, age) in enumerate(AGES)}
    ((rows, oldest, *younger),) = held.ask(COUNTED, **limits)
    found = none_open()
    totals = [int(str(each)) for each in (*younger, rows)]
    counts = [after - before for before, after in pairwise([0, *totals])]
    return replace(
        found,
        rows=totals[-1],
        oldest=oldest.isoformat() if isinstance(oldest, datetime) else None,
        ages=tuple((label, count) for (label, _), count in zip(found.ages, counts, strict=True)),
    )


def none_open() -> Open:
    """Return what is said of a quarantine without an open row."""
    return Open(ages=tuple((label, 0) for label in (*(label for label, _ in AGES), OLDER)))


def samples(
    table: Table, lake: Lake, until: datetime, opened: Peek | None = None
) -> tuple[Sample, ...]:
    """Return the newest rows that were held back before a time: first the newest of each reason, then the next.

    Args:
        table: The table.
        lake: Its lake.
        until: The time.
        opened: As of ``open_rows``.
    """
    if not has_quarantine(table, lake):
        return ()
    held = opened or open_records(table, lake)
    known, secret = harmless(table, lake), withheld(table, catalog.tables())
    found = held.named(NEWEST, until_=until, count_=SAMPLES)
    return tuple(_sample(row, secret, known) for row in found)


def _sample(row: Mapping[str, Any], secret: Collection[str], known: Collection[str]) -> Sample:
    return Sample(
        topic=row["_topic"],
        partition=row["_partition"],
        offset=row["_offset"],
        arrived_at=row["_arrived_at"].isoformat(),
        reasons=tuple(row["reasons"]),
        payload=mask.payload(row["_payload"], secret, known),
    )


def has_quarantine(table: Table, lake: Lake) -> bool:
    """Return whether a table has a quarantine."""
    return isinstance(table, Judged) and is_table(lake.quarantine(table))


def open_records(table: Table, lake: Lake) -> Peek:
    """Open the records of a table's quarantine that are neither replayed nor discarded."""
    duck = session()
    offer(duck, "records", table, lake, read=scan)
    item = f"coalesce({ITEM}, -1)" if has_items(lake.quarantine(table)) else "-1"
    duck.execute(
        f"CREATE VIEW held AS SELECT *, {item} AS _of FROM records WHERE _state = '{State.OPEN}'"  # noqa: S608  # no user's text
    )
    return Peek(duck)


def harmless(table: Table, lake: Lake) -> tuple[str, ...]:
    """Return the columns of a table that may be shown unmasked."""
    return table.shown(kinds(lake.table(table)))


def withheld(table: Table, tables: Collection[Table]) -> frozenset[str]:
    """Return the fields that are never shown of the records of a table's quarantine; of bronze those of the tables that read it.

    Tables that read the same records of bronze have the same payloads in their quarantines.
    """
    bronze = [table] if isinstance(table, Ingested) else shared(table)
    beside = (each.secret for each in tables for one in bronze if one in each.upstream)
    return frozenset(table.secret).union(*beside)


def masked(row: Held, table: Table, lake: Lake, secret: Collection[str]) -> Held:
    """Return a record without its sensitive values.

    Args:
        row: The record.
        table: Whose quarantine it is in.
        lake: The lake.
        secret: The fields that are never shown. Of bronze no value is: which table would have taken the record is not known.
    """
    known = () if isinstance(table, Ingested) else harmless(table, lake)
    shown = mask.payload(row.payload, secret, known).encode()
    return replace(
        row,
        payload=None if row.payload is None else shown,
        key=None if row.key is None else str(mask.mask_value(row.key)).encode(),
        headers=tuple((name, str(mask.mask_value(value)).encode()) for name, value in row.headers),
    )


# Export the open rows of a quarantine to a file, completely, for a repair outside the lake.


AT_ONCE = 10_000
"""Rows in memory at the same time."""


def export(table: Table, lake: Lake, file: Place, *, reason: str | None = None) -> int:
    """Write all open rows to a file with all their columns; return how many.

    Bytes are base64 in lines of JSON, and bytes in Parquet. The file is written completely or not at all.

    Raises:
        DefinitionError: The file exists, or its name has no known ending.
    """
    if not file.name.endswith((".ndjson", ".jsonl", ".parquet")):
        raise DefinitionError(
            f"{file.name} does not name a format by its ending",
            hint="use .ndjson or .jsonl for lines of JSON, or .parquet.",
            file=str(file),
        )
    if file.exists():
        raise DefinitionError(f"{file} exists already", hint="choose another name.", file=str(file))
    where, values = chosen(reason, None)
    found = connected(table, lake).execute(
        f"SELECT * EXCLUDE (_state) FROM records WHERE {where} ORDER BY _topic, _partition, _offset",  # noqa: S608  # no user's text
        values,
    )
    batches = found.to_arrow_reader(AT_ONCE)
    try:
        if file.name.endswith(".parquet"):
            return write_parquet(batches, file)
        return write_lines(map(_line, _rows(batches)), file)
    except OSError as error:
        raise DefinitionError(
            f"{file} cannot be written: {error.strerror}",
            hint="choose a folder that exists and can be written.",
            file=str(file),
        ) from error


def _rows(batches: Any) -> Iterator[Mapping[str, Any]]:  # noqa: ANN401  # Arrow has no types
    for batch in batches:
        yield from batch.to_pylist()


def _line(row: Mapping[str, Any]) -> bytes:
    headers = row["_headers"]
    encoded = {
        **row,
        "_message_key": _text(row["_message_key"]),
        "_payload": _text(row["_payload"]),
        "_headers": None
        if headers is None
        else [{"key": each["key"], "value": _text(each["value"])} for each in headers],
    }
    return orjson.dumps(encoded)


def _text(value: bytes | None) -> str | None:
    return None if value is None else base64.b64encode(value).decode()
