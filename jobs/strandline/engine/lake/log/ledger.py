"""The ledger: what each commit read, and where every row of it went.

An entry is the ``userMetadata`` of the commit that holds the rows, so it cannot disagree with them, survives what the
commit survives, and costs no commit of its own. Reading the ledger means reading the first line of each file in a
table's log; no Spark is needed.

The last entry also answers *was this batch written?* for a stream that starts again after a crash.
A table has one writer (jobs/strandline/engine/lake/locks.py), so no commit can come between the question and its own.

Rows with several reasons are counted under the first; the quarantine keeps all of them.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cache, lru_cache, wraps
from typing import Any, ParamSpec, Protocol, TypeVar

from strandline.core.errors import DataError
from strandline.engine.lake.log.commit_log import (
    Kind,
    actions,
    commit_file,
    is_commit,
    log_of,
    versions,
)
from strandline.engine.lake.place import Place

COMMIT = re.compile(r"(\d{20})\.json")

_LATEST: dict[Place, int] = {}
"""The newest version of each table that this process has seen: one number a table."""


def latest_listed(path: Place, checkpoint: Callable[[Place], int | None]) -> int:
    """Return the newest version of a table, or -1 when there is no table.

    Each look at a key is a request there, so versions are not counted up one by one as in a folder. The log is listed from the newest
    version on that this process has seen, which is one request, whatever the age of the table.

    Args:
        path: The table.
        checkpoint: Returns the version of Delta's newest checkpoint, from which a process begins.
    """
    known = _LATEST.get(path)
    found = _from(path, known) if known is not None else None
    if found is None:  # the first look, or the table was made anew
        found = _from(path, checkpoint(path) or 0)
    if found is None:
        _LATEST.pop(path, None)
        return max(versions(path), default=-1)
    _LATEST[path] = found
    return found


def _from(path: Place, first: int) -> int | None:
    """Return the newest version that follows one without a gap; None where that one is not in the log."""
    names = log_of(path).names_from(commit_file(path, first).name)
    listed = [int(found[1]) for name in names if (found := COMMIT.fullmatch(name))]
    if not listed or listed[0] != first:
        return None
    return max(version for number, version in enumerate(listed) if version == first + number)


MARK = "strandline"

LOOKED_AGAIN = "look up again"
"""The mode of a commit that corrects what its rows took from a dimension."""

EXPIRE = "expire"
"""The mode of a commit that deletes rows which are older than their table keeps them."""

FORGET = "forget"
"""The mode of a commit that deletes rows on request; its ``stream`` names the request by a hash."""

STATIC = "static"
"""The mode of a commit that is a version of a static table, and its ``stream``."""

Offsets = Mapping[str, tuple[int, int]]
"""Per Kafka partition (as text, for JSON) the first offset and the one after the last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Through:
    """What a silver function did to the number of its records; each should have exactly one row.

    Args:
        lost: Records without a row.
        made: Rows beyond the first of a record.
    """

    lost: int = 0
    made: int = 0


NOTHING = Through()


GATE, LEDGER = "gate", "ledger"
"""Parts of a batch: whether it is believed, and where each of its rows is."""


