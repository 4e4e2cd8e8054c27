"""A record that a project's play module sends: what any producer sends, with the time of its arrival."""

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A record of a Kafka topic.

    Args:
        topic: The topic.
        key: Its key.
        value: Its payload.
        arrived_at: Its timestamp, by which its lateness is judged.
    """

    topic: str
    key: bytes
    value: bytes
    arrived_at: datetime
