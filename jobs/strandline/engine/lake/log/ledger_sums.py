"""What the entries of a table add up to, entry by entry: the figures of a million commits in one small value.

No reader should read the entries of years for a sum. So the sums are carried forward: they are written
down from time to time, and a reader begins there and adds what came after.
All readers add in this one way, so their figures cannot differ.

``in force`` are the entries since the last batch that replaced the whole table, and that batch itself.
"""

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from strandline.core.kind import in_utc
from strandline.core.routes import REST
from strandline.engine.lake.log.commit_log import commit_text, is_commit
from strandline.engine.lake.log.ledger import (
    EXPIRE,
    FORGET,
    IMPORT,
    LOOKED_AGAIN,
    Entry,
    entry_at,
    latest_in_look,
    once_a_look,
)
from strandline.engine.lake.log.log_actions import removes_rows, table_id
from strandline.engine.lake.place import Place

EPOCH, MICROSECOND = datetime(1970, 1, 1, tzinfo=UTC), timedelta(microseconds=1)

MOST_KINDS = 100
"""How many kinds that no table takes are named: they are foreign text, and a producer may send another one each time."""

MOST_CODES = 20
"""How many versions of code are remembered that made the rows of a table; of more the ones that made some last."""

MOST_LINES = 200
"""How many lines of what payloads have beside their declaration are named: names of fields are foreign text as well."""

MOST_DROPS = 100
"""How many batches that dropped rows are remembered apart from each other."""

OF_RECORDS = ("silver.", "quarantine.")
"""How the names of tables begin whose items are not summed up: entries of before had them, and books that were closed then have not."""

