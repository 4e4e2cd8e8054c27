"""``why``: one verdict for one event, and its evidence; needs no Spark."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Annotated

import typer

from jobs import catalog
from jobs.cli import completion, place
from jobs.cli.place import JsonOption, LakeOption
from jobs.cli.screen import emit, progress, say, show
from jobs.engine.trace.verdict import World
from jobs.engine.trace.why import why


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("why")(why_)


def why_(
    what: Annotated[
        str,
        typer.Argument(
            metavar="EVENT",
            help="TOPIC/PARTITION/OFFSET, or the value of a table's key; several columns separated by commas.",
        ),
    ],
    table: Annotated[
        str | None,
        typer.Option(
            "--in",
            metavar="TABLE",
            autocompletion=completion.tables,
            help="The silver or gold table in which it is missing; the one that judges it when absent.",
        ),
    ] = None,
    quick: Annotated[
        bool,
        typer.Option(
            "--quick", help="Do not search the records of bronze for a key; answer unknown instead."
        ),
    ] = False,
    lake: LakeOption = None,
    as_json: JsonOption = False,
) -> None:
    r"""Explain why an event is in a table, or why it is not: one verdict, with its evidence.

    The verdicts: never produced, expired before it was read, not a record, not read yet, waiting behind a shut
    gate, quarantined, late, early, duplicate, dropped by the watermark, no match in the static table, join partner
    absent, window still open, left out by the table's function, in the table, replaced by a backfill,
    unaccounted for where the lake contradicts itself, and unknown where not everything could be searched.

    \b
    strandline why device-telemetry/2/1234
    strandline why evt-0001 --in silver.device_telemetry
    strandline why user-actions/0/17 --in gold.confirmed_logins --json
    strandline why dev-00042,temperature,2026-11-01T06:00 --in gold.device_signal_10m
    """
    found, where = place.existing(lake)
    asked = catalog.find(table) if table else None
    world = World(
        lake=where,
        now=place.now(),
        address=place.address(found, where),
        options=found.kafka_options,
        search=not quick,
        progress=progress,
    )
    finding = why(what, asked, world)
    if as_json:
        emit({"event": what, **asdict(finding)})
        return
    say(f"{finding.table}: {finding.verdict}")
    say(f"{finding.sentence}.")
    show(None, ("evidence", ""), list(_lines(finding.evidence)))


def _lines(evidence: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield a line for each value of the evidence."""
    for name, value in evidence.items():
        if isinstance(value, Mapping):
            yield from _lines(value, f"{prefix}{name}.")
        elif isinstance(value, list) and any(isinstance(each, Mapping) for each in value):
            for number, each in enumerate(value):
                yield from _lines(each, f"{prefix}{name}.{number}.")
        elif isinstance(value, list) and value:
            yield f"{prefix}{name}", ", ".join(map(str, value))
        elif value not in (None, []):
            yield f"{prefix}{name}", str(value)
