"""``accept-loss``: record that Kafka removed records before they were read, and let their reader go on."""

from typing import Annotated

import typer

from strandline.cli import place
from strandline.cli.place import JsonOption, LakeOption
from strandline.cli.screen import emit, note, say
from strandline.core.errors import DefinitionError
from strandline.engine.kafka.expired import count, described
from strandline.operate.repairs.losses import accepted


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("accept-loss")(accept_loss)


def accept_loss(
    table: Annotated[
        str,
        typer.Argument(
            metavar="TABLE", help="A bronze table, or a feed of alerts such as live.process_events."
        ),
    ],
    because: Annotated[str, typer.Option("--because", help="The reason, for the ledger.")],
    lake: LakeOption = None,
    as_json: JsonOption = False,
) -> None:
    r"""Accept that records expired in Kafka before a table read them, and let it go on behind the gap.

    A table stops where its next record is gone, and names the offsets; it skips nothing by itself. This records exactly
    these offsets as lost in its ledger, with who accepted that, when and why; `strandline ledger` shows them. It is
    refused where nothing is lost, and typed twice it does it once.

    A stream that runs goes on by itself at its next attempt. Keep the records longer, or the next outage loses some
    again: `strandline radar`.

    \b
    strandline accept-loss bronze.device_telemetry --because "the cluster kept a day, and we were away for two"
    """
    if not because.strip():
        raise DefinitionError(
            "a loss is accepted for a reason",
            hint='give it: --because "the outage was longer than the topic keeps its records".',
        )
    found, where = place.existing(lake, writes=True)
    done = accepted(table, because.strip(), found, where, note)
    if as_json:
        ranges = {name: list(ends) for name, ends in done.entry.lost.items()}
        emit({"table": table, "lost": ranges, "accepted": done.entry.accepted, "new": done.is_new})
        return
    offsets = f"{described(done.lost)} ({count(done.lost):,} offsets)"
    if not done.is_new:
        say(f"{table}: the loss of {offsets} was accepted already, by {done.entry.accepted}")
        return
    say(f"{table}: {offsets} are recorded as lost")
    note("a stream that runs reads on at its next attempt; otherwise `strandline run`")
