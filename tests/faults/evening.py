"""An evening on call: a lake that streams all its tables, with incidents planted one after the other, and what was said and typed.

Traffic goes on until an incident is over: events are sent once a minute, and the generator gives their true counts. Dagster's watchdog
looks as its sensor does, and the runs that it requests are executed. An incident is over once the stream has read all that was
sent, and no table fails, waits or lags; until then the lake is asked after 10, 60 and 300 seconds what it says of itself.
"""

import json
import re
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any, TypeAlias

from dagster import AssetCheckEvaluation, SensorResult, build_sensor_context
from strandline import catalog

from strandline.core.errors import LakeError, TransientError
from strandline.core.table import Table
from strandline.engine.kafka import broker
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger import last_entry
from strandline.engine.lake.place import Place
from strandline.engine.runtime import clock
from strandline.engine.service.background_stream import Always
from strandline.engine.service.condition import condition
from strandline.engine.service.metrics_page import LakeLook
from strandline.engine.service.stream_health import heartbeat
from strandline_dagster import watchdog as on_call
from strandline_dagster.definitions import DEFINITIONS
from strandline_dagster.resources import RESOURCES, LakeResource
from strandline_dagster.watchdog import watchdog
from tests.cli import typed
from tests.cli.inside import strandline, succeeded
from tests.cli.typed import Answer
from tests.faults.lives import heartbeat as beat_of
from tests.support.instance import ephemeral
from tests.support.modes import has_caught_up
from tests.support.watched_lake import values

FIRST = datetime(2026, 11, 1, tzinfo=UTC)
EVENTS = 200
HOURS = 0.15
"""Each sending arrives within less than what counts as disorder (jobs/strandline/core/kind.py), an hour after the one before it."""

SENDS = 60.0
LOOKS = 10.0
ASKED = (10, 60, 300)
LONGEST = 600.0
"""Seconds: between two sendings, between two looks of the watchdog, when the lake is asked, and how long an incident may take."""


Figures: TypeAlias = Mapping[tuple[str, ...], float]


@dataclass(slots=True, kw_only=True)
class Incident:
    """What is done to a lake, and what the person on call types.

    Args:
        plant: Makes it happen.
        cure: What ends it where it does not end by itself: the broker's disk has room again, a process is continued.
        cured_after: Seconds until then.
        may_send: Whether events can be sent until then.
        noticed_after: Seconds after which a person looks.
        typed: What the person types and does, once the lake has named the table that is ill: commands, and between them what is
            done otherwise.
        may_end_with: Exit codes of these commands, beside 0 and 4.
        table: The only table that it may stop; empty for an incident of the whole lake.
    """

    plant: Callable[[], object]
    cure: Callable[[], object] | None = None
    cured_after: float = 20.0
    may_send: bool = False
    noticed_after: float = float(ASKED[0])
    typed: Sequence[Sequence[str] | Callable[[], str]] = ()
    may_end_with: Collection[int] = ()
    table: str = ""


@dataclass(slots=True, kw_only=True)
class Outcome:
    """How an incident went."""

    said: dict[int, str] = field(default_factory=dict)
    typed: tuple[str, ...] = ()
    healthy_after: float = 0.0
    others_behind: float = 0.0
    """The longest time for which another table was behind, in an incident of one table."""

    def row(self) -> str:
        """Return its line in a table of Markdown."""
        said = " | ".join(self.said.get(at, "level again") for at in ASKED)
        behind = f"{self.others_behind:.0f} s" if self.others_behind else "-"
        words = "<br>".join(self.typed) or "nothing"
        return f"{said} | {words} | {self.healthy_after:.0f} s | {behind}"


