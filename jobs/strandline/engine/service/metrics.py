"""The metrics of a lake: of its ledger (what each table read and wrote, how far it is behind), of what is beside it, of its programs.

The books are followed from look to look as a stream does (jobs/strandline/engine/service/backlog.py): the first look begins at their last
close, each further one reads what was committed since. What needs the table itself (are its files there, has the quarantine its
rows) is for ``strandline ledger`` and for Dagster's checks: it costs a look at each file.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from strandline.core.kind import in_utc
from strandline.core.table import Ingested, Judged, Table
from strandline.engine.accounting import gate_files
from strandline.engine.accounting.gate_files import Where
from strandline.engine.accounting.routes import fields_by_kind
from strandline.engine.accounting.table_books import Books
from strandline.engine.flow import readers
from strandline.engine.flow.publications import publications
from strandline.engine.lake.completeness import retired
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.locks import lease_records
from strandline.engine.lake.log.commit_log import committed_at, is_commit
from strandline.engine.lake.log.ledger import Entry, entry_at, last_entry
from strandline.engine.lake.log.ledger_sums import Sums
from strandline.engine.lake.place import Place
from strandline.engine.runtime.jvm import BUSY
from strandline.engine.service.background_stream import ALERTS, STREAM, Program
from strandline.engine.service.backlog import OpenBooks
from strandline.engine.service.condition import receivers
from strandline.engine.service.stream_health import (
    HANDED_OVER,
    TURN,
    Ill,
    heartbeat,
    is_silent,
    near_beat,
    order,
    watch,
)

# A metric: its name as Prometheus wants it, what it means, its labels; and a sample of it.
#
# The page of metrics (jobs/strandline/engine/service/metrics_page.py), the table of the documentation, the dashboard and the alert rules are
# checked against these values, so a name is written in one place.


@dataclass(frozen=True, slots=True)
class Metric:
    """A figure that is exposed.

    Args:
        name: With its unit; the name of a counter ends in ``_total``.
        means: What it is, in a sentence.
        labels: The names of its labels.
    """

    name: str
    means: str
    labels: tuple[str, ...] = ()

    @property
    def is_counter(self) -> bool:
        """Return whether it only grows, until its source begins anew."""
        return self.name.endswith("_total")

    def of(self, value: float, *labels: object) -> "Sample":
        """Return a sample; the labels in their order."""
        return Sample(metric=self, labels=tuple(map(str, labels)), value=float(value))


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """The value of a metric at a look."""

    metric: Metric
    labels: tuple[str, ...]
    value: float


SEARCHED = 100
"""Commits of a source among which the oldest unread one with rows is looked for; more are maintenance, which is rare."""

TABLE = ("table",)
VERSION = Metric("strandline_table_version", "The table's newest version in Delta.", TABLE)
BATCHES = Metric("strandline_batches_total", "Batches in the ledger of a table.", TABLE)
READ = Metric("strandline_rows_read_total", "Rows that a table has read.", TABLE)
WRITTEN = Metric("strandline_rows_written_total", "Rows that a table has written.", TABLE)
ROWS = Metric(
    "strandline_ledger_rows",
    "Where the rows are that a table has read; a repair moves them from one class to another.",
    ("table", "class"),
)
KINDS = Metric(
    "strandline_records_by_route",
    "Records of topics with kinds: of bronze those that a table took, that none took, and without a kind; of silver others.",
    ("table", "route"),
)
HELD = Metric(
    "strandline_quarantined_rows",
    "Rows that the quarantine of a table holds, by their first reason.",
    ("table", "reason"),
)
BALANCED = Metric(
    "strandline_ledger_balanced",
    "1 if every row that a table has read is in exactly one place.",
    TABLE,
)
OFF = Metric(
    "strandline_ledger_unaccounted_rows",
    "Rows that a table has read and does not account for; below 0, rows that it counts twice.",
    TABLE,
)
FAULTS = Metric("strandline_ledger_faults", "Faults in the ledger of a table.", TABLE)
BESIDE = Metric(
    "strandline_drift_fields", "Fields of JSON that are not as a table declares.", ("table", "what")
)
LOST = Metric(
    "strandline_lost_offsets_total",
    "Offsets that expired in Kafka before a table read them, and whose loss was accepted.",
    TABLE,
)
LAG = Metric(
    "strandline_table_lag_rows",
    "Rows of its sources that a table has not read; for bronze, offsets, while its stream runs.",
    TABLE,
)
BEHIND = Metric(
    "strandline_table_lag_seconds",
    "How long the oldest row that a table has not read waits; for bronze, since its newest record arrived.",
    TABLE,
)
TOOK = Metric("strandline_last_batch_duration_seconds", "Duration of a table's last batch.", TABLE)
AT = Metric("strandline_last_batch_timestamp_seconds", "When a table's last batch ended.", TABLE)
WATERMARK = Metric(
    "strandline_watermark_timestamp_seconds", "The watermark of a table's last batch.", TABLE
)
NEWEST = Metric(
    "strandline_newest_event_timestamp_seconds",
    "The newest event of a table's last batch; for bronze, the newest arrival.",
    TABLE,
)

DAMAGED = Metric(
    "strandline_table_damaged",
    "1 if the books of a table cannot be read: a torn commit, a folder of another user. It has no other figures then.",
    TABLE,
)

LEDGER_METRICS = (
    DAMAGED,
    *(VERSION, BATCHES, READ, WRITTEN, ROWS, KINDS, HELD, BESIDE, BALANCED, OFF, FAULTS, LOST),
    *(LAG, BEHIND, TOOK, AT, WATERMARK, NEWEST),
)


@dataclass(frozen=True, slots=True)
class _Newest:
    """The newest entry of a table's own writer, up to a version."""

    version: int
    entry: Entry | None
    at: datetime | None


