"""The errors of an object store that does not answer or refuses the keys, and how they are recognised in what its clients say.

It is apart from the other outages (jobs/strandline/engine/runtime/outage.py), because those need PySpark, which a command without a JVM does
not load.
"""

import math
import re
import time
from collections.abc import Callable

from strandline.core.errors import DefinitionError, TransientError

SILENT = (
    "Unable to execute HTTP request",
    "AWSStatus500Exception",
    "AWSServiceThrottledException",
    "HttpChannelEOFException",
    "retry_timeout:",
)
"""What their errors contain: Hadoop's in the JVM, and, last, those of the client that delta-rs, DuckDB and this project have, once
it has tried again for as long as it may."""

REFUSED = re.compile(
    r"AccessDeniedException: s3a?://\S+: "
    r"|(?:S3Exception|AwsServiceException|Generic S3 error|Error performing).*\b(?:InvalidAccessKeyId|SignatureDoesNotMatch"
    r"|ExpiredToken|TokenRefreshRequired|403 Forbidden|401 Unauthorized|Status Code: 40[13])\b"
)
"""What a line of an error has where a store refuses the keys: Hadoop's words, and those of the clients of S3 with their codes. A
code alone is in the rows of many a log, which errors cite."""

PATIENCE = 900.0
"""Seconds for which a process believes that keys which worked will work again: a token is renewed late by minutes, not by hours."""

QUIET = 120.0
"""Seconds without a refusal after which the next one is another; a table that waits asks more often."""


class StoreAwayError(TransientError):
    """The object store does not answer."""

    def __init__(self, why: str, place: str = "") -> None:
        """Name what it does not answer for, and why, as far as is known."""
        about = f" for {place}" if place else ""
        super().__init__(
            f"the object store does not answer{about}: {why}",
            hint="compare AWS_ENDPOINT_URL with where it runs; nothing is lost, a stream goes on by itself, and any other "
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
            hint="set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY to a key that may read and write the bucket.",
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
    return any(words in text for words in SILENT)


def reason(text: str) -> str:
    """Return the line of such an error that has the reason."""
    found = (line for line in text.splitlines() if is_silent_store(line) or is_refusing_store(line))
    return next(found, text).strip().rpartition("Exception: ")[2][:300]
