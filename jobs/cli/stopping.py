"""Ctrl-C and SIGTERM: noted by verbs that end in good order, and the end of all others, which say that they were stopped.

Why ``run`` ends at once instead of being unwound: an interrupt inside py4j leaves the gateway out of step, so what is
cleaned up on the way out waits for the batch or fails, and the person was told that memory ran out. A batch may be
killed at any moment; the lock of the table is the JVM's and goes with it (jobs/run/lease.py), and the JVM ends when its
standard input does.
"""

import os
import signal
import sys
import threading
from contextlib import suppress

SIGNALS = (signal.SIGINT, signal.SIGTERM)

EXIT_CODE = 130
"""What a shell says of a program that Ctrl-C has ended."""

STOPPED = "stopped; nothing is lost or repeated, and the same again carries on"


def asked() -> threading.Event:
    """Return what is set by the first signal from here on."""
    event = threading.Event()
    for name in SIGNALS:
        signal.signal(name, lambda *_: event.set())
    return event


def deaf() -> None:
    """Hear no more of them: what ends anyway must not end with another exit code, which on-call reads."""
    for name in SIGNALS:
        signal.signal(name, signal.SIG_IGN)


def noted() -> threading.Event:
    """Return what is set when Ctrl-C interrupts what runs; a second one ends the program where it is."""
    event = threading.Event()

    def interrupt(*_: object) -> None:
        at_once()
        event.set()
        raise KeyboardInterrupt

    signal.signal(signal.SIGINT, interrupt)
    return event


def at_once() -> None:
    """Let Ctrl-C end the program at any moment from here on, without a step more."""
    signal.signal(signal.SIGINT, lambda *_: end())


def end() -> None:
    """Say that the program was stopped, and be gone, without what Spark would do and say on the way out."""
    with suppress(Exception):  # the signal may have come in the middle of such a write
        sys.stdout.flush()
    with suppress(OSError):
        os.write(2, f"{STOPPED}\n".encode())
    os._exit(EXIT_CODE)
