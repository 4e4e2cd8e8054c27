"""``up``, ``status``, ``down``: the broker of a lake, and what runs on it."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated

import typer

from jobs import catalog
from jobs.cli import place
from jobs.cli.place import JsonOption, LakeOption
from jobs.cli.screen import emit, say
from jobs.core.table import Topic
from jobs.run import broker, topics
from jobs.run.beat import heartbeat
from jobs.run.order import order


def register(app: typer.Typer) -> None:
    """Add the verbs."""
    app.command("up")(up)
    app.command("status")(status)
    app.command("down")(down)


def up(
    port: Annotated[
        int | None, typer.Option(min=1, max=65535, help="Port on loopback; a free one when absent.")
    ] = None,
    lake: LakeOption = None,
    as_json: JsonOption = False,
) -> None:
    r"""Start this lake's Kafka broker, or find it running, and make the topics of the declared tables on it.

    Topics that are there stay as they are. On a cluster that STRANDLINE_KAFKA names none is made; those that it lacks
    are listed.

    \b
    strandline up
    strandline up --port 9092
    """
    found, where = place.configured(lake)
    tables = catalog.tables()
    if found.kafka is not None:
        lacking = topics.missing(found.kafka, found.kafka_options, tables)
        if as_json:
            emit(
                {"address": found.kafka, "pid": None, "missing": [topic.name for topic in lacking]}
            )
            return
        say(f"STRANDLINE_KAFKA names {found.kafka}, which answers; no broker of ours is needed")
        if lacking:
            say(f"it lacks {_listed(lacking)}; have them made by who runs it")
        return
    running = broker.up(where.open_for_writing().root, port)
    made = topics.make_missing(running.address, tables)
    if as_json:
        names = [topic.name for topic in made]
        emit({"address": running.address, "pid": running.pid, "made": names})
        return
    say(f"Kafka answers at {running.address} (process {running.pid})")
    if made:
        say(f"made {_listed(made)}")


def _listed(found: Sequence[Topic]) -> str:
    return ", ".join(f"{topic.name} ({topic.partitions} partitions)" for topic in found)


def status(lake: LakeOption = None, as_json: JsonOption = False) -> None:
    r"""Say whether the broker and the stream of this lake are alive.

    \b
    strandline status
    strandline status --json
    """
    found, where = place.configured(lake)
    running = None if found.kafka else broker.status(where.root)
    beat, asked = heartbeat(where, place.now()), order(where)
    if as_json:
        emit(
            {
                "lake": str(where.root),
                "kafka": place.address(found, where),
                "broker_pid": running.pid if running else None,
                "stream": beat,
                "order": asdict(asked) if asked else None,
            }
        )
        return
    say(f"lake    {where.root}")
    if found.kafka:
        say(f"kafka   {found.kafka} (STRANDLINE_KAFKA)")
    else:
        say(
            f"broker  {running.address}, process {running.pid}"
            if running
            else "broker  not running"
        )
    if beat and beat["alive"]:
        say(f"stream  process {beat['pid']}, last heard of at {beat['at']}")
        for name, pulse in beat["tables"].items():
            if pulse.get("away"):
                say(f"        {name} waits: {pulse['away']}")
    else:
        say("stream  not running" + (f"; last heard of at {beat['at']}" if beat else ""))
    if asked:
        wish = "is to run" if asked.runs else "is to rest"
        say(
            f"        {wish}, says {asked.by} since {asked.at}"
            + (f": {asked.why}" if asked.why else "")
        )
    if asked and asked.gave_up:
        say(f"        was started again {len(asked.attempts)} times; given up at {asked.gave_up}")


def down(lake: LakeOption = None, as_json: JsonOption = False) -> None:
    r"""Stop the broker that `strandline up` started for this lake; its data stays.

    \b
    strandline down
    """
    _, where = place.configured(lake)
    stopped = broker.down(where.root)
    if as_json:
        emit({"stopped": stopped})
    else:
        say("broker stopped" if stopped else "no broker of ours is running here")
