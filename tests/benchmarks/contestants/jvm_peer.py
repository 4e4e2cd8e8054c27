"""Contestants that run on a JVM of their own without Spark: a Java process that takes commands, a line each.

What it does with them is in the folder ``jvm``. The process ends with this one, whose end closes its stdin.
"""

import subprocess
from pathlib import Path

from strandline_infra import java
from tests.benchmarks import kit
from tests.benchmarks.contestants.contestant import (
    ADS,
    BRONZE,
    GOLD,
    SILVER,
    TELEMETRY,
    Place,
    Stop,
)
from tests.benchmarks.yahoo.ads import CAMPAIGN_OF

OPENED = ("java.util", "java.lang", "java.nio", "sun.nio.ch", "java.time", "java.lang.invoke")
"""Packages of Java that Flink's serialisers look into."""
QUIET = "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"
JOBS = {
    (BRONZE,): "ingest",
    (SILVER,): "clean",
    (GOLD,): "windows",
    TELEMETRY: "whole",
    ADS: "yahoo",
}
"""The job that fills some tables."""


class JvmPeer:
    """A peer with its JVM."""

    jars: str
    main: str
    options: tuple[str, ...]

    def begin(self, log: Path) -> dict[str, str]:
        """Start the JVM, and return which one it is."""
        home, found = java.java_home(), kit.class_path(self.jars)
        command = [f"{home}/bin/java", *self.options, QUIET, "-cp", ":".join(map(str, found))]
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [*command, self.main],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=output,
                text=True,
            )
        self._campaigns = log.with_name(f"{log.stem}-campaigns.csv")
        self._campaigns.write_text("".join(f"{ad},{of}\n" for ad, of in CAMPAIGN_OF.items()))
        return {"java": self._answer().removeprefix("java ")}

    def catch_up(self, names: tuple[str, ...], place: Place) -> None:
        """Do the job that fills these tables."""
        assert self._process.stdin is not None
        where = (place.root, place.address, place.topic, place.variant)
        job = JOBS.get(names) or names[0]  # a query of NEXMark has the name of its job
        fields = (job, *where, self._campaigns, place.counted)
        self._process.stdin.write("\t".join(map(str, fields)) + "\n")
        self._process.stdin.flush()
        answer = self._answer()
        if answer != "done":
            raise RuntimeError(answer)

    def follow(self, names: tuple[str, ...], place: Place) -> Stop:
        """Refuse: it is measured to the end of a topic."""
        raise NotImplementedError(names, place)

    def _answer(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip() or "failed: the JVM has ended"


class Flink(JvmPeer):
    """Flink SQL, a local cluster for each job."""

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
