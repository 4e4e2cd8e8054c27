"""``why``: one verdict for one event, and its evidence; needs no Spark."""

import json
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Annotated

import typer
from strandline import catalog

from strandline.cli import completion, place
from strandline.cli.place import JsonOption, LakeOption
from strandline.cli.screen import emit, note, progress, record, say, show
from strandline.core.errors import DefinitionError
from strandline.core.table import Table
from strandline.engine.ask.verdict import World
from strandline.engine.ask.why import explain_each, why
from strandline.engine.runtime import clock
from strandline.operate import lakes


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("why")(why_)


def why_(
    what: Annotated[
        list[str],
        typer.Argument(
            metavar="EVENT",
            help="TOPIC/PARTITION/OFFSET, or the value of a table's key; several columns separated by commas. "
            "Several events, or - for one a line of the standard input, get a line each.",
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
    strandline why --quick - < places.txt
    """
    found, where = place.existing(lake, briefly=True)
    asked = catalog.find(table) if table else None
    world = World(
        lake=where,
        now=clock.now(),
        address=lakes.address(found, where),
        options=found.kafka_options,
        search=not quick,
        progress=progress,
    )
    if what == ["-"] or len(what) > 1:
        _explain_each(_lines_of_input() if what == ["-"] else iter(what), asked, world, as_json)
        return
    finding = why(what[0], asked, world)
    if as_json:
        emit({"event": what[0], **asdict(finding)})
        return
    say(f"{finding.table}: {finding.verdict}")
    say(f"{finding.sentence}.")
    show(None, ("evidence", ""), list(_lines(finding.evidence)))


def _explain_each(
    events: Iterator[str],
    table: Table | None,
    world: World,
    as_json: bool,  # noqa: FBT001  # it has one call, which names it
) -> None:
    """Print a line for each event, and to a person how many have each verdict."""
    verdicts: Counter[str] = Counter()
    for event, finding in explain_each(events, table, world):
        verdicts[finding.verdict] += 1
        if as_json:
            record(json.dumps({"event": event, **asdict(finding)}, default=str))
        else:
            record(f"{event}\t{finding.table}\t{finding.verdict}\t{finding.sentence}")
    if not verdicts:
        raise DefinitionError(
            "no event was named on the standard input",
            hint="give it one a line, such as device-telemetry/2/1234; an empty line is passed over.",
        )
    for verdict, count in verdicts.most_common():
        note(f"{count:,} {verdict}")


def _lines_of_input() -> Iterator[str]:
    return (text for line in sys.stdin if (text := line.strip()))


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
