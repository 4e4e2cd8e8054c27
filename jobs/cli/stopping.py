"""Ctrl-C and SIGTERM for verbs that run until they are asked to stop: noted, so that what runs can end in good order."""

import signal
import threading

SIGNALS = (signal.SIGINT, signal.SIGTERM)


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
