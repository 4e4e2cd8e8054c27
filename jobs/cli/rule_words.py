"""What people read of a rule in a notice, from the folder of rules, which may change meanwhile."""

import threading
import time
from collections.abc import Callable
from pathlib import Path

from jobs.engine.service.notice import RuleWords
from jobs.rules.sigma.files import UnreadableError
from jobs.rules.sigma.folder import read_folder

AGAIN = 10.0
"""Seconds between two readings of a folder that does not have a rule."""


class RuleTexts:
    """The titles, owners and runbooks of a folder; it is read again when it does not have a rule that raised an alert."""

    def __init__(
        self, where: Callable[[], Path], clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Read the folder that ``where`` returns; it is another one after a promotion."""
        self._where, self._clock = where, clock
        self._lock = threading.Lock()
        self._read(where())

    def of(self, rule: str) -> RuleWords:
        """Return what the folder says of a rule; nothing where it does not have it."""
        with self._lock:
            folder = self._where()
            is_new = rule not in self._known and self._clock() >= self._due
            if is_new or folder != self._read_from:
                self._read(folder)
            return self._known.get(rule, RuleWords())

    def _read(self, folder: Path) -> None:
        self._known = _words(folder)
        self._read_from, self._due = folder, self._clock() + AGAIN


def _words(folder: Path) -> dict[str, RuleWords]:
    try:
        found = read_folder(folder)
    except UnreadableError:  # too many files; `strandline alerts` logs that
        return {}
    rules = found.every
    return {
        rule.id: RuleWords(title=rule.title, owner=rule.owner, runbook=rule.runbook)
        for rule in rules
    }
