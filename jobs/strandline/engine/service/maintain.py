"""Maintain a lake beside its streams: put small files together, keep logs short, delete what no reader needs.

It is done table by table, in steps that each leave the table as it was for every reader: books are closed, files are put
together, the log is cut, removed files are deleted. A step that is killed is done again by the next run, and one that is out
of time is continued by it. Nothing waits for it: a stream that commits waits for milliseconds at most, and work that reads
versions by their numbers (a backfill, a replay, a rebuild, a verification) makes it leave logs and removed files alone.

It needs no JVM, some hundred megabytes of memory, and little of the processor beside a stream, because it runs at a lower
priority (jobs/strandline/operate/decisions.py).
"""

import json
import re
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from strandline import catalog

from strandline.core.errors import DataError, LakeError, TransientError
from strandline.core.table import Feed, Ingested, Table
from strandline.engine.accounting.table_books import close
from strandline.engine.ask import moments
from strandline.engine.ask.named_moments import drop_due, remove_half
from strandline.engine.flow.readers import How, Reader, readers
from strandline.engine.flow.shadow_lake import refuse_half_done, shadows
from strandline.engine.lake.commit.compact import Choice, left_apart, merge_files, rewrite_times
from strandline.engine.lake.completeness import fed, let_go, remove_stale, retired
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.locks import described, is_held
from strandline.engine.lake.log.commit_log import committed_at, is_commit
from strandline.engine.lake.log.ledger import is_table, latest_version
from strandline.engine.lake.log.ledger_sums import name_of, place_of
from strandline.engine.lake.log.log_actions import added_since
from strandline.engine.lake.log.vacuum import (
    KEEP,
    UNDOABLE,
    cut,
    size_of,
    sweep,
    touched_at,
    uncommitted,
)
from strandline.engine.lake.open_table import lowest, pinned_versions
from strandline.engine.lake.place import Place, damage
from strandline.engine.lake.plain_files import abandoned
from strandline.engine.lake.store_lease import HeldError, hold
from strandline.engine.repair.backfill import ROLE
from strandline.engine.runtime.processes import find, is_there, own
from strandline.engine.service.process_cost import maintaining

UNTOUCHED = timedelta(minutes=10)
"""Files that are younger are not put together: their writer may be about to replace them."""

BEHIND = 5_000
"""Commits that a reader may be behind before the files of a table are left alone; the names of their files are kept."""

MOMENTS = timedelta(minutes=15)
"""How long moments are kept readable: as long as Dagster takes from one maintenance to the next, so that logs at most double."""

LOCK = "_maintain.lock"


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """What maintenance may do.

    Args:
        keep: How long files are kept that a later version removed.
        untouched: How old a file must be to be put together with others.
        is_over: Whether the time is over; asked between two steps.
        is_half_over: Whether half of it is. Files of before are written again within the first half, so that those of a large
            table keep no other table, and no catalog, waiting for days.
        go: Whether to do it; otherwise it is only counted.
        moments: How long moments are kept readable (jobs/strandline/engine/ask/moments.py); never for longer than ``keep``.
    """

    keep: timedelta = KEEP
    moments: timedelta = MOMENTS
    untouched: timedelta = UNTOUCHED
    is_over: Callable[[], bool] = lambda: False
    is_half_over: Callable[[], bool] = lambda: False
    go: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Maintained:
    """What was done to a table.

    Args:
        table: Its name.
        merged: Files that were put together.
        into: Files that they became.
        saved: Bytes that these have fewer.
        retimed: Files of before that were written again, with times that other engines read.
        commits: Commits that were moved out of the log.
        deleted: Files that were deleted.
        freed: Their bytes.
        apart: Why its small files are not put together, now or later; empty where they are.
        left: Why something was left to the next run; empty where nothing was.
        kind: The kind of the error that was the reason; empty where none was.
        core_seconds: CPU that it took.
    """

    table: str
    merged: int = 0
    into: int = 0
    saved: int = 0
    retimed: int = 0
    commits: int = 0
    deleted: int = 0
    freed: int = 0
    apart: str = ""
    left: str = ""
    kind: str = ""
    core_seconds: float = field(default=0.0, compare=False)

    @property
    def sentence(self) -> str:
        """Say it in a line."""
        done = [
            f"{self.merged:,} files became {self.into:,}, {self.saved:,} bytes fewer"
            if self.merged
            else "",
            f"{self.retimed:,} files of before were written again, with times as INT64"
            if self.retimed
            else "",
            f"{self.commits:,} commits left the log" if self.commits else "",
            f"{self.deleted:,} files of {self.freed:,} bytes were deleted" if self.deleted else "",
            f"its small files stay as they are: {self.apart}" if self.apart else "",
            f"left for the next run: {self.left}" if self.left else "",
        ]
        return f"{self.table}: " + ("; ".join(filter(None, done)) or "nothing to do")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Needed:
    """What readers need of the tables of a lake: by its name the first version of each, where there is a reader.

    Args:
        in_log: Of its log, as Delta reads it.
        of_files: Of the files that a commit removed.
        works: What reads versions by their numbers meanwhile, so logs and files are left alone; empty for nothing.
    """

    in_log: dict[str, int]
    of_files: dict[str, int]
    works: str


