"""What Spark's JVM loads at every start, kept in a form that it only has to map: Java's own class-data archive.

Without it every process parses and verifies the same classes anew: a `strandline run` with nothing to do took
14.0 s, from an archive 8.8 s (medians of three, side by side on 2 cores).

Set-up makes it once, by running a table of each way of speaking, whatever the domain, in a lake that is then removed.
A Java that cannot make one leaves an empty file and starts as before; a file that does not fit the Java or the jars
the JVM passes over itself.
"""

import tempfile
from datetime import UTC, datetime
from pathlib import Path

from jobs import catalog
from jobs.core.modes import AvailableNow
from jobs.core.received import RECEIVED
from jobs.core.table import Layer, Speaks, Table
from jobs.run import delta, session
from jobs.run.lake import Lake
from jobs.run.ledger import Entry
from jobs.run.runner import Site, run
from jobs.run.settings import Settings

THEN = datetime(2026, 1, 1, tzinfo=UTC)
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
    for table in _examples():
        if table.layer is Layer.BRONZE:
            _receive(site, table, lake)
        else:
            run(table, AvailableNow(), lake, site=site)
    jvm = spark.sparkContext._gateway  # noqa: SLF001  # its process stands nowhere else
    spark.stop()
    process = getattr(jvm, "proc", None)
    if process is not None:
        process.stdin.close()
        process.wait(EXIT)


def _examples() -> list[Table]:
    """Return the first table of each way of speaking that asks for one source alone, and what they rest on."""
    kinds: dict[tuple[Layer, Speaks], Table] = {}
    for table in catalog.tables():
        if len(table.upstream) == 1 and table.speaks is not Speaks.AFRESH:
            kinds.setdefault((table.layer, table.speaks), table)
    needed = {source for table in kinds.values() for source in _below(table)}
    return [table for table in catalog.tables() if table in needed]


def _below(table: Table) -> set[Table]:
    return {table, *(each for source in table.upstream for each in _below(source))}


def _receive(site: Site, bronze: Table, lake: Lake) -> None:
    row: tuple[object, ...] = (bronze.name, 0, 0, THEN, None, b"{}", [], 0, THEN, None)
    delta.create(site.spark, lake.table(bronze), RECEIVED)
    commit = delta.Commit(site.spark, lake.table(bronze))
    commit.write(site.spark.createDataFrame([row], RECEIVED).coalesce(1))
    entry = Entry(table=bronze.id, mode="", stream="", batch=0, source="", read=1, written=1)
    commit.commit(entry.encoded())


if __name__ == "__main__":
    make()
