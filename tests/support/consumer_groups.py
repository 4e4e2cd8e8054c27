"""Kafka's own ``kafka-consumer-groups``, as its people type it: the real program, in a process of its own."""

import os
import subprocess
from pathlib import Path

from strandline_infra import java
from tests.support import ivy

LISTS = Path(__file__).with_name("kafka_tools")
PROGRAM = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
JVM = ("-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
HEAD = ("GROUP", "TOPIC", "PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG")


def described(address: str, group: str) -> dict[tuple[str, int], tuple[int, int, int]]:
    """Return what it prints of a group: of each partition the group's offset, the end and the lag; nothing of one that is not there."""
    jars = [*ivy.fetched("kafka-tools", LISTS, "jar").glob("*.jar"), *java.broker_jars()]
    words = ("--bootstrap-server", address, "--describe", "--group", group)
    done = subprocess.run(
        [ivy.program(), *JVM, "-cp", os.pathsep.join(map(str, jars)), PROGRAM, *words],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    if "does not exist" in done.stdout + done.stderr:
        return {}
    assert done.returncode == 0, done.stdout + done.stderr
    lines = [line.split() for line in done.stdout.splitlines() if line.strip()]
    heads = [number for number, words in enumerate(lines) if tuple(words[: len(HEAD)]) == HEAD]
    assert heads, done.stdout + done.stderr
    rows = [words for words in lines[heads[0] + 1 :] if words[0] == group]
    return {
        (topic, int(part)): (int(at), int(end), int(lag))
        for _, topic, part, at, end, lag, *_ in rows
    }
