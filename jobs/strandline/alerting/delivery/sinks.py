"""The receivers of notices: an address, a file, a topic. Each takes a notice or raises; what is raised is tried again.

A receiver is named by what a user typed (``--to``). Its file in the lake has a hash of that in its name, and people see a
part only: the path of an address is often a password.
"""

import hashlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol
from urllib.parse import urlsplit

import orjson

from strandline.alerting.delivery.notice import Payload
from strandline.core.errors import DefinitionError, TransientError
from strandline.engine.kafka.topic_log import TopicWriter
from strandline.engine.lake.files.place import Place
from strandline.engine.lake.plain_files import append_line, takes_lines
from strandline.engine.runtime.webhook import post

TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")
IDEMPOTENCY = "Idempotency-Key"
"""The header with the id of a notice, by which a receiver knows one that is sent again."""


class Sink(Protocol):
    """A receiver."""

    @property
    def name(self) -> str:
        """Return what its files in the lake are found by."""

    @property
    def shown(self) -> str:
        """Return what people call it; without anything secret."""

    def send(self, notice: Payload) -> None:
        """Deliver a notice.

        Raises:
            TransientError: It was not accepted.
        """


@dataclass(frozen=True, slots=True)
class Webhook:
    """An address to which each notice is posted."""

    address: str

    @property
    def name(self) -> str:
        """Return what its files are found by."""
        return f"webhook-{_hash(self.address)}"

    @property
    def shown(self) -> str:
        """Return scheme, host and port."""
        found = urlsplit(self.address)
        return f"{found.scheme}://{found.netloc}"

    def send(self, notice: Payload) -> None:
        """Post a notice."""
        refusal = post(self.address, notice, headers={IDEMPOTENCY: notice["delivery_id"]})
        if refusal is not None:
            raise TransientError(
                f"{self.shown} did not accept a notice: {refusal}",
                hint="see that the address answers to a POST of JSON; it is tried again.",
            ) from refusal


@dataclass(frozen=True, slots=True)
class File:
    """A file to which each notice is appended as a line."""

    place: Place

    @property
    def name(self) -> str:
        """Return what its files are found by."""
        return f"file-{_hash(str(self.place))}"

    @property
    def shown(self) -> str:
        """Return its path."""
        return str(self.place)

    def send(self, notice: Payload) -> None:
        """Append a notice."""
        append_line(self.place, orjson.dumps(notice))


@dataclass(frozen=True, slots=True)
class KafkaTopic:
    """A topic, of the cluster of the lake; the key of a record is the id of its notice."""

    topic: str
    writer: TopicWriter

    @property
    def name(self) -> str:
        """Return what its files are found by."""
        return f"kafka-{self.topic}"

    @property
    def shown(self) -> str:
        """Return the topic."""
        return f"kafka:{self.topic}"

    def send(self, notice: Payload) -> None:
        """Write a notice."""
        self.writer.write(notice["delivery_id"], orjson.dumps(notice))


def sink(typed: str, locate: Callable[[], str], options: Mapping[str, str], *, read: str) -> Sink:
    """Return the receiver that a user means.

    Args:
        typed: An address, ``file:PATH`` or ``kafka:TOPIC``.
        locate: Returns where Kafka is.
        options: Properties of its client.
        read: The topic that notices are made from; none is written there.

    Raises:
        DefinitionError: It is none.
    """
    kind, _, rest = typed.partition(":")
    if kind in {"http", "https"} and _is_address(typed):
        return Webhook(typed)
    if kind == "file" and rest and not rest.startswith("//"):
        place = Place.of(rest)
        if takes_lines(place):
            return File(place)
    if kind == "kafka" and rest != read and TOPIC.fullmatch(rest):
        return KafkaTopic(rest, TopicWriter(locate, options, rest))
    raise DefinitionError(
        f"alerts cannot be delivered to {kind}:…" if rest else f"{typed!r} is no receiver",
        hint=f"name an address of http or https without a user in it, file:PATH, or kafka:TOPIC; not the topic {read}.",
    )


def _is_address(typed: str) -> bool:
    try:
        found = urlsplit(typed)
        has_host = bool(found.hostname) and found.port != 0
    except ValueError:  # the port is no number
        return False
    return has_host and "@" not in found.netloc and typed.isascii() and typed.isprintable()


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]