class Cost(Protocol):
    """What measures the cost of a batch."""

    def wall_ms(self) -> int:
        """Return the milliseconds since its begin."""

    def cpu_ms(self) -> int:
        """Return the milliseconds of CPU since its begin."""

    def own_ms(self) -> int:
        """Return those of the batch alone, which no other batch was given."""

    def part_ms(self, name: str) -> int:
        """Return those of a part of it."""

    def uneven_ms(self) -> tuple[int, int] | None:
        """Return those of the longest task and of the median one, of the stage that waited most for one task; None without one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One committed batch.

    Args:
        table: The table's one name.
        mode: The mode that wrote it.
        stream: The checkpoint's identity, by which a new one is noticed.
        batch: The batch's number within its stream.
        source: What was read: topics or tables.
        offsets: For a topic, the range of each partition.
        sent: For a feed, the range of each partition of its topic in which the records that it wrote were counted; a
            range begins where that of the entry before ended.
        imported: Of the rows read, the ranges that came from files.
        versions: For each table that was read, the first version and the last, both included; none without rows.
        most: The most rows that a batch should have when this one was planned; a single commit may have more.
        read: Rows read; of a topic with kinds those of the kinds that the table takes.
        others: Rows of the source that it passed on the way, because they are of kinds that it does not take.
        kinds: For bronze, the records of each kind that a table took when they were read; for silver, the rows read of each
            kind that it names.
        unrouted: For bronze, the records of the commonest kinds that no table took then, by kind.
        unrouted_more: The records of the other such kinds.
        kindless: The records without a kind, which no table takes.
        routed_by: How kinds were distinguished; empty where the topics have none.
        takes: Which of them the table took.
        skipped: Of the rows read, those that a silver table passes over on purpose, by the name of the rule.
        good: Rows accepted; of a silver table that makes rows of lists the records; of a derived table the rows taken in: those read that its state did not refuse.
        passed_over: Of these, the rows that a derived table left out on purpose. Known where its function only selects
            from one source, so that no row waits and none becomes several; None elsewhere.
        items: Of a table that makes rows of lists, the items of the records accepted, as they were counted before they were
            written: ``written`` counts them in the files, ``held_items`` those that are held, and ``items_passed_over`` those
            that the function of a derived table left out. None elsewhere.
        items_passed_over: Of these, the items that a derived table left out on purpose. Known where its function only selects.
        listed: The list of which it makes rows.
        counted: Of these, the rows that are counted in the windows that were written, where the table names the column
            that counts them (``source_count``); the others wait for their windows to close, or were left out.
        duplicates: Copies of rows accepted earlier: the rows that left the table's function, less those that were kept.
        keeps_copies: Whether the table looks for no copies, so that ``duplicates`` is 0 whatever was sent twice.
        quarantined: Rows held back, by reason.
        held_items: Of these, the items of records that are believed, where a table holds a bad item by itself.
        dropped_by_watermark: Rows that Spark's state refused; the law of lateness and disorder makes it 0, and any
            other number is a fault.
        dropped_above: Rows that an operator of the stream made and another above it refused, by what that one does with
            the others; no row of a source, so they are not among those that were read. Any of them is a fault.
        dropped_between: For a derived table, the range of event time in which these rows lie, in microseconds, both ends
            included; a backfill of it brings them in.
        noted: The records whose payloads were read for what they have beside their declaration; 0 where that cannot be seen.
        drift: What these have beside it, of the commonest: a line of the reader (jobs/strandline/core/parse.py), with the records that have
            it, the place of the first in Kafka and its arrival.
        drift_more: How often they have what is not named.
        lost_by_function: Records read for which the table's function gave no row; any number but 0 is a fault.
        made_by_function: Rows that the function gave beyond one for each record; likewise.
        lost: Of ``offsets``, the ranges that expired in Kafka before they were read; nothing else is in such an entry.
        accepted: Who accepted that loss, when and why; likewise of a topic that was retired, and of a cluster that was left.
        retired: For bronze, the topics that are read no more from this entry on: the id of each, and who decided that and why; an empty
            text takes it back.
        moved: For bronze that goes on at another cluster, for each partition on the former one the offset up to which it was read,
            and its end there; -1 where that was not asked. Where it begins on the new one is in ``offsets``.
        without_record: Kafka offsets that hold no record: transaction markers, aborted or compacted away.
        written: Rows in the files of this commit.
        replaced: Whether the commit replaced everything before it.
        whole: Whether a stream began with a snapshot of its sources at the first of ``versions`` instead of their first
            commit; the snapshot includes every correction made before it.
        promoted: For a rebuilt table that replaced the live one, the id of the rebuild.
        looked: For each dimension that its rows were joined with, the version; -1 where it did not exist.
        static: For each static table that its rows were joined with, the version.
        before_static: For each of these, the rows that were read whose event lies before its first version.
        over_until: For windows that are emitted once they are over, the moment up to which they were, in microseconds; None elsewhere.
        holds_from: For a version of a static table, the moment from which it holds; empty where it holds of all time.
        since: For a backfill, the start of its range of event time; its counts are what it changed, so they may be
            negative, and no stream reads it.
        until: For a backfill, the end of its range.
        came: For a backfill, rows that were added.
        gone: For a backfill, rows that were removed.
        expired: Rows that retention deleted, all of them older than ``until``.
        forgotten: Rows that a request to forget deleted.
        released: Of these two, in a quarantine, the records that had been released before.
        changed: For a batch that replaced rows, the range of event time that changed, in microseconds, both ends
            included; with it no reader has to compare files. Unknown when None.
        broke: How many rows broke each rule, each row counted under every rule; reasons of parsing and of time as well.
        failed: The expectations that the batch did not meet: those that only warn, and those for which a gate was opened.
        opened: Why an operator opened the gate for this batch.
        rules: Fingerprint of the rules by which it was judged.
        contract: Fingerprint of the columns of its rows.
        newest: The newest event time among its good rows, as text.
        newest_arrival: For bronze, the newest arrival up to this commit and with it, as text (jobs/strandline/engine/flow/ingest.py);
            for an import that of its own rows, where no stream above had read a row yet.
        watermark: The watermark of the batch, as text.
        closed_by: Who ordered that all time up to this watermark is over, when, and by which word; None where rows moved it.
        duration_ms: From the start of the batch to its commit.
        cpu_ms: CPU time of the process meanwhile, including queries that ran beside the batch.
        own_ms: CPU time of the batch alone: its threads and its tasks, until this commit and, of a stream, since the one before
            (jobs/strandline/engine/runtime/jvm.py); 0 in entries of before, and of what a batch holds, whose table's entry has all of it.
        uneven_ms: Of the batch's stages with much work the one that waited most for one task: how long that took, and the median one of the
            same stage; None where no stage had much.
        gate_ms: Of its own milliseconds those of threads that decided whether the batch is believed.
        ledger_ms: Those that counted where its rows are; without the tasks of jobs, of which there are seldom some.
        code: Hash of the code that made the rows.
        epoch: On an object store, which holder of its table's lease committed it (jobs/strandline/engine/lake/store_lease.py).
    """

    table: str
    mode: str
    stream: str
    batch: int
    source: str
    offsets: Offsets = field(default_factory=dict)
    sent: Offsets = field(default_factory=dict)
    imported: Offsets = field(default_factory=dict)
    versions: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    most: int = 0
    read: int = 0
    others: int = 0
    kinds: Mapping[str, int] = field(default_factory=dict)
    unrouted: Mapping[str, int] = field(default_factory=dict)
    unrouted_more: int = 0
    kindless: int = 0
    routed_by: str = ""
    takes: str = ""
    skipped: Mapping[str, int] = field(default_factory=dict)
    good: int = 0
    items: int | None = None
    items_passed_over: int | None = None
    listed: str = ""
    passed_over: int | None = None
    counted: int = 0
    duplicates: int = 0
    keeps_copies: bool = False
    quarantined: Mapping[str, int] = field(default_factory=dict)
    held_items: int = 0
    dropped_by_watermark: int = 0
    dropped_above: Mapping[str, int] = field(default_factory=dict)
    dropped_between: tuple[int, int] | None = None
    noted: int = 0
    drift: Mapping[str, tuple[int, str, str]] = field(default_factory=dict)
    drift_more: int = 0
    lost_by_function: int = 0
    made_by_function: int = 0
    lost: Offsets = field(default_factory=dict)
    accepted: str | None = None
    retired: Mapping[str, str] = field(default_factory=dict)
    moved: Offsets = field(default_factory=dict)
    without_record: int = 0
    written: int = 0
    replaced: bool = False
    whole: bool = False
    promoted: str | None = None
    looked: Mapping[str, int] = field(default_factory=dict)
    static: Mapping[str, int] = field(default_factory=dict)
    before_static: Mapping[str, int] = field(default_factory=dict)
    over_until: int | None = None
    holds_from: str = ""
    since: str | None = None
    until: str | None = None
    came: int = 0
    gone: int = 0
    expired: int = 0
    forgotten: int = 0
    released: int = 0
    changed: tuple[int, int] | None = None
    broke: Mapping[str, int] = field(default_factory=dict)
    failed: tuple[str, ...] = ()
    opened: str | None = None
    rules: str = ""
    contract: str = ""
    newest: str | None = None
    newest_arrival: str | None = None
    watermark: str | None = None
    closed_by: str | None = None
    duration_ms: int = 0
    cpu_ms: int = 0
    own_ms: int = 0
    uneven_ms: tuple[int, int] | None = None
    gate_ms: int = 0
    ledger_ms: int = 0
    code: str = ""
    epoch: int = 0

    @property
    def is_backfill(self) -> bool:
        """Return whether the commit replaced rows beside the table's own writer."""
        return self.since is not None

    @property
    def lost_offsets(self) -> int:
        """Return how many offsets expired in Kafka before they were read."""
        return sum(end - first for first, end in self.lost.values())

    @property
    def appended(self) -> int:
        """Return the rows that a stream reading the table receives."""
        return 0 if self.is_passed_over else self.written

    @property
    def removed(self) -> int:
        """Return the rows that are gone for good; what was read and where it went stays in the books."""
        return self.expired + self.forgotten

    @property
    def is_passed_over(self) -> bool:
        """Return whether streams that read the table skip the commit, because it replaced rows."""
        return self.is_backfill or self.promoted is not None

    @property
    def accounted(self) -> int:
        """Return the rows whose destination is known, those included that were never sent."""
        kept = self.good + self.duplicates + self.held_records
        gone = sum(self.skipped.values()) + self.dropped_by_watermark + self.lost_by_function
        return kept + gone

    @property
    def held_records(self) -> int:
        """Return the records held back; an item that is held is of a record that is believed."""
        return sum(self.quarantined.values()) - self.held_items

    @property
    def is_accounted(self) -> bool:
        """Return whether each row that was read or made is in exactly one place."""
        return self.read + self.made_by_function == self.accounted

    def settled(
        self, *, good: int, held: Mapping[str, int], dropped: int, through: Through = NOTHING
    ) -> "Entry":
        """Add where the rows went.

        Args:
            good: Rows accepted.
            held: Rows held back, by reason.
            dropped: Rows that the watermark refused.
            through: What the table's function lost and made. What left it and was neither kept nor refused is a copy,
                because only copies are dropped between the function and the rows.
        """
        left = self.read - through.lost + through.made
        records = sum(held.values()) - self.held_items
        missing = left - good - records - sum(self.skipped.values()) - dropped
        return replace(
            self,
            good=good,
            quarantined=dict(held),
            dropped_by_watermark=dropped,
            lost_by_function=through.lost,
            made_by_function=through.made,
            # Where no copy is looked for, no row is missing by being one; a repair may bring in what was missing.
            duplicates=0 if self.keeps_copies and not self.is_backfill else missing,
        )

    def routed(self, others: int, kinds: Mapping[str, int]) -> "Entry":
        """Leave to other tables the rows that are of kinds which this one does not take.

        Args:
            others: Their number.
            kinds: The rows of each kind that the table names.
        """
        return replace(
            self, read=self.read - others, others=self.others + others, kinds=dict(kinds)
        )

    def taken_in(self, *, written: int, counted: int, selects: bool) -> "Entry":
        """Add, for a derived table, what its function made of the rows that it read.

        Args:
            written: Rows written.
            counted: The rows that they count.
            selects: Whether the function leaves rows out and does nothing else to their number.
        """
        if (
            self.items is not None
        ):  # a record is several rows, so only of its items is known what was left out
            return replace(self, items_passed_over=self.items - written if selects else None)
        return replace(self, counted=counted, passed_over=self.good - written if selects else None)

    def as_received(self, rows: int) -> "Entry":
        """Add the rows of a step that judges none: each record that it reads is a row that it writes."""
        return replace(self, read=rows, good=rows, written=rows)

    def exchanged(  # noqa: PLR0913  # what a repair may change
        self,
        *,
        came: int,
        gone: int,
        held: Mapping[str, int],
        is_judged: bool = True,
        records: int | None = None,
        through: Through = NOTHING,
    ) -> "Entry":
        """Add what a repair changed. It reads no new event, so what comes to the table has left the quarantine, or was no row.

        Args:
            came: Rows that were added.
            gone: Rows that were removed.
            held: By how many the rows held back become more or less, by reason.
            is_judged: Whether the table's own books count what it has, and not what it has read.
            records: By how many the records of these rows become more or less, where a record is not one row.
            through: What the table's function lost and made.
        """
        grown = came - gone if records is None else records
        good = grown if is_judged else 0
        settled = self.settled(good=good, held=held, dropped=0, through=through)
        return replace(settled, came=came, gone=gone)

    def closed(self, cost: Cost, *, written: int | None = None, goes_on: bool = False) -> "Entry":
        """Add the rows written, of a repair those by which the table grows, and the cost of the batch; the commit follows.

        Where the batch goes on to another commit, that one says what both used: who hears of a batch hears of the last.
        """
        rows = self.came - self.gone if written is None else written
        return replace(
            self,
            written=rows,
            duration_ms=cost.wall_ms(),
            cpu_ms=cost.cpu_ms(),
            own_ms=0 if goes_on else cost.own_ms(),
            uneven_ms=cost.uneven_ms(),
            gate_ms=cost.part_ms(GATE),
            ledger_ms=cost.part_ms(LEDGER),
        )

    def encoded(self) -> str:
        """Return the entry as the text of a commit's metadata."""
        return json.dumps({MARK: 1, **asdict(self)}, separators=(",", ":"))


