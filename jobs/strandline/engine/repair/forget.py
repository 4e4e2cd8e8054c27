"""Carry out a request to forget: rows of all layers go, each table's ledger counts them, and no other row changes.

The order makes it safe to kill at any moment: quarantine and silver first, then the tables above, bronze last. While bronze
has a record that is meant, the same request finds it and does all of it again; a request that finds nothing changes nothing.

Rows above silver are computed again from what is left, so sums over several devices no longer contain the forgotten one, and
a verification finds the same rows. What cannot be computed again (retention took the rows below, or a stream still updates
the row) is deleted where the condition holds for it; the state of that stream may hold it until it is rebuilt.

A range that a stream above still owns waits as a whole: the stream would emit the rows again from its state. Below a table of
whole days that is 25 hours; a request that may not wait has the tables whose streams own it computed anew, without their
state, and promoted beside the streams (``compute_anew`` in jobs/strandline/engine/repair/rebuild.py).

A retired table is forgotten from as well, and holds up no other: nothing waits for its stream. A table that no module declares
cannot be understood, so a request is refused until it is declared again or deleted.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from strandline import catalog

from strandline.core.routes import schemas_from
from strandline.core.table import Derived, Ingested, Judged, Recomputed, Table
from strandline.core.topic import ITEM, PLACE
from strandline.core.verdict import computed, judged
from strandline.engine.accounting.gate_files import refuse_behind
from strandline.engine.accounting.held_records import record_of, released_among
from strandline.engine.accounting.routes import refuse_undeclared
from strandline.engine.flow import new_entry
from strandline.engine.flow.batch.event_joins import joining
from strandline.engine.flow.new_entry import with_kinds_gone
from strandline.engine.flow.runner import Site
from strandline.engine.lake import completeness
from strandline.engine.lake.commit.delta_commit import by_key, rows_at, rows_now
from strandline.engine.lake.commit.replace_rows import (
    NO_TIME,
    Files,
    Reach,
    Removal,
    reach_of,
    remove_rows,
)
from strandline.engine.lake.completeness import known_reach, let_go, retired
from strandline.engine.lake.forgotten import Forgotten, keep, requests
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.locks import lease
from strandline.engine.lake.log.ledger import is_table, last_entry, latest_version
from strandline.engine.lake.log.ledger_sums import name_of, place_of
from strandline.engine.lake.place import Place
from strandline.engine.lake.shelves import Shelf
from strandline.engine.lake.static_versions import refuse_untaken
from strandline.engine.repair.backfill import ROLE
from strandline.engine.repair.closed_range import Span, unread_files
from strandline.engine.repair.downstream import (
    above,
    backfill_one,
    closed_above,
    follow,
    follows,
    led,
    repairable_until,
    retired_above,
)
from strandline.engine.repair.expire import refuse_unfit
from strandline.engine.repair.forget_request import Condition, Request, as_received, understood
from strandline.engine.repair.rebuild import compute_anew, refuse_lossy
from strandline.engine.runtime.code_files import is_code_of

MOST = 10_000
"""How many files one commit writes again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Doomed:
    """Rows to delete.

    Args:
        path: The Delta table.
        at: The column with the time of a row.
        rows: Their keys.
        changed: The range of event time in which the table changes, for tables above that compute it again.
        released: In a quarantine, how many of the records had been released before.
    """

    path: Place
    at: str
    rows: DataFrame
    changed: Reach = NO_TIME
    released: int = 0


