"""``maintain``: put small files together, keep logs short, delete what no reader needs, beside running streams."""

import os
from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated

import typer

from strandline.cli import place
from strandline.cli.place import JsonOption, LakeOption
from strandline.cli.screen import emit, note, say, show
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.read.table_versions import pins
from strandline.engine.runtime import clock
from strandline.engine.service.maintain import Left, Maintained, maintain, refuse_idle
from strandline.operate.maintenance import GENTLE, orphans, policy_of, release

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


def register(app: typer.Typer) -> None:
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
        if each.left:
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
