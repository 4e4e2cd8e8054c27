"""The slice as this project runs it: the declared tables through ``run``, of the one shape of event that is sent."""

import threading
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from pyspark.sql import SparkSession
from strandline import catalog

from fleet.silver import device_telemetry
from strandline.core.stateful import AvailableNow, MicroBatch
from strandline.core.table import Ingested, Judged, Table, Windowed
from strandline.core.topic import Topic
from strandline.engine.flow.runner import Site, run
from strandline.engine.lake.lake import Lake
from strandline.engine.runtime.settings import settings
from strandline.engine.runtime.spark_session import start
from tests.benchmarks.contestants.contestant import Place, Stop
from tests.benchmarks.contestants.queries import versions
from tests.benchmarks.yahoo.bronze import ad_events as bronze_ads
from tests.benchmarks.yahoo.gold import ad_views_10s
from tests.benchmarks.yahoo.silver import ad_events as silver_ads
from tests.support.upserted import upserted

YAHOO: dict[str, Table] = {
    table.id: table for table in (bronze_ads.TABLE, silver_ads.TABLE, ad_views_10s.TABLE)
}
"""The tables of the Yahoo streaming benchmark, which are in no catalog."""


class Strandline:
    """This engine."""

    def begin(self, log: Path) -> dict[str, str]:
        """Start Spark as the command line does."""
        return versions(start(settings(lake=log.parent), log))

    def catch_up(self, names: tuple[str, ...], place: Place) -> None:
        """Bring tables to where their sources end, each after those that it reads."""
        for name in names:
            run(_table(name, place), AvailableNow(), Lake(place.root), site=site_of(place))

    def follow(self, names: tuple[str, ...], place: Place) -> Stop:
        """Run tables always on, each in a thread, without a pause between batches."""
        stopped = threading.Event()
        lake, site = Lake(place.root), site_of(place)

        def keep(table: Table) -> None:
            run(table, MicroBatch(every=0.0), lake, site=site, stopped=stopped.is_set)

        tables = [_table(name, place) for name in names]
        threads = [threading.Thread(target=keep, args=(table,), daemon=True) for table in tables]
        for thread in threads:
            thread.start()

        def stop() -> None:
            stopped.set()
            for thread in threads:
                thread.join()

        return stop


def _table(name: str, place: Place) -> Table:
    table = YAHOO.get(name) or catalog.find(name)
    if isinstance(table, Ingested):
        return replace(table, reads=(Topic(name=place.topic),))
    if (
        isinstance(table, Judged) and name not in YAHOO
    ):  # the topic has events of one shape, and so has the job by hand
        return replace(table, transform=device_telemetry.newer)
    return upserted(table) if place.on_change and isinstance(table, Windowed) else table


def site_of(place: Place) -> Site:
    """Return with what a run works."""
    spark = SparkSession.getActiveSession()
    assert spark is not None
    clock = lambda: datetime.now(UTC)  # noqa: E731, TID251  # the benchmark is its own composition root
    return Site(spark=spark, clock=clock, address=place.address)