def delete(spark: SparkSession, table: Table, lake: Lake, request: Request, doomed: Doomed) -> int:
    """Delete rows, and return how many they were.

    Delete the rows of a table that a request to forget means, each commit with the request's hash and the number of rows.
    """
    path, key = doomed.path, doomed.rows.columns
    total = 0
    picked = Files()

    def located() -> DataFrame:
        rows = rows_at(spark, path, latest_version(path))
        named = rows.withColumn("_file", F.col("_metadata.file_name"))
        return by_key(named, doomed.rows, key, "left_semi")

    def pick() -> Files:
        nonlocal picked
        files = located().select("_file").distinct().limit(MOST).collect()
        picked = Files(partly=tuple(row[0] for row in files))
        return picked

    def entry(gone: int) -> str:
        released = doomed.released if not total else 0
        made = new_entry.forgotten(
            table, request.mark(path), rows=gone, released=released, changed=doomed.changed
        )
        goes = located().where(F.col("_file").isin([*picked.partly]))
        return with_kinds_gone(made, goes, table, lake).encoded()

    removal = Removal(
        at=doomed.at,
        pick=pick,
        stays=lambda rows: by_key(rows, doomed.rows, key, "left_anti"),
        entry=entry,
    )
    with lease(spark, table, lake, role=ROLE):
        while (done := remove_rows(spark, path, removal)) is not None:
            total += done[1]
    return total


OF_RETIRED = "retired: computed again as far as its stream has left it, otherwise deleted"
SWEPT = "deleted where they could not be computed again; the state of the stream may hold them until it is rebuilt"


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """What a request finds in one table or quarantine.

    Args:
        table: Its name.
        rows: The rows that go.
        how: How they go, in words.
        by_text: How many of them go because their bytes hold a text, not because the condition holds for them.
        mentions: Records of others that mention a text of the request; they stay.
        waits: Why they cannot go yet; empty when they can.
    """

    table: str
    rows: int
    how: str
    by_text: int = 0
    mentions: int = 0
    waits: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """The rows of a table that go, and those of them that go for a text alone; and records that only mention one."""

    bronze: tuple[int, int] = (0, 0)
    silver: tuple[int, int] = (0, 0)
    held: tuple[int, int] = (0, 0)
    mentions: int = 0

    @property
    def are_any(self) -> bool:
        """Return whether any row goes."""
        return any(rows for rows, _ in (self.bronze, self.silver, self.held))


@dataclass(slots=True, kw_only=True)
class Branch:
    """A judged table, what a request means in it, and in the bronze below it.

    Args:
        table: The judged table.
        places: The places of the records of bronze that are meant.
        held: The places of the records of its quarantine.
        span: The range of event time of the rows that go; None when none goes.
        counts: The rows that go.
        waits: Why it cannot be done yet.
    """

    table: Judged
    places: DataFrame
    held: DataFrame | None
    span: Span | None
    counts: Counts
    waits: str = ""
    cached: list[DataFrame] = field(default_factory=list)

    @property
    def bronze(self) -> Ingested:
        """Return the table of bronze that it judges."""
        return self.table.reads[0]


