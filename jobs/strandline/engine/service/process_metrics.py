"""The metrics of the always-on programs of a lake, of their tables and feeds: from the heartbeats and the orders.

What is wrong with a program is what the watchdog finds (jobs/strandline/engine/service/stream_health.py), so an alert of Prometheus and an
alarm of Dagster say the same.
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

from strandline.engine.runtime.jvm import BUSY
from strandline.engine.service.desired_state import order
from strandline.engine.service.heartbeat import heartbeat, near_beat
from strandline.engine.service.metric import Metric, Sample
from strandline.engine.service.program import ALERTS, STREAM, Program
from strandline.engine.service.stream_health import HANDED_OVER, TURN, Ill, is_silent, watch
from strandline.engine.storage.lake import Lake

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

METRICS = (
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
        yield UP.of(bool(beat and beat["alive"]), name)
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
