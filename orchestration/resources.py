"""What assets need from the world: one Spark session and the lake, through one door."""

from collections.abc import Iterator, Mapping
from datetime import date
from pathlib import Path
from typing import Any

from dagster import ConfigurableResource
from dagster_pyspark import LazyPySparkResource
from pydantic import Field

from jobs import catalog
from jobs.cli import engine, place
from jobs.cli.again import again
from jobs.cli.oncall import always
from jobs.cli.report import gathered, written
from jobs.core.modes import AvailableNow
from jobs.core.table import Table
from jobs.run import pages
from jobs.run.always import Always
from jobs.run.backfill import MODE
from jobs.run.backlog import Part
from jobs.run.balance import live_rows
from jobs.run.ends import Ends, ends_of
from jobs.run.lake import Lake
from jobs.run.lineage import Columns, lineage
from jobs.run.needle import kinds
from jobs.run.report import Report
from jobs.run.runner import Site, run
from jobs.run.span import Span
from orchestration.answers import Answers
from quality.report.findings import Findings


class SparkResource(LazyPySparkResource):
    """The session of dagster-pyspark, started the way everything else here starts it.

    There is one a process, because starting another takes seconds: a whole chain runs in one application, and an
    asset of somebody else's that asks for a ``LazyPySparkResource`` is given Delta and Kafka's connector with it.
    """

    spark_config: dict[str, Any] = Field(default_factory=dict)

    @property
    def spark_session(self) -> Any:  # noqa: ANN401  # as its parent says
        """Start Spark, or return what runs."""
        return self.site().spark

    def site(self, address: str | None = None) -> Site:
        """Return the session with the clock and the address of Kafka."""
        found, lake = place.configured(None)
        return engine.site(found, lake, address)


class LakeResource(ConfigurableResource):  # type: ignore[type-arg]  # the resource is its own value
    """The lake that the settings name, and what fills its tables."""

    def catch_up(self, table: Table, spark: SparkResource) -> Report:
        """Bring one table up to date, just as ``strandline run`` does."""
        found, lake = place.configured(None)
        lake.open_for_writing()
        address = place.demanded_address(found, lake) if table.topics else None
        return run(table, AvailableNow(), lake, site=spark.site(address))

    def recompute(self, table: Table, span: Span, spark: SparkResource) -> Report:
        """Compute a closed range of a table again, just as ``strandline backfill`` does."""
        _, lake = place.existing(None)
        lake.refuse_missing(table)
        report = Report(table=table.id, mode=MODE)
        for _, entry in again(spark.spark_session, table, lake, span, downstream=False):
            if entry:
                report.add(entry)
        return report

    def lake(self) -> Lake:
        """Return the lake itself."""
        _, lake = place.configured(None)
        return lake

    def stream(self, by: str) -> Always:
        """Return its always-on stream, in somebody's hands."""
        found, lake = place.configured(None)
        return always(found, lake, by)

    def report(self, day: str | None) -> tuple[Findings, Path]:
        """Make the report of a day, just as ``strandline report`` does."""
        _, lake = place.existing(None)
        found = gathered(lake, day=day)
        return found, written(found, lake)

    def report_link(self, day: date | None = None) -> str | None:
        """Return where the report of a day, or of today, is read while `strandline ui` runs."""
        return pages.link(self.lake(), day or place.now().date())

    def columns(self, table: Table) -> Mapping[str, str]:
        """Return the columns that a table has, and their types; from its log, without Spark."""
        return kinds(self.lake().table(table))

    def rows(self, table: Table) -> int:
        """Return how many rows a table has; from its log as well."""
        return live_rows(self.lake().table(table))

    def lineage(self, table: Table, spark: SparkResource) -> Columns:
        """Return from which columns those of a table are made."""
        return lineage(spark.spark_session, table, self.lake())

    def ends(self) -> Iterator[tuple[Table, Mapping[Part, Ends]]]:
        """Return how far the topics of each table go, and how far it has read them."""
        found, lake = place.configured(None)
        address = place.demanded_address(found, lake)
        for table in catalog.tables():
            if table.topics:
                yield table, ends_of(table, lake, address, found.kafka_options)


RESOURCES = {"lake": LakeResource(), "spark": SparkResource(), "answers": Answers()}
"""By the names under which assets, steps and sensors ask for them."""
