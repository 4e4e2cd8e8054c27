"""Spark for the use cases that need it, for trying an edit, and for a project's tests; the others must not even import all of it."""

import atexit
import os
import re
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeAlias

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from strandline import catalog

from strandline.core.errors import DefinitionError
from strandline.core.kind import length_of, shifted
from strandline.core.routes import WriterSchema, schemas_from
from strandline.core.stateful import explained
from strandline.core.static import frames_from
from strandline.core.table import Computed, Ingested, Judged, Table
from strandline.core.topic import IDENTITY, ITEM, RECEIVED, SKIPPED
from strandline.core.verdict import good_rows, judged, judged_items, own_columns, without_skipped
from strandline.engine.flow.batch.batch_accounting import skip_of
from strandline.engine.flow.batch.event_joins import frame_of_now
from strandline.engine.flow.function_plan import hidden_if_run
from strandline.engine.flow.provisional import moment_of, over_now, reads_from, since
from strandline.engine.flow.runner import Site
from strandline.engine.flow.running import Parent, Recorder, together, unmeasured, unrecorded
from strandline.engine.lake.commit.delta_commit import rows_at
from strandline.engine.lake.completeness import PROVISIONAL
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger import latest_version
from strandline.engine.lake.plain_files import is_scratch
from strandline.engine.runtime import clock, spark_session
from strandline.engine.runtime.jvm import loss
from strandline.engine.runtime.processes import let_give_way, own
from strandline.engine.runtime.settings import (
    Settings,
    lineage_namespace,
    telemetry,
    trace_above,
)
from strandline.engine.service.backlog import GroupOffsets
from strandline.engine.service.process_cost import account_of
from strandline.engine.service.stream_health import beats
from strandline.operate.lakes import address
from strandline.operate.listener import Says
from strandline.project import refuse_without

BESIDE = 5
"""How much work beside a stream gives way: a third of the share of a program that does not. With 10, a tenth, a migration on two cores
that eight other programs wanted had not compared its plans after five minutes; with 5 it took two and a half."""


