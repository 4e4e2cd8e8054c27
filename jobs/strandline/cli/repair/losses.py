"""``accept-loss`` and ``mend``: what is lost or torn, and how the table goes on.

``accept-loss``: record that Kafka removed records before they were read, and let their reader go on.
"""

from dataclasses import asdict
from typing import Annotated

import typer
from strandline import catalog

from strandline.cli import completion, place
from strandline.cli.place import JsonOption, LakeOption
from strandline.cli.screen import emit, note, say
from strandline.core.errors import DefinitionError
from strandline.engine.kafka.topic_changes import count, described
from strandline.engine.service.set_aside import SetAside
from strandline.operate.repairs.held_rows import accepted
from strandline.operate.repairs.rebuild import mending, refuse_lost, sentence


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("accept-loss")(accept_loss)
    _register_mend(app)


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


# ``mend``: take a torn commit out of a table's log, and say what is to be computed again.


def _register_mend(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("mend")(mend_)


def mend_(
    table: Annotated[
        str,
        typer.Argument(
            metavar="TABLE",
            help="Such as gold.device_signal_10m.",
            autocompletion=completion.tables,
        ),
    ],
    lake: LakeOption = None,
    as_json: JsonOption = False,
) -> None:
    r"""Take torn commits of a table out of its log, so that it can be read and written again.

    The batch that a table's stream has open is set aside, and the stream writes it again. In the place of a commit on which
    its stream, a table above or a later commit builds, and of one that no stream writes again (a repair, an import, a
    promotion, a decision about held rows), an empty one is put; the rows come back by `strandline rebuild` and `strandline
    promote`, and the exit code is then 4. A running stream hands the table over meanwhile. Other tables are not touched, and
    the torn files are kept in the lake's folder _damaged.

    \b
    strandline mend gold.device_signal_10m
    """
    _, where = place.existing(lake, writes=True)
    chosen = catalog.find(table)
    done: list[SetAside] = []
    with mending(chosen, where, note) as taken_out:
        try:
            for each in taken_out:
                done.append(each)
                if not as_json:
                    say(sentence(each))  # at once: what comes after it may end with an error
        finally:
            if as_json:
                emit([asdict(each) for each in done])
    if not done and not as_json:
        say(f"no commit of {chosen.id} is torn")
    refuse_lost(chosen, where, done)
