"""A lake in Python, to be read: tables by name, as DuckDB, Arrow, Polars or Spark, with their types.

>>> from strandline.engine.trace.lake_reader import lake
>>> lake()["gold.device_daily"].arrow(at=12)  # doctest: +SKIP

It has no verb that writes, and each read opens the table anew. Sensitive columns are masked as in ``strandline query``: within
one read equal values have equal masks. A reader that shows them has a reason, and each read is written down with it.
"""

from collections.abc import Iterator
from difflib import get_close_matches

from strandline import catalog

from strandline.core.errors import DefinitionError
from strandline.engine.accounting.balance_sheet import balance
from strandline.engine.runtime import clock
from strandline.engine.runtime.settings import settings
from strandline.engine.storage.duckdb_session import session
from strandline.engine.storage.lake import Lake
from strandline.engine.storage.place import Place
from strandline.engine.trace import sql_text
from strandline.engine.trace.masked_views import names
from strandline.engine.trace.named_tables import sources
from strandline.engine.trace.table_reader import Readings, Rows, Scope
from strandline.engine.trace.verdict import Finding, World
from strandline.engine.trace.why import why


def lake(where: str | None = None, *, unmasked: str | None = None) -> "Readable":
    """Open a lake to read it.

    Args:
        where: Its folder or address; that of the settings when absent.
        unmasked: Why sensitive columns are shown in the clear; masked when absent.

    Raises:
        DefinitionError: There is no lake, or the reason is empty.
        TransientError: It is being restored.
    """
    found = settings(lake=where)
    place = Lake(Place.of(found.lake))
    if not place.root.exists():
        raise DefinitionError(
            f"there is no lake at {place.root}", hint="name another: lake('path/of/a/lake')."
        )
    place.refuse_restoring()
    readable = Readable(place, catalog.tables(), found, unmasked)
    if unmasked is not None:
        readable.write_down("lake()")
    return readable


class Readable(Scope):
    """A lake that can be read and not be changed."""

    __slots__ = ()

    def tables(self) -> list[str]:
        """Return the names of the tables that exist: all layers, quarantines, resolutions, the ledger, the history."""
        return names(self.all, self.place)

    def sql(self, text: str) -> "Rows":
        """Return the rows of one SELECT over these tables, as ``strandline query`` answers it."""
        return Rows(self, sql_text.read(session(), text), text)

    def why(self, event: str, table: str | None = None) -> Finding:
        """Return where an event is and why, as ``strandline why`` does without asking Kafka.

        Args:
            event: TOPIC/PARTITION/OFFSET, or the value of a table's key.
            table: The table that it should be in; the one that judges it when absent.
        """
        wanted = catalog.find(table) if table else None
        return why(event, wanted, World(lake=self.place, now=clock.now()))

    def ledger(self) -> list[dict[str, object]]:
        """Return the balance sheet of each table that exists, as ``strandline ledger`` shows it."""
        sheets = [balance(table, self.place) for table in self.all if self.place.exists(table)]
        return [
            {
                "table": sheet.table,
                "read": sheet.read,
                "good": sheet.good,
                "duplicates": sheet.duplicates,
                "quarantined": sum(sheet.quarantined.values()),
                "dropped": sheet.dropped_by_watermark,
                "lost": sheet.lost_by_function,
                "made": sheet.made_by_function,
                "healed": sheet.healed,
                "balanced": sheet.balanced,
            }
            for sheet in sheets
        ]

    def __getitem__(self, name: str) -> "Readings":
        known = self.tables()
        if name not in known:
            likely = get_close_matches(name, known, n=1) or [
                each for each in known if each.endswith(f".{name}")
            ]
            listed = (
                f"did you mean {likely[0]}?" if likely else f"the tables are {', '.join(known)}."
            )
            raise DefinitionError(f"there is no table {name} in {self.place.root}", hint=listed)
        return Readings(self, name, sources(self.all, self.place)[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self.tables())

    def __repr__(self) -> str:
        shown = "masked" if self.unmasked is None else f"unmasked: {self.unmasked}"
        return "\n  ".join(
            [
                f"the lake {self.place.root}, read-only, {shown}; lake['gold.…'].polars(), .arrow(), .duckdb(), .spark()",
                *self.tables(),
            ]
        )

    def _ipython_key_completions_(self) -> list[str]:
        return self.tables()
