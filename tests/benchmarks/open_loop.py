"""Send events at a fixed rate, each at its intended time, however long anything else takes.

``python -m tests.benchmarks.open_loop ADDRESS TOPIC PARTITIONS RATE SECONDS``, a process of its own, so that what
measures it does not slow it down. The intended time in nanoseconds is in the event; latency is counted from it, so that an event
that was sent late because its sender was held up is late (what closed loops leave out). Prints how late it was itself.
"""

import json
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime

from confluent_kafka import Producer

BILLION = 1_000_000_000


def payload(intended: int) -> bytes:
    """Return a start of a program on which a rule fires."""
    at = datetime.fromtimestamp(intended / BILLION, tz=UTC).isoformat(timespec="microseconds")
    return (
        f'{{"ProcessGuid": "{intended}", "UtcTime": "{at}", "Computer": "ws-1", "User": "u", '
        '"Image": "C:\\\\Temp\\\\certutil.exe", "CommandLine": "certutil /DecodeHex a b", '
        '"ParentImage": "C:\\\\Windows\\\\explorer.exe", "ParentCommandLine": "explorer", '
        '"ProcessId": 4711, "Hashes": "SHA256=00"}'
    ).encode()


def paced(  # noqa: PLR0913, PLR0917  # where, how fast, what
    address: str,
    topic: str,
    partitions: int,
    rate: float,
    seconds: float,
    made: Callable[[int], bytes] = payload,
) -> dict[str, float]:
    """Send; return how many were sent, and how late the sender was at worst and in the mean, in milliseconds."""
    producer = Producer({"bootstrap.servers": address, "linger.ms": 0, "acks": "1", "log_level": 0})
    producer.list_topics(topic, timeout=20)
    step, total = BILLION / rate, int(rate * seconds)
    begin = time.time_ns() + BILLION // 2
    late = most = 0
    for number in range(total):
        intended = begin + int(number * step)
        while (left := intended - time.time_ns()) > 0:
            producer.poll(0)
            time.sleep(min(left / BILLION, 0.01))
        late += -left
        most = max(most, -left)
        producer.produce(topic, made(intended), partition=number % partitions)
    unsent = producer.flush(60)
    return {"sent": total - unsent, "mean": late / total / 1e6, "most": most / 1e6}


def main(words: list[str]) -> None:
    """Send, and print how late the sender was."""
    address, topic, partitions, rate, seconds = words
    found = paced(address, topic, int(partitions), float(rate), float(seconds))
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1:])
