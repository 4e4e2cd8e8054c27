"""Send the events of a plan to Kafka, and check that they arrived.

Why not ``produce_batch``: confluent-kafka 2.16 has it, but refuses timestamps ("not currently supported in
batch mode"), and the arrival time is the record's timestamp.

Why no callback for a delivered event: at this rate it is the dearest thing in the process. The C client
reports failures only, the length of its queue of unacknowledged events shows how many are acknowledged, and
at the end the offsets of the topic must have grown by at least the number of events sent.

Measured on two cores with the broker on the same machine, three times a million events: 217,000 to 269,000
acknowledged events a second, 3.9 µs of CPU an event on this side; making the event takes 1.7 of them.
A broker killed with ``kill -9`` and started again within the patience cost no event and doubled none.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from jobs.core.errors import DataError, TransientError
from jobs.engine.kafka.admin import JAVA_ONLY, create_topic
from jobs.engine.kafka.slices import Backlog
from jobs.play.domain import Part, domain
from jobs.play.interrupt import Interrupt
from jobs.play.plan import Plan
from jobs.play.player import CHUNK, Chunk
from jobs.play.truth import Tally, Truth, summed

PATIENCE = 30.0
"""The seconds without an acknowledgement after which the broker counts as gone."""

SETTLED_WITHIN = 5.0
"""The seconds that the partitions of a new topic may take to elect their leaders."""

TICK = 0.05
"""The seconds between two portions of a run with a fixed rate."""

SPEED = {
    "compression.type": "lz4",
    "linger.ms": "20",
    "batch.size": "1000000",
    "queue.buffering.max.messages": "200000",
    "queue.buffering.max.kbytes": "262144",
}
"""Defaults that a cluster's own options may override."""

