"""Import history from files: look at all of them, commit their records, and bring them to the tables above."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from pyspark.sql import SparkSession
from strandline import catalog

from strandline.core.errors import DefinitionError, LakeError
from strandline.core.table import Ingested, Table
from strandline.core.topic import Topic
from strandline.engine.accounting.table_books import close_or_reason
from strandline.engine.flow.lineage.run_recorder import Wrote
from strandline.engine.lake.files.place import Place
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.locks import lease
from strandline.engine.lake.log.ledger import IMPORT, Entry
from strandline.engine.lake.shelf.history_file import HistoryFile, files_of, milliseconds_of
from strandline.engine.lake.shelf.import_notes import (
    ImportNote,
    begun_import,
    note_begun,
    note_ended,
    unfinished_file,
)
from strandline.engine.repair.bring_imported import (
    before_streams,
    bring,
    comes_first,
    judges_of,
    not_followed,
    refuse_open_time,
)
from strandline.engine.repair.import_files import Plan, give_up, import_file, planned
from strandline.engine.runtime import clock
from strandline.operate import session
from strandline.operate.listener import Says
from strandline.operate.repairs.backfill import change, left_behind_by

NAMED = 5
"""Files that are left out and named; of more only the number is shown."""


def topic_of(table: Ingested, name: str | None) -> Topic:
    """Return the topic of a name; without a name the only one.

    Raises:
        DefinitionError: There is not exactly one.
    """
    found = [each for each in table.topics if name is None or each.name == name]
    if len(found) != 1:
        raise DefinitionError(
            f"{table.id} reads {', '.join(each.name for each in table.topics)}, and the file has records of one of them",
            hint="name it with --topic.",
            table=table.id,
        )
    return found[0]


def event_time(table: Ingested) -> str:
    """Return the event time that the table's judge declares, which is the arrival where no other is given.

    Raises:
        DefinitionError: There is not exactly one.
    """
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


@dataclass(slots=True)
class Imported:
    """What was, or would be, imported."""

    files: int = 0
    rows: int = 0
    skipped_files: int = 0
    skipped_rows: int = 0
    left_out: int = 0
    brought: int = 0
    since: str | None = None
    until: str | None = None
    is_plan: bool = False
    is_first: bool = False
    """Whether no stream above has read a row yet, so that they will begin with what was imported."""
    not_followed: dict[str, str] = field(default_factory=dict)
    """The tables above whose own retention has deleted older windows, and from when on they follow."""

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
class Work:
    """An import.

    Args:
        table: The bronze table.
        topic: Whose records the files have.
        lake: The lake.
        column: The field with the arrival.
        header: Whether the first line of a CSV names its cells.
        slice_rows: The most rows of a commit.
        gives_up: Whether the rest of an interrupted file is left out.
        says: Hears what is done.
    """

    table: Ingested
    topic: Topic
    lake: Lake
    column: str
    header: bool
    slice_rows: int
    gives_up: bool
    says: Says

    def rehearsed(self, source: Place) -> Imported:
        """Count what would come; nothing is written, and no Spark is started."""
        found = Imported(is_plan=True, is_first=comes_first(self.table, self.lake))
        for each in self._files(source, found):
            found.add(self._looked_at(each, found, keep=False))
        return found

    def done(self, spark: SparkSession, source: Place) -> Imported:
        """Import what there is to import, an interrupted file first, and bring it to the tables above.

        All files are looked at before the first is committed. What is committed is brought also when a later file fails.
        """
        found, failure = Imported(), None
        with (
            lease(spark, self.table, self.lake, role=IMPORT),
            before_streams(spark, self.table, self.lake) as found.is_first,
        ):
            try:
                with session.recorder(self.lake, self.says)(
                    spark, self.table, IMPORT, self.lake
                ) as wrote:
                    self._commit(spark, source, found, wrote)
            except LakeError as error:
                failure = error
        for judge in judges_of(self.table, self.lake):
            done: list[Entry | None] = []
            with session.recorder(self.lake, self.says)(spark, judge, IMPORT, self.lake) as wrote:

                def on_table(
                    each: Table, entry: Entry | None, done: list[Entry | None] = done
                ) -> None:
                    done.append(entry)
                    if entry:
                        wrote(each, entry)
                        close_or_reason(each, self.lake)
                    self.says(change(each, entry))

                found.brought += bring(spark, judge, self.lake, on_table=on_table)
            if words := left_behind_by(judge, self.lake, done):
                self.says(words)
        if failure is not None:
            raise failure
        return found

    def _commit(self, spark: SparkSession, source: Place, found: Imported, wrote: Wrote) -> None:
        half = unfinished_file(self.table, self.lake)
        begun = Place.of(half.file) if half else None
        if self.gives_up:
            was = begun_import(self.table, self.lake)
            self._give_up(half, was)
            if begun == source or (was == str(source) and not source.exists()):
                return
            half = None
        rest = self._rest(half, found) if half else None
        for each in self._files(source, found):
            if each != begun or half is None:
                self._looked_at(each, found, keep=True)
        if found.is_first:
            note_begun(self.table, self.lake, source)
        if rest is not None:
            self._import(spark, rest, found, wrote)
        for each in files_of(source):
            if each != begun or half is None:
                self._import(spark, self._planned(each, keep=True), found, wrote)
        note_ended(self.table, self.lake, source)

    def _give_up(self, half: ImportNote | None, begun: str | None) -> None:
        """Leave the rest of an interrupted file, or of a folder, out.

        Raises:
            DefinitionError: None was interrupted.
        """
        if half is None and begun is None:
            raise DefinitionError(
                f"no import to {self.table.id} was interrupted, so there is nothing to give up",
                hint="type it without --give-up.",
                table=self.table.id,
            )
        if half is not None:
            kept = give_up(self.table, self.lake, half)
            self.says(
                f"{kept.file}: {kept.rows:,} rows stay; the other {kept.given_up:,} do not come"
            )
        note_ended(self.table, self.lake)

    def _rest(self, half: ImportNote, found: Imported) -> Plan:
        """Look what is left of an interrupted file."""
        self.says(f"{half.file} was interrupted: the rest of it comes first")
        file = HistoryFile(
            place=Place.of(half.file), column=half.column, header=half.header, until=half.until
        )
        topic = topic_of(self.table, half.topic)
        plan = planned(self.table, topic, self.lake, file)
        self._refuse_open_time(plan, found)
        return plan

    def _files(self, source: Place, found: Imported) -> Iterator[Place]:
        """Yield the files, and name those that are left out because of their names."""

        def leave_out(other: Place) -> None:
            found.left_out += 1
            if found.left_out <= NAMED:
                self.says(f"{other}: left out, because its name names no format")

        yield from files_of(source, leave_out)
        if found.left_out > NAMED:
            self.says(f"… and {found.left_out - NAMED:,} more files are left out")

    def _looked_at(self, file: Place, found: Imported, *, keep: bool) -> Plan:
        self.says(f"reading {file} …")
        plan = self._planned(file, keep=keep)
        if plan.left:
            self._refuse_open_time(plan, found)
            for other, at in not_followed(self.table, self.lake, plan.span):
                found.not_followed[other.id] = at.isoformat()
        return plan

    def _refuse_open_time(self, plan: Plan, found: Imported) -> None:
        """Refuse a time that a stream owns; where none has read a row, none owns any."""
        if not found.is_first:
            refuse_open_time(self.table, self.lake, plan.span)

    def _planned(self, file: Place, *, keep: bool) -> Plan:
        today = milliseconds_of(clock.now())
        read = HistoryFile(place=file, column=self.column, header=self.header, until=today)
        return planned(self.table, self.topic, self.lake, read, keep=keep)

    def _import(self, spark: SparkSession, plan: Plan, found: Imported, wrote: Wrote) -> None:
        found.add(plan)
        name, rows = plan.note.file, plan.note.rows
        if plan.copy_of:
            self.says(
                f"{plan.file.place}: has the bytes of {plan.copy_of}, which was imported before"
            )
        elif not plan.left:
            more = f"; {plan.note.given_up:,} more were given up" if plan.note.given_up else ""
            self.says(f"{name}: its {rows:,} rows were imported before{more}")
        else:
            self._refuse_open_time(plan, found)
            at = plan.done
            for entry in import_file(
                spark,
                self.table,
                self.lake,
                plan,
                clock=clock.now,
                slice_rows=self.slice_rows,
                is_first=found.is_first,
            ):
                wrote(self.table, entry)
                close_or_reason(self.table, self.lake)  # a long import would add up its own entries
                at += entry.read
                self.says(f"{name}: {at:,} of {rows:,} rows are in {self.table.id}")
