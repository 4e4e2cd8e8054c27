"""Targets: what one does, and those that there are: a topic of Kafka, a table of PostgreSQL, a function of the user's."""

import base64
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Protocol, TypeAlias

import confluent_kafka
import confluent_kafka.admin
import orjson

from strandline.core.errors import DataError, DefinitionError, LakeError, TransientError
from strandline.engine.flow.publications import Change, Function, Position, position
from strandline.engine.kafka.broker import JAVA_ONLY, topics
from strandline.engine.kafka.topic_log import admin, consumer
from strandline.engine.lake.store_lease import FencedError
from strandline.engine.runtime.settings import POSTGRES, POSTGRES_HINT, POSTGRES_SHAPE, address_in
from strandline_infra import installation

OPTIONS = orjson.OPT_UTC_Z | orjson.OPT_NON_STR_KEYS

Refused = Mapping[str, str]
"""The changes that a target does not take as they are: by id the reason."""


class Target(Protocol):
    """Where changes go: some are offered, then they are kept together with the position after them, or neither is there."""

    def begin(self) -> Position | None:
        """Connect, and return the position that the target has kept itself; None where it has none."""

    def offer(self, changes: Sequence[Change], *, is_first: bool, is_last: bool) -> Refused:
        """Send changes, of which nothing counts before ``keep``.

        Args:
            changes: The changes, in their order; never two of a key in one version.
            is_first: Whether they are the first of all rows of the table, which are sent anew.
            is_last: Whether they are the last of these: what the target had before and none of them replaced is gone.
        """

    def keep(self, place: Position) -> None:
        """Make what was offered count, with the position after it."""

    def close(self) -> None:
        """Let go of what was offered and not kept, and of the connection."""

    @property
    def loses_positions(self) -> bool:
        """Return whether a target that works may lose the position that it kept, so that the lake's is as good."""


class ToFunction:
    """A function, which may get a change again after a kill, with the same id. The lake alone knows how far it has got."""

    loses_positions = True

    def __init__(self, function: Function) -> None:
        """Take the function."""
        self._function = function

    def begin(self) -> Position | None:
        """Return that a function keeps no position."""
        return None

    def offer(self, changes: Sequence[Change], *, is_first: bool, is_last: bool) -> Refused:  # noqa: ARG002  # of the protocol
        """Call the function.

        Raises:
            TransientError: It fails.
            DataError: It refuses a change that it was not given.
        """
        try:
            answer: object = self._function(tuple(changes)) if changes else None
        except LakeError:
            raise
        except Exception as error:
            raise TransientError(
                f"the function failed: {type(error).__name__}: {error}",
                hint="it gets the same changes again, with the same ids; let it return the ids that it refuses with the reasons.",
            ) from error
        refused = {} if answer is None else answer
        if not isinstance(refused, Mapping) or not refused.keys() <= {each.id for each in changes}:
            raise DataError(
                f"the function returned {str(refused)[:200]}, which names no changes that it was given",
                hint="let it return nothing, or a dictionary from the id of each change that it refuses to the reason.",
            )
        return {id_: str(reason) for id_, reason in refused.items()}

    def keep(self, place: Position) -> None:
        """Do nothing: the lake keeps it."""

    def close(self) -> None:
        """Do nothing."""


def as_json(value: object) -> bytes:
    """Return a value as JSON that loses nothing: decimals are texts, moments in UTC, bytes in base64."""
    try:
        return orjson.dumps(value, default=_plain, option=OPTIONS)
    except TypeError:  # keys of a map that are decimals or bytes
        return orjson.dumps(_named(value), default=_plain, option=OPTIONS)


def _named(value: object) -> object:
    """Return a value whose mappings have texts as keys."""
    if isinstance(value, Mapping):
        return {
            name if isinstance(name, str) else _plain(name): _named(each)
            for name, each in value.items()
        }
    return [*map(_named, value)] if isinstance(value, list | tuple) else value


def _plain(value: object) -> str:
    return base64.b64encode(value).decode() if isinstance(value, bytes | bytearray) else str(value)


# A topic of Kafka as a target: each batch is a transaction of Kafka, in which the position is kept as well.
#
# So a reader with ``isolation.level=read_committed`` sees each change exactly once, whatever was killed when. The position is
# committed as that of a group of consumers, in the metadata of its offset; Kafka drops it seven days after the last one, and
# then that of the lake is as good, because it was written after it. Who begins takes the transactions over: a former
# publisher that still lives is refused by the broker.