ORDER = {
    "acks": "all",
    "enable.idempotence": "true",
    # Java's client makes the same choice, so a key stays in its partition with either client.
    "partitioner": "murmur2_random",
    "delivery.report.only.error": True,
    "log_level": 0,
}
"""The truth needs these: nothing lost, nothing twice, copies after their originals."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """The result of a run.

    Args:
        events: The number of records that the brokers have acknowledged.
        seconds: The time from the first event made to the last one acknowledged.
        truth: The counts that the lake must have.
        is_whole: False if the run was interrupted before the end of the plan.
    """

    events: int
    seconds: float
    truth: Truth
    is_whole: bool


def send(  # one call that needs no preparation
    plan: Plan,
    address: str,
    options: Mapping[str, str],
    *,
    parts: Sequence[Part] | None = None,
    on_progress: Callable[[int], None] = lambda _: None,
) -> Sent:
    """Send a plan's events; create topics that do not exist.

    The first Ctrl-C ends the run after the current portion, in good order; a second one at once.

    Args:
        plan: The events.
        address: host:port of a broker.
        options: Properties of the C client, such as ``security.protocol``.
        parts: The sources and their topics; the whole domain when absent.
        on_progress: Called with the number of events acknowledged so far, several times a second.

    Raises:
        DefinitionError: The address, an option or the topic is malformed or refused.
        TransientError: No broker answers, or it went away; ``acknowledged`` says how many events arrived.
        DataError: The topic has grown by less than what its broker acknowledged.
    """
    sources = domain(plan) if parts is None else parts
    topics = [part.topic for part in sources]
    for topic in topics:
        create_topic(address, topic.name, topic.partitions, options)
    log = Backlog(address, options, topics)
    try:
        before = _end(log)
        with Interrupt() as interrupt:
            sent = _Sending(plan, address, options, sources, on_progress).run(interrupt)
        grown = _end(log) - before
    finally:
        log.close()
    if grown < sent.events:
        raise DataError(
            f"{sent.events} events were acknowledged, but their topics have grown by {grown} only",
            hint="check whether a topic is compacted, expires old timestamps, or was created again.",
            acknowledged=sent.events,
            grown=grown,
        )
    return sent


@dataclass(slots=True)
class _Sending:
    """A run in progress."""

    plan: Plan
    address: str
    options: Mapping[str, str]
    parts: Sequence[Part]
    on_progress: Callable[[int], None]
    tallies: list[tuple[Part, Tally]] = field(init=False)
    handed_over: int = 0
    failed: int = 0
    complaint: str = "it stopped answering"
    acknowledged: int = 0
    moved_at: float = field(default_factory=time.monotonic)
    producer: Producer = field(init=False)

    def __post_init__(self) -> None:
        self.tallies = [(part, Tally()) for part in self.parts]
        own = {k: v for k, v in self.options.items() if not k.startswith(JAVA_ONLY)}
        self.producer = Producer(
            {
                **SPEED,
                **own,
                **ORDER,
                "bootstrap.servers": self.address,
                "on_delivery": self._on_failure,
                "error_cb": self._on_error,
            }
        )

    def run(self, interrupt: Interrupt) -> Sent:
        begun = time.monotonic()
        rate = self.plan.rate
        size = CHUNK if rate is None else max(1, min(CHUNK, int(rate * TICK)))
        try:
            for part, tally, chunk in self._portions(size):
                if rate is not None:
                    self._wait_until(begun + self.handed_over / rate, interrupt)
                if interrupt.asked:
                    break
                self._hand_over(part, chunk)
                tally.add(chunk)
                self.handed_over += len(chunk.values)
                self._look(0)
            while len(self.producer):
                self._look(0.1)
            self._look(0)  # the last ones may have left the queue since the last look
        except KafkaException as error:
            self.complaint = _words(error)
            raise self._gone() from error
        finally:
            # After a failure the client would go on trying for minutes while the process wants to end.
            self.producer.purge()
        return Sent(
            events=self.acknowledged,
            seconds=time.monotonic() - begun,
            truth=summed(self.plan, self.tallies),
            is_whole=self.handed_over == self.plan.events,
        )

    def _portions(self, size: int) -> Iterator[tuple[Part, Tally, Chunk]]:
        """Yield portions of all sources side by side, each source spread over the whole run."""
        rounds = max(-(-self.plan.events // size), 1)
        for number in range(rounds):
            for part, tally in self.tallies:
                start, stop = (part.events * n // rounds for n in (number, number + 1))
                if stop > start:
                    yield part, tally, part.player.chunk(start, stop)

    def _hand_over(self, part: Part, chunk: Chunk) -> None:
        produce, topic = self.producer.produce, part.topic.name
        for key, value, arrived_at in zip(chunk.keys, chunk.values, chunk.arrived_at, strict=True):
            while True:
                try:
                    produce(topic, value, key, timestamp=arrived_at)
                except BufferError:
                    self._look(0.05)
                else:
                    break

    def _wait_until(self, moment: float, interrupt: Interrupt) -> None:
        while (left := moment - time.monotonic()) > 0 and not interrupt.asked:
            self._look(min(left, 0.2))

    def _look(self, seconds: float) -> None:
        """Let the client work; raise when it has failed or makes no progress any more."""
        self.producer.poll(seconds)
        now = time.monotonic()
        waiting = len(self.producer)
        acknowledged = max(self.handed_over - waiting - self.failed, self.acknowledged)
        if acknowledged > self.acknowledged or not waiting:
            self.acknowledged, self.moved_at = acknowledged, now
            self.on_progress(acknowledged)
        if self.failed or now - self.moved_at > PATIENCE:
            raise self._gone()

    def _gone(self) -> TransientError:
        return TransientError(
            f"Kafka at {self.address} took at least {self.acknowledged} of {self.plan.events} events, "
            f"then no more: {self.complaint}",
            hint="check that the broker runs (`strandline status`), then send to a new topic; "
            "in the same one, the events that had arrived would be counted as duplicates.",
            acknowledged=self.acknowledged,
            address=self.address,
        )

    def _on_failure(self, error: KafkaError | None, _: Message) -> None:
        if error is not None:
            self.failed += 1
            self.complaint = error.str()

    def _on_error(self, error: KafkaError) -> None:
        self.complaint = error.str()


def _end(log: Backlog) -> int:
    """Return the sum of the end offsets of the topics."""
    # For a moment after a topic was created its partitions may answer "not leader" (seen on a busy machine).
    deadline = time.monotonic() + SETTLED_WITHIN
    while True:
        try:
            return sum(end for _, end in log.bounds().values())
        except TransientError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def _words(error: KafkaException) -> str:
    reason = error.args[0]
    return reason.str() if isinstance(reason, KafkaError) else str(reason)