def maintain(lake: Lake, now: datetime, policy: Policy) -> Iterator[Maintained]:
    """Maintain the tables of a lake, and yield what was done to each.

    Raises:
        NewerLakeError: A newer program has written it.
        TransientError: Another process maintains it.
    """
    if policy.go:
        lake.refuse_newer()
    try:
        # A look changes nothing, and must not need room: it is typed when the disk is full.
        alone = (
            hold(lake.near / LOCK, json.dumps(own()), waits=False) if policy.go else nullcontext()
        )
        with alone:
            if policy.go:
                _let_go_old(lake, now)
                remove_stale(lake, now, fed(catalog.tables(), lake))
                # First, as a large lake has no time left at the end, and these have rooms of their own.
                drop_due(lake, now)
                remove_half(lake)
            with maintaining(lake, now, go=policy.go) as took:
                for table, path in _tables(lake):
                    if policy.is_over():
                        yield Maintained(table=name_of(path), left="out of time")
                        break
                    began = time.process_time()
                    done = _maintain(table, path, lake, now, policy)
                    took[done.table] = seconds = time.process_time() - began
                    yield replace(done, core_seconds=seconds)
            if policy.go:
                # The versions of today, of which no step above has taken anything: the latest moment is one that can be read.
                if moments.noted(lake):
                    moments.note_or_reason(lake, catalog.tables(), "maintenance")
                moments.remove_unreadable(lake, now - policy.moments)
    except HeldError as error:
        raise TransientError(
            f"{lake.root} is being maintained already: {error.note}",
            hint="wait until it is done; the next run does what is left.",
            lake=str(lake.root),
        ) from error


def _let_go_old(lake: Lake, now: datetime) -> None:
    """Keep nothing any more for tables that were retired so long ago that a promotion could not be undone either.

    What a kill left of a state goes with it.
    """
    known = {
        name
        for name, each in retired(lake).items()
        if not each.place_kept or now - datetime.fromisoformat(each.at) > UNDOABLE
    }
    for table in catalog.tables() if known else ():
        if table.id in known:
            let_go(table, lake)


def refuse_idle(done: Sequence[Maintained]) -> None:
    """Refuse to call a run done that left each table: nothing would be put together, and nothing deleted, for months.

    Raises:
        DataError: It left each of them, the first because its data is damaged.
        TransientError: Because something works there that will end.
    """
    if not done or not all(each.left and each.kind for each in done):
        return
    kind = DataError if any(each.kind == DataError.kind for each in done) else TransientError
    first = next(each for each in done if each.kind == kind.kind or kind is TransientError)
    why, _, hint = first.left.partition("\n\nhint: ")
    raise kind(
        f"nothing was maintained: each of {len(done)} tables was left, {first.table} because {why}",
        hint=hint or "the next run does what is left; `strandline status` shows what works there.",
    )


def _tables(lake: Lake) -> Iterator[tuple[Table | None, Place]]:
    """Yield the folders of Delta tables of a lake, each with the table that writes it, if that is one of the catalog."""
    for table, path in _there(lake):
        if is_table(path):
            yield table, path
    feeds = lake.root / Feed.layer
    others = [*(feeds / name for name in feeds.names()), lake.closed_entries, lake.history]
    for path in others:
        if is_table(path):
            yield None, path


