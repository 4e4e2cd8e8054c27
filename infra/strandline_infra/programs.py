"""Programs beside ours: the lake's own Kafka broker (one node, small, without retention limits), Dagster, executors of Spark.

Why C1 only (``TieredStopAtLevel=1``): measured on 2 cores, the broker answers after 1.6 s instead of 3.3 s, and
a million produced events cost it 0.7 s of CPU instead of 1.5 s. Compiling costs it more than its own work.

From a class-data archive it answers after 0.74 s instead of 1.39 s, with its storage formatted before that in 0.31 s
instead of 0.54 s; both starts and the stop cost 1.6 s of CPU instead of 2.6 s [three starts of each].
"""

import os
import sys
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from strandline_infra import java

if TYPE_CHECKING:
    from importlib.metadata import PackagePath

HOST = "127.0.0.1"
PROPERTIES = "server.properties"

JVM = (
    "-Xmx512m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-XX:-UsePerfData",  # no file in the machine's temporary folder
    "-XX:+ExitOnOutOfMemoryError",
    "-Djava.awt.headless=true",
    "-Djava.io.tmpdir=tmp",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.dateTimeFormat=yyyy-MM-dd'T'HH:mm:ss.SSS",
)

# Paths are relative to the broker's folder, so the folder of a lake may have any name.
CONFIG = """\
process.roles=broker,controller
node.id=1
listeners=PLAINTEXT://{host}:{port},CONTROLLER://{host}:{controller_port}
advertised.listeners=PLAINTEXT://{host}:{port}
controller.listener.names=CONTROLLER
controller.quorum.voters=1@{host}:{controller_port}
log.dirs={data}

# One node, so one replica of everything.
default.replication.factor=1
offsets.topic.replication.factor=1
offsets.topic.num.partitions=4
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=4
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
share.coordinator.state.topic.num.partitions=1
group.initial.rebalance.delay.ms=0
# After a kill the new broker is refused until the session of the old one ends: 12 s with the default of 9 s.
broker.session.timeout.ms=3000
broker.heartbeat.interval.ms=500
num.network.threads=2
num.io.threads=4
# The default takes a quarter of this heap for compaction.
log.cleaner.dedupe.buffer.size=16777216

# A topic with a typing mistake in its name is an error, not a new topic.
auto.create.topics.enable=false
# Records carry the time of the event's arrival, which may be years ago or ahead of this clock. Neither age
# nor a jump in time may delete a record, refuse it, or begin a new segment.
log.retention.ms=-1
log.message.timestamp.before.max.ms=9223372036854775807
log.message.timestamp.after.max.ms=9223372036854775807
log.roll.hours=876000
log.segment.bytes=134217728
"""


def properties(*, port: int, controller_port: int, data: str) -> str:
    """Return the broker's configuration."""
    return CONFIG.format(host=HOST, port=port, controller_port=controller_port, data=data)


def start_command(java: Sequence[str], mark: str) -> list[str]:
    """Return the command that starts the broker in its folder; the mark identifies the process."""
    return [*java, mark, "kafka.Kafka", PROPERTIES]


def format_command(java: Sequence[str], cluster: str) -> list[str]:
    """Return the command that formats an empty storage in a folder with a configuration."""
    tool = ("kafka.tools.StorageTool", "format", f"--cluster-id={cluster}", "--config", PROPERTIES)
    return [*java, *tool]


def java_with(home: Path, jars: Sequence[Path], more: Sequence[str] = ()) -> list[str]:
    """Return the beginning of both commands: Java with the broker's jars, and options of this machine."""
    return [str(home / "bin" / "java"), *JVM, *more, "-cp", ":".join(str(jar) for jar in jars)]


# The configuration of Dagster's instance, of the parts in infra/strandline_infra/dagster.

PARTS = Path(__file__).parent / "dagster"
WORKSPACE = PARTS / "workspace.yaml"
"""Where the definitions are, and under which name Dagster knows them."""


def instance(*, in_database: bool) -> str:
    """Return the text of ``dagster.yaml``, with its history in PostgreSQL or in files."""
    names = ["dagster.yaml", "postgres.yaml"] if in_database else ["dagster.yaml"]
    return "".join((PARTS / name).read_text() for name in names)


# Executors of a cluster: the Python packages that they need, in an archive, and their program in a container of Kubernetes.
#
# The archive is made of the packages of this environment, so the executors have the driver's versions and nothing is fetched. They
# need PySpark's way of exchanging rows and state, and no more: the project's own code goes by itself
# (jobs/strandline/engine/runtime/spark_on_cluster.py), and PySpark is part of their Spark. The interpreter is theirs, of the same
# minor version and for the same kind of machine.

