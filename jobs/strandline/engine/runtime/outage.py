"""Recognise transient errors: no broker, no object store, a full disk, another process's commit.

A run asks it when an error ends it, and a stream when it decides whether to wait. Spark passes errors of the JVM on as
text with the Java causes, so the text is searched: for the names of Kafka's retriable errors, for those of the clients of an object
store, and for the operating system's two messages about a full disk.
"""

import errno
import math
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache

import confluent_kafka

from strandline.core.errors import (
    DataError,
    DefinitionError,
    LakeError,
    ReplacedError,
    TransientError,
)
from strandline.engine.runtime.jvm import SLOW, loss, text_of
from strandline.engine.runtime.settings import ABFSS, GS, S3A

# The errors of an object store that does not answer or refuses the keys, and how they are recognised in what its clients say.
#
# It is apart from the other outages, because those need PySpark, which a command without a JVM does
# not load.


NO_ANSWER = (
    "Unable to execute HTTP request",
    "AWSStatus500Exception",
    "AWSServiceThrottledException",
    "HttpChannelEOFException",
    "retry_timeout:",
)
"""What their errors contain: Hadoop's in the JVM, and, last, those of the client that delta-rs, DuckDB and this project have, once
it has tried again for as long as it may."""

UNREACHED_CLOUD = re.compile(
    r"(?:hadoop\.gcsio|azurebfs)\.[\s\S]*?java\.net\.(?:Connect|SocketTimeout|Socket|UnknownHost|NoRouteToHost)Exception"
    r"|GoogleJsonResponseException: (?:429|5\d\d)\b"
    r"|(?:Operation failed: .*, |Status code: )(?:-1|429|5\d\d)\b"
)
"""The same of the clients of Google's and of Azure's store in the JVM, once they have tried again for as long as they may."""

REFUSED = re.compile(
    r"AccessDeniedException: (?:s3a?://\S+: |Operation failed: .*, 40[13], )"
    r"|(?:S3Exception|AwsServiceException|Generic (?:S3|GCS|MicrosoftAzure) error|GoogleJsonResponseException|Error performing).*"
    r"\b(?:InvalidAccessKeyId|SignatureDoesNotMatch"
    r"|ExpiredToken|TokenRefreshRequired|403 Forbidden|401 Unauthorized|Status Code: 40[13])\b"
)
"""What a line of an error has where a store refuses the keys: Hadoop's words, and those of the clients of S3 with their codes. A
code alone is in the rows of many a log, which errors cite."""

ADDRESS = {S3A: "AWS_ENDPOINT_URL", GS: "GOOGLE_BASE_URL", ABFSS: "AZURE_STORAGE_ENDPOINT"}
"""The variable with the address of a store that is not its cloud's own."""

KEYS_OF = {
    S3A: "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY to a key that may read and write the bucket",
    GS: "GOOGLE_APPLICATION_CREDENTIALS to the file of an identity that may read and write the bucket",
    ABFSS: "AZURE_STORAGE_ACCOUNT_KEY to a key of the account, or give the machine's identity the container",
}
"""What a person does about keys that a store refuses."""

PATIENCE = 900.0
"""Seconds for which a process believes that keys which worked will work again: a token is renewed late by minutes, not by hours."""

QUIET = 120.0
"""Seconds without a refusal after which the next one is another; a table that waits asks more often."""


def _of_kind(said: Mapping[str, str], place: str) -> str:
    """Return what is said of the kind of store that a place is on, or of each where the place is not known."""
    return said.get(place.partition("://")[0]) or ", or ".join(said.values())


class StoreAwayError(TransientError):
    """The object store does not answer."""

    def __init__(self, why: str, place: str = "") -> None:
        """Name what it does not answer for, and why, as far as is known."""
        about = f" for {place}" if place else ""
        super().__init__(
            f"the object store does not answer{about}: {why}",
            hint=f"compare {_of_kind(ADDRESS, place)} with where it runs; nothing is lost, a stream goes on by itself, and any other "
            "command is typed again.",
            **({"lake": place} if place else {}),
        )


