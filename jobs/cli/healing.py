"""What of ``quarantine`` needs Spark: replay and discard."""

from dataclasses import asdict
from pathlib import Path

from jobs import catalog
from jobs.cli import engine, place, ranges
from jobs.cli.again import tell_changed
from jobs.cli.screen import emit, note, say, show
from jobs.core.errors import DefinitionError
from jobs.run import discard, replay
from jobs.run.closing import Signed
from jobs.run.heal import Choice, Fate, Kind, Replayed
from jobs.run.quarantine import Place

KINDS = ("held for", "rows", "becomes", "then held for")
WORDS = {
    Fate.HEALS: "a row",
    Fate.DUPLICATE: "a copy of a row",
    Fate.WAITS: "a row, later",
    Fate.REMAINS: "bad as before",
    Fate.CHANGES: "bad for other reasons",
}


def replayed(  # noqa: PLR0913  # each is an option of the command line
    table: str,
    reason: str | None,
    ends: tuple[str | None, str | None],
    *,
    lake: Path | None,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Judge open rows again, or only say what would become of them."""
    found, where = place.existing(lake)
    span = ranges.both(*ends, "neither to look at all rows")
    chosen, choice = catalog.find(table), Choice(reason=reason, span=span)
    replay.refuse_unfit(chosen, where)
    note("starting Spark …")
    spark = engine.site(found, where, None, is_brief=True).spark
    if dry_run:
        told = replay.rehearse(spark, chosen, where, choice)
    else:
        signed = Signed(who=place.login(), at=place.now())
        told = replay.replay(spark, chosen, where, choice, signed, tell=tell_changed)
    spark.stop()
    if as_json:
        emit(asdict(told))
    else:
        _print(told, dry_run=dry_run)
    if not choice.is_whole and told.healed and not dry_run:
        note(
            "some open rows were not looked at: `strandline verify` may find them until all were replayed"
        )


def discarded(  # noqa: PLR0913  # as above
    table: str,
    reason: str | None,
    at: Place | None,
    *,
    because: str | None,
    undo: bool,
    lake: Path | None,
    as_json: bool,
) -> None:
    """Give open rows up, or take the last time back."""
    found, where = place.existing(lake)
    chosen, choice = catalog.find(table), Choice(reason=reason, place=at)
    signed = Signed(who=place.login(), at=place.now(), why=because)
    if undo and not (choice.is_whole and because is None):
        raise DefinitionError(
            "--undo takes the last discard back as a whole",
            hint="give it without --reason, --at and --because.",
        )
    if not undo:
        discard.refuse_vague(chosen, choice, signed)
    discard.refuse_unfit(chosen, where)
    note("starting Spark …")
    spark = engine.site(found, where, None, is_brief=True).spark
    if undo:
        count = discard.reopen(spark, chosen, where, signed)
    else:
        count = discard.discard(spark, chosen, where, choice, signed)
    spark.stop()
    if as_json:
        emit({"table": chosen.id, "rows": count, "undone": undo})
    else:
        say(f"{chosen.id}: {count:,} rows {'are open again' if undo else 'discarded'}")


def _print(told: Replayed, *, dry_run: bool) -> None:
    show(None, KINDS, [_row(kind) for kind in told.kinds])
    word = "would come" if dry_run else "came"
    say(
        f"{told.table}: of {told.rows:,} open rows {told.healed:,} {word}, {told.duplicates:,} are copies, "
        f"{told.remain + told.changed:,} are still bad, {told.wait:,} wait"
    )
    if told.possible_from:
        say(
            f"the time of those that wait still belongs to a stream, at least to that of {told.waits_for}; "
            f"the earliest possible moment is when events of {told.possible_from} were read"
        )
    if dry_run:
        note("nothing was written; the same without --dry-run does it")


def _row(kind: Kind) -> tuple[object, ...]:
    return (", ".join(kind.before), kind.rows, WORDS[kind.fate], ", ".join(kind.after))
