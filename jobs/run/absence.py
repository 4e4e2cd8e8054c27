"""Whether an error only means that something outside is away: a broker, the room on a disk, another's commit.

It is asked where an error ends a run and where a stream decides whether to wait. Spark hands on what went wrong in the
JVM as text, with the Java causes in it, so text is what is looked at: the names of Kafka's own errors that a client may
try again, and the two sentences of the operating system for a disk that has no room.
"""

import errno
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import KafkaError, KafkaException

from jobs.core.errors import LakeError, TransientError
from jobs.run.jvm import SLOW, loss

FULL = ("No space left on device", "Disk quota exceeded")
NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT})

ROOM = 1_000_000
"""Bytes; a heart cannot beat with less for long."""

RETRIABLE = (
    "TimeoutException",
    "DisconnectException",
    "NetworkException",
    "NotLeaderOrFollowerException",
    "LeaderNotAvailableException",
    "CoordinatorNotAvailableException",
    "BrokerNotAvailableException",
)
SILENT = tuple(f"org.apache.kafka.common.errors.{name}" for name in RETRIABLE)
"""What Spark's Kafka client ends with when a broker went away in the middle of a read."""

UNREACHED = frozenset(
    {
        KafkaError._TRANSPORT,  # noqa: SLF001  # public, though so named
        KafkaError._TIMED_OUT,  # noqa: SLF001
        KafkaError._ALL_BROKERS_DOWN,  # noqa: SLF001
        KafkaError._RESOLVE,  # noqa: SLF001
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.BROKER_NOT_AVAILABLE,
        KafkaError.REQUEST_TIMED_OUT,
    }
)


def absence(error: BaseException) -> TransientError | None:
    """Return what is away, as a sentence with a hint; None when the error is somebody's fault."""
    if isinstance(error, TransientError):
        return error
    if isinstance(error, LakeError):
        return None
    lost = loss(error)
    if lost is not None:
        return lost if any(SLOW in _text(each) for each in _causes(error)) else None
    return next((found for each in _causes(error) if (found := _away(each))), None)


def told(error: BaseException) -> TransientError | None:
    """Return what to tell the reader of a program that an error has ended: what is away, the JVM among it."""
    return loss(error) or absence(error)


def has_room(folder: Path) -> bool:
    """Tell whether something can be written, so that a stream that says nothing may be asked why."""
    return shutil.disk_usage(folder).free >= ROOM


@contextmanager
def without_room() -> Iterator[None]:
    """Do what may be left out while a disk is full: a beat, a line in a log."""
    try:
        yield
    except OSError as error:
        if error.errno not in NO_ROOM:
            raise


def _away(error: BaseException) -> TransientError | None:
    if isinstance(error, LakeError):
        return error if isinstance(error, TransientError) else None
    text = _text(error)
    if getattr(error, "errno", None) in NO_ROOM or any(words in text for words in FULL):
        return _no_room()
    is_silent = isinstance(error, KafkaException) and error.args[0].code() in UNREACHED
    name = next((name for name in SILENT if name in text), "")
    if is_silent or name:
        return TransientError(
            f"no Kafka broker answers: {name.rpartition('.')[2] or text}",
            hint="see that it runs; start ours with `strandline up`, or correct STRANDLINE_KAFKA.",
        )
    return None


def _no_room() -> TransientError:
    return TransientError(
        "the disk has no room left",
        hint="make room (`df`, then `strandline tidy` shows what belongs to nothing); nothing is lost or "
        "repeated, a stream goes on by itself, and whatever else stopped is typed again.",
    )


def _text(error: BaseException) -> str:
    try:
        return str(error)  # with the stack of the JVM, and all causes that it had there
    except Exception:  # noqa: BLE001  # py4j asks the JVM for the text, and the JVM may be gone
        return ""


def _causes(error: BaseException) -> Iterator[BaseException]:
    seen: BaseException | None = error
    while seen is not None:
        yield seen
        seen = seen.__cause__ or seen.__context__