class StoreRefusesError(StoreAwayError):
    """The object store refuses keys that it has taken before in this process's life: a token has expired, or is being changed."""

    def __init__(self, why: str, place: str = "") -> None:
        """Name what it refuses, and why, as far as is known."""
        super().__init__(why, place)
        about = f" for {place}" if place else ""
        self.message = f"the object store refuses the keys that it took before{about}: {why}"
        self.hint = (
            f"a stream waits {PATIENCE / 60:.0f} minutes for keys that were withdrawn for a while, or for a provider (a role, a "
            "token file) that renews them, and goes on by itself; keys in the environment are read at a start: put new ones "
            "there and type `strandline restart`. Nothing is lost."
        )


class KeysRefusedError(DefinitionError):
    """The object store refuses keys that never worked, as far as this process knows."""

    def __init__(self, why: str, place: str = "") -> None:
        """Say what is refused, and why, as far as is known."""
        about = f" for {place}" if place else ""
        super().__init__(
            f"the object store refuses the keys{about}" + (f": {why}" if why else ""),
            hint=f"set {_of_kind(KEYS_OF, place)}.",
            **({"lake": place} if place else {}),
        )


AWAY = (StoreAwayError, KeysRefusedError)
"""What an answer within seconds has instead of the lake: a store that is silent, or takes no key of ours."""


class Keys:
    """Whether a refusal of this process's keys is weather: they worked before, and have not been refused for long.

    A key may be one that only reads, so only an accepted write shows that it works, and no accepted request ends a refusal: a
    time without any does.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Begin with keys that have not worked yet."""
        self._clock = clock
        self.is_asked = False
        """Whether this process has asked a store at all: what an error says of keys is no store's otherwise."""
        self._worked = False
        self._since = self._last = -math.inf

    def asked(self) -> None:
        """Record that a store is asked."""
        self.is_asked = True

    def worked(self) -> None:
        """Record that the store has taken a write."""
        self.is_asked = self._worked = True

    def refused(self) -> bool:
        """Record a refusal, and return whether to wait."""
        now = self._clock()
        if now - self._last > QUIET:
            self._since = now
        self._last = now
        return self._worked and now - self._since < PATIENCE


KEYS = Keys()
"""Those of this process, which the JVM shares."""


def is_refusing_store(text: str) -> bool:
    """Return whether an error means that the store refuses the keys."""
    return REFUSED.search(text) is not None


def is_silent_store(text: str) -> bool:
    """Return whether an error means that the store does not answer."""
    return any(words in text for words in NO_ANSWER) or UNREACHED_CLOUD.search(text) is not None


def reason(text: str) -> str:
    """Return the line of such an error that has the reason."""
    found = (line for line in text.splitlines() if is_silent_store(line) or is_refusing_store(line))
    return next(found, text).strip().rpartition("Exception: ")[2].partition("\n")[0][:300]


FULL = ("No space left on device", "Disk quota exceeded")
NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT})

RETRIABLE = (
    "TimeoutException",
    "DisconnectException",
    "NetworkException",
    "NotLeaderOrFollowerException",
    "LeaderNotAvailableException",
    "CoordinatorNotAvailableException",
    "BrokerNotAvailableException",
)
NO_SOCKET = "CANNOT_OPEN_SOCKET"
"""What PySpark says when it could not fetch rows from the JVM."""

DENIED = re.compile(
    r"AccessDeniedException: (?P<place>\S+)|(?:FileNotFoundException|IOException): (?P<other>\S+) \(Permission denied\)"
)
"""How Java says that a file is not this user's."""

SILENT = tuple(f"org.apache.kafka.common.errors.{name}" for name in RETRIABLE)
"""The errors with which Spark's Kafka client ends when a broker disappears during a read."""


