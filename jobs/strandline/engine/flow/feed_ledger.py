"""The ledger of a feed: which offsets it has read and committed, and how many records it has written.

The ledger is derived from the checkpoint: an epoch is in it once Spark has committed the epoch. An entry covers all
that was committed since the previous entry, so after a crash the next entry covers what the crash left out, and every
offset is in exactly one entry. Where a person accepted that records expired before they were read, the entry is ahead of the
checkpoint, which is moved after it, now or when the ledger is opened the next time. With a new checkpoint the stream begins where the ledger ends. So the first entry records
where the feed began, and a feed that is killed before its first checkpoint loses nothing.

Records are counted in the topic, by the header with the feed's name, and not taken from Spark's report, because Spark
reports nothing for an epoch in which it crashed. The counted ranges of the topic follow each other without a gap, so the sum of ``written``
is the number of the feed's records in the topic, copies after a crash included. A range may differ from its epoch by some
records, because the next epoch writes while this one is counted.

What a feed that counts did with its events is in its entry as well: how many it believed, why not the others, and how many
its state dropped below the watermark, which is a fault (jobs/strandline/engine/flow/feed_query.py). Of other feeds the
verdicts are not known, because continuous mode reports nothing: all that they read is called good.

The entries are commits without rows, in a Delta log of their own, because whatever reads a ledger reads such a log.
"""

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import StringType, StructType

from strandline.core.stateful import FeedMode
from strandline.core.table import CountingFeed, Feed, topics_of
from strandline.engine.flow import feed_query, new_entry
from strandline.engine.flow.feed_query import FEED, Counts, client, most_of
from strandline.engine.flow.ingest import by_topic, identities, own_of, refuse_unlike
from strandline.engine.kafka.slices import Backlog, Bounds, Positions, name_of, part_of, range_ends
from strandline.engine.kafka.topic_log import Ranges, check_positions
from strandline.engine.lake.commit import create_table, delta_commit
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger import Entry, Offsets, last_entry
from strandline.engine.lake.mend_checkpoint import is_before, is_being_left, leave, move_to
from strandline.engine.lake.place import Place
from strandline.engine.lake.spark_checkpoint import (
    kafka_ends,
    newest_done,
    newest_planned,
    plan_epoch,
)

PARTITIONS = "spark.sql.shuffle.partitions"


def cut_backlog(  # noqa: PLR0913, PLR0917  # what, where, from where, how much
    spark: SparkSession,
    feed: CountingFeed,
    checkpoint: Place,
    backlog: Backlog,
    begins: Positions,
    most: int | None,
) -> bool:
    """Plan the next slice of a backlog that is more than a batch, and return whether a planned batch is to be run alone.

    The backlog of a feed that counts, cut by time as bronze cuts it (jobs/strandline/engine/kafka/slices.py).

    Spark's own limit reads of each partition a share of what waits there, so one whose records are all new is read hours ahead of
    the others, the watermark follows it, and the state drops the others' events. Spark runs a batch that is planned in its
    checkpoint as it is. So as long as more waits than a batch may have, the next one is planned here, run alone, and what is
    left is looked at again. What fits into one batch is left to Spark, which then reads all partitions up to the same moment; so
    does it while it runs.

    Args:
        spark: The session in which the query runs.
        feed: The feed.
        checkpoint: Its checkpoint.
        backlog: Its topics.
        begins: The offsets that it reads next.
        most: The most records of a batch; None for any number.
    """
    if most is None:
        return False
    if newest_planned(checkpoint) != newest_done(checkpoint):
        return True  # by Spark or here, before the process ended; what comes after it is then seen
    ends = {part: end for part, (_, end) in backlog.bounds().items()}
    start = {part: begins.get(part, 0) for part in ends}
    if sum(end - start[part] for part, end in ends.items()) <= most:
        return False
    stops = {**start, **backlog.slice(start, ends, most)}
    plan_epoch(checkpoint, _by_source(feed, stops), _conditions(spark), _now_ms())
    return True