class Forgetting:
    """A request in a lake."""

    def __init__(
        self, spark: SparkSession, lake: Lake, request: Request, site: Site | None = None
    ) -> None:
        """Look for what is meant; nothing is changed.

        Args:
            spark: The session.
            lake: The lake.
            request: The request.
            site: With what tables are computed anew; without it, open time waits.

        Raises:
            DefinitionError: No table understands the condition, or something is half done in a table, or the lake has a table
            that no module declares.
        """
        self._spark, self._lake, self._request, self._site = spark, lake, request, site
        refuse_undeclared(lake)
        self.tables = [table for table in catalog.tables() if lake.exists(table)]
        self._retired = retired(lake)
        for table in self.tables:
            refuse_unfit(table, lake)
            refuse_untaken(table, lake)
        judging = [table for table in self.tables if isinstance(table, Judged)]
        self.condition = Condition.of(spark, request.where)
        with schemas_from(Shelf(lake.schemas)), understood(request.where):
            self.condition.refuse_unknown([*self._understanding()])
            self.branches = list(map(self._found_in, judging))

    def parts(self) -> Iterator[Part]:
        """Yield what it finds, table by table."""
        for each in self.branches:
            found = (
                (each.bronze.id, each.counts.bronze, each.counts.mentions),
                (each.table.id, each.counts.silver, 0),
                (f"quarantine.{each.table.name}", each.counts.held, 0),
            )
            for name, (count, by_text), mentions in found:
                yield Part(
                    table=name,
                    rows=count,
                    how="deleted",
                    by_text=by_text,
                    mentions=mentions,
                    waits=each.waits,
                )
        for table in self._derived():
            rows = rows_now(self._spark, table, self._lake)
            with understood(self._request.where):
                count = (
                    rows.where(self.condition.holds()).count() if self.condition.fits(rows) else 0
                )
            yield Part(
                table=table.id,
                rows=count,
                how=OF_RETIRED
                if table.id in self._retired
                else "computed again from the rows that stay",
            )

    def concerned(self) -> list[Place]:
        """Return the folders of all tables whose history may hold what is meant."""
        tables: dict[str, Table] = {each.id: each for each in self._derived()}
        for branch in self._found():
            for table in (branch.bronze, branch.table, *self._above(branch.table)):
                tables[table.id] = table
        return [
            path for table in tables.values() for path in self._lake.books(table) if is_table(path)
        ]

    def carry_out(self, mark: str = "") -> Iterator[Part]:
        """Delete what is meant and does not wait, and yield what went from each table; ``mark`` names the request's record."""
        ready = [branch for branch in self._found() if not branch.waits]
        for branch in ready:
            yield self._part(f"quarantine.{branch.table.name}", self._from_quarantine(branch))
            yield self._part(branch.table.id, self._from_silver(branch))
        for branch in ready:
            if branch.span is not None:
                yield from self._follow(branch.table, branch.span, mark)
        if not any(branch.waits for branch in self._found()):
            yield from self._sweep()
        if ready:
            self._let_go()
        for branch in ready:
            yield self._part(branch.bronze.id, self._from_bronze(branch))
        completeness.forget(self._lake)

    def _follow(self, table: Judged, span: Span, mark: str) -> Iterator[Part]:
        """Let the tables above a judged one follow, each after those that it reads."""
        open_above = self._open_above(table, span)
        for other in above(table, self._lake):
            if other in open_above and self._site is not None:
                entry = compute_anew(other, self._lake, self._site, mark)
                yield Part(table=other.id, rows=entry.written, how="computed anew, and promoted")
                continue
            # Open rows of what is forgotten are deleted by the sweep; with --now their tables are computed anew.
            done = backfill_one(self._spark, other, table, self._lake, span, is_live=False)
            moved = done.came + done.gone if done else 0
            yield Part(table=other.id, rows=moved, how="came or went")
        for other in retired_above(table, self._lake):
            moved = self._follow_retired(other, table, span)
            yield Part(table=other.id, rows=moved, how="came or went")

    def _follow_retired(self, other: Table, table: Judged, span: Span) -> int:
        """Compute again what is closed of a retired table; of the rest, which no stream will close, the sweep deletes rows."""
        until = repairable_until(other, table, self._lake)
        if follows(other, table, self._lake) or until is None or until <= span.since:
            return 0
        closed = Span(since=span.since, until=min(until, span.until))
        done = backfill_one(self._spark, other, table, self._lake, closed, is_live=False)
        return done.came + done.gone if done else 0

    def _let_go(self) -> None:
        """Remove the states of retired streams that may hold what was forgotten, or would read it: no table is kept for them."""
        concerned = set(self.concerned())
        for table in self.tables:
            below = {path for each in table.needs for path in self._lake.books(each)}
            if table.id in self._retired and below & concerned:
                let_go(table, self._lake)

    def _above(self, table: Judged) -> list[Table]:
        """Return the tables above, also those that are retired."""
        return [*above(table, self._lake), *retired_above(table, self._lake)]

    def _open_above(self, table: Judged, span: Span) -> list[Table]:
        """Return the tables above whose streams still own a part of a range: their state has what is meant.

        Of a table whose rows hold until something ends them, such as a lease of an address, a row of any time may be open.
        """
        closed = {
            each: repairable_until(each, table, self._lake) for each in led(table, self._lake)
        }
        return [
            each
            for each, until in closed.items()
            if until is None or span.until > until or (each.valid_until and self._site)
        ]

    def close(self) -> None:
        """Let Spark forget the places."""
        for branch in self.branches:
            for each in branch.cached:
                each.unpersist()

    def _derived(self) -> list[Derived]:
        return [each for each in self.tables if isinstance(each, Derived)]

    def _found(self) -> list[Branch]:
        return [branch for branch in self.branches if branch.counts.are_any]

    def _understanding(self) -> Iterator[DataFrame]:
        """Yield rows with the columns of each table, and with those that it reads from its records."""
        for table in self.tables:
            rows = rows_now(self._spark, table, self._lake)
            if isinstance(table, Judged):
                records = rows_now(self._spark, table.reads[0], self._lake)
                with joining(table, self._lake):
                    understood = computed(as_received(records), table, of_any_kind=True)
                yield understood
            if not isinstance(table, Ingested):
                yield rows

    def _part(self, name: str, rows: int) -> Part:
        return Part(table=name, rows=rows, how="deleted")

    def _found_in(self, table: Judged) -> Branch:
        with joining(table, self._lake):
            return self._branch(table)

    def _branch(self, table: Judged) -> Branch:
        spark, lake = self._spark, self._lake
        (bronze,) = table.reads
        records = rows_now(spark, bronze, lake)
        found = self._records(records, table)
        places = found.where("NOT _mention").select(*PLACE)
        held = None
        if is_table(lake.quarantine(table)):
            kept = spark.read.format("delta").load(str(lake.quarantine(table)))
            held = self._records(kept, table)
        silver = self._meant(rows_now(spark, table, lake), found.where("NOT _mention"))
        good = judged(
            records.join(F.broadcast(places), [*PLACE], "left_semi"), table, in_any_order=True
        )
        times = silver.select(F.col(table.event_at).alias("_time")).unionByName(
            good.where(F.col("_reasons").isNull()).select("_time")
        )
        span = _span(times)
        *bronze_counts, mentions = _counted(found)
        counts = Counts(
            bronze=(bronze_counts[0], bronze_counts[1]),
            silver=_counted(silver)[:2],
            held=_counted(held)[:2] if held is not None else (0, 0),
            mentions=mentions,
        )
        branch = Branch(
            table=table,
            places=places,
            held=held.where("NOT _mention").select(*PLACE) if held is not None else None,
            span=span,
            counts=counts,
        )
        branch.cached = [found, *([held] if held is not None else [])]
        branch.waits = self._reason_to_wait(branch)
        return branch

    def _records(self, records: DataFrame, table: Judged) -> DataFrame:
        """Return the places of records that are meant or mentioned, computed once; a quarantine may hold one twice."""
        found = self.condition.meant(records, table).groupBy(*PLACE)
        marks = (F.min(name).alias(name) for name in ("_mention", "_by_text"))
        return found.agg(*marks).persist(StorageLevel.MEMORY_AND_DISK)

    def _meant(self, rows: DataFrame, found: DataFrame) -> DataFrame:
        """Return the rows of a judged table that are meant, by the condition or by their records."""
        by_place = rows.join(F.broadcast(found), [*PLACE])
        if not self.condition.fits(rows):
            return by_place
        left = rows.join(F.broadcast(found), [*PLACE], "left_anti")
        others = left.where(self.condition.holds())
        if ITEM in rows.columns:  # a record goes with all of its items
            others = left.join(others.select(*PLACE).distinct(), [*PLACE], "left_semi")
        return by_place.unionByName(_by_condition(others))

    def _reason_to_wait(self, branch: Branch) -> str:
        """Return why a branch cannot be done yet; empty when it can."""
        if not branch.counts.are_any:
            return ""
        table, lake = branch.table, self._lake
        # Of a retired one, and so of all above it, no stream will do anything.
        if (unread := self._unread(branch)) or table.id in self._retired:
            return unread
        closed = closed_above(table, lake)
        open_above = self._open_above(table, branch.span) if branch.span else []
        if branch.span is not None and (closed is None or branch.span.until > closed):
            unbounded = [each for each in open_above if known_reach(each, lake) is None]
            if self._site is None and unbounded:
                return (
                    f"nothing says how far apart the rows lie that {unbounded[0].id} joins, so no time of it is ever over: let it "
                    "declare its reach; or --now computes it anew at once"
                )
            if self._site is None:
                until = branch.span.until.isoformat()
                anew = f"; with --now {', '.join(map(str, open_above))} is computed anew at once"
                return (
                    f"a stream still owns a part of the time up to {until}; it has left {closed}"
                    + (anew if open_above else "; --now does not wait for it")
                )
        for each in open_above if self._site else []:
            refuse_lossy(each, lake)
            newest = last_entry(lake.table(each))
            if newest is not None and not is_code_of(each, newest[1].code):
                return (
                    f"{each.id} was computed by other code than today's, and what --now computes anew is promoted unseen: "
                    f"`strandline rebuild {each.id}`, `strandline promote {each.id}`, then the same again"
                )
        for each in above(table, lake):
            refuse_behind(each, lake)
        return ""

    def _unread(self, branch: Branch) -> str:
        """Return which tables are to read what goes first; empty where none is."""
        for source in (branch.bronze, branch.table):
            unread, readers = unread_files(source, self._lake)
            path = self._lake.table(source)
            if unread and self._files(path, branch.places, among=unread):
                return f"{' and '.join(readers)} has not read all of it: `strandline run`"
        return ""

    def _files(self, path: Place, places: DataFrame, among: Collection[str]) -> bool:
        rows = self._spark.read.format("delta").load(str(path))
        near = rows.where(F.col("_metadata.file_name").isin([*among]))
        return bool(near.join(F.broadcast(places), [*PLACE], "left_semi").limit(1).count())

    def _from_bronze(self, branch: Branch) -> int:
        path = self._lake.table(branch.bronze)
        return self._delete(branch.bronze, Doomed(path=path, at="_arrived_at", rows=branch.places))

    def _from_silver(self, branch: Branch) -> int:
        table, path = branch.table, self._lake.table(branch.table)
        meant = self._meant(rows_now(self._spark, table, self._lake), _by_condition(branch.places))
        changed = branch.span.in_micros() if branch.span else NO_TIME
        rows = meant.select(*PLACE).distinct()
        return self._delete(table, Doomed(path=path, at=table.event_at, rows=rows, changed=changed))

    def _from_quarantine(self, branch: Branch) -> int:
        if branch.held is None:
            return 0
        path = self._lake.quarantine(branch.table)
        records = self._spark.read.format("delta").load(str(path))
        going = branch.held.withColumn("_goes", F.lit(True))
        goes = F.coalesce("_goes", F.lit(False)).alias("_goes")
        marked = records.join(going, [*PLACE], "left").select(*record_of(path), goes)
        released = released_among(self._spark, branch.table, self._lake, marked)
        doomed = Doomed(path=path, at="_arrived_at", rows=branch.held, released=released)
        return self._delete(branch.table, doomed)

    def _sweep(self) -> Iterator[Part]:
        """Delete the rows above silver for which the condition still holds, and let the tables above follow."""
        for table in self._derived():
            if isinstance(table, Recomputed) and table.id not in self._retired:
                follow(self._spark, table, self._lake)
            rows = rows_now(self._spark, table, self._lake)
            if not self.condition.fits(rows):
                continue
            meant = rows.where(self.condition.holds())
            changed = reach_of(meant, table)
            if changed is None:
                continue
            path, keys = self._lake.table(table), meant.select(*table.key).distinct()
            doomed = Doomed(path=path, at=table.event_at, rows=keys, changed=changed)
            yield Part(table=table.id, rows=self._delete(table, doomed), how=SWEPT)

    def _delete(self, table: Table, doomed: Doomed) -> int:
        kept = doomed.rows.persist(StorageLevel.MEMORY_AND_DISK)  # its source changes meanwhile
        try:
            return (
                delete(self._spark, table, self._lake, self._request, replace(doomed, rows=kept))
                if kept.count()
                else 0
            )
        finally:
            kept.unpersist()


