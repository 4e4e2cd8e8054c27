"""The past is computed beside the stream: a closed range, a whole table that is swapped in, history from files."""

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field

from pyspark.sql import SparkSession
from strandline import catalog

from strandline.core.errors import DamagedError, DefinitionError, LakeError, TransientError
from strandline.core.table import Ingested, Table
from strandline.core.topic import Topic
from strandline.engine.accounting.batch_check import Guard
from strandline.engine.accounting.gate_files import Where
from strandline.engine.accounting.held_records import Signed
from strandline.engine.accounting.table_books import close_or_reason
from strandline.engine.ask.find_moment import FOLLOWED
from strandline.engine.ask.locate import Spot
from strandline.engine.flow import shadow_lake
from strandline.engine.flow.runner import Site
from strandline.engine.flow.running import Parent, Wrote, with_threads
from strandline.engine.lake.completeness import refuse_expired
from strandline.engine.lake.import_notes import (
    ImportNote,
    ToFollow,
    begun_import,
    note_begun,
    note_ended,
    note_followed,
    note_to_follow,
    unfinished_file,
)
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.locks import WriterWatch, handed_over, lease
from strandline.engine.lake.log.ledger import IMPORT, Entry, latest_version
from strandline.engine.lake.open_table import broken_files
from strandline.engine.lake.place import Place, damage
from strandline.engine.lake.plain_files import HistoryFile, files_of, milliseconds_of
from strandline.engine.lake.store_lease import HeldError, hold
from strandline.engine.proof.compare import Comparison, compare
from strandline.engine.repair import closed_range, rebuild
from strandline.engine.repair.backfill import MODE, backfill
from strandline.engine.repair.bring_imported import (
    before_streams,
    bring,
    comes_first,
    judges_of,
    not_followed,
    refuse_open_time,
)
from strandline.engine.repair.closed_range import From, Rewind, Span, refuse_open
from strandline.engine.repair.downstream import (
    backfill_above,
    led,
    left_behind,
    refuse_behind_above,
    refuse_open_above,
)
from strandline.engine.repair.import_files import Plan, give_up, import_file, planned
from strandline.engine.runtime import clock
from strandline.engine.runtime.processes import own
from strandline.engine.runtime.settings import Settings
from strandline.engine.service.set_aside import SetAside, mend
from strandline.operate import lakes, session
from strandline.operate.audit import refuse_unbelieved
from strandline.operate.listener import Says


def backfilled(  # noqa: PLR0913  # what, where, which range, and the run that it is a part of
    spark: SparkSession,
    table: Table,
    lake: Lake,
    span: Span,
    *,
    downstream: bool,
    says: Says,
    parent: Parent | None = None,
) -> Iterator[tuple[Table, Entry | None]]:
    """Recompute a range of a table, then on request the tables above, and audit each as `strandline check` does."""
    recorded = session.recorder(lake, says, parent=parent)(spark, table, MODE, lake)
    with _followed(table, lake, span) if downstream else nullcontext(), recorded as wrote:
        own = guarded(spark, table, lake, span)
        wrote(table, own)
        yield table, own
        refuse_unbelieved(spark, table, lake, span, says)
        for each, entry in backfill_above(spark, table, lake, span) if downstream else ():
            note_followed(lake, table.id, span.in_text(), each.id)
            if entry:
                wrote(each, entry)
            yield each, entry
            if entry:
                refuse_unbelieved(spark, each, lake, span, says)


@contextmanager
def _followed(table: Table, lake: Lake, span: Span) -> Iterator[None]:
    """Let a table and those above it be in no moment until the last of them has followed.

    Where it ends before that, those that have not followed are written down. The same again, or a repair of theirs, is what ends it.

    Raises:
        TransientError: Another process computes them again.
    """
    with ExitStack() as held:
        try:
            held.enter_context(hold(lake.lease(table, FOLLOWED), json.dumps(own()), waits=False))
        except HeldError as error:
            raise TransientError(
                f"{table.id} and the tables above it are being computed again already: {error.note}",
                hint="type the same again when that has ended.",
                table=table.id,
            ) from error
        since, until = span.in_text()
        left = {each.id: latest_version(lake.table(each)) for each in led(table, lake)}
        after = latest_version(lake.table(table))
        note_to_follow(
            lake, ToFollow(table=table.id, since=since, until=until, after=after, left=left)
        )
        try:
            yield
        except BaseException:
            if latest_version(lake.table(table)) == after:  # nothing is to be followed
                note_followed(lake, table.id, span.in_text())
            raise
        note_followed(lake, table.id, span.in_text())


def guarded(spark: SparkSession, table: Table, lake: Lake, span: Span) -> Entry:
    """Recompute a range of a table behind its gate, signed by the user."""
    guard = Guard(table, lake, clock.now, Where.RANGE)
    signed = Signed(who=clock.login(), at=clock.now())
    return backfill(spark, table, lake, span, signed, guard=guard)


