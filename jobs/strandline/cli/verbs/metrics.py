"""``metrics`` and ``probe``: what programs ask of a lake, Prometheus for its figures and Kubernetes for its stream."""

from enum import StrEnum
from typing import Annotated

import typer
from strandline import catalog

from strandline.cli import main
from strandline.cli.screen import LakeOption, note, record, say
from strandline.core.errors import TransientError
from strandline.engine.runtime import clock
from strandline.engine.service.background_stream import ALERTS, STREAM, refuse_ill
from strandline.operate import lakes
from strandline.operate.lakes import seconds
from strandline_infra.programs import HOST

PORT = 9464
"""The usual port of programs that expose metrics beside their own work."""

EVERY, EVERY_ON_STORE = "15s", "1m"


def _add_metrics(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("metrics")(metrics)


def metrics(
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port of the page; a free one for 0.")
    ] = PORT,
    host: Annotated[
        str, typer.Option(help="Address of this machine at which to listen; loopback by default.")
    ] = HOST,
    every: Annotated[
        str | None,
        typer.Option(
            help="Time between two looks at the lake, however often it is scraped: 15s; 1m on an object store."
        ),
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="Print the page and end.")] = False,
    lake: LakeOption = None,
) -> None:
    r"""Serve the figures of a lake for Prometheus until Ctrl-C, at /metrics: streams, lag, ledger, gates, leases, alerts.

    It needs no Spark and no broker, and changes nothing. While no stream runs, Kafka is asked for what bronze has not read.
    Where the object store does not answer, the page has within five seconds what this machine knows, and --once exits with 3.

    \b
    strandline metrics
    strandline metrics --port 9100 --every 30s
    strandline metrics --once
    """
    # Not imported above: it reads what Prometheus' client brings, for which no other verb should wait.
    from strandline.engine.kafka.slices import unread_offsets  # noqa: PLC0415  # as above
    from strandline.engine.service.metrics_page import LakeLook  # noqa: PLC0415  # as above

    found, where = lakes.configured(lake)

    def unread() -> dict[str, int]:
        return unread_offsets(
            catalog.tables(), where, lakes.address(found, where), found.kafka_options
        )

    pause = seconds(every or (EVERY if where.root.is_local else EVERY_ON_STORE))
    look = LakeLook(catalog.tables(), where, clock.now, note, unread)
    if once:
        look.look()
        record(look.text().removesuffix("\n"))
        if look.away:
            raise SystemExit(TransientError.exit_code)
        return
    asked = main.asked()
    with look.served(host, port) as bound:
        note(f"metrics of {where.root} at http://{host}:{bound}/metrics; Ctrl-C stops")
        look.look()
        while not asked.wait(pause):
            look.look()
        main.deaf()


# ``probe``: is the stream of this container well? For Kubernetes, or what else starts programs and asks after them.


class ProgramName(StrEnum):
    """The programs that write a heartbeat."""

    STREAM = "stream"
    ALERTS = "alerts"


PROGRAMS = {ProgramName.STREAM: STREAM, ProgramName.ALERTS: ALERTS}


def _add_probe(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("probe")(probe)


def probe(
    program: Annotated[ProgramName, typer.Argument(help="Which program.")],
    lake: LakeOption = None,
) -> None:
    r"""Exit with 0 if the stream, or the process that raises alerts, is well on this host, else with 3 and the reason.

    It is well while it writes its heartbeat, and no table has had rows to read for ten minutes and committed none. One that
    still starts is not well yet. The heartbeat is all that is read, so it takes a second or less.

    \b
    strandline probe stream
    strandline probe alerts
    """
    _, where = lakes.configured(lake)
    beat = refuse_ill(PROGRAMS[program], where, clock.now())
    say(f"{program}: process {beat['pid']}, last heartbeat at {beat['at']}")


def register(app: typer.Typer) -> None:
    """Add the verbs."""
    _add_metrics(app)
    _add_probe(app)
