"""The parts of ``quarantine`` that need Spark: replay and discard."""

from dataclasses import asdict

from strandline import catalog

from strandline.cli import place
from strandline.cli.screen import emit, note, say, show
from strandline.engine.quarantine.browse import KafkaPlace
from strandline.engine.repair.plan_replay import Fate, Kind
from strandline.engine.repair.replay import Choice, Replayed
from strandline.operate import ranges
from strandline.operate.repairs import held_rows
from strandline.operate.repairs.backfill import left_behind_by

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
    found, where = place.existing(lake, writes=not dry_run)
    span = ranges.both(*ends, "neither to judge all rows")
    chosen, choice = catalog.find(table), Choice(reason=reason, span=span)
    result, done = held_rows.replayed(chosen, choice, found, where, note, dry_run=dry_run)
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
    found, where = place.existing(lake, writes=True)
    chosen, choice = catalog.find(table), Choice(reason=reason, place=at)
    count = held_rows.discarded(chosen, choice, because, found, where, note, undo=undo)
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