UNDO = "undo "
"""The begin of ``promoted`` in the entry of a promotion that was undone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Repair:
    """A backfill or a replay: what its entries in one table add up to.

    All are kept: they are asked for by persons and once a night, and ten years of nights are a megabyte.

    Args:
        generation: The generation of rows that it changed.
        first: The version of its first entry.
        last: The version of its last entry.
        mode: The mode that wrote it.
        moved: The rows that came or went.
        held: What it changed in the quarantine, by reason.
        held_items: Of this, the items of believed records.
    """

    generation: int
    first: int
    last: int
    mode: str
    moved: int
    held: dict[str, int]
    held_items: int = 0


@dataclass(slots=True, kw_only=True)
class ByKind:
    """The records of each kind that entries have read.

    Args:
        taken: Of bronze, those of each kind that a table took when they were read; of silver, its rows of each kind.
        unrouted: Of bronze, those of kinds that no table took then: of the commonest by kind.
        more: Those of the other such kinds.
        kindless: The records without a kind.
        by: Of bronze, how kinds are distinguished in these figures.
        imported: Of these, those that came from files, by kind; a stream passes over them, and an import brings them.
        before: Of bronze, the records that came while they were distinguished in another way, or not at all.
    """

    taken: dict[str, int] = field(default_factory=dict)
    unrouted: dict[str, int] = field(default_factory=dict)
    more: int = 0
    kindless: int = 0
    by: str = ""
    imported: dict[str, int] = field(default_factory=dict)
    before: int = 0

    @property
    def known(self) -> dict[str, int]:
        """Return the records of each kind that has a name here."""
        return {**self.taken, **{k: n + self.taken.get(k, 0) for k, n in self.unrouted.items()}}

    def add(self, entry: Entry, read_before: int) -> None:
        """Add the next entry.

        Args:
            entry: The entry.
            read_before: All that the entries before it have read.
        """
        if entry.offsets and entry.read and entry.routed_by != self.by:
            # Of one declaration another knows nothing.
            self.before = read_before
            self.taken, self.unrouted, self.more, self.kindless = {}, {}, 0, 0
            self.imported = {}
            self.by = entry.routed_by
        _count(self.taken, entry.kinds)
        _count(self.unrouted, entry.unrouted)
        # What is deleted may have had no name here.
        fewer = [self.unrouted.pop(kind) for kind, n in [*self.unrouted.items()] if n < 0]
        more = entry.unrouted_more + sum(fewer) + _all_but_commonest(self.unrouted)
        self.more = max(0, self.more + more)
        self.kindless += entry.kindless
        if entry.mode == IMPORT and entry.routed_by:
            self._import(entry)

    def _import(self, entry: Entry) -> None:
        rest = 0 if entry.offsets else entry.read - sum(entry.kinds.values())
        _count(self.imported, {**entry.kinds, **entry.unrouted, **({REST: rest} if rest else {})})
        foreign = {kind: n for kind, n in self.imported.items() if kind not in self.taken}
        _all_but_commonest(foreign)
        named = self.taken.keys() | foreign.keys()
        self.imported = {kind: n for kind, n in self.imported.items() if kind in named}

    def copied(self) -> "ByKind":
        """Return one that is added to apart from this one."""
        return replace(
            self,
            taken=dict(self.taken),
            unrouted=dict(self.unrouted),
            imported=dict(self.imported),
        )


def _all_but_commonest(kinds: dict[str, int]) -> int:
    """Leave of kinds the commonest; return the number of the records of the others."""
    more = sorted(kinds, key=lambda each: (-kinds[each], each))[MOST_KINDS:]
    return sum(kinds.pop(each) for each in more)


@dataclass(slots=True, kw_only=True)
class Noticed:
    """A line of the reader: a field that is not declared, or a value of another type.

    Args:
        records: The records that have it.
        since: The arrival of the first, as text.
        place: Its place in Kafka.
        before: The records that were looked at before the batch with the first.
        last: The records that were looked at up to the last batch that had it.
        is_met: Whether today's code of the table has met it.
    """

    records: int
    since: str
    place: str
    before: int
    last: int = 0
    is_met: bool = True


@dataclass(slots=True, kw_only=True)
class Drift:
    """What payloads had beside their declaration, in entries in force.

    Args:
        looked_at: The records that were looked at.
        lines: The commonest lines; those that today's code has met before the others.
        more: How often records had others.
        code: The code of the table that looked last.
    """

    looked_at: int = 0
    lines: dict[str, Noticed] = field(default_factory=dict)
    more: int = 0
    code: str = ""

    def add(self, entry: Entry) -> None:
        """Add the next entry."""
        if not entry.noted:
            return
        if entry.code != self.code:
            # What is declared since is not met again.
            for each in self.lines.values():
                each.is_met = False
            self.code = entry.code
        before = self.looked_at
        self.looked_at += entry.noted
        for line, (records, place, since) in entry.drift.items():
            known = self.lines.setdefault(
                line, Noticed(records=0, since=since, place=place, before=before)
            )
            known.records += records
            known.last, known.is_met = self.looked_at, True
        self.more += entry.drift_more + self._all_but_commonest()

    def _all_but_commonest(self) -> int:
        """Leave the commonest lines; return how often records had the others."""
        if len(self.lines) <= MOST_LINES:
            return 0
        order = sorted(
            self.lines,
            key=lambda each: (not self.lines[each].is_met, -self.lines[each].records, each),
        )
        return sum(self.lines.pop(each).records for each in order[MOST_LINES:])


@dataclass(slots=True)
class Sums:
    """The sums up to a version.

    Args:
        version: The last version that is included; -1 for none.
        replaced_at: The version of the last batch that replaced the whole table; -1 for none.
        generations: The versions at which it was replaced and not given back by an undo; 0 is the first.
        batches: Entries in force.
        read: Rows read, of the entries in force, as are the next ones.
        others: Rows of the source that it left to other tables, because they are of other kinds.
        by_kind: The records of each kind, where the topics have several.
        takes: Of silver, which of them it took last.
        rerouted: Whether it took others before, or kinds were distinguished in another way then.
        rerouted_in: The generations of rows of which that is so; an undo brings one back.
        skipped: Rows that a silver table passes over on purpose, by the name of the rule.
        drift: What payloads had beside their declaration.
        good: Rows accepted; of a table that makes rows of lists the records.
        passed_over: Of these, those that a derived table left out on purpose, as far as that is known.
        items: Of a derived table that makes rows of lists, the items of the rows accepted; books of other tables may lack those of
            entries that older code has closed.
        items_passed_over: Of these, those that it left out on purpose, as far as that is known.
        counted: Of these, those that the windows count which its own writer wrote.
        duplicates: Copies.
        dropped: Rows that the watermark refused.
        drops: Of a derived table, the rows that the watermark refused and no backfill has brought in: their number, and the
            ranges of event time that a backfill has yet to compute.
        brought_back: The rows of which backfills have computed the whole range again.
        lost_by_function: Records for which the table's function gave no row.
        made_by_function: Rows that it gave beyond one for each record.
        held: Rows held back, by reason.
        held_items: Of these, the items of believed records.
        written: Rows written, which a reader of the whole table finds if none was replaced.
        healed: Good rows that backfills and replays added, which had been held back, dropped or lost.
        back: Of these, as many as made the number of copies negative.
        looked: The dimension's version up to which every row is joined correctly; None when none is.
        before_static: For each static table the rows read whose event lies before its first version.
        appended: The rows that a stream has received which reads the table from its first version.
        moved: Rows that were ever written, added or removed.
        expired: Rows that retention deleted, in force.
        forgotten: Rows that requests to forget deleted, in force.
        released: Of these two, in a quarantine, the records that had been released before.
        horizon: The newest moment up to which retention deleted, as text: older rows may be gone. It stays when the table
            is replaced, because an undo brings back a version that lacks them.
        was_rewritten: Whether any commit replaced or removed rows, with or without an entry.
        seen: The last version read of each source.
        lost: For each partition of a topic the ranges of offsets that expired before they were read. All are kept: a
            person accepted each.
        repairs: Backfills and replays, by their streams; of imports the last one.
        imported: How many rows of files it has, by the partition of their topic.
        brought: How many rows imports have read, in force; no stream reads them.
        history: Of bronze, the newest arrival among the imported rows that came before any stream above had read a row, as
            text. What Kafka brings later is measured against it (jobs/strandline/engine/flow/ingest.py).
        retired: Of bronze, the topics that are read no more: the id that each had, then who decided that and why. All are kept:
            a person typed each.
        clusters: Of bronze, by partition on a cluster that was left: the offset up to which it was read, and its end there.
        history_ends: Of bronze, how many rows of files these are, by the partition of their topic.
        codes: Of the rows in force, for each version of the code that made some the first and the last version with such rows.
        first_read: Of these rows, the first version of each source that was read for them.
        made_from: The version from which on the two are known; books that older code has closed lack what came before.
        undone: The version at which the generation began that the last replacement gave up again; -1 where that was no undo.
        appended_before: How many rows streams had received when the newest generation began.
        redone: Of an undo, how many they received of the generation that it gave up; its stream has written those again.
    """

    version: int = -1
    replaced_at: int = -1
    generations: list[int] = field(default_factory=lambda: [0])
    batches: int = 0
    read: int = 0
    others: int = 0
    by_kind: ByKind = field(default_factory=ByKind)
    takes: str = ""
    rerouted: bool = False
    rerouted_in: list[int] = field(default_factory=list)
    skipped: dict[str, int] = field(default_factory=dict)
    drift: Drift = field(default_factory=Drift)
    good: int = 0
    passed_over: int = 0
    items: int = 0
    items_passed_over: int = 0
    counted: int = 0
    duplicates: int = 0
    dropped: int = 0
    dropped_above: dict[str, int] = field(default_factory=dict)
    drops: list[tuple[int, list[list[int]]]] = field(default_factory=list)
    brought_back: int = 0
    lost_by_function: int = 0
    made_by_function: int = 0
    held: dict[str, int] = field(default_factory=dict)
    held_items: int = 0
    written: int = 0
    healed: int = 0
    back: int = 0
    looked: int | None = None
    before_static: dict[str, int] = field(default_factory=dict)
    appended: int = 0
    moved: int = 0
    expired: int = 0
    forgotten: int = 0
    released: int = 0
    horizon: str | None = None
    was_rewritten: bool = False
    seen: dict[str, int] = field(default_factory=dict)
    lost: dict[str, list[list[int]]] = field(default_factory=dict)
    repairs: dict[str, Repair] = field(default_factory=dict)
    imported: dict[str, int] = field(default_factory=dict)
    brought: int = 0
    history: str | None = None
    retired: dict[str, str] = field(default_factory=dict)
    clusters: dict[str, list[int]] = field(default_factory=dict)
    history_ends: dict[str, int] = field(default_factory=dict)
    codes: dict[str, list[int]] = field(default_factory=dict)
    first_read: dict[str, int] = field(default_factory=dict)
    made_from: int = 0
    undone: int = -1
    appended_before: int = 0
    redone: int = 0

    @property
    def begun(self) -> int:
        """Return the version at which the present generation of rows begins."""
        return self.generations[-1]

    @property
    def dropped_and_healed(self) -> int:
        """Return how many of the healed rows the watermark had dropped.

        The entry of a backfill counts changes: how many good rows more, how many held rows fewer, and the rest counts as
        copies. No entry names the rows that the watermark had dropped, so they fall into that rest: a lake in which a
        backfill added 50 of them showed 50 dropped rows and -50 copies. The sum was right, but no reader understood it.
        So an added row that makes the number of copies negative counts as dropped before. Where one backfill both adds
        dropped rows and holds copies back, the ledger cannot distinguish the two, and both count as dropped.
        """
        return min(self.back, self.dropped)

    @property
    def lost_and_healed(self) -> int:
        """Return how many of the healed rows the table's function had lost, likewise; those that were dropped count first."""
        return min(self.back - self.dropped_and_healed, self.lost_by_function)

    @property
    def removed(self) -> int:
        """Return the rows that are gone for good."""
        return self.expired + self.forgotten

    @property
    def right_until(self) -> int:
        """Return the dimension's version up to which every row is joined correctly; -1 when none is."""
        return -1 if self.looked is None else self.looked

    def add(self, version: int, entry: Entry) -> None:
        """Add the next entry."""
        if entry.replaced:
            self._begin_again(version, entry)
        self.batches += 1
        self._reroute(entry)
        self.by_kind.add(entry, self.read)
        self.read += entry.read
        self.others += entry.others
        _count(self.skipped, entry.skipped)
        self.drift.add(entry)
        self.good += entry.good
        self.passed_over += entry.passed_over or 0
        if not entry.table.startswith(OF_RECORDS):
            self.items += entry.items or 0
        self.items_passed_over += entry.items_passed_over or 0
        self.counted += entry.counted
        self.duplicates += entry.duplicates
        self.dropped += entry.dropped_by_watermark
        _count(self.dropped_above, entry.dropped_above)
        if entry.dropped_between:
            self._drop(entry.dropped_by_watermark, [[*entry.dropped_between]])
        self.lost_by_function += entry.lost_by_function
        self.made_by_function += entry.made_by_function
        self.written += entry.written
        self._remove(entry)
        _count(self.held, entry.quarantined)
        self.held_items += entry.held_items
        _count(self.before_static, entry.before_static)
        self.appended += entry.appended
        self.was_rewritten |= entry.is_passed_over
        self._make(version, entry)
        for source, (_, last) in entry.versions.items():
            self.seen[source] = max(last, self.seen.get(source, 0))
        for part, reach in entry.lost.items():
            self.lost.setdefault(part, []).append([*reach])
        for part, (_, end) in entry.imported.items():
            self.imported[part] = end
        for topic, why in entry.retired.items():
            self.retired.pop(topic, None)
            self.retired |= {topic: why} if why else {}
        self.clusters |= {part: [*ends] for part, ends in entry.moved.items()}
        self._look(entry)
        if entry.is_backfill:
            self._repair(version, entry)
        else:
            self.moved += entry.written
        self.version = version

    def _reroute(self, entry: Entry) -> None:
        """Note whether a table of silver reads other records than before."""
        if not entry.versions:
            return
        is_other = (entry.takes, entry.routed_by) != (self.takes, self.by_kind.by)
        if is_other and self.seen:
            self.rerouted = True
            self.rerouted_in.append(self.begun)
        self.takes, self.by_kind.by = entry.takes, entry.routed_by

    def _make(self, version: int, entry: Entry) -> None:
        """Note by which code rows were made, and from which version of each source on."""
        if entry.code and (entry.written > 0 or entry.came):
            first, _ = self.codes.pop(entry.code, (version, version))
            self.codes[entry.code] = [first, version]
            if len(self.codes) > MOST_CODES:
                self.codes.pop(next(iter(self.codes)))
        for source, (first, _) in entry.versions.items():
            self.first_read[source] = min(first, self.first_read.get(source, first))

    def _remove(self, entry: Entry) -> None:
        self.expired += entry.expired
        self.forgotten += entry.forgotten
        self.released += entry.released
        if entry.mode == EXPIRE and entry.until:
            self.horizon = max(entry.until, self.horizon or "")

    def _begin_again(self, version: int, entry: Entry) -> None:
        self.batches = self.read = self.good = self.duplicates = self.dropped = self.written = 0
        self.lost_by_function = self.made_by_function = self.passed_over = self.counted = 0
        self.others, self.by_kind, self.rerouted = 0, ByKind(), False
        self.takes, self.by_kind.by = entry.takes, entry.routed_by if entry.versions else ""
        self.healed = self.back = self.expired = self.forgotten = self.released = 0
        self.drops, self.brought_back, self.dropped_above = [], 0, {}
        self.held, self.imported, self.brought, self.before_static = {}, {}, 0, {}
        self.skipped, self.held_items, self.items, self.items_passed_over = {}, 0, 0, 0
        self.codes, self.first_read = {}, {}
        self.drift = Drift()
        self.replaced_at = version
        if (entry.promoted or "").startswith(UNDO) and len(self.generations) > 1:
            self.undone = self.generations.pop()
            self.redone = self.appended - self.appended_before
            self.rerouted = self.begun in self.rerouted_in
        else:
            self.undone, self.redone, self.appended_before = -1, 0, self.appended
            self.generations.append(version)

    def _look(self, entry: Entry) -> None:
        if entry.replaced or entry.mode == LOOKED_AGAIN:
            self.looked = None
        known = [] if self.looked is None else [self.looked]
        self.looked = min([*entry.looked.values(), *known], default=None)

    def _repair(self, version: int, entry: Entry) -> None:
        moved = entry.came + entry.gone
        self.moved += moved
        if entry.mode == IMPORT:
            self.brought += entry.read + entry.others
            if entry.newest_arrival:
                self.history = max(entry.newest_arrival, self.history or "")
                self.history_ends |= {part: end for part, (_, end) in entry.imported.items()}
            self.repairs.pop(IMPORT, None)
            self.repairs[IMPORT] = self._noted(version, entry, moved)
            return
        self._bring_back(entry)
        self.healed += max(0, entry.good)
        self.back += min(max(0, -entry.duplicates), entry.came)
        if entry.mode in {LOOKED_AGAIN, EXPIRE, FORGET}:
            return
        before = self.repairs.pop(entry.stream, None)
        if before and before.generation != self.begun:
            before = None
        self.repairs[entry.stream] = self._noted(version, entry, moved, before)

    def _drop(self, rows: int, ranges: list[list[int]]) -> None:
        """Note rows that were dropped; of very many only the hull, which a backfill must then cover."""
        self.drops.append((rows, ranges))
        if len(self.drops) > MOST_DROPS:
            (one, these), (other, those), *rest = self.drops
            both = [*these, *those]
            hull = [min(first for first, _ in both), max(last for _, last in both)]
            self.drops = [(one + other, [hull]), *rest]

    def _bring_back(self, entry: Entry) -> None:
        """Take the range of a backfill out of those in which rows are missing.

        It is computed from all rows that its sources have there, those that the stream had refused among them.
        """
        if not self.drops or entry.mode in {LOOKED_AGAIN, EXPIRE, FORGET, IMPORT}:
            return
        since, until = (micros_of(str(at)) for at in (entry.since, entry.until))
        left: list[tuple[int, list[list[int]]]] = []
        for rows, ranges in self.drops:
            still = [part for each in ranges for part in _without(each, since, until)]
            if still:
                left.append((rows, still))
            else:
                self.brought_back += rows
        self.drops = left

    def _noted(
        self, version: int, entry: Entry, moved: int, before: Repair | None = None
    ) -> Repair:
        held = dict(before.held) if before else {}
        _count(held, entry.quarantined)
        return Repair(
            generation=self.begun,
            first=before.first if before else version,
            last=version,
            mode=entry.mode,
            moved=moved + (before.moved if before else 0),
            held=held,
            held_items=entry.held_items + (before.held_items if before else 0),
        )


