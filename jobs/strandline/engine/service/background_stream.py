"""The always-on stream as a program of its own, which outlives the command that starts it.

The process that raises alerts is another such program; what is said of the stream here
holds for it.

It is found by a mark on its command line, as the broker is (jobs/strandline/engine/runtime/processes.py). The mark does not make
it the only writer of its tables: the leases do (jobs/strandline/engine/lake/locks.py), also against a stream in a terminal.
"""

import socket
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Protocol

from strandline.core.errors import DefinitionError, TransientError
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.place import Place
from strandline.engine.lake.store_lease import hold
from strandline.engine.runtime import processes
from strandline.engine.runtime.log_files import bound, last_error
from strandline.engine.runtime.processes import is_there, own
from strandline.engine.service.stream_health import (
    Order,
    heartbeat,
    ill,
    near_beat,
    order,
    write_desired,
)

# The options with which a stream is started, as words of the command line, merged with those of the last start.


EVERY_OPTION = "--every"
MAX_OFFSETS = "--max-offsets"
AUTO = "auto"
"""The value that takes an option of the last start back: it is chosen again as if it had never been named."""


def merged(
    last: Sequence[str], asked: Sequence[str], *, everything: bool = False
) -> tuple[str, ...]:
    """Return this start's options, and those of the last start that this one does not override.

    Args:
        last: The words of the last start.
        asked: The words of this start; its tables, if it names any, replace the former ones.
        everything: Whether to start all tables, whatever the last start named.
    """
    former, options = _apart(last)
    tables, newer = _apart(asked)
    chosen = tables or (() if everything else former)
    kept = {name: value for name, value in {**options, **newer}.items() if value != AUTO}
    return (*chosen, *(word for pair in kept.items() for word in pair))


def _apart(words: Sequence[str]) -> tuple[tuple[str, ...], dict[str, str]]:
    """Return tables, and the value of each option."""
    first = next((n for n, word in enumerate(words) if word.startswith("-")), len(words))
    return tuple(words[:first]), dict(zip(words[first::2], words[first + 1 :: 2], strict=True))


# The programs of a lake that are to run always: the stream of tables, and the process that raises alerts.


class Merge(Protocol):
    """Returns the options of a start, by those of the last start and those that were given."""

    def __call__(
        self, last: Sequence[str], asked: Sequence[str], *, everything: bool = False
    ) -> tuple[str, ...]:
        """Return them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A verb that runs always, and its files in a lake.

    Args:
        name: Of its log, and of the mark by which it is found.
        title: What it is, in sentences.
        verb: The verb, with the options that it always has.
        starter: What a person types to have it run.
        reader: What a person types to read its log.
        heartbeat: Where it writes its heartbeat.
        order: Where its desired state is.
        lock: The lock of one who decides about it.
        merged: How the options of a start follow from those of the last one.
    """

    name: str
    title: str
    verb: tuple[str, ...]
    starter: str
    reader: str
    heartbeat: Callable[[Lake], Place]
    order: Callable[[Lake], Place]
    lock: Callable[[Lake], Place]
    merged: Merge


def _given_or_last(
    last: Sequence[str], asked: Sequence[str], *, everything: bool = False
) -> tuple[str, ...]:
    """Return the options that were given, if any was; a folder and a mode belong together."""
    return tuple(asked) if asked or everything else tuple(last)