class LedgerFigures:
    """Follows the ledgers of a lake's tables from look to look."""

    def __init__(self, tables: Sequence[Table], lake: Lake) -> None:
        """Prepare; nothing is read yet."""
        self._tables, self._lake = tables, lake
        self._open, self._is_open = OpenBooks((), lake), False
        self._newest: dict[str, _Newest] = {}
        self._unread_since: dict[tuple[str, str], tuple[int, datetime | None]] = {}
        """For each table and source the first unread version, and when the first one with rows was committed."""

    def follow(self) -> list[Table]:
        """Read what was committed since the last look; return the tables that exist."""
        if not self._is_open or any(self._is_gone(table) for table in self._existing()):
            self._open, self._is_open = OpenBooks(self._tables, self._lake), True
            self._newest, self._unread_since = {}, {}
        self._open.follow()
        return self._existing()

    def samples(self, offsets_behind: Mapping[str, int], now: datetime) -> Iterator[Sample]:
        """Yield the metrics of the tables that exist; of a retired one none of how far it is behind.

        Args:
            offsets_behind: For bronze, the offsets that are not read, as far as they are known.
            now: The time.
        """
        ended = retired(self._lake)
        there = {table.id for table in self._existing()}
        for name in dict.fromkeys([*sorted(there), *self._open.unreadable]):
            yield DAMAGED.of(name in self._open.unreadable, name)
        for table in self._existing():
            if table.id in self._open.unreadable:
                continue  # no figure is better than one of an earlier look
            sums = self._open.of(table).sums
            newest = self._newest[table.id] = self._newest_of(table, sums.version)
            yield VERSION.of(sums.version, table.id)
            yield from _counts(table, self._open.of(table))
            yield from _last_batch(table, newest)
            if table.id in ended:
                continue  # it is behind nothing
            if isinstance(table, Ingested):
                rows = offsets_behind.get(table.id)
                since = _moment(newest.entry.newest_arrival) if newest.entry else None
            else:
                rows = self._open.unread(table)
                since = self._oldest_unread(table) if rows else None
            if rows is not None:
                yield from _lag(table, rows, since, now)

    def newest(self) -> Iterator[Entry]:
        """Yield the newest entries of the tables, as the last samples have them."""
        known = (each for of, each in self._newest.items() if of not in self._open.unreadable)
        yield from (each.entry for each in known if each.entry is not None)

    def _existing(self) -> list[Table]:
        tables = self._tables if self._is_open else ()
        known = (table for table in tables if self._open.knows(table))
        return [table for table in known if self._open.of(table).sums.version >= 0]

    def _is_gone(self, table: Table) -> bool:
        """Return whether a table was removed, or created again, since the last look."""
        try:
            return not is_commit(self._lake.table(table), self._open.of(table).sums.version)
        except PermissionError:  # what cannot be looked at is not gone
            return False

    def _newest_of(self, table: Table, version: int) -> _Newest:
        known = self._newest.get(table.id)
        if known is not None and known.version == version:
            return known
        path = self._lake.table(table)
        found = last_entry(path, version)
        at = committed_at(path, found[0]) if found else None
        return _Newest(version, found[1] if found else None, at)

    def _oldest_unread(self, table: Table) -> datetime | None:
        """Return when the oldest commit of its sources with rows that it has not read was made."""
        seen, moments = self._open.of(table).sums.seen, []
        for source in table.upstream:
            first, last = seen.get(source.id, -1) + 1, self._open.of(source).sums.version
            key = (table.id, source.id)
            known, moment = self._unread_since.get(key, (-1, None))
            if known != first or moment is None:
                moment = _first_with_rows(self._lake.table(source), first, last)
                self._unread_since[key] = (first, moment)
            moments.append(moment)
        return min((each for each in moments if each), default=None)


