"""Recognise transient errors: no broker, no object store, a full disk, another process's commit.

A run asks it when an error ends it, and a stream when it decides whether to wait. Spark passes errors of the JVM on as
text with the Java causes, so the text is searched: for the names of Kafka's retriable errors, for those of the clients of an object
store, and for the operating system's two messages about a full disk.
"""

import errno
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from confluent_kafka import KafkaError, KafkaException

from strandline.core.errors import DataError, LakeError, ReplacedError, TransientError
from strandline.engine.runtime.jvm import SLOW, loss, text_of
from strandline.engine.runtime.store_away import (
    KEYS,
    KeysRefusedError,
    StoreAwayError,
    StoreRefusesError,
    is_refusing_store,
    is_silent_store,
    reason,
)

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
DENIED = re.compile(
    r"AccessDeniedException: (?P<place>\S+)|(?:FileNotFoundException|IOException): (?P<other>\S+) \(Permission denied\)"
)
"""How Java says that a file is not this user's."""

SILENT = tuple(f"org.apache.kafka.common.errors.{name}" for name in RETRIABLE)
"""The errors with which Spark's Kafka client ends when a broker disappears during a read."""

UNREACHED = frozenset(
    {
        KafkaError._TRANSPORT,  # noqa: SLF001  # public, though so named
        KafkaError._TIMED_OUT,  # noqa: SLF001  # as above
        KafkaError._ALL_BROKERS_DOWN,  # noqa: SLF001  # as above
        KafkaError._RESOLVE,  # noqa: SLF001  # as above
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.BROKER_NOT_AVAILABLE,
        KafkaError.REQUEST_TIMED_OUT,
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
    if is_silent_store(text):
        return StoreAwayError(reason(text))
    if KEYS.is_asked and is_refusing_store(text) and KEYS.refused():
        return StoreRefusesError(reason(text))
    is_silent = isinstance(error, KafkaException) and error.args[0].code() in UNREACHED
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
