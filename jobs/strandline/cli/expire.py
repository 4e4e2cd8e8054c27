"""``expire``: show and delete the rows that are older than their tables keep them."""

from dataclasses import asdict
from typing import Annotated

import typer

from strandline.cli import place
from strandline.cli.place import JsonOption, LakeOption, TablesArgument
from strandline.cli.screen import emit, note, say, show
from strandline.engine.repair.expire import Expired, declares, expire, overdue
from strandline.engine.runtime import clock
from strandline.operate import lakes, session

COLUMNS = ("table", "older than", "rows", "files", "files rewritten", "waits for")


def register(app: typer.Typer) -> None:
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
    show(None, COLUMNS, [_row(each) for each in shown])
    if not go and any(each.is_due for each in shown):
        note("nothing was deleted; the same with --go does it")


def _row(each: Expired) -> tuple[object, ...]:
    return (
        each.table,
        each.until,
        each.rows,
        each.files,
        each.rewritten,
        ", ".join(each.waits_for) or None,
    )
