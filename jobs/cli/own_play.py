"""``demo`` and ``produce`` in a project of one's own: the events of its play module."""

import importlib
import time
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Annotated, cast

import typer

from jobs import catalog
from jobs.cli.demo_lake import DemoLakeOption, played, short
from jobs.cli.place import LakeOption
from jobs.cli.screen import progress, say
from jobs.core.errors import DefinitionError
from jobs.core.record import Record
from jobs.engine.accounting.left_topics import topics_read
from jobs.engine.kafka import admin
from jobs.engine.kafka.send_records import send_records
from jobs.engine.runtime import clock
from jobs.operate import lakes
from jobs.project import package

EventsOption = Annotated[int, typer.Option(min=1, help="Records to send.")]


def register(app: typer.Typer) -> None:
    """Add both verbs."""
    app.command("demo")(demo)
    app.command("produce")(produce)


def demo(
    events: EventsOption = 10_000,
    lake: DemoLakeOption = None,
) -> None:
    r"""Send the project's play events through an empty lake, and account for each.

    The events are those of `play.py` in the project's package. The broker is the demo's own, and stops at the end.

    \b
    strandline demo
    strandline demo --events 100000
    """
    play = _play()
    began = time.monotonic()
    where, sent, _ = played(lake, lambda address: _send(play, events, address, {}))
    seconds = time.monotonic() - began
    say(f"balanced: {sent:,} events, each in exactly one place, in {seconds:.0f} s")
    say(f"the lake is {short(where.root)}")


def produce(events: EventsOption = 10_000, lake: LakeOption = None) -> None:
    r"""Send the project's play events to its topics.

    The events are those of `play.py` in the project's package.

    \b
    strandline produce --events 1000
    """
    play = _play()
    found, where = lakes.configured(lake)
    address = lakes.demanded_address(found, where)
    if found.kafka is None:
        admin.make_missing(address, catalog.tables(), topics_read(where))
    sent = _send(play, events, address, found.kafka_options)
    say(f"{sent:,} events sent")


Play = Callable[[int, datetime], Iterable[Record]]


def _send(play: Play, events: int, address: str, options: dict[str, str]) -> int:
    until = clock.now().replace(minute=0, second=0, microsecond=0)
    with progress("events sent", events) as advance:
        return send_records(address, options, play(events, until), advance)


def _play() -> Play:
    """Return the function that makes events.

    Raises:
        DefinitionError: The project has none, or it cannot be read.
    """
    name = f"{package()}.play"
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise catalog.unreadable(error, name) from error
        raise DefinitionError(
            f"this project has no events to play: there is no module {name}",
            hint="write it, with a function `events(count, until)` that yields strandline.Record; "
            "or send events of your own, then `strandline run`.",
        ) from error
    except Exception as error:
        raise catalog.unreadable(error, name) from error
    if not callable(getattr(module, "events", None)):
        raise DefinitionError(
            f"{name} has no function `events`",
            hint="let `events(count, until)` yield strandline.Record, the oldest first.",
        )
    return cast("Play", module.events)
