"""``rewind``: recompute from bronze what arrived from a moment or an offset on."""

from dataclasses import asdict
from typing import Annotated

import typer

from jobs.cli import place, ranges
from jobs.cli.again import again, note_changed, note_left_behind
from jobs.cli.place import JsonOption, LakeOption
from jobs.cli.screen import emit, note, say, show
from jobs.core.errors import DefinitionError
from jobs.core.table import Table
from jobs.engine.repair.closed_range import Span, refuse_open
from jobs.engine.repair.downstream import refuse_behind_above, refuse_open_above
from jobs.engine.repair.rewind import From, Rewind, rewind
from jobs.engine.storage.horizon import refuse_expired
from jobs.engine.storage.lake import Lake
from jobs.engine.trace.locate import Spot
from jobs.operate import lakes, session

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
    plan = rewind(chosen, where, begin(to))
    if as_json:
        emit({**asdict(plan), "records": plan.records})
    else:
        _print(plan)
    if not go:
        return
    span = possible(chosen, where, plan)
    note("starting Spark …")
    spark = session.site(found, where, None, is_brief=True, says=note).spark
    done = []
    for each, entry in again(spark, chosen, where, span, downstream=True):
        done.append(entry)
        note_changed(each, entry)
    spark.stop()
    note_left_behind(chosen, where, done)


def begin(text: str) -> From:
    """Parse where to begin.

    Raises:
        DefinitionError: It is neither a moment nor an offset.
    """
    part, is_offset, offset = text.rpartition(":")
    topic, _, partition = part.rpartition("/")
    if is_offset and topic and partition.isdigit() and offset.isdigit():
        return Spot(topic, int(partition), int(offset))
    try:
        return ranges.moment(text, "--to")
    except DefinitionError as error:
        raise DefinitionError(
            f"{text!r} is neither a moment nor an offset",
            hint="write 2026-11-01T06:00, or topic/partition:offset.",
        ) from error


def possible(table: Table, lake: Lake, plan: Rewind) -> Span:
    """Return the days that can be recomputed, of the table and of the tables above.

    Raises:
        DefinitionError: There are none, or a stream above still owns one.
    """
    if plan.span is None:
        raise DefinitionError(
            f"nothing of {table.id} can be recomputed yet: the stream still owns the days of {plan.records:,} records",
            hint="it will emit them itself, with today's code if it was restarted (`strandline restart`).",
            table=table.id,
        )
    refuse_open(table, lake, plan.span)
    refuse_expired(table, lake, plan.span.since)
    refuse_open_above(table, lake, plan.span)
    refuse_behind_above(table, lake)
    return plan.span


def lines(plan: Rewind) -> list[str]:
    """Describe a plan in sentences."""
    if plan.since is None or plan.until is None:
        return [f"{plan.records:,} records arrived from there on, and no good row comes from them"]
    touched = f"{plan.since.isoformat()} to {plan.until.isoformat()}"
    arrived = f"{plan.records:,} records arrived from there on; their rows of {plan.table} are of {touched}"
    if plan.span is None:
        return [arrived, "the stream still owns all of that"]
    days = f"{plan.span.since.date()} to before {plan.span.until.date()}"
    return [arrived, f"recomputed from bronze: {days}; the stream still owns later days"]


def _print(plan: Rewind) -> None:
    rows = [(p.topic, p.partition, p.records, p.first, p.last) for p in plan.parts]
    show(None, COLUMNS, rows)
    for line in lines(plan):
        say(line)
