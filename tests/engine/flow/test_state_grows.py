"""State of a de-duplication is in memory while it is small, moves to RocksDB when it is not, and forgets nothing on its way."""

import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import duckdb
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from fleet.silver import device_telemetry as silver
from strandline.core.stateful import AvailableNow
from strandline.engine.flow.runner import Site, run
from strandline.engine.lake.lake import Lake
from strandline.engine.runtime.jvm import jvm
from strandline.engine.runtime.spark_session import for_sorted_state
from tests.support.events import readings, received
from tests.support.rows import NOON

ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
LIMIT = "spark.sql.streaming.stateStore.memoryLimit"
FOUR_READINGS = """
    batch | partition | id | device | event_at | arrived_at | value
    0     | 0         | e1 | d1     | 08:00:00 | 08:00:01   | 1.5
    0     | 0         | e2 | d1     | 08:00:00 | 08:00:02   | 1.5
    0     | 0         | e3 | d1     | 08:00:00 | 08:00:03   | 3.5
    0     | 0         | e4 | d1     | 08:00:00 | 08:00:04   | 3.5
"""
Write = Callable[[DataFrame, int], None]


class Stream:
    """A stream that keeps the first of each key, as silver does, of files of numbers."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        """Make it, without files."""
        self.spark = spark
        self.folder = folder
        self.kept: Counter[int] = Counter()
        self.files = 0
        (folder / "in").mkdir()

    def come(self, keys: list[int]) -> None:
        """Add a file, which is a batch of its own."""
        rows = self.spark.createDataFrame([(key,) for key in keys], "key bigint").coalesce(1)
        rows.write.parquet(str(self.folder / "drafts" / str(self.files)))
        (part,) = (self.folder / "drafts" / str(self.files)).glob("*.parquet")
        part.rename(self.folder / "in" / f"{self.files:05}.parquet")
        self.files += 1

    def run(
        self,
        *,
        limit: int | None = None,
        of_all: int | None = None,
        write: Write | None = None,
        upkeep: str = "100ms",
    ) -> None:
        """Read all files that there are; a process that begins anew."""
        session = for_sorted_state(self.spark)
        session.conf.set("spark.sql.shuffle.partitions", "2")
        session.conf.set("spark.sql.streaming.minBatchesToRetain", "2")
        session.conf.set("spark.sql.streaming.stateStore.maintenanceInterval", upkeep)
        for each in ("maintenanceShutdownTimeout", "maintenanceForceShutdownTimeout"):
            # Spark's `stop` holds the lock that a task of its upkeep may wait for, and gives up after six minutes.
            session.conf.set(f"spark.sql.streaming.stateStore.{each}", "1")
        if limit is not None:
            session.conf.set(LIMIT, str(limit))
        if of_all is not None:
            session.conf.set(f"{LIMIT}.all", str(of_all))
        files = session.readStream.schema("key bigint").option("maxFilesPerTrigger", 1)
        rows = files.parquet(str(self.folder / "in")).dropDuplicates(["key"])
        query = rows.writeStream.foreachBatch(write or self.keep)
        query = query.option("checkpointLocation", str(self.folder / "checkpoint"))
        query.trigger(availableNow=True).start().awaitTermination()

    def keep(self, rows: DataFrame, _number: int) -> None:
        """Take over a batch."""
        self.kept.update(row.key for row in rows.collect())

    def names(self, partition: int = 0) -> set[str]:
        """Return the kinds of files in which a partition's state is."""
        found = (self.folder / "checkpoint" / "state" / "0" / str(partition)).glob("[0-9]*.*")
        return {each.name.split(".", 1)[1] for each in found} - {"delta.crc", "zip.crc"}


@pytest.fixture
def stream(spark: SparkSession, tmp_path: Path) -> Iterator[Stream]:
    """Return a stream without files; how often state is looked after is said by the first query of a JVM."""
    stores = jvm(spark).org.apache.spark.sql.execution.streaming.state.StateStore
    stores.stop()
    yield Stream(spark, tmp_path)
    stores.stop()


def some(count: int) -> list[int]:
    """Return keys of which many came before, and some twice."""
    return [random.randrange(3 * count) for _ in range(count)]  # noqa: S311  # no secret


