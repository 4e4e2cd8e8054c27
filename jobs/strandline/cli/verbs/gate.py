"""``gate``, ``accept-loss`` and ``mend``: what holds a table back, and how it goes on; and of ``quarantine`` what needs Spark."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Annotated, Any

import typer
from strandline import catalog

from strandline.cli import screen
from strandline.cli.screen import JsonOption, LakeOption, emit, note, say, show
from strandline.core.errors import DefinitionError
from strandline.core.table import Table
from strandline.engine.accounting import gate_files
from strandline.engine.accounting.browse_held import KafkaPlace
from strandline.engine.accounting.gate_files import Shut, Where
from strandline.engine.kafka.topic_log import count, described
from strandline.engine.lake.lake import Lake
from strandline.engine.repair import closed_range
from strandline.engine.repair.downstream import above
from strandline.engine.repair.plan_replay import Fate, Kind
from strandline.engine.repair.replay import Choice, Replayed
from strandline.engine.runtime import clock
from strandline.engine.service.set_aside import SetAside
from strandline.operate import decisions
from strandline.operate.backfill import left_behind_by, mending, refuse_lost, sentence
from strandline.operate.decisions import accepted


def _add_gate(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("gate")(gate_)


def gate_(
    table: Annotated[
        str | None, typer.Argument(metavar="TABLE", help="A table; all when absent.")
    ] = None,
    open_: Annotated[
        str | None,
        typer.Option("--open", metavar="REASON", help="Let the batch pass; the ledger keeps why."),
    ] = None,
    lake: LakeOption = None,
    as_json: JsonOption = False,
) -> None:
    r"""Show which gates are shut, why, and sample rows; or open one for the batch that waits.

    A batch in which too many rows break a critical rule is not published: bronze has all of it, and the tables
    above keep their last published rows. Correct the rule or the source, or open the gate.

    \b
    strandline gate
    strandline gate silver.device_telemetry
    strandline gate silver.device_telemetry --open "the sensors were calibrated, INC-204"
    """
    _, where = screen.existing(lake, writes=open_ is not None)
    chosen = [catalog.find(table)] if table else list(catalog.tables())
    if open_ is not None:
        _open(chosen, where, open_, named=table is not None)
        return
    files = {(each.table, each.where): each for each in gate_files.every(where)}
    known = [
        (each, files[each.id, side])
        for each in chosen
        for side in Where
        if (each.id, side) in files
    ]
    if as_json:
        emit(
            [
                {**asdict(shut), "waiting": [t.id for t in above(each, where)]}
                for each, shut in known
            ]
        )
        return
    if not known:
        say("every gate is open" if table is None else f"the gate of {table} is open")
    for each, shut in known:
        _explain(each, shut, where)


def _open(chosen: Sequence[Table], lake: Lake, because: str, *, named: bool) -> None:
    if not named:
        raise DefinitionError(
            "one gate is opened at a time", hint='`strandline gate TABLE --open "why"`.'
        )
    (table,) = chosen
    at = clock.now().isoformat(timespec="seconds")
    for found in gate_files.open_(table, lake, because=because, who=clock.login(), at=at):
        if found.where is Where.BEHIND:
            say(
                f"the gate behind {table.id} is open; the tables above continue with their next batch"
            )
        elif found.where is Where.RANGE:
            say(f"the {found.stream} of {table.id} may pass; type its backfill again")
        else:
            say(f"batch {found.batch} of {table.id} may pass: {found.rows:,} rows")
            say(f"a running stream takes it within seconds; otherwise: strandline run {table.id}")


def _explain(table: Table, shut: Shut, lake: Lake) -> None:
    if shut.opened is not None:
        say(f"the gate {_place(shut)} was opened by {shut.opened_by}: {shut.opened}")
        return
    say(f"the gate {_place(shut)} is shut since {shut.at}")
    for each in shut.findings:
        say(f"  {each['name']} ({each['severity']}): {each['says']}")
    for rule, rows in shut.samples.items():
        columns = _columns(rows)
        show(
            f"{rule}: {len(rows)} of the rows",
            columns,
            [tuple(row.get(name) for name in columns) for row in rows],
        )
    waiting = ", ".join(each.id for each in above(table, lake))
    if waiting:
        say(f"with their last published rows: {waiting}")
    say(f'let it pass with: strandline gate {table.id} --open "why"')


def _place(shut: Shut) -> str:
    if shut.where is Where.BEHIND:
        return f"behind {shut.table}, which the tables above do not read meanwhile,"
    what = f"batch {shut.batch}" if shut.where is Where.BEFORE else f"the {shut.stream}"
    return f"of {shut.table}, before {what} with {shut.rows:,} rows,"


def _columns(rows: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for row in rows for name in row))


# ``accept-loss`` and ``mend``: what is lost or torn, and how the table goes on.
#
# ``accept-loss``: record that Kafka removed records before they were read, and let their reader go on.


def _add_losses(app: typer.Typer) -> None:
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
    found, where = screen.existing(lake, writes=True)
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
            autocompletion=screen.tables,
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
    _, where = screen.existing(lake, writes=True)
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


def register(app: typer.Typer) -> None:
    """Add the verbs."""
    _add_gate(app)
    _add_losses(app)


KINDS = ("held for", "rows", "becomes", "then held for")
WORDS = {
    Fate.HEALS: "a row",
    Fate.DUPLICATE: "a copy of a row",
    Fate.WAITS: "a row, later",
    Fate.REMAINS: "bad as before",
    Fate.CHANGES: "bad for other reasons",
    Fate.SKIPPED: "passed over",
}


def replayed(  # noqa: PLR0913  # each is an option of the command line
    table: str,
    reason: str | None,
    ends: tuple[str | None, str | None],
    *,
    lake: str | None,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Judge open rows again, or only report what would become of them."""
    found, where = screen.existing(lake, writes=not dry_run)
    span = closed_range.both(*ends, "neither to judge all rows")
    chosen, choice = catalog.find(table), Choice(reason=reason, span=span)
    result, done = decisions.replayed(chosen, choice, found, where, note, dry_run=dry_run)
    if as_json:
        emit(asdict(result))
    else:
        _print(result, dry_run=dry_run)
    if words := left_behind_by(chosen, where, done):
        note(words)
    if not choice.is_whole and result.healed and not dry_run:
        note(
            "some open rows were not judged: `strandline verify` may report them until all were replayed"
        )