def _lag(table: Table, rows: int, since: datetime | None, now: datetime) -> Iterator[Sample]:
    """Yield how far a table is behind; for how long only where that is known."""
    yield LAG.of(rows, table.id)
    if not rows or since is not None:
        waits = (now - since).total_seconds() if rows and since else 0.0
        yield BEHIND.of(max(0.0, waits), table.id)


def _first_with_rows(path: Place, first: int, last: int) -> datetime | None:
    for version in range(first, min(last, first + SEARCHED) + 1):
        entry = entry_at(path, version)
        if entry is not None and entry.appended:
            return committed_at(path, version)
    return None


def _counts(table: Table, books: Books) -> Iterator[Sample]:
    sums = books.sums
    classes = _classes(sums)
    yield BATCHES.of(sums.batches, table.id)
    yield READ.of(sums.read, table.id)
    yield WRITTEN.of(sums.written, table.id)
    yield from _kinds(table, sums)
    for name, rows in classes.items():
        yield ROWS.of(rows, table.id, name)
    for reason, rows in sums.held.items():
        yield HELD.of(rows, table.id, reason)
    yield from (BESIDE.of(n, table.id, what) for what, n in fields_by_kind(sums.drift, table))
    faults = len(books.faults) + sum(bool(classes[name]) for name in ("dropped", "lost", "made"))
    yield BALANCED.of(not faults, table.id)
    yield OFF.of(sums.read + 2 * classes["made"] - sum(classes.values()), table.id)
    yield FAULTS.of(faults, table.id)
    if isinstance(table, Ingested):
        ranges = (each for found in sums.lost.values() for each in found)
        yield LOST.of(sum(end - first for first, end in ranges), table.id)


def _kinds(table: Table, sums: Sums) -> Iterator[Sample]:
    """Yield the records by where their kind leads; a kind is foreign text, and no label."""
    if isinstance(table, Ingested) and table.has_kinds:
        by_kind = sums.by_kind
        yield KINDS.of(sum(by_kind.taken.values()), table.id, "taken")
        yield KINDS.of(sum(by_kind.unrouted.values()) + by_kind.more, table.id, "unrouted")
        yield KINDS.of(by_kind.kindless, table.id, "kindless")
    elif isinstance(table, Judged) and table.is_routed:
        yield KINDS.of(sums.others, table.id, "others")


def _classes(sums: Sums) -> dict[str, int]:
    """Return the columns of ``strandline ledger``; a row that was dropped and then healed is not dropped any more."""
    healed, found_again = sums.dropped_and_healed, sums.lost_and_healed
    return {
        "good": sums.good + sums.brought_back,
        "duplicate": sums.duplicates + healed + found_again,
        "quarantined": sum(sums.held.values()) - sums.held_items,
        **({"held_items": sums.held_items} if sums.held_items else {}),
        "skipped": sum(sums.skipped.values()),
        "dropped": sums.dropped - healed - sums.brought_back,
        "lost": sums.lost_by_function - found_again,
        "made": sums.made_by_function,
    }


