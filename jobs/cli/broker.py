"""``up``, ``status``, ``down``: the broker of a lake, and what runs on it."""

from dataclasses import asdict
from typing import Annotated

import typer

from jobs.cli import place
from jobs.cli.place import JsonOption, LakeOption
from jobs.cli.screen import emit, say
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
    r"""Start this lake's Kafka broker, or find it running, and wait until it answers.

    \b
    strandline up
    strandline up --port 9092
    """
    found, where = place.configured(lake)
    if found.kafka is not None:
        topics.check_reachable(found.kafka, found.kafka_options)
        say(f"STRANDLINE_KAFKA names {found.kafka}, which answers; no broker of ours is needed")
        return
    running = broker.up(where.open_for_writing().root, port)
    if as_json:
        emit({"address": running.address, "pid": running.pid})
    else:
        say(f"Kafka answers at {running.address} (process {running.pid})")


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