WITHIN = 30.0
"""Seconds within which the cluster must answer."""
MOST = 1_000_000
"""Bytes of a record, where the cluster does not say what a topic takes."""
FRAME = 512
"""Bytes that a record may need beside its key, value and headers: its frame in a batch, and that of the batch."""
Headers: TypeAlias = list[tuple[str, str | bytes | None]]


def _starting() -> tuple[int, ...]:
    """Return the errors of a cluster whose coordinator is not there yet."""
    errors = confluent_kafka.KafkaError
    return (
        errors.NOT_COORDINATOR,
        errors.COORDINATOR_NOT_AVAILABLE,
        errors.COORDINATOR_LOAD_IN_PROGRESS,
    )


def _taken_over() -> tuple[int, ...]:
    """Return those of a producer in whose place another one writes."""
    errors = confluent_kafka.KafkaError
    return errors._FENCED, errors.INVALID_PRODUCER_EPOCH  # noqa: SLF001  # public, though so named


class ToKafka:
    """A topic."""

    def __init__(
        self, topic: str, id_: str, locate: Callable[[], str], options: Mapping[str, str]
    ) -> None:
        """Connect to nothing yet.

        Args:
            topic: The topic.
            id_: The name of the transactions, and of the group that keeps the position.
            locate: Returns where Kafka is.
            options: Properties of its client.
        """
        self._topic, self._id, self._locate = topic, id_, locate
        self._options = {k: v for k, v in options.items() if not k.startswith(JAVA_ONLY)}
        self._producer: confluent_kafka.Producer | None = None
        self._group: confluent_kafka.Consumer | None = None
        self._most = MOST
        self._is_empty = False

    @property
    def loses_positions(self) -> bool:
        """Return whether the topic has had records: Kafka drops an old position alone, and that of a topic which was made anew."""
        return not self._is_empty

    def begin(self) -> Position | None:
        """Take the transactions over, and return the position that the last one kept.

        Raises:
            DefinitionError: There is no such topic.
        """
        address = self._locate()
        self._most = limit(address, self._options, self._topic)
        with _understood(self._topic):
            self._producer = confluent_kafka.Producer(
                {
                    "compression.type": "lz4",
                    **self._options,
                    "bootstrap.servers": address,
                    "transactional.id": self._id,
                    "partitioner": "murmur2_random",  # Java's client makes the same choice
                    # The broker's limit is one of a batch of records.
                    "message.max.bytes": self._most,
                    "batch.size": min(self._most, MOST),
                    "log_level": 0,
                }
            )
            self._producer.init_transactions(WITHIN)
            self._group = consumer(address, self._options, **{"group.id": self._id})
            found = _kept(self._group, confluent_kafka.TopicPartition(self._topic, 0))
            self._is_empty = found.offset < 0 and self._has_no_record(self._group)
        return position(found.metadata) if found.offset >= 0 and found.metadata else None

    def offer(self, changes: Sequence[Change], *, is_first: bool, is_last: bool) -> Refused:  # noqa: ARG002  # a topic forgets nothing
        """Send changes in a new transaction, without those that are too large for the topic."""
        refused: dict[str, str] = {}
        failures: list[confluent_kafka.KafkaError] = []

        def heard(error: "confluent_kafka.KafkaError | None", _: "confluent_kafka.Message") -> None:
            if error is not None:
                failures.append(error)

        with _understood(self._topic):
            self._open.begin_transaction()
            for each in changes:
                key, value, headers = _record(each)
                size = len(key) + len(value or b"") + sum(len(k) + len(v or "") for k, v in headers)
                if size + FRAME > self._most:
                    refused[each.id] = (
                        f"too large: {size:,} bytes, and the topic takes {self._most:,}"
                    )
                else:
                    self._produce(key, value, headers, heard)
            left = self._open.flush(WITHIN)
        if left or failures:
            raise _away(self._topic, failures[0] if failures else "no answer")
        return refused

    def keep(self, place: Position) -> None:
        """Commit the transaction, with the position in it."""
        kept = confluent_kafka.TopicPartition(self._topic, 0, place.read, place.text())
        group = self._group
        assert group is not None  # it has begun  # noqa: S101
        with _understood(self._topic):
            self._open.send_offsets_to_transaction([kept], group.consumer_group_metadata(), WITHIN)
            self._open.commit_transaction(WITHIN)

    def close(self) -> None:
        """Leave a transaction that is open: the broker aborts it when it is taken over, or after a minute."""
        if self._producer is not None:
            self._producer.purge()
        if self._group is not None:
            self._group.close()
        self._producer = self._group = None

    def _has_no_record(self, group: "confluent_kafka.Consumer") -> bool:
        """Return whether no record was ever written to the topic."""
        parts = group.list_topics(self._topic, WITHIN).topics[self._topic].partitions
        ends = (
            group.get_watermark_offsets(confluent_kafka.TopicPartition(self._topic, each))
            for each in parts
        )
        return not any(ends_at for _, ends_at in ends)

    @property
    def _open(self) -> "confluent_kafka.Producer":
        assert self._producer is not None  # it has begun  # noqa: S101
        return self._producer

    def _produce(
        self,
        key: bytes,
        value: bytes | None,
        headers: Headers,
        heard: "Callable[[confluent_kafka.KafkaError | None, confluent_kafka.Message], None]",
    ) -> None:
        while True:
            try:
                self._open.produce(self._topic, value, key, headers=headers, on_delivery=heard)
            except BufferError:  # its queue is full
                self._open.poll(0.1)
            else:
                self._open.poll(0)
                return


