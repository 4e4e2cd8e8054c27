"""How far tables are behind while a stream runs, and their books, which are followed and closed from time to time.

When will a table have caught up? The rows that it is behind, and how fast they become fewer.

What a table is behind is its own unread rows and those that its sources have not read: while bronze catches up, what
silver has to read grows, and would look as if silver fell behind. How fast it falls is measured and not computed from a
batch: it is what is read less what arrives meanwhile, with all pauses. Commits come in steps of many seconds, so the
slope is that of a line through the last two minutes. It is not guessed from less than a part of that, and a table that
does not get closer has no time at which it has caught up.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import confluent_kafka

from strandline.core.errors import LakeError
from strandline.core.table import Ingested, Table
from strandline.engine.accounting.table_books import Books, Closed
from strandline.engine.flow.running import Wrote
from strandline.engine.kafka import broker
from strandline.engine.kafka.broker import Cluster, set_offsets
from strandline.engine.kafka.slices import Part, ends_of, range_ends
from strandline.engine.kafka.topic_log import (
    consumer,
    identities_in,
    number_in_kafka,
    offsets_of,
    read_of,
)
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger import last_entry, latest_version
from strandline.engine.lake.log.ledger_sums import Sums, follow, snapshot
from strandline.engine.runtime.outage import absence, first_line, unreached

OVER = 120.0
"""Seconds over which the fall is measured: several batches of a backlog."""

ENOUGH = 20.0
"""Seconds without which nothing is said."""

SURE = 60.0
"""Seconds without which it is not said that a table gets no closer: in the first minute of a start its sources read first."""

FEW = 1_000
"""Rows; a table that is fewer behind has caught up: they are what arrived since its last batch."""

LONG = 30 * 86_400.0
"""A time that is longer is none."""

MINUTE, HOUR, DAY = 60, 3_600, 86_400


@dataclass(slots=True)
class Trend:
    """What one table was behind in the last two minutes."""

    seen: deque[tuple[float, int]] = field(default_factory=deque)

    def add(self, at: float, behind: int) -> None:
        """Add a look; a table that has caught up begins anew with the next backlog."""
        if behind <= FEW:
            self.seen.clear()
            return
        self.seen.append((at, behind))
        while at - self.seen[0][0] > OVER:
            self.seen.popleft()

    @property
    def falls(self) -> float | None:
        """Return by how many rows a second it falls; below 0 it grows, and None is not known yet."""
        if not self.seen or self.seen[-1][0] - self.seen[0][0] < ENOUGH:
            return None
        first = self.seen[0][0]
        middle = sum(at - first for at, _ in self.seen) / len(self.seen)
        mean = sum(behind for _, behind in self.seen) / len(self.seen)
        above = sum((at - first - middle) * (behind - mean) for at, behind in self.seen)
        below = sum((at - first - middle) ** 2 for at, _ in self.seen)
        falls = -above / below if below else None
        is_short = self.seen[-1][0] - first < SURE
        return None if falls is not None and falls <= 0 and is_short else falls


def seconds_left(behind: int, falls: float | None) -> float | None:
    """Return the seconds until a table has caught up; None where that is not known, or never.

    >>> seconds_left(1_200_000, 20_000.0)
    60.0
    """
    if behind <= FEW:
        return 0.0
    if falls is None or falls <= 0:
        return None
    seconds = behind / falls
    return seconds if seconds < LONG else None


def in_words(behind: int | None, falls: float | None) -> str:
    """Return for people when a table will have caught up; nothing where it has.

    >>> in_words(1_200_000, 20_000.0)
    '1,200,000 rows behind, 20,000 fewer a second: caught up in 1 min'
    >>> in_words(1_200_000, -300.0)
    '1,200,000 rows behind, 300 more a second: it does not catch up at this rate'
    """
    if not behind or behind <= FEW:
        return ""
    if falls is None:
        return f"{behind:,} rows behind; how fast is not known yet"
    if (left := seconds_left(behind, falls)) is None:
        pace = f"{-falls:,.0f} more a second" if round(falls) < 0 else "hardly fewer"
        return f"{behind:,} rows behind, {pace}: it does not catch up at this rate"
    return f"{behind:,} rows behind, {falls:,.0f} fewer a second: caught up in {_span(left)}"


def of_pulse(pulse: Mapping[str, Any]) -> str:
    """Return the same from a heartbeat; nothing from that of an older version."""
    said = in_words(pulse.get("behind_rows"), pulse.get("falls"))
    size = pulse.get("size")
    if not said or not size:
        return said
    return f"{said} (batches of {size['rows']:,}: {size['why']})"


def _span(seconds: float) -> str:
    if seconds < MINUTE:
        return f"{max(seconds, 1):.0f} s"
    if seconds < HOUR:
        return f"{seconds / MINUTE:.0f} min"
    if seconds < DAY:
        return f"{seconds // HOUR:.0f} h {seconds % HOUR // MINUTE:.0f} min"
    return f"{seconds / DAY:.1f} days"


# When a bronze table waits with a batch of few rows, because tables of the same process are behind.
#
# A batch has a fixed cost, however few its rows are. On two busy cores bronze made a batch of thirty rows every eight seconds, and
# silver and gold committed nothing for four minutes: what is read from Kafka sooner is worth nothing while nothing above reads it.
# So a batch of few rows gives way, to its own readers until they have moved, and to others for some times what its last batch
# took; never for long, so that no other table is a minute behind for one that hangs.


WORTH_A_BATCH = 5_000
"""From so many rows on a batch costs more for its rows than for being one."""

LONGEST = 30.0
"""Seconds from a table's last commit for which its next batch gives way at most."""