def _last_batch(table: Table, newest: _Newest) -> Iterator[Sample]:
    entry = newest.entry
    if entry is None or newest.at is None:
        return
    yield TOOK.of(entry.duration_ms / 1000, table.id)
    yield AT.of(newest.at.timestamp(), table.id)
    for metric, text in (
        (WATERMARK, entry.watermark),
        (NEWEST, entry.newest or entry.newest_arrival),
    ):
        moment = _moment(text)
        if moment is not None:
            yield metric.of(moment.timestamp(), table.id)


def _moment(text: str | None) -> datetime | None:
    return in_utc(datetime.fromisoformat(text)) if text else None


# The metrics of a lake beside its ledger and its programs: gates, leases, receivers of alerts, the radar, alarms, room.
#
# Each is read from the small file or the folder in which its owner keeps it.


GATE = Metric(
    "strandline_gate_shut",
    "1 if a gate is shut: before a batch, before a range that is computed again, or behind published rows.",
    ("table", "side"),
)
GATE_ROWS = Metric(
    "strandline_gate_held_rows", "Rows that a shut gate holds back.", ("table", "side")
)
LEASE = Metric("strandline_lease_held", "1 if a process holds the lease.", ("table", "role"))
LEASE_INFO = Metric(
    "strandline_lease_holder_info",
    "The process that holds the lease.",
    ("table", "role", "host", "pid"),
)
LEASE_AT = Metric(
    "strandline_lease_changed_timestamp_seconds",
    "When the lease was taken, or on an object store renewed; there its holder renews it all the time.",
    ("table", "role"),
)
LEASE_HOLDERS = Metric(
    "strandline_lease_holders_total",
    "Holders of the lease so far, on an object store; the last one's number is its epoch.",
    ("table", "role"),
)
RECEIVER = ("receiver",)
DELIVERED = Metric(
    "strandline_receiver_alerts_delivered_total",
    "Alerts in notices that a receiver has accepted.",
    RECEIVER,
)
NOTICES = Metric(
    "strandline_receiver_notices_total", "Notices that a receiver has accepted.", RECEIVER
)
WAITING = Metric(
    "strandline_receiver_alerts_waiting", "Alerts that are in no accepted notice yet.", RECEIVER
)
DEAD = Metric(
    "strandline_receiver_records_dead_total",
    "Records of the topic of alerts that are no alerts, and that a receiver does not get.",
    RECEIVER,
)
EXPIRED = Metric(
    "strandline_receiver_offsets_expired_total",
    "Offsets of the topic of alerts that expired before they were read for a receiver.",
    RECEIVER,
)
RECEIVER_LAG = Metric(
    "strandline_receiver_lag_offsets",
    "Offsets of the topic of alerts that are not read for a receiver.",
    RECEIVER,
)
PUBLICATION = ("publication", "table")
PUBLISH_READ = Metric(
    "strandline_publish_changes_read_total",
    "Changes of a table that were read for a target, since all was sent anew.",
    PUBLICATION,
)
PUBLISH_ACCEPTED = Metric(
    "strandline_publish_changes_accepted_total",
    "Changes of a table that a target has acknowledged, since all was sent anew.",
    PUBLICATION,
)
PUBLISH_REFUSED = Metric(
    "strandline_publish_rows_refused",
    "Rows of a table that a target has refused, and of which it has no later change.",
    PUBLICATION,
)
PUBLISH_LAG = Metric(
    "strandline_publish_lag_versions",
    "Versions of a table that a target has not got to their end.",
    PUBLICATION,
)
PUBLISH_AWAY = Metric(
    "strandline_publish_waiting", "1 if a target is away, or waits for a person.", PUBLICATION
)
PUBLISH_UP = Metric(
    "strandline_publish_process_up", "1 if a process sends to a target.", PUBLICATION
)
RECEIVER_AWAY = Metric(
    "strandline_receiver_waiting",
    "1 if the delivery to a receiver waits for it, or for Kafka.",
    RECEIVER,
)
RECEIVER_UP = Metric(
    "strandline_receiver_process_up", "1 if a process delivers to a receiver.", RECEIVER
)
LEVEL = Metric(
    "strandline_unread_danger_level",
    "How near the loss of unread records is: 0 safe, 1 not known, 2 soon, 3 urgent, 4 lost.",
    ("reader", "source"),
)
LEFT = Metric(
    "strandline_unread_expires_timestamp_seconds",
    "The earliest moment at which Kafka may remove the oldest record that a reader has not read.",
    ("reader", "source"),
)
RADAR_AT = Metric("strandline_radar_timestamp_seconds", "When the radar looked last.")
ALARMS = Metric("strandline_alarms_waiting", "Alarms that STRANDLINE_WEBHOOK has not accepted yet.")
FREE = Metric("strandline_free_bytes", "Room on the disk that the lake, or its logs, are on.")
SIZE = Metric("strandline_disk_bytes", "The size of that disk.")

