"""Moments: versions of tables that belong together, because each has read exactly what those below it have.

While a stream writes, bronze is a batch ahead of silver, and silver of gold: a count of one is not the count of the other, and two
tables over one source differ. Each entry of a ledger says which versions of its sources its batch has read. So a moment is found
without a scan: from the newest version of each table the one that is ahead goes back, commit by commit, until each has read its
sources up to exactly the version that they have. That is the newest such set of versions, because going back never goes too far: what
two moments have at most is a moment as well.

Rows that a repair changes reach the tables above by commits of their own. So none goes back behind such a commit, and while a repair
is under way, or was interrupted, its table and those above are in no moment.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from strandline.core.table import Ingested, Judged, Recomputed, Table
from strandline.engine.accounting.held_records import unfinished, unfollowed
from strandline.engine.flow.shadow_lake import Shadow
from strandline.engine.flow.shadow_lake import read as promotion_of
from strandline.engine.lake.forgotten import requests
from strandline.engine.lake.import_notes import ToFollow, backfills_to_follow, range_to_follow
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.locks import is_held
from strandline.engine.lake.log.commit_log import committed_at
from strandline.engine.lake.log.ledger import Entry, entry_at, is_table, latest_version
from strandline.engine.lake.log.ledger_sums import (
    EPOCH,
    Sums,
    follow,
    place_of,
    snapshot,
    sums_of,
)
from strandline.engine.lake.log.log_actions import changes_rows, table_id
from strandline.engine.lake.place import Place, damage
from strandline.engine.lake.store_lease import note_of_holder

DEEP = 500
"""Commits of a table that are gone back at most."""

RESTED = 20_000
"""Commits without a row for its reader that a source may have since that one has read it: hourly windows have 720, daily ones 17,280."""

RECENT = 50
"""Commits among which a repair is looked for that has come since the last look."""

LATE = timedelta(minutes=10)
"""A table that has not read what its source had so long before its newest commit is left out, so that it does not take the others back."""

REPAIRS = ".backfill.lock"
"""How the name of the lease ends that a repair of a table holds (jobs/strandline/engine/repair/backfill.py)."""

FOLLOWED = "downstream"
"""The role in which a backfill has a table until those above it are computed again as well."""

FOLLOWING = f".{FOLLOWED}.lock"

MIGRATES = "_migrate.lock"
"""The lock of a migration, which computes table after table anew."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """Versions of tables that belong together.

    Args:
        at: When the newest commit was made that is part of it.
        versions: The version of each table, as a query names it; of a judged table that of its quarantine, and of the decisions about it.
        offsets: For each partition of a topic the offset up to which bronze has read it.
        behind: The tables that are no part of it, with the reason.
        ids: How the ids begin that Delta gave to the tables, by which one that was made anew is noticed.
        number: Its number; 0 where it was not noted.
        by: What noted it.
        name: Its name, of one that is kept under one.
        kept: Where its tables are kept, of one that has a name.
        until: The time until which it is kept, as text; empty for ever.
        lost: The tables that it had and that cannot be read there any more, with the reason.
    """

    at: datetime
    versions: Mapping[str, int]
    offsets: Mapping[str, int]
    behind: Mapping[str, str]
    ids: Mapping[str, str]
    number: int = 0
    by: str = ""
    name: str = ""
    kept: Place | None = None
    until: str = ""
    lost: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        """Name it for people."""
        name = f"moment {self.name or self.number}" if self.number or self.name else "a moment"
        return f"{name} of {self.at.isoformat(sep=' ', timespec='milliseconds')}"

    def version(self, name: str) -> int | None:
        """Return the version of a table; None where the table is no part of it."""
        return self.versions.get(name)

    def record(self) -> dict[str, object]:
        """Return what a file of it holds, whether it was noted or has a name."""
        return {
            "by": self.by,
            "versions": dict(self.versions),
            "offsets": dict(self.offsets),
            "behind": dict(self.behind),
            "ids": dict(self.ids),
        }


def owner_of(name: str) -> str:
    """Return the table that something is of which has a name in a query: a quarantine, and decisions about it, are of a judged one."""
    layer, _, short = name.partition(".")
    return f"silver.{short}" if layer in {"quarantine", "resolutions"} else name


# The newest moment of a lake, found from the ends of the ledgers.


class _Tail:
    """The newest commits of one table, read from the last one back as far as they are asked for."""

    def __init__(self, path: Place) -> None:
        self.path = path
        self.newest = -1
        self._entries: dict[int, Entry | None] = {}
        self._foreign: dict[int, bool] = {}
        self._id = ""

    @property
    def id(self) -> str:
        """Return how the id begins that Delta gave to the table."""
        self._id = self._id or table_id(self.path)[:8]
        return self._id

    def look(self) -> None:
        """See which commit is the newest; what was read of old ones is let go."""
        before, self.newest = self.newest, latest_version(self.path)
        if self.newest < before:  # the table was made anew
            self._entries, self._foreign, self._id = {}, {}, ""
        first = self.newest - DEEP
        self._entries = {at: each for at, each in self._entries.items() if at >= first}
        self._foreign = {at: each for at, each in self._foreign.items() if at >= first}

    def entry(self, version: int) -> Entry | None:
        if version not in self._entries:
            self._entries[version] = entry_at(self.path, version)
        return self._entries[version]

    def is_foreign(self, version: int) -> bool:
        """Return whether a commit without an entry changed rows: another tool made it."""
        if version not in self._foreign:
            self._foreign[version] = changes_rows(self.path, version)
        return self._foreign[version]

    def holds(self, version: int, *, whole: bool) -> bool:
        """Return whether a commit has something for a reader: for a stream rows that it appends, for one of the whole table any change."""
        entry = self.entry(version)
        if entry is None:
            return self.is_foreign(version)
        if whole:
            return bool(
                entry.replaced or entry.written or entry.came or entry.gone or entry.removed
            )
        return bool(entry.appended)

    def is_same(self, one: int, other: int, *, whole: bool) -> bool:
        """Return whether two versions are the same to a reader; the look ends at the first commit with something for it."""
        first, last = sorted((one, other))
        return self.last_same(first, last, whole=whole) == last

    def last_same(self, version: int, until: int, *, whole: bool) -> int:
        """Return the newest version up to another one that is the same to a reader."""
        while version < until and not self.holds(version + 1, whole=whole):
            version += 1
        return version

    def reaches(self, version: int) -> bool:
        """Return whether the table can go back to a version: no repair was committed after it."""
        return version >= 0 and self.has_grown(version)

    def has_grown(self, version: int) -> bool:
        """Return whether no repair was committed after a version; -1 is before the first."""
        if self.newest - version > DEEP:
            return False
        return not any(self._is_repair(each) for each in range(version + 1, self.newest + 1))

    def _is_repair(self, version: int) -> bool:
        entry = self.entry(version)
        return self.is_foreign(version) if entry is None else entry.is_passed_over or entry.replaced

    def own(self, version: int) -> Entry | None:
        """Return the entry of the last batch of the table's own writer up to a version."""
        for at in range(version, max(-1, version - DEEP), -1):
            entry = self.entry(at)
            if entry is not None and not entry.is_backfill:
                return entry
        return None

    def read(self, version: int, sources: Collection[str]) -> dict[str, int]:
        """Return the version of each source up to which the table has read it at a version; -1 where it has read nothing of one."""
        found: dict[str, int] = {}
        for at in range(version, -1, -1):
            if all(each in found for each in sources):
                break
            if version - at > DEEP:
                seen = self._seen(at, version)
                found |= {each: seen[each] for each in sources if each in seen.keys() - found}
                break
            entry = self.entry(at)
            if entry is None or entry.is_backfill:
                continue
            for name, (_, last) in entry.versions.items():
                found.setdefault(name, last)
            if entry.replaced:
                break
        return {each: found.get(each, -1) for each in sources}

    def has_read(self, after: int, until: int, source: str) -> bool:
        """Return whether the table may have read something of a source after a version and up to another one."""
        if until - after > DEEP:
            return True
        entries = (self.entry(each) for each in range(after + 1, until + 1))
        return any(each and (source in each.versions or each.replaced) for each in entries)

    def _seen(self, at: int, until: int) -> Mapping[str, int]:
        """Return what was read up to a version of sources that no batch between it and another one has read.

        From the closed books, where these reach so far; a source that was read since is left out.
        """
        sums = snapshot(self.path).sums
        if sums.version < at:
            return sums_of(self.path, at).seen
        later = (self.entry(each) for each in range(until + 1, sums.version + 1))
        since = {name for each in later if each is not None for name in each.versions}
        return {name: last for name, last in sums.seen.items() if name not in since}

    def looked(self, version: int, dimension: str) -> int:
        """Return the newest version of a dimension that rows of a version were joined with; -1 where none was."""
        joined = self._joined(version, lambda entry: entry.looked.get(dimension))
        return -1 if joined is None else joined

    def static(self, version: int, name: str) -> int | None:
        """Return the newest version of a static table that rows of a version were joined with; None where none was."""
        return self._joined(version, lambda entry: entry.static.get(name))

    def _joined(self, version: int, of: Callable[[Entry], int | None]) -> int | None:
        for at in range(version, max(-1, version - DEEP), -1):
            entry = self.entry(at)
            if entry is not None and (found := of(entry)) is not None:
                return found
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Met:
    """A version of a table, and the one of a source of it that is the same to it as what it had read: a moment had both.

    Args:
        ids: How the ids of both begin.
        own: The version of the table.
        source: The version of the source.
    """

    ids: tuple[str, str]
    own: int
    source: int