GRACE = 5.0
"""Seconds for which a table may have rows to read and commit none; within them it is at its batch."""

HANGS = 600.0
"""A table that has committed none for so long is stuck, and no other waits for it."""

SHARE = 4.0
"""A batch of few rows gives way to tables that do not read from it for so many times what the last one took."""


@dataclass(slots=True)
class _Seen:
    """What is known of a table."""

    lag: int | None = None
    behind: float | None = None
    """Since when it has had rows to read, and has committed none."""
    committed: float | None = None
    took: float = 0.0


class BackPressure:
    """Knows which tables are behind, and who gives way to them."""

    def __init__(
        self,
        tables: Sequence[Table],
        every: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Begin with nothing known, so that no table gives way."""
        self._clock = clock
        self._grace = max(GRACE, 2 * every)
        self._seen: dict[str, _Seen] = {}
        self._readers: dict[str, set[str]] = {}
        self.take(tables)

    def take(self, tables: Sequence[Table]) -> None:
        """Go on with these tables; of those that were there what is known stays."""
        self._readers |= {table.id: set(_readers(table, tables)) for table in tables}
        self._seen |= {table.id: _Seen() for table in tables if table.id not in self._seen}

    def committed(self, name: str, seconds: float) -> None:
        """Note that a table has committed a batch, and how long that took."""
        seen = self._seen[name]
        seen.committed, seen.took, seen.behind = self._clock(), seconds, None

    def measured(self, name: str, lag: int | None, *, waits: bool) -> None:
        """Note how many rows a table has to read, and whether it waits for something else than its turn."""
        seen = self._seen[name]
        seen.lag = lag
        if not lag or waits:
            seen.behind = None
        elif seen.behind is None:
            seen.behind = self._clock()

    def gives_way(self, name: str) -> bool:
        """Return whether the next batch of a table is to wait."""
        seen = self._seen[name]
        if seen.committed is None or seen.lag is None or seen.lag >= WORTH_A_BATCH:
            return False
        since = self._clock() - seen.committed
        if since >= LONGEST:
            return False
        behind = {each for each in self._seen if each != name and self._is_behind(each)}
        if behind & self._readers[name]:
            return True
        return bool(behind) and since < SHARE * seen.took

    def _is_behind(self, name: str) -> bool:
        since = self._seen[name].behind
        return since is not None and self._grace <= self._clock() - since < HANGS


def _readers(table: Table, tables: Sequence[Table]) -> Iterator[str]:
    """Yield the tables that read a table, and those that read these."""
    for each in tables:
        if table.id in {source.id for source in each.upstream}:
            yield each.id
            yield from _readers(each, tables)


# The books of a stream's tables while it runs: followed, and closed from time to time.
#
# The books of a stream's tables, followed while it runs: how many rows of its sources each table has not read.
#
# Books that cannot be read (a torn commit, a folder of another user) are those of one table: the others are followed, and
# what ended the look is kept by the table's name.


class OpenBooks:
    """What the tables of a stream have read, and what their sources have."""

    def __init__(self, tables: Sequence[Table], lake: Lake) -> None:
        """Begin at the last snapshots, at the first look."""
        self._tables = tables
        self._lake = lake
        self._books: dict[str, Books] = {}
        self._others: dict[str, Sums] = {}
        """The sums of sources that other processes write."""
        self.unreadable: dict[str, Exception] = {}
        """What ended the last look at a table's books, or at those of a source that other processes write."""

    def take(self, tables: Sequence[Table]) -> None:
        """Go on with these tables; the books of one that is declared anew are read from their snapshot again."""
        before = {table.id: table for table in self._tables}
        for table in tables:
            if before.get(table.id) is not table:
                self._books.pop(table.id, None)
                self._others.pop(table.id, None)
        self._tables = tables

    def follow(self) -> None:
        """Read the entries since the last call."""
        self.unreadable = {}
        # Readers before their sources: a source that commits meanwhile must not seem to be read ahead.
        for table in reversed(self._tables):
            self._look(table, self._follow)
        own = {table.id for table in self._tables}
        for source in (each for table in self._tables for each in table.upstream):
            if source.id not in own:
                self._look(source, self._follow_other)

    def of(self, table: Table) -> Books:
        """Return the books of a table, as far as they were followed."""
        return self._books[table.id]

    def knows(self, table: Table) -> bool:
        """Return whether the books of a table were ever read."""
        return table.id in self._books

    def unread(self, table: Table) -> int | None:
        """Return how many rows of its sources a table has not read; None where books of these cannot be read."""
        if table.id not in self._books or table.id in self.unreadable:
            return None
        sources: dict[str, Sums] = {}
        for each in table.upstream:
            sums = self._sums(each)
            if sums is None or each.id in self.unreadable:
                return None
            sources[each.id] = sums
        return self._books[table.id].unread(sources)

    def version(self, table: Table) -> int | None:
        """Return the newest version of a table, as far as it was followed, or as it is where the stream does not; None where it cannot be read."""
        sums = self._sums(table)
        if sums is not None:
            return None if table.id in self.unreadable else sums.version
        try:
            return latest_version(self._lake.table(table))
        except (OSError, LakeError):
            return None

    def _sums(self, table: Table) -> Sums | None:
        books = self._books.get(table.id)
        return self._others.get(table.id) if books is None else books.sums

    def _look(self, table: Table, follow_it: Callable[[Table], None]) -> None:
        try:
            follow_it(table)
        except Exception as error:
            if absence(error) is not None:  # of all tables alike
                raise
            self.unreadable[table.id] = error

    def _follow(self, table: Table) -> None:
        if table.id not in self._books:
            self._books[table.id] = Books(table, self._lake)
        self._books[table.id].follow()

    def _follow_other(self, source: Table) -> None:
        path = self._lake.table(source)
        if source.id not in self._others:
            self._others[source.id] = snapshot(path).sums
        follow(path, self._others[source.id])


# The lag of bronze tables behind their topics, measured in a thread beside a stream's heartbeat.
#
# A query of a cluster that is away fails only after many seconds. If the heartbeat waited for it, it would stop, and a
# stream without a heartbeat is killed and started again.


EVERY = 1.0
ALONE = 60.0
"""Seconds after which a table that sleeps is asked for alone: a topic may have a new partition, or be another one."""


class Gauge:
    """Keeps the last known lag of each table; None where the topic does not answer."""

    def __init__(  # noqa: PLR0913  # what is asked, where, how, and how long
        self,
        tables: Sequence[Ingested],
        lake: Lake,
        *,
        address: Callable[[], str | None],
        options: Mapping[str, str],
        stop: threading.Event,
        asleep: Collection[str] = (),
    ) -> None:
        """Prepare; no cluster is queried yet.

        Args:
            tables: The tables.
            lake: Where.
            address: Returns where Kafka is.
            options: Its client's options.
            stop: Ends it.
            asleep: The tables that sleep, as they are at each look: of these one question says whether something came.
        """
        self._tables = tables
        self._lake = lake
        self._address = address
        self._options = options
        self._stop = stop
        self._asleep = asleep
        self._asks: confluent_kafka.Consumer | None = None
        self._cluster: Cluster | None = None
        self._ends: dict[str, dict[Part, int]] = {}
        """The ends of each table's partitions on the cluster, when it was asked for alone."""
        self._alone: dict[str, float] = {}
        """When each table is to be asked for alone again."""
        self.lags: dict[str, int | None] = {table.id: None for table in tables}

    def take(self, tables: Sequence[Ingested]) -> None:
        """Go on with these tables."""
        self.lags |= {table.id: None for table in tables if table.id not in self.lags}
        self._tables = tables

    def start(self) -> None:
        """Measure again and again until the stream is stopped."""
        threading.Thread(target=self._measure, name="gauge", daemon=True).start()

    def _measure(self) -> None:
        while True:
            address = self._located()
            still = self._still(address)
            for table in self._tables:
                if table.id not in still:
                    self.lags[table.id] = self._lag(table, address)
            if self._stop.wait(self._lake.pause(EVERY)):
                return self._leave()

    def _located(self) -> str | None:
        try:
            return self._address()
        except Exception:  # noqa: BLE001  # a missing figure ends nothing; the table itself reports the error
            return None

    def _still(self, address: str | None) -> set[str]:
        """Return the tables that sleep and need not be asked for alone: nothing came, and they were asked for not long ago."""
        now = time.monotonic()
        known = [name for name in [*self._asleep] if now < self._alone.get(name, 0.0)]
        parts = {part for name in known for part in self._ends[name]}
        if not parts or address is None:
            return set()
        try:
            found = self._ends_now(address, parts)
        except Exception:  # noqa: BLE001  # each is asked for alone then
            self._leave()
            return set()
        return {name for name in known if all(found[k] == v for k, v in self._ends[name].items())}

    def _ends_now(self, address: str, parts: Iterable[Part]) -> dict[Part, int]:
        """Return the ends of partitions, by one question to each broker."""
        if self._cluster is None or self._cluster.address != address:
            self._cluster = Cluster(address, self._options)
        return broker.ends(self._cluster, parts)

    def _lag(self, table: Table, address: str | None) -> int | None:
        try:
            if address is None or not self._lake.exists(table):
                return None
            self._asks = self._asks or consumer(address, self._options)
            found = ends_of(table, self._lake, address, self._options, self._asks)
        except Exception:  # noqa: BLE001  # as above
            self._leave()
            return None
        self._ends[table.id] = {
            (part[0], number_in_kafka(part)): each.end for part, each in found.items()
        }
        self._alone[table.id] = time.monotonic() + ALONE
        return sum(part.lag for part in found.values())

    def _leave(self) -> None:
        """Ask with other clients next: a broker may come back at another port."""
        if self._asks is not None:
            self._asks.close()
        self._asks = self._cluster = None


# How far bronze has read, as Kafka's own tools see it: the offsets of a consumer group for each table.
#
# The ledger decides what is read, and these offsets decide nothing. They follow the books from a thread of their own after a
# commit, so a cluster that is away, or that refuses, holds up no batch, and an answer that was lost is written again with the
# same numbers. What moves the books moves them: a restore sets them back, another cluster begins its own, a topic that is
# retired leaves the group. Of a topic that was made anew nothing is written: its offsets are not those that were read.


RENEWED = 3_600.0
"""Seconds after which the same offsets are written again: Kafka forgets those of a group without members after a week."""

LOOKS = 60.0
"""Seconds between two looks at the books of a table that commits nothing; a decision may have moved it."""

AWAY = 10.0
"""Seconds after a failure for which the cluster is left alone."""

LAST = 3.0
"""Seconds that a program waits at its end for what is not written."""

SOON = 5.0
"""Seconds within which a cluster knows who keeps a group: the first group of a new one takes as long."""

HAS_MEMBERS = "consumers are members of the group, so it is not only ours"
PATTERN = "name another pattern with STRANDLINE_CONSUMER_GROUP"


def _passes(error: Exception) -> bool:
    passing = (
        confluent_kafka.KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        confluent_kafka.KafkaError.COORDINATOR_NOT_AVAILABLE,
        confluent_kafka.KafkaError.NOT_COORDINATOR,
    )
    return isinstance(error, confluent_kafka.KafkaException) and error.args[0].code() in passing


def _members() -> tuple[int, ...]:
    """Return the errors of a group that others read with."""
    errors = confluent_kafka.KafkaError
    return errors.UNKNOWN_MEMBER_ID, errors.NON_EMPTY_GROUP


def group_of(pattern: str, table: str, lake: Lake) -> str:
    """Return the group of a table, by the pattern of the settings."""
    return pattern.replace("{lake}", lake.root.name).replace("{table}", table)


class GroupOffsets:
    """Keeps a consumer group for each bronze table at what the table has read."""

    def __init__(  # whose offsets, under which names, where, and who hears of it
        self,
        lake: Lake,
        pattern: str,
        *,
        address: Callable[[], str | None],
        options: Mapping[str, str],
        says: Callable[[str], None],
    ) -> None:
        """Prepare; nothing is asked before a run of a bronze table begins.

        Args:
            lake: The lake.
            pattern: The name of a group, with ``{table}`` and ``{lake}``.
            address: Returns where Kafka is.
            options: Its client's options.
            says: Hears once of each reason why nothing is written.
        """
        self._lake, self._pattern, self._says = lake, pattern, says
        self._address, self._options = address, options
        self._tables: dict[str, Table] = {}
        self._due: set[str] = set()
        """The tables whose books are to be looked at."""
        self._shown: dict[str, tuple[float, dict[Part, int]]] = {}
        """When the offsets of each were written last, and which."""
        self._cluster: Cluster | None = None
        self._left = deque[Cluster | None](maxlen=3)
        self._reasons = set[str]()
        """What was said since the last success."""
        self._woken, self._lock = threading.Event(), threading.Lock()
        self._works = False
        self._ending = threading.Event()
        """Set while a program waits for what is not written: no pause is made then."""
        self._failures = 0
        self._thread: threading.Thread | None = None

    @contextmanager
    def record(self, _spark: object, table: Table, _mode: str, lake: Lake) -> Iterator[Wrote]:
        """Follow a table for the length of a run; a table that reads no topic has no group."""
        is_own = isinstance(table, Ingested) and lake.root == self._lake.root
        if is_own:
            self._follow(table)
        yield lambda of, _: self._wake(of) if is_own else None
        if is_own:
            self._wake(table)

    def drain(self, patience: float = LAST) -> None:
        """Wait until the groups are where the books are, but no longer than some seconds."""
        until, before = time.monotonic() + patience, self._failures
        self._ending.set()
        try:
            while (self._due or self._works) and self._failures == before:
                if time.monotonic() > until:
                    return
                time.sleep(0.02)
        finally:
            self._ending.clear()

    def _follow(self, table: Table) -> None:
        with self._lock:
            self._tables[table.id] = table
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="groups", daemon=True)
                self._thread.start()
        self._wake(table)

    def _wake(self, table: Table) -> None:
        self._due.add(table.id)
        self._woken.set()

    def _work(self) -> None:
        while True:
            if not self._woken.wait(LOOKS):
                self._due |= {*self._tables}
            self._works = True  # before what is due is taken: a program that ends waits for both
            self._woken.clear()
            failed = {name for name in sorted(self._due) if not self._is_shown(name)}
            self._due |= failed  # before it rests: a program that ends waits for these as well
            self._failures += bool(failed)
            self._works = False
            if failed:
                # A client that ends while an answer is on its way may end the process with it [confluent-kafka 2.16].
                self._left.append(self._cluster)
                self._cluster = None  # a broker may come back at another port
                self._ending.wait(AWAY)
                self._woken.set()
            else:
                self._reasons.clear()
                self._ending.wait(self._lake.pause(EVERY))

    def _is_shown(self, name: str) -> bool:
        """Show the books of a table, and return whether that was possible."""
        self._due.discard(name)  # first: what is committed meanwhile is due again
        deadline = time.monotonic() + SOON
        while True:
            try:
                self._show(self._tables[name])
            except Exception as error:  # noqa: BLE001  # whatever a cluster or a store answers, no run depends on it
                if not _passes(error) or time.monotonic() > deadline:
                    self._failed(error)
                    return False
                time.sleep(0.1)
            else:
                return True

    def _failed(self, error: Exception) -> None:
        why = reason = first_line(error)
        if isinstance(error, confluent_kafka.KafkaException):
            refusal = error.args[0]
            why = f"{HAS_MEMBERS}; {PATTERN}" if refusal.code() in _members() else refusal.str()
            # An outage is one reason: librdkafka words it by where a request of the moment waits [2.16].
            reason = "unreached" if refusal.code() in unreached() else why
        if reason not in self._reasons:
            self._says(f"no offsets are shown to Kafka's tools: {why}")
        self._reasons.add(reason)

    def _show(self, table: Table) -> None:
        """Set the group of a table to what its books say, unless it is there."""
        newest = last_entry(self._lake.table(table)) if self._lake.exists(table) else None
        address = self._address()
        if newest is None or address is None:
            return
        if self._cluster is None or self._cluster.address != address:
            self._cluster = Cluster(address, self._options)
        asks, read = self._cluster.admin, range_ends(newest[1].offsets)
        wanted = read_of(asks, identities_in(newest[1].stream), read)
        at, shown = self._shown.get(table.id, (-RENEWED, {}))
        is_fresh = time.monotonic() - at < RENEWED
        if wanted == shown and is_fresh:
            return
        group = group_of(self._pattern, table.id, self._lake)
        # A restore takes the books back to before a topic was added, and the group still has that.
        declared = {each.name for each in table.topics} if isinstance(table, Ingested) else set()
        former = declared | {topic for topic, _ in (*read, *shown)}
        has = shown if is_fresh else offsets_of(address, self._options, group)
        set_offsets(asks, group, wanted, former, has)
        self._shown[table.id] = time.monotonic(), wanted


