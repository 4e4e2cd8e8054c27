"""Send the records of a project's play module, each with the time of its arrival, and wait until all are acknowledged."""

from collections.abc import Callable, Iterable, Mapping

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from jobs.core.errors import TransientError
from jobs.core.record import Record
from jobs.engine.kafka.admin import JAVA_ONLY

TIMEOUT = 30.0
MOST = 10_000
"""Records between two looks at what was acknowledged."""


def send_records(
    address: str,
    options: Mapping[str, str],
    records: Iterable[Record],
    on_progress: Callable[[int], None] = lambda _: None,
) -> int:
    """Send records in their order, and return how many.

    Raises:
        TransientError: One was not acknowledged; those before it are in their topics.
    """
    failures: list[KafkaError] = []

    def reported(error: KafkaError | None, _: Message) -> None:
        if error is not None:
            failures.append(error)

    own = {name: value for name, value in options.items() if not name.startswith(JAVA_ONLY)}
    producer = Producer(
        {
            **own,
            "bootstrap.servers": address,
            "enable.idempotence": "true",
            "message.timeout.ms": int(TIMEOUT * 1000),
            "log_level": 0,
        }
    )
    sent = 0
    try:
        for record in records:
            arrived = int(record.arrived_at.timestamp() * 1000)
            producer.produce(
                record.topic, record.value, record.key, timestamp=arrived, on_delivery=reported
            )
            sent += 1
            if sent % MOST == 0:
                _await(producer, failures)
                on_progress(MOST)
        _await(producer, failures)
    except (KafkaException, BufferError) as error:
        raise _refused(str(error)) from error
    on_progress(sent % MOST)
    return sent


def _await(producer: Producer, failures: list[KafkaError]) -> None:
    left = producer.flush(2 * TIMEOUT)
    if left or failures:
        raise _refused(failures[0].str() if failures else "no answer")


def _refused(reason: str) -> TransientError:
    return TransientError(
        f"Kafka does not take the records: {reason}",
        hint="see that the topics exist, and that the broker runs (`strandline status`).",
    )