def _by_source(feed: CountingFeed, stops: Positions) -> list[Mapping[str, Mapping[int, int]]]:
    """Return offsets for each source of the query: one a table, in their order."""
    names = ({topic.name for topic in topics_of(table)} for table in feed.of)
    return [by_topic({part: at for part, at in stops.items() if part[0] in own}) for own in names]


def _conditions(spark: SparkSession) -> str:
    """Return the settings that Spark writes into the plan of a first batch."""
    jvm: Any = spark.sparkContext._jvm  # noqa: SLF001  # Spark has no other way to them
    made = jvm.org.apache.spark.sql.execution.streaming.checkpointing.OffsetSeqMetadata
    plan = json.loads(made.apply(0, 0, spark._jsparkSession.conf()).json())  # noqa: SLF001  # as above
    # Spark takes this one from a setting that a query makes in its own copy of the session; here it is not made yet.
    parts = {PARTITIONS: spark.conf.get(PARTITIONS)}
    plan["conf"] = {name: value for name, value in {**plan["conf"], **parts}.items() if value}
    return json.dumps(plan)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


NO_ROWS = StructType().add("nothing", StringType())

OFTEN = 10.0
"""Seconds between two entries at least; continuous mode ends an epoch every second, which would be many commits."""


@dataclass(frozen=True, slots=True)
class Tally:
    """The feed's records between two positions of its topic.

    They are counted while they come, a second's at a time. Counted at the end of an epoch, 600,000 records of five minutes at
    2,000 a second were read and decoded in one go, beside the events that came then.
    """

    begin: Positions
    end: Positions
    records: int

    def reaches(self, begin: Positions, end: Positions) -> bool:
        """Return whether it counts the first part of a range."""
        return self.begin == begin and all(at <= end.get(part, 0) for part, at in self.end.items())


