"""Spark for the use cases that need it, and a small one for the tests of a project; the others must not even import all of it."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeAlias

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from strandline.core.items import ITEM, SKIPPED
from strandline.core.routes import WriterSchema, schemas_from
from strandline.core.static import frames_from
from strandline.core.table import Judged
from strandline.core.topic import IDENTITY, RECEIVED
from strandline.core.verdict import judged, judged_items, own_columns, without_skipped
from strandline.engine.flow.batch.batch_accounting import skip_of
from strandline.engine.flow.batch.event_joins import frame_of_now
from strandline.engine.flow.run_recorder import Recorder, RunRecorder, unrecorded
from strandline.engine.flow.runner import Site
from strandline.engine.flow.running import Parent
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.plain_files import is_scratch
from strandline.engine.runtime import clock, spark_session
from strandline.engine.runtime.missing import refuse_without
from strandline.engine.runtime.processes import let_give_way, own
from strandline.engine.runtime.settings import Settings, lineage_namespace
from strandline.engine.service.stream_health import heartbeat
from strandline.operate.listener import Says

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
    """
    record = recorder(lake, says, lambda: where or locate(), parent)
    gives_way = beside and _has_stream(lake)
    if gives_way:
        let_give_way(os.getpid(), BESIDE)
        if found.master is None:  # of a cluster, the cores say how many partitions state has
            found = found.model_copy(update={"cores": max(1, found.cores // 2)})
    log = lake.program_log("spark")
    nice = BESIDE if gives_way else 0
    spark = spark_session.start(found, log, is_brief=is_brief, nice=nice)
    return Site(
        spark=spark,
        clock=clock.now,
        address=where,
        locate=locate,
        options=found.kafka_options,
        says=says,
        record=record,
    )


def _has_stream(lake: Lake) -> bool:
    beat = heartbeat(lake, clock.now())
    return beat is not None and beat["alive"] and beat.get("host") == own()["host"]


def recorder(
    lake: Lake,
    says: Says,
    kafka: Callable[[], str | None] = lambda: None,
    parent: Parent | None = None,
) -> Recorder:
    """Return what records runs of a lake's tables, by the configuration of OpenLineage; one that does nothing without.

    Raises:
        DefinitionError: A receiver is configured, and the client is not installed: its catalog would miss every run.
    """
    namespace = lineage_namespace()
    if namespace is None or is_scratch(lake.root):
        return unrecorded
    # Not imported above: most programs send no events, and the client takes a third of a second.
    refuse_without("lineage")
    from strandline.engine.runtime.lineage_sender import sender  # noqa: PLC0415  # as above

    sends = sender(says)
    if sends is None:
        return unrecorded
    return RunRecorder(
        lake=lake, sender=sends, clock=clock.now, kafka=kafka, namespace=namespace, parent=parent
    ).record


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
    sizes = Settings.model_construct(cores=2, memory="1g", shuffle_partitions=2)
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
