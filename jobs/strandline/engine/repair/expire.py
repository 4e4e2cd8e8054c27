"""Delete what is older than its table keeps it: an entry in the ledger, a commit that streams pass over.

A file goes when all of its rows are old, as its statistics say, so a day's expiry costs a commit and reads no row. A file
with younger rows stays until these are old as well, because writing it again would cost as much as its rows did; only one
that has been due for a week (a broken clock's row beside old ones) is written again without its old rows.

A row that a table above has not read stays, and its reader is named; for one that is retired no row stays
(jobs/strandline/engine/lake/completeness.py). What was read and where it went stays in the books:
``expired`` counts the rows that are gone. Each commit is whole by itself, so a kill between two leaves nothing half done,
and the next run goes on. Rows become old in steps of an hour, so that no table has more than one such commit an hour.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F
from strandline import catalog

from strandline.core.errors import DefinitionError, TransientError
from strandline.core.kind import LAST, length_of
from strandline.core.table import Ingested, Judged, Table
from strandline.engine.accounting.held_records import record_of, released_among, unfinished
from strandline.engine.flow import new_entry
from strandline.engine.flow.new_entry import with_kinds_gone
from strandline.engine.flow.readers import How, readers
from strandline.engine.flow.shadow_lake import refuse_half_done
from strandline.engine.lake.commit.replace_rows import Files, Removal, remove_rows
from strandline.engine.lake.completeness import let_go, retired
from strandline.engine.lake.find_rows import OldFiles, old_files
from strandline.engine.lake.forgotten import Forgotten, keep, requests, scrub_log
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.locks import lease
from strandline.engine.lake.log.ledger import is_passed_over, is_table, latest_version
from strandline.engine.lake.log.ledger_sums import place_of
from strandline.engine.lake.open_table import pins
from strandline.engine.lake.place import Place
from strandline.engine.repair.backfill import ROLE
from strandline.engine.repair.closed_range import needed_from, retired_readers, unread_files
from strandline.engine.repair.rebuild import remove_outdated, remove_put_away, remove_shadow

DUE = timedelta(days=7)
"""How long the oldest row of a file may be due before the file is written again for it."""

MOST = 10_000
"""How many files one commit takes out; a first expiry of years is several commits."""

ARRIVAL = "_arrived_at"


@dataclass(frozen=True, slots=True, kw_only=True)
class Expired:
    """What expired in a table or a quarantine, or would.

    Args:
        table: Its name.
        until: What is older is deleted.
        rows: The rows that go; of files that are written again the number is known only afterwards.
        files: The files that go as a whole.
        rewritten: The files that are written again.
        waits_for: The tables that have not read all of the old rows; these stay.
    """

    table: str
    until: str
    rows: int = 0
    files: int = 0
    rewritten: int = 0
    waits_for: tuple[str, ...] = ()

    @property
    def is_due(self) -> bool:
        """Return whether rows go."""
        return bool(self.rows or self.rewritten)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """A Delta table that has a retention: a table's own, or its quarantine."""

    table: Table
    path: Place
    at: str
    keeps: timedelta
    is_quarantine: bool = False
    needed: datetime = LAST

    @property
    def name(self) -> str:
        return f"quarantine.{self.table.name}" if self.is_quarantine else self.table.id

    def until(self, now: datetime) -> datetime:
        """Return the moment before which its rows are old, on a full hour; what windows above still wait for is not."""
        return min(now - self.keeps, self.needed).replace(minute=0, second=0, microsecond=0)


def expire(spark: SparkSession, table: Table, lake: Lake, now: datetime) -> tuple[Expired, ...]:
    """Delete what is older than a table and its quarantine keep it; nothing where neither has a retention.

    Raises:
        DefinitionError: A promotion, a backfill or a replay of the table was interrupted.
        TransientError: A backfill or a replay is under way, or other writers rewrote the same files again and again.
    """
    shown = overdue(table, lake, now)
    if not any(each.is_due for each in shown):
        return shown
    refuse_unfit(table, lake)
    with lease(spark, table, lake, role=ROLE):
        return tuple(_expired(spark, part, lake, now) for part in _parts(table, lake))


def overdue(table: Table, lake: Lake, now: datetime) -> tuple[Expired, ...]:
    """Return what would expire, from the statistics of the files; nothing is changed, no Spark is needed."""
    return tuple(_report(part, lake, now) for part in _parts(table, lake))


def is_due(table: Table, lake: Lake, now: datetime) -> bool:
    """Return whether rows of a table or of its quarantine would be deleted."""
    return any(each.is_due for each in overdue(table, lake, now))


def declares(table: Table) -> bool:
    """Return whether a table says how long it keeps its rows, or those that it holds."""
    return bool(table.keeps or (isinstance(table, Judged) and table.keeps_held))