def limit(address: str, options: Mapping[str, str], topic: str) -> int:
    """Return how large a record of a topic may be.

    Raises:
        DefinitionError: There is no such topic.
    """
    if topic not in topics(address, options):
        raise DefinitionError(
            f"topic {topic} does not exist at {address}, and rows are published to it",
            hint="ask the operator of the cluster for it, or correct the name of the KafkaTopic.",
            topic=topic,
        )
    client = admin(address, options)  # as long as it lives, it answers
    from confluent_kafka.admin._config import ConfigResource  # noqa: PLC0415  # with its client
    from confluent_kafka.admin._resource import ResourceType  # noqa: PLC0415  # as above

    asked = ConfigResource(ResourceType.TOPIC, topic)
    try:
        found = client.describe_configs([asked])[asked].result(WITHIN)
    except (confluent_kafka.KafkaException, TimeoutError):  # this client may not ask
        return MOST
    return int(found["max.message.bytes"].value)


def _kept(
    group: "confluent_kafka.Consumer", part: "confluent_kafka.TopicPartition"
) -> "confluent_kafka.TopicPartition":
    """Return what a group has kept of a partition; a broker that has just started answers soon."""
    deadline = time.monotonic() + WITHIN
    while True:
        try:
            return group.committed([part], timeout=WITHIN)[0]
        except confluent_kafka.KafkaException as error:
            if error.args[0].code() not in _starting() or time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def _record(change: Change) -> tuple[bytes, bytes | None, Headers]:
    """Return key, value and headers of the record of a change."""
    headers: dict[str, str | bytes | None] = {
        "id": change.id,
        "op": "delete" if change.row is None else "upsert",
        "table": change.table,
        "generation": str(change.generation),
        "version": str(change.version),
    }
    value = None if change.row is None else as_json(change.row)
    return as_json(change.key), value, [*headers.items()]


@contextmanager
def _understood(topic: str) -> Iterator[None]:
    """Say what an error of the client means.

    Raises:
        FencedError: Another process has taken the transactions over.
        TransientError: The cluster is away, or refuses.
    """
    try:
        yield
    # Where a fatal error meets a callback of the client, Python says so by an error of its own about it.
    except (confluent_kafka.KafkaException, SystemError) as error:
        cause = (
            error
            if isinstance(error, confluent_kafka.KafkaException)
            else error.__cause__ or error.__context__
        )
        if not isinstance(cause, confluent_kafka.KafkaException):
            raise
        raise _away(topic, cause.args[0]) from error


def _away(topic: str, reason: "confluent_kafka.KafkaError | str") -> TransientError | FencedError:
    if isinstance(reason, confluent_kafka.KafkaError) and reason.code() in _taken_over():
        return FencedError(
            f"another process publishes to topic {topic} now",
            hint="let the other go on; it has begun where this one was.",
        )
    said = reason if isinstance(reason, str) else reason.str()
    return TransientError(
        f"topic {topic} does not take the records: {said}",
        hint="see that its broker runs, and that this client may write to it, in transactions.",
        topic=topic,
    )


# A table of PostgreSQL as a target: rows and the position after them are one transaction of the database.
#
# So each change is there exactly once, whatever was killed when, and a database that is restored from a copy of yesterday goes on
# from yesterday. The position is a row of ``strandline_positions``, which a publisher replaces only as it wrote it: one that was
# suspended and replaced is refused. The table has ``_key``, the key as JSON, because columns of a key may be NULL, and
# ``_version``: an older change never replaces a newer one.

