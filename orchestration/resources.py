"""What assets need from the world: one Spark session and the lake, through one door."""

from datetime import UTC, datetime

from dagster import ConfigurableResource

from jobs.core.errors import DefinitionError
from jobs.core.modes import AvailableNow
from jobs.core.table import Layer, Table
from jobs.run import broker, session
from jobs.run.lake import Lake
from jobs.run.report import Report
from jobs.run.runner import Site, run
from jobs.run.settings import settings


class LakeResource(ConfigurableResource):  # type: ignore[type-arg]  # the resource is its own value
    """The lake that the settings name, and what fills its tables."""

    def catch_up(self, table: Table) -> Report:
        """Bring one table up to date.

        Every asset of a run shares the process's one Spark session: starting another takes seconds.
        """
        found = settings()
        lake = Lake(found.lake).open_for_writing()
        address = found.kafka
        if address is None and table.layer is Layer.BRONZE:
            running = broker.status(lake.root)
            if running is None:
                raise DefinitionError(
                    f"no broker runs for {lake.root}",
                    hint="start ours with `strandline up`, or set STRANDLINE_KAFKA=host:port.",
                )
            address = running.address
        site = Site(
            spark=session.start(found, lake.log("spark")),
            clock=lambda: datetime.now(UTC),  # noqa: TID251  # Dagster's composition root
            address=address,
            options=found.kafka_options,
        )
        return run(table, AvailableNow(), lake, site=site)