def _there(lake: Lake) -> Iterator[tuple[Table, Place]]:
    """Yield the folders that there are of tables of the catalog.

    By a list of the folders above: a look whether a table exists is three requests to a store, and many of a catalog do not.
    """
    names: dict[Place, Collection[str] | None] = {}
    for table in catalog.tables():
        for path in lake.books(table):
            if path.parent not in names:
                try:
                    names[path.parent] = frozenset(path.parent.names())
                except PermissionError:  # who maintains one of them says so
                    names[path.parent] = None
            known = names[path.parent]
            if known is None or path.name in known:
                yield table, path


def _maintain(
    table: Table | None, path: Place, lake: Lake, now: datetime, policy: Policy
) -> Maintained:
    done = Maintained(table=name_of(path))
    try:
        if table is not None:
            refuse_half_done(table, lake)
            if policy.go and path == lake.table(table):
                close(lake, [table])
        needed = _needed(lake, now, policy)
        if needed.works:
            left = f"{needed.works} reads versions by their numbers"
            return replace(done, left=left, kind=TransientError.kind)
        latest = latest_version(path)
        until = needed.of_files.get(done.table, latest + 1)
        # delta-rs writes the two others, and compacts them itself.
        if path not in {lake.closed_entries, lake.history}:
            done = _merged(done, path, _choice(table, path, until, now, policy), now, policy)
        moved = cut(path, needed.in_log.get(done.table, latest + 1), go=policy.go)
        dead = [each.size for each in sweep(path, until, now, policy.keep, go=policy.go)]
        return replace(done, commits=moved, deleted=len(dead), freed=sum(dead))
    except LakeError as error:
        return replace(done, left=str(error), kind=error.kind)
    except Exception as error:
        found = None if table is None else damage(error, table)
        if found is None:
            raise
        return replace(done, left=str(found), kind=found.kind)


def _merged(
    done: Maintained, path: Place, choice: Choice | None, now: datetime, policy: Policy
) -> Maintained:
    if choice is None:
        return replace(done, left=f"its files, because a reader is {BEHIND:,} commits behind")
    if kinds := left_apart(path, choice):
        return replace(done, apart=f"files with {' and '.join(kinds)} are not copied")
    for each in merge_files(path, choice, now, go=policy.go):
        done = replace(
            done,
            merged=done.merged + each.files,
            into=done.into + 1,
            saved=done.saved + each.bytes_before - each.bytes_after,
        )
        if policy.is_over():
            return replace(done, left="out of time")
    for each in rewrite_times(path, choice, now, go=policy.go, is_over=policy.is_half_over):
        done = replace(done, retimed=done.retimed + each.files, left=each.left or done.left)
    return done


def _choice(
    table: Table | None, path: Place, until: int, now: datetime, policy: Policy
) -> Choice | None:
    """Return which files of a table may be put together; None where a reader is so far behind that it is left alone."""
    if latest_version(path) - until >= BEHIND:
        return None
    own = None if table is None or isinstance(table, Ingested) else table
    if own is not None and path.parent.name != own.layer:
        own = None  # a quarantine and resolutions keep their order
    return Choice(
        at=own.event_at if own else None,
        sorted_by=(*own.key, own.event_at) if own else (),
        before_ms=int((now - policy.untouched).timestamp() * 1000),
        apart=added_since(path, until),
    )


def _needed(lake: Lake, now: datetime, policy: Policy) -> _Needed:
    keep, keeps = policy.keep, min(policy.moments, policy.keep)
    works = next((_words(lease) for lease in _works(lake) if is_held(lease)), "")
    found = [*readers(lake)]
    at_moments = moments.kept(lake, now - keeps, now - keep) if keeps else {}
    pins = lowest([pinned_versions(lake.root), at_moments])
    # A rebuild, and a stream that an undo brings back, have the commits of their sources brought back when they start.
    streams = [each for each in found if each.how is How.STREAM]
    return _Needed(
        in_log=lowest([pins, *(each.needs for each in streams)]),
        of_files=lowest([pins, *(_of_files(e) for e in found if not _is_past(e, lake, now))]),
        works=works,
    )


def _words(lease: Place) -> str:
    """Return which work holds a lease, and the process."""
    who = described(lease)
    return lease.name.removesuffix(".lock") + (f" ({who})" if who else "")


def _works(lake: Lake) -> Iterator[Place]:
    """Yield the leases of what reads versions by their numbers: repairs of tables, and streams of rebuilds."""
    folder = lake.leases
    yield from (folder / name for name in folder.names() if name.endswith(f".{ROLE}.lock"))
    for shadow in shadows(lake, catalog.tables()):
        lease = shadow.lease(shadow.own)
        if lease.exists():
            yield lease


