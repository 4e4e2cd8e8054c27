"""``maintain``, ``snapshot`` and ``restore``: a lake is kept small, and copied."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from typing import Annotated, Any

import typer

from strandline.cli import place
from strandline.cli.place import JsonOption, LakeOption, TablesArgument
from strandline.cli.screen import emit, note, progress, say, show, yes
from strandline.engine.lake.files.place import Place
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.read.open_table import pins
from strandline.engine.lake.snapshot_files import find, remove_old
from strandline.engine.runtime import clock
from strandline.engine.service.maintain import Left, Maintained, maintain, refuse_idle
from strandline.engine.service.snapshot import Progress, check, take
from strandline.engine.service.snapshot import restore as restore_snapshot
from strandline.operate import lakes
from strandline.operate.decisions import GENTLE, orphans, policy_of, release

COLUMNS = (
    "table",
    "files merged",
    "into",
    "bytes saved",
    "commits moved",
    "files deleted",
    "bytes freed",
)
ORPHANS = ("left behind", "bytes", "why")


def _add_maintain(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("maintain")(maintain_lake)


def maintain_lake(  # noqa: PLR0913, PLR0917  # each is an option of the command line
    keep: Annotated[
        str, typer.Option(help="How long files stay that a later version replaced: 1h, 7d.")
    ] = "1d",
    most: Annotated[
        str, typer.Option("--for", help="No step begins after this time; the next run goes on.")
    ] = "10m",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show what would be done.")
    ] = False,
    gone: Annotated[
        str | None,
        typer.Option(
            metavar="HOST",
            help="A machine that is gone for good: what its verifications pinned is let go now, and not after half an hour.",
        ),
    ] = None,
    lake: LakeOption = None,
    as_json: JsonOption = False,
) -> None:
    r"""Put small files together, keep logs short, and delete what no reader needs.

    Streams may run meanwhile. No row changes, and the ledger stays whole: commits that leave a table's log are
    packed beside it. A file is deleted when all streams have read past it, and what a promotion replaced after a
    week. What killed batches left behind goes when it is a day old. Dagster does all this every quarter of an hour.
    A run that had to leave every table ends with the reason, and not with 0.

    \b
    strandline maintain --dry-run
    strandline maintain
    strandline maintain --keep 1h --for 1m
    strandline maintain --gone worker-7
    """
    _, where = place.existing(lake, writes=not dry_run)
    os.nice(GENTLE)
    if gone is not None:
        held = release(where, gone, go=not dry_run)
        for who in held:
            note(f"would be let go: what {who} holds" if dry_run else f"let go: what {who} held")
        if not held:
            note(f"nothing of {gone} is pinned")
    for pin in pins(where.root):
        since = f", since {pin.since}" if pin.since else ""
        names = ", ".join(sorted(pin.versions))
        note(f"what {pin.who} verifies stays{since}: {names}")
    done = []
    for each in maintain(where, clock.now(), policy_of(keep, most, go=not dry_run)):
        done.append(each)
        if each.left or each.apart:
            note(each.sentence)
    found = orphans(where, go=not dry_run)
    if as_json:
        paths = [{**asdict(each), "path": str(each.path)} for each in found]
        emit({"tables": [asdict(each) for each in done], "left_behind": paths})
    else:
        _show(done, found, where)
    refuse_idle(done)


def _show(done: Sequence[Maintained], orphans: Sequence[Left], where: Lake) -> None:
    rows = [
        (e.table, e.merged, e.into, e.saved, e.commits, e.deleted, e.freed)
        for e in done
        if e.merged or e.commits or e.deleted
    ]
    if rows:
        show(None, COLUMNS, rows)
    if orphans:
        show(None, ORPHANS, [(e.path.below(where.root), e.size, e.why) for e in orphans])
    if not rows and not orphans and not any(each.left for each in done):
        say("nothing to do")


# ``snapshot`` and ``restore``: a consistent copy of tables with all that belongs to them, and a lake made of one.


COPIED = ("table", "version", "rows", "balanced", "certificate")


def _add_snapshot(app: typer.Typer) -> None:
    """Add the verbs."""
    app.command("snapshot")(snapshot)
    app.command("restore")(restore)


def snapshot(  # noqa: PLR0913, PLR0917  # the options of a verb
    target: Annotated[
        str, typer.Argument(metavar="TARGET", help="The folder for snapshots, outside the lake.")
    ],
    tables: TablesArgument = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be taken; write nothing.")
    ] = False,
    keep: Annotated[
        int | None,
        typer.Option(
            min=1, help="Remove older snapshots in TARGET, all but so many of the newest."
        ),
    ] = None,
    lake: LakeOption = None,
    as_json: JsonOption = False,
) -> None:
    r"""Take a snapshot of tables and all that they rest on, beside their streams.

    It has their rows, ledgers, quarantine and its decisions, checkpoints, gates, promoted rules and certificates as one
    consistent set, each file with its hash. Named tables come with their sources. Each snapshot is whole, and shares
    unchanged files with the one before, so a repeated one takes the room and the time of what is new. On the disk of the lake
    the files get a second name; on another they are copied.

    \b
    strandline snapshot /backup/lake
    strandline snapshot /backup/lake gold.device_signal_10m --dry-run
    strandline snapshot /backup/lake --keep 7
    """
    _, where = place.existing(lake, writes=not dry_run)
    chosen, store = lakes.filled(where, tables), Place.of(target)
    with _counted("files") as done:
        found = take(where, chosen, store, clock.now(), note=note, progress=done, dry=dry_run)
    gone = remove_old(store, keep) if keep and not dry_run else []
    if as_json:
        emit(
            {
                "snapshot": None if dry_run else str(found.path),
                "new_bytes": found.new,
                "removed": [each.root.name for each in gone],
                **asdict(found.manifest),
            }
        )
        return
    _show_copies(found.manifest.tables)
    what = "would be taken" if dry_run else f"are in {found.path}"
    say(
        f"{found.manifest.files:,} files, {found.manifest.bytes:,} bytes, of them {found.new:,} new, {what}"
    )
    if gone:
        say(f"{len(gone)} older removed")


def restore(
    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE",
            help="A snapshot, or a folder of snapshots, of which the newest is taken.",
        ),
    ],
    into: Annotated[
        str | None,
        typer.Option(
            metavar="<path>",
            help="The new lake, an empty folder; the lake of the settings when absent.",
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Compare every file with its hash; write nothing.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    r"""Make a lake of a snapshot, and verify it before it is there.

    Every file is compared with its hash, every ledger is balanced, and balances and certificates must be those of the
    snapshot. A stream of the restored lake goes on at the exact offset. It is a lake of its own: without a broker, orders,
    leases and Dagster's history of the original; set STRANDLINE_KAFKA to the broker of the original.

    \b
    strandline restore /backup/lake --dry-run
    strandline restore /backup/lake --into /data/lake
    strandline restore /backup/lake/2026-11-25T114500Z --into copy
    """
    taken = find(Place.of(source))
    _, configured = lakes.configured(into)
    with _counted("files") as done:
        if dry_run:
            found = check(taken, progress=done)
        else:
            found = restore_snapshot(
                taken, Lake(configured.root), clock.now(), note=note, progress=done
            )
    manifest = found.manifest
    if as_json:
        lake = None if found.lake is None else str(found.lake)
        emit({"snapshot": str(found.snapshot), "into": lake, **asdict(manifest)})
        return
    _show_copies(manifest.tables)
    what = "as they were written" if dry_run else f"restored into {found.lake}"
    say(f"{manifest.files:,} files, {manifest.bytes:,} bytes of {taken.root.name} are {what}")


@contextmanager
def _counted(what: str) -> Iterator[Progress]:
    """Show the progress once the number of files is known."""
    shown: list[Callable[[int], None]] = []
    with ExitStack() as held:

        def done(count: int, total: int) -> None:
            if not shown:
                shown.append(held.enter_context(progress(what, total)))
            shown[0](count)

        yield done


def _show_copies(tables: Mapping[str, Mapping[str, Any]]) -> None:
    show(None, COPIED, [_row(name, sheet) for name, sheet in reversed([*tables.items()])])


def _row(name: str, sheet: Mapping[str, Any]) -> Sequence[object]:
    found, kept = sheet["balance"], sheet["certificate"]
    verified = "none" if kept is None else "equal" if kept["equal"] else "NOT EQUAL"
    return name, sheet["version"], found["rows"], yes(not found["faults"]), verified


def register(app: typer.Typer) -> None:
    """Add the verbs."""
    _add_maintain(app)
    _add_snapshot(app)
