"""Kill trial: give a stream one commit after the other, and kill it in between, until it has read them all.

The log's commits are in another lake and appear to the stream one by one, as links: data files first and the commit
last, as a writer would. The stream is the command that operators run, in a process of its own. If it ends with a
transient error it is restarted, as on-call would do: with three Sparks on two cores such an error cost the
certificate of a sound table after ten minutes.
"""

import json
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import psutil

from strandline.core.errors import TransientError
from strandline.core.table import Ingested, Table
from strandline.engine.accounting.balance_sheet import waiting
from strandline.engine.pipeline.query import is_settled
from strandline.engine.runtime.log_files import last_lines
from strandline.engine.runtime.log_records import last_error
from strandline.engine.runtime.processes import child, family
from strandline.engine.runtime.starter import tied
from strandline.engine.storage.commit_log import is_commit
from strandline.engine.storage.lake import Lake
from strandline.engine.storage.ledger import latest_version
from strandline.engine.storage.linked_files import link_commit
from strandline.engine.storage.log_actions import added

PATIENCE = 300.0
"""Seconds until a started stream must write its first heartbeat."""

STILL, A_ROW = 300.0, 0.001
"""Seconds without a commit after which the stream counts as stuck, and the seconds added for each row of the log's
commit that it reads: a commit of 5 million rows took silver 370 s on two cores with other load."""

ENOUGH = 4.0
"""The longest time in seconds from a new commit to a kill; a batch of a hundred thousand rows takes about as long."""

LOOK = 0.2

WORD = 30.0
"""Seconds between messages that name the tables still reading, so that a long commit is not silent."""

TRIES = 3
"""How often a stream is restarted after a transient error; then the machine is not fit for a verification."""


@dataclass(slots=True, kw_only=True)
class KillTrial:
    """One stream on trial.

    Args:
        tables: The silver and gold tables to stream.
        log: A lake with the bronze tables in the commits to show.
        lake: An empty lake for the stream.
        kills: How often to kill it.
        seed: The seed of the moments of the kills.
        note: Is called with a line for each step.
    """

    tables: Sequence[Table]
    log: Lake
    lake: Lake
    kills: int
    seed: int
    note: Callable[[str], None]
    _process: "subprocess.Popen[bytes]" = field(init=False)
    _again: int = 0

    def run(self) -> None:
        """Stream the whole log.

        Raises:
            TransientError: The stream makes no progress.
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
                    self.note(f"killed the stream during commit {number} of {commits}")
                    self._start()
                    self._await_life()
                    begun = time.monotonic()
                self._wait(number)
                took = time.monotonic() - begun
                span = min(took, ENOUGH)
                self.note(f"streamed commit {number} of {commits} in {took:.1f} s")
        finally:
            self._end()

    def _bronze(self) -> list[Table]:
        sources = {t.id: t for table in self.tables for t in table.upstream}
        return [table for table in sources.values() if isinstance(table, Ingested)]

    def _show(self, number: int) -> None:
        """Link the commit with this number of each bronze table into the lake of the stream."""
        for table in self._bronze():
            source, target = self.log.table(table), self.lake.table(table)
            if is_commit(source, number):
                link_commit(source, target, number)

    def _wait(self, number: int) -> None:
        """Wait until every table has read all shown commits."""
        progress, moved_at = "", time.monotonic()
        begun = noted_at = moved_at
        still = STILL + A_ROW * sum(self._rows(table, number) for table in self._bronze())
        while not all(self._is_settled(table) for table in self.tables):
            self._tend()
            if time.monotonic() - noted_at > WORD:
                noted_at = time.monotonic()
                reading = [table.id for table in self.tables if not self._is_settled(table)]
                took = f"{noted_at - begun:.0f} s on commit {number}"
                self.note(f"{took}, not yet read by {', '.join(reading)}")
            now = str([latest_version(self.lake.table(table)) for table in self.tables])
            if now != progress:
                progress, moved_at = now, time.monotonic()
            if time.monotonic() - moved_at > still:
                raise self._stuck(f"it committed nothing for {still:.0f} s")
            time.sleep(LOOK)

    def _rows(self, table: Table, number: int) -> int:
        """Return the rows of a commit of the log; 0 if the table has fewer commits than another."""
        path = self.log.table(table)
        return added(path, number).rows if number <= latest_version(path) else 0

    def _await_life(self) -> None:
        """Wait until the process writes a heartbeat, so that its queries run: an earlier kill would prove little."""
        deadline = time.monotonic() + PATIENCE
        while self._beating() != self._process.pid:
            self._tend()
            if time.monotonic() > deadline:
                raise self._stuck(f"it wrote no heartbeat in {PATIENCE:.0f} s")
            time.sleep(LOOK)

    def _tend(self) -> None:
        """Restart the stream if it has ended with a transient error."""
        code = self._process.poll()
        if code is None:
            return
        if code != TransientError.exit_code or self._again == TRIES:
            raise self._stuck("it ended by itself")
        self._again += 1
        why, _, _ = last_error(self.lake.log("rehearsal").local).partition(" hint: ")
        self.note(f"started the stream again, {why}")
        self._start()

    def _beating(self) -> int | None:
        try:
            return int(json.loads(self.lake.heartbeat.text() or "")["pid"])
        except (OSError, ValueError):
            return None

    def _is_settled(self, table: Table) -> bool:
        if not self.lake.exists(table):
            return False
        return waiting(table, self.lake) == 0 and is_settled(table, self.lake)

    def _start(self) -> None:
        names = [table.id for table in self.tables]
        command = [sys.executable, "-m", "strandline.cli", "stream", *names, "--every", "100ms"]
        command += ["--lake", str(self.lake.root)]
        self._process = child(command, log=self.lake.program_log("rehearsal"), environment=tied())

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
        last = last_lines(self.lake.log("rehearsal").local, 6)
        return TransientError(
            f"the stream of the verification makes no progress: {why}\n  " + "\n  ".join(last),
            hint="check the machine's load and memory, then verify again.",
        )
