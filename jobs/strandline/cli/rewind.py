"""``rewind``: recompute from bronze what arrived from a moment or an offset on."""

from dataclasses import asdict
from typing import Annotated

import typer

from strandline.cli import place
from strandline.cli.place import JsonOption, LakeOption
from strandline.cli.screen import emit, note, say, show
from strandline.engine.repair.rewind import Rewind, rewind
from strandline.operate import lakes, session
from strandline.operate.repairs.backfill import backfilled, change, left_behind_by
from strandline.operate.repairs.rewind import rewind_lines, rewindable, rewound_to

COLUMNS = ("topic", "partition", "records", "first offset", "last offset")


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("rewind")(rewind_)


def rewind_(  # each is an option of the command line
    table: Annotated[str, typer.Argument(metavar="TABLE", help="A silver or gold table.")],
    to: Annotated[
        str,
        typer.Option(
            metavar="WHERE",
            help="A moment of arrival (2026-11-01T06:00, in UTC) or an offset (topic/partition:offset).",
        ),
    ],
    go: Annotated[bool, typer.Option("--go", help="Do it; without this it is only shown.")] = False,
    lake: LakeOption = None,
    as_json: JsonOption = False,
) -> None:
    r"""Show which records arrived from a moment or an offset on and which days they touch; with --go recompute those.

    Nothing is read from Kafka, because bronze has every record once. The days of the table and of the tables above
    are recomputed from bronze, in one commit per table, while the stream runs. Days that the stream still owns are
    left to it.

    \b
    strandline rewind gold.device_signal_10m --to 2026-11-01T06:00
    strandline rewind silver.device_telemetry --to device-telemetry/2:40000 --go
    """
    found, where = place.existing(lake, writes=go)
    chosen = lakes.derived(table, where)
    plan = rewind(chosen, where, rewound_to(to))
    if as_json:
        emit({**asdict(plan), "records": plan.records})
    else:
        _print(plan)
    if not go:
        return
    span = rewindable(chosen, where, plan)
    note("starting Spark …")
    spark = session.site(found, where, None, is_brief=True, says=note).spark
    done = []
    for each, entry in backfilled(spark, chosen, where, span, downstream=True, says=note):
        done.append(entry)
        note(change(each, entry))
    spark.stop()
    if words := left_behind_by(chosen, where, done):
        note(words)


def _print(plan: Rewind) -> None:
    rows = [(p.topic, p.partition, p.records, p.first, p.last) for p in plan.parts]
    show(None, COLUMNS, rows)
    for line in rewind_lines(plan):
        say(line)