LAKE_METRICS = (
    *(GATE, GATE_ROWS, LEASE, LEASE_INFO, LEASE_AT, LEASE_HOLDERS),
    *(DELIVERED, NOTICES, WAITING, DEAD, EXPIRED, RECEIVER_LAG, RECEIVER_AWAY, RECEIVER_UP),
    *(PUBLISH_READ, PUBLISH_ACCEPTED, PUBLISH_REFUSED, PUBLISH_LAG, PUBLISH_AWAY, PUBLISH_UP),
    *(LEVEL, LEFT, RADAR_AT, ALARMS, FREE, SIZE),
)


def of_gates(tables: Sequence[Table], lake: Lake) -> Iterator[Sample]:
    """Yield the gates of tables, open ones as well."""
    shut = {
        (each.table, each.where): each for each in gate_files.every(lake) if each.opened is None
    }
    for table in tables:
        for side in Where:
            yield GATE.of((table.id, side) in shut, table.id, side)
    for (name, side), found in shut.items():
        yield GATE_ROWS.of(found.rows, name, side)


def of_leases(lake: Lake) -> Iterator[Sample]:
    """Yield the leases of a lake that were taken at least once."""
    for each in lease_records(lake):
        of = (each.table, each.role)
        yield LEASE.of(each.is_held, *of)
        if each.holder:
            yield LEASE_INFO.of(1, *of, each.holder.get("host"), each.holder.get("pid"))
        if each.is_held and each.changed_at:
            yield LEASE_AT.of(each.changed_at.timestamp(), *of)
        if each.epoch is not None:
            yield LEASE_HOLDERS.of(each.epoch, *of)


def of_receivers(lake: Lake) -> Iterator[Sample]:
    """Yield the receivers of alerts; their names have no password (jobs/strandline/alerting/notice.py)."""
    for each in receivers(lake):
        name = each["receiver"]
        yield DELIVERED.of(each["delivered"], name)
        yield NOTICES.of(each["notices"], name)
        yield WAITING.of(each["waiting"], name)
        yield DEAD.of(each.get("passed_over", 0), name)
        yield EXPIRED.of(each.get("expired", 0), name)
        yield RECEIVER_AWAY.of(bool(each["away"]), name)
        yield RECEIVER_UP.of(each["process"] is not None, name)
        if each["lag"] is not None:
            yield RECEIVER_LAG.of(each["lag"], name)


def of_publications(lake: Lake) -> Iterator[Sample]:
    """Yield what leaves of the tables; a target's name has no password."""
    for each in publications(lake):
        of = (each["name"], each["table"])
        yield PUBLISH_READ.of(each["read"], *of)
        yield PUBLISH_ACCEPTED.of(each["accepted"], *of)
        yield PUBLISH_REFUSED.of(each["refused"], *of)
        yield PUBLISH_LAG.of(each["lag"], *of)
        yield PUBLISH_AWAY.of(bool(each["away"]), *of)
        yield PUBLISH_UP.of(each["process"] is not None, *of)