class Evening:
    """The lake, its stream, its traffic and its watchdog."""

    def __init__(self, lake: Place, folder: Path, tables: Sequence[str], stream: Always) -> None:
        """Send a first minute of events and start the stream.

        Args:
            lake: A lake whose broker runs.
            folder: For the counts of the generator; its folder `disk` has the lake.
            tables: What is streamed; all tables where there is none.
            stream: The lake's stream.
        """
        self.lake, self.stream, self.disk = Lake(lake), stream, folder / "disk"
        found = [catalog.find(name) for name in tables] or [*catalog.tables()]
        self._tables = [each for each in found if not hasattr(each, "feeds")]
        self._folder, self._numbers, self._truths = folder, count(), list[Path]()
        self._instance, self._dagster = ephemeral(), ""
        self._cursor: str | None = None
        self._sent_at = self._looked_at = -LONGEST
        self._look = LakeLook(catalog.tables(), self.lake, clock.now, lambda _: None)
        self.send()
        stream.resume([*tables, "--every", "1s"])
        self._until(lambda: not self._behind(), "the first level", may_send=False)

    def send(self) -> None:
        """Send a minute of events, an hour after the former."""
        number = next(self._numbers)
        truth = self._folder / f"truth-{number}.json"
        until = f"{FIRST + timedelta(hours=number):%Y-%m-%dT%H:%M}"
        words = ("--events", EVENTS, "--hours", HOURS, "--seed", number + 1, "--until", until)
        succeeded("produce", *words, "--truth", truth, "--lake", self.lake.root)
        self._truths.append(truth)
        self._sent_at = time.monotonic()

    def meets(self, incident: Incident) -> Outcome:
        """Plant an incident, let the person type what is to be typed, wait until all is level, and keep what was said."""
        outcome, begun = Outcome(), time.monotonic()
        self._dagster = ""
        incident.plant()
        asked = [*ASKED]

        def passes() -> float:
            seconds = time.monotonic() - begun
            if asked and seconds >= asked[0]:
                outcome.said[asked.pop(0)] = self._said()
            if incident.table:
                outcome.others_behind = max(outcome.others_behind, self._others(incident.table))
            return seconds

        may_send = incident.cure is None
        if incident.cure is not None:
            self._until(
                lambda: passes() > incident.cured_after, "the cure", may_send=incident.may_send
            )
            incident.cure()
        if incident.typed:
            named = lambda: passes() >= incident.noticed_after and self._names(incident.table)  # noqa: E731  # shorter than a function
            self._until(named, f"a word of {incident.table}", may_send=may_send)
            seen = self._noticed(incident)
            outcome.typed = (*seen, *(self._type(each, incident) for each in incident.typed))
        # A full disk ends the broker as well, and the watchdog starts it again.
        self._until(lambda: passes() > 0 and self._takes_events(), "the broker", may_send=False)
        self.send()
        self._until(lambda: passes() > 1 and not self._behind(), "a level", may_send=False)
        outcome.healthy_after = time.monotonic() - begun
        print(outcome.row(), flush=True)  # noqa: T201  # shown when the test fails, or with -s
        return outcome

    def truth(self) -> dict[str, dict[str, Any]]:
        """Return the counts of all that was sent, by table, as the ledger has them."""
        found: dict[str, dict[str, Any]] = {}
        for file in self._truths:
            for table, counts in json.loads(file.read_text())["tables"].items():
                sums = found.setdefault(table, {"good": 0, "duplicates": 0, "quarantined": {}})
                sums["good"] += counts["good"]
                sums["duplicates"] += counts["duplicates"]
                held = Counter(sums["quarantined"]) + Counter(counts["quarantined"])
                sums["quarantined"] = dict(sorted(held.items()))
        return found

    def sent(self) -> Counter[str]:
        """Return how many records were sent to each topic."""
        sums = Counter[str]()
        for file in self._truths:
            sums.update(json.loads(file.read_text())["topics"])
        return sums

    def pid(self) -> int:
        """Return the process of the stream."""
        return int(beat_of(self.lake.root)["pid"])

    def _until(self, seen: Callable[[], bool], what: str, *, may_send: bool = True) -> None:
        deadline = time.monotonic() + LONGEST
        while not seen():
            assert time.monotonic() < deadline, f"{what}: {self._said()}; behind: {self._behind()}"
            moment = time.monotonic()
            if moment - self._looked_at > LOOKS:
                self._looks()
            if may_send and moment - self._sent_at > SENDS and self._takes_events():
                self.send()
            time.sleep(0.5)

    def _takes_events(self) -> bool:
        running = broker.status(self.lake)
        if running is None:
            return False
        try:
            broker.check_reachable(running.address, {}, patience=2.0)
        except TransientError:
            return False
        return True

    def _looks(self) -> None:
        """Let the watchdog look, execute the runs that it requests, and keep what its page shows."""
        context = build_sensor_context(
            instance=self._instance, definitions=DEFINITIONS, cursor=self._cursor
        )
        try:
            found = watchdog(context, lake=LakeResource())
        except LakeError as error:
            self._dagster = f"its look ends with an error: {self._placed(error.message)[:110]}"
            return
        finally:
            self._looked_at = time.monotonic()
        if not isinstance(found, SensorResult):
            said = self._placed(str(getattr(found, "skip_message", found)))
            self._dagster = f"skips: {said[:110]}"
            return
        self._cursor = found.cursor
        red = [
            f"{each.asset_key.to_user_string()} red"
            for each in found.asset_events
            if isinstance(each, AssetCheckEvaluation) and not each.passed
        ]
        runs = [*(found.run_requests or ())]
        checks = red if len(red) < len(self._tables) / 2 else [f"{len(red)} tables red"]
        self._dagster = ", ".join(checks + ["a run of revive"] * len(runs))
        for each in runs:
            on_call.revive.execute_in_process(
                run_config=each.run_config,
                instance=self._instance,
                resources=RESOURCES,
                raise_on_error=False,
            )

    def _said(self) -> str:
        """Return what a person would read."""
        parts = (
            f"status {self._of_status(self._asked('status'))}",
            f"metrics: {', '.join(alarming(self._figures())) or 'nothing'}",
            f"Dagster: {self._placed(self._well())[:110]}; watchdog: {self._dagster or 'nothing'}",
        )
        return "<br>".join(parts).replace("|", "/")

    def _asked(self, *words: str) -> Answer:
        """Ask, inside this process."""
        return strandline(*words, "--lake", self.lake.root)

    def _of_status(self, status: Answer) -> str:
        """Return the exit code, and the first line that says what is wrong."""
        # Before anything is cut: half of a path would stay, which is of one machine.
        lines = [line.strip() for line in self._placed(status.out).splitlines()]
        ill = [line for line in lines if _is_ill(line)]
        return f"{status.code}: {(ill or ['nothing ill'])[0][:110]}"

    def _figures(self) -> Figures:
        """Return the metrics."""
        self._look.look()
        return values(self._look)

    def _well(self) -> str:
        """Return what Dagster's first asset says."""
        return condition(self.lake, clock.now()).sentence

    def _placed(self, text: str) -> str:
        """Return a sentence without what is of this machine: its folder, its name, its ports, the number of a process."""
        placed = ADDRESS.sub("STORE", text.replace(str(self.lake.root), "LAKE"))
        return PROCESS.sub("a process", placed)

    def _noticed(self, incident: Incident) -> tuple[str, ...]:
        """Return what a person reads who looks later than after the first ten seconds."""
        if incident.noticed_after <= ASKED[0]:
            return ()
        return (f"*read: status {self._of_status(self._asked('status'))}*".replace("|", "/"),)

    def _names(self, table: str) -> bool:
        status = self._asked("status")
        return any(table in line and _is_ill(line.strip()) for line in status.out.splitlines())

    def _type(self, words: Sequence[str] | Callable[[], str], incident: Incident) -> str:
        """Type a command of the runbook: it may say that a person decides next (4)."""
        if callable(words):
            return words()
        done = typed.strandline(*words, "--lake", self.lake.root)
        assert done.code in {0, 4, *incident.may_end_with}, done.printed
        print(f"{' '.join(words)}: {done.code}\n{done.printed[-2000:]}", flush=True)  # noqa: T201  # shown when the test fails, or with -s
        return f"`strandline {' '.join(words)}`" + (f" ({done.code})" if done.code else "")

    def _behind(self) -> list[str]:
        """Return the tables that have not read all that was sent, or that fail or wait."""
        beat = heartbeat(self.lake, clock.now())
        if not beat or not beat["alive"]:
            return ["the stream"]
        return [each.id for each in self._tables if not self._is_level(each, beat["tables"])]

    def _is_level(self, table: Table, pulses: dict[str, Any]) -> bool:
        pulse = pulses.get(table.id, {})
        if not pulse or any(pulse.get(name) for name in ("failing", "away", "gate", "broken")):
            return False
        if table.topics:
            newest = last_entry(self.lake.table(table))
            read = sum(end for _, end in newest[1].offsets.values()) if newest else 0
            sent = self.sent()
            return read >= sum(sent[topic.name] for topic in table.topics)
        return bool(has_caught_up(self.lake, table))

    def _others(self, table: str) -> float:
        """Return for how long another table has been behind, as its heartbeat has it."""
        beat = heartbeat(self.lake, clock.now())
        if not beat or not beat["alive"]:
            return 0.0
        since = [
            each["behind"]
            for name, each in beat["tables"].items()
            if name != table and each.get("behind") and table not in str(each.get("sources"))
        ]
        return max(
            ((clock.now() - datetime.fromisoformat(at)).total_seconds() for at in since),
            default=0.0,
        )


ADDRESS = re.compile(r"https?://\S+")
PROCESS = re.compile(r"\bprocess \d+( on [\w.-]+)?")

ALARMING = frozenset(
    f"strandline_{name}"
    for name in (
        "process_ill",
        "process_given_up",
        "table_failed_attempts",
        "table_files_gone",
        "table_waiting",
        "look_failed",
    )
)


def alarming(figures: Figures) -> list[str]:
    """Return the names of the figures that raise an alarm, if they last."""
    return sorted(
        {
            name.removeprefix("strandline_")
            for (name, *_), value in figures.items()
            if name in ALARMING and value
        }
    )


ILL = ("waits", "failed", "silent", "not running", "gone", "damaged", "disk ", "the object store")


def _is_ill(line: str) -> bool:
    return any(word in line for word in ILL)