class _UnsettledError(Exception):
    """No moment can be found at this instant; a batch or two later it may."""


@dataclass(slots=True)
class Finder:
    """Finds the newest moment of a lake; what it has read of the logs stays, so that the next look reads what is new.

    Args:
        lake: The lake.
        known: A moment that was found before: of what rested until then no commit is looked at again.
    """

    lake: Lake
    known: Moment | None = None
    _met: dict[tuple[str, str], _Met] = field(default_factory=dict)
    _tails: dict[Place, _Tail] = field(default_factory=dict)
    _joined: dict[Place, Sums] = field(default_factory=dict)
    _repaired: dict[str, tuple[object, str]] = field(default_factory=dict)

    def find(self, tables: Sequence[Table]) -> Moment | None:
        """Return the newest moment; None where nothing above bronze is part of one, or tables move too fast at this instant.

        Args:
            tables: All tables of the lake, in the order in which data flows.
        """
        there = [each for each in tables if self.lake.exists(each)]
        if self.known is not None:
            self._remember(there, self.known)
        try:
            left = self._left_out(there)
            at = self._settled([each for each in there if each.id not in left])
            found = self._moment(there, at, left)
            self._refuse_repaired(there, at)
        except _UnsettledError:
            return None
        if not any(each.upstream and each.id in at for each in there):
            return None
        self.known = found
        return found

    def _remember(self, there: Sequence[Table], moment: Moment) -> None:
        """Remember which versions of tables and of their sources belong together."""
        for table in there:
            own, ids = moment.versions.get(table.id), moment.ids
            for source in table.upstream if own is not None else ():
                if own is not None and {table.id, source.id} <= ids.keys():
                    pair = ids[table.id], ids[source.id]
                    met = _Met(ids=pair, own=own, source=moment.versions[source.id])
                    self._met[table.id, source.id] = met

    def is_newest(self, moment: Moment) -> bool:
        """Return whether the tables of a moment had nothing beyond it when it was looked for last: they are level, and rest."""
        tails = {name: self._tail(place_of(self.lake.root, name)) for name in moment.ids}
        return all(
            each.is_same(moment.versions[name], each.newest, whole=True)
            for name, each in tails.items()
        )

    def _tail(self, path: Place) -> _Tail:
        return self._tails.setdefault(path, _Tail(path))

    def _of(self, table: Table) -> _Tail:
        return self._tail(self.lake.table(table))

    def _sources(self, table: Table) -> list[tuple[Table, bool]]:
        """Return the tables that a table reads, and whether it follows every change of theirs or the rows that they append."""
        own = self._of(table).own(self._of(table).newest)
        is_whole = isinstance(table, Recomputed) or (
            own is not None and own.replaced and not own.promoted
        )
        return [(each, is_whole) for each in table.upstream if self.lake.exists(each)]

    def _left_out(self, there: Sequence[Table]) -> dict[str, str]:
        """Return the tables that can be no part of a moment, with the reason."""
        under_way = self._under_way()
        found: dict[str, str] = {}
        # Readers before their sources, so that none seems to have read more than there is.
        for table in reversed(there):
            try:
                self._of(table).look()
            except Exception as error:
                if damage(error, table) is None:
                    raise
                found[table.id] = "it cannot be read"
        for table in there:
            if table.id in found:
                continue
            below = [each.id for each in table.needs if each.id in found]
            try:
                why = (
                    under_way.get(table.id)
                    or (f"it reads {' and '.join(below)}, which is no part of it" if below else "")
                    or self._repair(table)
                    or self._late(table)
                )
            except Exception as error:
                if damage(error, table) is None:
                    raise
                why = "it cannot be read"
            if why:
                found[table.id] = why
        return found

    def _under_way(self) -> dict[str, str]:
        """Return the tables that a repair changes now.

        Raises:
            _UnsettledError: A migration may change any.
        """
        found: dict[str, str] = {}
        for name in self.lake.leases.names():
            place = self.lake.leases / name
            if name.endswith(REPAIRS) and is_held(place):
                found[name.removesuffix(REPAIRS)] = "a repair of it is under way"
            if name.endswith(FOLLOWING) and note_of_holder(place) is not None:
                found[name.removesuffix(FOLLOWING)] = "the tables above it follow a repair"
            if name == MIGRATES and note_of_holder(place) is not None:
                raise _UnsettledError
        for each in backfills_to_follow(self.lake):
            found |= self._unfollowed(each)
        names = {
            each
            for request in requests(self.lake)
            if not request.is_done
            for each in request.versions
        }
        return found | {owner_of(name): "a request to forget is under way" for name in names}

    def _unfollowed(self, by: ToFollow) -> dict[str, str]:
        """Return the tables that have rows of before a backfill of a table below, because it was interrupted."""
        if not self._was_repaired(by.table, by.after, by):
            return {}
        left = [each for each, at in by.left.items() if not self._was_repaired(each, at, by)]
        why = f"a backfill of {by.table} was interrupted before it was computed again"
        return dict.fromkeys(left, why)

    def _was_repaired(self, name: str, after: int, within: ToFollow) -> bool:
        """Return whether the rows of a range were computed again in a table after a version."""
        tail = self._tail(place_of(self.lake.root, name))
        newest = latest_version(tail.path)
        if newest - after > DEEP:
            sums = sums_of(tail.path)
            return max([sums.replaced_at, *(each.last for each in sums.repairs.values())]) > after
        entries = (tail.entry(each) for each in range(after + 1, newest + 1))
        return any(
            each.replaced or (each.is_backfill and within.is_within(each.since, each.until))
            for each in entries
            if each is not None
        )

    def _repair(self, table: Table) -> str:
        """Return which repair of a table was interrupted; empty where none was."""
        known = promotion_of(Shadow.of(table, self.lake))
        if known is not None and not known.done:
            return "a promotion of it was interrupted"
        if not isinstance(table, Judged):
            return ""
        if range_to_follow(table, self.lake) is not None:
            return "an import was interrupted before the tables above were computed again"
        decisions = self.lake.resolutions(table)
        was_repaired = (self.lake.leases / f"{table.id}{REPAIRS}").exists()
        if not was_repaired and not is_table(decisions):
            return ""
        # Whether one was is known from the sums of three ledgers, so they are asked only where there is a repair that is new.
        tails = [self._of(table), self._tail(self.lake.quarantine(table))]
        key = (latest_version(decisions), [_last_repair(each) for each in tails])
        before, why = self._repaired.get(table.id, (None, ""))
        if before != key or why:
            half = unfinished(table, self.lake) or unfollowed(table, self.lake)
            why = f"a {half.mode} of it was interrupted" if half else ""
            self._repaired[table.id] = (key, why)
        return why

    def _late(self, table: Table) -> str:
        """Return which source a table is too far behind; empty where none."""
        newest = self._of(table).newest
        reads = [
            (each, self._read(table, each, newest), whole) for each, whole in self._sources(table)
        ]
        if (looks := self._right_until(table)) is not None:
            reads.append((looks[0], looks[1], True))
        for source, version, whole in reads:
            tail = self._of(source)
            if version > tail.newest:
                return f"it has read {source.id} up to version {version:,}, which is not there"
            is_rested = tail.newest - version > RESTED
            last = version if is_rested else tail.last_same(version, tail.newest, whole=whole)
            if last == tail.newest:
                continue
            if not tail.reaches(last) or self._is_long(tail, last + 1):
                return f"it has read {source.id} up to version {version:,} of {tail.newest:,}"
        return ""

    def _read(self, table: Table, source: Table, version: int) -> int:
        """Return the version of a source up to which a table has read it at a version, or a later one that is the same to it."""
        own, met = self._of(table), self._met.get((table.id, source.id))
        read = own.read(version, [source.id])[source.id]
        if met is None or read >= met.source or not met.own <= version:
            return read
        is_known = met.ids == (own.id, self._of(source).id)
        return met.source if is_known and not own.has_read(met.own, version, source.id) else read

    @staticmethod
    def _is_long(tail: _Tail, first: int) -> bool:
        """Return whether the first commit that is unread was made long before the newest."""
        return committed_at(tail.path, tail.newest) - committed_at(tail.path, first) > LATE

    def _right_until(self, table: Table) -> tuple[Table, int] | None:
        """Return the dimension that rows of a table are joined with, and the version up to which all of them are joined correctly."""
        dimension = table.dimension
        if dimension is None or not self.lake.exists(dimension.source):
            return None
        path = self.lake.table(table)
        if path not in self._joined or self._joined[path].version > self._of(table).newest:
            self._joined[path] = snapshot(path).sums
        sums = self._joined[path]
        follow(path, sums, self._of(table).newest)
        return dimension.source, sums.right_until

    def _settled(self, parts: Sequence[Table]) -> dict[str, int]:
        """Return the newest versions of which each has read exactly the others.

        Raises:
            _UnsettledError: There are none without going back behind a repair.
        """
        at = {each.id: self._of(each).newest for each in parts}
        moved = True
        while moved:  # the last look finds nothing to do
            moved = False
            for each in reversed(parts):
                moved |= self._go_back(each, at)
        return at

    def _go_back(self, table: Table, at: dict[str, int]) -> bool:
        """Let a table or its sources go back where they are apart; return whether one has."""
        own, moved = self._of(table), False
        sources = self._sources(table)
        for source, whole in sources:
            read = self._read(table, source, at[table.id])
            moved |= self._meet(table, source, read, at, whole=whole)
        looks = self._right_until(table)
        if looks is not None:
            dimension, version = looks
            newest = own.looked(at[table.id], dimension.id)
            moved |= self._meet(table, dimension, newest, at, whole=True)
            tail = self._of(dimension)
            if not tail.is_same(version, at[dimension.id], whole=True):
                if version > at[dimension.id]:
                    raise _UnsettledError
                moved |= self._meet(table, dimension, version, at, whole=True)
        return moved

    def _meet(
        self, table: Table, source: Table, read: int, at: dict[str, int], *, whole: bool
    ) -> bool:
        """Let a table and one of its sources meet; return whether one went back."""
        tail = self._of(source)
        if tail.is_same(read, at[source.id], whole=whole):
            return False
        goes = source if read < at[source.id] else table
        if goes is source:
            at[source.id] = tail.last_same(read, at[source.id], whole=whole)
        else:
            at[table.id] -= 1
        if not self._of(goes).reaches(at[goes.id]):
            raise _UnsettledError
        return True

    def _refuse_repaired(self, there: Sequence[Table], at: Mapping[str, int]) -> None:
        """Refuse what was found while a repair began or ended.

        Raises:
            _UnsettledError: One did.
        """
        if self._under_way().keys() & at.keys():
            raise _UnsettledError
        for table in there:
            if table.id in at:
                self._of(table).look()
                if not self._of(table).reaches(at[table.id]):
                    raise _UnsettledError

    def _moment(
        self, there: Sequence[Table], at: Mapping[str, int], left: Mapping[str, str]
    ) -> Moment:
        versions, ids, times = dict(at), dict[str, str](), list[datetime]()
        offsets: dict[str, int] = {}
        for table in there:
            if table.id not in at:
                continue
            path = self.lake.table(table)
            times.append(committed_at(path, at[table.id]))
            ids[table.id] = self._of(table).id
            own = self._of(table).own(at[table.id])
            if isinstance(table, Ingested) and own is not None:
                offsets |= {part: end for part, (_, end) in own.offsets.items()}
            if isinstance(table, Judged):
                versions |= self._beside(table, own)
            self._add_static(table, at[table.id], versions)
        besides = {*versions} - {*at}
        times += [
            committed_at(place_of(self.lake.root, name), versions[name])
            for name in besides
            if versions[name] >= 0
        ]
        newest = max(times, default=EPOCH)
        return Moment(at=newest, versions=versions, offsets=offsets, behind=dict(left), ids=ids)

    def _add_static(self, table: Table, version: int, versions: dict[str, int]) -> None:
        """Add the static tables that rows of a version were joined with, each at the newest such version of all tables."""
        for each in table.static:
            path = self.lake.table(each)
            if is_table(path):
                latest, joined = latest_version(path), self._of(table).static(version, each.id)
                # One that was made anew has fewer versions than rows of before say.
                found = latest if joined is None else min(joined, latest)
                if joined is not None or each.id not in versions:
                    versions[each.id] = max(versions.get(each.id, -1), found)

    def _beside(self, table: Judged, own: Entry | None) -> dict[str, int]:
        """Return the versions of a table's quarantine and of the decisions about it that belong to its last batch."""
        found: dict[str, int] = {}
        held, decided = self.lake.quarantine(table), self.lake.resolutions(table)
        if is_table(held):
            found[f"quarantine.{table.name}"] = self._held_until(self._tail(held), own)
        if is_table(decided):
            found[f"resolutions.{table.name}"] = latest_version(decided)
        return found

    @staticmethod
    def _held_until(tail: _Tail, own: Entry | None) -> int:
        """Return the version of a quarantine that has what a table's last batch held, and nothing of the batch after it.

        Raises:
            _UnsettledError: A repair has changed it since.
        """
        tail.look()
        until = tail.newest
        for version in range(tail.newest, max(-1, tail.newest - DEEP), -1):
            entry = tail.entry(version)
            if entry is None or entry.is_backfill:
                continue
            is_later = own is None or (entry.stream == own.stream and entry.batch > own.batch)
            if not is_later:
                break
            until = version - 1
        if until < tail.newest and not tail.has_grown(until):
            raise _UnsettledError
        return until


def _last_repair(tail: _Tail) -> int:
    """Return the version of the last repair among a table's newest commits; -1 where there is none."""
    tail.look()
    for version in range(tail.newest, max(-1, tail.newest - RECENT), -1):
        entry = tail.entry(version)
        if entry is not None and (entry.is_passed_over or entry.replaced):
            return version
    return -1