def test_small_state_is_in_memory_and_large_state_in_rocksdb(stream: Stream) -> None:
    """Each key is kept once, before, in, and after the batch in which it moves, and after starts of either."""
    sent: set[int] = set()

    def more(batches: int, limit: int | None) -> None:
        for _ in range(batches):
            keys = some(400)
            sent.update(keys)
            stream.come(keys)
        stream.run(limit=limit)
        assert stream.kept == Counter(sent)

    more(2, None)
    more(1, None)
    assert stream.names() == {"delta"}
    more(2, 10_000)
    assert "zip" in stream.names()
    more(2, 10_000)
    more(3, None)  # what was too large once does not come back
    assert "changelog" in stream.names()


def test_a_first_batch_that_is_too_large_moves_before_it_ends(stream: Stream) -> None:
    """It may have a million keys; each of them is kept once, on either side of the move."""
    stream.come([*range(5000), *range(4000, 9000)])
    stream.run(limit=300_000)

    assert stream.kept == Counter(range(9000))
    assert stream.names() == {"zip"}


def test_what_a_table_that_has_ended_left_in_memory_drives_no_other_out(stream: Stream) -> None:
    """Of tables that are run one after another each has what there is, although Spark closes a state a minute late."""
    others = [stream]
    for number in range(2):
        folder = stream.folder / f"other-{number}"
        folder.mkdir()
        others.append(Stream(stream.spark, folder))
    for each in others:
        each.come(list(range(6_000)))
        each.run(limit=10_000_000, of_all=1_500_000, upkeep="1h")

        assert each.kept == Counter(range(6_000))
        assert each.names() == {"delta"}


def test_the_files_of_memory_go_when_no_version_in_them_is_needed(stream: Stream) -> None:
    """Also where no process lives for as long as versions are kept."""
    stream.come(list(range(100)))
    stream.run()

    def wait(rows: DataFrame, number: int) -> None:
        stream.keep(rows, number)
        deadline = time.monotonic() + 60
        while "delta" in stream.names() and time.monotonic() < deadline:
            time.sleep(0.05)

    for number in range(6):
        stream.come(list(range(100 * number, 100 * number + 200)))
        stream.run(limit=1_000, write=wait if number == 5 else None)

    assert stream.kept == Counter(range(700))
    assert "delta" not in stream.names()


def test_a_batch_that_moved_and_failed_is_done_again(stream: Stream) -> None:
    """By a process that moves it as well, and by one that has more memory."""
    first = list(range(500))
    stream.come(first)
    stream.run()

    def fail(rows: DataFrame, _number: int) -> None:
        rows.collect()
        raise RuntimeError("the process ends here")

    for again, limit in enumerate((1_000, None)):
        keys = list(range(400 + 500 * again, 1000 + 500 * again))
        stream.come(keys)
        with pytest.raises(StreamingQueryException):
            stream.run(limit=1_000, write=fail)
        stream.run(limit=limit)

    assert stream.kept == Counter(range(1500))


def test_a_state_of_before_goes_on_in_rocksdb(
    stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark keeps the class in the checkpoint, so a lake of a former release is read by what wrote it."""
    monkeypatch.setattr("strandline_infra.java.STATE_STORE", ROCKSDB)
    stream.come(list(range(100)))
    stream.run()
    monkeypatch.undo()
    stream.come(list(range(50, 150)))
    stream.run()

    assert stream.kept == Counter(range(150))
    assert "delta" not in stream.names()


def test_no_dictionary_is_made_of_values_that_are_there_once(
    spark: SparkSession, lake: Lake
) -> None:
    """Of the key and of the offset, each value of which would be written twice; a device's name has one."""
    received(lake, readings(FOUR_READINGS))
    run(silver.TABLE, AvailableNow(), lake, site=Site(spark=spark, clock=lambda: NOON))

    files = str(lake.table(silver.TABLE).local / "*.parquet")
    found = duckdb.sql("SELECT path_in_schema, encodings FROM parquet_metadata($1)", params=[files])
    encodings = dict(found.fetchall())
    assert "DICTIONARY" in encodings["device_id"]
    assert "DICTIONARY" not in encodings["event_id"] + encodings["_offset"]
