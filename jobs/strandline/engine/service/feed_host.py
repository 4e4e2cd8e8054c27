"""Host feeds: each a query of one Spark, in a process of their own, each with its lease.

Why a process of their own: in real-time and continuous mode a query holds a thread of Spark for each partition that it
reads for as long as it runs, and the batches of tables beside it would wait for them.

A feed outlasts an outage; any other error ends the process, because a feed that is
quietly down raises no alerts.

Another version of a feed takes over while the process runs: the query of the first is stopped, the ends of its topics
are read, and the query of the second goes on at the checkpoint, with the function that the caller makes of both and of
those offsets. What was changed, from which offsets on, when and by whom is a line in the lake.
"""

import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from functools import partial

from pyspark.errors import StreamingQueryException
from pyspark.sql.streaming.query import StreamingQuery

from strandline.core.errors import LakeError, TransientError
from strandline.core.stateful import FeedMode
from strandline.core.table import Feed
from strandline.engine.accounting.table_books import close_feeds
from strandline.engine.flow import feed_query
from strandline.engine.flow.feed_ledger import FeedLedger
from strandline.engine.flow.runner import Site
from strandline.engine.kafka.slices import Positions, name_of
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.locks import lease
from strandline.engine.lake.log.ledger import Entry
from strandline.engine.runtime.outage import FIRST, LONGEST, absence, skipped_in_outage
from strandline.engine.runtime.processes import own
from strandline.engine.service.backlog import BookCloser
from strandline.engine.service.stream_health import write_beat

# One feed of a process, across all starts of its query: the query, the ledger, the figures.
#
# A feed that loses its broker is started again after a pause that doubles up to half a minute, and continues from its
# last checkpoint. Any other error is handled by the host.


Handover = Callable[[Feed, Feed | None, Positions, Positions], Feed]
"""Makes a feed of the old and the new one (None where it only ends), where that begins, and the checkpoint's offsets."""


@dataclass(slots=True, kw_only=True)
class FeedPulse:
    """The figures of one feed in the heartbeat."""

    feed: str
    rules: str
    """The fingerprint of the rules that run."""
    epoch: int | None = None
    """The last one that is in the ledger."""
    read: int = 0
    """Events in the ledger since the process started."""
    written: int = 0
    """Records in its topic since the process started."""
    lag: int | None = None
    """Offsets that are not in the ledger yet; in real-time mode those of the epoch that runs are among them."""
    away: str | None = None
    """The outage that it waits for."""
    at: str | None = None