def _without(reach: list[int], since: int, until: int) -> list[list[int]]:
    """Return what is left of a range, both ends included, without one that ends before ``until``."""
    first, last = reach
    parts = [[first, min(last, since - 1)], [max(first, until), last]]
    return [part for part in parts if part[0] <= part[1]]


def micros_of(moment: str) -> int:
    """Return a moment of an entry in microseconds since 1970."""
    return (in_utc(datetime.fromisoformat(moment)) - EPOCH) // MICROSECOND


def follow(
    path: Place,
    sums: Sums,
    until: int | None = None,
    on_entry: Callable[[int, Entry], None] = lambda *_: None,
) -> None:
    """Add the entries of a table's later versions, to the latest or to a given one.

    Args:
        path: The table.
        sums: What they are added to.
        until: The last version to add.
        on_entry: Called with each version and its entry, once it is added.
    """
    end = latest_in_look(path) if until is None else until
    while is_commit(path, sums.version + 1) if end is None else sums.version < end:
        version = sums.version + 1
        entry = entry_at(path, version)
        if entry is None:
            if not is_commit(path, version):
                break
            sums.was_rewritten |= removes_rows(path, version)
            sums.version = version
        else:
            sums.add(version, entry)
            on_entry(version, entry)


def _count(sums: dict[str, int], more: Mapping[str, int]) -> None:
    """Add counts; a reason whose rows are all released is left out."""
    for name, rows in more.items():
        total = sums.get(name, 0) + rows
        if total:
            sums[name] = total
        else:
            sums.pop(name, None)