def entries(path: Place) -> Iterator[tuple[int, Entry]]:
    """Yield version and entry of each of a table's commits, oldest first."""
    for version in versions(path):
        entry = entry_at(path, version)
        if entry is not None:
            yield version, entry


def between(path: Place, first: int, last: int) -> Iterator[Entry]:
    """Yield the entries of some versions, both included, without listing the log."""
    for version in range(first, last + 1):
        entry = entry_at(path, version)
        if entry is not None:
            yield entry


def is_passed_over(path: Place, version: int) -> bool:
    """Return whether a stream skips a version of a table."""
    return any(entry.is_passed_over for entry in between(path, version, version))


def last_entry(path: Place, until: int | None = None) -> tuple[int, Entry] | None:
    """Return the newest entry of the table's own writer; backfills and maintenance commits are skipped.

    Args:
        path: The table.
        until: The version at which to begin; the latest when absent.
    """
    for version in range(latest_version(path) if until is None else until, -1, -1):
        entry = entry_at(path, version)
        if entry is not None and not entry.is_backfill:
            return version, entry
    return None


_LOOK: ContextVar[dict[Any, Any] | None] = ContextVar("look", default=None)

P = ParamSpec("P")
R = TypeVar("R")


def once_a_look(asked: Callable[P, R]) -> Callable[P, R]:
    """Let a question have one answer within a look; an empty one is asked for again, because a table may be made meanwhile."""

    @wraps(asked)
    def once(*given: P.args, **named: P.kwargs) -> R:
        seen = _LOOK.get()
        if seen is None:
            return asked(*given, **named)
        question = (asked.__name__, given, *named.items())
        if not seen.get(question):
            seen[question] = asked(*given, **named)
        found: R = seen[question]
        return found

    return once


