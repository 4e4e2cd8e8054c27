"""How far a receiver of alerts has got them: the offsets that were read, and what of it was not accepted yet.

Both are one file, which is replaced whole. So an alert that was read is in an accepted notice, in a notice that waits or
among the alerts of the next one, whenever the process is killed:

    read = delivered + waiting + copies + below + from_history + passed_over

Why no consumer group of Kafka: it would store the offsets, in another place than the alerts that were read and wait for
their rule's next notice. Either those were lost in a crash, or the group stayed behind the oldest of them.

A notice is stored before it is sent. One that is sent again, because a crash came before its acceptance was stored, is
the same to the last byte; the receiver knows it by its ``delivery_id``.

A receiver that is away costs no memory: each rule has at most one notice that waits, and a digest that counts.
"""

import json
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import orjson

from strandline.alerting.delivery.notice import Alert, Digest, Payload
from strandline.core.errors import DataError
from strandline.engine.storage.place import Place


@dataclass(slots=True, kw_only=True)
class Books:
    """What is stored about one receiver.

    Args:
        receiver: What people call it.
        topic: The id that the cluster gave to the topic; empty before the first look.
        offsets: The next offset to read, by partition.
        digests: Alerts that are in no notice yet, by rule.
        outbox: Notices that were not accepted yet, by rule, the next one to send first.
        noticed: When each rule had its last notice.
        read: Records, since the receiver was named first; so are the counts below.
        copies: Alerts that were raised again.
        below: Alerts of a severity that the receiver does not get.
        from_history: Alerts on events that were old when they were raised; gold.alerts has them.
        passed_over: Records that are no alerts.
        delivered: Alerts in notices that were accepted.
        notices: Those notices.
        expired: Offsets that the topic did not keep until they were read.
        lag: Offsets that are not read yet.
        away: What is waited for.
        at: When this was stored.
        holder: A name of the process that stores it. It makes the stored text another one as soon as a process has taken
            over, so what its predecessor would store after that is refused.
    """

    receiver: str
    topic: str = ""
    offsets: dict[int, int] = field(default_factory=dict)
    digests: dict[str, Digest] = field(default_factory=dict)
    outbox: dict[str, Payload] = field(default_factory=dict)
    noticed: dict[str, datetime] = field(default_factory=dict)
    read: int = 0
    copies: int = 0
    below: int = 0
    from_history: int = 0
    passed_over: int = 0
    delivered: int = 0
    notices: int = 0
    expired: int = 0
    lag: int | None = None
    away: str | None = None
    at: str = ""
    holder: str = ""

    @property
    def waiting(self) -> int:
        """Return how many alerts are in no accepted notice yet."""
        counts = [each.count for each in self.digests.values()]
        return sum(counts) + sum(int(each["count"]) for each in self.outbox.values())

    def add(self, alert: Alert) -> None:
        """Put an alert into the digest of its rule."""
        digest = self.digests.get(alert.rule)
        self.digests[alert.rule] = digest.plus(alert) if digest else Digest.of(alert)

    def accepted(self, rule: str, now: datetime) -> None:
        """Take a notice out of the outbox."""
        notice = self.outbox.pop(rule)
        self.noticed[rule] = now
        self.delivered += notice["count"]
        self.notices += 1

    def text(self) -> str:
        """Return it as it is stored."""
        return orjson.dumps(self, option=orjson.OPT_NON_STR_KEYS).decode()


def books(place: Place, receiver: str) -> tuple[Books, str | None]:
    """Return what is stored about a receiver and the tag of its file, or the books of a new one.

    Raises:
        DataError: What is stored cannot be read.
    """
    found = place.tagged()
    if found is None:
        return Books(receiver=receiver), None
    try:
        return _read(json.loads(found[0])), found[1]
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(
            f"{place} cannot be read: {error}",
            hint="remove it, and the receiver begins as a new one; gold.alerts has all alerts.",
            file=str(place),
        ) from error


def _read(stored: dict[str, Any]) -> Books:
    return Books(
        **{
            **stored,
            "offsets": {int(number): end for number, end in stored["offsets"].items()},
            "digests": {rule: Digest.read(each) for rule, each in stored["digests"].items()},
            "noticed": {rule: datetime.fromisoformat(at) for rule, at in stored["noticed"].items()},
        }
    )
