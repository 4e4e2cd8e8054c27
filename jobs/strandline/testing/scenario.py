"""A scenario: records arrive, time moves on, a process dies and is started again, and a table has the rows that it should have.

The pytest fixture ``stream`` makes one (jobs/strandline/testing/plugin.py). Topics are in memory, all else is real: bronze, silver and
gold are Delta tables in a folder of the test, run by the engine's own loop, with ledger, quarantine and checkpoints.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from pyspark.sql import DataFrame, SparkSession

from strandline.core.errors import DefinitionError
from strandline.core.stateful import AvailableNow, Batch
from strandline.core.table import Computed, Ingested, Judged, Table
from strandline.core.topic import Topic
from strandline.engine.flow.runner import Site
from strandline.engine.kafka.send_records import Given, GivenTopics
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.place import Place
from strandline.operate.session import length
from strandline.testing.look import (
    BEGIN,
    EventTime,
    Fields,
    Look,
    Row,
    Write,
    below,
    fed,
    moment,
    payload,
    refuse_unknown,
    waited_for,
)
from strandline.testing.ways import POINTS, Bounded, Death, Live, Way

MODES = ("batch", "catch-up", "stream")
"""The modes of a scenario: computed once over all rows; caught up with what came; always on."""

EXTENSION = "DeltaSparkSessionExtension"
"""Of the extensions of Spark that the engine starts it with, the one without which no table runs."""

STEP = timedelta(seconds=1)
"""How far apart records arrive that do not say when."""

Record: TypeAlias = Fields | bytes | str | None
Moments: TypeAlias = str | Write | Mapping[str, str | Write]
"""The field with the event time, or what writes it; or that for each topic."""
Edit: TypeAlias = Computed | Callable[..., DataFrame]
Heard: TypeAlias = Callable[[str, float], None]


class Scenarios(Protocol):
    """What the fixture ``stream`` is: a function that begins a scenario of a table.

    >>> def test_an_order_is_a_row(stream: Scenarios) -> None:
    ...     s = stream(TABLE)
    ...     s.send({"order_id": "a", "amount": 2.5}, at="09:00:00")
    ...     s.expect(rows=[{"order_id": "a", "amount": 2.5}])
    """

    def __call__(self, table: Table, *, time: Moments | None = None) -> "Scenario":
        """Begin a scenario in a lake of its own.

        Args:
            table: A table of silver or gold; all that it reads runs with it, down to its topics.
            time: The field of a record with its event time, where it has another name than silver's ``event_at``: a name, with dots
                for a field within another, or a function that returns the record with a moment. For several topics a dictionary.
        """


@dataclass(frozen=True, slots=True)
class _Put:
    """A record that was sent, as the test wrote it."""

    sent: Given
    record: Record


class Scenario:
    """A table, the tables that it reads and their topics, in one mode.

    >>> s = stream(TABLE)
    >>> s.send({"order_id": "a", "amount": 2.5}, at="09:00:00")
    >>> s.late({"order_id": "b", "amount": 1}, by="2 hours")
    >>> s.expect(rows=[{"order_id": "a"}], quarantined={"late": 1})
    """

    def __init__(  # noqa: PLR0913  # what it is of, and where it runs
        self,
        table: Table,
        *,
        spark: SparkSession,
        folder: Path,
        mode: str,
        time: Moments | None = None,
        heard: Heard = lambda _, __: None,
    ) -> None:
        """Begin; the fixture does it."""
        if isinstance(table, Ingested):
            raise DefinitionError(
                f"{table.id} is as received: nothing is computed there that a scenario could show",
                hint="name a table of silver or gold that reads it.",
                table=table.id,
            )
        if not isinstance(table, Computed):
            raise DefinitionError(
                f"stream() takes a table, and not {table!r:.80}",
                hint="from shop.silver.orders import TABLE, then stream(TABLE).",
            )
        self.mode = mode
        self.lake = Lake(Place.of(folder)).open_for_writing()
        self._table: Computed = table
        self._chain = below(table)
        self._time = time
        self._heard = heard
        self._now: datetime | None = None
        self._puts: list[_Put] = []
        self._clocks: list[_Put] = []
        self._named_tables = {table.id}
        self._is_fresh = False
        self._death: Death | None = None
        self._failure: Exception | None = None
        self._depth = 0
        self._given = GivenTopics()
        self._given.know(self._topics().values())
        self._refuse_other_topics()
        site = Site(spark=spark, clock=lambda: self._now or BEGIN, given=self._given, poll=POLL)
        self._way = WAYS[mode](self.lake, site, self._given)

    @property
    def now(self) -> datetime:
        """Return the clock of the scenario: the newest arrival."""
        return self._now or BEGIN

    def send(  # noqa: PLR0913  # what a record has
        self,
        record: Record,
        *more: Record,
        at: str | datetime | None = None,
        topic: str | Topic | None = None,
        key: str | bytes | None = None,
        partition: int = 0,
        headers: Mapping[str, bytes | str] | None = None,
    ) -> Given:
        """Send records of a topic, which bronze takes in at once, as one commit.

        A dictionary becomes JSON. It gets its event time where it has none: that of its arrival. A text or bytes are sent as they
        are, None is a tombstone.

        Args:
            record: The record.
            more: Others that arrive with it.
            at: When it arrives: ``"09:00:00"``, a whole moment, or a datetime. Without it a record arrives when it happened, or a
                second after the one before, whichever is later.
            topic: Its topic, where the scenario has several.
            key: Its key in Kafka.
            partition: Its partition.
            headers: Its headers.

        Returns:
            The last of them, by which ``duplicate`` can name it.

        >>> s.send({"order_id": "a", "amount": 2.5}, at="09:00:00")
        >>> s.send("no order")
        """
        with self._verb("send"):
            about = self._event_time(topic)
            for each in (record, *more):
                arrived = self._when(at, each, topic)
                whole = about.stamped(each, arrived) if isinstance(each, Mapping) else each
                self._put(whole, arrived, topic, key, partition, headers)
            self._flow()
        return self._puts[-1].sent

    def late(  # noqa: PLR0913  # as above
        self,
        record: Fields,
        *,
        by: str | timedelta,
        at: str | datetime | None = None,
        topic: str | Topic | None = None,
        key: str | bytes | None = None,
        partition: int = 0,
        headers: Mapping[str, bytes | str] | None = None,
    ) -> Given:
        """Send a record of what happened a length of time before its arrival.

        It is held as late where the table's ``lateness`` admits less, and a row otherwise; by that law and not by a watermark, so
        in all modes alike.

        Args:
            record: The record; its event time is written over.
            by: How long ago it happened: ``"2 hours"``.
            at: When it arrives, as of ``send``.
            topic: As of ``send``, as are the next ones.
            key: Its key.
            partition: Its partition.
            headers: Its headers.

        >>> s.late({"order_id": "b", "amount": 1}, by="2 hours")
        """
        with self._verb("late"):
            if not isinstance(record, Mapping):
                raise DefinitionError(
                    f"late() writes an event time into a record, and {record!r:.40} has no fields",
                    hint="write a dictionary, or the time into the text yourself and use send().",
                )
            arrived = self._when(at, {}, topic)
            stamped = self._event_time(topic).moved(record, arrived - _span(by))
            self._put(stamped, arrived, topic, key, partition, headers)
            self._flow()
        return self._puts[-1].sent

    def duplicate(self, which: object = None, *, at: str | datetime | None = None) -> Given:
        """Send a record once more, byte by byte.

        Args:
            which: The value of its key, or what ``send`` has returned; the last one without it.
            at: When it arrives, as of ``send``.

        >>> s.duplicate("a")
        """
        with self._verb("duplicate"):
            former = self._named(which)
            sent = former.sent
            arrived = moment(at) if at is not None else self._next()
            again = self._given.send(
                sent.topic,
                sent.value,
                at=arrived,
                partition=sent.partition,
                key=sent.key,
                headers=dict(sent.headers),
            )
            self._noted(_Put(again, former.record), arrived)
            self._flow()
        return again

    def advance(
        self, by: str | timedelta, *records: Fields, topic: str | Topic | None = None
    ) -> None:
        """Let time move on: watermarks pass, windows close.

        Time of a stream moves by its records and by nothing else, so one is sent: to each topic that the table waits for the first
        record that the test has sent there, once more, so much later, under another key. It is in no row that ``expect`` compares,
        unless it is added up with others: a window that has no other record is left out. The books count it, as the topic had it.
        Where a record of the same kind would mean something (the end of a session), write one that does not.

        Args:
            by: How far: ``"2 hours"``, from the last arrival.
            records: Records of your own in place of the copies.
            topic: Their topic, where the scenario has several.

        >>> s.advance("2 hours")
        >>> s.advance("1 day", {"message_id": "clock", "kind": "discover"}, topic="dhcp-events")
        """
        with self._verb("advance"):
            at = self.now + _span(by)
            for record in records:
                stamped = self._event_time(topic).moved(record, at)
                self._clocks.append(self._put(stamped, at, topic, None, 0, None))
            for record, sent in () if records else [*self._copies()]:
                stamped = self._event_time(sent.topic).moved(record, at)
                headers = dict(sent.headers)
                self._clocks.append(self._put(stamped, at, sent.topic, sent.key, 0, headers))
            self._flow()

    def stop_at(self, point: str, of: Table | None = None) -> None:
        """Let the process die in the next batch of the table, as ``kill -9`` ends it.

        What was sent before is read first. After it records still come to the topics; nothing reads them until ``restart_with``.

        Args:
            point: ``"planned"``: Spark has planned the batch, nothing is written. ``"quarantine_written"``: its quarantine is committed,
                its table is not. ``"committed"``: its table is committed, and Spark has not noted that the batch is done.
            of: Another table of the scenario.

        >>> s.stop_at("quarantine_written")
        >>> s.send({"order_id": "a", "amount": 1}, "no order")
        >>> s.restart_with()
        """
        with self._verb("stop_at"):
            if point not in POINTS:
                raise DefinitionError(
                    f"there is no point {point!r} of a batch",
                    hint=f"stop_at takes {', '.join(POINTS)}.",
                )
            table = self._asked(of)
            if point == "quarantine_written" and not isinstance(table, Judged):
                judged = next(each.id for each in reversed(self._chain) if isinstance(each, Judged))
                raise DefinitionError(
                    f"{table.id} has no quarantine",
                    hint=f'stop the table that judges: s.stop_at("quarantine_written", of=TABLE of {judged}).',
                    table=table.id,
                )
            self._forget_death()
            self._bring_up()
            self._death = Death(point, table, self.lake)
            self._death.await_batch(self.mode)

    def restart_with(self, edit: Edit | None = None) -> None:
        """Start the tables again, as they were or with an edit.

        As they were, a batch and a catch-up run when they are looked at next. An edit that the pre-flight refuses is refused here, and the tables are as they were. A stream and a catch-up leave rows as
        they are that the former code made; a batch computes all of them by the edit.

        Args:
            edit: The edited table, ``dataclasses.replace(TABLE, …)``; or another function for the table of the scenario.

        Raises:
            DefinitionError: The edit is refused, or the process had not stopped where ``stop_at`` said.

        >>> s.restart_with()
        >>> s.restart_with(replace(TABLE, rules=(*TABLE.rules, between("amount", 0, 10))))
        """
        with self._verb("restart_with"):
            self._end_at_point()
            former = self._table, self._chain
            if edit is not None:
                self._edit(edit)
            self._is_fresh, self._failure = True, None
            if edit is None and self.mode != "stream":
                return  # what runs to its end runs when it is looked at
            try:
                self._bring_up()
            except Exception:
                self._table, self._chain = former
                raise

    def rows(self, of: Table | None = None) -> list[dict[str, Any]]:
        """Return the rows of the table, or of another one of the scenario, without those that only ``advance`` has made.

        >>> [row["amount"] for row in s.rows()]
        """
        with self._verb("rows"):
            self._asked(of)
            self._bring_up()
            return self._look(of).rows()

    def expect(
        self,
        rows: Sequence[Row] | None = None,
        *,
        quarantined: Mapping[str, int] | None = None,
        ledger: Mapping[str, object] | None = None,
        of: Table | None = None,
    ) -> None:
        """Compare rows, quarantine and ledger with what should be there; what is not named is not compared.

        The books of all tables must balance, whatever is named, unless the process is stopped.

        Args:
            rows: All rows of the table, in any order; of each the columns that matter.
            quarantined: Of each reason the number of records that are held for it; of a gold table those of silver below it.
            ledger: Figures of its balance sheet, such as ``{"read": 3, "good": 2, "duplicates": 1}``.
            of: Another table of the scenario.

        Raises:
            AssertionError: Something is not as expected; the difference is a small table.

        >>> s.expect(rows=[{"order_id": "a", "amount": 2.5}], quarantined={}, ledger={"duplicates": 1})
        """
        __tracebackhide__ = True
        with self._verb("expect"):
            self._asked(of)
            self._bring_up()
            look = self._look(of)
            said = look.differs(rows, quarantined, ledger)
        if said:
            lines = "\n".join(said)
            raise AssertionError(
                f"{look.table.id} in mode {self.mode} is not as expected\n\n{lines}"
            )

    def close(self) -> None:
        """End what runs; the fixture does it."""
        self._forget_death()
        self._way.stop()

    # Records on their way.

    def _put(  # noqa: PLR0913, PLR0917  # what a record has
        self,
        record: Record,
        at: datetime,
        topic: str | Topic | None,
        key: str | bytes | None,
        partition: int,
        headers: Mapping[str, bytes | str] | None,
    ) -> _Put:
        sent = self._given.send(
            self._topic(topic).name,
            payload(record),
            at=at,
            partition=partition,
            key=key.encode() if isinstance(key, str) else key,
            headers={
                each: value.encode() if isinstance(value, str) else value
                for each, value in (headers or {}).items()
            },
        )
        return self._noted(_Put(sent, record), at)

    def _noted(self, put: _Put, at: datetime) -> _Put:
        self._puts.append(put)
        self._now = max(at, self._now or at)
        self._is_fresh = True
        return put

    def _when(
        self, at: str | datetime | None, record: Record, topic: str | Topic | None
    ) -> datetime:
        if at is not None:
            return moment(at)
        own = self._event_time(topic).found(record)
        if own is None:
            return self._next()
        return own if self._now is None else max(own, self._next())

    def _next(self) -> datetime:
        return BEGIN if self._now is None else self._now + STEP

    def _flow(self) -> None:
        """Let bronze take in what was sent; a stream reads on at once."""
        self._given.cut()
        if self.mode == "stream" and not self._is_dead and self._failure is None:
            try:
                self._bring_up()
            except Exception as error:  # noqa: BLE001  # raised where the scenario looks, as in the other modes
                self._failure = error

    def _copies(self) -> Iterator[tuple[Fields, Given]]:
        """Yield for each topic, and each kind of it, the first record that was sent, under another key."""
        seen = set[object]()
        topics = waited_for(self._table)
        for put in self._puts:
            name, record = put.sent.topic, put.record
            if not isinstance(record, Mapping) or name not in topics:
                continue
            about = self._event_time(name)
            mark = (name, str(about.kind(record)), put.sent.headers)
            if mark not in seen:
                seen.add(mark)
                other = about.with_other_key(record, f"advance-{len(self._clocks) + len(seen)}")
                yield other, put.sent
        if not seen:
            raise DefinitionError(
                "time moves by records, and no record with fields was sent that could be sent again",
                hint='send one first, or give one: s.advance("2 hours", {…}).',
            )

    def _named(self, which: object) -> _Put:
        """Return a record that was sent.

        Raises:
            DefinitionError: There is none of that name.
        """
        own = [each for each in self._puts if each not in self._clocks]
        if which is None and own:
            return own[-1]
        for each in reversed(own):
            if which is each.sent or which == each.record:
                return each
            if which in self._event_time(each.sent.topic).key_of(each.record):
                return each
        known = dict.fromkeys(
            str(key)
            for each in own
            for key in self._event_time(each.sent.topic).key_of(each.record)
            if not isinstance(key, tuple)
        )
        raise DefinitionError(
            f"no record {which!r:.40} was sent" if own else "no record was sent yet",
            hint=f"those that were have the keys {', '.join(known) or 'of no field'}; send() returns what names one, too.",
        )

    # Tables and topics.

    def _topics(self) -> dict[str, Topic]:
        return {topic.name: topic for table in self._chain for topic in table.topics}

    def _topic(self, named: str | Topic | None) -> Topic:
        """Return a topic of the scenario.

        Raises:
            DefinitionError: There is none of that name, or several and none is named.
        """
        topics = self._topics()
        if named is not None:
            refuse_unknown([str(named)], topics, "the scenario", "topic")
            return topics[str(named)]
        if len(topics) > 1:
            raise DefinitionError(
                f"{self._table.id} has several topics: {', '.join(topics)}",
                hint=f'name the one of this record: topic="{next(iter(topics))}".',
                table=self._table.id,
            )
        return next(iter(topics.values()))

    def _event_time(self, topic: str | Topic | None) -> EventTime:
        found = self._topic(topic)
        tables = [
            table
            for table in self._chain
            if isinstance(table, Judged)
            and found.name in {each.name for each in table.bronze.topics}
        ]
        named = self._time.get(found.name) if isinstance(self._time, Mapping) else self._time
        return EventTime(found, tables, named)

    def _refuse_other_topics(self) -> None:
        if isinstance(self._time, Mapping):
            refuse_unknown(self._time, self._topics(), "the scenario", "topic")

    def _of(self, table: Table | None) -> Computed:
        """Return a table of the scenario, as it is now.

        Raises:
            DefinitionError: It is none, or bronze.
        """
        if table is None:
            return self._table
        there = [each for each in self._chain if not isinstance(each, Ingested)]
        found = next((each for each in there if each.id == getattr(table, "id", table)), None)
        if found is None:
            raise DefinitionError(
                f"{table} is no table of this scenario",
                hint=f"its tables are {', '.join(each.id for each in there)}.",
                table=str(table),
            )
        return found

    def _asked(self, of: Table | None) -> Computed:
        """Return a table that the scenario names, and let it run from now on, whatever it has to read."""
        found = self._of(of)
        if found.id not in self._named_tables:
            self._named_tables.add(found.id)
            self._is_fresh = self._is_fresh or bool(self._puts)
        return found

    def _sent_to(self) -> frozenset[str]:
        """Return the topics to which something was sent."""
        return frozenset(each.sent.topic for each in self._puts)

    def _look(self, of: Table | None) -> Look:
        return Look(
            lake=self.lake,
            table=self._of(of),
            clocks=frozenset(each.sent.place for each in self._clocks),
            sent_to=self._sent_to(),
            now=self.now,
            is_dead=self._is_dead,
        )

    def _edit(self, edit: Edit) -> None:
        """Put an edited table in the place of the former one, below all that read it."""
        if not isinstance(edit, Computed):
            if not callable(edit):
                raise DefinitionError(
                    f"restart_with takes an edited table or a function, and not {edit!r:.60}",
                    hint="s.restart_with(dataclasses.replace(TABLE, …)).",
                )
            edit = replace(self._table, transform=edit)
        now = self._asked(edit)
        changed: dict[str, Table] = {now.id: edit}
        for table in self._chain:
            if isinstance(table, Ingested) or table.id == edit.id:
                continue
            if any(each.id in changed for each in table.upstream):
                reads = tuple(changed.get(each.id, each) for each in table.upstream)
                changed[table.id] = replace(table, reads=reads)  # type: ignore[arg-type]  # of the kinds that it had
        self._table = changed.get(self._table.id, self._table)  # type: ignore[assignment]  # it is computed
        self._chain = below(self._table)
        self._given.know(self._topics().values())

    # The process that runs them.

    @property
    def _is_dead(self) -> bool:
        return self._death is not None and self._death.is_reached

    def _bring_up(self) -> None:
        """Let the tables read what there is, unless their process has died.

        Raises:
            Exception: What ended a table.
        """
        if self._failure is not None:
            raise self._failure
        if self._is_dead or not self._is_fresh:
            return
        self._is_fresh = False
        self._way.run(fed(self._table, self._sent_to(), self._named_tables), self._death)

    def _end_at_point(self) -> None:
        """End the process: where it was to die, or between two batches.

        Raises:
            DefinitionError: It was to die, and no batch was at that point.
        """
        if self._failure is None:
            self._bring_up()
        death = self._death
        self._forget_death()
        self._way.stop()
        if death is not None and not death.is_reached:
            why = (
                "the batch held no record, so no quarantine was written"
                if death.point == "quarantine_written"
                else "no batch came after stop_at"
            )
            raise DefinitionError(
                f"{death.table.id} did not stop at {death.point}: {why}",
                hint="send what makes such a batch between stop_at() and restart_with().",
                table=death.table.id,
            )

    def _forget_death(self) -> None:
        if self._death is not None:
            self._death.forget(self.mode)
            self._death = None

    @contextmanager
    def _verb(self, name: str) -> Iterator[None]:
        """Measure a verb."""
        began = time.monotonic()
        try:
            yield
        finally:
            self._heard(name, time.monotonic() - began)


def _span(by: str | timedelta) -> timedelta:
    return by if isinstance(by, timedelta) else length(by)


WAYS: Mapping[str, Callable[[Lake, Site, GivenTopics], Way]] = {
    "batch": partial(Bounded, Batch),
    "catch-up": partial(Bounded, AvailableNow),
    "stream": Live,
}
POLL = 0.03
"""Seconds between two looks at a query; each is three calls of the JVM."""


def fitting(session: SparkSession) -> SparkSession:
    """Return a session in which tables run.

    Raises:
        DefinitionError: It is one that the engine has not started.
    """
    extensions = session.sparkContext.getConf().get("spark.sql.extensions", "") or ""
    if EXTENSION not in extensions:
        raise DefinitionError(
            "the fixture `spark` of this suite is a Spark without what the engine's tables need, and a process has one Spark only",
            hint="let it be `trial_spark` of strandline: `with trial_spark(folder) as session: yield session`.",
        )
    return session