@once_a_look
def is_table(path: Place) -> bool:
    """Return whether a table was ever created; called so often that it must not list the log.

    A folder that this user may not read holds one: who reads it gets the refusal, and not who asks for all tables.
    """
    try:
        return is_commit(path, 0) or _checkpoint(path).is_file()
    except PermissionError:
        return True


@contextmanager
def one_look() -> Iterator[None]:
    """Let a table's newest version be what it was when it was first asked for, for the length of the block.

    A question about all tables asks it of each ten times, and is one look at the lake. Nothing that commits to a table may be in it.
    """
    within = _LOOK.set({})
    try:
        yield
    finally:
        _LOOK.reset(within)


def look_again() -> None:
    """Ask anew from here on, within a look."""
    if (seen := _LOOK.get()) is not None:
        seen.clear()


def latest_in_look(path: Place) -> int | None:
    """Return the newest version within a look, where it is asked once; None without one, where a reader goes on as far as there are commits."""
    return None if _LOOK.get() is None else latest_version(path)


def latest_version(path: Place) -> int:
    """Return the table's newest version, or -1 when there is no table; within one look it is asked once."""
    seen = _LOOK.get()
    if seen is None:
        return _latest_version(path)
    if path not in seen:
        seen[path] = _latest_version(path)
    found: int = seen[path]
    return found


