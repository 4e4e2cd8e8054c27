"""Ctrl-C and SIGTERM: some verbs note them and end in order, all others end at once and print that they were stopped.

Why ``run`` ends at once and is not unwound: an interrupt inside py4j leaves the gateway out of step. Clean-up then
waits for the batch or fails, and the message was that memory ran out. A batch may be killed at any moment: the JVM
holds the table's lock (jobs/strandline/engine/lake/locks.py), and it ends when its standard input is closed.
"""

import atexit
import gc
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

import psutil

from strandline.core.errors import TransientError

if TYPE_CHECKING:
    from strandline.engine.runtime.meter import Work

SIGNALS = (signal.SIGINT, signal.SIGTERM)

EXIT_CODE = 130
"""The exit code by which a shell knows that Ctrl-C ended a program."""

UNENDED = (
    "error: not ended {:.0f} s after it was asked to, and killed with its JVM\n\n"
    "hint: nothing is lost or repeated; the same command continues. `strandline logs --of spark` shows what Spark did."
)
STOPPED = "stopped; nothing is lost or repeated, and the same command continues"


AT_LAST = 100.0
"""Seconds from the signal after which a program that waits for its batches ends whatever they do; `pause` kills it after 120."""

QUIET = 25.0
"""Seconds without a sign of life after which a stream that was asked to end is ended: what hangs must be gone 30 s after the signal."""

LOOK = 0.5

_DEAF = threading.Event()
_SIGNS: list[Callable[[], float]] = []


def asked(*, within: float | None = None, quiet: float | None = None) -> threading.Event:
    """Return an event that the first signal from here on sets.

    Args:
        within: Seconds after the event within which the program must be at its end, or is ended. A program that waits inside the
            JVM hears the signal and cannot leave.
        quiet: Seconds without a sign of life after which it is ended before that; its JVM works, or what it waits for (``waits_for``).
    """
    event = threading.Event()
    if within is not None:
        _DEAF.clear()
        _SIGNS.clear()
        threading.Thread(
            target=_end_at_last, args=(event, within, quiet or within), daemon=True
        ).start()
    for name in SIGNALS:
        signal.signal(name, lambda *_: event.set())
    return event


def waits_for(waited_at: Callable[[], float]) -> None:
    """Note where to ask until when there was something to wait for; from here on that alone is a sign of life."""
    _SIGNS.append(waited_at)


def deaf() -> None:
    """Ignore further signals: a program that is ending must keep its exit code."""
    _DEAF.set()
    for name in SIGNALS:
        signal.signal(name, signal.SIG_IGN)


def noted() -> threading.Event:
    """Return an event that Ctrl-C sets and then interrupts; a second Ctrl-C ends the program at once."""
    event = threading.Event()

    def interrupt(*_: object) -> None:
        at_once()
        event.set()
        raise KeyboardInterrupt

    signal.signal(signal.SIGINT, interrupt)
    return event


def at_once() -> None:
    """Let Ctrl-C end the program at once from here on."""
    signal.signal(signal.SIGINT, lambda *_: end())


def end() -> None:
    """Print that the program was stopped, and exit without the clean-up and the messages of Spark."""
    with suppress(Exception):  # the signal may have interrupted such a write
        sys.stdout.flush()
    with suppress(OSError):
        os.write(2, f"{STOPPED}\n".encode())
    os._exit(EXIT_CODE)


def leave(code: int) -> None:
    """Exit after what is registered for the end of a program, without the end of the interpreter.

    When a JVM is lost, threads that waited for it are still there, and so are those of the clients of Kafka and of an object store:
    one that asks for an interpreter which is being taken down ended a stream with SIGSEGV instead of its exit code.
    """
    atexit._run_exitfuncs()  # noqa: SLF001  # there is no public way
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):  # what read it may have ended
            stream.flush()
    os._exit(code)


def _end_at_last(event: threading.Event, within: float, quiet: float) -> None:
    """End the program and what it has started, unless it has come to its end by itself."""
    event.wait()
    # Whatever thread collects garbage asks the JVM to let go of its objects; one that does not answer would keep this thread, too.
    gc.disable()
    began = signed = due = time.monotonic()
    # Not imported above, because most verbs are at their end before it is.
    from strandline.engine.runtime.meter import Work  # noqa: PLC0415  # as above

    work = Work()
    while not _DEAF.wait(LOOK):
        now = time.monotonic()
        signed = max(signed, *(at() for at in _SIGNS), now if _works(work) else signed)
        due = min(began + within, signed + quiet)
        if now > due:
            break
    else:
        gc.enable()
        return
    with suppress(OSError):
        os.write(2, f"{UNENDED.format(due - began)}\n".encode())
    for each in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):
            each.kill()
    os._exit(TransientError.exit_code)


def _works(work: "Work") -> bool:
    return not _SIGNS and work.goes_on()