class FeedLedger:
    """Writes the entries of one feed; its process holds the feed's lease."""

    def __init__(  # noqa: PLR0913  # Spark, the feed, the lake and Kafka
        self,
        spark: SparkSession,
        feed: Feed,
        mode: FeedMode,
        lake: Lake,
        *,
        address: str,
        options: Mapping[str, str],
    ) -> None:
        """Connect to Kafka, and check that the topics are those that were read before.

        Raises:
            DataError: A topic was recreated, or records expired before they were read.
            DefinitionError: A topic does not exist.
            TransientError: The cluster does not answer.
        """
        self._spark, self._feed, self._mode = spark, feed, mode
        self._path, self._checkpoint = lake.table(feed), lake.checkpoint(feed)
        self._address, self._options = address, options
        self._source = Backlog(address, options, feed.topics)
        self._sink = Backlog(address, options, (feed.to,))
        self._at = time.monotonic()
        self._tally = Tally({}, {}, 0)
        create_table.create(spark, self._path, NO_ROWS)
        newest = last_entry(self._path)
        known = newest[1] if newest else None
        self._stream = ",".join(
            identities(feed.id, log, known) for log in (self._source, self._sink)
        )
        if known is not None:
            read = {**range_ends(known.offsets), **range_ends(known.sent)}
            refuse_unlike(feed.id, known.stream, self._stream, read)
            self._leave_former_topics()
            self._pass_over(known)

    def refuse_recreated(self) -> None:
        """Refuse topics that are not those any more that they were when the feed began.

        Raises:
            RecreatedError: One was made anew.
            DefinitionError: One was deleted.
        """
        found = last_entry(self._path)
        if found is not None:
            known = found[1]
            logs = (self._source, self._sink)
            now = ",".join(identities(self._feed.id, log, known) for log in logs)
            read = {**range_ends(known.offsets), **range_ends(known.sent)}
            refuse_unlike(self._feed.id, self._stream, now, read)

    def _leave_former_topics(self) -> None:
        """Begin a new checkpoint where the table reads a topic of another name than the checkpoint does.

        What a kill has left half of one is left first: nothing could be known of it.
        """
        if not is_being_left(self._checkpoint):
            found = kafka_ends(self._checkpoint)
            if found is None or {*found[1]} <= {topic.name for topic in self._feed.topics}:
                return
        leave(self._checkpoint)

    def close(self) -> None:
        """Disconnect from Kafka."""
        self._source.close()
        self._sink.close()

    def begin(self, *, from_the_first: bool) -> Positions:
        """Return where a new checkpoint begins to read, and record it if the feed runs for the first time.

        Args:
            from_the_first: Whether a feed that runs for the first time reads what its topics hold already.
        """
        bounds, newest = self._source.bounds(), last_entry(self._path)
        if newest is None:
            place = 0 if from_the_first else 1
            begins = {part: ends[place] for part, ends in bounds.items()}
            ends = {part: end for part, (_, end) in self._sink.bounds().items()}
            self._commit(-1, {name_of(p): (at, at) for p, at in begins.items()}, _empty(ends), 0)
            return begins
        read = self._done(newest[1])
        check_positions(self._feed.id, own_of(read, (t.name for t in self._feed.topics)), bounds)
        return {part: read.get(part, first) for part, (first, _) in bounds.items()}

    def settle(self, *, at_once: bool = False, query: StreamingQuery | None = None) -> Entry | None:
        """Add an entry for what was committed since the previous one; None if that is nothing, or the previous is too recent.

        Args:
            at_once: Whether to add it however recent the previous entry is, also for records of an epoch that is not
                committed.
            query: The query that runs or has ended, whose reports have the figures of a feed that counts. Without it,
                or where a report was lost with its process, they are counted again.
        """
        found, newest = kafka_ends(self._checkpoint), last_entry(self._path)
        if newest is None:
            return None
        began = range_ends(newest[1].sent)
        bounds = self._sink.bounds()
        ends = {part: end for part, (_, end) in bounds.items()}
        written = self._written(began, bounds)  # also where it is too early for an entry
        if not (at_once or time.monotonic() > self._at + OFTEN):
            return None
        before, done = range_ends(newest[1].offsets), self._done(newest[1])
        epoch = newest[1].batch if found is None else found[0]
        offsets = {name_of(part): (before.get(part, 0), done[part]) for part in sorted(done)}
        if done == before and not (at_once and written):
            return None
        sent = {name_of(part): (began.get(part, 0), ends[part]) for part in sorted(ends)}
        return self._commit(epoch, offsets, sent, written, counts=self._counts(newest[1], query))

    def cut(self, spark: SparkSession, begins: Positions) -> bool:
        """Return whether the query is to run one planned batch and no more: a slice of a backlog (cut_backlog).

        Args:
            spark: The session in which it runs.
            begins: The offsets that it reads next.
        """
        if not isinstance(self._feed, CountingFeed):
            return False
        most = most_of(self._mode)
        return cut_backlog(spark, self._feed, self._checkpoint, self._source, begins, most)

    def _counts(self, newest: Entry, query: StreamingQuery | None) -> Counts | None:
        """Return the figures of the epochs since an entry; None for a feed that does not count."""
        found = kafka_ends(self._checkpoint)
        if not isinstance(self._feed, CountingFeed) or found is None:
            return None
        # A checkpoint that was made anew counts from 0.
        before = newest.batch if newest.batch <= found[0] else -1
        reports = {} if query is None else feed_query.reported(query, before)
        return sum(
            (reports.get(n) or self._counted(n, newest) for n in range(before + 1, found[0] + 1)),
            Counts(),
        )

    def _counted(self, number: int, newest: Entry) -> Counts:
        """Count an epoch again."""
        feed = cast(CountingFeed, self._feed)
        return feed_query.counted(
            self._spark,
            feed,
            self._checkpoint,
            number,
            begins=range_ends(newest.offsets),
            bounds=self._source.bounds(),
            kafka=client(self._address, self._options),
        )

    def accept(self, gone: Ranges, accepted: str) -> Entry:
        """Add an entry for offsets that expired before they were read, and let the checkpoint go on after them.

        Args:
            gone: The offsets.
            accepted: Who accepts their loss, when and why.
        """
        newest = last_entry(self._path)
        ends = range_ends(newest[1].sent) if newest else {}
        read = self.read()
        entry = self._commit(
            newest[1].batch if newest else -1,
            {name_of(part): gone.get(part, (at, at)) for part, at in sorted(read.items())},
            _empty(ends),
            0,
            lost={name_of(part): reach for part, reach in gone.items()},
            accepted=accepted,
        )
        self._pass_over(entry)
        return entry

    def _pass_over(self, newest: Entry) -> None:
        """Move the checkpoint behind a loss that was accepted."""
        ends: dict[str, dict[str, int]] = {}
        for name, (_, end) in newest.lost.items():
            topic, number = part_of(name)
            ends.setdefault(topic, {})[str(number)] = end
        if ends and is_before(self._checkpoint, ends):
            move_to(self._checkpoint, ends)

    def _done(self, newest: Entry) -> Positions:
        """Return the offsets up to which the checkpoint has them; those of the ledger until a first epoch is committed."""
        found = kafka_ends(self._checkpoint)
        if found is None:
            return range_ends(newest.offsets)
        return {(t, int(p)): end for t, ends in found[1].items() for p, end in ends.items()}

    def bounds(self) -> Bounds:
        """Return the first offset and the end of each partition that the feed reads."""
        return self._source.bounds()

    def ends(self) -> Positions:
        """Return the ends of the topics that the feed reads."""
        return {part: end for part, (_, end) in self.bounds().items()}

    def read(self) -> Positions:
        """Return the offsets up to which the ledger has them."""
        newest = last_entry(self._path)
        return range_ends(newest[1].offsets) if newest else {}

    def lag(self) -> int:
        """Return the offsets that no entry has yet: those that wait, and those of the epoch that runs."""
        read, bounds = self.read(), self._source.bounds().items()
        return sum(end - read.get(part, first) for part, (first, end) in bounds)

    def _written(self, begin: Positions, bounds: Bounds) -> int:
        """Count the feed's records in its topic from some positions on; what expired before it was counted is not counted."""
        end = {part: at for part, (_, at) in bounds.items()}
        known = self._tally if self._tally.reaches(begin, end) else Tally(begin, begin, 0)
        start = {part: max(known.end.get(part, 0), first) for part, (first, _) in bounds.items()}
        found = 0
        if any(start[part] < at for part, at in end.items()):
            name = (FEED, self._feed.id.encode())
            records = self._sink.records(start, end)
            found = sum(name in (record.headers() or ()) for record in records)
        self._tally = Tally(begin, end, known.records + found)
        return self._tally.records

    @property
    def _reads_all(self) -> bool:
        """Return whether its tables judge each record of their topics, so that an offset without a verdict has no record."""
        return not any(each.is_routed or each.passes_over for each in self._feed.tables)

    def _commit(  # noqa: PLR0913  # the figures of an entry
        self,
        epoch: int,
        offsets: Offsets,
        sent: Offsets,
        written: int,
        *,
        lost: Offsets | None = None,
        accepted: str | None = None,
        counts: Counts | None = None,
    ) -> Entry:
        gone = lost or {}
        span = sum(end - begin for part, (begin, end) in offsets.items() if part not in gone)
        found = Counts(rows=span) if counts is None else counts
        begun = new_entry.topics_read(
            self._feed,
            self._mode.name,
            self._stream,
            epoch,
            topics=self._feed.topics,
            offsets=offsets,
        )
        entry = replace(
            begun,
            sent=sent,
            read=found.rows,
            good=found.good,
            quarantined=found.held,
            dropped_by_watermark=found.dropped,
            others=0 if self._reads_all else span - found.rows,
            without_record=span - found.rows if self._reads_all else 0,
            written=written,
            lost=gone,
            accepted=accepted,
            duration_ms=int((time.monotonic() - self._at) * 1000),
            rules=self._feed.version,
        )
        delta_commit.Commit(self._spark, self._path).commit(entry.encoded())
        self._at = time.monotonic()
        return entry


def _empty(ends: Positions) -> dict[str, tuple[int, int]]:
    return {name_of(part): (end, end) for part, end in sorted(ends.items())}
