"""The place of a table's provisional rows (jobs/strandline/engine/flow/provisional.py): a table of Delta's without a ledger, which any process may remove."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta

from strandline.core.errors import LakeError
from strandline.core.kind import LAST
from strandline.core.table import Table
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.commit_log import committed_at
from strandline.engine.lake.log.ledger import is_table, latest_version
from strandline.engine.lake.log.log_actions import live_files
from strandline.engine.lake.place import Place
from strandline.engine.lake.store_lease import HeldError, hold

PROVISIONAL = "provisional"
"""The column that marks them, and the first part of the name under which a table is asked for with them."""

READ_FOR = timedelta(minutes=15)
"""How long the files of replaced rows stay for questions that read them."""

STALE = timedelta(days=1)
"""After which they are removed where nothing computes them any more: by then rows below may be expired."""


def has_mark(columns: Iterable[str]) -> bool:
    """Return whether a column of a table's own has the name of the mark: Spark does not distinguish letters by their case."""
    return any(each.casefold() == PROVISIONAL for each in columns)


@dataclass(frozen=True, slots=True)
class Kept:
    """The provisional rows of a table.

    Args:
        place: The folder of their table.
    """

    place: Place

    def mend(self) -> None:
        """Remove what is no whole table: a kill may have met its removal."""
        if not self.place.exists():
            return
        try:
            is_whole = is_table(self.place) and bool(live_files(self.place).metadata)
        except (OSError, LakeError, ValueError):
            is_whole = False
        if not is_whole:
            self.place.remove()

    def sweep(self, now: datetime) -> None:
        """Delete the files of rows that were replaced long enough ago."""
        live = live_files(self.place).files.keys()
        for name in self.place.names():
            file = self.place / name
            is_dead = name.endswith(".parquet") and name not in live
            if is_dead and now - file.modified_at() > READ_FOR:
                file.remove()


@contextmanager
def alone(name: str, lake: Lake, *, waits: bool = False) -> Iterator[Kept]:
    """Have the provisional rows of a table to write, or to remove.

    Raises:
        HeldError: Another process has them, and this one does not wait.
    """
    with hold(lake.lease_of(f"{PROVISIONAL}.{name}"), waits=waits):
        yield Kept(lake.provisional(name))


def remove(lake: Lake, name: str) -> None:
    """Remove the provisional rows of a table, without waiting for what computes them: it looks afterwards whether they may stay.

    What it writes at that moment may be left; the verb that removes them goes on all the same.
    """
    lake.provisional(name).remove(if_possible=True)


def forget(lake: Lake) -> None:
    """Remove the provisional rows of all tables, for good: what is computed at this moment is awaited.

    The first computation of a table has its lease long before Spark makes the folder, which comes with the first file of the rows.
    """
    leases = lake.leases.names()
    suffix = lake.lease_of("").name
    first = f"{PROVISIONAL}."
    computed = [
        each[len(first) : -len(suffix)]
        for each in leases
        if each.startswith(first) and each.endswith(suffix)
    ]
    for name in sorted({*(lake.root / PROVISIONAL).names(), *computed}):
        with alone(name, lake, waits=True) as kept:
            kept.place.remove()


def remove_stale(lake: Lake, now: datetime, tables: Iterable[Table]) -> None:
    """Remove those that nothing computes any more, and what is no whole table.

    Those of a table that declares them stay while nothing came since: its stream sleeps, and they are what is known.

    Args:
        lake: The lake.
        now: The time.
        tables: The tables that are fed.
    """
    declare = {each.id: each for each in tables if getattr(each, PROVISIONAL, None)}
    for name in (lake.root / PROVISIONAL).names():
        with suppress(HeldError), alone(name, lake) as kept:
            kept.mend()
            place = kept.place
            if not place.exists():
                continue
            made = committed_at(place, latest_version(place))
            is_newest = name in declare and _changed_at(declare[name], lake) <= made
            if now - made > STALE and not is_newest:
                place.remove()


def _changed_at(table: Table, lake: Lake) -> datetime:
    """Return when a table or one that it needs had its newest commit."""
    places = [lake.table(each) for each in (table, *table.needs) if lake.exists(each)]
    return max((committed_at(each, latest_version(each)) for each in places), default=LAST)
