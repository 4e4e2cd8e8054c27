"""``produce``: send play events."""

import json
from datetime import datetime, timedelta
from pathlib import Path
from typing import Annotated

import typer

from jobs.cli.place import JsonOption, LakeOption
from jobs.cli.screen import emit, progress, say
from jobs.core.errors import DefinitionError
from jobs.engine.runtime import clock
from jobs.operate import lakes
from jobs.play.plan import Plan
from jobs.play.send import Sent, send
from jobs.silver import device_telemetry

Share = Annotated[float, typer.Option(min=0.0, max=1.0)]


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("produce")(produce)


def produce(  # noqa: PLR0913, PLR0917  # each is an option of the command line
    events: Annotated[
        int, typer.Option(min=1, help="Records to send, duplicates and dirty ones included.")
    ] = (100_000),
    seed: Annotated[int, typer.Option(help="The same seed gives the same events.")] = 7,
    rate: Annotated[
        float | None,
        typer.Option(min=0.001, help="Events a second; as fast as possible when absent."),
    ] = None,
    since: Annotated[
        datetime | None, typer.Option(help="First arrival, UTC; a span before --until when absent.")
    ] = None,
    until: Annotated[
        datetime | None, typer.Option(help="Last arrival, UTC; the start of this hour when absent.")
    ] = None,
    hours: Annotated[float, typer.Option(min=0.01, help="The span when --since is absent.")] = 24.0,
    devices: Annotated[int, typer.Option(min=1)] = 200,
    key_skew: Annotated[
        float, typer.Option(min=0.0, help="0: all devices send alike; 1: few send most.")
    ] = 0,
    malformed: Share = 0.02,
    duplicate: Share = 0.03,
    late: Share = 0.01,
    early: Share = 0.01,
    unknown_field: Share = 0.02,
    wrong_type: Share = 0.02,
    missing: Share = 0.01,
    implausible: Annotated[
        float,
        typer.Option(min=0.0, max=1.0, help="Share of readings that no sensor can measure."),
    ] = 0.0,
    planted: Annotated[
        float,
        typer.Option(
            min=0.0, max=1.0, help="Share of connections in which data is carried off, for models."
        ),
    ] = 0.0,
    truth: Annotated[
        Path | None, typer.Option(help="File for the expected counts of each table.")
    ] = None,
    lake: LakeOption = None,
    as_json: JsonOption = False,
) -> None:
    r"""Send deterministic events to all topics, a share of them dirty, and print the expected counts.

    \b
    strandline produce --events 500000 --seed 7 --truth truth.json
    strandline produce --rate 200 --events 12000 --hours 1
    strandline produce --events 60000 --hours 1 --implausible 0.3
    strandline produce --events 400000 --planted 0.02
    """
    found, where = lakes.configured(lake)
    address = lakes.demanded_address(found, where)
    end = _utc(until) or clock.now().replace(minute=0, second=0, microsecond=0)
    law = device_telemetry.TABLE.lateness
    plan = Plan(
        since=_utc(since) or end - timedelta(hours=hours),
        until=end,
        events=events,
        seed=seed,
        devices=devices,
        key_skew=key_skew,
        late=law.late,
        early=law.early,
        malformed=malformed,
        duplicate=duplicate,
        late_share=late,
        early_share=early,
        unknown_field=unknown_field,
        wrong_type=wrong_type,
        missing=missing,
        implausible=implausible,
        planted=planted,
        rate=rate,
    )
    _refuse_unwritable(truth)
    with progress("events sent", events) as advance:
        sent = send(plan, address, found.kafka_options, on_progress=advance)
    if truth is not None:
        truth.write_text(json.dumps(sent.truth.as_dict(), indent=2) + "\n")
    if as_json:
        emit({"events": sent.events, "seconds": sent.seconds, **sent.truth.as_dict()})
        return
    _print(sent, truth)


def _print(sent: Sent, truth: Path | None) -> None:
    speed = sent.events / sent.seconds if sent.seconds else 0.0
    say(f"{sent.events:,} events sent in {sent.seconds:.1f} s ({speed:,.0f} a second)")
    for table, counts in sent.truth.tables.items():
        held = sum(counts.quarantined.values())
        say(
            f"{table} must get {counts.good:,} good, {counts.duplicates:,} duplicates, {held:,} held"
        )
    if truth is not None:
        say(f"all expected counts are in {truth}")


def _utc(moment: datetime | None) -> datetime | None:
    return moment.replace(tzinfo=clock.now().tzinfo) if moment else None


def _refuse_unwritable(truth: Path | None) -> None:
    if truth is None:
        return
    try:
        truth.touch()
    except OSError as error:
        raise DefinitionError(
            f"the expected counts cannot be written to {truth}: {error.strerror}",
            hint="choose a file in a folder that exists and is yours.",
        ) from error
