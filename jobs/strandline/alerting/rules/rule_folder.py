"""A folder of rules that is watched: what a change of its files means for the rules that run.

A change goes live only as far as it is sound. A rule that cannot be read, whose regular expression runs away, or that
does the opposite of what one of its examples says is refused with the reason; if another version of it runs, that one
goes on. The others do not wait for it.

``muted.txt`` in the folder lists rules that raise nothing, an id a line, with the reason behind a ``#``. A rule that is
muted keeps its file, its examples and its history.
"""

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from strandline.alerting.rules.alert_rule import AlertRule
from strandline.alerting.rules.handover import Rule
from strandline.alerting.rules.sigma.folder import (
    SUFFIXES,
    RefusedRule,
    UnreadableError,
    read_folder,
)

MUTED = "muted.txt"

Check = Callable[[Sequence[Rule]], Iterable[tuple[Rule, str]]]
"""Returns rules that must not run, each with the reason: those that contradict their examples."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleSet:
    """The rules that run, and those that do not."""

    rules: tuple[Rule, ...] = ()
    muted: tuple[Rule, ...] = ()
    refused: tuple[RefusedRule, ...] = ()

    def changes(self, before: "RuleSet") -> dict[str, list[str]]:
        """Return what is otherwise than before: rules by kind of change, each with its version.

        The removal of a muted rule changes nothing that is raised, but its record would end with "muted".
        """
        new, old = ({rule.id: rule for rule in each.rules} for each in (self, before))
        silent = {rule.id for rule in self.muted}
        gone = [
            each for each in (*before.rules, *before.muted) if each.id not in new.keys() | silent
        ]
        kinds = {
            "added": [new[name] for name in new.keys() - old.keys()],
            "changed": [new[n] for n in new.keys() & old.keys() if _differ(new[n], old[n])],
            "muted": [old[name] for name in old.keys() - new.keys() if name in silent],
            "removed": gone,
        }
        return {
            kind: sorted(f"{rule.id} {rule.version}" for rule in rules)
            for kind, rules in kinds.items()
            if rules
        }


class RuleFolder:
    """The rules of a folder, read again when its files change."""

    def __init__(
        self, folder: Path, check: Check, also: Callable[[], Sequence[Rule]] = lambda: ()
    ) -> None:
        """Nothing is read yet.

        Args:
            folder: Where the files are; may become another one between two looks.
            check: Run on rules that are new or changed, before they go live.
            also: Returns rules that run beside those of the folder.
        """
        self.folder, self._check, self._also = folder, check, also
        self._beside: tuple[Rule, ...] = ()
        self._seen: dict[str, tuple[int, int]] | None = None
        self.current = RuleSet()
        self._read: RuleSet | None = None
        """What the folder has, where other rules run."""
        self.by: tuple[str, ...] = ()
        """The owners of the files that changed last."""

    def look(self) -> RuleSet | None:
        """Return the rules that run from now on if the files have changed since the last look; otherwise None."""
        if self._read is not None:
            self.current, self._read = self._read, None
            return self.current
        seen, beside = state(self.folder), tuple(self._also())
        if seen == self._seen and beside == self._beside:
            return None
        self._beside = beside
        changed = {path for path, _ in set(seen.items()) ^ set((self._seen or {}).items())}
        self.by = _owners(changed)
        self._seen = seen
        try:
            found = read_folder(self.folder)
        except UnreadableError as error:
            return self._refused(str(error))
        if not self.folder.is_dir():
            return self._refused(f"there is no folder {self.folder}")
        running = {(rule.id, _meaning(rule)) for rule in (*self.current.rules, *self.current.muted)}
        every: list[Rule] = [*found.every, *beside]
        fresh = [rule for rule in every if (rule.id, _meaning(rule)) not in running]
        wrong = {rule.id: reason for rule, reason in self._check(fresh)} if fresh else {}
        refused = [
            *found.refused,
            *(RefusedRule(rule.origin, wrong[rule.id]) for rule in fresh if rule.id in wrong),
        ]
        sound = {rule.id: rule for rule in every if rule.id not in wrong}
        at_fault = {file_of(each.origin) for each in refused}
        for rule in (*self.current.rules, *self.current.muted):
            if file_of(rule.origin) in at_fault:  # the version that runs goes on
                sound.setdefault(rule.id, rule)
        silent = self._muted()
        self.current = RuleSet(
            rules=tuple(rule for rule in sound.values() if rule.id not in silent),
            muted=tuple(rule for rule in sound.values() if rule.id in silent),
            refused=tuple(refused),
        )
        return self.current

    def goes_on_with(self, rules: Sequence[Rule]) -> None:
        """Take rules for those that run; the next look returns what the folder has, whether or not it changed.

        Where a rule of the folder is refused, the next look reads all of it again: another version of it may go on.
        """
        if self.current.refused:
            self._seen = None
        else:
            self._read = self.current
        self.current = RuleSet(rules=tuple(rules))

    def _refused(self, reason: str) -> RuleSet:
        """Keep the rules that run, because the folder as a whole cannot be read."""
        refused = RefusedRule(self.folder.name, reason)
        self.current = replace(self.current, refused=(refused,))
        return self.current

    def _muted(self) -> set[str]:
        try:
            lines = (self.folder / MUTED).read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError):
            return set()
        return {line.split("#")[0].strip() for line in lines} - {""}


def state(folder: Path) -> dict[str, tuple[int, int]]:
    """Return size and time of each file of a folder; cheap enough for every second."""
    found = {}
    for place, _, names in os.walk(folder):
        for name in names:
            if name != MUTED and Path(name).suffix.lower() not in SUFFIXES:
                continue
            path = Path(place, name)
            try:
                status = path.stat()
            except OSError:
                continue  # it has just gone
            found[str(path)] = (status.st_size, status.st_mtime_ns)
    return found


def _owners(changed: Iterable[str]) -> tuple[str, ...]:
    """Return the owners of files; for one that is gone, that of its folder."""
    found = set()
    for path in map(Path, changed):
        try:
            found.add((path if path.exists() else path.parent).owner())
        except (OSError, KeyError):  # the folder is gone as well, or the user has no name
            continue
    return tuple(sorted(found))


def file_of(origin: str) -> str:
    """Return the file of a rule; where several are in one, the origin has a number behind it."""
    return origin.partition("#")[0]


def _differ(one: Rule, other: Rule) -> bool:
    return _meaning(one) != _meaning(other)


def _meaning(rule: Rule) -> tuple[object, ...]:
    made = rule.source.made if isinstance(rule, AlertRule) else ()
    return (rule.version, rule.severity, made)