PACKAGES = (
    *("numpy", "pandas", "protobuf", "pyarrow"),
    *("python-dateutil", "pytz", "six", "tzdata"),  # of pandas
)
REGISTERED = (
    *("fastavro", "jsonschema-rs", "orjson", "googleapis-common-protos"),
    *("obstore", "fsspec", "typing-extensions"),  # a schema is read from the lake
)
"""What decodes payloads of a schema registry (jobs/strandline/core/parse_registered.py); those that are installed."""

LEFT_OUT = {"__pycache__", "tests", "include", ".."}
"""Folders of no use there; the last holds programs."""


def pack(file: Path) -> None:
    """Write the archive."""
    with tarfile.open(file, "w:gz", compresslevel=3) as archive:
        for each in _files():
            if LEFT_OUT.isdisjoint(each.parts):
                archive.add(each.locate(), arcname=str(each), recursive=False)


def _files() -> "Iterator[PackagePath]":
    from importlib.metadata import PackageNotFoundError, distribution  # noqa: PLC0415  # it imports what reads mail, which takes long

    for name in PACKAGES:
        yield from distribution(name).files or ()
    for name in REGISTERED:
        with suppress(PackageNotFoundError):
            yield from distribution(name).files or ()


# Spark's executor in a container of Kubernetes: the image's program ``executor``.
#
# A driver with STRANDLINE_MASTER=k8s://… starts pods whose only word is ``executor``, and says by variables what each is to be.
# Spark's own image has a script for that word; pip's pyspark, which ours is made of, lacks it, and the pod would end at once.

BACKEND = "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend"
JARS = "lib/python3.*/site-packages/pyspark/jars"
OPTION = "SPARK_JAVA_OPT_"
"""Begins the names of the variables with Java's options, which end in a number."""
WORDS = {
    "--driver-url": "SPARK_DRIVER_URL",
    "--executor-id": "SPARK_EXECUTOR_ID",
    "--cores": "SPARK_EXECUTOR_CORES",
    "--app-id": "SPARK_APPLICATION_ID",
    "--hostname": "SPARK_EXECUTOR_POD_IP",
    "--resourceProfileId": "SPARK_RESOURCE_PROFILE_ID",
    "--podName": "SPARK_EXECUTOR_POD_NAME",
}


def executor_command(given: Mapping[str, str], home: Path) -> list[str]:
    """Return what runs, by the variables of the driver and the home of Java."""
    numbered = (name for name in given if name.startswith(OPTION))
    options = [given[name] for name in sorted(numbered, key=lambda name: int(name[len(OPTION) :]))]
    heap = given["SPARK_EXECUTOR_MEMORY"]
    jars = [f"{each}/*" for each in Path(sys.prefix).glob(JARS)]
    first = [given[name] for name in ("SPARK_CONF_DIR", "SPARK_EXTRA_CLASSPATH") if name in given]
    path = ":".join([*first, *jars])
    words = [word for flag, name in WORDS.items() for word in (flag, given[name])]
    return [
        str(home / "bin" / "java"),
        *options,
        f"-Xms{heap}",
        f"-Xmx{heap}",
        "-cp",
        path,
        BACKEND,
        *words,
    ]


def execute() -> None:
    """Become the executor, so that a signal to it reaches Java."""
    home = java.java_home()
    if home is None:
        sys.exit(
            "no Java 17 or 21 was found.\n\nhint: build the image with infra/image/Dockerfile."
        )
    words = executor_command(os.environ, home)
    os.execv(words[0], words)  # noqa: S606  # without a shell, on purpose


def main(words: Sequence[str]) -> None:
    """Do what the first word says.

    Args:
        words: ``executor``; ``packages`` and the archive to write; ``dagster`` and the configuration to write, where no
            `strandline ui` does (infra/kubernetes/base/patches/history.yaml); ``store`` and the scheme of a store whose jars an
            image is to bring.
    """
    match words:
        case ["executor"]:
            execute()
        case ["packages", file]:
            pack(Path(file))
        case ["dagster", file]:
            Path(file).write_text(instance(in_database=True))
        case ["store", scheme] if scheme in java.STORES:
            sys.stdout.writelines(f"{jar.name}\n" for jar in java.STORES[scheme].class_path())
        case _:
            sys.exit(
                f"executor, packages FILE.tar.gz, dagster FILE.yaml, or store {'|'.join(java.STORES)}"
            )


if __name__ == "__main__":
    main(sys.argv[1:])