def _latest_version(path: Place) -> int:
    """Return the same.

    Counts up from the newest checkpoint instead of listing the log, because every batch calls it and a listing grows
    with the table's history.
    """
    if not path.is_local:
        return latest_listed(path, newest_checkpoint)
    checkpoint = newest_checkpoint(path)
    version = max(versions(path), default=-1) if checkpoint is None else checkpoint
    while is_commit(path, version + 1):
        version += 1
    return version


def newest_checkpoint(path: Place) -> int | None:
    """Return the version of the newest checkpoint that Delta wrote of a table; None if none yet, or its note is torn."""
    try:
        return int(json.loads(_checkpoint(path).text() or "")["version"])
    except (OSError, ValueError, KeyError):
        return None


def _checkpoint(path: Place) -> Place:
    return log_of(path) / "_last_checkpoint"


def entry_at(path: Place, version: int) -> Entry | None:
    """Return the ledger entry of a version; None when it has none, or there is no such version."""
    try:
        stamp = commit_file(path, version).stamp() if path.is_local else ""
    except FileNotFoundError:  # none, or moved out of the log
        stamp = ""
    return _entry_again(path, version, stamp) if stamp else _entry_at(path, version)


@lru_cache(maxsize=2_000)
def _entry_again(path: Place, version: int, stamp: str) -> Entry | None:  # noqa: ARG001  # a commit that was written again is another
    """Return the same of one that may be asked for again: a balance reads each entry of a table four times, with those that read it."""
    return _entry_at(path, version)


