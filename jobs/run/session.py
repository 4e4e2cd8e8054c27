"""The Spark session, each setting with its reason.

The figures were taken on 2 cores with warm batches of 100 rows.
"""

import hashlib
import os
import shlex
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyspark
from pyspark import SparkConf
from pyspark.core.context import SparkContext
from pyspark.errors import PySparkRuntimeError
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from infra import jars, java
from jobs.core.errors import DefinitionError
from jobs.run.jvm import jvm
from jobs.run.settings import Settings

STATE_STORE = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
FILE_MANAGER = (
    "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
)

AVRO_LIMITS = ("bytes.maxLength", "string.maxLength", "collectionItems.maxLength")
AVRO_MOST = 1 << 24

TUNED = {
    # Hadoop's local file system forks chmod 98 times in a micro-batch of 100 rows; this one does not.
    "spark.hadoop.fs.file.impl": "com.globalmentor.apache.hadoop.fs.BareLocalFileSystem",
    "spark.sql.streaming.checkpointFileManagerClass": FILE_MANAGER,
    # Instead of Hadoop's checksums (see _write_no_sidecars).
    "spark.hadoop.parquet.page.verify-checksum.enabled": "true",
    # The note of the last checkpoint is read at every batch; with the checkpoint's schema in it it has 4 KB.
    "spark.databricks.delta.checkpointSchema.writeThresholdLength": "0",
    # The default of 50 tasks to read a table's log made a load of 200,000 rows take 34 s.
    "spark.databricks.delta.snapshotPartitions": "1",
    # The default log store of a local disk goes round the file system above and forks: 65 ms a commit, this one 17.
    # Neither is atomic between processes, which is what the lease is for (jobs/run/lease.py).
    "spark.delta.logStore.file.impl": "io.delta.storage.LocalLogStore",
    # Re-planning costs more than it wins on micro-batches.
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.streaming.stateStore.providerClass": STATE_STORE,
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    # Counting rows on every put doubles the cost of state (Spark's own benchmark: 3.0 against 1.8 µs).
    "spark.sql.streaming.stateStore.rocksdb.trackTotalNumberOfRows": "false",
    # A batch that is cached is read once or twice within seconds; compressing it is wasted work.
    "spark.sql.inMemoryColumnarStorage.compressed": "false",
    # Of {"value": 1, "value": "hot"} a partial result would keep the 1 and never tell (jobs/core/parse.py).
    "spark.sql.json.enablePartialResults": "false",
    # Every query looks for news so often; the default of 10 ms keeps a core busy when three of them wait.
    "spark.sql.streaming.pollingDelay": "50ms",
    # Every query of a lake gets its turn.
    "spark.scheduler.mode": "FAIR",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}


def start(
    settings: Settings, log: Path, *, is_brief: bool = False, archives: Path | None = None
) -> SparkSession:
    """Start Spark, or return the session that runs in this process already.

    Spark's own words go to ``log``; a person at the terminal sees ours only.

    Args:
        settings: What Spark may use.
        log: The file for its words.
        is_brief: Whether it will work for a minute at most; then the compiler that is quick wins over the one
            that is thorough (100,000 cold events on 2 busy cores: 80 s against 135 s).
        archives: Where to leave the archive of what was loaded, instead of using one.

    Raises:
        DefinitionError: Java or a jar is missing.
    """
    running = SparkSession.getActiveSession()
    if running is not None:
        return running
    conf = SparkConf(loadDefaults=False)
    log.parent.mkdir(parents=True, exist_ok=True)
    scratch = log.parent / "scratch"
    scratch.mkdir(exist_ok=True)
    more = (["-XX:TieredStopAtLevel=1"] if is_brief else []) + _archive_option(archives)
    for name, value in {**TUNED, **_sized(settings), **placed(log, scratch, more)}.items():
        conf.set(name, value)
    os.environ["JAVA_HOME"] = str(_java_home())
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    # Spark's Python workers fold state; they need our packages, and the first python3 of the PATH has none.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    gateway = _launched(conf, log)
    with _own_interrupts():
        SparkContext._ensure_initialized(gateway=gateway, conf=conf)  # noqa: SLF001  # the only way to hand over a gateway
        session = SparkSession.builder.config(conf=conf).getOrCreate()
    _write_no_sidecars(session)
    return session


def _launched(conf: SparkConf, log: Path) -> Any:  # noqa: ANN401  # py4j's objects have no types
    """Start the JVM.

    Raises:
        DefinitionError: It ended before it could be asked anything.
    """
    with log.open("ab") as stream:
        began = stream.tell()
        # The launcher's and the JVM's own lines cannot be configured away, so the whole of stderr moves.
        # A session of its own, because whoever stops us may signal the whole group, and a JVM that hears
        # it dies in the middle of a batch; when we are gone its standard input ends, and so does it.
        how = {"stderr": stream, "stdout": stream, "start_new_session": True}
        try:
            return launch_gateway(conf, popen_kwargs=how)  # type: ignore[no-untyped-call]
        except PySparkRuntimeError as error:
            words = log.read_bytes()[began:].decode(errors="replace").splitlines()
            last = [line for line in words if line.strip() and not line.startswith("Picked up ")]
            raise DefinitionError(
                f"Spark's JVM ended while it started: {last[-1] if last else 'it gave no reason'}",
                hint=f"look at STRANDLINE_MEMORY and at the memory that is free; the whole story is in {log}.",
                log=str(log),
            ) from error