def _by_condition(rows: DataFrame) -> DataFrame:
    """Mark rows that are meant by the condition: none of them is a mention, and none is meant for a text."""
    return rows.withColumns({"_mention": F.lit(False), "_by_text": F.lit(False)})


def _counted(found: DataFrame) -> tuple[int, int, int]:
    """Return how many rows go, how many of them for a text alone, and how many only mention one."""
    is_mention = F.col("_mention")
    each = (F.count_if(~is_mention), F.count_if("_by_text"), F.count_if(is_mention))
    ((goes, by_text, mentions),) = found.agg(*each).collect()
    return int(goes), int(by_text), int(mentions)


def _span(times: DataFrame) -> Span | None:
    """Return the shortest range that contains all of the times."""
    at = F.unix_micros("_time")
    first, last = times.agg(F.min(at), F.max(at)).collect()[0]
    return None if first is None else Span.of_micros(first, last)


# Carry out a request to forget and write it down: by a hash, the tables that it concerned, and their versions after it.


def carry_out(
    work: Forgetting,
    lake: Lake,
    request: Request,
    clock: Callable[[], datetime],
    found: Sequence[Part],
) -> Iterator[Part]:
    """Carry out what does not wait, and yield what went from each table.

    The record is there before the first row goes, so that a request that was killed is seen; where nothing was found, and no
    earlier record of it is open, none is written.

    Args:
        work: What was found.
        lake: The lake.
        request: The request.
        clock: The time.
        found: The parts of what was found.
    """
    concerned = {name_of(path): path for path in work.concerned()}
    known = _record(work, lake, request)
    is_open = known is not None and not known.is_done
    if not (is_open or any(part.rows for part in found)):
        return
    # One that was killed after its last row finds nothing any more, but its tables are written down.
    names = [
        *concerned,
        *(name for name in (known.versions if known else ()) if name not in concerned),
    ]
    record = Forgotten(
        mark=known.mark if known else request.mark(place_of(lake.root, names[0])),
        begun_at=known.begun_at if known else clock().isoformat(),
        versions=dict.fromkeys(names, -1),
    )
    keep(lake, record)
    yield from work.carry_out(record.mark)
    versions = {name: latest_version(place_of(lake.root, name)) for name in names}
    done_at = None if any(part.waits for part in found) else clock().isoformat()
    keep(lake, replace(record, versions=versions, done_at=done_at))


def _record(work: Forgetting, lake: Lake, request: Request) -> Forgotten | None:
    """Return what was written down of a request before.

    A record is named by the hash of one of its tables, and which table that was may have changed: a catalogue with a new first
    table looked for another name, and the interrupted request stayed open for ever, so that its history was never scrubbed.
    """
    known = requests(lake)
    tables = [lake.table(table) for table in work.tables]
    named = {name for each in known for name in each.versions}
    paths = [
        *tables,
        *(path for path in (place_of(lake.root, name) for name in named) if is_table(path)),
    ]
    marks = {request.mark(path) for path in dict.fromkeys(paths)}
    found = [each for each in known if each.mark in marks]
    return min(found, key=lambda each: each.is_done, default=None)
