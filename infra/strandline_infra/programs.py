"""How programs beside a lake are configured: its own Kafka broker, one node, small, without retention limits; and Dagster.

Why C1 only (``TieredStopAtLevel=1``): measured on 2 cores, the broker answers after 1.6 s instead of 3.3 s, and
a million produced events cost it 0.7 s of CPU instead of 1.5 s. Compiling costs it more than its own work.

From a class-data archive it answers after 0.74 s instead of 1.39 s, with its storage formatted before that in 0.31 s
instead of 0.54 s; both starts and the stop cost 1.6 s of CPU instead of 2.6 s [three starts of each].
"""

import sys
from collections.abc import Sequence
from pathlib import Path

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


# Where no `strandline ui` writes it: infra/kubernetes/base/patches/history.yaml.
if __name__ == "__main__":
    Path(sys.argv[1]).write_text(instance(in_database=True))