class FeedRun:
    """One feed, across all starts of its query."""

    def __init__(  # noqa: PLR0913  # what, how, where, with what, from where
        self,
        feed: Feed,
        mode: FeedMode,
        lake: Lake,
        site: Site,
        *,
        from_the_first: bool,
        ended: Positions | None = None,
    ) -> None:
        """Prepare; nothing runs yet.

        Args:
            feed: What to run.
            mode: How.
            lake: Where.
            site: With what.
            from_the_first: Whether a feed that runs for the first time reads what its topics hold already.
            ended: The offsets before which the process before this one has judged every event, if that is known.
        """
        self.feed = feed
        self.pulse = FeedPulse(feed=feed.id, rules=feed.version)
        self.is_done = False
        self._mode = feed_query.mode_of(feed, mode)
        self._lake, self._site = lake, site
        self._from_the_first = from_the_first
        self.ended = ended
        """The offsets before which every event was judged; None while the query runs, and where it is unknown."""
        self._query: StreamingQuery | None = None
        self._ledger: FeedLedger | None = None
        self._is_slice = False
        self._pause, self._due = FIRST, 0.0

    def tend(self, *, measures: bool) -> None:
        """Start the query if it does not run, and account for what it has committed.

        Raises:
            Exception: It failed for another reason than an outage.
        """
        if self.is_done or time.monotonic() < self._due:
            return
        try:
            self._tend(measures=measures)
        except Exception as error:
            away = absence(error)
            if away is None:
                raise
            self._wait(away)

    def _tend(self, *, measures: bool) -> None:
        if self._query is None or self._ledger is None:
            self._start()
            return
        if not self._query.isActive:
            self._ended(self._query)
            return
        if measures:
            self._account(self._ledger.settle(query=self._query))
            self.pulse.lag = self._ledger.lag()
            self.pulse.away, self._pause = None, FIRST

    def end(self) -> None:
        """Stop the query and account for its last epoch; without Kafka the next start does that."""
        try:
            if self._query is not None:
                feed_query.stop(self._site.spark, self.feed, self._query)
            if self._ledger is not None:
                self.ended = self._ledger.ends()
            self._close(settles=True)
        except Exception as error:
            if absence(error) is None:
                raise

    def take_over(self, new: Feed | None, handover: Handover) -> dict[str, int]:
        """Replace the feed by another version of it or by none, and return the offsets from which that applies.

        While Kafka is away, the change waits; then it applies from the checkpoint on.
        """
        if self._query is not None:
            feed_query.stop(self._site.spark, self.feed, self._query)
        self.is_done, self._due = new is None, 0.0
        try:
            ledger = self._ledger or self._opened()
            since, done = self.ended or ledger.ends(), ledger.read()
            self.ended = None
            self._close(settles=True)
        except Exception as error:
            if absence(error) is None:
                raise
            since, done = {}, {}
        self.feed = handover(self.feed, new, since, done)
        self.pulse.rules = self.feed.version
        return {name_of(part): offset for part, offset in since.items()}

    def _opened(self) -> FeedLedger:
        self._ledger = FeedLedger(
            self._site.spark,
            self.feed,
            self._mode,
            self._lake,
            address=self._site.kafka(self.feed.id),
            options=self._site.options,
        )
        return self._ledger

    def _start(self) -> None:
        self.ended = None
        ledger = self._opened()
        begins = ledger.begin(from_the_first=self._from_the_first)
        self._is_slice = ledger.cut(self._site.spark, begins)
        address = self._site.kafka(self.feed.id)
        self._query = feed_query.start(
            self._site.spark,
            self.feed,
            self._mode,
            self._lake,
            kafka=feed_query.client(address, self._site.options),
            begins=begins,
            once=self._is_slice,
        )

    def _ended(self, query: StreamingQuery) -> None:
        """See why the query ended.

        Raises:
            StreamingQueryException: It failed.
        """
        try:
            failure = query.exception()
        except StreamingQueryException as error:
            failure = error
        if failure is not None:
            if (
                self._ledger is not None
            ):  # Spark names no topic that was made anew, only offsets that it misses
                self._ledger.refuse_recreated()
            raise failure
        self.is_done = not self._is_slice
        if self._ledger is not None:
            self._account(self._ledger.settle(at_once=True, query=self._query))
            self.ended = self._ledger.read() if self.is_done else None
        self._close(settles=False)

    def _wait(self, away: TransientError) -> None:
        if self._query is not None:
            self._query.stop()
        self._close(settles=False)
        self.pulse.away = away.message
        self._due = time.monotonic() + self._pause
        self._pause = min(2 * self._pause, LONGEST)

    def _close(self, *, settles: bool) -> None:
        if self._ledger is not None:
            if settles:
                self._account(self._ledger.settle(at_once=True, query=self._query))
            self._ledger.close()
        self._query = self._ledger = None

    def _account(self, entry: Entry | None) -> None:
        if entry is not None:
            self.pulse.epoch = entry.batch
            self.pulse.read += entry.read
            self.pulse.written += entry.written
            self.pulse.at = self._site.clock().isoformat(timespec="seconds")


POLL = 0.1
BEAT = 1.0

Renewed = tuple[Sequence[Feed], Mapping[str, object]]
"""The feeds that are to run from now on, and what to record about the change."""


