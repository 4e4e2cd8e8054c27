"""Ctrl-C that waits for the end of a portion.

An interrupt in the middle of a portion would leave the truth off by an event. The first one is therefore
only noted, and gives the signal back, so that a second one works as ever.
"""

import signal
import threading
from types import FrameType
from typing import Self


class Interrupt:
    """Notes the first SIGINT between ``with`` and its end."""

    def __init__(self) -> None:
        """Begin without a wish to stop."""
        self.asked = False

    def __enter__(self) -> Self:
        """Take the signal over; only the main thread can, elsewhere nothing changes."""
        self._is_ours = threading.current_thread() is threading.main_thread()
        if self._is_ours:
            self._former = signal.signal(signal.SIGINT, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        """Give the signal back."""
        self._give_back()

    def _note(self, _number: int, _frame: FrameType | None) -> None:
        self.asked = True
        self._give_back()

    def _give_back(self) -> None:
        if self._is_ours:
            signal.signal(signal.SIGINT, self._former)
            self._is_ours = False
