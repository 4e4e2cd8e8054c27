"""The programs of a lake that are to run always: the stream of tables, and the process that raises alerts."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from strandline.engine.service.stream_options import merged
from strandline.engine.storage.lake import Lake
from strandline.engine.storage.place import Place


class Merge(Protocol):
    """Returns the options of a start, by those of the last start and those that were given."""

    def __call__(
        self, last: Sequence[str], asked: Sequence[str], *, everything: bool = False
    ) -> tuple[str, ...]:
        """Return them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A verb that runs always, and its files in a lake.

    Args:
        name: Of its log, and of the mark by which it is found.
        title: What it is, in sentences.
        verb: The verb, with the options that it always has.
        starter: What a person types to have it run.
        reader: What a person types to read its log.
        heartbeat: Where it writes its heartbeat.
        order: Where its desired state is.
        lock: The lock of one who decides about it.
        merged: How the options of a start follow from those of the last one.
    """

    name: str
    title: str
    verb: tuple[str, ...]
    starter: str
    reader: str
    heartbeat: Callable[[Lake], Place]
    order: Callable[[Lake], Place]
    lock: Callable[[Lake], Place]
    merged: Merge


def _given_or_last(
    last: Sequence[str], asked: Sequence[str], *, everything: bool = False
) -> tuple[str, ...]:
    """Return the options that were given, if any was; a folder and a mode belong together."""
    return tuple(asked) if asked or everything else tuple(last)


STREAM = Program(
    name="stream",
    title="the stream",
    verb=("stream", "--patient"),
    starter="strandline resume",
    reader="strandline logs",
    heartbeat=lambda lake: lake.heartbeat,
    order=lambda lake: lake.order,
    lock=lambda lake: lake.order_lock,
    merged=merged,
)
ALERTS = Program(
    name="alerts",
    title="the process that raises alerts",
    verb=("alerts",),
    starter="strandline alerts --background",
    reader="strandline logs --of alerts",
    heartbeat=lambda lake: lake.feeds_beat,
    order=lambda lake: lake.alerts_order,
    lock=lambda lake: lake.alerts_order_lock,
    merged=_given_or_last,
)
