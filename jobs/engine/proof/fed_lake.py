"""A lake of derived tables over the bronze tables of another lake, without a copy of them."""

from dataclasses import dataclass

from jobs.core.feed import Feed
from jobs.core.kind import Layer
from jobs.core.table import Table
from jobs.engine.storage.lake import Lake
from jobs.engine.storage.place import Place


@dataclass(frozen=True, slots=True)
class FedLake(Lake):
    """A lake whose bronze tables are those of another.

    Args:
        source: The lake with the bronze tables.
    """

    source: Lake

    def table(self, table: Table | Feed) -> Place:
        """Return the other lake's folder of a bronze table, and the own one of any other."""
        is_bronze = table.layer == Layer.BRONZE
        return self.source.table(table) if is_bronze else Lake.table(self, table)

    @property
    def schemas(self) -> Place:
        """Return the other lake's folder with the schemas of its payloads."""
        return self.source.schemas
