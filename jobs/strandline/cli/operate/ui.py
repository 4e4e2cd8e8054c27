"""``ui``: Dagster's pages and daemon for a lake, with the broker, until Ctrl-C."""

from typing import Annotated

import typer
from strandline import catalog

from strandline.cli import stopping
from strandline.cli.place import LakeOption
from strandline.cli.screen import note, say
from strandline.engine.accounting.left_topics import topics_read
from strandline.engine.kafka import admin, local_broker
from strandline.engine.lake.retired import fed
from strandline.engine.service.dagster_process import Console
from strandline.engine.trust import report_server
from strandline.operate import lakes
from strandline.operate.alerts.pages import alert_pages
from strandline.operate.stream import always

EVERY = 0.5


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("ui")(ui)


def ui(
    port: Annotated[
        int | None, typer.Option(min=1, max=65535, help="Port on loopback; a free one when absent.")
    ] = None,
    stream: Annotated[
        bool,
        typer.Option(
            "--stream", help="Keep all tables up to date as well, as `strandline resume` does."
        ),
    ] = False,
    lake: LakeOption = None,
) -> None:
    r"""Operate the lake in the browser: start its broker, Dagster's pages and daemon, until Ctrl-C stops all of it.

    Every table is an asset there: materialise it, backfill days of it, see its checks. Runs and their logs are kept
    in the lake, in _dagster; with STRANDLINE_POSTGRES runs are kept in that database. Nothing is sent elsewhere.

    \b
    strandline ui
    strandline ui --port 3000 --stream
    """
    found, where = lakes.configured(lake)
    where.open_for_writing()
    asked = stopping.asked()
    if found.kafka is not None:
        admin.check_reachable(found.kafka, found.kafka_options)
    console = Console(where, port, database=found.postgres, note=note)
    always_on = always(found, where, "strandline ui")
    is_our_stream = stream and always_on.pid() is None
    is_ours = found.kafka is None and local_broker.status(where) is None
    if is_ours:
        note("starting Kafka …")
        admin.make_missing(
            local_broker.up(where).address, fed(catalog.tables(), where), topics_read(where)
        )
    try:
        note("starting Dagster …")
        address = console.start(asked)
        if is_our_stream and not asked.is_set():
            note("starting the stream …")
            always_on.resume()
        with report_server.served(where, alert_pages(found, where)):
            if address:
                also = " and the stream" if is_our_stream else ""
                say(f"Dagster is at {address}; Ctrl-C stops it{also}")
            while not asked.wait(EVERY):
                console.refuse_ended()
    finally:
        note("stopping …")
        console.stop()  # first, because the watchdog runs in it
        if is_our_stream:
            always_on.pause("`strandline ui` was stopped")
        if is_ours:
            local_broker.down(where)
