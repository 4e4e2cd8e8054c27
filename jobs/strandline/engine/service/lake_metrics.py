"""The metrics of a lake beside its ledger and its programs: gates, leases, receivers of alerts, the radar, alarms, room.

Each is read from the small file or the folder in which its owner keeps it.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime

from strandline.core.table import Table
from strandline.engine.gates import gate_files
from strandline.engine.gates.gate_files import Where
from strandline.engine.pipeline import radar
from strandline.engine.service.metric import Metric, Sample
from strandline.engine.service.receivers import receivers
from strandline.engine.storage.lake import Lake
from strandline.engine.storage.lease_records import lease_records

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
DELIVERED = Metric(
    "strandline_receiver_alerts_delivered_total",
    "Alerts in notices that a receiver has accepted.",
    ("receiver",),
)
NOTICES = Metric(
    "strandline_receiver_notices_total", "Notices that a receiver has accepted.", ("receiver",)
)
WAITING = Metric(
    "strandline_receiver_alerts_waiting",
    "Alerts that are in no accepted notice yet.",
    ("receiver",),
)
DEAD = Metric(
    "strandline_receiver_records_dead_total",
    "Records of the topic of alerts that are no alerts, and that a receiver does not get.",
    ("receiver",),
)
EXPIRED = Metric(
    "strandline_receiver_offsets_expired_total",
    "Offsets of the topic of alerts that expired before they were read for a receiver.",
    ("receiver",),
)
RECEIVER_LAG = Metric(
    "strandline_receiver_lag_offsets",
    "Offsets of the topic of alerts that are not read for a receiver.",
    ("receiver",),
)
RECEIVER_AWAY = Metric(
    "strandline_receiver_waiting",
    "1 if the delivery to a receiver waits for it, or for Kafka.",
    ("receiver",),
)
RECEIVER_UP = Metric(
    "strandline_receiver_process_up", "1 if a process delivers to a receiver.", ("receiver",)
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

METRICS = (
    *(GATE, GATE_ROWS, LEASE, LEASE_INFO, LEASE_AT, LEASE_HOLDERS),
    *(DELIVERED, NOTICES, WAITING, DEAD, EXPIRED, RECEIVER_LAG, RECEIVER_AWAY, RECEIVER_UP),
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
    """Yield the receivers of alerts; their names have no password (jobs/strandline/alerting/delivery/sinks.py)."""
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


def of_radar(lake: Lake) -> Iterator[Sample]:
    """Yield what the radar saw when it looked last."""
    seen = radar.last(lake)
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
