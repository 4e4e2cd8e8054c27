"""Java's class-data archives for Spark's JVM and the broker's: the classes of every start, in a form that the JVM only maps.

Without it every process parses and verifies the same classes anew: a `strandline run` with nothing to do took
14.0 s, from an archive 8.8 s (medians of three, side by side on 2 cores). infra/strandline_infra/programs.py has the figures of the broker.

Set-up makes each once: it starts the broker, and runs one table of each layer and way of emitting rows, whatever the
domain, in a lake that is then removed. A Java that cannot make an archive leaves an empty file and starts as before.
The JVM itself ignores a file that does not fit the Java or the jars.
"""

from collections.abc import Callable
from datetime import UTC, datetime

from strandline import catalog

from strandline.core.kind import Emit
from strandline.core.stateful import AvailableNow
from strandline.core.table import Ingested, Recomputed, Table, Upserted
from strandline.core.topic import RECEIVED
from strandline.engine.flow import new_entry
from strandline.engine.flow.runner import Site, run
from strandline.engine.kafka import broker
from strandline.engine.lake.commit import create_table, delta_commit
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.place import Place
from strandline.engine.lake.plain_files import scratch
from strandline.engine.runtime import spark_session
from strandline.engine.runtime.settings import Settings

THEN = datetime(2026, 1, 1, tzinfo=UTC)
EXIT = 180
"""Seconds that a JVM may take to write its archive."""


def make() -> None:
    """Make the archives that are not there."""
    spark = spark_session.archive()
    _make(broker.archive(), _start_broker)
    _make(Place.of(spark) if spark else None, _run_tables)


def _make(file: Place | None, exercise: Callable[[Lake, Place], None]) -> None:
    """Make an archive of what a JVM loads that is exercised in a lake of its own."""
    if file is None or file.exists():
        return
    with scratch(file.parent) as folder:
        draft = folder / "draft.jsa"
        exercise(Lake(folder / "lake").open_for_writing(), draft)
        if not draft.exists():
            draft.put("")
        draft.move(file)


def _start_broker(lake: Lake, draft: Place) -> None:
    """Start the broker and stop it."""
    broker.up(lake, archives=draft)
    broker.down(lake)


def _run_tables(lake: Lake, draft: Place) -> None:
    """Run the example tables, and wait until the JVM is gone."""
    # The operator's settings are for another lake, and may be wrong.
    sizes = Settings(cores=2, memory="1g", shuffle_partitions=2)
    spark = spark_session.start(
        sizes, lake.program_log("spark"), is_brief=True, archives=draft.local
    )
    site = Site(spark=spark, clock=lambda: THEN)
    for table in _examples():
        if isinstance(table, Ingested):
            _receive(site, table, lake)
        else:
            run(table, AvailableNow(), lake, site=site)
    jvm = spark.sparkContext._gateway  # noqa: SLF001  # the only reference to its process
    spark.stop()
    process = getattr(jvm, "proc", None)
    if process is not None:
        process.stdin.close()
        process.wait(EXIT)


def _examples() -> list[Table]:
    """Return the first table with one source of each kind and way of emitting rows, and the tables upstream."""
    kinds: dict[tuple[type, Emit | None], Table] = {}
    for table in catalog.tables():
        if len(table.upstream) == 1 and not isinstance(table, Recomputed):
            emits = table.emits if isinstance(table, Upserted) else None
            kinds.setdefault((type(table), emits), table)
    needed = {source for table in kinds.values() for source in _below(table)}
    return [table for table in catalog.tables() if table in needed]


def _below(table: Table) -> set[Table]:
    return {table, *(each for source in table.upstream for each in _below(source))}


def _receive(site: Site, bronze: Table, lake: Lake) -> None:
    row: tuple[object, ...] = (bronze.name, 0, 0, THEN, None, b"{}", [], 0, THEN, None)
    create_table.create(site.spark, lake.table(bronze), RECEIVED)
    commit = delta_commit.Commit(site.spark, lake.table(bronze))
    commit.write(site.spark.createDataFrame([row], RECEIVED).coalesce(1))
    commit.commit(new_entry.copied(bronze, "", "", 0, source="", rows=1).encoded())


if __name__ == "__main__":
    make()
