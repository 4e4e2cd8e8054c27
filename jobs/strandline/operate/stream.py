"""The programs of a lake: who orders the always-on ones, which tables a start runs, what they log; and what sends the rows that leave."""

import re
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import Any

from strandline import catalog

from strandline.core.errors import DefinitionError, LakeError
from strandline.core.table import Table
from strandline.core.topic import Topic
from strandline.engine.accounting.routes import read_before, topics_read
from strandline.engine.accounting.table_books import Closed
from strandline.engine.flow import readers
from strandline.engine.flow.function_plan import hidden
from strandline.engine.flow.publications import (
    KafkaTopic,
    PostgresTable,
    Publish,
    declared,
    find,
    identity,
)
from strandline.engine.flow.publisher import Publisher, Route
from strandline.engine.flow.targets import Target, ToFunction, ToKafka, ToPostgres
from strandline.engine.kafka import broker
from strandline.engine.kafka import broker as kafka_broker
from strandline.engine.kafka.broker import Broker
from strandline.engine.lake.completeness import fed
from strandline.engine.lake.duckdb_table import Range, columns_of
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.log_actions import table_id
from strandline.engine.lake.shelves import Promotion, promotions
from strandline.engine.lake.store_lease import FencedError
from strandline.engine.repair import closed_range
from strandline.engine.runtime import clock
from strandline.engine.runtime.log_files import Level, concerns, is_before, names, record
from strandline.engine.runtime.outage import Pause
from strandline.engine.runtime.settings import Settings, environment
from strandline.engine.service.background_stream import STREAM, Always, Program
from strandline.engine.service.backlog import in_words, seconds_left
from strandline.engine.service.condition import (
    Condition,
    condition,
    damaged,
    outdated,
    overdue,
    unrouted,
)
from strandline.engine.service.moment_maker import MomentMaker
from strandline.engine.service.stream_health import (
    SILENT,
    Failing,
    Order,
    Shard,
    heartbeat,
    order,
)
from strandline.engine.service.stream_host import Pulse
from strandline.operate import lakes
from strandline.operate.listener import Log


def always(
    found: Settings, where: Lake, by: str | None = None, program: Program = STREAM
) -> Always:
    """Return a program of a lake that runs always, the stream or what raises alerts; orders are signed by ``by``, the user when absent."""
    return Always(
        lake=where,
        clock=clock.now,
        environment=environment(found),
        by=by or clock.login(),
        program=program,
    )


def asked_of(stream: Always, names: Sequence[str], where: Lake) -> list[Table]:
    """Return the tables that a start would run: those that are named, or those of the last start, without retired ones."""
    if names:
        return lakes.to_feed(names, where)
    last = stream.order()
    known = {table.id for table in lakes.named(None)}
    return fed(lakes.named([word for word in (last.words if last else ()) if word in known]), where)


def of_share(tables: list[Table], share: Shard | None) -> list[Table]:
    """Return the tables of a share; all of them where they are not shared out.

    Raises:
        DefinitionError: There is none in it.
    """
    if share is None:
        return tables
    found = [each for each in tables if share.holds(each.id)]
    if not found:
        raise DefinitionError(
            f"no table falls into share {share}",
            hint="share the tables out among fewer hosts.",
            shard=str(share),
        )
    return found


def moments_beside(
    found: Settings, where: Lake, stop: threading.Event, says: Callable[[str], None]
) -> Callable[[Table], bool]:
    """Note moments beside a stream until it stops, where the settings want some; return what says whether a table waits for one."""
    every, within = found.moments_every, found.moments_within
    maker = MomentMaker(where, catalog.tables, stop, every=every, within=within, says=says)
    if every:
        maker.start()
    return maker.holds


# Whether the programs of a lake are alive, and its own broker brought up.


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """What is known of the programs of a lake.

    Args:
        settings: By which it is asked.
        lake: The lake.
        broker: Its own broker, where it runs and no other is named.
        beat: The last heartbeat of its stream.
        asked: The order that its stream follows.
        alerts: The last heartbeat of what raises alerts.
        promoted: The promotions of alert rules.
        starting: Whether the stream starts, and has written no heartbeat yet.
        condition: All of that in a sentence.
    """

    settings: Settings
    lake: Lake
    broker: Broker | None
    beat: Mapping[str, Any] | None
    asked: Order | None
    alerts: Mapping[str, Any] | None
    promoted: Sequence[Promotion]
    starting: bool
    condition: Condition

    @property
    def is_ill(self) -> bool:
        """Whether the stream should run and does not; one that starts has no heartbeat for some seconds."""
        if (
            self.starting
            or self.asked is None
            or not self.asked.runs
            or self.asked.is_suspended(clock.now())
        ):
            return False
        return not self.beat or not self.beat["alive"] or bool(silence(self.beat))


