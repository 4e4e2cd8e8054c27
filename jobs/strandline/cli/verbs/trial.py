"""``try``: a table's function over the last rows of what it reads, before it runs."""

from dataclasses import asdict
from typing import Annotated

import typer

from strandline.cli import place
from strandline.cli.place import JsonOption, LakeOption
from strandline.cli.screen import emit, note, say, show
from strandline.operate import session, trial


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("try")(try_)


def try_(  # noqa: PLR0913, PLR0917  # each is an option of the command line
    name: Annotated[
        str,
        typer.Argument(
            metavar="TABLE", help="A table of silver or gold; its layer may be left out."
        ),
    ],
    last: Annotated[
        str, typer.Option(help="How much is read of the time before the newest event: 1h, 30m, 2d.")
    ] = "1h",
    rows: Annotated[int, typer.Option(min=1, max=1000, help="How many rows are shown.")] = 20,
    is_open: Annotated[
        bool,
        typer.Option(
            "--open",
            help="All windows that are not over, such as today, from all that is known of them; each row is marked provisional.",
        ),
    ] = False,
    lake: LakeOption = None,
    as_json: JsonOption = False,
) -> None:
    r"""Run a table's function over the last hour of what it reads, and show rows and plan; nothing is written.

    The table need not be in the lake yet. Windows that are not final are shown as well, and rows of a topic by their
    arrival. Sensitive values are masked, as `query` masks them.

    \b
    strandline try gold.device_signal_10m
    strandline try device_signal_10m --last 2d --rows 5
    strandline try device_signal_10m --open
    """
    table = trial.named(name)
    length = trial.length(last)
    found, where = place.existing(lake)
    trial.refuse_unread(table, where)
    note("starting Spark …")
    site = session.site(found, where, None, is_brief=True, says=note)
    done = trial.tried(site.spark, table, where, length, rows, is_open=is_open)
    site.spark.stop()
    if as_json:
        emit({**asdict(done), "since": done.since.isoformat(), "until": done.until.isoformat()})
        return
    say(f"{done.table}, from {done.since:%Y-%m-%d %H:%M:%S} to {done.until:%Y-%m-%d %H:%M:%S}")
    for source, count in done.read.items():
        say(f"  read {count:,} rows of {source}")
    for sentence in done.notes:
        say(f"  {sentence}")
    for why, count in done.skipped.items():
        say(f"  passed over {count:,}: {why}")
    for why, count in done.held.items():
        say(f"  held {count:,}: {why}")
    say("")
    show(None, tuple(done.columns), done.rows)
    say(
        f"{done.count:,} rows"
        + (f", {len(done.rows):,} shown" if done.count > len(done.rows) else "")
    )
    say("")
    for line in done.plan:
        say(line)
