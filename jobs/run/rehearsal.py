"""A stream on trial: fed one commit after the other, killed in between, until it has read them all.

The log's commits lie ready in another lake and are shown to the stream one by one, by links: data files first and
the commit last, as a writer would. The stream is the very command that people run, in a process of its own. Where it
ends with the word to try again it is started again, as whoever is on call would: seen with three Sparks on two cores,
where the certificate of a sound table was lost after ten minutes.
"""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from jobs.core.errors import TransientError
from jobs.core.table import Layer, Table
from jobs.run.always import last_words
from jobs.run.balance import waiting
from jobs.run.files import added
from jobs.run.lake import Lake
from jobs.run.ledger import latest_version
from jobs.run.logs import last_lines
from jobs.run.processes import family
from jobs.run.streams import is_settled

PATIENCE = 300.0
"""Seconds without a step after which the stream counts as stuck."""

ENOUGH = 4.0
"""Most seconds from a new commit to a kill; a batch of a hundred thousand rows takes about as long."""

LOOK = 0.2

TRIES = 3
"""So often a stream that asks for it is started again; then the machine is not fit for a verification."""


@dataclass(slots=True, kw_only=True)
class Rehearsal:
    """One stream on trial.

    Args:
        tables: The silver and gold tables to stream.
        log: A lake with the bronze tables in the commits to show.
        lake: An empty lake for the stream.
        kills: How often to kill it.
        seed: Decides when.
        tell: Hears of each step.
    """

    tables: Sequence[Table]
    log: Lake
    lake: Lake
    kills: int
    seed: int
    tell: Callable[[str], None]
    _process: "subprocess.Popen[bytes]" = field(init=False)
    _again: int = 0

    def play(self) -> None:
        """Stream the whole log.

        Raises:
            TransientError: The stream does not get on.
        """
        chance = random.Random(f"{self.seed} kills")  # noqa: S311  # no secret
        commits = max((latest_version(self.log.table(t)) for t in self._bronze()), default=0)
        doomed = sorted(chance.choices(range(1, commits + 1), k=self.kills)) if commits else []
        self._show(0)
        span = ENOUGH
        self._start()
        try:
            for number in range(1, commits + 1):
                self._await_life()
                self._show(number)
                begun = time.monotonic()
                for _ in range(doomed.count(number)):
                    time.sleep(chance.uniform(0, span))
                    self._kill()
                    self.tell(f"killed the stream during commit {number} of {commits}")
                    self._start()
                    self._await_life()
                    begun = time.monotonic()
                self._wait()
                took = time.monotonic() - begun
                span = min(took, ENOUGH)
                self.tell(f"streamed commit {number} of {commits} in {took:.1f} s")
        finally:
            self._end()

    def _bronze(self) -> list[Table]:
        found = {t.id: t for table in self.tables for t in table.upstream}
        return [table for table in found.values() if table.layer is Layer.BRONZE]

    def _show(self, number: int) -> None:
        """Let the stream see the commits of one number, one of each bronze table."""
        for table in self._bronze():
            source, target = self.log.table(table), self.lake.table(table)
            name = f"_delta_log/{number:020d}.json"
            if not (source / name).exists():
                continue
            (target / "_delta_log").mkdir(parents=True, exist_ok=True)
            for file in added(source, number).files:
                os.link(file, target / Path(file).name)
            os.link(source / name, target / name)

    def _wait(self) -> None:
        """Wait until every table has read all there is."""
        progress, moved_at = "", time.monotonic()
        while not all(self._is_settled(table) for table in self.tables):
            self._tend()
            now = str([latest_version(self.lake.table(table)) for table in self.tables])
            if now != progress:
                progress, moved_at = now, time.monotonic()
            if time.monotonic() - moved_at > PATIENCE:
                raise self._stuck(f"nothing moved for {PATIENCE:.0f} s")
            time.sleep(LOOK)

    def _await_life(self) -> None:
        """Wait until the process says that its queries run: a kill before that would prove little."""
        deadline = time.monotonic() + PATIENCE
        while self._beating() != self._process.pid:
            self._tend()
            if time.monotonic() > deadline:
                raise self._stuck("it never came to life")
            time.sleep(LOOK)

    def _tend(self) -> None:
        """Start the stream again if it has ended and says that this may help."""
        code = self._process.poll()
        if code is None:
            return
        if code != TransientError.exit_code or self._again == TRIES:
            raise self._stuck("it ended by itself")
        self._again += 1
        why, _, _ = last_words(self.lake.log("rehearsal")).partition(" hint: ")
        self.tell(f"started the stream again, {why}")
        self._start()

    def _beating(self) -> int | None:
        try:
            return int(json.loads(self.lake.heartbeat.read_text())["pid"])
        except (OSError, ValueError):
            return None

    def _is_settled(self, table: Table) -> bool:
        if not self.lake.exists(table):
            return False
        return waiting(table, self.lake) == 0 and is_settled(table, self.lake)

    def _start(self) -> None:
        names = [table.id for table in self.tables]
        command = [sys.executable, "-m", "jobs.cli", "stream", *names, "--every", "100ms"]
        self.lake.log("rehearsal").parent.mkdir(parents=True, exist_ok=True)
        with self.lake.log("rehearsal").open("ab") as log:
            self._process = subprocess.Popen(
                [*command, "--lake", str(self.lake.root)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def _kill(self) -> None:
        """End the process and its JVM as a power cut would."""
        victims = family(self._process.pid)
        for process in victims:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        self._process.wait()
        psutil.wait_procs(victims, timeout=30)

    def _end(self) -> None:
        if self._process.poll() is not None:
            return
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(60)
        except subprocess.TimeoutExpired:
            self._kill()

    def _stuck(self, why: str) -> TransientError:
        log = self.lake.log("rehearsal")
        last = last_lines(log, 6)
        return TransientError(
            f"the stream of the verification does not get on: {why}\n  " + "\n  ".join(last),
            hint="look at the machine's load and memory, then verify again.",
        )
