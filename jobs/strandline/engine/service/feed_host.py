"""Host feeds: each a query of one Spark, in a process of their own, each with its lease.

Why a process of their own: in real-time and continuous mode a query holds a thread of Spark for each partition that it
reads for as long as it runs, and the batches of tables beside it would wait for them.

A feed outlasts an outage (jobs/strandline/engine/service/feed_run.py); any other error ends the process, because a feed that is
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
from dataclasses import asdict
from functools import partial

from strandline.core.errors import LakeError
from strandline.core.feed import Feed
from strandline.core.modes import FeedMode
from strandline.engine.accounting.close_ledger import close_feeds
from strandline.engine.kafka.slices import Positions
from strandline.engine.pipeline import feed_query
from strandline.engine.pipeline.runner import Site
from strandline.engine.runtime.holders import own
from strandline.engine.runtime.outage import skipped_in_outage
from strandline.engine.service.book_closer import BookCloser
from strandline.engine.service.feed_run import FeedPulse, FeedRun, Handover
from strandline.engine.service.heartbeat import write
from strandline.engine.storage.lake import Lake
from strandline.engine.storage.locks import lease

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
        write(self._lake, self._lake.feeds_beat, beat)
