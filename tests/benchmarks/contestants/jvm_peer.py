"""Peers that run on a JVM of their own without Spark: a Java process whose jobs are in the folder ``jvm``."""

from collections.abc import Mapping, Sequence

from strandline_infra import java
from tests.benchmarks import kit
from tests.benchmarks.contestants.peer import Peer

OPENED = ("java.util", "java.lang", "java.nio", "sun.nio.ch", "java.time", "java.lang.invoke")
"""Packages of Java that Flink's serialisers look into."""
QUIET = "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"


class JvmPeer(Peer):
    """A peer with its JVM."""

    language = "java"
    jars: str
    main: str
    options: tuple[str, ...]

    def command(self) -> tuple[Sequence[str], Mapping[str, str]]:
        """Return the JVM with its class path."""
        home, found = java.java_home(), kit.class_path(self.jars)
        words = [f"{home}/bin/java", *self.options, QUIET, "-cp", ":".join(map(str, found))]
        return [*words, self.main], {}


class Flink(JvmPeer):
    """Flink SQL, a local cluster for each job; for the queries of NEXMark one that stays."""

    jars = "flink"
    main = "peers.FlinkPeer"
    options = (
        "-Xms2g",
        "-Xmx3g",
        "-XX:+UseParallelGC",
        *(f"--add-opens=java.base/{each}=ALL-UNNAMED" for each in OPENED),
    )


class KafkaStreams(JvmPeer):
    """Kafka Streams, two threads."""

    jars = "kafka_streams"
    main = "peers.KafkaStreamsPeer"
    options = ("-Xms256m", "-Xmx1g")
