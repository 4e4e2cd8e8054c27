"""What Spark's JVM loads at every start, kept in a form that it only has to map: Java's own class-data archive.

Without it every process parses and verifies the same classes anew: a `strandline run` with nothing to do took
14.0 s, from an archive 8.8 s (medians of three, side by side on 2 cores).

Set-up makes it once, by running tables of the project in a lake that is then removed. A Java that cannot make one
leaves an empty file and starts as before; a file that does not fit the Java or the jars the JVM passes over itself.
"""

import tempfile
from datetime import UTC, datetime
from pathlib import Path

from jobs.core.modes import AvailableNow
from jobs.core.received import RECEIVED
from jobs.core.table import Table
from jobs.gold import device_signal_10m, ip_holds
from jobs.run import delta, session
from jobs.run.lake import Lake
from jobs.run.ledger import Entry
from jobs.run.runner import Site, run
from jobs.run.settings import Settings
from jobs.silver import device_telemetry, dhcp_events

THEN = datetime(2026, 1, 1, tzinfo=UTC)
PAYLOAD = (
    b'{"event_id":"1","device_id":"d","signal":"s","value":1,"event_at":"2026-01-01T00:00:00Z"}'
)
EXIT = 180
"""Seconds that a JVM may take to write its archive."""


def make() -> None:
    """Make the archive unless it is there."""
    file = session.archive()
    if file is None or file.exists():
        return
    file.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=file.parent) as folder:
        draft = Path(folder) / "draft.jsa"
        _exercise(Lake(Path(folder) / "lake").open_for_writing(), draft)
        if not draft.exists():
            draft.touch()
        draft.replace(file)


def _exercise(lake: Lake, draft: Path) -> None:
    """Do a little of everything, and wait until the JVM is gone."""
    # The person's own settings are for their lake, and may be wrong.
    sizes = Settings.model_construct(cores=2, memory="1g", shuffle_partitions=2)
    spark = session.start(sizes, lake.log("spark"), is_brief=True, archives=draft)
    site = Site(spark=spark, clock=lambda: THEN)
    for silver, gold in ((device_telemetry, device_signal_10m), (dhcp_events, ip_holds)):
        (bronze,) = silver.TABLE.upstream
        _receive(site, bronze, lake)
        run(silver.TABLE, AvailableNow(), lake, site=site)
        run(gold.TABLE, AvailableNow(), lake, site=site)
    jvm = spark.sparkContext._gateway  # noqa: SLF001  # its process stands nowhere else
    spark.stop()
    process = getattr(jvm, "proc", None)
    if process is not None:
        process.stdin.close()
        process.wait(EXIT)


def _receive(site: Site, bronze: Table, lake: Lake) -> None:
    row: tuple[object, ...] = (bronze.name, 0, 0, THEN, None, PAYLOAD, [], 0, THEN)
    delta.create(site.spark, lake.table(bronze), RECEIVED)
    commit = delta.Commit(site.spark, lake.table(bronze))
    commit.write(site.spark.createDataFrame([row], RECEIVED).coalesce(1))
    entry = Entry(table=bronze.id, mode="", stream="", batch=0, source="", read=1, written=1)
    commit.commit(entry.encoded())


if __name__ == "__main__":
    make()