STREAM = Program(
    name="stream",
    title="the stream",
    verb=("stream", "--patient"),
    starter="strandline resume",
    reader="strandline logs",
    heartbeat=lambda lake: lake.heartbeat,
    order=lambda lake: lake.order,
    lock=lambda lake: lake.order_lock,
    merged=merged,
)
ALERTS = Program(
    name="alerts",
    title="the process that raises alerts",
    verb=("alerts",),
    starter="strandline alerts --background",
    reader="strandline logs --of alerts",
    heartbeat=lambda lake: lake.feeds_beat,
    order=lambda lake: lake.alerts_order,
    lock=lambda lake: lake.alerts_order_lock,
    merged=_given_or_last,
)


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
        program: Which of the lake's programs it is.
    """

    lake: Lake
    clock: Callable[[], datetime]
    environment: Mapping[str, str]
    by: str
    program: Program = STREAM

    def order(self) -> Order | None:
        """Return the last request, or None when there was none."""
        return order(self.lake, self.program.order(self.lake))

    def heartbeat(self) -> dict[str, Any] | None:
        """Return the last heartbeat."""
        return heartbeat(self.lake, self.clock(), self.program.heartbeat(self.lake))

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
            last = self.order()
            asked = self.program.merged(
                last.words if last else (), words or (), everything=everything
            )
            return self._resumed(asked, why)

    def restart(self, why: str = "") -> int:
        """End the stream after its batches and start it with the same options, without another command in between.

        Raises:
            DefinitionError: As for ``resume``.
            TransientError: As for ``resume``.
        """
        with self._alone():
            last = self.order()
            words = last.words if last else ()
            if self.pid() is None:
                self._refuse_other()
            # The request comes first, so that what ends and starts meanwhile is not taken for dead.
            self._write(self._order(runs=True, why=why, words=words))
            self._stop()
            return self._resumed(words, why)

    def again(self, *, ends: bool) -> int:
        """Restart a stream that is not well, and count the attempt.

        Args:
            ends: Whether a live stream is ended first. Otherwise it is left alone: another command has restarted it.

        Raises:
            DefinitionError: No stream is requested.
            TransientError: As for ``resume``.
        """
        with self._alone():
            last = self.order()
            if last is None or not last.runs:
                raise DefinitionError(
                    f"{self.program.title} is not to run",
                    hint=f"`{self.program.starter}` requests it.",
                )
            pid = self.pid()
            if pid is not None and not ends and self._lives(pid):
                return pid
            self._write(last.tried(self.clock()))
            self._stop()
            return self._started(last.words)

    def pause(self, why: str = "") -> bool:
        """Request that no stream runs, end the running one after its batches, and return whether there was one."""
        with self._alone():
            last = self.order()
            words = last.words if last else ()
            self._write(self._order(runs=False, why=why, words=words))
            return self._stop()

    def suspend(self) -> bool:
        """End the stream while this process is at work, and return whether a stream was to run.

        The stream stays requested: when this process is killed, a watchdog restarts it.
        """
        with self._alone():
            last = self.order()
            if last is None or not last.runs:
                return False
            self._write(last.suspended(self.clock()))
            self._stop()
            return True

    def end_suspension(self) -> None:
        """Start the suspended stream again, unless there was another request meanwhile.

        Raises:
            DefinitionError: As for ``resume``.
            TransientError: As for ``resume``.
        """
        with self._alone():
            last = self.order()
            mine = own()
            if last is None or not last.rest or any(last.rest[key] != mine[key] for key in mine):
                return
            self._write(replace(last, rest=None))
            self._started(last.words)

    def is_starting(self) -> bool:
        """Return whether its process exists and has written no heartbeat yet, for no longer than a start may take.

        One that hangs for longer, in its start or in its end, is as good as gone.
        """
        pid = self.pid()
        return pid is not None and not self._lives(pid) and self._is_new(pid)

    def _is_new(self, pid: int) -> bool:
        """Return whether the stream was requested, restarted or, as after a suspension, just started within ``STARTING``."""
        asked, now = self.order(), self.clock()
        texts = [asked.at, *asked.attempts[-1:]] if asked else []
        moments = [processes.started_at(pid), *map(datetime.fromisoformat, texts)]
        return any(each and abs(now - each) < timedelta(seconds=STARTING) for each in moments)

    def note(self, asked: Order) -> None:
        """Record a change of a request, unless there was another request meanwhile."""
        with self._alone():
            last = self.order()
            if last and last.at == asked.at:
                self._write(asked)

    def pid(self) -> int | None:
        """Return the stream's process id, if it runs."""
        return processes.find(self._mark)

    @property
    def _mark(self) -> str:
        return f"strandline-{self.program.name}={self.lake.root}"

    def _write(self, asked: Order) -> None:
        write_desired(self.lake, asked, self.program.order(self.lake))

    @property
    def log(self) -> Place:
        """Return its log."""
        return self.lake.log(self.program.name)

    def _resumed(self, words: tuple[str, ...], why: str) -> int:
        if self.pid() is None:
            self._refuse_other()  # else a watchdog would start what is refused, as soon as the other ends
        self._write(self._order(runs=True, why=why, words=words))
        return self._started(words)

    def _order(self, *, runs: bool, why: str, words: tuple[str, ...]) -> Order:
        at = self.clock().isoformat(timespec="seconds")
        return Order(runs=runs, at=at, by=self.by, why=why, words=words)

    def _started(self, words: Sequence[str]) -> int:
        pid = self.pid()
        if pid is None:
            self._refuse_other()
            log = self.lake.program_log(self.program.name)
            bound(log)
            program = [sys.executable, "-X", self._mark, "-m", "strandline.cli"]
            program += [*self.program.verb, "--json", *words]
            pid = processes.spawn(
                program, folder=self.lake.near.make().local, log=log, environment=self.environment
            )
        self._await(pid)
        return pid

    def _stop(self) -> bool:
        pid = self.pid()
        return pid is not None and processes.stop(
            pid, self._mark, patience=ENDING, descendants=True
        )

    def _refuse_other(self) -> None:
        beat = self.heartbeat()
        if beat and beat["alive"]:
            raise DefinitionError(
                f"{self.program.title} runs already in process {beat['pid']} on {beat['host']}, "
                f"not started by `{self.program.starter}`",
                hint="stop it where it was started (Ctrl-C), then repeat the command.",
                **{name: beat[name] for name in ("pid", "host")},
            )

    def _await(self, pid: int) -> None:
        deadline = time.monotonic() + STARTING
        while not self._lives(pid):
            if not processes.is_ours(pid, self._mark):
                raise TransientError(
                    f"{self.program.title} ended while starting: {last_error(self.log.local)}",
                    hint=f"`{self.program.reader}` shows what was before it; then `{self.program.starter}`.",
                    log=str(self.log),
                )
            if time.monotonic() > deadline:
                raise TransientError(
                    f"{self.program.title} (process {pid}) has written no heartbeat after {STARTING:.0f} s",
                    hint=f"`{self.program.reader} --follow` shows what it does.",
                    pid=pid,
                )
            time.sleep(EVERY)

    def _lives(self, pid: int) -> bool:
        beat = self.heartbeat()
        return bool(beat and beat["alive"] and beat["pid"] == pid and is_there(beat) is not False)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Let one command at a time decide about the stream."""
        with hold(self.program.lock(self.lake)):
            yield


# Whether a program of a lake is well on this host, for an orchestrator that asks its container every few seconds.
#
# It differs from the watchdog's look (jobs/strandline/engine/service/stream_health.py) in two things. Nothing has to be ordered: an
# orchestrator starts programs itself. And a heartbeat counts on its own host only: while a pod starts, the heartbeat of the
# former one is still in the lake, and a pod must not be taken for ready because another was. Of a lake on an object store its
# copy on this machine is read, so a store that is away restarts no pod.


def refuse_ill(program: Program, lake: Lake, now: datetime) -> Mapping[str, Any]:
    """Return the last heartbeat of a program that is well.

    Raises:
        TransientError: It has written none on this host, has ended, is silent, or commits nothing though it has rows to read.
    """
    beat = _own_beat(program, lake)
    begun = "" if beat is None else _begun(beat)
    found = ill(beat, now, begun=begun, title=f"{program.title}, on host {socket.gethostname()},")
    if beat is None or found is not None:
        raise TransientError(
            found[1] if found else program.title,
            hint=f"one that starts is well with its first heartbeat; `{program.reader}` shows what it does.",
        )
    return beat


def _own_beat(program: Program, lake: Lake) -> dict[str, Any] | None:
    """Return the heartbeat of a process of this host, which is dead where it is gone."""
    beat = near_beat(lake, program.heartbeat(lake))
    return None if beat is None or beat["host"] != socket.gethostname() else beat


def _begun(beat: Mapping[str, Any]) -> str:
    """Return when a process was started; of one that has just gone, its last sign of life."""
    created = processes.started_at(beat["pid"])
    return created.isoformat(timespec="seconds") if created else str(beat["at"])