def refuse_unfit(table: Table, lake: Lake) -> None:
    """Refuse a table of which something is half done.

    Raises:
        DefinitionError: A promotion, a backfill or a replay was interrupted.
    """
    refuse_half_done(table, lake)
    half = unfinished(table, lake)
    if half is not None:
        raise DefinitionError(
            f"a {half.mode} of {table.id} was interrupted, so its old rows stay",
            hint="`strandline ledger` prints the command that finishes it.",
            table=table.id,
        )


def _parts(table: Table, lake: Lake) -> Iterator[_Part]:
    if table.keeps and lake.exists(table):
        at = ARRIVAL if isinstance(table, Ingested) else table.valid_until or str(table.event_at)
        keeps, needed = length_of(table.keeps), needed_from(table, lake)
        yield _Part(table=table, path=lake.table(table), at=at, keeps=keeps, needed=needed)
    if isinstance(table, Judged) and table.keeps_held and is_table(lake.quarantine(table)):
        yield _Part(
            table=table,
            path=lake.quarantine(table),
            at=ARRIVAL,
            keeps=length_of(table.keeps_held),
            is_quarantine=True,
        )


def _expired(spark: SparkSession, part: _Part, lake: Lake, now: datetime) -> Expired:
    rows = files = rewritten = 0
    until = part.until(now)
    while True:
        picked: list[Files] = []
        removal = Removal(
            at=part.at,
            pick=lambda: _pick(part, lake, now, picked),  # noqa: B023  # called within the loop
            stays=lambda held: held.where(~_is_old(part, until)),
            entry=lambda gone: _entry(spark, part, lake, until, gone, picked[-1]),  # noqa: B023  # likewise
        )
        done = remove_rows(spark, part.path, removal)
        if done is None:
            left = _report(part, lake, now)
            return replace(left, rows=rows, files=files, rewritten=rewritten)
        rows += done[1]
        files += len(picked[-1].whole)
        rewritten += len(picked[-1].partly)


def _pick(part: _Part, lake: Lake, now: datetime, picked: list[Files]) -> Files:
    found, _ = _found(part, lake, now)
    overdue_files = _overdue(part, lake, now)
    picked.append(Files(whole=found.whole[:MOST], partly=() if found.whole else overdue_files[:1]))
    going = {*picked[-1].whole, *picked[-1].partly}
    for reader, unread in ({} if part.is_quarantine else retired_readers(part.table, lake)).items():
        if going & unread:  # first: taken back, it would miss them and say nothing
            let_go(reader, lake)
    return picked[-1]


def _is_old(part: _Part, until: datetime) -> Column:
    return F.coalesce(F.col(part.at) < F.lit(until), F.lit(False))


def _entry(  # noqa: PLR0913, PLR0917  # what a ledger entry is made of
    spark: SparkSession, part: _Part, lake: Lake, until: datetime, gone: int, files: Files
) -> str:
    old = spark.read.format("delta").load(str(part.path)).where(_is_old(part, until))
    goes = F.col("_metadata.file_name").isin([*files.whole, *files.partly])
    released = 0
    if part.is_quarantine and isinstance(part.table, Judged):
        # Of the records that go, how many had been released before.
        records = old.select(*record_of(part.path), goes.alias("_goes"))
        released = released_among(spark, part.table, lake, records)
    entry = new_entry.expired(part.table, until.isoformat(), rows=gone, released=released)
    return with_kinds_gone(entry, old.where(goes), part.table, lake).encoded()


def _report(part: _Part, lake: Lake, now: datetime) -> Expired:
    found, readers = _found(part, lake, now)
    return Expired(
        table=part.name,
        until=part.until(now).isoformat(),
        rows=found.rows,
        files=len(found.whole),
        rewritten=len(_overdue(part, lake, now)),
        waits_for=tuple(readers),
    )


def _overdue(part: _Part, lake: Lake, now: datetime) -> tuple[str, ...]:
    """Return the files with younger rows whose oldest row has been due for long."""
    found, _ = _found(part, lake, now)
    since = part.until(now) - DUE
    return tuple(name for name, at in found.partly if at < since)


def _found(part: _Part, lake: Lake, now: datetime) -> tuple[OldFiles, Sequence[str]]:
    """Return the old files that every reader has read, and the readers that keep others."""
    found = old_files(part.path, part.at, part.until(now))
    unread, readers = ({}, []) if part.is_quarantine else unread_files(part.table, lake)
    waiting = {*found.whole, *(name for name, _ in found.partly)} & unread.keys()
    if not waiting:
        return found, ()
    kept = replace(
        found,
        whole=tuple(name for name in found.whole if name not in waiting),
        rows=found.rows - sum(unread[name] for name in found.whole if name in waiting),
        partly=tuple(each for each in found.partly if each[0] not in waiting),
    )
    return kept, readers


# Scrub the history behind requests to forget: after it, no file of a lake holds what was forgotten.
#
# A request deletes rows from the latest version of each table. Earlier versions, the statistics of their files and the checkpoints
# of the log still hold them, for readers that are under way. After a while that is longer than any of these, the history of the
# tables up to the request goes (jobs/strandline/engine/lake/forgotten.py). A promotion from before it cannot be undone any more.
#
# A rebuild that began before a request has read what is gone, and waits to be promoted; it is removed.
#
# Nothing here knows whom a request was about: the lake wrote down which tables it concerned and up to which version.


