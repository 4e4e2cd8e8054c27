"""Write single records to a topic, each acknowledged by all replicas before the next."""

from collections.abc import Callable, Mapping

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from strandline.core.errors import TransientError
from strandline.engine.kafka.admin import JAVA_ONLY

TIMEOUT = 10.0
"""Seconds until a record that no broker takes is given up."""


class TopicWriter:
    """Writes to one topic; after a failure it connects anew, because the lake's broker may return at another port."""

    def __init__(self, locate: Callable[[], str], options: Mapping[str, str], topic: str) -> None:
        """Connect to nothing yet."""
        self._locate, self._topic = locate, topic
        self._options = {k: v for k, v in options.items() if not k.startswith(JAVA_ONLY)}
        self._producer: Producer | None = None

    def write(self, key: str, value: bytes) -> None:
        """Write a record.

        Raises:
            TransientError: It was not acknowledged; it may be in the topic all the same.
        """
        failures: list[KafkaError] = []

        def reported(error: KafkaError | None, _: Message) -> None:
            if error is not None:
                failures.append(error)

        try:
            producer = self._connected()
            producer.produce(self._topic, value, key, on_delivery=reported)
            left = producer.flush(2 * TIMEOUT)
        except KafkaException as error:
            raise self._refused(error.args[0].str()) from error
        if left or failures:
            raise self._refused(failures[0].str() if failures else "no answer")

    def _connected(self) -> Producer:
        if self._producer is None:
            self._producer = Producer(
                {
                    **self._options,
                    "bootstrap.servers": self._locate(),
                    "acks": "all",
                    "enable.idempotence": "true",
                    "message.timeout.ms": int(TIMEOUT * 1000),
                    "linger.ms": 0,
                    "log_level": 0,
                }
            )
        return self._producer

    def _refused(self, reason: str) -> TransientError:
        self._producer = None
        return TransientError(
            f"topic {self._topic} does not take the record: {reason}",
            hint="see that the topic exists, and that its broker runs (`strandline status`).",
            topic=self._topic,
        )