# Close books from time to time, beside the process that writes them.
#
# It is a thread of its own, because the first time on an old lake takes seconds, in which a heartbeat would be late.
# Books that cannot be closed stay open, and cost their readers more entries; the next attempt is in a minute.


PAUSE = 60.0
"""Seconds between two looks whether books are to be closed."""

KEPT = 100
"""How many results are kept until they are taken."""


class BookCloser(threading.Thread):
    """Closes books until it is ended."""

    def __init__(self, close: Callable[[], Sequence[Closed]]) -> None:
        """Prepare; ``close`` closes the books that have many commits, and returns which."""
        super().__init__(name="books", daemon=True)
        self._close = close
        self._ended = threading.Event()
        self._news: deque[Closed | Exception] = deque(maxlen=KEPT)

    def run(self) -> None:
        """Look once a minute."""
        while not self._ended.wait(PAUSE):
            try:
                self._news.extend(self._close())
            except Exception as error:  # noqa: BLE001  # it is logged, and no batch needs closed books
                self._news.append(error)

    def end(self) -> None:
        """End after the running look."""
        self._ended.set()

    def news(self) -> list[Closed | Exception]:
        """Take what was closed since the last call, and the errors."""
        taken = list[Closed | Exception]()
        while self._news:
            taken.append(self._news.popleft())
        return taken
