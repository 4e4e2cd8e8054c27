"""The always-on programs of a lake: who orders them, and which tables a start runs."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from strandline import catalog

from strandline.core.table import Table
from strandline.core.topic import Topic
from strandline.engine.accounting.routes import read_before, topics_read
from strandline.engine.flow import readers
from strandline.engine.kafka import admin, local_broker
from strandline.engine.kafka.local_broker import Broker
from strandline.engine.lake.completeness import fed
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.shelves import Promotion, promotions
from strandline.engine.runtime import clock
from strandline.engine.runtime.settings import Settings, environment
from strandline.engine.service.background_stream import STREAM, Always, Program
from strandline.engine.service.condition import (
    Condition,
    condition,
    damaged,
    outdated,
    overdue,
    unrouted,
)
from strandline.engine.service.stream_health import SILENT, Order, heartbeat, order
from strandline.operate import lakes


def always(
    found: Settings, where: Lake, by: str | None = None, program: Program = STREAM
) -> Always:
    """Return a program of a lake that runs always, the stream or what raises alerts; orders are signed by ``by``, the user when absent."""
    return Always(
        lake=where,
        clock=clock.now,
        environment=environment(found),
        by=by or clock.login(),
        program=program,
    )


def asked_of(stream: Always, names: Sequence[str], where: Lake) -> list[Table]:
    """Return the tables that a start would run: those that are named, or those of the last start, without retired ones."""
    if names:
        return lakes.to_feed(names, where)
    last = stream.order()
    known = {table.id for table in lakes.named(None)}
    return fed(lakes.named([word for word in (last.words if last else ()) if word in known]), where)


# Whether the programs of a lake are alive, and its own broker brought up.


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """What is known of the programs of a lake.

    Args:
        settings: By which it is asked.
        lake: The lake.
        broker: Its own broker, where it runs and no other is named.
        beat: The last heartbeat of its stream.
        asked: The order that its stream follows.
        alerts: The last heartbeat of what raises alerts.
        promoted: The promotions of alert rules.
        starting: Whether the stream starts, and has written no heartbeat yet.
        condition: All of that in a sentence.
    """

    settings: Settings
    lake: Lake
    broker: Broker | None
    beat: Mapping[str, Any] | None
    asked: Order | None
    alerts: Mapping[str, Any] | None
    promoted: Sequence[Promotion]
    starting: bool
    condition: Condition

    @property
    def is_ill(self) -> bool:
        """Whether the stream should run and does not; one that starts has no heartbeat for some seconds."""
        if (
            self.starting
            or self.asked is None
            or not self.asked.runs
            or self.asked.is_suspended(clock.now())
        ):
            return False
        return not self.beat or not self.beat["alive"] or bool(silence(self.beat))


def status_of(found: Settings, where: Lake) -> Status:
    """Look at the programs of a lake."""
    running = None if found.kafka else local_broker.status(where)
    beat, asked = heartbeat(where, clock.now()), order(where)
    live = heartbeat(where, clock.now(), where.feeds_beat)
    promoted = promotions(where)
    starting = always(found, where).is_starting()
    return Status(
        settings=found,
        lake=where,
        broker=running,
        beat=beat,
        asked=asked,
        alerts=live,
        promoted=promoted,
        starting=starting,
        condition=condition(where, clock.now(), starting=starting)
        .beside(damaged(catalog.tables(), where))
        .below(unrouted(catalog.tables(), where))
        .below(outdated(fed(catalog.tables(), where), where))
        .below(overdue(fed(catalog.tables(), where), where, clock.now())),
    )


def silence(beat: Mapping[str, Any]) -> str:
    """Return for how long a stream that lives has written no heartbeat, where that is too long."""
    age = clock.now() - datetime.fromisoformat(beat["at"])
    return f"{age.total_seconds():.0f} s" if age > SILENT else ""


def nearest_danger(where: Lake) -> dict[str, Any] | None:
    """Return the nearest danger that the radar saw when it looked last; None where it never looked, or saw none."""
    seen = readers.last(where)
    danger = readers.worst(seen[1]) if seen else None
    return {"at": seen[0], **asdict(danger)} if seen and danger else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Up:
    """A broker that answers.

    Args:
        broker: It.
        made: The topics that were created.
        gone: Those that tables have read and that are deleted; they are not made anew.
    """

    broker: Broker
    made: Sequence[Topic]
    gone: Sequence[Topic]


def brought_up(where: Lake, port: int | None) -> Up:
    """Start a lake's own broker, unless it runs, and create the topics of the declared tables on it."""
    tables = fed(catalog.tables(), where)
    running = local_broker.up(where.open_for_writing(), port)
    read = topics_read(where)
    gone = [each for each in admin.missing(running.address, {}, tables) if each.name in read]
    return Up(broker=running, made=admin.make_missing(running.address, tables, read), gone=gone)


def readers_of(gone: Sequence[Topic], where: Lake) -> str:
    """Return the tables that have read topics, in words."""
    names = {topic.name for topic in gone}
    return " and ".join(each.id for each in catalog.tables() if names & read_before(each, where))
