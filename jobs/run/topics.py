"""Ask a Kafka cluster whether it is there and which topics it has, and make topics.

Why errors are looked up twice: the C client only says "transport failure" or "timed out" when it gives up.
What really happened (refused, unknown host, wrong password) went to its error callback before.
"""

import re
import time
from collections.abc import Iterable, Mapping

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from jobs.core.errors import DefinitionError, LakeError, TransientError
from jobs.core.table import Table, Topic

PATIENCE = 4.0
ADDRESS = re.compile(r"(?P<host>[^\s:,\[\]]+|\[[0-9A-Fa-f:]+\]):(?P<port>\d{1,5})")
HIGHEST_PORT = 65_535
# Spark's Java client reads these; the C client has other names for the same and refuses them.
JAVA_ONLY = ("ssl.truststore.", "sasl.jaas.config")
ANSWER = "start ours with `strandline up`, or correct STRANDLINE_KAFKA."
OPTIONS = "correct STRANDLINE_KAFKA_OPTIONS."
# What the caller must change; waiting does not help.
REFUSALS = frozenset({KafkaError._AUTHENTICATION, KafkaError._SSL})  # noqa: SLF001  # public, though so named


def check_reachable(
    address: str, options: Mapping[str, str], *, patience: float = PATIENCE
) -> None:
    """Make sure that a broker answers.

    Raises:
        DefinitionError: The address or an option is malformed, or the cluster refuses us.
        TransientError: No broker answers.
    """
    _leaders(Cluster(address, options), patience)


def topics(address: str, options: Mapping[str, str]) -> dict[str, int]:
    """Return the number of partitions of each topic, without Kafka's own.

    Raises:
        DefinitionError: The address or an option is malformed, or the cluster refuses us.
        TransientError: No broker answers.
    """
    found = _leaders(Cluster(address, options), PATIENCE)
    return {name: len(leaders) for name, leaders in found.items() if not name.startswith("__")}


def create_topic(address: str, name: str, partitions: int, options: Mapping[str, str]) -> bool:
    """Make sure that a topic exists, and tell whether it had to be made.

    One that exists is left as it is, whatever its number of partitions.

    Raises:
        DefinitionError: The cluster does not want such a topic.
        TransientError: No broker answers.
    """
    cluster = Cluster(address, options)
    if name in _leaders(cluster, PATIENCE):
        return False
    # Without a replication factor the cluster's own default holds: 1 at ours, 3 at most others.
    made = cluster.admin.create_topics([NewTopic(name, num_partitions=partitions)])[name]
    try:
        made.result()
    except KafkaException as error:
        reason = error.args[0]
        if reason.code() == KafkaError.TOPIC_ALREADY_EXISTS:  # another made it just now
            return False
        raise DefinitionError(
            f"topic {name} cannot be made at {address}: {reason.str()}",
            hint="correct its name or number of partitions, or have it made by who may.",
            address=address,
            topic=name,
        ) from error
    _wait_until_known(cluster, name)
    return True


def missing(address: str, options: Mapping[str, str], tables: Iterable[Table]) -> list[Topic]:
    """Return the topics of tables that a cluster does not have, each once.

    Raises:
        DefinitionError: The address or an option is malformed, or the cluster refuses us.
        TransientError: No broker answers.
    """
    there = topics(address, options)
    declared = {topic.name: topic for table in tables for topic in table.topics}
    return [topic for name, topic in sorted(declared.items()) if name not in there]


def make_missing(address: str, tables: Iterable[Table]) -> list[Topic]:
    """Make the topics of tables on the lake's own broker, and return those that were not there.

    Never on another's cluster: how many copies and partitions a topic has there is decided by those who run it.

    Raises:
        DefinitionError: The broker does not want one of them.
        TransientError: The broker does not answer.
    """
    wanted = missing(address, {}, tables)
    return [topic for topic in wanted if create_topic(address, topic.name, topic.partitions, {})]


class Cluster:
    """A connection for questions, and what went wrong on it."""

    def __init__(self, address: str, options: Mapping[str, str]) -> None:
        """Connect in the background.

        Raises:
            DefinitionError: The address or an option is malformed.
        """
        _check_address(address)
        self.address = address
        self.options = options
        self.heard: list[KafkaError] = []
        given = {k: v for k, v in options.items() if not k.startswith(JAVA_ONLY)}
        quiet: dict[str, str | int | float | bool] = {
            "bootstrap.servers": address,
            "log_level": 0,  # it would write to the terminal
            "reconnect.backoff.ms": 20,  # a broker that has just started is found at once
            "reconnect.backoff.max.ms": 200,
        }
        try:
            self.admin = AdminClient({**quiet, **given}, error_cb=self.heard.append)
        except KafkaException as error:
            raise DefinitionError(
                f"the Kafka client refuses its options: {error.args[0].str()}",
                hint=OPTIONS,
                address=address,
            ) from error

    def failure(self, error: KafkaException) -> LakeError:
        """Return the error for the reader, with the reason that was heard before it."""
        self.admin.poll(0)
        refusal = next((told for told in self.heard if told.code() in REFUSALS), None)
        if refusal is not None:
            return DefinitionError(
                f"the Kafka broker at {self.address} refuses us: {_reason(refusal)}",
                hint=OPTIONS,
                address=self.address,
            )
        all_down = KafkaError._ALL_BROKERS_DOWN  # noqa: SLF001  # public, though so named
        told = next((told for told in self.heard if told.code() != all_down), error.args[0])
        return TransientError(
            f"no Kafka broker answers at {self.address}: {_reason(told)}",
            hint=ANSWER if not self.options else f"{ANSWER[:-1]} or STRANDLINE_KAFKA_OPTIONS.",
            address=self.address,
        )


def _leaders(cluster: Cluster, patience: float) -> dict[str, list[int]]:
    """Return for each topic the brokers that lead its partitions; -1 where none does yet."""
    try:
        found = cluster.admin.list_topics(timeout=patience).topics
    except KafkaException as error:
        raise cluster.failure(error) from error
    return {name: [p.leader for p in found[name].partitions.values()] for name in sorted(found)}


def _wait_until_known(cluster: Cluster, name: str) -> None:
    # The controller has made it; the broker learns of it a moment later, and a reader asks the broker.
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        leaders = _leaders(cluster, PATIENCE).get(name)
        if leaders and min(leaders) >= 0:
            return
        time.sleep(0.02)


def _check_address(address: str) -> None:
    for part in address.split(","):
        found = ADDRESS.fullmatch(part.strip())
        if found is None or not 0 < int(found["port"]) <= HIGHEST_PORT:
            raise DefinitionError(
                f"{address!r} is no address of a Kafka broker",
                hint="write host:port, or several of them with commas between, in STRANDLINE_KAFKA.",
                address=address,
            )


def _reason(error: KafkaError) -> str:
    # The client's words: which connection, what failed, and after how many milliseconds in which state.
    text = re.sub(r"\s*\(after \d+ms in state \w+[^)]*\)", "", error.str())
    text = re.sub(r"^\S+/(?:bootstrap|\d+): ", "", text)
    # Inside our sentence; but SASL and SSL stay as they are.
    return text[:1].lower() + text[1:] if text[1:2].islower() else text