class FeedHost:
    """Runs feeds until it is stopped or one fails."""

    def __init__(  # noqa: PLR0913  # what, how, where, with what
        self,
        feeds: Sequence[Feed],
        mode: FeedMode,
        lake: Lake,
        site: Site,
        stop: threading.Event,
        *,
        from_the_first: bool = False,
        renewed: Callable[[], Renewed | None] = lambda: None,
        handover: Handover = lambda old, new, *_: new or old,
        keep: Callable[[Sequence[Feed], Mapping[str, Positions]], None] = lambda *_: None,
        ends: Mapping[str, Positions] | None = None,
        refused: Callable[[], Mapping[str, object]] = dict,
    ) -> None:
        """Prepare; nothing runs yet.

        Args:
            feeds: What to run.
            mode: How.
            lake: Where.
            site: With what.
            stop: Ends all when it is set.
            from_the_first: Whether a feed that runs for the first time reads what its topics hold already.
            renewed: Asked about once a second for other feeds.
            handover: Lets a feed of another version take over.
            keep: Called with the feeds that run, before each start and at the end, then with the offsets at which they
                stopped.
            ends: The offsets at which feeds of the process before this one stopped.
            refused: Returns for the heartbeat what was to run and does not.
        """
        self._mode, self._lake, self._site, self._stop = mode, lake, site, stop
        self._renewed, self._handover, self._keep = renewed, handover, keep
        self._refused = refused
        self._from_the_first = from_the_first
        self._runs = [self._run(feed, (ends or {}).get(feed.id)) for feed in feeds]
        self._error: Exception | None = None
        self.closer = BookCloser(partial(close_feeds, lake))

    @property
    def pulses(self) -> list[FeedPulse]:
        """Return the figures of all feeds."""
        return [run.pulse for run in self._runs]

    def serve(self, look: Callable[["FeedHost"], None]) -> None:
        """Run until stopped; ``look`` is called about once a second.

        Raises:
            Exception: The error of the feed that failed first.
        """
        with ExitStack() as held:
            for run in self._runs:
                held.enter_context(lease(self._site.spark, run.feed, self._lake))
            try:
                self._serve(look, held)
            except Exception as error:
                self._error = error
                raise
            finally:
                self.closer.end()
                for run in self._runs:
                    run.end()
                with skipped_in_outage():
                    self._keep(self._feeds(), self._ends())
                    self._beat(is_alive=False)

    def _serve(self, look: Callable[["FeedHost"], None], held: ExitStack) -> None:
        self.closer.start()
        self._renew(held)
        self._keep(self._feeds(), {})
        self._from_the_first = False
        due = 0.0
        ends = feed_query.ends(self._mode)
        while not self._stop.is_set() and not (ends and all(run.is_done for run in self._runs)):
            is_due = time.monotonic() >= due
            for run in self._runs:
                run.tend(measures=is_due)
            if is_due:
                self._renew(held)
                with skipped_in_outage():
                    self._beat(is_alive=True)
                    look(self)
                due = time.monotonic() + BEAT
            self._stop.wait(POLL)

    def _renew(self, held: ExitStack) -> None:
        """Replace the feeds whose version has changed, start new ones, stop those that are gone, and record it."""
        renewed = self._renewed()
        if renewed is None:
            return
        feeds, record = renewed
        wanted = {feed.id: feed for feed in feeds}
        begun = {}
        for run in self._runs:
            new = wanted.pop(run.feed.id, None)
            if new is None:
                if not run.is_done:
                    begun[run.feed.id] = run.take_over(None, self._handover)
            elif new.version != run.feed.version or run.is_done:
                begun[new.id] = run.take_over(new, self._handover)
        for feed in wanted.values():
            held.enter_context(lease(self._site.spark, feed, self._lake))
            self._runs.append(self._run(feed, None))
            begun[feed.id] = {}
        self._keep(self._feeds(), {})
        line = {"at": self._site.clock().isoformat(), **record, "since": begun}
        self._lake.rule_changes.append(json.dumps(line))

    def _run(self, feed: Feed, ended: Positions | None) -> FeedRun:
        first = self._from_the_first
        return FeedRun(feed, self._mode, self._lake, self._site, from_the_first=first, ended=ended)

    def _feeds(self) -> list[Feed]:
        return [run.feed for run in self._runs]

    def _ends(self) -> dict[str, Positions]:
        return {run.feed.id: run.ended for run in self._runs if run.ended is not None}

    def _beat(self, *, is_alive: bool) -> None:
        failed = self._error
        beat = {
            **own(),
            "alive": is_alive,
            "at": self._site.clock().isoformat(timespec="seconds"),
            "mode": self._mode.name,
            "every": getattr(self._mode, "every", 0.0),
            "tables": {pulse.feed: asdict(pulse) for pulse in self.pulses},
            "failed": failed.kind if isinstance(failed, LakeError) else None,
            "refused": self._refused(),
        }
        write_beat(self._lake, self._lake.feeds_beat, beat)
