"""Check that a Kafka cluster answers, list its topics, and create topics.

Why errors are looked up in two places: when the C client gives up it only reports "transport failure" or "timed out".
The cause (refused, unknown host, wrong password) went to its error callback before.
"""

import re
import time
from collections.abc import Collection, Iterable, Mapping

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._listoffsets import OffsetSpec
from confluent_kafka.cimpl import NewTopic

from strandline.core.errors import DefinitionError, LakeError, TransientError
from strandline.core.table import Table
from strandline.core.topic import Topic

PATIENCE = 4.0
ADDRESS = re.compile(r"(?P<host>[^\s:,\[\]]+|\[[0-9A-Fa-f:]+\]):(?P<port>\d{1,5})")
HIGHEST_PORT = 65_535
# Spark's Java client reads these; the C client has other names for the same and refuses them.
JAVA_ONLY = ("ssl.truststore.", "sasl.jaas.config")
ANSWER = "start the lake's broker with `strandline up`, or correct STRANDLINE_KAFKA."
OPTIONS = "correct STRANDLINE_KAFKA_OPTIONS."
# Errors that the operator must correct; waiting does not help.
REFUSALS = frozenset({KafkaError._AUTHENTICATION, KafkaError._SSL})  # noqa: SLF001  # public, though so named


def check_reachable(
    address: str, options: Mapping[str, str], *, patience: float = PATIENCE
) -> None:
    """Make sure that a broker answers.

    Raises:
        DefinitionError: The address or an option is malformed, or the cluster refuses the client.
        TransientError: No broker answers.
    """
    _leaders(Cluster(address, options), patience)


def topics(address: str, options: Mapping[str, str]) -> dict[str, int]:
    """Return the number of partitions of each topic, without Kafka's own.

    Raises:
        DefinitionError: The address or an option is malformed, or the cluster refuses the client.
        TransientError: No broker answers.
    """
    found = _leaders(Cluster(address, options), PATIENCE)
    return {name: len(leaders) for name, leaders in found.items() if not name.startswith("__")}


def create_topic(address: str, name: str, partitions: int, options: Mapping[str, str]) -> bool:
    """Make sure that a topic exists; return whether it was created.

    An existing topic is left as it is, whatever its number of partitions.

    Raises:
        DefinitionError: The cluster refuses to create such a topic.
        TransientError: No broker answers.
    """
    cluster = Cluster(address, options)
    if name in _leaders(cluster, PATIENCE):
        return False
    # Without a replication factor the cluster's own default applies: 1 on the lake's broker, 3 on most others.
    made = cluster.admin.create_topics([NewTopic(name, num_partitions=partitions)])[name]
    try:
        made.result()
    except KafkaException as error:
        reason = error.args[0]
        if reason.code() == KafkaError.TOPIC_ALREADY_EXISTS:  # another process just created it
            return False
        raise DefinitionError(
            f"topic {name} cannot be created at {address}: {reason.str()}",
            hint="correct its name or number of partitions, or ask the cluster's operator to create it.",
            address=address,
            topic=name,
        ) from error
    _wait_until_known(cluster, name)
    return True


def missing(address: str, options: Mapping[str, str], tables: Iterable[Table]) -> list[Topic]:
    """Return the topics of tables that a cluster lacks, each once.

    Raises:
        DefinitionError: The address or an option is malformed, or the cluster refuses the client.
        TransientError: No broker answers.
    """
    existing = topics(address, options)
    declared = {topic.name: topic for table in tables for topic in table.topics}
    return [topic for name, topic in sorted(declared.items()) if name not in existing]


def make_missing(address: str, tables: Iterable[Table], but: Collection[str] = ()) -> list[Topic]:
    """Create the missing topics of tables on the lake's own broker, and return them.

    Args:
        address: The broker.
        tables: Any.
        but: Names of topics that are not made anew.

    Never on an external cluster: its operators decide how many replicas and partitions a topic has.

    Raises:
        DefinitionError: The broker refuses to create one of them.
        TransientError: The broker does not answer.
    """
    wanted = [each for each in missing(address, {}, tables) if each.name not in but]
    return [topic for topic in wanted if create_topic(address, topic.name, topic.partitions, {})]


def ends(cluster: "Cluster", parts: Iterable[tuple[str, int]]) -> dict[tuple[str, int], int]:
    """Return the offsets after the last committed record of partitions, by one question to each broker.

    Raises:
        KafkaException: A partition does not exist, or a broker does not answer.
    """
    newest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
    asked = cluster.admin.list_offsets(
        {TopicPartition(*part): newest for part in parts},
        isolation_level=IsolationLevel.READ_COMMITTED,
        request_timeout=PATIENCE,
    )
    return {(each.topic, each.partition): at.result().offset for each, at in asked.items()}


class Cluster:
    """An admin connection, and the errors reported on it."""

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
        """Return the project's error for an error of the client, with the cause that was reported before it."""
        self.admin.poll(0)
        refusal = next((each for each in self.heard if each.code() in REFUSALS), None)
        if refusal is not None:
            return DefinitionError(
                f"the Kafka broker at {self.address} refuses the client: {_reason(refusal)}",
                hint=OPTIONS,
                address=self.address,
            )
        all_down = KafkaError._ALL_BROKERS_DOWN  # noqa: SLF001  # public, though so named
        cause = next((each for each in self.heard if each.code() != all_down), error.args[0])
        return TransientError(
            f"no Kafka broker answers at {self.address}: {_reason(cause)}",
            hint=ANSWER if not self.options else f"{ANSWER[:-1]} or STRANDLINE_KAFKA_OPTIONS.",
            address=self.address,
        )


def _leaders(cluster: Cluster, patience: float) -> dict[str, list[int]]:
    """Return for each topic the leaders of its partitions; -1 where there is none yet."""
    try:
        found = cluster.admin.list_topics(timeout=patience).topics
    except KafkaException as error:
        raise cluster.failure(error) from error
    return {name: [p.leader for p in found[name].partitions.values()] for name in sorted(found)}


def _wait_until_known(cluster: Cluster, name: str) -> None:
    # The controller has created it; the broker, which readers ask, learns of it a moment later.
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
                hint="write host:port, or several of them separated by commas, in STRANDLINE_KAFKA.",
                address=address,
            )


def _reason(error: KafkaError) -> str:
    # The client's text: the connection, the failure, and after how many milliseconds in which state.
    text = re.sub(r"\s*\(after \d+ms in state \w+[^)]*\)", "", error.str())
    text = re.sub(r"^\S+/(?:bootstrap|\d+): ", "", text)
    # The text goes inside a sentence, so it begins in lower case; SASL and SSL stay as they are.
    return text[:1].lower() + text[1:] if text[1:2].islower() else text
