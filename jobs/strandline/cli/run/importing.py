"""``import``: history from files becomes rows beside the stream."""

from typing import Annotated

import typer
from strandline import catalog

from strandline.cli.place import JsonOption, LakeOption
from strandline.cli.screen import emit, note, say
from strandline.core.errors import DefinitionError
from strandline.core.table import Ingested
from strandline.engine.lake.files.place import Place
from strandline.engine.lake.retired import refuse_retired
from strandline.engine.repair.import_files import SLICE
from strandline.operate import lakes, session
from strandline.operate.repairs.import_history import Imported, Work, event_time, topic_of


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("import")(import_)


def import_(  # noqa: PLR0913, PLR0917  # each is an option of the command line
    table: Annotated[str, typer.Argument(metavar="TABLE", help="A bronze table.")],
    source: Annotated[
        str,
        typer.Argument(
            metavar="FROM",
            help="A file, or a folder with files: JSON lines, CSV (each also .gz) or Parquet; s3a://… too.",
        ),
    ],
    arrived_at_column: Annotated[
        str | None,
        typer.Option(
            metavar="FIELD",
            help="The field with the moment at which an event arrived; by default that of the event itself.",
        ),
    ] = None,
    topic: Annotated[
        str | None,
        typer.Option(
            metavar="TOPIC", help="Whose records they are, where the table reads several."
        ),
    ] = None,
    header: Annotated[
        bool, typer.Option("--header", help="The first line of a CSV names its cells.")
    ] = False,
    slice_rows: Annotated[
        int, typer.Option("--slice", min=1, metavar="ROWS", help="The most rows of a commit.")
    ] = SLICE,
    give_up: Annotated[
        bool,
        typer.Option(
            "--give-up",
            help="Leave out the rest of an interrupted file that is gone or changed; what is committed stays.",
        ),
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only count, and name the range.")
    ] = False,
    lake: LakeOption = None,
    as_json: JsonOption = False,
) -> None:
    r"""Import history from files into a bronze table, and compute the tables above in its range again.

    The stream may run meanwhile. Each record becomes a row as received, with the partition -1 of its topic and a number
    as its offset; `strandline why` names its file and its row. What the rules refuse goes to the quarantine. A file is
    imported once: typed again, the rest of an interrupted one comes, and of the others nothing. All files are looked at
    before the first row is written: one that cannot be read, or has a time that a stream still owns, is refused. Where no
    stream has read a row yet, nothing need be there before: the streams begin with the history at the next run.

    \b
    strandline import bronze.dhcp_events history/ --dry-run
    strandline import bronze.dhcp_events history/october.parquet
    strandline import bronze.dhcp_events s3a://archive/dhcp/ --arrived-at-column received_at
    """
    found, where = lakes.configured(lake)
    where.refuse_restoring()
    chosen = catalog.find(table)
    if not isinstance(chosen, Ingested):
        raise DefinitionError(
            f"{table} is computed from other tables, so no file is a part of it",
            hint=f"name the bronze table at its begin: {', '.join(each.id for each in chosen.upstream)}.",
            table=table,
        )
    refuse_retired(chosen, where)
    work = Work(
        table=chosen,
        topic=topic_of(chosen, topic),
        lake=where,
        column=arrived_at_column or event_time(chosen),
        header=header,
        slice_rows=slice_rows,
        gives_up=give_up,
        says=note,
    )
    address = Place.of(source)
    readers = [each.id for each in catalog.tables() if chosen in each.upstream]
    if dry_run:
        _report(work.rehearsed(address), readers, as_json=as_json)
        return
    where.open_for_writing()
    note("starting Spark …")
    spark = session.site(found, where, None, is_brief=True, says=note).spark
    try:
        done = work.done(spark, address)
    finally:
        spark.stop()
    _report(done, readers, as_json=as_json)


def _report(found: Imported, readers: list[str], *, as_json: bool) -> None:
    if as_json:
        emit(
            {
                "files": found.files,
                "rows": found.rows,
                "files_before": found.skipped_files,
                "rows_before": found.skipped_rows,
                "left_out": found.left_out,
                "brought": found.brought,
                "since": found.since,
                "until": found.until,
                "not_followed": found.not_followed,
                "before_streams": found.is_first,
                "dry_run": found.is_plan,
            }
        )
        return
    before = f"; {found.skipped_rows:,} rows of {found.skipped_files:,} files were imported before"
    reach = f", arrived from {found.since} to {found.until}" if found.since else ""
    if found.is_plan:
        say(f"{found.rows:,} rows of {found.files:,} files would come{reach}{before}")
        note("nothing was written; the same without --dry-run does it")
    elif found.rows or found.brought:
        say(f"imported {found.rows:,} rows of {found.files:,} files{reach}{before}")
    else:
        say(
            f"nothing new: {found.skipped_rows:,} rows of {found.skipped_files:,} files were imported before"
        )
    if found.is_first and not found.is_plan:
        say(
            "no stream above has read a row yet, so all of them begin with what was imported: "
            f"`strandline run {' '.join(readers)}`, then the tables above"
        )
    for name, at in found.not_followed.items():
        say(f"{name} keeps its rows from {at} on: older ones do not come to it")
