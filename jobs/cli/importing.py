"""``import``: history from files becomes rows beside the stream."""

from dataclasses import dataclass
from typing import Annotated

import typer
from pyspark.sql import SparkSession

from jobs import catalog
from jobs.cli import engine, place
from jobs.cli.again import note_changed
from jobs.cli.place import JsonOption, LakeOption
from jobs.cli.screen import emit, note, say
from jobs.core.errors import DefinitionError
from jobs.core.table import Ingested, Table
from jobs.core.topic import Topic
from jobs.engine.pipeline.run_recorder import Wrote
from jobs.engine.repair.bring_imported import bring, judges_of, refuse_open_time
from jobs.engine.repair.import_files import SLICE, import_file
from jobs.engine.repair.plan_import import Plan, planned, unfinished_file
from jobs.engine.storage.history_file import HistoryFile, files_of, milliseconds_of
from jobs.engine.storage.import_marks import IMPORT
from jobs.engine.storage.lake import Lake
from jobs.engine.storage.ledger import Entry
from jobs.engine.storage.locks import lease
from jobs.engine.storage.place import Place


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
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only count, and name the range.")
    ] = False,
    lake: LakeOption = None,
    as_json: JsonOption = False,
) -> None:
    r"""Import history from files into a bronze table, and compute the tables above in its range again.

    The stream may run meanwhile. Each record becomes a row as received, with the partition -1 of its topic and a number
    as its offset; `strandline why` names its file and its row. What the rules refuse goes to the quarantine. A file is
    imported once: typed again, the rest of an interrupted one comes, and of the others nothing. Only a time that the
    streams have left is imported; the rest is refused before anything is written.

    \b
    strandline import bronze.dhcp_events history/ --dry-run
    strandline import bronze.dhcp_events history/october.parquet
    strandline import bronze.dhcp_events s3a://archive/dhcp/ --arrived-at-column received_at
    """
    found, where = place.existing(lake)
    chosen = catalog.find(table)
    if not isinstance(chosen, Ingested):
        raise DefinitionError(
            f"{table} is computed from other tables, so no file is a part of it",
            hint=f"name the bronze table at its begin: {', '.join(each.id for each in chosen.upstream)}.",
            table=table,
        )
    where.refuse_missing(chosen)
    work = _Work(
        table=chosen,
        topic=_topic(chosen, topic),
        lake=where,
        column=arrived_at_column or _event_time(chosen),
        header=header,
        slice_rows=slice_rows,
    )
    address = Place.of(source)
    if dry_run:
        _report(work.rehearsed(address), as_json=as_json)
        return
    note("starting Spark …")
    spark = engine.site(found, where, None, is_brief=True).spark
    try:
        done = work.done(spark, address)
    finally:
        spark.stop()
    _report(done, as_json=as_json)


@dataclass(slots=True)
class _Sum:
    """What was, or would be, imported."""

    files: int = 0
    rows: int = 0
    skipped_files: int = 0
    skipped_rows: int = 0
    brought: int = 0
    since: str | None = None
    until: str | None = None
    is_plan: bool = False

    def add(self, plan: Plan) -> None:
        """Count a file."""
        if not plan.left:
            self.skipped_files += 1
            self.skipped_rows += plan.note.rows
            return
        self.files += 1
        self.rows += plan.left
        self.skipped_rows += plan.done
        since, until = plan.span.since.isoformat(), plan.span.until.isoformat()
        self.since = min(self.since or since, since)
        self.until = max(self.until or until, until)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Work:
    table: Ingested
    topic: Topic
    lake: Lake
    column: str
    header: bool
    slice_rows: int

    def rehearsed(self, source: Place) -> _Sum:
        """Count what would come; nothing is written, and no Spark is started."""
        found = _Sum(is_plan=True)
        for each in files_of(source):
            plan = self.planned(each)
            if plan.left:
                refuse_open_time(self.table, self.lake, plan.span)
            found.add(plan)
        return found

    def done(self, spark: SparkSession, source: Place) -> _Sum:
        """Import what there is to import, an interrupted file first, and bring it to the tables above."""
        found = _Sum()
        with (
            engine.recorder(self.lake)(spark, self.table, IMPORT, self.lake) as wrote,
            lease(spark, self.table, self.lake, role=IMPORT),
        ):
            half = unfinished_file(self.table, self.lake)
            begun = Place.of(half.file) if half else None
            if half and begun:
                note(f"{half.file} was interrupted: the rest of it comes first")
                file = HistoryFile(place=begun, column=half.column, header=half.header)
                topic = next(each for each in self.table.topics if each.name == half.topic)
                self._import(spark, planned(self.table, topic, self.lake, file), found, wrote)
            for each in files_of(source):
                if each != begun:
                    self._import(spark, self.planned(each), found, wrote)
        for judge in judges_of(self.table, self.lake):
            with engine.recorder(self.lake)(spark, judge, IMPORT, self.lake) as wrote:

                def on_table(each: Table, entry: Entry | None) -> None:
                    if entry:
                        wrote(each, entry)
                    note_changed(each, entry)

                found.brought += bring(spark, judge, self.lake, on_table=on_table)
        return found

    def _import(self, spark: SparkSession, plan: Plan, found: _Sum, wrote: Wrote) -> None:
        found.add(plan)
        name, rows = plan.note.file, plan.note.rows
        if plan.copy_of:
            note(f"{plan.file.place}: has the bytes of {plan.copy_of}, which was imported before")
        elif not plan.left:
            note(f"{name}: its {rows:,} rows were imported before")
        else:
            refuse_open_time(self.table, self.lake, plan.span)
            at = plan.done
            for entry in import_file(
                spark, self.table, self.lake, plan, clock=place.now, slice_rows=self.slice_rows
            ):
                wrote(self.table, entry)
                at += entry.read
                note(f"{name}: {at:,} of {rows:,} rows are in {self.table.id}")

    def planned(self, file: Place) -> Plan:
        """Look what there is to import of a file."""
        note(f"reading {file} …")
        today = milliseconds_of(place.now())
        read = HistoryFile(place=file, column=self.column, header=self.header, until=today)
        return planned(self.table, self.topic, self.lake, read)


def _topic(table: Ingested, name: str | None) -> Topic:
    found = [each for each in table.topics if name is None or each.name == name]
    if len(found) != 1:
        raise DefinitionError(
            f"{table.id} reads {', '.join(each.name for each in table.topics)}, and the file has records of one of them",
            hint="name it with --topic.",
            table=table.id,
        )
    return found[0]


def _event_time(table: Ingested) -> str:
    """Return the event time that the table's judge declares, which is the arrival where no other is given."""
    names = {
        each.event_at
        for each in catalog.tables()
        if table in each.upstream and each.event_at is not None
    }
    if len(names) != 1:
        raise DefinitionError(
            f"the tables above {table.id} do not declare one event time",
            hint="name the field with the arrival: --arrived-at-column.",
            table=table.id,
        )
    return names.pop()


def _report(found: _Sum, *, as_json: bool) -> None:
    if as_json:
        emit(
            {
                "files": found.files,
                "rows": found.rows,
                "files_before": found.skipped_files,
                "rows_before": found.skipped_rows,
                "brought": found.brought,
                "since": found.since,
                "until": found.until,
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
