"""Ctrl-C that waits for the end of a portion.

An interrupt in the middle of a portion would make the truth wrong by an event. So the first one is only
recorded, and the former handler is restored, so that a second one interrupts at once.
"""

import signal
import threading
from types import FrameType
from typing import Self


class Interrupt:
    """Records the first SIGINT inside a ``with`` block."""

    def __init__(self) -> None:
        """Begin without an interrupt."""
        self.asked = False

    def __enter__(self) -> Self:
        """Install the handler; only the main thread can, so in other threads nothing changes."""
        self._is_ours = threading.current_thread() is threading.main_thread()
        if self._is_ours:
            self._former = signal.signal(signal.SIGINT, self._record)
        return self

    def __exit__(self, *_: object) -> None:
        """Restore the former handler."""
        self._restore()

    def _record(self, _number: int, _frame: FrameType | None) -> None:
        self.asked = True
        self._restore()

    def _restore(self) -> None:
        if self._is_ours:
            signal.signal(signal.SIGINT, self._former)
            self._is_ours = False