def _of_files(reader: Reader) -> Mapping[str, int]:
    """Leave out what an undo needs of its own table: all of it was removed by the promotion, whose files are kept."""
    if reader.how is not How.UNDO:
        return reader.needs
    _, _, name = reader.table.partition(".")
    own = {reader.table, f"quarantine.{name}"}
    return {each: at for each, at in reader.needs.items() if each not in own}


def _is_past(reader: Reader, lake: Lake, now: datetime) -> bool:
    """Return whether a reader is the undo of a promotion that is too old to be undone."""
    if reader.how is not How.UNDO:
        return False
    path = place_of(lake.root, reader.table)
    version = reader.needs.get(reader.table, latest_version(path)) + 1
    return is_commit(path, version) and now - committed_at(path, version) > UNDOABLE


# Orphans in a lake: files that a killed batch left, scratch lakes that a killed verification left.
#
# What a commit named and a later one replaced is no orphan; it is deleted when no reader needs it any more
# (jobs/strandline/engine/lake/log/vacuum.py).
#
# A file is an orphan only when it was untouched for a day. No batch takes that long, and a move (a promotion moves files
# before it commits them) counts as a touch. A scratch lake has the record of the process that made it
# (jobs/strandline/engine/lake/plain_files.py), and is an orphan as soon as that process is gone.


ORPHANED_FOR = timedelta(days=1)

OF_PROCESS = re.compile(r"(?P<host>.+)-(?P<pid>\d+)-(?P<started>\d+)")
"""The name of the folder in which the Spark of one process spills (jobs/strandline/engine/runtime/spark_session.py)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """A file or folder without an owner."""

    path: Place
    size: int
    why: str


def left(lake: Lake, now: datetime) -> Iterator[Left]:
    """Yield the orphans of a lake; nothing is changed.

    Raises:
        DefinitionError: A promotion is half done and must be finished first.
    """
    for shadow in shadows(lake, catalog.tables()):
        refuse_half_done(shadow.own, lake)
    for table, path in _there(lake):
        for file in _uncommitted(table, path):
            yield from _if_old(file, now, "written, and never committed")
    for place in abandoned(lake.frozen):
        yield Left(
            path=place, size=size_of(place), why="second names of files, for a killed snapshot"
        )
    yield from _spilled(lake, now)
    gone = set(abandoned(lake.scratch))
    for place in (lake.scratch / name for name in lake.scratch.names()):
        why = "the scratch lake of a killed verification"
        if place in gone:
            yield Left(path=place, size=size_of(place), why=why)
        else:
            yield from _if_old(place, now, why)


def _spilled(lake: Lake, now: datetime) -> Iterator[Left]:
    """Yield what Spark's processes spilled that are gone; a name that says no process is of an earlier version."""
    folder = lake.near / "_logs" / "scratch"
    why = "spilled by a process that is gone"
    is_free = find(f"-Djava.io.tmpdir={folder}") is None
    for name in folder.names():
        found = OF_PROCESS.fullmatch(name)
        path = folder / name
        if name.startswith("serve-"):  # the JDBC server's own, at its port
            continue
        if found is None and is_free:
            yield from _if_old(path, now, why)
        elif found is not None and _is_gone(found, path):
            yield Left(path=path, size=size_of(path), why=why)


def _is_gone(name: re.Match[str], path: Place) -> bool:
    """Return whether neither a process nor its JVM, which may outlive it for some seconds, is there any more."""
    holder = {"host": name["host"], "pid": name["pid"], "started": float(name["started"])}
    return is_there(holder) is False and find(f"-Djava.io.tmpdir={path}") is None


def _uncommitted(table: Table, path: Place) -> list[Place]:
    """Return the files that no commit names; none where a commit cannot be read, which may name them."""
    try:
        return [*uncommitted(path)]
    except Exception as error:
        if damage(error, table) is None:
            raise
        return []


def take_away(orphan: Left) -> None:
    """Delete it."""
    orphan.path.remove()
    (orphan.path.parent / f".{orphan.path.name}.crc").remove()


def _if_old(path: Place, now: datetime, why: str) -> Iterator[Left]:
    if now - touched_at(path) > ORPHANED_FOR:
        yield Left(path=path, size=size_of(path), why=why)
