"""The always-on stream as a program of its own, which outlives whoever starts it.

It is found by a mark on its command line, as the broker is (jobs/run/processes.py). That there is only one writer of a
table does not rest on this: the leases do that (jobs/run/lease.py), also against a stream in somebody's terminal.
"""

import fcntl
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from jobs.core.errors import DefinitionError, TransientError
from jobs.run import processes
from jobs.run.beat import heartbeat
from jobs.run.holders import is_there, own
from jobs.run.lake import Lake
from jobs.run.logs import bound, last_lines
from jobs.run.order import Order, order, write
from jobs.run.wish import merged

STARTING = 180.0
ENDING = 120.0
"""A batch that has begun is ended first."""

EVERY = 0.2
LAST = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Always:
    """The always-on stream of a lake.

    Args:
        lake: Which.
        clock: Says what time it is.
        environment: With what the program is started, settings among it.
        by: Who asks.
    """

    lake: Lake
    clock: Callable[[], datetime]
    environment: Mapping[str, str]
    by: str

    def resume(
        self, words: Sequence[str] | None = None, why: str = "", *, everything: bool = False
    ) -> int:
        """Ask for the stream and start it unless it runs; return its process when it says that it lives.

        Args:
            words: Options of ``strandline stream``; what they do not say is as it was the last time.
            why: What for.
            everything: Whether all tables are wanted again, when fewer were named the last time.

        Raises:
            DefinitionError: Another stream, which was not started like this, runs already.
            TransientError: It ended while starting, or says nothing in time.
        """
        with self._alone():
            last = order(self.lake)
            asked = merged(last.words if last else (), words or (), everything=everything)
            return self._resumed(asked, why)

    def restart(self, why: str = "") -> int:
        """End the stream after its batches and start it with the options that it had, with nobody between.

        Raises:
            DefinitionError: As for ``resume``.
            TransientError: As for ``resume``.
        """
        with self._alone():
            self._stop()
            last = order(self.lake)
            return self._resumed(last.words if last else (), why)

    def again(self, *, ends: bool) -> int:
        """Start a stream that is not well once more, and count it as an attempt.

        Args:
            ends: Whether one that lives is ended first. Without that it is let live: somebody else was faster.

        Raises:
            DefinitionError: It is not to run.
            TransientError: As for ``resume``.
        """
        with self._alone():
            last = order(self.lake)
            if last is None or not last.runs:
                raise DefinitionError(
                    "the stream is not to run",
                    hint="`strandline resume` asks for it.",
                )
            found = self.pid()
            if found is not None and not ends and self._lives(found):
                return found
            write(self.lake, last.tried(self.clock()))
            self._stop()
            return self._started(last.words)

    def pause(self, why: str = "") -> bool:
        """Ask for no stream, end the one that runs after its batches, and tell whether there was one."""
        with self._alone():
            last = order(self.lake)
            words = last.words if last else ()
            write(self.lake, self._order(runs=False, why=why, words=words))
            return self._stop()

    def rest(self) -> bool:
        """Let the stream rest while this process is at work, and tell whether there was one that was to run.

        It stays asked for: when this process is killed, a watchdog starts it again.
        """
        with self._alone():
            last = order(self.lake)
            if last is None or not last.runs:
                return False
            write(self.lake, last.resting(self.clock()))
            self._stop()
            return True

    def rested(self) -> None:
        """Start it again, unless somebody asked for something else meanwhile.

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
        """Tell whether its process is there and has not said yet that it lives."""
        found = self.pid()
        return found is not None and not self._lives(found)

    def note(self, asked: Order) -> None:
        """Write down what has become of an order, unless another was given meanwhile."""
        with self._alone():
            last = order(self.lake)
            if last and last.at == asked.at:
                write(self.lake, asked)

    def pid(self) -> int | None:
        """Return the stream's process, if it runs."""
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
        found = self.pid()
        if found is None:
            self._refuse_other()
            log = self.lake.log("stream")
            log.parent.mkdir(parents=True, exist_ok=True)
            bound(log)
            program = [sys.executable, "-X", self._mark, "-m", "jobs.cli", "stream"]
            program += ["--patient", *words]
            found = processes.spawn(
                program, folder=self.lake.root, log=log, environment=self.environment
            )
        self._await(found)
        return found

    def _stop(self) -> bool:
        found = self.pid()
        return found is not None and processes.stop(found, self._mark, patience=ENDING)

    def _refuse_other(self) -> None:
        beat = heartbeat(self.lake, self.clock())
        if beat and beat["alive"]:
            raise DefinitionError(
                f"a stream runs already in process {beat['pid']} on {beat['host']}, which was started by itself",
                hint="stop it where it was started (Ctrl-C), then type the same again.",
                **{name: beat[name] for name in ("pid", "host")},
            )

    def _await(self, pid: int) -> None:
        deadline = time.monotonic() + STARTING
        while not self._lives(pid):
            if not processes.is_ours(pid, self._mark):
                raise TransientError(
                    f"the stream ended while starting: {last_words(self.lake.log('stream'))}",
                    hint=f"read {self.lake.log('stream')}, then `strandline resume`.",
                    log=str(self.lake.log("stream")),
                )
            if time.monotonic() > deadline:
                raise TransientError(
                    f"the stream (process {pid}) says nothing after {STARTING:.0f} s",
                    hint=f"its words are in {self.lake.log('stream')}.",
                    pid=pid,
                )
            time.sleep(EVERY)

    def _lives(self, pid: int) -> bool:
        beat = heartbeat(self.lake, self.clock())
        return bool(beat and beat["alive"] and beat["pid"] == pid and is_there(beat) is not False)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Let one command at a time decide about the stream."""
        self.lake.order.parent.mkdir(parents=True, exist_ok=True)
        with self.lake.order.with_suffix(".lock").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield


def last_words(log: Path) -> str:
    """Return what a stream said last that is not its own account of batches."""
    told = last_lines(log, LAST)
    errors = [n for n, line in enumerate(told) if line.startswith("error")]
    return " ".join(told[errors[-1] :]) if errors else told[-1] if told else "it said nothing"