def of_radar(lake: Lake) -> Iterator[Sample]:
    """Yield what the radar saw when it looked last."""
    seen = readers.last(lake)
    if seen is None:
        return
    at, dangers = seen
    yield RADAR_AT.of(datetime.fromisoformat(at).timestamp())
    for each in dangers:
        yield LEVEL.of(each.level.rank, each.reader, each.source)
        if each.goes_at:
            yield LEFT.of(
                datetime.fromisoformat(each.goes_at).timestamp(), each.reader, each.source
            )


def of_machine(lake: Lake) -> Iterator[Sample]:
    """Yield the alarms that wait, and the room on the disk."""
    yield ALARMS.of(sum(name.endswith(".json") for name in lake.alarms.names()))
    yield FREE.of(lake.free_bytes())
    yield SIZE.of(lake.disk_bytes())


# The metrics of the always-on programs of a lake, of their tables and feeds: from the heartbeats and the orders.
#
# What is wrong with a program is what the watchdog finds (jobs/strandline/engine/service/stream_health.py), so an alert of Prometheus and an
# alarm of Dagster say the same.


WANTED = Metric(
    "strandline_process_wanted", "1 if the program was asked to run always.", ("process",)
)
UP = Metric("strandline_process_up", "1 if the program runs.", ("process",))
BEAT_AT = Metric(
    "strandline_process_heartbeat_timestamp_seconds",
    "When the program wrote its last heartbeat; it does so once a second, on a store every ten.",
    ("process",),
)
ATTEMPTS = Metric(
    "strandline_process_restart_attempts",
    "Restarts by the watchdog since the program was last well.",
    ("process",),
)
GIVEN_UP = Metric(
    "strandline_process_given_up", "1 if no attempt to restart it is left.", ("process",)
)
ILL = Metric(
    "strandline_process_ill",
    "1 for what is wrong with the program, by the name of the runbook's page.",
    ("process", "ill"),
)
TRIES = Metric(
    "strandline_table_failed_attempts",
    "Attempts of a table in a row that failed; 0 while it does not fail.",
    ("table",),
)
GONE = Metric(
    "strandline_table_files_gone",
    "1 if a file of the table is gone, or was cut, as its stream saw when it looked last.",
    ("table",),
)
WAITS = Metric(
    "strandline_table_waiting",
    "1 if the table's stream waits behind a gate, for a service that is away, for its turn to start, because it is handed over for a while, or because this machine is too busy.",
    ("table", "reason"),
)
STATE = Metric("strandline_table_state_rows", "Rows in the state of a table's stream.", ("table",))
FEED_READ = Metric(
    "strandline_feed_events_read_total",
    "Events that a feed of alerts has read since its program started.",
    ("feed",),
)
FEED_WRITTEN = Metric(
    "strandline_feed_alerts_raised_total",
    "Alerts that a feed has raised since its program started.",
    ("feed",),
)
FEED_LAG = Metric("strandline_feed_lag_offsets", "Offsets that a feed has not read.", ("feed",))
FEED_AWAY = Metric("strandline_feed_waiting", "1 if a feed waits for Kafka.", ("feed",))

PROGRAM_METRICS = (
    *(WANTED, UP, BEAT_AT, ATTEMPTS, GIVEN_UP, ILL, TRIES, GONE, WAITS, STATE),
    *(FEED_READ, FEED_WRITTEN, FEED_LAG, FEED_AWAY),
)

Beat = Mapping[str, Any]


