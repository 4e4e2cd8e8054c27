"""A Kafka cluster: whether it answers, which topics it has; and the broker of a lake's own, which is started and stopped.

Why errors are looked up in two places: when the C client gives up it only reports "transport failure" or "timed out".
The cause (refused, unknown host, wrong password) went to its error callback before.
"""

import base64
import json
import re
import secrets
import sys
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass

import confluent_kafka
import confluent_kafka.admin

from strandline.core.errors import DataError, DefinitionError, LakeError, TransientError
from strandline.core.table import Table
from strandline.core.topic import Topic
from strandline.engine.lake.lake import Lake, unwritable
from strandline.engine.lake.place import Place
from strandline.engine.lake.store_lease import hold
from strandline.engine.runtime import processes
from strandline.engine.runtime.log_files import bound
from strandline_infra import java
from strandline_infra import programs as recipe
from strandline_infra.installation import setup_command

PATIENCE = 4.0
ADDRESS = re.compile(r"(?P<host>[^\s:,\[\]]+|\[[0-9A-Fa-f:]+\]):(?P<port>\d{1,5})")
HIGHEST_PORT = 65_535
# Spark's Java client reads these; the C client has other names for the same and refuses them.
JAVA_ONLY = ("ssl.truststore.", "sasl.jaas.config")
ANSWER = "start the lake's broker with `strandline up`, or correct STRANDLINE_KAFKA."
OPTIONS = "correct STRANDLINE_KAFKA_OPTIONS."
# Errors that the operator must correct; waiting does not help.


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
    from confluent_kafka.cimpl import NewTopic  # noqa: PLC0415  # few programs make one

    made = cluster.admin.create_topics([NewTopic(name, num_partitions=partitions)])[name]
    try:
        made.result()
    except confluent_kafka.KafkaException as error:
        reason = error.args[0]
        if (
            reason.code() == confluent_kafka.KafkaError.TOPIC_ALREADY_EXISTS
        ):  # another process just created it
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
    from confluent_kafka.admin._listoffsets import OffsetSpec  # noqa: PLC0415  # with its client

    newest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
    asked = cluster.admin.list_offsets(
        {confluent_kafka.TopicPartition(*part): newest for part in parts},
        isolation_level=confluent_kafka.IsolationLevel.READ_COMMITTED,
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
        self.heard: list[confluent_kafka.KafkaError] = []
        given = {k: v for k, v in options.items() if not k.startswith(JAVA_ONLY)}
        quiet: dict[str, str | int | float | bool] = {
            "bootstrap.servers": address,
            "log_level": 0,  # it would write to the terminal
            "reconnect.backoff.ms": 20,  # a broker that has just started is found at once
            "reconnect.backoff.max.ms": 200,
        }
        try:
            self.admin = confluent_kafka.admin.AdminClient(
                {**quiet, **given}, error_cb=self.heard.append
            )
        except confluent_kafka.KafkaException as error:
            raise DefinitionError(
                f"the Kafka client refuses its options: {error.args[0].str()}",
                hint=OPTIONS,
                address=address,
            ) from error

    def failure(self, error: "confluent_kafka.KafkaException") -> LakeError:
        """Return the project's error for an error of the client, with the cause that was reported before it."""
        self.admin.poll(0)
        refusal = next((each for each in self.heard if each.code() in _refusals()), None)
        if refusal is not None:
            return DefinitionError(
                f"the Kafka broker at {self.address} refuses the client: {_reason(refusal)}",
                hint=OPTIONS,
                address=self.address,
            )
        all_down = confluent_kafka.KafkaError._ALL_BROKERS_DOWN  # noqa: SLF001  # public, though so named
        cause = next((each for each in self.heard if each.code() != all_down), error.args[0])
        return TransientError(
            f"no Kafka broker answers at {self.address}: {_reason(cause)}",
            hint=ANSWER if not self.options else f"{ANSWER[:-1]} or STRANDLINE_KAFKA_OPTIONS.",
            address=self.address,
        )


# The offsets of a consumer group, by which Kafka's own tools see how far a reader is.


def set_offsets(
    asks: "confluent_kafka.admin.AdminClient",
    group: str,
    wanted: Mapping[tuple[str, int], int],
    former: Collection[str],
    has: Collection[tuple[str, int]],
) -> None:
    """Let a consumer group have these offsets and no others.

    Args:
        asks: The cluster's admin.
        group: The group; it is made where there is none.
        wanted: Its offsets.
        former: The topics that its reader reads or has ever read: of these it may have others by now.
        has: The partitions of which it has offsets.

    Raises:
        KafkaException: The cluster does not answer, or refuses, as it does while the group has members.
        DefinitionError: The group has offsets of other topics, so it is another reader's.
    """
    over = {*has} - wanted.keys()
    if strange := {name for name, _ in over} - {*former}:
        raise DefinitionError(
            f"the consumer group {group} has offsets of {' and '.join(sorted(strange))}, so it is another reader's",
            hint="name groups that no other program has with STRANDLINE_CONSUMER_GROUP. If it is ours, of before a restore "
            "or of topics that the table names no more, delete the group in Kafka: it is made again.",
            group=group,
        )
    if over:  # this client cannot take single offsets out of a group
        asks.delete_consumer_groups([group], request_timeout=PATIENCE)[group].result(2 * PATIENCE)
    if not wanted:
        return
    parts = [confluent_kafka.TopicPartition(*part, at) for part, at in sorted(wanted.items())]
    made = asks.alter_consumer_group_offsets(
        [confluent_kafka.ConsumerGroupTopicPartitions(group, parts)], request_timeout=PATIENCE
    )
    for each in made[group].result(2 * PATIENCE).topic_partitions or []:
        if each.error is not None:
            raise confluent_kafka.KafkaException(each.error)


def _leaders(cluster: Cluster, patience: float) -> dict[str, list[int]]:
    """Return for each topic the leaders of its partitions; -1 where there is none yet."""
    try:
        found = cluster.admin.list_topics(timeout=patience).topics
    except confluent_kafka.KafkaException as error:
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


def _refusals() -> frozenset[int]:
    """Return the errors by which a broker refuses who asks."""
    errors = confluent_kafka.KafkaError
    return frozenset({errors._AUTHENTICATION, errors._SSL})  # noqa: SLF001  # public, though so named


def _reason(error: "confluent_kafka.KafkaError") -> str:
    # The client's text: the connection, the failure, and after how many milliseconds in which state.
    text = re.sub(r"\s*\(after \d+ms in state \w+[^)]*\)", "", error.str())
    text = re.sub(r"^\S+/(?:bootstrap|\d+): ", "", text)
    # The text goes inside a sentence, so it begins in lower case; SASL and SSL stay as they are.
    return text[:1].lower() + text[1:] if text[1:2].islower() else text


# A real Kafka broker for a lake: one node, on loopback, its data in the lake's folder.
#
# Why a real one: offsets, keys, transactions and time-outs of a substitute are never those of Kafka, and this one is
# up in about three seconds without Docker (infra/strandline_infra/programs.py has the figures).
#
# Everything that a user may do at the wrong moment is expected: a kill of the broker or of the command that starts it,
# at any point; two commands at once; a recorded pid that belongs to another process by now.

START = 60.0
STOP_PATIENCE = 20.0
ATTEMPTS = 3
TAKEN = "Address already in use"
ERROR = re.compile(r"\b(?:ERROR|FATAL|\w*Exception|\w*Error)\b")


GUARD = """
import sys
sys.stdin.buffer.read()
from strandline.engine.kafka.broker import down, status
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.place import Place
lake, pid = Lake(Place.of(sys.argv[1])), int(sys.argv[2])
found = status(lake)
if found and found.pid == pid:
    down(lake)
"""
"""A program that stops a lake's broker as soon as its own standard input ends; one that was started since is not its own."""


WANTED = "wanted"
"""The file in the broker's folder from its start to its stop by a person; a watchdog starts it again meanwhile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Broker:
    """A running broker."""

    address: str
    pid: int
    log: Place


@dataclass(frozen=True, slots=True, kw_only=True)
class _State:
    """The record of the last broker that was started here."""

    port: int
    controller_port: int
    pid: int | None = None


def up(lake: Lake, port: int | None = None, *, archives: Place | None = None) -> Broker:
    """Start the lake's broker, or return the running one, once it answers.

    Args:
        lake: Whose folder has the broker's data.
        port: Where it answers; without one, at the last port or a free one.
        archives: Where to write an archive of the loaded classes at its end, instead of using one.

    Raises:
        DefinitionError: The folder cannot be written, the port cannot be used, or set-up is not done.
        DataError: The broker's folder holds something else.
        TransientError: The broker ended while starting, or does not answer in time.
    """
    home = lake.broker
    with _alone(home):
        pid = _running(home)
        if pid is not None:
            found = _await(home, pid, port)
            if found is not None:
                return found
        processes.refuse_taken(port)
        if _stop(home):  # one that still ran after its storage was deleted
            _set_aside(home)
        _format(home)
        (home / WANTED).put("")
        return _start(home, port, archives)


@contextmanager
def for_this_work(lake: Lake) -> Iterator[Broker]:
    """Run the lake's broker for the length of a block, and no longer, however the block ends.

    A kill can end nothing any more, and the broker is no child that ends with its parent. So a small process reads from a pipe
    that this process keeps open; the kernel closes it with this process, and then it stops the broker.
    """
    running = up(lake)
    guard = processes.watching([sys.executable, "-c", GUARD, str(lake.root), str(running.pid)])
    try:
        yield running
    finally:
        down(lake)
        guard.kill()
        guard.communicate()


def archive() -> Place | None:
    """Return the archive of the broker's classes, if set-up is done (jobs/strandline/engine/service/class_archive.py)."""
    home, found = java.java_home(), java.broker_jars()
    return Place.of(java.archive(home, found)) if home and found else None


def status(lake: Lake) -> Broker | None:
    """Return the lake's broker if its process runs."""
    home = lake.broker
    pid = _running(home)
    return None if pid is None else _broker(home, pid)


def remembered(lake: Lake) -> str | None:
    """Return the last address of the lake's broker, which it will have again if the port is free."""
    state = _read(lake.broker)
    return f"{recipe.HOST}:{state.port}" if state else None


def log(lake: Lake) -> Place:
    """Return the file with the broker's log."""
    return lake.broker / "broker.log"


def is_wanted(lake: Lake) -> bool:
    """Return whether the lake's broker was started and not stopped since: one that does not run then has died."""
    return (lake.broker / WANTED).is_file()


def bound_log(lake: Lake) -> None:
    """Keep that file from growing for months; the broker begins a new one only when it starts."""
    bound(log(lake).local)


def down(lake: Lake) -> bool:
    """Stop the lake's broker and return whether it ran; no other process is ever touched.

    Raises:
        DefinitionError: The folder cannot be written.
    """
    home = lake.broker
    if not home.exists():
        return _stop(home)
    with _alone(home):
        (home / WANTED).remove_file()
        return _stop(home)


def _mark(home: Place) -> str:
    # A copied lake shares everything with the original but its folder.
    return f"-Dstrandline.broker={home}"


def _stop(home: Place) -> bool:
    pid = processes.find(_mark(home))
    return pid is not None and processes.stop(pid, _mark(home), patience=STOP_PATIENCE)


@contextmanager
def _alone(home: Place) -> Iterator[None]:
    """Let only one command at a time start or stop the broker."""
    try:
        with hold(home / "lock"):
            yield
    except OSError as error:
        raise unwritable(home.parent, error) from error


def _read(home: Place) -> _State | None:
    try:
        return _State(**json.loads((home / "broker.json").text() or ""))
    except (OSError, ValueError, TypeError):
        return None


def _write(home: Place, state: _State) -> None:
    (home / "broker.json").put(json.dumps(asdict(state)))


def _running(home: Place) -> int | None:
    state = _read(home)
    if state is None:
        return None
    if state.pid is None:  # its starter was killed before it could write the pid
        return processes.find(_mark(home))
    return state.pid if processes.is_ours(state.pid, _mark(home)) else None


def _broker(home: Place, pid: int) -> Broker:
    state = _read(home)
    port = state.port if state else 0
    return Broker(address=f"{recipe.HOST}:{port}", pid=pid, log=home / "broker.log")


def _start(home: Place, port: int | None, archives: Place | None) -> Broker:
    last = _read(home)
    for attempt in range(1, ATTEMPTS + 1):
        # Clients remember addresses, so the last port is used again if it is free.
        own = port or processes.free(last.port if last else 0)
        state = _State(
            port=own,
            # The system may give the same port twice, as nothing has taken it yet; Kafka refuses it then.
            controller_port=processes.free(last.controller_port if last else 0, but=own),
        )
        try:
            return _launch(home, state, archives)
        except TransientError as error:
            # Another program took the port between the check and the broker's start.
            if port is not None or attempt == ATTEMPTS or TAKEN not in error.message:
                raise
            last = None
    raise AssertionError


def _launch(home: Place, state: _State, archives: Place | None) -> Broker:
    config = recipe.properties(port=state.port, controller_port=state.controller_port, data="data")
    (home / recipe.PROPERTIES).put(config)
    (home / "tmp").make()
    log = home / "broker.log"
    if log.exists():
        log.move(home / "broker.log.1")
    command = recipe.start_command(_java(archives), _mark(home))
    _write(home, state)
    pid = processes.spawn(command, folder=home.local, log=log.local)
    _write(home, _State(**{**asdict(state), "pid": pid}))
    broker = _await(home, pid, state.port)
    if broker is None:
        said = (log.bytes() or b"").decode(errors="replace")
        raise TransientError(
            f"the broker ended while starting: {_last_error(said)}",
            hint=f"read {log}, then `strandline up` again.",
            log=str(log),
        )
    return broker


def _await(home: Place, pid: int, port: int | None) -> Broker | None:
    """Return the broker once it answers; None when it ends instead, for example after a kill."""
    broker = _broker(home, pid)
    if port is not None and broker.address != f"{recipe.HOST}:{port}":
        raise DefinitionError(
            f"this lake's broker runs already, at {broker.address}",
            hint="stop it with `strandline down` to start it at another port.",
            address=broker.address,
        )
    deadline = time.monotonic() + START
    while _running(home) is not None:
        try:
            check_reachable(broker.address, {}, patience=1.0)
        except TransientError as error:
            if time.monotonic() > deadline:
                raise TransientError(
                    f"the broker runs (pid {pid}) but does not answer within {START:.0f} s",
                    hint=f"after a crash it reads its data first; wait and type the same, or see {broker.log}",
                    pid=pid,
                ) from error
        else:
            return broker
    return None


def _set_aside(home: Place) -> None:
    """Move away the folders of topics that a broker created again after its storage was deleted; none can read them."""
    data = home / "data"
    if data.exists() and not (data / "meta.properties").exists():
        data.move(home / f"data-deleted-{secrets.token_hex(4)}")


def _format(home: Place) -> None:
    """Create the broker's storage, completely or not at all."""
    data = home / "data"
    if (data / "meta.properties").exists():
        return
    if data.names():
        raise DataError(
            f"{data} is not the storage of a broker: it has no meta.properties",
            hint="move it away; a new and empty one is then created.",
            folder=str(data),
        )
    for left in home.names():
        if left.startswith("format-"):
            (home / left).remove(if_possible=True)
    # A folder for this attempt only: a tool whose starter was killed may still write into another.
    workshop = home / f"format-{secrets.token_hex(4)}"
    config = recipe.properties(port=1, controller_port=2, data=data.name)
    (workshop / recipe.PROPERTIES).put(config)
    cluster = base64.urlsafe_b64encode(secrets.token_bytes(16)).decode().rstrip("=")
    command = recipe.format_command(_java(), cluster)
    done, output = processes.run(command, folder=workshop.local)
    if not done:
        raise TransientError(
            f"the broker's storage cannot be created: {_last_error(output)}",
            hint="check the disk of the lake's folder, then `strandline up` again.",
            folder=str(workshop),
        )
    (workshop / data.name).move(data)
    workshop.remove(if_possible=True)


def _java(archives: Place | None = None) -> list[str]:
    home, found = java.java_home(), java.broker_jars()
    if home is None or not found:
        missing = "Java 17 or 21 is" if home is None else "the broker's jars are"
        raise DefinitionError(f"{missing} missing", hint=f"run `{setup_command()}`.")
    more = java.archive_option(java.archive(home, found), archives.local if archives else None)
    return recipe.java_with(home, found, more)


def _last_error(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    wrong = [line for line in lines if ERROR.search(line) and not line.startswith("at ")]
    return wrong[-1] if wrong else "its log names no error"