# The sums of a table's ledger, written down at a version, so that no reader adds up years of entries.
#
# A snapshot is one small file, a pure function of the log up to its version, and may be lost or old: then a reader adds
# more entries. It names the table by the id that Delta gave it and a hash of the commit at its version, so that one of a
# table that was removed, created again or restored from a copy is not taken for one of this table.
#
# ``chain`` is a hash over all entries up to the version, each over the one before; an audit computes it again from the log
# (jobs/strandline/engine/accounting/table_books.py).


FOLDER = "_books"
FORMAT = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The sums of a table up to a version.

    Args:
        sums: What the entries add up to.
        chain: The hash over all of them.
        sheet: What else was carried forward for the table's balance (jobs/strandline/engine/accounting/table_books.py).
    """

    sums: Sums
    chain: str = ""
    sheet: Mapping[str, Any] = field(default_factory=dict)


def name_of(path: Place) -> str:
    """Return a table's name as its folder says it: ``silver.readings``, ``quarantine.readings``."""
    return f"{path.parent.name}.{path.name}"


def place_of(folder: Place, name: str) -> Place:
    """Return where the table of such a name is, in a lake or in what is kept of one."""
    return folder / name.replace(".", "/", 1)


def snapshot_file(path: Place) -> Place:
    """Return the file with the snapshot of a table."""
    return path.parent.parent / FOLDER / f"{name_of(path)}.json"


