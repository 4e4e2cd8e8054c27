"""The names that a query can have: those of tables, quarantines and lists of decisions, of the ledger and the history.

They are the same in DuckDB (jobs/strandline/engine/trace/masked_views.py) and over JDBC (jobs/strandline/engine/trace/lake_views.py), as is what is
masked of each.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from strandline.core.kind import Layer
from strandline.core.table import Judged, Table
from strandline.engine.pipeline.masked_columns import hidden, hidden_in_bronze
from strandline.engine.storage.lake import Lake
from strandline.engine.storage.place import Place

SCHEMAS = (*map(str, Layer), "quarantine", "resolutions", "ledger", "quality")
"""The first part of each name."""

ENTRIES = "ledger.entries"
HISTORY = "quality.history"


@dataclass(frozen=True, slots=True)
class Source:
    """What has a name in a query.

    Args:
        place: The folder of its Delta table.
        table: The table that it belongs to; None for what has no sensitive columns.
        is_quarantine: Whether it shows the open rows of a quarantine.
    """

    place: Place
    table: Table | None = None
    is_quarantine: bool = False

    def secret(self, tables: Collection[Table], lake: Lake) -> frozenset[str]:
        """Return its columns that are masked.

        Args:
            tables: All tables of the lake.
            lake: The lake.
        """
        if self.table is None:
            return frozenset()
        return hidden(self.table, lake) | hidden_in_bronze(self.table, tables)


def sources(tables: Collection[Table], lake: Lake) -> Mapping[str, Source]:
    """Return all names that a query can have, whether or not their tables exist yet."""
    return dict(_sources(tables, lake))


def _sources(tables: Collection[Table], lake: Lake) -> Iterator[tuple[str, Source]]:
    for table in tables:
        yield table.id, Source(lake.table(table), table)
        if isinstance(table, Judged):
            yield f"quarantine.{table.name}", Source(lake.quarantine(table), table, True)
            yield f"resolutions.{table.name}", Source(lake.resolutions(table), table)
    yield ENTRIES, Source(lake.closed_entries)
    yield HISTORY, Source(lake.history)