def site(  # noqa: PLR0913  # what a run needs from outside
    found: Settings,
    lake: Lake,
    where: str | None,
    *,
    says: Says,
    is_brief: bool = False,
    locate: Callable[[], str | None] = lambda: None,
    parent: Parent | None = None,
    beside: bool = False,
    feeds: bool = False,
) -> Site:
    """Start Spark and return it with the clock, the address of Kafka, and what records runs.

    Args:
        found: The settings.
        lake: The lake.
        where: Kafka's address; None where it is not known yet.
        says: Hears what takes time.
        is_brief: Whether it will run for a minute at most.
        locate: Finds Kafka.
        parent: What started this, of which its runs are parts.
        beside: Whether this is work beside a stream, and gives way to one that lives on this machine.
        feeds: Whether it is for feeds, of whose runs no record hears.
    """
    record = recorder(lake, says, lambda: where or locate(), parent)
    if found.consumer_group and not is_scratch(lake.root):
        record = together(record, group_offsets(found, lake, says).record)
    gives_way = beside and _has_stream(lake)
    if gives_way:
        let_give_way(os.getpid(), BESIDE)
        if found.master is None:  # of a cluster, the cores say how many partitions state has
            found = replace(found, cores=max(1, found.cores // 2))
    log = lake.program_log("spark")
    nice = BESIDE if gives_way else 0
    spark = spark_session.start(found, log, is_brief=is_brief, nice=nice)
    apart = unmeasured
    if not is_scratch(lake.root):
        account = account_of(lake, spark, clock.now, found.cores)
        record, apart = together(record, account.record), account.apart
        if feeds:
            account.has_feeds()
    return Site(
        spark=spark,
        clock=clock.now,
        address=where,
        locate=locate,
        options=found.kafka_options,
        says=says,
        record=record,
        apart=apart,
    )


def _has_stream(lake: Lake) -> bool:
    here = own()["host"]
    return any(beat["alive"] and beat.get("host") == here for beat in beats(lake, clock.now()))


def recorder(
    lake: Lake,
    says: Says,
    kafka: Callable[[], str | None] = lambda: None,
    parent: Parent | None = None,
) -> Recorder:
    """Return what records runs of a lake's tables, by the configurations of OpenLineage and OpenTelemetry.

    Raises:
        DefinitionError: A receiver is configured, and its client is not installed: it would miss every run.
    """
    if is_scratch(lake.root):
        return unrecorded
    found = (_of_lineage(lake, says, kafka, parent), _of_traces(lake, says, parent))
    known = [each for each in found if each is not None]
    return together(*known) if known else unrecorded


def _of_lineage(
    lake: Lake, says: Says, kafka: Callable[[], str | None], parent: Parent | None
) -> Recorder | None:
    namespace = lineage_namespace()
    if namespace is None:
        return None
    # Not imported above: most programs send no events, and the client takes a third of a second.
    refuse_without("lineage")
    from strandline.engine.flow.lineage_events import RunRecorder, sender  # noqa: PLC0415  # as above

    sends = sender(says)
    if sends is None:
        return None
    return RunRecorder(
        lake=lake, sender=sends, clock=clock.now, kafka=kafka, namespace=namespace, parent=parent
    ).record


def _of_traces(lake: Lake, says: Says, parent: Parent | None) -> Recorder | None:
    if "traces" not in telemetry():
        return None
    # Not imported above: most programs send no spans, and the SDK takes a third of a second.
    refuse_without("otel")
    from strandline.engine.service.telemetry import SpanRecorder  # noqa: PLC0415  # as above

    return SpanRecorder.of(lake, says, parent, trace_above()).record


def run_over(run: str) -> None:
    """Hear that a run of another program is over, of which runs of tables were parts."""
    if "traces" in telemetry():
        from strandline.engine.service import telemetry as spans  # noqa: PLC0415  # as above

        spans.run_over(run)


_groups: dict[tuple[str, str], GroupOffsets] = {}
"""Of each lake one in a process: Dagster asks for a site with each table."""


def group_offsets(found: Settings, lake: Lake, says: Says) -> GroupOffsets:
    """Return what keeps the consumer groups of a lake at what its tables have read."""
    of = (str(lake.root), found.consumer_group or "")
    if of not in _groups:
        where = partial(address, found, lake)
        _groups[of] = GroupOffsets(
            lake, of[1], address=where, options=found.kafka_options, says=says
        )
        atexit.register(_groups[of].drain)
    return _groups[of]


PLAIN = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.subexpressionElimination.enabled": "false",
    "spark.sql.ui.explainMode": "simple",
    "spark.broadcast.compress": "false",
    "spark.shuffle.compress": "false",
}
"""Spark would generate and compile code for a handful of rows, and write down each plan for a page that a test has not."""

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)


@contextmanager
def trial_spark(folder: Path) -> Iterator[SparkSession]:
    """Start a small Spark for tests, with its files in a folder, and stop it at the end.

    A function that is called meanwhile joins its static tables with what their sources have, as if that were the one version.
    """
    # The settings of the environment are for a lake.
    sizes = Settings(cores=2, memory="1g", shuffle_partitions=2)
    added = spark_session.Added(options=PLAIN)
    session = spark_session.start(sizes, folder / "spark.log", is_brief=True, added=added)
    try:
        with frames_from(frame_of_now):
            yield session
    finally:
        session.stop()