def snapshot(path: Place) -> Snapshot:
    """Return a table's last snapshot; an empty one where there is none that fits its log."""
    try:
        found = json.loads(snapshot_file(path).text() or "")
        is_own = found["format"] == FORMAT and is_commit(path, 0) and _fits(path, found)
        return _decoded(found) if is_own else Snapshot(sums=Sums())
    except (ValueError, KeyError, TypeError, AttributeError):  # none, torn, or of another version
        return Snapshot(sums=Sums())


def write(path: Place, taken: Snapshot) -> None:
    """Write the snapshot of a table; a reader sees the old one or the new one."""
    version = taken.sums.version
    words = {
        "format": FORMAT,
        "table": table_id(path),
        "version": version,
        "commit": fingerprint(path, version),
        "chain": taken.chain,
        "sums": asdict(taken.sums),
        "sheet": taken.sheet,
    }
    snapshot_file(path).put(json.dumps(words, indent=1))


@once_a_look
def sums_of(path: Place, until: int | None = None) -> Sums:
    """Return the sums of a table's entries, to the latest version or to a given one, from the last snapshot on."""
    sums = snapshot(path).sums
    if until is not None and until < sums.version:
        sums = Sums()
    follow(path, sums, until)
    return sums


def fingerprint(path: Place, version: int) -> str:
    """Return a hash of a commit; empty where there is no such version."""
    text = commit_text(path, version)
    return hashed("", text) if text else ""


def hashed(chain: str, text: str) -> str:
    """Return the hash of a text, over the hash of the one before."""
    return hashlib.sha256(f"{chain}\n{text}".encode()).hexdigest()


def _fits(path: Place, found: Mapping[str, Any]) -> bool:
    version = int(found["version"])
    return bool(found["commit"] == fingerprint(path, version) and found["table"] == table_id(path))


def _drift_of(found: Mapping[str, Any]) -> Drift:
    lines = {line: Noticed(**each) for line, each in found.get("lines", {}).items()}
    return Drift(**{**found, "lines": lines})


def _decoded(found: Mapping[str, Any]) -> Snapshot:
    known = {each.name for each in fields(Sums)}
    values = {name: value for name, value in found["sums"].items() if name in known}
    values["by_kind"] = ByKind(**values.get("by_kind", {}))
    values.setdefault("made_from", int(found["version"]) + 1)
    values["drift"] = _drift_of(values.get("drift", {}))
    values["drops"] = [(rows, ranges) for rows, ranges in values.get("drops", ())]
    repairs = {stream: Repair(**repair) for stream, repair in values.pop("repairs").items()}
    return Snapshot(
        sums=Sums(**values, repairs=repairs), chain=found["chain"], sheet=found["sheet"]
    )
