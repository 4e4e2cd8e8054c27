"""``maintain``, ``snapshot``, ``restore``, ``forget``, ``expire``, ``retire`` and ``move``: what a lake keeps, and what leaves it."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from typing import Annotated, Any

import typer

from strandline.cli import screen
from strandline.cli.screen import JsonOption, LakeOption, TablesArgument, emit, note, say, show
from strandline.core.errors import DefinitionError
from strandline.engine.accounting.routes import NOT_ASKED
from strandline.engine.lake.forgotten import requests, search
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger import Entry
from strandline.engine.lake.open_table import pins
from strandline.engine.lake.place import Place
from strandline.engine.lake.snapshot_files import find, remove_old
from strandline.engine.publish.by_settings import bring_up_to_date
from strandline.engine.repair import retire as retiring
from strandline.engine.repair.expire import Expired, declares, expire, overdue
from strandline.engine.repair.forget import Part
from strandline.engine.repair.forget_request import Request
from strandline.engine.runtime import clock
from strandline.engine.runtime.settings import Settings
from strandline.engine.service.maintain import Left, Maintained, maintain, refuse_idle
from strandline.engine.service.snapshot import Progress, check, take
from strandline.engine.service.snapshot import restore as restore_snapshot
from strandline.operate import lakes, session
from strandline.operate.decisions import (
    GENTLE,
    Leave,
    forgotten,
    moved,
    orphans,
    policy_of,
    received,
    refuse_waiting,
    refuse_without_reason,
    release,
    retired,
    scrubbed,
    taken_back,
    topic_left,
)

KEPT = (
    *("table", "files merged", "into", "bytes saved"),
    *("commits moved", "files deleted", "bytes freed"),
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
    settings, where = screen.existing(lake, writes=not dry_run)
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
    done, policy = [], policy_of(keep, most, go=not dry_run)
    for each in maintain(where, clock.now(), policy):
        done.append(each)
        if each.left or each.apart or each.retimed:
            note(each.sentence)
    if policy.go:
        for line in bring_up_to_date(settings, where, clock.now, policy.is_over):
            note(line)
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
        show(None, KEPT, rows)
    if orphans:
        show(None, ORPHANS, [(e.path.seen_from(where.root), e.size, e.why) for e in orphans])
    if not rows and not orphans and not any(each.left or each.retimed for each in done):
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
    moment: Annotated[
        str | None, typer.Option(help="Of a moment: its name, its number, a time, or LATEST.")
    ] = None,
    lake: LakeOption = None,
    as_json: JsonOption = False,
) -> None:
    r"""Take a snapshot of tables and all that they rest on, beside their streams.

    It has their rows, ledgers, quarantine and its decisions, checkpoints, gates, promoted rules and certificates as one
    consistent set, each file with its hash. Named tables come with their sources. Each snapshot is whole, and shares
    unchanged files with the one before, so a repeated one takes the room and the time of what is new. On the disk of the lake
    the files get a second name; on another they are copied. One of a moment (`strandline moments`) has no checkpoints: it is read.

    \b
    strandline snapshot /backup/lake
    strandline snapshot /backup/lake --moment month-end-october
    strandline snapshot /backup/lake gold.device_signal_10m --dry-run
    strandline snapshot /backup/lake --keep 7
    """
    _, where = screen.existing(lake, writes=not dry_run)
    chosen, store = lakes.filled(where, tables), Place.of(target)
    with _counted("files") as done:
        found = take(
            where, chosen, store, clock.now(), note=note, progress=done, dry=dry_run, of=moment
        )
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
    what += f", of {found.manifest.moment}" if moment else ""
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
                shown.append(held.enter_context(screen.progress(what, total)))
            shown[0](count)

        yield done


def _show_copies(tables: Mapping[str, Mapping[str, Any]]) -> None:
    show(None, COPIED, [_kept_row(name, sheet) for name, sheet in reversed([*tables.items()])])


def _kept_row(name: str, sheet: Mapping[str, Any]) -> Sequence[object]:
    found, kept = sheet["balance"], sheet["certificate"]
    verified = "none" if kept is None else "equal" if kept["equal"] else "NOT EQUAL"
    return name, sheet["version"], found["rows"], screen.yes(not found["faults"]), verified


def register(app: typer.Typer) -> None:
    """Add the verbs."""
    _add_maintain(app)
    _add_snapshot(app)
    _register_forget(app)


# ``forget``: delete the rows that a condition means, in all layers, and prove that nothing is left.

FOUND = (
    *("table", "rows", "of them for a text, not the condition", "what happens to them"),
    *("records that only mention it", "waits for"),
)
DONE = ("table", "rows", "what was done")
REQUESTS = ("request", "begun", "done", "history scrubbed")
SCRUBBED = ("table", "up to version", "files deleted", "commits rewritten")
HITS = ("file", "where", "what it is")


def _add_forget(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("forget")(forget)
    _register_expire(app)


def forget(  # noqa: PLR0913, PLR0917  # each is an option of the command line
    where: Annotated[
        str | None,
        typer.Option(metavar="CONDITION", help="Whom to forget: SQL over the columns of tables."),
    ] = None,
    scrubs: Annotated[
        bool,
        typer.Option("--scrub", help="Make the history behind requests of an hour ago unreadable."),
    ] = False,
    text: Annotated[
        str | None,
        typer.Option("--search", metavar="TEXT", help="Search every file of the lake for a text."),
    ] = None,
    now: Annotated[
        bool,
        typer.Option(
            "--now",
            help="Do not wait for time that streams still own: compute their tables anew, and promote them beside the streams.",
        ),
    ] = False,
    go: Annotated[
        bool, typer.Option("--go", help="Do it, which cannot be undone; without this it is shown.")
    ] = False,
    lake: LakeOption = None,
    as_json: JsonOption = False,
) -> None:
    r"""Delete the rows of a person or a device in all layers; the ledger balances, and nothing brings them back.

    Bronze, silver and quarantine lose the records that the condition means, and those that cannot be parsed and contain its
    text. Tables above are computed again from the rows that stay. Time that a stream still owns waits: exit code 3, type it
    again later, or with --now, which computes the tables of these streams anew. An hour later --scrub deletes old files, versions and statistics that still hold the rows, and
    --search proves that no file does. The ledger has a hash of the request. Kafka is another system: send a tombstone
    for the key, or let the topic's retention pass.

    \b
    strandline forget --where "device_id = 'd-17'"
    strandline forget --where "device_id = 'd-17'" --go
    strandline forget --where "device_id = 'd-17'" --now --go
    strandline forget --scrub --go
    strandline forget --search d-17
    strandline forget
    """
    if sum(each is not None and each is not False for each in (where, text, scrubs)) > 1:
        raise DefinitionError(
            "--where, --scrub and --search are three steps",
            hint="type them one after the other.",
        )
    found, place_of_lake = screen.existing(lake, writes=go)
    if text is not None:
        _search(place_of_lake, text, as_json=as_json)
    elif where is not None:
        _forget(found, place_of_lake, Request.of(where), now=now, go=go, as_json=as_json)
    elif scrubs:
        _scrub(found, place_of_lake, go=go, as_json=as_json)
    else:
        _list(place_of_lake, as_json=as_json)


def _forget(  # noqa: PLR0913  # the request, where, and three flags
    found: Settings, lake: Lake, request: Request, *, now: bool, go: bool, as_json: bool
) -> None:
    work, parts, done = forgotten(request, found, lake, note, now=now, go=go)
    words = work.condition.words
    if as_json:
        emit({"found": [asdict(each) for each in parts], "done": [asdict(each) for each in done]})
    elif not parts:
        say("nothing is left to forget")
    elif go:
        show(None, DONE, [(each.table, each.rows, each.how) for each in done if each.rows])
    else:
        show(None, FOUND, [_row(each) for each in parts])
    if parts and not go:
        note("nothing was deleted; the same with --go does it, and nothing brings the rows back")
    if go and any(each.rows for each in done):
        note(
            f"old versions still hold them: `strandline forget --scrub --go` in an hour, then `--search {words[0] if words else 'TEXT'}`"
        )
    refuse_waiting(parts)


def _scrub(found: Settings, lake: Lake, *, go: bool, as_json: bool) -> None:
    ready, done = scrubbed(found, lake, note, go=go)
    if as_json:
        emit({"due": [asdict(each) for each in ready], "done": [asdict(each) for each in done]})
    elif go:
        show(None, SCRUBBED, [(e.table, e.until, e.files, e.commits) for e in done])
    else:
        say(f"{len(ready)} requests were carried out over an hour ago and have a history")


def _search(lake: Lake, text: str, *, as_json: bool) -> None:
    hits = [*search(lake, text)]
    if as_json:
        emit([asdict(each) for each in hits])
        return
    show(None, HITS, [(each.file, each.how, each.kind) for each in hits])
    certain = sum(each.is_certain for each in hits)
    say(f"{certain:,} files hold it, {len(hits) - certain:,} cannot be searched")


def _list(lake: Lake, *, as_json: bool) -> None:
    known = requests(lake)
    if as_json:
        emit([asdict(each) for each in known])
    elif known:
        show(None, REQUESTS, [(e.mark, e.begun_at, e.done_at, e.scrubbed_at) for e in known])
    else:
        say("no request was carried out; --where says whom to forget")


def _row(each: Part) -> tuple[object, ...]:
    return (each.table, each.rows, each.by_text, each.how, each.mentions, each.waits or None)


# ``expire``: show and delete the rows that are older than their tables keep them.


LEFT = ("table", "older than", "rows", "files", "files rewritten", "waits for")


def _register_expire(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("expire")(expire_)


def expire_(
    tables: TablesArgument = None,
    go: Annotated[
        bool, typer.Option("--go", help="Delete them; without this they are only shown.")
    ] = False,
    lake: LakeOption = None,
    as_json: JsonOption = False,
) -> None:
    r"""Show the rows that are older than their table keeps them, and with --go delete them.

    A table declares it: keeps="400 days" for its rows, keeps_held="90 days" for its quarantine; without it nothing
    expires. Whole files go, without being read, in one commit per table; the ledger counts the rows as expired.
    Streams may run meanwhile. Rows that a table above has not read yet stay.

    \b
    strandline expire
    strandline expire silver.device_telemetry
    strandline expire --go
    """
    found, where = screen.existing(lake, writes=go)
    chosen = [table for table in lakes.filled(where, tables) if declares(table)]
    shown = [each for table in chosen for each in overdue(table, where, clock.now())]
    if go and any(each.is_due for each in shown):
        note("starting Spark …")
        spark = session.site(found, where, None, is_brief=True, says=note).spark
        shown = [each for table in chosen for each in expire(spark, table, where, clock.now())]
        spark.stop()
    if as_json:
        emit([asdict(each) for each in shown])
        return
    if not chosen:
        say("no table declares how long it keeps its rows: keeps=…, in its module")
        return
    show(None, LEFT, [_expire_row(each) for each in shown])
    if not go and any(each.is_due for each in shown):
        note("nothing was deleted; the same with --go does it")


def _expire_row(each: Expired) -> tuple[object, ...]:
    return (
        each.table,
        each.until,
        each.rows,
        each.files,
        each.rewritten,
        ", ".join(each.waits_for) or None,
    )


# ``retire`` and ``move``: a table or a topic that is read no more, and a cluster that is left.


AnyTableArgument = Annotated[
    str,
    typer.Argument(
        metavar="TABLE",
        help="Such as gold.site_traffic_1h; of a topic the bronze table.",
        autocompletion=screen.tables,
    ),
]
TableArgument = Annotated[
    str,
    typer.Argument(metavar="TABLE", help="A bronze table.", autocompletion=screen.tables),
]
BecauseOption = Annotated[str, typer.Option("--because", help="The reason, for the ledger.")]
FromOption = Annotated[
    str | None,
    typer.Option("--from", metavar="HOST:PORT", help="The cluster that was read until now."),
]
LeaveOption = Annotated[
    bool,
    typer.Option(
        "--leave-unread",
        help="Go on although records were not read, or the cluster cannot be asked any more; the ledger names them.",
    ),
]
UndoOption = Annotated[bool, typer.Option("--undo", help="Take it back.")]


def _add_retire(app: typer.Typer) -> None:
    """Add the verbs."""
    app.command("retire")(retire)
    app.command("move")(move)


def retire(  # noqa: PLR0913, PLR0917  # each is an option of the command line
    table: AnyTableArgument,
    topic: Annotated[
        str | None,
        typer.Option("--topic", metavar="NAME", help="A topic of it; the table when absent."),
    ] = None,
    because: BecauseOption = "",
    former: FromOption = None,
    leave_unread: LeaveOption = False,
    deletes: Annotated[
        bool,
        typer.Option(
            "--delete", help="Delete a table that no module declares from the lake, for good."
        ),
    ] = False,
    undo: UndoOption = False,
    lake: LakeOption = None,
    as_json: JsonOption = False,
) -> None:
    r"""Retire a table, or a topic of one: it is fed no more, and keeps what it has.

    A table: no run and no stream writes it any more; a running stream leaves it by itself. It stays readable, requests to
    forget and retention go on, and the ledger and `status` say by whose decision and why. Its module stays where it is. It is
    refused while a table that is fed reads it. --undo feeds it on from where it ended, for a week; later it is rebuilt, or
    recomputed at once.

    A topic: its rows stay, every table above goes on, and the ledger and `status` say up to which offset it was read.
    Type it before the topic is deleted: it asks the cluster whether there is more, and refuses while
    records are unread or the topic cannot be asked; --leave-unread goes on all the same. Then take the topic out of the
    table's `reads`. The last topic of a table is not retired: name another one there first. It is refused beside a running
    stream of the table: `strandline pause` first. --undo reads the topic on from where it ended.

    \b
    strandline retire gold.site_traffic_1h --because "the sites are counted elsewhere"
    strandline retire gold.site_traffic_1h --undo --because "they are not"
    strandline retire bronze.device_telemetry --topic device-telemetry-v1 --because "the last of the old devices is gone"
    """
    _refuse_mixed(topic, former, leaves=leave_unread, deletes=deletes, undo=undo)
    if topic is not None:
        leaving = (topic, former, leave_unread)
        _retire_topic(table, leaving, because, lake, undo=undo, as_json=as_json)
    else:
        _retire_table(table, because, lake, deletes=deletes, undo=undo, as_json=as_json)


def _refuse_mixed(
    topic: str | None, former: str | None, *, leaves: bool, deletes: bool, undo: bool
) -> None:
    """Refuse options that do not belong together.

    Raises:
        DefinitionError: Some do not.
    """
    if topic is None and (former or leaves):
        raise DefinitionError(
            "--from and --leave-unread are about a topic, and none is named",
            hint="name it with --topic; without these options the table itself is retired.",
        )
    if deletes and (topic is not None or undo):
        raise DefinitionError(
            "--delete is about a whole table, and cannot be taken back",
            hint="type it with the name of a table that no module declares, and --because.",
        )


def _retire_table(  # noqa: PLR0913  # options of the command line
    name: str, because: str, lake: str | None, *, deletes: bool, undo: bool, as_json: bool
) -> None:
    refuse_without_reason(because)
    settings, where = screen.existing(lake, writes=True)
    found: dict[str, object] = {"table": name}
    if deletes:
        retiring.delete(name, where)
        words = "is deleted"
    elif undo:
        anew = taken_back(name, settings, where, note)
        how = (
            f"was recomputed ({anew.written:,} rows) and is fed again"
            if anew
            else "is fed again from where it ended"
        )
        words = f"{how}; a stream takes it in with `strandline restart`"
    else:
        found["retired"] = retired(name, where, because, note).words
        words = "is retired; it is read, and no longer fed"
    if as_json:
        emit({**found, "deleted": deletes, "undone": undo})
    else:
        say(f"{name} {words}")


def _retire_topic(  # noqa: PLR0913  # as above
    table: str,
    named: tuple[str, str | None, bool],
    because: str,
    lake: str | None,
    *,
    undo: bool,
    as_json: bool,
) -> None:
    topic, former, leave_unread = named
    refuse_without_reason(because)
    found, where = screen.existing(lake, writes=True)
    chosen = received(table, where)
    leave = Leave(because=because, former=former, leaves_unread=leave_unread, undo=undo)
    entry = topic_left(chosen, topic, leave, found, where, note)
    if as_json:
        emit(_figures(entry))
        return
    say(f"{table}: {topic} is {'read again from where it ended' if undo else 'retired'}")
    if entry.retired[topic].endswith(NOT_ASKED):
        note(f"what {topic} had beyond what was read is not known: {NOT_ASKED}")
    if not undo and topic in {each.name for each in chosen.topics}:
        note(f"take {topic} out of the `reads` of {table}; until then it is passed over")


def move(  # noqa: PLR0913, PLR0917  # as above
    table: TableArgument,
    because: BecauseOption = "",
    former: FromOption = None,
    since: Annotated[
        str | None,
        typer.Option(
            help="Begin with what arrived at this time; with the first record that the new cluster has when absent."
        ),
    ] = None,
    leave_unread: LeaveOption = False,
    undo: UndoOption = False,
    lake: LakeOption = None,
    as_json: JsonOption = False,
) -> None:
    r"""Move a bronze table to another Kafka cluster, where the offsets of its topics begin again.

    Set STRANDLINE_KAFKA to the new cluster, name the former one with --from. It is refused while the former one has records
    that were not read. The ledger then has both sides: up to which offset each partition was read there and where it ended,
    and where it begins here. In the lake, the partitions of the new cluster count from 1,000,000 on (those of a third one from
    2,000,000), so no two events have one place; topic and offset are those of Kafka. All tables above go on as they are.

    Where a mirror copied older records to the new cluster, --since leaves them out: give the time at which the producers
    changed over. What is read twice all the same is dropped by silver as copies, and counted. --undo takes a move back of
    which nothing was read yet. The streams of the table are stopped meanwhile (`strandline pause`).
    A topic that was made anew under its name on the same cluster is a move as well: --leave-unread, because what the former
    one had cannot be asked.

    \b
    STRANDLINE_KAFKA=new:9092 strandline move bronze.dhcp_events --from old:9092 --because "the old data centre closes"
    strandline move bronze.dhcp_events --undo --because "the new cluster is not ready"
    """
    refuse_without_reason(because)
    found, where = screen.existing(lake, writes=True)
    chosen = received(table, where)
    leave = Leave(because=because, former=former, leaves_unread=leave_unread, undo=undo)
    entry = moved(chosen, leave, since, found, where, note)
    if as_json:
        emit(_figures(entry))
        return
    for name, (at, _) in sorted(entry.moved.items()):
        say(f"{table}: {name} ends at offset {at}")
    for name, (_, at) in sorted(entry.offsets.items()):
        if name not in entry.moved and retiring.is_new(name, entry):
            say(f"{table}: {name} begins at offset {at}")
    for name in retiring.feeds_of(chosen, where):
        note(
            f"{name} reads the same topics live, and stops at the other cluster (infra/runbooks/lost.md)"
        )


def _figures(entry: Entry) -> dict[str, object]:
    return {
        "table": entry.table,
        "mode": entry.mode,
        "ends": {name: list(each) for name, each in entry.moved.items()},
        "offsets": {name: end for name, (_, end) in entry.offsets.items()},
        "lost": {name: list(each) for name, each in entry.lost.items()},
        "retired": dict(entry.retired),
        "accepted": entry.accepted,
    }


def _register_forget(app: typer.Typer) -> None:
    """Add the verbs."""
    _add_forget(app)
    _add_retire(app)
