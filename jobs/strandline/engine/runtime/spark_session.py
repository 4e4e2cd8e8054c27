"""The Spark session, each setting with its reason; the figures are of warm batches of 100 rows on 2 cores."""

import os
import resource
import shlex
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import psutil
import pyspark
from pyspark import SparkConf
from pyspark.core.context import SparkContext
from pyspark.errors import PySparkRuntimeError
from pyspark.java_gateway import ensure_callback_server_started, launch_gateway
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from strandline.core.errors import DefinitionError
from strandline.engine.runtime import spark_on_cluster
from strandline.engine.runtime.jvm import hadoop, jvm
from strandline.engine.runtime.processes import let_give_way, own
from strandline.engine.runtime.settings import MASTER, Settings, connect_variable, is_submitted
from strandline_infra import installation, java
from strandline_infra.installation import SetupError, setup_command

# A process that spark-submit has started: its JVM is there already, with the class path and the master that were typed.
#
# What is fixed once a JVM runs (its class path, its heap, its log) cannot be set from here, so spark-submit is given it in a file,
# which ``python -m strandline.cli.spark_properties`` writes (infra/docs/cluster.md).


THREADS = "local"


def submitted_gateway() -> Any:  # noqa: ANN401  # py4j's objects have no types
    """Return the gateway to the JVM of spark-submit; None where no spark-submit started this process.

    Raises:
        DefinitionError: The JVM was started without the options of the project.
    """
    if not is_submitted():
        return None
    found = launch_gateway()  # type: ignore[no-untyped-call]  # PySpark has no types there
    path = SparkConf(_jvm=found.jvm).get("spark.driver.extraClassPath") or ""
    if not {str(jar) for jar in java.spark_jars()} <= set(path.split(":")):
        raise DefinitionError(
            "spark-submit started a JVM without Strandline's jars",
            hint="`python -m strandline.cli.spark_properties > strandline.conf`, "
            "then `spark-submit --properties-file strandline.conf …`.",
        )
    # It is our parent, and not a child as where we start it.
    found.proc = psutil.Process(os.getppid())
    return found


def placed_by_submit(settings: Settings, found: Any) -> Settings:  # noqa: ANN401  # as above
    """Return the settings with the master that spark-submit was given.

    Raises:
        DefinitionError: Nothing is known about such a cluster.
    """
    master = SparkConf(_jvm=found.jvm).get("spark.master") or THREADS
    return replace(settings, master=cluster_of(master))


def cluster_of(master: str) -> str | None:
    """Return the cluster that a master of Spark's names; None for threads of this machine.

    Raises:
        DefinitionError: Nothing is known about such a cluster.
    """
    if master.startswith(THREADS):
        return None
    if not MASTER.fullmatch(master):
        raise DefinitionError(
            f"spark-submit was given the master {master}",
            hint="Strandline knows spark://host:port, k8s://host:port and local[N].",
            master=master,
        )
    return master


# How many files a process with Spark may hold open, and how many tables that carries.
#
# Each table of a stream has a thread of Python and one of the JVM, which talk over two sockets; a bronze table has clients of
# Kafka, and one with state has the files of its store. The usual limit of 1,024 carries some fifty tables. It is only the soft one,
# which a process may raise by itself up to the hard one, as the JVM does; so only the hard one is a reason to refuse.


AT_ALL = 400
"""Files that a stream holds open whatever it runs: jars, the JVM's own, connections of Spark's parts."""

EACH = 20
"""Files for each table more, in the process that needs the more of the two, the JVM."""

MOST = 10_240 if sys.platform == "darwin" else 65_536
"""What is asked for where more is allowed: some programs that are started close all descriptors one by one. The kernel of macOS says
that any number may be had and refuses all above its own."""


def raise_limit() -> int:
    """Raise the soft limit of open files of this process, and of those that it starts; return what it is then."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST if hard == resource.RLIM_INFINITY else min(hard, MOST)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return soft
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return wanted


def allowed() -> int:
    """Return how many files this process may hold open once it has raised its limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if resource.RLIM_INFINITY in {soft, hard}:
        return MOST
    return max(soft, min(hard, MOST))


