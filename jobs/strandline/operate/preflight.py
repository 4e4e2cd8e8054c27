"""May each table's stream go on with its checkpoint? Asked before a stream starts, and by itself; and what else a start refuses."""

from collections.abc import Iterator, Sequence

from pyspark.sql import SparkSession

from strandline.core.errors import LakeError
from strandline.core.table import Ingested, Recomputed, Table
from strandline.engine.flow import preflight as migrations
from strandline.engine.flow.compare_plans import Remedy
from strandline.engine.flow.preflight import (
    Verdict,
    judge,
    needs_look,
    needs_spark,
    refuse,
    with_topics,
)
from strandline.engine.flow.runner import Site
from strandline.engine.kafka import admin, local_broker
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.retired import fed, refuse_retired
from strandline.engine.runtime.open_files import refuse_too_many
from strandline.engine.runtime.settings import Settings
from strandline.operate import lakes, session
from strandline.operate.listener import Says
from strandline.operate.run import refuse_early


def with_absent_topics(
    verdicts: Sequence[Verdict],
    found: Settings,
    where: Lake,
    tables: Sequence[Table],
    says: Says,
) -> Iterator[Verdict]:
    """Yield verdicts, and of a table whose topic is not in Kafka, that it is to be made first, or must not be made anew.

    A broker that is away is no verdict about a table: the stream waits for it. Nor is one that refuses the client.
    """
    absent: set[str] = set()
    asked = [table for table in tables if table.topics]
    address = lakes.address(found, where) if asked else None
    if address is None and asked:
        says("no broker is known, so it was not looked whether each topic is there")
    elif address is not None:
        try:
            missing = admin.missing(address, found.kafka_options, asked)
            absent = {topic.name for topic in missing}
        except LakeError as error:
            says(f"it was not looked whether each topic is there: {error.message}")
    for table, verdict in zip(tables, verdicts, strict=True):
        yield with_topics(verdict, table, where, absent, at=str(address))


def refuse_unsafe(found: Settings, where: Lake, tables: Sequence[Table], says: Says) -> None:
    """Refuse to start streams of which one may not go on; Spark is started only where code or sources changed.

    Raises:
        DefinitionError: A table may not go on.
    """
    if any(needs_spark(table, where) for table in tables):
        refuse(*verdicts_of(found, where, tables, says, migrate=False))


def verdicts_of(  # noqa: PLR0913  # what is asked, where, and how far it may go
    found: Settings,
    where: Lake,
    tables: Sequence[Table],
    says: Says,
    *,
    migrate: bool,
    looks: bool = False,
) -> list[Verdict]:
    """Return whether each table's stream may go on; Spark is started only where code or sources changed.

    Args:
        found: The settings.
        where: The lake.
        tables: The tables that are asked about.
        says: Hears what takes time.
        migrate: Whether to do what the verdicts ask for, where no row must be computed again.
        looks: Whether to start Spark as well where what a stream searches was never looked at.
    """
    asks = any(
        needs_spark(table, where) or (looks and needs_look(table, where)) for table in tables
    )
    if not asks:
        return [judge(None, table, where) for table in tables]
    says("comparing plans, for which Spark starts …")
    spark = session.site(found, where, None, is_brief=True, says=says).spark
    try:
        return [_verdict(spark, table, where, says, migrate=migrate) for table in tables]
    finally:
        spark.stop()


def _verdict(
    spark: SparkSession, table: Table, where: Lake, says: Says, *, migrate: bool
) -> Verdict:
    verdict = judge(spark, table, where)
    can_be = bool(verdict.remedies) and Remedy.REBUILD not in verdict.remedies
    if migrate and can_be and not isinstance(table, Ingested | Recomputed):
        says(f"migrating {table.id} …")
        return migrations.migrate(spark, table, where)
    return verdict


def without_retired(tables: list[Table], where: Lake) -> list[Table]:
    """Leave out retired tables: a background stream is started with the names of its last start.

    Raises:
        RetiredError: No other is named.
    """
    left = fed(tables, where)
    if tables and not left:
        refuse_retired(tables[0], where)
    return left


def ready_to_stay(
    found: Settings, where: Lake, chosen: list[Table], says: Says, *, patient: bool
) -> Site:
    """Refuse early what cannot work, and start Spark for a stream; the lake's own broker is located whenever it is needed."""
    refuse_early(where, chosen)
    refuse_too_many(len(chosen))

    def locate() -> str | None:
        return lakes.address(found, where) or local_broker.remembered(where)

    needs_kafka = any(isinstance(table, Ingested) for table in chosen)
    if needs_kafka and not (patient and locate()):
        lakes.demanded_address(found, where)
    site = session.site(found, where, found.kafka, locate=locate, says=says)
    refuse(*(judge(site.spark, table, where) for table in chosen if needs_spark(table, where)))
    return site
