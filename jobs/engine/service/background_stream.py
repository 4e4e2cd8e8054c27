"""The always-on stream as a program of its own, which outlives the command that starts it.

It is found by a mark on its command line, as the broker is (jobs/engine/runtime/processes.py). The mark does not make
it the only writer of its tables: the leases do (jobs/engine/storage/locks.py), also against a stream in a terminal.
"""

import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime

from jobs.core.errors import DefinitionError, TransientError
from jobs.engine.runtime import processes
from jobs.engine.runtime.holders import is_there, own
from jobs.engine.runtime.log_files import bound
from jobs.engine.runtime.log_records import last_error
from jobs.engine.service.desired_state import Order, order, write
from jobs.engine.service.heartbeat import heartbeat
from jobs.engine.service.stream_options import merged
from jobs.engine.storage.file_lock import hold
from jobs.engine.storage.lake import Lake

STARTING = 180.0
ENDING = 120.0
"""Seconds for the stream to start and to end; it finishes the running batch before it ends."""

EVERY = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Always:
    """The always-on stream of a lake.

    Args:
        lake: The lake.
        clock: Returns the present time.
        environment: The environment of the program, with its settings.
        by: Who asks.
    """

    lake: Lake
    clock: Callable[[], datetime]
    environment: Mapping[str, str]
    by: str

    def resume(
        self, words: Sequence[str] | None = None, why: str = "", *, everything: bool = False
    ) -> int:
        """Request the stream and start it unless it runs; return its process id once it has written a heartbeat.

        Args:
            words: Options of ``strandline stream``; the others are those of the last start.
            why: The reason.
            everything: Whether to start all tables, when the last start named fewer.

        Raises:
            DefinitionError: A stream that was started in another way runs already.
            TransientError: The stream ended while starting, or wrote no heartbeat in time.
        """
        with self._alone():
            last = order(self.lake)
            asked = merged(last.words if last else (), words or (), everything=everything)
            return self._resumed(asked, why)

    def restart(self, why: str = "") -> int:
        """End the stream after its batches and start it with the same options, without another command in between.

        Raises:
            DefinitionError: As for ``resume``.
            TransientError: As for ``resume``.
        """
        with self._alone():
            self._stop()
            last = order(self.lake)
            return self._resumed(last.words if last else (), why)

    def again(self, *, ends: bool) -> int:
        """Restart a stream that is not well, and count the attempt.

        Args:
            ends: Whether a live stream is ended first. Otherwise it is left alone: another command has restarted it.

        Raises:
            DefinitionError: No stream is requested.
            TransientError: As for ``resume``.
        """
        with self._alone():
            last = order(self.lake)
            if last is None or not last.runs:
                raise DefinitionError(
                    "the stream is not to run",
                    hint="`strandline resume` requests it.",
                )
            pid = self.pid()
            if pid is not None and not ends and self._lives(pid):
                return pid
            write(self.lake, last.tried(self.clock()))
            self._stop()
            return self._started(last.words)

    def pause(self, why: str = "") -> bool:
        """Request that no stream runs, end the running one after its batches, and return whether there was one."""
        with self._alone():
            last = order(self.lake)
            words = last.words if last else ()
            write(self.lake, self._order(runs=False, why=why, words=words))
            return self._stop()

    def suspend(self) -> bool:
        """End the stream while this process is at work, and return whether a stream was to run.

        The stream stays requested: when this process is killed, a watchdog restarts it.
        """
        with self._alone():
            last = order(self.lake)
            if last is None or not last.runs:
                return False
            write(self.lake, last.suspended(self.clock()))
            self._stop()
            return True

    def end_suspension(self) -> None:
        """Start the suspended stream again, unless there was another request meanwhile.

        Raises:
            DefinitionError: As for ``resume``.
            TransientError: As for ``resume``.
        """
        with self._alone():
            last = order(self.lake)
            mine = own()
            if last is None or not last.rest or any(last.rest[key] != mine[key] for key in mine):
                return
            write(self.lake, replace(last, rest=None))
            self._started(last.words)

    def is_starting(self) -> bool:
        """Return whether its process exists and has written no heartbeat yet."""
        pid = self.pid()
        return pid is not None and not self._lives(pid)

    def note(self, asked: Order) -> None:
        """Record a change of a request, unless there was another request meanwhile."""
        with self._alone():
            last = order(self.lake)
            if last and last.at == asked.at:
                write(self.lake, asked)

    def pid(self) -> int | None:
        """Return the stream's process id, if it runs."""
        return processes.find(self._mark)

    @property
    def _mark(self) -> str:
        return f"strandline-stream={self.lake.root}"

    def _resumed(self, words: tuple[str, ...], why: str) -> int:
        write(self.lake, self._order(runs=True, why=why, words=words))
        return self._started(words)

    def _order(self, *, runs: bool, why: str, words: tuple[str, ...]) -> Order:
        at = self.clock().isoformat(timespec="seconds")
        return Order(runs=runs, at=at, by=self.by, why=why, words=words)

    def _started(self, words: Sequence[str]) -> int:
        pid = self.pid()
        if pid is None:
            self._refuse_other()
            log = self.lake.program_log("stream")
            bound(log)
            program = [sys.executable, "-X", self._mark, "-m", "jobs.cli", "stream"]
            program += ["--patient", "--json", *words]
            pid = processes.spawn(
                program, folder=self.lake.root.local, log=log, environment=self.environment
            )
        self._await(pid)
        return pid

    def _stop(self) -> bool:
        pid = self.pid()
        return pid is not None and processes.stop(pid, self._mark, patience=ENDING)

    def _refuse_other(self) -> None:
        beat = heartbeat(self.lake, self.clock())
        if beat and beat["alive"]:
            raise DefinitionError(
                f"a stream runs already in process {beat['pid']} on {beat['host']}, not started by `strandline resume`",
                hint="stop it where it was started (Ctrl-C), then repeat the command.",
                **{name: beat[name] for name in ("pid", "host")},
            )

    def _await(self, pid: int) -> None:
        deadline = time.monotonic() + STARTING
        while not self._lives(pid):
            if not processes.is_ours(pid, self._mark):
                raise TransientError(
                    f"the stream ended while starting: {last_error(self.lake.log('stream').local)}",
                    hint="`strandline logs` shows what was before it; then `strandline resume`.",
                    log=str(self.lake.log("stream")),
                )
            if time.monotonic() > deadline:
                raise TransientError(
                    f"the stream (process {pid}) has written no heartbeat after {STARTING:.0f} s",
                    hint="`strandline logs --follow` shows what it does.",
                    pid=pid,
                )
            time.sleep(EVERY)

    def _lives(self, pid: int) -> bool:
        beat = heartbeat(self.lake, self.clock())
        return bool(beat and beat["alive"] and beat["pid"] == pid and is_there(beat) is not False)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Let one command at a time decide about the stream."""
        with hold(self.lake.order_lock):
            yield
