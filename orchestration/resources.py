"""What assets need from the world: one Spark session and the lake, through one door."""

from dagster import ConfigurableResource

from jobs.cli import engine, place
from jobs.core.modes import AvailableNow
from jobs.core.table import Layer, Table
from jobs.run.report import Report
from jobs.run.runner import run


class LakeResource(ConfigurableResource):  # type: ignore[type-arg]  # the resource is its own value
    """The lake that the settings name, and what fills its tables."""

    def catch_up(self, table: Table) -> Report:
        """Bring one table up to date, just as ``strandline run`` does.

        Every asset of a run shares the process's one Spark session: starting another takes seconds.
        """
        found, lake = place.configured(None)
        lake.open_for_writing()
        reads_kafka = table.layer is Layer.BRONZE
        address = place.demanded_address(found, lake) if reads_kafka else None
        return run(table, AvailableNow(), lake, site=engine.site(found, lake, address))
