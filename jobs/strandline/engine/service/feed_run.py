"""One feed of a process, across all starts of its query: the query, the ledger, the figures.

A feed that loses its broker is started again after a pause that doubles up to half a minute, and continues from its
last checkpoint. Any other error is handled by the host (jobs/strandline/engine/service/feed_host.py).
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

from pyspark.errors import StreamingQueryException
from pyspark.sql.streaming.query import StreamingQuery

from strandline.core.errors import TransientError
from strandline.core.feed import Feed
from strandline.core.modes import FeedMode
from strandline.engine.kafka.slices import Positions, name_of
from strandline.engine.pipeline import feed_query
from strandline.engine.pipeline.feed_ledger import FeedLedger
from strandline.engine.pipeline.runner import Site
from strandline.engine.runtime.outage import absence
from strandline.engine.runtime.retry import FIRST, LONGEST
from strandline.engine.storage.lake import Lake
from strandline.engine.storage.ledger import Entry

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
