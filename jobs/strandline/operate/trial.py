"""What the tests of a project need of the engine: a small Spark, and what a silver table makes of payloads."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeAlias

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from strandline.core.formats.writer_schema import WriterSchema, schemas_from
from strandline.core.items import ITEM, SKIPPED
from strandline.core.static import frames_from
from strandline.core.table import Judged
from strandline.core.topic import IDENTITY, RECEIVED
from strandline.core.verdict import judged, judged_items, own_columns, without_skipped
from strandline.engine.flow.batch.batch_accounting import skip_of
from strandline.engine.flow.batch.static_join import frame_of_now
from strandline.engine.runtime import spark_session
from strandline.engine.runtime.settings import Settings

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)


@contextmanager
def trial_spark(folder: Path) -> Iterator[SparkSession]:
    """Start a small Spark for tests, with its files in a folder, and stop it at the end.

    A function that is called meanwhile joins its static tables with what their sources have, as if that were the one version.
    """
    # The settings of the environment are for a lake.
    sizes = Settings.model_construct(cores=2, memory="1g", shuffle_partitions=2)
    session = spark_session.start(sizes, folder / "spark.log", is_brief=True)
    try:
        with frames_from(frame_of_now):
            yield session
    finally:
        session.stop()


def judge(
    spark: SparkSession,
    table: Judged,
    *payloads: bytes,
    arrived_at: datetime = NOON,
    topic: str | None = None,
    schemas: Iterable[WriterSchema] = (),
) -> list[dict[str, object]]:
    """Return what a silver table makes of payloads, in their order.

    Args:
        spark: A session.
        table: The table.
        payloads: The payloads of records.
        arrived_at: When all of them arrived.
        topic: The topic that they came from; the table's first when None.
        schemas: What a schema registry knows, for a topic of ``registered()``; of any other id a payload is ``unknown_schema``.

    Returns:
        The table's columns, and in ``reasons`` why the row goes to the quarantine; None for a good row. Where the table passes
        records over, in ``skipped`` the name of the rule; where it makes rows of a list, a row of each item of a good record.
    """
    name = topic or table.reads[0].topics[0].name
    received: list[tuple[object, ...]] = [
        (name, 0, number, arrived_at, b"key", payload, [], 0, arrived_at, None)
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