def status_of(found: Settings, where: Lake) -> Status:
    """Look at the programs of a lake."""
    running = None if found.kafka else kafka_broker.status(where)
    beat, asked = heartbeat(where, clock.now()), order(where)
    live = heartbeat(where, clock.now(), where.feeds_beat)
    promoted = promotions(where)
    starting = always(found, where).is_starting()
    return Status(
        settings=found,
        lake=where,
        broker=running,
        beat=beat,
        asked=asked,
        alerts=live,
        promoted=promoted,
        starting=starting,
        condition=condition(where, clock.now(), starting=starting)
        .beside(damaged(catalog.tables(), where))
        .below(unrouted(catalog.tables(), where))
        .below(outdated(fed(catalog.tables(), where), where))
        .below(overdue(fed(catalog.tables(), where), where, clock.now())),
    )


def silence(beat: Mapping[str, Any]) -> str:
    """Return for how long a stream that lives has written no heartbeat, where that is too long."""
    age = clock.now() - datetime.fromisoformat(beat["at"])
    return f"{age.total_seconds():.0f} s" if age > SILENT else ""


def nearest_danger(where: Lake) -> dict[str, Any] | None:
    """Return the nearest danger that the radar saw when it looked last; None where it never looked, or saw none."""
    seen = readers.last(where)
    danger = readers.worst(seen[1]) if seen else None
    return {"at": seen[0], **asdict(danger)} if seen and danger else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Up:
    """A broker that answers.

    Args:
        broker: It.
        made: The topics that were created.
        gone: Those that tables have read and that are deleted; they are not made anew.
    """

    broker: Broker
    made: Sequence[Topic]
    gone: Sequence[Topic]


def brought_up(where: Lake, port: int | None) -> Up:
    """Start a lake's own broker, unless it runs, and create the topics of the declared tables on it."""
    tables = fed(catalog.tables(), where)
    running = kafka_broker.up(where.open_for_writing(), port)
    read = topics_read(where)
    gone = [each for each in kafka_broker.missing(running.address, {}, tables) if each.name in read]
    return Up(
        broker=running, made=kafka_broker.make_missing(running.address, tables, read), gone=gone
    )


def readers_of(gone: Sequence[Topic], where: Lake) -> str:
    """Return the tables that have read topics, in words."""
    names = {topic.name for topic in gone}
    return " and ".join(each.id for each in catalog.tables() if names & read_before(each, where))


# The logs of a lake's programs: what a stream writes into its own, which logs there are, and which lines of one are asked for.

STREAM_LOG = "stream"

