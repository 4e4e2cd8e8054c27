"""How long the call of a server may take, heard where it works: by what reads commits, and by a database.

A thread cannot be ended from outside, and a client that has left does not say so to it. So what can take long asks: a walk along a log
at each commit, a comparison because its database is interrupted, again and again until the block ends. Where no call has a limit, as in
a run, a look at a variable is all that it costs.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from threading import Event, Lock, Thread
from typing import Protocol

from strandline.core.errors import DefinitionError

TURN = 0.05
"""Seconds between two interruptions of what is over its time."""


class EndedError(DefinitionError):
    """A call takes longer than it may, or is wanted no more."""


class Interruptible(Protocol):
    """What runs until another thread interrupts it: a database."""

    def interrupt(self) -> None:
        """End what runs now, and nothing that is begun later."""


class Limit:
    """The limit of one call.

    Args:
        outer: The limit of the call that this one is a part of.
    """

    def __init__(self, outer: "Limit | None" = None) -> None:
        """Begin without an end."""
        self._outer = outer
        self._over, self._done, self._lock = Event(), Event(), Lock()
        self._runs: list[Interruptible] = []
        self._why = "it is wanted no more"

    @property
    def is_over(self) -> bool:
        """Return whether what belongs to the call is to end."""
        return self._over.is_set() or (self._outer is not None and self._outer.is_over)

    def end(self) -> None:
        """End the call: its client has left."""
        self._over.set()

    def refuse(self) -> None:
        """End what belongs to a call that is over.

        Raises:
            EndedError: It is.
        """
        if self.is_over:
            raise EndedError(
                self._why, hint="ask for less: fewer tables, fewer days, versions that are nearer."
            ) from None

    def watch(self, seconds: float) -> None:
        """Interrupt what runs once the time is over, until the block has ended."""
        until = time.monotonic() + seconds
        while not self._done.wait(TURN):
            if time.monotonic() > until and not self._over.is_set():
                self._why = f"it was ended after {seconds:g} s"
                self._over.set()
            if self.is_over:
                with self._lock:
                    for each in self._runs:
                        with suppress(Exception):  # it has ended meanwhile
                            each.interrupt()

    @contextmanager
    def running(self, run: Interruptible) -> Iterator[None]:
        """Let something be interrupted in the block, and no longer: what is closed must not be reached for."""
        with self._lock:
            self._runs.append(run)
        try:
            yield
        finally:
            with self._lock:
                self._runs.remove(run)

    def stop(self) -> None:
        """Watch no more."""
        self._done.set()


_LIMIT: ContextVar[Limit | None] = ContextVar("limit", default=None)
"""The limit of what this thread works for."""


@contextmanager
def within(seconds: float, limit: Limit | None = None) -> Iterator[None]:
    """Let what is done in the block, in this thread, take so long at most.

    Args:
        seconds: The time.
        limit: The limit, where another thread is to end it; a part of that of before when None.

    Raises:
        EndedError: It took longer, whatever the block has made of that.
    """
    own = limit or Limit(_LIMIT.get())
    before = _LIMIT.set(own)
    watching = Thread(target=own.watch, args=(seconds,), name="limit", daemon=True)
    watching.start()
    try:
        own.refuse()
        yield
        own.refuse()
    except Exception:
        own.refuse()
        raise
    finally:
        _LIMIT.reset(before)
        own.stop()
        watching.join()


def refuse_ended() -> None:
    """End what belongs to a call that is over.

    Raises:
        EndedError: It is.
    """
    if (limit := _LIMIT.get()) is not None:
        limit.refuse()


@contextmanager
def interrupted(run: Interruptible) -> Iterator[None]:
    """Let a database be interrupted in the block once the call is over that it works for."""
    if (limit := _LIMIT.get()) is None:
        yield
        return
    with limit.running(run):
        yield