def change(table: Table, entry: Entry | None) -> str:
    """Return in words how many rows came and went."""
    if entry is None:
        return f"{table.id}: nothing to do, or its own stream does it"
    return f"{table.id}: {entry.came:,} rows came, {entry.gone:,} went"


def left_behind_by(table: Table, lake: Lake, done: Iterable[Entry | None]) -> str:
    """Return the sentence that names the retired tables which have the old rows; empty if no rows came or went."""
    changed = any(each and (each.came or each.gone) for each in done)
    return left_behind_words(table, lake) if changed else ""


def left_behind_words(table: Table, lake: Lake) -> str:
    """Return the sentence that names the retired tables which keep the old rows when those of a table change; empty without any."""
    names = ", ".join(each.id for each in left_behind(table, lake))
    words = f"retired, and computed from the old rows: {names}; `--undo` cannot go on from where they ended, a rebuild feeds them"
    return words if names else ""


# Which days are recomputed from bronze, because of what arrived from a moment or an offset on.


def rewound_to(text: str) -> From:
    """Parse where to begin.

    Raises:
        DefinitionError: It is neither a moment nor an offset.
    """
    part, is_offset, offset = text.rpartition(":")
    topic, _, partition = part.rpartition("/")
    if is_offset and topic and partition.isdigit() and offset.isdigit():
        return Spot(topic, int(partition), int(offset))
    try:
        return closed_range.moment(text, "--to")
    except DefinitionError as error:
        raise DefinitionError(
            f"{text!r} is neither a moment nor an offset",
            hint="write 2026-11-01T06:00, or topic/partition:offset.",
        ) from error


def rewindable(table: Table, lake: Lake, plan: Rewind) -> Span:
    """Return the days that can be recomputed, of the table and of the tables above.

    Raises:
        DefinitionError: There are none, or a stream above still owns one.
    """
    if plan.span is None:
        raise DefinitionError(
            f"nothing of {table.id} can be recomputed yet: the stream still owns the days of {plan.records:,} records",
            hint="it will emit them itself, with today's code if it was restarted (`strandline restart`).",
            table=table.id,
        )
    refuse_open(table, lake, plan.span)
    refuse_expired(table, lake, plan.span.since)
    refuse_open_above(table, lake, plan.span)
    refuse_behind_above(table, lake)
    return plan.span


def rewind_lines(plan: Rewind) -> list[str]:
    """Describe a plan in sentences."""
    if plan.since is None or plan.until is None:
        return [f"{plan.records:,} records arrived from there on, and no good row comes from them"]
    touched = f"{plan.since.isoformat()} to {plan.until.isoformat()}"
    arrived = f"{plan.records:,} records arrived from there on; their rows of {plan.table} are of {touched}"
    if plan.span is None:
        return [arrived, "the stream still owns all of that"]
    calendar = catalog.find(plan.table).calendar
    first, end = (calendar.date_of(each) for each in (plan.span.since, plan.span.until))
    days = f"{first} to before {end}"
    return [arrived, f"recomputed from bronze: {days}; the stream still owns later days"]


# A table computed beside the live one and swapped in, and torn commits taken out of a log.
#
# A table computed with today's code beside the live one, swapped in, and that reverted.


def rebuildable(name: str, lake: Lake) -> Table:
    """Return the table of a name that can be computed anew.

    Raises:
        DefinitionError: It is a bronze table, does not exist, or keeps what no code brings back.
    """
    table = lakes.derived(name, lake)
    rebuild.refuse_unfit(table, lake)
    return table


def rebuilt(
    table: Table, found: Settings, lake: Lake, says: Says, on_commit: Callable[[Entry], None]
) -> list[Comparison]:
    """Compute a table with today's code beside the live one, and return how the two differ."""
    with shadow_lake.alone(table, lake):
        says("starting Spark …")
        site = session.site(found, lake, None, says=says, beside=True)
        made = rebuild.rebuild(table, lake, site, on_commit=on_commit)
        with site.apart(table.id) as also, with_threads(also):
            differ = compared(table, lake, made, says)
        site.spark.stop()
        return differ


def promoted(
    table: Table, found: Settings, lake: Lake, says: Says, on_commit: Callable[[Entry], None]
) -> Entry:
    """Replace the live table by the rebuilt one.

    Raises:
        DefinitionError: There is none.
    """
    rebuild.refuse_without_shadow(table, lake)

    def act(site: Site) -> Entry:
        return rebuild.promote(table, lake, site, on_commit=on_commit)

    return _exchanged("promote", table, found, lake, says, act)


def undone(table: Table, found: Settings, lake: Lake, says: Says) -> Entry:
    """Revert the last promotion.

    Raises:
        DefinitionError: There is none.
    """
    rebuild.refuse_without_promotion(table, lake)

    def act(site: Site) -> Entry:
        return rebuild.undo(site.spark, table, lake)

    return _exchanged("undo", table, found, lake, says, act)