@cache
def unreached() -> frozenset[int]:
    """Return the errors of a client of Kafka that say that no broker answers."""
    return frozenset(
        {
            confluent_kafka.KafkaError._TRANSPORT,  # noqa: SLF001  # public, though so named
            confluent_kafka.KafkaError._TIMED_OUT,  # noqa: SLF001  # as above
            confluent_kafka.KafkaError._ALL_BROKERS_DOWN,  # noqa: SLF001  # as above
            confluent_kafka.KafkaError._RESOLVE,  # noqa: SLF001  # as above
            confluent_kafka.KafkaError.LEADER_NOT_AVAILABLE,
            confluent_kafka.KafkaError.NOT_LEADER_FOR_PARTITION,
            confluent_kafka.KafkaError.BROKER_NOT_AVAILABLE,
            confluent_kafka.KafkaError.REQUEST_TIMED_OUT,
        }
    )


def absence(error: BaseException) -> TransientError | None:
    """Return the outage behind an error, with a hint; None when waiting cannot help."""
    if isinstance(error, TransientError):
        return error
    if isinstance(error, LakeError):
        return None
    lost = loss(error)
    if lost is not None:
        return lost if any(SLOW in text_of(each) for each in _causes(error)) else None
    return next((found for each in _causes(error) if (found := _away(each))), None)


def transient(error: BaseException) -> TransientError | None:
    """Return the outage behind an error that ended a program, including the loss of the JVM."""
    return loss(error) or absence(error)


def denied(error: BaseException) -> LakeError | None:
    """Return the sentence about a file, a folder or a store that this user may not read or write; None when that is not the cause."""
    for each in _causes(error):
        place = None
        if KEYS.is_asked and is_refusing_store(text_of(each)):
            return KeysRefusedError(reason(text_of(each)))
        if isinstance(each, PermissionError):
            place = str(each.filename or "a file")
        elif found := DENIED.search(text_of(each)):
            place = found["place"] or found["other"]
        if place is not None:
            return DataError(
                f"{place} may not be read or written by the user of this process",
                hint="give that user access to it (`ls -ld` shows whose it is, chown and chmod change it); "
                "a stream tries the table again by itself, any other command is typed again.",
                file=place,
            )
    return None


def first_line(error: BaseException) -> str:
    """Return the first informative line of an error."""
    lines = text_of(error).strip().splitlines()
    informative = [line for line in lines if not line.startswith("An error occurred while calling")]
    return (informative or ["no message"])[0].lstrip(": ")[:300]


@contextmanager
def skipped_in_outage() -> Iterator[None]:
    """Run what may be skipped while a disk is full or a store is away: a heartbeat, a line in a log."""
    try:
        yield
    except StoreAwayError:
        pass
    except OSError as error:
        if error.errno not in NO_ROOM:
            raise


def _away(error: BaseException) -> TransientError | None:
    if isinstance(error, LakeError):
        return error if isinstance(error, TransientError) else None
    text = text_of(error)
    if getattr(error, "errno", None) in NO_ROOM or any(words in text for words in FULL):
        return _no_room()
    if NO_SOCKET in text:
        return TransientError(
            "Spark's JVM and Python did not reach each other in time to hand rows over",
            hint="this machine was stalled, or has no port or open file left (`uptime`, `ulimit -n`); nothing is lost or repeated, "
            "a stream goes on by itself, and any other command is typed again.",
        )
    return _away_store(text) or _away_broker(error, text)


def _away_store(text: str) -> TransientError | None:
    if is_silent_store(text):
        return StoreAwayError(reason(text))
    if KEYS.is_asked and is_refusing_store(text) and KEYS.refused():
        return StoreRefusesError(reason(text))
    return None