def judge(  # noqa: PLR0913  # what a record has
    spark: SparkSession,
    table: Judged,
    *payloads: bytes,
    arrived_at: datetime = NOON,
    topic: str | None = None,
    schemas: Iterable[WriterSchema] = (),
    key: bytes = b"key",
    headers: Mapping[str, bytes] | None = None,
) -> list[dict[str, object]]:
    """Return what a silver table makes of payloads, in their order.

    Args:
        spark: A session.
        table: The table.
        payloads: The payloads of records.
        arrived_at: When all of them arrived.
        topic: The topic that they came from; the table's first when None.
        schemas: What a schema registry knows, for a topic of ``registered()``; of any other id a payload is ``unknown_schema``.
        key: The key of each record.
        headers: The headers of each record.

    Returns:
        The table's columns, and in ``reasons`` why the row goes to the quarantine; None for a good row. Where the table passes
        records over, in ``skipped`` the name of the rule; where it makes rows of a list, a row of each item of a good record.
    """
    name = topic or table.reads[0].topics[0].name
    given = list((headers or {}).items())
    received: list[tuple[object, ...]] = [
        (name, 0, number, arrived_at, key, payload, given, 0, arrived_at, None)
        for number, payload in enumerate(payloads)
    ]
    known = {each.number: each for each in schemas}
    with schemas_from(known.get), frames_from(frame_of_now):
        rows = judged(spark.createDataFrame(received, RECEIVED), table, keeps_skipped=True)
        found = [*_records(rows, table), *_items(rows, table)]
    return [row for _, row in sorted(found, key=lambda each: each[0])]


Placed: TypeAlias = tuple[tuple[int, int], dict[str, object]]
"""A row, with the number of its payload and its place in the list."""


def _records(rows: DataFrame, table: Judged) -> Iterator[Placed]:
    """Yield payloads that are one row, or none."""
    own = [name for name in own_columns(rows) if name not in {*IDENTITY, table.rows}]
    skip = skip_of(table)
    if table.rows:
        rows = rows.where(F.col("_reasons").isNotNull() | skip.isNotNull())
    for row in rows.select("_offset", *own, "_reasons", skip.alias(SKIPPED)).collect():
        shown = row.asDict(recursive=True)
        place, reasons, skipped = (shown.pop(name) for name in ("_offset", "_reasons", SKIPPED))
        more = {"skipped": skipped} if table.passes_over else {}
        yield (place, 0), {**shown, "reasons": reasons, **more}


def _items(rows: DataFrame, table: Judged) -> Iterator[Placed]:
    """Yield the rows of believed payloads with a list."""
    if not table.rows:
        return
    for row in judged_items(without_skipped(rows, table), table).collect():
        shown: dict[str, Any] = {**row.asDict(recursive=True), "skipped": None}
        shown["reasons"] = shown.pop("_reasons")
        yield (
            (shown["_offset"], shown[ITEM]),
            {name: value for name, value in shown.items() if name not in IDENTITY},
        )


# A table is tried: its function over the last rows of what it reads, in a batch, and nothing is written.
#
# For one that is not in the lake yet, and for an edit before it runs: what are its rows, and what does Spark make of it?

MOST = 1_000_000
"""Rows of a table that are read at most."""