POSITIONS = "strandline_positions"
CONNECTED_WITHIN = 10
"""Seconds within which the server must answer a new connection."""
SILENT = 30
"""Seconds after which a server that does not acknowledge, or a lock that another holds, counts as an absence."""
PAGE = 500
"""Rows of a statement."""
SCALARS = {
    "VARCHAR": "text",
    "BOOLEAN": "boolean",
    "TINYINT": "smallint",
    "SMALLINT": "smallint",
    "INTEGER": "integer",
    "BIGINT": "bigint",
    "FLOAT": "real",
    "DOUBLE": "double precision",
    "DATE": "date",
    "TIMESTAMP": "timestamp",
    "TIMESTAMP WITH TIME ZONE": "timestamptz",
    "BLOB": "bytea",
}
OLD = -1
"""The version of rows that were there before all was sent anew."""


class ToPostgres:
    """A table."""

    loses_positions = False

    def __init__(self, table: str, variable: str, name: str, kinds: Mapping[str, str]) -> None:
        """Connect to nothing yet.

        Args:
            table: The table, with its schema or without.
            variable: The variable of the environment with the address.
            name: By which the position is found.
            kinds: The columns, with DuckDB's names of their types.
        """
        self._table = ".".join(_quoted(each) for each in table.split("."))
        self._variable, self._name = variable, name
        self._kinds = {each: _type(kind) for each, kind in kinds.items()}
        self._connection: Any = None
        self._kept: str | None = None

    def begin(self) -> Position | None:
        """Connect, create what is missing, and return the position that the database has.

        Raises:
            DefinitionError: There is no address, or no driver.
        """
        driver, address = _driver(), address_in(self._variable)
        if not address:
            raise DefinitionError(
                f"the environment has no {self._variable}, the address of the table {self._table}",
                hint=f"set {self._variable}={POSTGRES_SHAPE}.",
            )
        if not POSTGRES.fullmatch(address):  # the driver's message would repeat it
            raise DefinitionError(
                f"{self._variable}, the address of the table {self._table}, has a value that is no address",
                hint=POSTGRES_HINT,
            )
        columns = ", ".join(f"{_quoted(name)} {kind}" for name, kind in self._kinds.items())
        added = ", ".join(
            f"ADD COLUMN IF NOT EXISTS {_quoted(name)} {kind}" for name, kind in self._kinds.items()
        )
        with self._understood():
            self._connection = driver.connect(
                address,
                connect_timeout=CONNECTED_WITHIN,
                tcp_user_timeout=SILENT * 1000,
                options=f"-c TimeZone=UTC -c client_min_messages=warning -c lock_timeout={SILENT}s",
                application_name="strandline publish",
            )
            with self._connection.cursor() as cursor:
                cursor.execute(
                    f"CREATE TABLE IF NOT EXISTS {POSITIONS} (publication text PRIMARY KEY, position text NOT NULL)"
                )
                cursor.execute("SELECT to_regclass(%s) IS NULL", (self._table,))
                if cursor.fetchone()[0]:  # made anew, so what it had got is not there
                    cursor.execute(
                        f"DELETE FROM {POSITIONS} WHERE publication = %s",  # noqa: S608  # our own names
                        (self._name,),
                    )
                cursor.execute(
                    f"CREATE TABLE IF NOT EXISTS {self._table} "
                    f"(_key text PRIMARY KEY, _version bigint NOT NULL, {columns})"
                )
                cursor.execute(f"ALTER TABLE {self._table} {added}")
                cursor.execute(
                    f"SELECT position FROM {POSITIONS} WHERE publication = %s",  # noqa: S608  # our own names
                    (self._name,),
                )
                found = cursor.fetchone()
            self._connection.commit()
        self._kept = found[0] if found else None
        return position(self._kept) if self._kept else None

    def offer(self, changes: Sequence[Change], *, is_first: bool, is_last: bool) -> Refused:
        """Write changes in a transaction: of several of a key the last."""
        last = {as_json(each.key).decode(): each for each in changes}
        refused: dict[str, str] = {}
        with self._understood(), self._connection.cursor() as cursor:
            if is_first:
                cursor.execute(f"UPDATE {self._table} SET _version = {OLD}")  # noqa: S608  # our own names
            if self._refusal(cursor, last):
                for each in changes:
                    if said := self._refusal(cursor, {as_json(each.key).decode(): each}):
                        refused[each.id] = said
            if is_last:
                cursor.execute(f"DELETE FROM {self._table} WHERE _version = {OLD}")  # noqa: S608  # our own names
        return refused

    def keep(self, place: Position) -> None:
        """Commit, with the position.

        Raises:
            FencedError: Another process has written one.
        """
        text = place.text()
        with self._understood(), self._connection.cursor() as cursor:
            if self._kept is None:
                sql = f"INSERT INTO {POSITIONS} (position, publication) VALUES (%s, %s) ON CONFLICT DO NOTHING"  # noqa: S608  # as above
                cursor.execute(sql, (text, self._name))
            else:
                sql = (
                    f"UPDATE {POSITIONS} SET position = %s WHERE publication = %s AND position = %s"  # noqa: S608  # as above
                )
                cursor.execute(sql, (text, self._name, self._kept))
            if cursor.rowcount != 1:
                raise FencedError(
                    f"another process publishes to the table {self._table} now",
                    hint="let the other go on; it has begun where this one was.",
                )
            self._connection.commit()
        self._kept = text

    def close(self) -> None:
        """End the transaction that is open, and the connection."""
        if self._connection is not None:
            self._connection.close()
        self._connection = None

    def _refusal(self, cursor: Any, changes: Mapping[str, Change]) -> str:  # noqa: ANN401  # of the driver, which has no types
        """Write changes, or none of them; return why the database refuses one, empty where it takes all."""
        driver = _driver()
        cursor.execute("SAVEPOINT changes")
        try:
            self._write(cursor, changes)
        # ProgramLimitExceeded: of a key too long for an index; RaiseException: of a trigger; ValueError: of a text with a zero byte, by
        # the driver.
        except (
            driver.DataError,
            driver.IntegrityError,
            driver.errors.ProgramLimitExceeded,
            driver.errors.RaiseException,
            ValueError,
        ) as error:
            cursor.execute("ROLLBACK TO SAVEPOINT changes")
            return str(error).strip().splitlines()[0]
        cursor.execute("RELEASE SAVEPOINT changes")
        return ""

    def _write(self, cursor: Any, changes: Mapping[str, Change]) -> None:  # noqa: ANN401  # as above
        from psycopg2.extras import execute_values  # noqa: PLC0415  # of an extra

        gone = [(key, each.version) for key, each in changes.items() if each.row is None]
        if gone:
            execute_values(
                cursor,
                f"DELETE FROM {self._table} AS t USING (VALUES %s) AS gone (key, version) "  # noqa: S608  # our own names
                "WHERE t._key = gone.key AND t._version <= gone.version",
                gone,
                page_size=PAGE,
            )
        rows = [
            (
                key,
                each.version,
                *(_value(each.row[name], kind) for name, kind in self._kinds.items()),
            )
            for key, each in changes.items()
            if each.row is not None
        ]
        # The driver takes a percent sign in a statement with values for the place of one.
        names = [_quoted(each).replace("%", "%%") for each in ("_key", "_version", *self._kinds)]
        if rows:
            execute_values(
                cursor,
                f"INSERT INTO {self._table} AS t ({', '.join(names)}) VALUES %s ON CONFLICT (_key) DO UPDATE SET "  # noqa: S608  # as above
                f"{', '.join(f'{name} = excluded.{name}' for name in names[1:])} "
                "WHERE t._version <= excluded._version",
                rows,
                page_size=PAGE,
            )

    @contextmanager
    def _understood(self) -> Iterator[None]:
        """Say what an error of the driver means.

        Raises:
            TransientError: The database is away, or refuses what is no matter of a row.
        """
        driver = _driver()
        try:
            yield
        except driver.Error as error:
            reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
            raise TransientError(
                f"the table {self._table} of PostgreSQL does not take rows: {reason}",
                hint=f"see that the server of {self._variable} runs, and that its user may create and write the table.",
            ) from error


def _driver() -> Any:  # noqa: ANN401  # has no types
    try:
        import psycopg2.errors  # noqa: PLC0415  # of an extra
    except ModuleNotFoundError as error:
        raise DefinitionError(
            "rows are published to PostgreSQL, and its driver is not installed",
            hint=installation.hint("postgres"),
        ) from error
    return psycopg2


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _type(kind: str) -> str:
    """Return PostgreSQL's name of a type; what is nested is JSON."""
    return (
        kind.replace("DECIMAL", "numeric")
        if kind.startswith("DECIMAL") and kind[-1] == ")"
        else SCALARS.get(kind, "jsonb")
    )


def _value(value: object, kind: str) -> object:
    return as_json(value).decode() if kind == "jsonb" and value is not None else value