class Processes:
    """The programs of a lake at a look."""

    def __init__(self, lake: Lake, now: datetime) -> None:
        """Read their heartbeats and orders."""
        self._now = now
        self._beats = {each: heartbeat(lake, now, each.heartbeat(lake)) for each in PROGRAMS}
        self._orders = {each: order(lake, each.order(lake)) for each in PROGRAMS}

    @property
    def measures(self) -> bool:
        """Return whether a stream measures how far it is behind; one that is dead, or suspended as by SIGSTOP, does not."""
        beat = self._beats[STREAM]
        return bool(beat and beat["alive"]) and not is_silent(beat, self._now)

    @property
    def offsets_behind(self) -> dict[str, int]:
        """Return by bronze table the offsets that it has not read, as its stream measures them."""
        tables = _alive(self._beats[STREAM]).items() if self.measures else ()
        return {name: each["lag"] for name, each in tables if each["lag"] is not None}

    def samples(self) -> Iterator[Sample]:
        """Yield the metrics of each program, of the stream's tables and of the feeds."""
        for program in PROGRAMS:
            yield from self._of(program)
        yield from _pulses(self._beats)

    def _of(self, program: Program) -> Iterator[Sample]:
        asked, beat, name = self._orders[program], self._beats[program], program.name
        found = watch(asked, beat, self._now, title=program.title)
        yield WANTED.of(bool(asked and asked.runs), name)
        shares = beat.get("shards", ()) if beat else ()
        yield UP.of(bool(beat and all(each["alive"] for each in (beat, *shares))), name)
        yield ATTEMPTS.of(len(asked.attempts) if asked else 0, name)
        yield GIVEN_UP.of(bool(asked and asked.gave_up), name)
        for ill in Ill:
            # Beside a table that fails another may be fenced, and each has its alert.
            is_so = found.ill is ill or (ill is Ill.FENCED and bool(found.fenced))
            yield ILL.of(is_so, name, ill)
        if beat:
            yield BEAT_AT.of(datetime.fromisoformat(beat["at"]).timestamp(), name)


def of_this_machine(lake: Lake, before: Iterable[Sample]) -> Iterator[Sample]:
    """Yield what is known while the store does not answer: of programs of this machine their last heartbeat, else what was known before.

    Args:
        lake: The lake.
        before: What an earlier look has shown.
    """
    beats = {each: near_beat(lake, each.heartbeat(lake)) for each in PROGRAMS}
    here = [each for each, beat in beats.items() if beat]
    news = {metric for each in here for metric in PULSES[each]}
    names = {(each.name,) for each in here}
    for sample in before:
        if sample.metric not in news and not (
            sample.metric in {UP, BEAT_AT} and sample.labels in names
        ):
            yield sample
    for program, beat in beats.items():
        if beat:
            yield UP.of(beat["alive"], program.name)
            yield BEAT_AT.of(datetime.fromisoformat(beat["at"]).timestamp(), program.name)
    yield from _pulses(beats)


def _pulses(beats: Mapping[Program, Beat | None]) -> Iterator[Sample]:
    """Yield what the heartbeats have of each table and each feed."""
    for name, pulse in _alive(beats[STREAM]).items():
        failing = pulse.get("failing")
        yield TRIES.of(failing["tries"] if failing else 0, name)
        yield GONE.of(bool(pulse.get("broken")), name)
        yield WAITS.of(bool(pulse.get("gate")), name, "gate")
        why = _reason(pulse.get("away") or "")
        for each in REASONS:
            yield WAITS.of(why == each, name, each)
        yield STATE.of(pulse.get("state", 0), name)
    for name, pulse in _alive(beats[ALERTS]).items():
        yield FEED_READ.of(pulse["read"], name)
        yield FEED_WRITTEN.of(pulse["written"], name)
        yield FEED_AWAY.of(bool(pulse["away"]), name)
        if pulse["lag"] is not None:
            yield FEED_LAG.of(pulse["lag"], name)


PROGRAMS = (STREAM, ALERTS)
PULSES = {
    STREAM: (TRIES, GONE, WAITS, STATE),
    ALERTS: (FEED_READ, FEED_WRITTEN, FEED_LAG, FEED_AWAY),
}
"""What each program measures of its tables or feeds."""
REASONS = ("outage", "busy", "handed_over", "turn")
"""Why a table waits that no gate holds back; only the first is a service that is away."""


def _reason(away: str) -> str:
    """Return which of the reasons a sentence of the heartbeat is."""
    if away.startswith(HANDED_OVER):
        return "handed_over"
    if away.startswith(TURN):
        return "turn"
    if away.endswith(BUSY):
        return "busy"
    return "outage" if away else ""


def _alive(beat: Beat | None) -> Beat:
    """Return what a heartbeat says of each table or feed; nothing where the program is gone."""
    tables: Beat = beat["tables"] if beat and beat["alive"] else {}
    return tables
