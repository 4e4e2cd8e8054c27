"""``forget`` and ``expire``: rows are deleted, because a condition means them or because they are old.

``forget``: delete the rows that a condition means, in all layers, and prove that nothing is left.
"""

from dataclasses import asdict
from typing import Annotated

import typer

from strandline.cli import place
from strandline.cli.place import JsonOption, LakeOption, TablesArgument
from strandline.cli.screen import emit, note, say, show
from strandline.core.errors import DefinitionError
from strandline.engine.lake.forgotten import requests, search
from strandline.engine.lake.lake import Lake
from strandline.engine.repair.expire import Expired, declares, expire, overdue
from strandline.engine.repair.forget import Part
from strandline.engine.repair.forget_request import Request
from strandline.engine.runtime import clock
from strandline.engine.runtime.settings import Settings
from strandline.operate import lakes, session
from strandline.operate.repairs.forget import forgotten, refuse_waiting, scrubbed

FOUND = (
    "table",
    "rows",
    "of them for a text, not the condition",
    "what happens to them",
    "records that only mention it",
    "waits for",
)
DONE = ("table", "rows", "what was done")
REQUESTS = ("request", "begun", "done", "history scrubbed")
SCRUBBED = ("table", "up to version", "files deleted", "commits rewritten")
HITS = ("file", "where", "what it is")


def register(app: typer.Typer) -> None:
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
    found, place_of_lake = place.existing(lake, writes=go)
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


COLUMNS = ("table", "older than", "rows", "files", "files rewritten", "waits for")


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
    found, where = place.existing(lake, writes=go)
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
    show(None, COLUMNS, [_expire_row(each) for each in shown])
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