AGO = re.compile(r"(\d+)([smhd])")
UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which lines of a log are asked for; text that is no record, such as a crash before logging began, always is.

    Args:
        table: The table that they concern; all when None.
        level: The least important level.
        since: The first moment; all when None.
    """

    table: str | None
    level: Level
    since: datetime | None

    def holds(self, line: str) -> bool:
        """Return whether a line is of the table and the level."""
        found = record(line)
        return found is None or (
            (self.table is None or concerns(found, self.table))
            and Level(found["level"]).is_at_least(self.level)
        )

    def is_too_old(self, line: str) -> bool:
        """Return whether a line is from before the first moment."""
        if self.since is None or (found := record(line)) is None:
            return False
        return is_before(found, self.since)


def log_of(where: Lake, program: str) -> Path:
    """Return the log of a program.

    Raises:
        DefinitionError: There is none.
    """
    found = {name: where.log(name).local for name in names(where.log(STREAM_LOG).parent.local)}
    if (broker := kafka_broker.log(where)).exists():
        found["broker"] = broker.local
    if program in found:
        return found[program]
    known = sorted(found)
    near = get_close_matches(program, known, n=1)
    meant = f"did you mean {near[0]}? " if near else ""
    begin = (
        "`strandline resume` starts a stream with a log; one in a terminal shows its figures there."
    )
    has = f"the lake has logs of {', '.join(known)} (--of)." if known else ""
    hint = f"{begin} {has}" if program == STREAM_LOG else f"{meant}{has or begin}"
    raise DefinitionError(
        f"there is no log of {'the stream' if program == STREAM_LOG else program} in {where.root}",
        hint=hint.strip(),
        program=program,
    )


def begin_of(text: str, now: datetime) -> datetime:
    """Parse a moment, or how long ago it was.

    Raises:
        DefinitionError: It is neither.
    """
    ago = AGO.fullmatch(text)
    if ago is None:
        return closed_range.moment(text, "--since")
    try:
        return now - timedelta(**{UNITS[ago[2]]: int(ago[1])})
    except OverflowError as error:
        raise DefinitionError(f"--since {text!r} is too long ago", hint="leave it out.") from error


# What a stream logs: progress when there is some, waiting tables once a minute, each failure.
#
# A log that is written for months must not repeat itself: twenty-one idle tables wrote 15,000 lines an hour.


EVERY = 5.0
"""Seconds between two records about a table that commits."""

MINUTE = 60.0


class StreamLog:
    """Logs what is new; remembers what it logged."""

    def __init__(self, log: Log, clock: Callable[[], float] = time.monotonic) -> None:
        """Begin with nothing logged."""
        self._log = log
        self._clock = clock
        self._due = self._minute = clock()
        self._logged: dict[str, tuple[int, str | None]] = {}
        self._waited: set[str] = set()
        self._failures: dict[str, int] = {}

    def look(self, pulses: Iterable[Pulse], errors: Mapping[str, Exception]) -> None:
        """Log what is new of the tables, and the errors of those that fail."""
        found = list(pulses)
        if self._clock() >= self._due:
            self._due = self._clock() + EVERY
            for pulse in found:
                self._account(pulse)
        self._absences(found)
        for pulse in found:
            self._failure(pulse, errors.get(pulse.table))

    def _account(self, pulse: Pulse) -> None:
        now = (pulse.batches, pulse.gate)
        if pulse.away or pulse.failing or self._logged.get(pulse.table, (0, None)) == now:
            return
        self._logged[pulse.table] = now
        if pulse.gate is not None:
            self._log.warning("gate shut", table=pulse.table, lag=pulse.lag, message=pulse.gate)
            return
        self._log.info(
            "progress",
            table=pulse.table,
            batch=pulse.batch,
            batches=pulse.batches,
            rows=pulse.read,
            rows_per_second=round(pulse.rate, 1),
            lag=pulse.lag,
            watermark=pulse.watermark,
            last_ms=pulse.last_ms,
            **_ahead(pulse),
        )

    def _failure(self, pulse: Pulse, error: Exception | None) -> None:
        """Log each failure as it happens, and its end."""
        found = pulse.failing
        before = self._failures.pop(pulse.table, 0)
        if found is None:
            if before:
                self._log.info("goes on", table=pulse.table)
            return
        self._failures[pulse.table] = found.tries
        if found.tries != before:
            self._fails(pulse, found, error)

    def _fails(self, pulse: Pulse, found: Failing, error: Exception | None) -> None:
        self._log.error(
            "failed",
            table=pulse.table,
            message=found.says,
            tries=found.tries,
            since=found.since,
            again_in_seconds=found.pause,
            kind=found.kind,
            hint=found.hint,
            exc_info=error,
        )

    def _absences(self, pulses: list[Pulse]) -> None:
        waiting: dict[str, list[str]] = {}
        for pulse in pulses:
            if pulse.away:
                waiting.setdefault(pulse.away, []).append(pulse.table)
        names = {name for each in waiting.values() for name in each}
        for name in sorted(self._waited - names):
            self._log.info("goes on", table=name)
        self._waited &= names
        if names and self._clock() >= self._minute:
            self._minute = self._clock() + MINUTE
            self._waited = names
            for why, tables in waiting.items():
                self._log.warning("waiting", tables=tables, message=why)


def _ahead(pulse: Pulse) -> dict[str, object]:
    """Return of a table that is behind when it will have caught up, and the size of its batches."""
    if not in_words(pulse.behind_rows, pulse.falls):
        return {}
    left = seconds_left(pulse.behind_rows or 0, pulse.falls)
    return {
        "behind": pulse.behind_rows,
        "caught_up_in_seconds": None if left is None else round(left),
        **{f"size_{name}": value for name, value in (pulse.size or {}).items()},
    }


def log_books(log: Log, news: Iterable[Closed | Exception]) -> None:
    """Log which books were closed, and which could not be."""
    for each in news:
        if isinstance(each, Closed):
            log.info("books closed", table=each.table, version=each.until, entries=each.entries)
        else:
            log.warning("books stay open", message=str(each), exc_info=each)


def waits_for(pulse: Pulse) -> str:
    """Return in a few words what a table waits for."""
    if pulse.gate:
        return "for its gate"
    if pulse.away:
        return "for what is away"
    return f"to be tried again: {pulse.failing.says}" if pulse.failing else ""


def fails(table: str, tries: int, message: str) -> str:
    """Return the failure of a table as a sentence."""
    return f"{table} has failed {tries:,} times in a row: {message}"


# Rows that leave: what a project publishes is sent to its targets, once or for as long as the process lives.

LOOK = 1.0
"""Seconds between two looks for a new commit."""


def publishers(
    found: Settings, where: Lake, names: Sequence[str] = (), *, sends: bool = True
) -> list[Publisher]:
    """Return what sends the publications of these names; all when none is named.

    Raises:
        DefinitionError: There is none of a name, or a table does not exist yet.
    """
    wanted = [find(name) for name in names] if names else [*declared()]
    if not wanted:
        find("")
    for each in wanted:
        where.refuse_missing(each.table)
    if sends:
        where.open_for_writing()
    return [
        Publisher(
            each,
            where,
            partial(route, each, found, where),
            clock.now,
            partial(_masked, each, where),
        )
        for each in wanted
    ]


def _masked(declared: Publish, where: Lake) -> frozenset[str]:
    """Return the columns that leave masked."""
    return frozenset() if declared.unmasked.strip() else hidden(declared.table, where)


def route(declared: Publish, found: Settings, where: Lake) -> Route:
    """Return the way of a publication, with the columns that its table has now.

    Raises:
        DefinitionError: Its key is masked, or there is no broker.
    """
    table, path = declared.table, where.table(declared.table)
    columns = columns_of(path, key := identity(table))
    masked = _masked(declared, where)
    if secret := sorted(masked.intersection(key)):
        raise DefinitionError(
            f"{declared.name} publishes {table.id}, whose key {' and '.join(secret)} is masked: masked values are no key",
            hint='give the reason for which its columns leave in the clear: unmasked="billing bills by e-mail".',
            table=table.id,
        )
    kinds = {name: "VARCHAR" if name in masked else kind for name, kind in columns.kinds.items()}
    id_ = f"strandline-{declared.name}-{table_id(path)[:8]}"
    return Route(columns=columns, masked=masked, target=_target(declared, id_, kinds, found, where))


def _target(
    declared: Publish, id_: str, kinds: Mapping[str, str], found: Settings, where: Lake
) -> Target:
    match declared.to:
        case KafkaTopic() as topic:
            return ToKafka(topic.name, id_, _locate(topic, found, where), found.kafka_options)
        case PostgresTable() as table:
            return ToPostgres(table.name, table.url, id_, kinds)
        case function:
            return ToFunction(function)


def _locate(topic: KafkaTopic, found: Settings, where: Lake) -> Callable[[], str]:
    def located() -> str:
        address = lakes.demanded_address(found, where)
        if found.kafka is None:
            broker.create_topic(address, topic.name, topic.partitions, {})
        return address

    return located


def send_once(
    all_: Sequence[Publisher], *, again: bool, since: str | None = None, until: str | None = None
) -> None:
    """Send what there is to each target, then end.

    Args:
        all_: What sends.
        again: Whether all rows are sent anew; with a range those of it once more.
        since: The first moment of the range.
        until: The moment after it.

    Raises:
        LakeError: It failed for a target, the first of them; the others have got what there is.
    """
    spans = [closed_range.both(since, until, "neither for all rows", each.table) for each in all_]
    if any(spans) and not again:
        raise DefinitionError(
            "a range was given, and not what to do with it",
            hint="add --again: its rows are sent once more.",
        )
    failures = []
    for each, span in zip(all_, spans, strict=True):
        try:
            with each.lease():
                if again and not span:
                    each.again()
                while each.step():
                    pass
                if span:
                    each.replay(Range(each.table.event_at or "", span.since, span.until))
        except LakeError as error:
            failures.append(error)
    if failures:
        raise failures[0]


class PublishHost:
    """Sends to several targets until it is stopped: a thread for each, so that one that is away holds no other up."""

    def __init__(
        self, all_: Sequence[Publisher], where: Lake, log: Log, stop: threading.Event
    ) -> None:
        """Prepare; nothing is read yet."""
        self._all, self._log, self._stop = all_, log, stop
        self._pause = where.pause(LOOK)
        self._error: Exception | None = None

    def serve(self) -> None:
        """Send until stopped.

        Raises:
            TransientError: Another process sends to one of the targets, or has taken over.
        """
        with ExitStack() as held:
            for each in self._all:
                held.enter_context(each.lease())
            threads = [threading.Thread(target=self._tend, args=(each,)) for each in self._all]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        if self._error is not None:
            raise self._error

    def _tend(self, each: Publisher) -> None:
        pause, said = Pause(), ""
        while not self._stop.is_set():
            is_sent = False
            try:
                is_sent = pause.is_due() and each.step()
            except FencedError as error:
                self._error = error
                self._stop.set()
            except Exception as error:  # noqa: BLE001  # it is tried again, and the others go on
                pause.failed()
                reason = error.message if isinstance(error, LakeError) else repr(error)
                if reason != said:
                    self._log.warning("waits", publication=each.name, reason=reason)
                said = reason
            else:
                if is_sent:
                    pause.well()
                    said = ""
            if not is_sent:
                self._stop.wait(self._pause)
