"""What assets need from the world: one Spark session and the lake, through one door."""

from collections.abc import Mapping
from typing import Any

from dagster import ConfigurableResource
from dagster_pyspark import LazyPySparkResource
from pydantic import Field

from jobs.cli import place
from jobs.cli.check import refuse_unbelieved
from jobs.core.modes import AvailableNow
from jobs.core.table import Table
from jobs.run import session
from jobs.run.backfill import MODE, backfill
from jobs.run.backlog import Backlog, Ends, Part
from jobs.run.balance import live_rows
from jobs.run.closing import Signed
from jobs.run.gates import Where
from jobs.run.guard import Guard
from jobs.run.ledger import last_entry
from jobs.run.needle import kinds
from jobs.run.report import Report
from jobs.run.runner import Site, run
from jobs.run.span import Span


class SparkResource(LazyPySparkResource):
    """The session of dagster-pyspark, started the way everything else here starts it.

    There is one a process, because starting another takes seconds: a whole chain runs in one application, and an
    asset of somebody else's that asks for a ``LazyPySparkResource`` is given Delta and Kafka's connector with it.
    """

    spark_config: dict[str, Any] = Field(default_factory=dict)

    @property
    def spark_session(self) -> Any:  # noqa: ANN401  # as its parent says
        """Start Spark, or return what runs."""
        found, lake = place.configured(None)
        return session.start(found, lake.log("spark"))


class LakeResource(ConfigurableResource):  # type: ignore[type-arg]  # the resource is its own value
    """The lake that the settings name, and what fills its tables."""

    def catch_up(self, table: Table, spark: SparkResource) -> Report:
        """Bring one table up to date, just as ``strandline run`` does."""
        found, lake = place.configured(None)
        lake.open_for_writing()
        address = place.demanded_address(found, lake) if table.topics else None
        site = Site(
            spark=spark.spark_session,
            clock=place.now,
            address=address,
            options=found.kafka_options,
        )
        return run(table, AvailableNow(), lake, site=site)

    def recompute(self, table: Table, span: Span, spark: SparkResource) -> Report:
        """Compute a closed range of a table again, just as ``strandline backfill`` does."""
        _, lake = place.existing(None)
        lake.refuse_missing(table)
        guard = Guard(table, lake, place.now, Where.RANGE) if table.judges else None
        signed = Signed(who=place.login(), at=place.now())
        session_ = spark.spark_session
        report = Report(table=table.id, mode=MODE)
        report.add(backfill(session_, table, lake, span, signed, guard=guard))
        refuse_unbelieved(session_, table, lake, span)
        return report

    def columns(self, table: Table) -> Mapping[str, str]:
        """Return the columns that a table has, and their types; from its log, without Spark."""
        _, lake = place.configured(None)
        return kinds(lake.table(table))

    def rows(self, table: Table) -> int:
        """Return how many rows a table has; from its log as well."""
        _, lake = place.configured(None)
        return live_rows(lake.table(table))

    def ends(self, table: Table) -> Mapping[Part, Ends]:
        """Return how far the topics of a table go, and how far it has read them."""
        found, lake = place.configured(None)
        newest = last_entry(lake.table(table)) if lake.exists(table) else None
        backlog = Backlog(place.demanded_address(found, lake), found.kafka_options, table.topics)
        try:
            return backlog.ends(newest[1].offsets if newest else {})
        finally:
            backlog.close()
