"""The lake of a demo: emptied at the begin, filled by all tables, with a broker of its own, and accounted for."""

import time
from collections.abc import Callable
from typing import TypeVar

from strandline import catalog

from strandline.core.errors import DefinitionError
from strandline.core.modes import AvailableNow
from strandline.engine.accounting.balance_sheet import Balance
from strandline.engine.flow.runner import run
from strandline.engine.kafka import admin, local_broker
from strandline.engine.lake.files.place import Place
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger import Entry
from strandline.engine.runtime.settings import settings
from strandline.operate import session
from strandline.operate.answers.ledger import sheets_of
from strandline.operate.listener import Says

MARK = ".strandline-demo"
"""A file in the demo's lake: a folder that has it may be deleted and made again."""

FORGOTTEN = 600.0
"""Seconds in which a store must list nothing of what was removed. SeaweedFS lists the names of emptied folders for some minutes, and
Spark refuses to begin beside one."""


Sent = TypeVar("Sent")


def filled(
    lake: str | None, send: Callable[[Lake, str], Sent], says: Says
) -> tuple[Lake, Sent, list[Balance]]:
    """Send events through an empty lake, and return where each is.

    Args:
        lake: The lake that was named.
        send: Sends the events of a lake to the broker at an address.
        says: Hears of what takes time.

    Returns:
        The lake, what was sent, and the balance of each table.

    Raises:
        DefinitionError: The folder holds something that no demo made.
    """
    where = Lake(Place.of(lake) if lake else Place.of(settings().lake) / "demo")
    _empty(where, says)
    says("starting a Kafka broker …")
    with local_broker.for_this_work(where) as running:
        admin.make_missing(running.address, catalog.tables())  # also topics that get no event
        sent = send(where, running.address)
        _run_tables(where, running.address, says)
    return where, sent, sheets_of(where)


def _empty(where: Lake, says: Says) -> None:
    """Empty the demo's lake.

    Raises:
        DefinitionError: The folder holds something that no demo made.
    """
    if where.root.names():
        if not (where.root / MARK).exists():
            raise DefinitionError(
                f"{where.root} is not empty, and not made by a demo",
                hint="choose an empty folder with --lake.",
            )
        local_broker.down(where)
        where.root.remove()
    if not where.root.is_local:
        # The broker's records are beside a lake on a store, and would be read again.
        local_broker.down(where)
        where.near.remove()
        _await_empty(where, says)
    where.open_for_writing()
    (where.root / MARK).put("")


def _await_empty(where: Lake, says: Says) -> None:
    deadline = time.monotonic() + FORGOTTEN
    if where.root.names():
        says(f"waiting until the store lists nothing in {where.root} any more …")
    while names := where.root.names():
        if time.monotonic() > deadline:
            raise DefinitionError(
                f"the store still lists {', '.join(names)} in {where.root}, which was removed",
                hint="choose another folder with --lake.",
            )
        time.sleep(1)


def _run_tables(where: Lake, address: str, says: Says) -> None:
    """Run every table once, over all that is in the topics."""
    says("starting Spark …")
    found = settings(lake=str(where.root))
    site = session.site(found, where, address, is_brief=True, says=says)
    for table in catalog.tables():

        def note_batch(entry: Entry) -> None:
            says(f"{entry.table}: {entry.read:,} rows read in {entry.duration_ms / 1000:.1f} s")

        run(table, AvailableNow(), where, site=site, on_commit=note_batch)
    site.spark.stop()