def _away_broker(error: BaseException, text: str) -> TransientError | None:
    is_silent = (
        isinstance(error, confluent_kafka.KafkaException) and error.args[0].code() in unreached()
    )
    name = next((name for name in SILENT if name in text), "")
    if is_silent or name:
        return TransientError(
            f"no Kafka broker answers: {name.rpartition('.')[2] or text}",
            hint="start the lake's broker with `strandline up`, or correct STRANDLINE_KAFKA.",
        )
    return None


def _no_room() -> TransientError:
    return TransientError(
        "the disk has no room left",
        hint="make room (`df`, then `strandline maintain --dry-run` shows what belongs to nothing); nothing is lost or "
        "repeated, a stream goes on by itself, and any other command is typed again.",
    )


def _causes(error: BaseException) -> Iterator[BaseException]:
    seen: BaseException | None = error
    while seen is not None:
        yield seen
        seen = seen.__cause__ or seen.__context__


# Wait for the end of an outage, for as long as it takes.
#
# A broker that restarts, a full disk or a long commit of another process does not end an always-on stream: it tries
# again, each time after a longer pause, and reports meanwhile what it waits for. Only the table that is affected waits;
# it keeps its lease, so no other process becomes its writer. Where one has become it all the same, waiting ends: who was
# fenced leaves the lease, and takes it anew once it is free.
#
# Why not tenacity: it counts the attempts of one call. Here an attempt is a stream that may run for days before the next
# outage, so the work itself makes the pause short again; and a stop ends the wait without another attempt and without an
# error. With both passed to tenacity as functions, its own part would be the ``while``.


FIRST = 1.0
LONGEST = 30.0
"""Seconds; reading starts at most this long after a broker is back."""

POLL = 0.05


class Patience:
    """The pauses of one table."""

    def __init__(
        self,
        report: Callable[[TransientError | None], None],
        stopped: Callable[[], bool],
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Begin without an outage.

        Args:
            report: Receives the outage at each attempt that fails, and None when the work begins and goes on.
            stopped: Whether to stop waiting.
            clock: Returns the time in seconds.
            sleep: Waits for some seconds.
        """
        self._report = report
        self._stopped = stopped
        self._clock = clock
        self._sleep = sleep
        self._pause = FIRST
        self._waits = True  # the state is unknown until the work goes on

    def outlast(self, work: Callable[[], None]) -> None:
        """Run the work until it succeeds; after an outage wait and run it again.

        Raises:
            ReplacedError: Another process has taken over.
            Exception: The work failed for another reason than an outage.
        """
        while not self._stopped():
            try:
                return work()
            except Exception as error:
                away = absence(error)
                if away is None:
                    raise
                # Its lease is another's, and is taken again outside of this block.
                if isinstance(away, ReplacedError):
                    raise away from None if away is error else error
                self._wait(away)
        return None

    def _wait(self, away: TransientError) -> None:
        self._waits = True
        self._report(away)
        until = self._clock() + self._pause
        self._pause = min(2 * self._pause, LONGEST)
        while self._clock() < until and not self._stopped():
            self._sleep(POLL)

    def well(self) -> None:
        """Record that the work goes on; the next pause is a short one again."""
        if self._waits:
            self._waits = False
            self._pause = FIRST
            self._report(None)


class Pause:
    """The pauses of work beside which other work goes on: it is due again after a pause that doubles."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Be due at once."""
        self._clock = clock
        self._pause, self._due = FIRST, clock()

    def is_due(self) -> bool:
        """Return whether to try now."""
        return self._clock() >= self._due

    def failed(self) -> None:
        """Record that an attempt failed."""
        self._due = self._clock() + self._pause
        self._pause = min(2 * self._pause, LONGEST)

    def well(self) -> None:
        """Record that an attempt succeeded; the next pause is a short one again."""
        self._pause, self._due = FIRST, self._clock()


def soon(work: Callable[[], None]) -> None:
    """Run the work once; an outage ends it at once.

    Raises:
        TransientError: There is an outage.
    """
    try:
        work()
    except Exception as error:
        away = absence(error)
        if away is None or away is error:
            raise
        raise away from error