def _exchanged(  # noqa: PLR0913, PLR0917  # what is done to which table, where, and who hears of it
    verb: str,
    table: Table,
    found: Settings,
    lake: Lake,
    says: Says,
    act: Callable[[Site], Entry],
) -> Entry:
    """Exchange the rows of a table, which its stream hands over meanwhile."""
    with shadow_lake.alone(table, lake):
        says("starting Spark …")
        site = session.site(found, lake, None, is_brief=True, says=says, beside=True)
        with (
            handed_over(table, lake, clock.now, verb, note=says),
            site.record(site.spark, table, verb, lake) as wrote,
            site.apart(table.id),
        ):
            entry = act(site)
            wrote(table, entry)
        site.spark.stop()
    return entry


def is_final(table: Table, lake: Lake) -> bool:
    """Return whether a promotion cannot be undone, because the checkpoint of before could not be read and was removed."""
    known = shadow_lake.read(shadow_lake.Shadow.of(table, lake))
    return known is not None and known.undone


def stale_above(table: Table, lake: Lake) -> list[str]:
    """Return the tables above that were computed from the old rows, in the order in which they are rebuilt."""
    return [each.id for each in led(table, lake)]


def compared(table: Table, lake: Lake, made: Lake, says: Says) -> list[Comparison]:
    """Compare a table with its rebuild; one that is rebuilt because it cannot be read is not compared."""
    try:
        return compare(
            table, lake, made, sides=("in the live table", "in the new one"), may_differ=True
        )
    except Exception as error:
        why = damage(error, table)
        reason = "" if why is None else why.message
        try:
            broken = {each for path in lake.folders(table) for each in broken_files(path)}
        except DamagedError as other:
            reason = other.message
        else:
            reason = f"{len(broken)} of its files are gone or cut" if broken else reason
        if not reason:
            raise
        says(f"the live table cannot be read ({reason}), so the two were not compared")
        return []


# Torn commits are taken out of a table's log, and what is to be computed again is named.


@contextmanager
def mending(table: Table, where: Lake, says: Says) -> Iterator[Iterator[SetAside]]:
    """Yield the torn commits of a table, each when it is taken out; a running stream hands the table over meanwhile."""
    where.refuse_missing(table)
    where.open_for_writing()
    with handed_over(table, where, clock.now, "mend", note=says) as writer:
        yield _taken_out(table, where, writer)


def _taken_out(table: Table, where: Lake, writer: WriterWatch) -> Iterator[SetAside]:
    """Take them out, one by one.

    Raises:
        LakeError: One could not be; the hint says as well what those before cost.
    """
    done: list[SetAside] = []
    try:
        for each in mend(table, where, clock.now(), writer):
            done.append(each)
            yield each
    except LakeError as error:
        error.hint = " ".join([error.hint, *_remedies(table, where, done)])
        raise


def sentence(each: SetAside) -> str:
    """Return in words what became of a torn commit."""
    what = f"{each.table}: version {each.version} was torn; the file is kept as {each.kept}"
    if each.taken_by:
        return f"{what}. An empty one is in its place, because {each.taken_by}"
    return f"{what}. Nothing had taken it for written: its batch is written again by itself"


def refuse_lost(table: Table, where: Lake, done: list[SetAside]) -> None:
    """Refuse to call a table whole that lacks rows.

    Raises:
        DamagedError: It does; this says what brings them back.
    """
    lost = [each for each in done if each.taken_by]
    if not lost:
        return
    rows = [each for each in lost if not each.decides]
    lacks = [
        *([f"the rows of version {_versions(rows)}"] if rows else []),
        *(["decisions about held rows"] if len(rows) < len(lost) else []),
    ]
    raise DamagedError(
        f"{table.id} lacks {' and '.join(lacks)} now",
        hint=" ".join(_remedies(table, where, lost)),
        table=table.id,
        versions=[each.version for each in lost],
        above=[each.id for each in led(table, where)] if rows else [],
    )


def _remedies(table: Table, where: Lake, done: list[SetAside]) -> Iterator[str]:
    """Yield what brings back what was lost so far."""
    lost = [each for each in done if each.taken_by]
    if any(not each.decides for each in lost):
        yield f"`strandline rebuild {table.id}`, then `strandline promote {table.id}`, bring the rows back."
        # One that is recomputed notices the promotion, and cannot be rebuilt.
        if stale := [each.id for each in led(table, where)]:
            yield (
                f"Then the same with the tables above, in this order: {', '.join(stale)}; they have read the rows, or never "
                "will."
            )
        if words := left_behind_words(table, where):
            yield f"{words.capitalize()}."
    if any(each.decides for each in lost):
        yield "Type the discard or the replay again: no rebuild brings a decision back."


def _versions(lost: list[SetAside]) -> str:
    return ", ".join(str(each.version) for each in lost)


# Import history from files: look at all of them, commit their records, and bring them to the tables above.


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