def discarded(  # noqa: PLR0913  # as above
    table: str,
    reason: str | None,
    at: KafkaPlace | None,
    *,
    because: str | None,
    undo: bool,
    lake: str | None,
    as_json: bool,
) -> None:
    """Discard open rows, or revert the last discard."""
    found, where = screen.existing(lake, writes=True)
    chosen, choice = catalog.find(table), Choice(reason=reason, place=at)
    count = decisions.discarded(chosen, choice, because, found, where, note, undo=undo)
    if as_json:
        emit({"table": chosen.id, "rows": count, "undone": undo})
    else:
        say(f"{chosen.id}: {count:,} rows {'are open again' if undo else 'discarded'}")


def _print(result: Replayed, *, dry_run: bool) -> None:
    show(None, KINDS, [_row(kind) for kind in result.kinds])
    word = "would come" if dry_run else "came"
    say(
        f"{result.table}: of {result.rows:,} open rows {result.healed:,} {word}, {result.duplicates:,} are copies, "
        f"{result.remain + result.changed:,} are still bad, {result.wait:,} wait"
        + (f", {result.skipped:,} are passed over" if result.skipped else "")
    )
    if result.possible_from:
        say(
            f"a stream, at least that of {result.waits_for}, still owns the time of those that wait; "
            f"the earliest possible moment is when events of {result.possible_from} were read. What a rule held need not wait: "
            f"`strandline rebuild {result.table}`, `strandline promote {result.table}` beside the stream, then the tables that "
            "promote names; what is disordered waits"
        )
    if dry_run:
        note("nothing was written; the same without --dry-run does it")


def _row(kind: Kind) -> tuple[object, ...]:
    return (", ".join(kind.before), kind.rows, WORDS[kind.fate], ", ".join(kind.after))