AFTER = timedelta(hours=1)
"""How long the history stays for readers that began before the request; a query takes seconds, a batch minutes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scrubbed:
    """A table whose history was scrubbed.

    Args:
        table: Its name.
        until: The version up to which.
        files: Data files that were deleted.
        commits: Commits from whose statistics texts were dropped.
    """

    table: str
    until: int
    files: int
    commits: int


def due(lake: Lake, now: datetime, after: timedelta = AFTER) -> list[Forgotten]:
    """Return the requests whose history can be scrubbed."""
    return [request for request in requests(lake) if request.is_due(now - after)]


def scrub(
    spark: SparkSession, lake: Lake, now: datetime, after: timedelta = AFTER
) -> Iterator[Scrubbed]:
    """Scrub the history behind the requests that are due; repeated after a kill it goes on.

    Raises:
        TransientError: A stream, or a work that reads versions by their numbers, still needs it; or a rebuild is under way.

    Args:
        spark: The session.
        lake: The lake.
        now: The time.
        after: How long ago a request must have been carried out.
    """
    waiting = due(lake, now, after)
    until: dict[str, int] = {}
    for request in waiting:
        for name, version in request.versions.items():
            until[name] = max(version, until.get(name, -1))
    # First: what is removed reads nothing any more.
    yield from _without_shadows(lake, until)
    refuse_needed(lake, until)
    _let_go(lake, until)
    for name, version in until.items():
        path = place_of(lake.root, name)
        if is_table(path):
            last = min(version, latest_version(path))
            files, commits = scrub_log(spark, path, last)
            yield Scrubbed(table=name, until=last, files=files, commits=commits)
    for table in catalog.tables():
        if remove_put_away(table, lake):
            yield Scrubbed(table=f"the undo of {table.id}", until=-1, files=1, commits=0)
    for request in waiting:
        keep(lake, replace(request, scrubbed_at=now.isoformat()))


def _without_shadows(lake: Lake, until: Mapping[str, int]) -> Iterator[Scrubbed]:
    """Remove the rebuilds that began before a request, and those of retired tables, which nothing lets read on."""
    ended = {table.id for table in _ended(lake)}
    needing = {
        each.table
        for each in readers(lake)
        if each.how is How.REBUILD and each.table in ended and any(_unread(lake, each.needs, until))
    }
    for table in catalog.tables():
        if remove_outdated(table, lake) or (table.id in needing and remove_shadow(table, lake)):
            yield Scrubbed(table=f"the rebuild of {table.id}", until=-1, files=1, commits=0)


def refuse_needed(lake: Lake, until: Mapping[str, int]) -> None:
    """Refuse to delete a history that is still read; what only an undo, or a retired table, would read is no reason.

    Raises:
        TransientError: It is needed.
    """
    ended = {table.id for table in _ended(lake)}
    readers_of = [
        (each.table, each.needs)
        for each in readers(lake)
        if each.how is How.REBUILD or (each.how is not How.UNDO and each.table not in ended)
    ]
    for who, versions in (*readers_of, *_pinned(lake)):
        for name, version, first in _unread(lake, versions, until):
            raise TransientError(
                f"{who} still reads {name} from version {first:,} on, and its history up to {version:,} is to be "
                "scrubbed",
                hint="let it read on (`strandline run`), then type the same again.",
                table=name,
            )


def _let_go(lake: Lake, until: Mapping[str, int]) -> None:
    """Keep nothing any more for the retired tables that have not read what is to be scrubbed: taken back, they would miss it."""
    needing = {each.table for each in readers(lake) if any(_unread(lake, each.needs, until))}
    for table in _ended(lake):
        if table.id in needing:
            let_go(table, lake)


def _ended(lake: Lake) -> list[Table]:
    known = retired(lake)
    return [table for table in catalog.tables() if table.id in known]


def _unread(
    lake: Lake, versions: Mapping[str, int], until: Mapping[str, int]
) -> Iterator[tuple[str, int, int]]:
    """Yield what a reader needs of what is to be scrubbed: the table, the version up to which it is, the first that it reads."""
    for name, version in until.items():
        first = _next_read(place_of(lake.root, name), versions.get(name, version + 1))
        if first <= version:
            yield name, version, first


def _pinned(lake: Lake) -> Iterator[tuple[str, Mapping[str, int]]]:
    for pin in pins(lake.root):
        since = f", since {pin.since}" if pin.since else ""
        yield f"a verification ({pin.who}{since})", pin.versions


def _next_read(path: Place, version: int) -> int:
    """Return the first version from one on whose rows a stream reads; it passes over repairs, and over the request itself."""
    while is_passed_over(path, version):
        version += 1
    return version