def needed(tables: int) -> int:
    """Return how many files a stream of so many tables may hold open."""
    return AT_ALL + EACH * tables


def carried(files: int) -> int:
    """Return how many tables so many open files carry in one stream."""
    return max((files - AT_ALL) // EACH, 0)


def refuse_too_many(tables: int) -> None:
    """Refuse a stream of more tables than the files carry that this process may open, before anything of it starts.

    Raises:
        DefinitionError: The hard limit is too low.
    """
    files, wanted = allowed(), needed(tables)
    if files >= wanted:
        return
    raise DefinitionError(
        f"a stream of {tables:,} tables may hold {wanted:,} files open, and this process may have {files:,}",
        hint=f"raise the hard limit to {wanted:,} (`ulimit -Hn`, LimitNOFILE= of systemd, `--ulimit nofile=` of a container), "
        f"or share the tables out over several streams, each of at most {carried(files):,} of them.",
        tables=tables,
        needed=wanted,
        allowed=files,
    )


# A Spark that is there already and is not ours: of Spark Connect, of a managed platform, of another version.
#
# It can read tables, and that is all: rows and the entry that counts them are one commit, by calls into the JVM of one version of
# Spark and Delta (infra/docs/managed_sparks.md lists them). Without this a run would end with an AttributeError after a while.


SPARK = "4.2.0"
"""The Spark whose JVM the engine calls; a platform's build of it has another version, such as 4.0.2-amzn-0."""

PAGE = "infra/docs/managed_sparks.md says what works there"


def is_ours(session: SparkSession) -> bool:
    """Return whether a session was started here, with what tables need; one of Spark Connect is another class."""
    if type(session).__module__.startswith("pyspark.sql.connect"):
        return False
    return java.FUNCTIONS in (session.conf.get("spark.sql.extensions", "") or "")


def for_reading(found: Settings, log: Path, given: SparkSession | None = None) -> SparkSession:
    """Return a session that reads tables: the given one, that of this process, of the server that it is a client of, or a new one."""
    if given is not None:
        return given
    if connect_variable():
        return SparkSession.builder.getOrCreate()
    return SparkSession.getActiveSession() or start(found, log)


def refuse_connect() -> None:
    """Refuse to write tables as a client of Spark Connect.

    Raises:
        DefinitionError: This process is one.
    """
    name = connect_variable()
    if name is not None:
        raise DefinitionError(
            f"a table cannot be written over Spark Connect, which {name} asks for: its clients have no JVM to commit by",
            hint=f"start this without it, `env -u {name} strandline …`: Spark is then started here, or by STRANDLINE_MASTER. "
            f"lake()['gold.…'].spark() reads over Spark Connect; {PAGE}.",
            variable=name,
        )


def refuse_version(version: str) -> None:
    """Refuse to write tables by another Spark than the one whose JVM is called.

    Raises:
        DefinitionError: It is another.
    """
    if version != SPARK:
        raise DefinitionError(
            f"this is Spark {version}, and tables are written by Spark {SPARK} alone: a commit calls the JVM of that version",
            hint=f"run it where pip has installed pyspark {SPARK} and no other is found before it (SPARK_HOME, PYTHONPATH); {PAGE}.",
            found=version,
            needed=SPARK,
        )


def refuse_foreign(running: SparkSession) -> None:
    """Refuse to write tables by a session of this process that was begun elsewhere.

    Raises:
        DefinitionError: It was.
    """
    if is_ours(running):
        return
    refuse_version(running.version)
    raise DefinitionError(
        "this process has a Spark that was started without what tables need, and a process has one Spark only",
        hint=f"start `strandline` as a program of its own, or stop that session first: `spark.stop()`. "
        f"lake()['gold.…'].spark() reads by it; {PAGE}.",
    )


# What one kind of program adds to the Spark session of all.


@dataclass(frozen=True, slots=True, kw_only=True)
class Added:
    """Options and jars beside those of every session.

    Args:
        options: Options of Spark, which win over the others.
        jars: Jars at the end of the class path.
    """

    options: dict[str, str] = field(default_factory=dict)
    jars: Sequence[Path] = ()


NOTHING = Added()


# Names of the JVM that PySpark asks for again and again, resolved once.


FUNCTIONS = ("col", "lit", "when", "not", "coalesce", "expr", "count", "max", "min", "sum")
"""Those of Spark that each batch asks for."""

NAMES = {
    "functions": FUNCTIONS,
    "PythonUtils": ("toSeq",),
    "PythonSQLUtils": (),
    "org.apache.spark.sql.functions": (*FUNCTIONS, "unix_micros", "broadcast"),
    "org.apache.spark.sql.classic.SparkSession": (),
    "org.apache.spark.util.Utils": (),
    "org.apache.spark.sql.internal.SQLConf": (),
    "org/apache/spark/util/Utils": (),
    "org/apache/spark/sql/SaveMode": ("Append",),
    "org/apache/spark/sql/delta/DeltaLog": ("forTable",),
    "org/apache/spark/sql/delta/DeltaOperations": ("Write",),
    "org/apache/spark/sql/delta/actions/Action": ("fromJson",),
    "org/apache/spark/sql/delta/util/JsonUtils": ("toJson",),
    "scala/Option": ("empty", "apply"),
    "scala/reflect/ManifestFactory": ("Any",),
    "java/io/RandomAccessFile": (),
    "java/lang/String": (),
    "java/util/ArrayList": (),
    "py4j/reflection/TypeUtil": ("isInstanceOf",),
    "scala/jdk/javaapi/CollectionConverters": ("asScala", "asJava"),
}
"""Names of the JVM, and of their methods, that PySpark resolves hundreds of times a minute; a slash where a package is
resolved first."""


def remember(spark: SparkSession) -> None:
    """Resolve some names of the JVM once.

    PySpark resolves ``functions`` for every column expression; the JVM then tries each package that PySpark has imported,
    and searches every jar for each. That was a fourteenth of the work of short batches [stack samples]. Then it asks for
    the method: 2,400 of the 16,000 calls of a replay, for which the JVM reads the class's methods each time.
    """
    view = jvm(spark)
    for name, methods in NAMES.items():
        place = view
        for part in name.split("/"):
            # A view calls the JVM for every name that is not one of its attributes.
            vars(place).setdefault(part, getattr(place, part))
            place = vars(place)[part]
        for method in methods:
            vars(place).setdefault(method, getattr(place, method))


STATE_STORE = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
FILE_MANAGER = (
    "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
)

ROWS_WAIT = 120
"""Seconds for which the JVM and Python wait for each other before rows are handed over."""

QUICK = ("-XX:TieredStopAtLevel=1", "-XX:ReservedCodeCacheSize=256m")
"""The quick compiler alone would have a code cache of 48 MB; full, it is swept, and the same is compiled again."""

LAST_JARS = "SPARK_DIST_CLASSPATH"
"""The variable whose jars Spark's launcher adds to the class path after all others."""

AVRO_LIMITS = ("bytes.maxLength", "string.maxLength", "collectionItems.maxLength")
AVRO_MOST = 1 << 24
WORKING = (
    # A payload of nine bytes may declare a text of two gigabytes, and Avro allocates it before it reads.
    *(f"-Dorg.apache.avro.limits.{what}={AVRO_MOST}" for what in AVRO_LIMITS),
    # Two cores and a heap of a few gigabytes: the parallel collector runs no threads beside the work.
    "-XX:+UseParallelGC",
    # Spark makes one method of a stage; Java compiles none of more than 8,000 bytes unless it must, and silver's has 7,930
    # with seven columns [measured]: a few columns or rules more would be interpreted.
    "-XX:-DontCompileHugeMethods",
)
"""Options of each JVM that works on rows: the driver's, and those of a cluster's executors."""

TUNED = {
    # Hadoop's local file system forks chmod 98 times in a micro-batch of 100 rows; this one does not.
    "spark.hadoop.fs.file.impl": "com.globalmentor.apache.hadoop.fs.BareLocalFileSystem",
    "spark.sql.streaming.checkpointFileManagerClass": FILE_MANAGER,
    # By default times are INT96, which Iceberg and DuckLake refuse and pandas reads in nanoseconds: one of the year 9999 made a table
    # unreadable for it. As INT64 they have extremes as well, by which row groups are skipped.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # Instead of Hadoop's checksums (see _write_no_sidecars).
    "spark.hadoop.parquet.page.verify-checksum.enabled": "true",
    # _last_checkpoint is read at every batch; with the checkpoint's schema in it, it has 4 KB.
    "spark.databricks.delta.checkpointSchema.writeThresholdLength": "0",
    # The default of 50 tasks to read a table's log made a load of 200,000 rows take 34 s.
    "spark.databricks.delta.snapshotPartitions": "1",
    # The default log store of a local disk bypasses the file system above and forks: 65 ms a commit, this one 17.
    # Neither is atomic between processes; the lease is there for that (jobs/strandline/engine/lake/locks.py).
    "spark.delta.logStore.file.impl": "io.delta.storage.LocalLogStore",
    # Where a stream has read all rows from before a change of its source's columns, Delta refuses its start all the same if a
    # commit without rows lies in between; what it must not pass over the pre-flight refuses (jobs/strandline/engine/flow/preflight.py).
    "spark.databricks.delta.streaming.unsafeReadOnIncompatibleSchemaChangesDuringStreamStart.enabled": "true",
    # A batch of a table needs some twenty classes that Spark generates. Of a hundred, its default, three tables displace each other's:
    # each batch compiled all of its own anew, which was a third of what the JVM did [stack samples].
    "spark.sql.codegen.cache.maxEntries": "1000",
    # The same stage at another place of a plan is the same class.
    "spark.sql.codegen.useIdInClassName": "false",
    # Spark writes the plan of each execution down for a page of its own, which is off; in this form that costs less.
    "spark.sql.ui.explainMode": "simple",
    # Re-planning costs more than it saves on micro-batches.
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.streaming.stateStore.providerClass": STATE_STORE,
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    # Counting rows on every put doubles the cost of state (Spark's own benchmark: 3.0 against 1.8 µs).
    "spark.sql.streaming.stateStore.rocksdb.trackTotalNumberOfRows": "false",
    # A batch that is cached is read once or twice within seconds; columns of it, or compressed ones, are wasted work.
    "spark.sql.cache.serializer": java.ROW_CACHE,
    # Offsets are never the same twice: a dictionary of them is made for nothing.
    "spark.hadoop.parquet.enable.dictionary#_offset": "false",
    # Where a function calls `from_json` itself: a partial result of {"value": 1, "value": "hot"} would keep the 1 without an error.
    "spark.sql.json.enablePartialResults": "false",
    # How often an idle query polls its sources; the default of 10 ms keeps a core busy when three of them wait.
    "spark.sql.streaming.pollingDelay": "50ms",
    # PySpark would send the JVM the line of Python of each column expression, in ten calls: about half of the 49,388 calls
    # that one log in all four modes took. Errors have Python's traceback all the same.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    # Rows come to Python through a socket that each side waits for. After 15 s, Spark's default, a machine that stalled has lost a batch.
    "spark.python.authenticate.socketTimeout": f"{ROWS_WAIT}s",
    # All queries of a lake share the executor fairly.
    "spark.scheduler.mode": "FAIR",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.extensions": f"io.delta.sql.DeltaSparkSessionExtension,{java.FUNCTIONS}",
    # A row on which a function of a table overflows the stack fails its task; by default the JVM ends, and all tables with it.
    "spark.executor.killOnFatalError.depth": "0",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}


def start(  # noqa: PLR0913  # what it may use, and how
    settings: Settings,
    log: Path,
    *,
    is_brief: bool = False,
    archives: Path | None = None,
    added: Added = NOTHING,
    nice: int = 0,
) -> SparkSession:
    """Start Spark, or return the session that runs in this process already.

    Spark's output goes to ``log``; the terminal shows only the project's own.

    Args:
        settings: The cores and the memory that Spark may use.
        log: The file for Spark's output.
        is_brief: Whether it will run for a minute at most; then the quick compiler beats the thorough one
            (100,000 cold events on 2 busy cores: 80 s against 135 s).
        archives: Where to write an archive of the loaded classes, instead of using one.
        added: What one kind of program needs beside all that.
        nice: By how much it gives way to other programs, from its first second on, because a start is seconds of all cores.

    Raises:
        DefinitionError: Java or a jar is missing, or the Spark of this process is none of ours.
    """
    refuse_connect()
    running = SparkSession.getActiveSession()
    if running is not None:
        refuse_foreign(running)
        return running
    refuse_version(pyspark.__version__)
    gateway = submitted_gateway()
    found = placed_by_submit(settings, gateway) if gateway else settings
    archived = java.archive_option(archive(), archives)
    chosen = options(found, log, [*(QUICK if is_brief else ()), *archived]) | added.options
    conf = SparkConf(loadDefaults=False).setAll(list(chosen.items()))
    os.environ["JAVA_HOME"] = str(_java_home())
    os.environ.setdefault("SPARK_LOCAL_IP", chosen["spark.driver.host"])
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_AUTH_SOCKET_TIMEOUT", str(ROWS_WAIT))  # for the driver's side
    last = [*_beside(found), *added.jars]
    # At the end of the class path: the archive of classes fits every class path that begins with its own, and Spark's own
    # setting puts jars at the begin. (`spark.jars` is too late: file systems are loaded before.)
    os.environ[LAST_JARS] = ":".join(map(str, last))
    if found.master:
        os.environ.update(spark_on_cluster.environment(found, os.environ))
    raise_limit()  # the JVM and its workers inherit it
    with _own_interrupts():
        gateway = gateway or _launched(conf, log)
        if nice:
            let_give_way(gateway.proc.pid, nice)
        SparkContext._ensure_initialized(gateway=gateway, conf=conf)  # noqa: SLF001  # the only way to hand over a gateway
        session = SparkSession.builder.config(conf=conf).getOrCreate()
    # Spark would start it at the first batch, when the sockets of many tables are open: its `select` cannot take a descriptor
    # above 1,023, its thread dies without a word, and no batch is ever handed to Python.
    ensure_callback_server_started(session.sparkContext._gateway)  # type: ignore[no-untyped-call]  # noqa: SLF001  # PySpark has neither
    _write_no_sidecars(session)
    _lighten(session)
    _log_no_failures()
    remember(session)
    if found.master:
        spark_on_cluster.equip(session, found, _scratch(log))
    return session


def options(found: Settings, log: Path, java_options: Sequence[str] = ()) -> dict[str, str]:
    """Return all options of a session.

    Raises:
        DefinitionError: A jar is missing, or a cluster cannot do what is asked for.
        TransientError: The cluster does not answer.
    """
    scratch = _scratch(log)
    scratch.mkdir(parents=True, exist_ok=True)
    cluster = spark_on_cluster.options(found, class_path(found), WORKING) if found.master else {}
    return {**TUNED, **_sized(found), **placed(log, scratch, java_options), **cluster}


def class_path(found: Settings) -> list[str]:
    """Return all jars that a session needs.

    Raises:
        DefinitionError: They are missing.
    """
    own = java.spark_jars()
    if not own:
        raise DefinitionError("Spark's jars are missing", hint=f"run `{setup_command()}`.")
    return [str(jar) for jar in [*own, *_beside(found)]]


def _beside(found: Settings) -> list[Path]:
    """Return the jars that set-up has compiled, with those that they need.

    Raises:
        DefinitionError: They cannot be had.
    """
    try:
        functions = java.LINEAR.class_path()
    except SetupError as error:
        raise DefinitionError(error.message, hint=error.hint) from error
    return [*functions, *(spark_on_cluster.store_jars(found.store) if found.store else ())]


def _launched(conf: SparkConf, log: Path) -> Any:  # noqa: ANN401  # py4j's objects have no types
    """Start the JVM.

    Raises:
        DefinitionError: It ended while it started.
    """
    with log.open("ab") as stream:
        began = stream.tell()
        # The output of the launcher and the JVM cannot be configured away, so all of stderr goes to the log.
        # The JVM has a session of its own, because a signal to stop this process may go to the whole group, and the
        # JVM would die of it in the middle of a batch. When this process is gone, the JVM's standard input ends, and
        # so does the JVM.
        how = {"stderr": stream, "stdout": stream, "start_new_session": True}
        try:
            return launch_gateway(conf, popen_kwargs=how)  # type: ignore[no-untyped-call]  # PySpark has no types there
        except PySparkRuntimeError as error:
            output = log.read_bytes()[began:].decode(errors="replace").splitlines()
            last = [line for line in output if line.strip() and not line.startswith("Picked up ")]
            raise DefinitionError(
                f"Spark's JVM ended while it started: {last[-1] if last else 'it gave no reason'}",
                hint=f"compare STRANDLINE_MEMORY with the free memory; the whole output is in {log}.",
                log=str(log),
            ) from error


@contextmanager
def _own_interrupts() -> Iterator[None]:
    """Keep the project's handler of Ctrl-C: Spark's cancels every job and then raises, wherever Python happens to be.

    A Ctrl-C during these two seconds is blocked while Spark sets its handler, and then reaches the project's.
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
    """Write no hidden checksum files beside the others.

    A reader of a table lists its log at every batch, which took 51 ms after 400 commits with such files and half of
    that without. Corruption is detected all the same: Parquet's pages carry checksums that are verified, and Delta's
    log and Spark's state have their own.
    """
    machine = jvm(spark)
    here = machine.java.net.URI("file:///")
    machine.org.apache.hadoop.fs.FileSystem.get(here, hadoop(spark)).setWriteChecksum(False)


UNUSED = r"^(yarn|mapreduce\.(cluster|jobhistory|jvm|map|reduce|shuffle))\."
"""The defaults of Hadoop for clusters of its own, two of three of all its properties; Strandline knows none of them."""


def _lighten(spark: SparkSession) -> None:
    """Leave out of Hadoop's configuration what nothing here asks for, and which file each property came from.

    Spark sends the configuration along with every write, scan and state of a batch, and makes it a text several times for each.
    Hadoop then packs the origin of each of 1,100 properties by gzip: that was a sixth of what the JVM did for a small batch [stack
    samples].
    """
    machine, configuration = jvm(spark), hadoop(spark)
    machine.org.apache.hadoop.mapreduce.util.ConfigUtil.loadResources()  # or the first write brings all back
    configuration.size()

    def inner(name: str) -> Any:  # noqa: ANN401  # py4j's objects have no types
        held = configuration.getClass().getDeclaredField(name)
        held.setAccessible(True)
        return held.get(configuration)

    inner("properties").keySet().removeIf(
        machine.java.util.regex.Pattern.compile(UNUSED).asPredicate()
    )
    inner("updatingResource").clear()


def _log_no_failures() -> None:
    """Keep Spark's Python from printing each error that it raises, with a hundred lines of Java and the text that failed.

    We say it in a sentence, or the error ends the program and is printed then.
    """
    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        # Made as Spark makes it: a plain one of that name breaks its calls.
        PySparkLogger.getLogger(name).disabled = True


def for_sorted_state(spark: SparkSession) -> SparkSession:
    """Return a session whose streams may sort inside their partitions, and keep small state in memory.

    What a look and a change of RocksDB cost was a fifth of silver's work
    (infra/strandline_infra/spark/state/GrowingStateStoreProvider.scala). A checkpoint of before goes on with what it names.

    Spark's check refuses every sort on a stream; jobs/strandline/core/stateful.py explains why this sort is sound. Only the
    sessions of silver skip the check, so a table that really cannot be streamed is still refused.
    """
    session = for_rows_alone(spark)
    session.conf.set("spark.sql.streaming.unsupportedOperationCheck", "false")
    session.conf.set("spark.sql.streaming.stateStore.providerClass", java.STATE_STORE)
    return session


def leave_state(spark: SparkSession) -> None:
    """Let this process forget the state of queries that have ended: a million keys are a fifth of the smallest usual heap."""
    jvm(spark).org.apache.spark.sql.execution.streaming.state.GrowingStateStoreProvider.leaveEnded()


def for_any_rows(spark: SparkSession) -> SparkSession:
    """Return a session in which continuous mode takes every plan without state.

    Spark's check refuses ``explode`` there, which makes rows of a row as it comes, like any projection; it runs
    (tests/engine/flow/test_feed_query.py). A feed has no state, so nothing else is let through by this.
    """
    session = spark.newSession()
    session.conf.set("spark.sql.streaming.unsupportedOperationCheck", "false")
    return session


def for_rows_alone(spark: SparkSession) -> SparkSession:
    """Return a session whose streams run a batch when rows arrive, and not because the watermark advanced.

    A batch without rows only evicts state and, in an on-change table, emits nothing; the next batch with rows evicts
    that state as well. It cost 0.2 s in every second batch of 100 rows.
    """
    session = spark.newSession()
    session.conf.set("spark.sql.streaming.noDataMicroBatches.enabled", "false")
    return session


def archive() -> Path | None:
    """Return the path of the archive for this Java and these jars, if set-up is done (jobs/strandline/engine/service/class_archive.py)."""
    home, found = java.java_home(), java.spark_jars()
    if home is None or not found:
        return None
    return java.archive(home, found, pyspark.__version__)


def _java_home() -> Path:
    home = java.java_home()
    if home is None:
        raise DefinitionError("no Java 17 or 21 was found", hint=f"run `{setup_command()}`.")
    return home


def _scratch(log: Path) -> Path:
    """Return the folder for what Spark spills; of this process alone, so that what a killed one left is known from it."""
    who = own()
    return log.parent / "scratch" / f"{who['host']}-{who['pid']}-{who['started']:.0f}"


def _sized(settings: Settings) -> dict[str, str]:
    return {
        "spark.master": f"local[{settings.cores}]",
        "spark.driver.memory": settings.memory,
        "spark.sql.shuffle.partitions": str(settings.state_partitions),
        # On the driver's class path, because file systems are loaded before spark.jars are added.
        "spark.driver.extraClassPath": ":".join(str(jar) for jar in java.spark_jars()),
        **(spark_on_cluster.store_properties(settings.store) if settings.store else {}),
        # Known before the first request, which is counted for a table of it (infra/strandline_infra/spark/s3/StoreRequests.scala).
        **(
            {"spark.hadoop.strandline.lake": _below_scheme(settings.lake)} if settings.store else {}
        ),
    }


def _below_scheme(lake: str) -> str:
    """Return the bucket and the key of a lake on a store."""
    return lake.partition("://")[2].strip("/")


def placed(log: Path, scratch: Path, more: Sequence[str]) -> dict[str, str]:
    """Return the options that keep all of Spark's files inside the lake's folder, also when it is killed."""
    config = installation.PACKAGE / "spark" / "log4j2.properties"
    options = [
        f"-Dlog4j2.configurationFile={config.as_uri()}",
        f"-Dstrandline.log={log}",
        f"-Djava.io.tmpdir={scratch}",
        # In any other zone Delta computes the state of a table with up to fifty files at each of its commits, by a job of Spark: it
        # does not trust the times in its own checksums there.
        "-Duser.timezone=UTC",
        *WORKING,
        *more,
    ]
    return {
        "spark.app.name": "strandline",
        # Spark's launcher splits this line as a shell would.
        "spark.driver.extraJavaOptions": shlex.join(options),
        "spark.local.dir": str(scratch),
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
    }