@contextmanager
def _own_interrupts() -> Iterator[None]:
    """Keep our handler of Ctrl-C: Spark's own cancels every job and then raises, wherever Python happens to be.

    A Ctrl-C that comes while Spark sets its handler waits for these two seconds, and then finds ours.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    former = signal.getsignal(signal.SIGINT)
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT,))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, former)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _write_no_sidecars(spark: SparkSession) -> None:
    """Let no file have a hidden one beside it with its checksum.

    A table's log is listed at every batch of whoever follows it, which took 51 ms after 400 commits with such files
    and half of it without. What they guard against is seen all the same: Parquet's pages carry checksums that are
    verified, Delta's log and Spark's state have their own.
    """
    machine = jvm(spark)
    here = machine.java.net.URI("file:///")
    hadoop = spark.sparkContext._jsc.hadoopConfiguration()  # noqa: SLF001  # there is no other way to it
    machine.org.apache.hadoop.fs.FileSystem.get(here, hadoop).setWriteChecksum(False)


def for_sorted_state(spark: SparkSession) -> SparkSession:
    """Return a session whose streams may sort inside their partitions.

    Spark's check refuses every sort on a stream; jobs/core/stateful.py says why ours is sound. Only the
    sessions of silver get this, so that a table which really cannot be streamed is still refused.
    """
    session = for_rows_alone(spark)
    session.conf.set("spark.sql.streaming.unsupportedOperationCheck", "false")
    return session


def for_rows_alone(spark: SparkSession) -> SparkSession:
    """Return a session whose streams run a batch when rows came, and not because the watermark moved.

    A batch without rows forgets state and, in a table that speaks on change, says nothing; the next batch
    with rows forgets it as well. It took 0.2 s of every second batch of 100 rows.
    """
    session = spark.newSession()
    session.conf.set("spark.sql.streaming.noDataMicroBatches.enabled", "false")
    return session


def archive() -> Path | None:
    """Return where the archive of this Java and these jars is kept, if set-up is done (jobs/run/archive.py)."""
    home, found = java.java_home(), jars.spark_jars()
    if home is None or not found:
        return None
    told = [str(home), pyspark.__version__, *(jar.name for jar in found)]
    mark = hashlib.sha256("\n".join(told).encode()).hexdigest()[:12]
    return Path(sys.prefix) / "jvm" / f"{mark}.jsa"


def _archive_option(draft: Path | None) -> list[str]:
    if draft is not None:
        return [f"-XX:ArchiveClassesAtExit={draft}"]
    file = archive()
    is_there = file is not None and file.exists() and file.stat().st_size > 0
    return [f"-XX:SharedArchiveFile={file}"] if is_there else []


def _java_home() -> Path:
    home = java.java_home()
    if home is None:
        raise DefinitionError("no Java 17 or 21 was found", hint="run `make setup`.")
    return home


def _sized(settings: Settings) -> dict[str, str]:
    found = jars.spark_jars()
    if not found:
        raise DefinitionError("Spark's jars are missing", hint="run `make setup`.")
    return {
        "spark.master": f"local[{settings.cores}]",
        "spark.driver.memory": settings.memory,
        "spark.sql.shuffle.partitions": str(settings.shuffle_partitions),
        # On the driver's class path, because file systems are loaded before spark.jars are added.
        "spark.driver.extraClassPath": ":".join(str(jar) for jar in found),
    }


def placed(log: Path, scratch: Path, more: Sequence[str]) -> dict[str, str]:
    """Keep everything that Spark leaves behind inside the lake's folder, also when it is killed."""
    config = Path(__file__).parents[2] / "infra" / "spark" / "log4j2.properties"
    options = [
        f"-Dlog4j2.configurationFile={config.as_uri()}",
        f"-Dstrandline.log={log}",
        f"-Djava.io.tmpdir={scratch}",
        # A payload of nine bytes may say that a text of two gigabytes follows, and Avro makes room before it looks.
        *(f"-Dorg.apache.avro.limits.{what}={AVRO_MOST}" for what in AVRO_LIMITS),
        # Two cores and a heap of a few gigabytes: the parallel collector has no threads beside the work.
        "-XX:+UseParallelGC",
        *more,
    ]
    return {
        "spark.app.name": "strandline",
        # Spark's launcher takes this line apart as a shell would.
        "spark.driver.extraJavaOptions": shlex.join(options),
        "spark.local.dir": str(scratch),
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
    }