SHORT = {
    "ms": "milliseconds",
    "s": "seconds",
    "m": "minutes",
    "min": "minutes",
    "h": "hours",
    "d": "days",
    "w": "weeks",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """What a table gives.

    Args:
        table: Its name.
        since: The beginning of the time whose rows were read.
        until: Its end, the newest event of what it reads.
        read: The number of rows read of each table.
        columns: The names and types of its columns.
        rows: Some of its rows, sensitive values masked.
        count: How many there are.
        held: Of a table that judges: how many records each reason would hold.
        skipped: Of such a table: how many it passes over, by name.
        plan: What Spark does, an operator a line.
        notes: What is not as it will be when the table runs, each a sentence.
    """

    table: str
    since: datetime
    until: datetime
    read: Mapping[str, int]
    columns: Mapping[str, str]
    rows: Sequence[Sequence[object]]
    count: int
    plan: Sequence[str]
    held: Mapping[str, int] = field(default_factory=dict)
    skipped: Mapping[str, int] = field(default_factory=dict)
    notes: Sequence[str] = ()


def named(name: str) -> Computed:
    """Return the table of a name, with or without its layer.

    Raises:
        DefinitionError: There is none, several have the name, or it is of bronze.
    """
    same = [
        each for each in catalog.tables() if each.name == name and not isinstance(each, Ingested)
    ]
    if len(same) > 1:
        raise DefinitionError(
            f"several tables are named {name}",
            hint=f"name one of {' and '.join(each.id for each in same)}.",
        )
    table = same[0] if same else catalog.find(name)
    if isinstance(table, Ingested):
        raise DefinitionError(
            f"{table.id} is as received; there is no function to try",
            hint="name a table of silver or gold.",
            table=table.id,
        )
    return table


def length(text: str) -> timedelta:
    """Return a length from a text such as ``1h``, ``90 minutes`` or ``2d``.

    Raises:
        DefinitionError: It is none.
    """
    found = re.fullmatch(r"\s*(\d+)\s*([a-z]+)\s*", text.lower())
    unit = SHORT.get(found[2], found[2]) if found else ""
    with suppress(ValueError, OverflowError):
        return length_of(f"{found[1]} {unit}" if found else text)
    raise DefinitionError(f"{text!r} is no length of time", hint="write 1h, 30m, 2d or 90 minutes.")


def refuse_unread(table: Computed, lake: Lake) -> None:
    """Refuse a table whose sources have no rows, before Spark starts.

    Raises:
        DefinitionError: One was never made.
    """
    for source in table.upstream:
        if not lake.exists(source):
            raise DefinitionError(
                f"{table.id} reads {source.id}, which has no rows in {lake.root} yet",
                hint=f"run it first: `strandline run {source.id}`; or `strandline demo` fills the lake.",
                table=table.id,
                source=source.id,
            )


def tried(  # noqa: PLR0913  # which table, where, and what is shown
    spark: SparkSession,
    table: Computed,
    lake: Lake,
    last: timedelta,
    most: int,
    *,
    is_open: bool = False,
) -> Trial:
    """Run a table's function over the last rows of what it reads.

    Args:
        spark: The session.
        table: The table.
        lake: The lake; nothing is written.
        last: How much of event time is read; of bronze, of arrivals.
        most: How many rows are returned.
        is_open: Whether all windows that are not over are computed instead, from all rows that are known of them; each row is marked.

    Raises:
        DefinitionError: What it reads has no rows, or the function does not run; or it has no windows that are ever open.
    """
    whole = [
        rows_at(spark, lake.table(each), latest_version(lake.table(each)))
        for each in table.upstream
    ]
    until = _newest(table, whole)
    over = over_now(table, lake, spark) if is_open else None
    begin = reads_from(spark, table, lake, over) if over else shifted(until, -last)
    sources = [
        _within(rows, source, begin, until)
        for rows, source in zip(whole, table.upstream, strict=True)
    ]
    read = {source.id: rows.count() for rows, source in zip(sources, table.upstream, strict=True)}
    secret = hidden_if_run(spark, table, lake)
    try:
        with frames_from(frame_of_now):
            rows, held, skipped = _computed(table, sources)
            if over is not None:
                is_not_over = F.col(str(table.closes_at)) > F.lit(over)
                rows = rows.where(is_not_over).withColumn(PROVISIONAL, F.lit(True))  # a value
            kept = rows.persist()
            try:
                count, shown = kept.count(), [[*row] for row in kept.limit(most).collect()]
            finally:
                kept.unpersist()
            plan = short(explained(rows))
    except PySparkException as error:
        if loss(error):
            raise
        raise DefinitionError(
            f"{table.id} does not run over these rows: {str(error).strip().splitlines()[0]}",
            hint="correct its function, and try again.",
            table=table.id,
        ) from error
    salt = secrets.token_hex()
    return Trial(
        table=table.id,
        since=begin,
        until=until,
        read=read,
        columns={each.name: each.dataType.simpleString() for each in rows.schema},
        rows=[_masked(row, rows.columns, secret, salt) for row in shown],
        count=count,
        plan=plan,
        held=held,
        skipped=skipped,
        notes=[*_notes(table, read, begin, is_open=is_open)],
    )


def _notes(
    table: Computed, read: Mapping[str, int], since: datetime, *, is_open: bool
) -> Iterator[str]:
    for source, count in read.items():
        if count >= MOST:
            less = (
                "the open windows lack the others" if is_open else "read less of the time by --last"
            )
            yield f"of {source} no more than {MOST:,} rows are read, and which is chance: {less}"
    if getattr(table, "window_from", None):
        yield f"a window that begins before {since:%Y-%m-%d %H:%M:%S} has only its rows from then on"


def _newest(table: Computed, sources: Sequence[DataFrame]) -> datetime:
    """Return the time of the newest event of what is read; an interval's begin is none."""
    timed = [
        (rows, source)
        for rows, source in zip(sources, table.upstream, strict=True)
        if not source.valid_until
    ] or [*zip(sources, table.upstream, strict=True)]
    found = [
        rows.agg(F.max(F.unix_micros(moment_of(source)))).collect()[0][0] for rows, source in timed
    ]
    known = [each for each in found if each is not None]
    if not known:
        names = " and ".join(source.id for _, source in timed)
        raise DefinitionError(
            f"{names} has no rows yet, so there is nothing to try {table.id} on",
            hint="let rows come first: `strandline run`, or `strandline demo`.",
            table=table.id,
        )
    return shifted(datetime.fromtimestamp(0, tz=UTC), timedelta(microseconds=max(known)))


def _within(rows: DataFrame, source: Table, begin: datetime, until: datetime) -> DataFrame:
    return since(rows, source, begin).where(F.col(moment_of(source)) <= until).limit(MOST)


def _computed(
    table: Computed, sources: Sequence[DataFrame]
) -> tuple[DataFrame, dict[str, int], dict[str, int]]:
    """Return the rows of a table, and of one that judges how many records are none, and why."""
    if not isinstance(table, Judged):
        return table.computed(*sources), {}, {}
    (events,) = sources
    verdicts = judged(events, table, keeps_skipped=True)
    reasons = without_skipped(verdicts, table).select(F.explode("_reasons").alias("why"))
    skipped: dict[str, int] = {}
    if table.passes_over:
        passed = verdicts.where(F.col(SKIPPED).isNotNull())
        skipped = dict(passed.groupBy(SKIPPED).count().collect())
    held: dict[str, int] = dict(reasons.groupBy("why").count().collect())
    return good_rows(without_skipped(verdicts, table), table), held, skipped


def _masked(
    row: Sequence[Any], columns: Sequence[str], secret: frozenset[str], salt: str
) -> list[object]:
    """Return a row with its sensitive values as `query` shows them: a hash, salted with a number that is drawn anew."""
    return [
        f"[{sha256(f'{salt}{value}'.encode()).hexdigest()[:12]}]"
        if name in secret and value is not None
        else value
        for name, value in zip(columns, row, strict=True)
    ]


WIDE, LONG = 110, 16


def short(plan: str) -> list[str]:
    r"""Return a plan without numbers and details, an operator a line.

    >>> short("== Physical Plan ==\n*(1) Project [a#1, b#2L]\n+- FileScan parquet [a#1] Batched: true, PushedFilters: []")
    ['Project [a, b]', '+- FileScan parquet [a] Batched: true, PushedFilters: []']
    """
    lines = [each.rstrip() for each in plan.splitlines() if each.strip() and "==" not in each]
    bare = (re.sub(r"\*\(\d+\) |#\d+L?", "", each) for each in lines)
    found = [each if len(each) <= WIDE else f"{each[: WIDE - 1]}…" for each in bare]
    return found if len(found) <= LONG else [*found[:LONG], f"… and {len(found) - LONG} more"]
