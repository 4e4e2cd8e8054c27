"""A lake of a few tables whose commits are made as a test wants them, without a JVM: for tests of what only reads logs."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from pyspark.sql import DataFrame

from strandline.core.table import Appended, Ingested, Judged, Recomputed, Table
from strandline.core.topic import Topic
from strandline.engine.ask.find_moment import Finder
from strandline.engine.ask.sql_query import ask
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.commit_log import commit_file
from strandline.engine.lake.log.ledger import latest_version
from tests.engine.written import entry, numbers, written


def _unused(*_: DataFrame) -> DataFrame:
    raise NotImplementedError


ORDERS = Ingested(name="orders", reads=(Topic(name="orders"),))
SILVER = Judged(
    name="orders", reads=(ORDERS,), transform=_unused, key=("number",), event_at="ordered_at"
)
PAID = Appended(
    name="paid", reads=(SILVER,), transform=_unused, key=("number",), event_at="ordered_at"
)
SENT = replace(PAID, name="sent")
DAILY = Recomputed(
    name="daily",
    reads=(PAID,),
    transform=_unused,
    key=("number",),
    window="1 day",
    window_from="day",
)
TABLES: tuple[Table, ...] = (ORDERS, SILVER, PAID, SENT, DAILY)


class Written:
    """A lake whose tables commit as a test wants it; each batch of bronze has as many rows as its number."""

    def __init__(self, root: Path) -> None:
        """Begin with nothing."""
        self.lake = Lake(root)
        self._batches = Counter[Table]()

    def bronze(self) -> None:
        """Commit the next two records."""
        first = 2 * self._batches[ORDERS]
        offsets = {"orders/0": (first, first + 2)}
        self.commit(ORDERS, 2, read=2, good=2, offsets=offsets)

    def silver(self, *, held: int = 0) -> None:
        """Read all that bronze has; hold some of the records of the last commit."""
        batch, last = self._batches[SILVER], latest_version(self.lake.table(ORDERS))
        first = self._read(SILVER, ORDERS)
        rows = 2 * (last - first + 1)
        known = {
            "read": rows,
            "good": rows - held,
            "quarantined": {"late": held} if held else {},
            "versions": {ORDERS.id: (first, last)},
        }
        if held:
            made = entry(SILVER, batch=batch, written=rows - held, **known).encoded()
            written(self.lake.quarantine(SILVER), numbers(held), made)
        self.commit(SILVER, rows - held, **known)

    def above(self, table: Table, until: int | None = None, *, rows: int | None = None) -> None:
        """Read what the source has, up to a version."""
        (source,) = table.upstream
        last = latest_version(self.lake.table(source)) if until is None else until
        first = 0 if isinstance(table, Recomputed) else self._read(table, source)
        count = 2 * (last - first + 1) if rows is None else rows
        self.commit(table, count, read=count, good=count, versions={source.id: (first, last)})

    def repaired(self, table: Table, since: str = "2026-11-20T00:00:00+00:00") -> None:
        """Commit a backfill that changes a row."""
        until = "2026-11-21T00:00:00+00:00"
        made = entry(table, mode="backfill", batch=0, since=since, until=until, came=1, gone=1)
        written(self.lake.table(table), numbers(1), made.encoded())

    def behind(self) -> dict[str, str]:
        """Return the tables that are in no moment now, with the reason."""
        found = Finder(self.lake).find(TABLES)
        assert found is not None
        return {**found.behind}

    def put_together(self, table: Table) -> None:
        """Commit what changes no row, as maintenance does."""
        path = self.lake.table(table)
        file = commit_file(path, latest_version(path) + 1)
        file.put('{"commitInfo":{"timestamp":1790000000000,"operation":"OPTIMIZE"}}\n')

    def versions(self, *tables: Table) -> dict[str, int]:
        """Return the versions that a moment has now."""
        found = Finder(self.lake).find(TABLES)
        assert found is not None
        wanted = [each.id for each in tables] or [*found.ids]
        return {name: found.versions[name] for name in wanted}

    def _read(self, table: Table, source: Table) -> int:
        found = Finder(self.lake)._of(table)
        found.look()
        return found.read(found.newest, [source.id])[source.id] + 1

    def commit(self, table: Table, rows: int, **fields: object) -> None:
        """Commit rows with an entry."""
        made = entry(table, **{"batch": self._batches[table], "written": rows, **fields})
        written(self.lake.table(table), numbers(rows), made.encoded())
        self._batches[table] += 1


def level(root: Path) -> Written:
    """Return a lake whose tables are level: two commits of bronze, each read by itself."""
    made = Written(root)
    for _ in range(2):
        made.bronze()
        made.silver()
        made.above(PAID)
        made.above(SENT)
    made.above(DAILY)
    return made


NAMES = ("bronze.orders", "silver.orders", "gold.paid", "gold.sent")


def counts(shop: Written, names: Sequence[str], end: str = "") -> list[object]:
    asked = ", ".join(f"(SELECT count(*) FROM {name})" for name in names)  # noqa: S608  # our own names
    return [*ask(f"SELECT {asked} {end}", TABLES, shop.lake).rows[0]]
