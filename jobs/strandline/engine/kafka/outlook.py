"""How long Kafka keeps what a reader has not read yet, partition by partition."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from strandline.core.topic import Topic
from strandline.engine.kafka import admin
from strandline.engine.kafka.next_records import WAIT, written_at
from strandline.engine.kafka.retention import Retention, retentions
from strandline.engine.kafka.slices import Backlog, Part, Positions
from strandline.engine.kafka.stays import number_in_kafka
from strandline.engine.storage.window_index import EPOCH


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """What Kafka has of a partition for a reader, and until when at least.

    Args:
        part: The partition.
        read: The offset that is read next.
        first: The first offset that Kafka has.
        end: The offset after the last.
        retention: What the topic keeps.
        next_at: When the record was written that is read next; None where nothing is unread, or it did not come.
        unknown: Why there are no figures.
    """

    part: Part
    read: int
    first: int
    end: int
    retention: Retention
    next_at: datetime | None = None
    unknown: str = ""

    @property
    def unread(self) -> int:
        """Return how many offsets are unread and in Kafka."""
        return max(0, self.end - max(self.read, self.first))

    @property
    def lost(self) -> tuple[int, int] | None:
        """Return the first offset that is gone and was not read, and the one after the last; None where there is none."""
        return (self.read, self.first) if self.read < self.first else None

    @property
    def goes_at(self) -> datetime | None:
        """Return the earliest moment at which the next record may be removed for its age; None for never, or unknown."""
        if self.next_at is None or self.retention.ms is None:
            return None
        try:
            return self.next_at + timedelta(milliseconds=self.retention.ms)
        except OverflowError:  # kept for longer than there are years
            return None


def outlooks(
    address: str, options: Mapping[str, str], positions: Positions, wait: float = WAIT
) -> dict[Part, Outlook]:
    """Return the outlook of each partition of the topics that a reader reads.

    Args:
        address: Where Kafka is.
        options: Its client's options.
        positions: The offsets that are read next. A partition of these topics that is missing here begins with what
            Kafka has.
        wait: Seconds to wait for the next records.

    Raises:
        DefinitionError: The cluster refuses the client.
        TransientError: No broker answers.
    """
    names = {topic for topic, _ in positions}
    there = names & admin.topics(address, options).keys()
    log = Backlog(address, options, [Topic(name=name) for name in sorted(there)], positions)
    try:
        bounds = log.bounds()
    finally:
        log.close()
    kept = retentions(address, options, there)
    unread = {
        part: max(positions.get(part, first), first)
        for part, (first, end) in bounds.items()
        if end > max(positions.get(part, first), first)
    }
    asked = {(part[0], number_in_kafka(part)): at for part, at in unread.items()}
    came = written_at(address, options, asked, wait)
    times = {
        part: came[key] for part in unread if (key := (part[0], number_in_kafka(part))) in came
    }
    found = {
        part: Outlook(
            part=part,
            read=positions.get(part, first),
            first=first,
            end=end,
            retention=kept[part[0]],
            next_at=_moment(times.get(part)),
            unknown="" if part in times or part not in unread else "the next record did not come",
        )
        for part, (first, end) in bounds.items()
    }
    gone = {part: _gone(part, at) for part, at in positions.items() if part not in found}
    return {**found, **gone}


def _gone(part: Part, at: int) -> Outlook:
    why = "Kafka has no such partition"
    return Outlook(part=part, read=at, first=at, end=at, retention=Retention(), unknown=why)


def _moment(milliseconds: int | None) -> datetime | None:
    if milliseconds is None:
        return None
    try:
        return EPOCH + timedelta(milliseconds=milliseconds)
    except (
        OverflowError
    ):  # a time beyond the calendar (jobs/strandline/engine/kafka/beyond_calendar.py)
        return None