def _entry_at(path: Place, version: int) -> Entry | None:
    try:
        # Delta writes commitInfo first, but does not promise it.
        info = next((action.body for action in actions(path, version, Kind.INFO)), {})
    except FileNotFoundError:
        return None
    return entry_in(info, path, version)


def entry_text(path: Place, version: int) -> str:
    """Return the metadata of a commit as it is in the log; empty where it has none."""
    if not is_commit(path, version):
        return ""
    info = next((action.body for action in actions(path, version, Kind.INFO)), {})
    return str(info.get("userMetadata") or "")


def entry_in(info: Mapping[str, Any], path: Place, version: int) -> Entry | None:
    """Return the ledger entry of a version from what its commit says of itself; None when it has none."""
    text = info.get("userMetadata")
    if text is None:
        return None
    try:
        found = json.loads(text)
    except ValueError:
        return None  # metadata of another tool
    if not isinstance(found, dict) or found.get(MARK) is None:
        return None
    try:
        return _entry_of(found)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise DataError(
            f"{commit_file(path, version).name} has a ledger entry that cannot be read: {type(error).__name__}: {error}",
            hint="a newer version wrote it; update this one.",
            file=str(commit_file(path, version)),
        ) from error


@cache
def _fields() -> frozenset[str]:
    return frozenset(each.name for each in fields(Entry))


def _entry_of(found: Mapping[str, Any]) -> Entry:
    known = _fields()
    values = {name: value for name, value in found.items() if name in known}
    values["failed"] = tuple(found.get("failed") or ())
    range_changed = found.get("changed") or found.get("speaks_of")  # its key in an older lake
    values["changed"] = tuple(range_changed or ()) or None
    for pair in ("dropped_between", "uneven_ms"):
        values[pair] = tuple(found.get(pair) or ()) or None
    source, versions = found["source"], found["versions"] or {}
    if isinstance(versions, list):  # as written while a table had one source only
        versions = {source: versions}
    values["versions"] = {name: (a, b) for name, (a, b) in versions.items()}
    values["offsets"] = {
        name if "/" in name else f"{source}/{name}": (a, b)
        for name, (a, b) in found["offsets"].items()
    }
    values["drift"] = {
        line: (n, at, since) for line, (n, at, since) in found.get("drift", {}).items()
    }
    for ranges in ("sent", "imported", "lost", "moved"):
        values[ranges] = {name: (a, b) for name, (a, b) in found.get(ranges, {}).items()}
    return Entry(**values)


# How imported history is marked: its partition, its number in bronze's order, and the mode of its commits.
#
# A row of a file has no place in Kafka. It gets one that no broker gives: partition -1 of its topic, and as its offset the
# number of rows that were imported for that topic before it. So every part of the engine that follows an offset follows an
# imported row too, and the ledger's own check, that a range begins where the one before it ended, holds for files.
#
# All imported rows have the batch -1 and so come before every commit of Kafka's records, among each other in the order of
# their arrival: which copy of an event counts does not depend on when, or in which order, files were imported.


IMPORT = "import"
"""The mode of a commit that brings in rows of a file; streams pass over it."""

PARTITION = -1
BATCH = -1


def part_of_imports(topic: str) -> str:
    """Return the name of the partition of a topic's imported rows, as a ledger entry has it."""
    return f"{topic}/{PARTITION}"


def is_imported(part: str) -> bool:
    """Return whether a partition, as a ledger entry names it, has imported rows."""
    return part.endswith(f"/{PARTITION}")
