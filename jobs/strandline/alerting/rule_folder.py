"""A folder of rules that is watched: what a change of its files means for the rules that run.

A change goes live only as far as it is sound. A rule that cannot be read, whose regular expression runs away, or that
does the opposite of what one of its examples says is refused with the reason; if another version of it runs, that one
goes on. The others do not wait for it.

``muted.txt`` in the folder lists rules that raise nothing, an id a line, with the reason behind a ``#``. A rule that is
muted keeps its file, its examples and its history.
"""

import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.types import LongType, StructField, StructType

from strandline.alerting.alert_rule import AlertRule, Event, Part, Rule, ThresholdRule
from strandline.alerting.compile import holds
from strandline.alerting.one_plan import EPOCH, alerts
from strandline.alerting.sigma import SUFFIXES, RefusedRule, UnreadableError, read_folder
from strandline.alerting.windows import Hit, fired
from strandline.core.errors import DefinitionError

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


# Run the examples of rules through the plan that will run them: what must fire fires, what must stay quiet does.
#
# All examples of all rules about a table are one query. Each event meets every rule, and only its own is asked for.


NUMBER = "_example"


@dataclass(frozen=True, slots=True)
class Broken:
    """An example on which a rule does the opposite of what it must."""

    rule: AlertRule
    event: dict[str, object]
    must_fire: bool

    @property
    def reason(self) -> str:
        """Return what went wrong, with the values of the example, which are the rule's own."""
        said = {name: value for name, value in self.event.items() if value is not None}
        return f"{'stays quiet' if self.must_fire else 'fires'} on {said}"


def broken(rules: Iterable[AlertRule], spark: SparkSession) -> list[Broken]:
    """Return the examples that contradict their rules."""
    by_source = defaultdict(list)
    for rule in rules:
        if rule.fires_on or rule.quiet_on:
            by_source[rule.source].append(rule)
    return [each for group in by_source.values() for each in _broken(group, spark)]


def _broken(rules: list[AlertRule], spark: SparkSession) -> list[Broken]:
    asked = [
        Broken(rule, dict(event), must_fire)
        for rule in rules
        for must_fire, events in ((True, rule.fires_on), (False, rule.quiet_on))
        for event in events
    ]
    schema = StructType([*rules[0].source.fields, StructField(NUMBER, LongType())])
    rows = [(*each.event.values(), number) for number, each in enumerate(asked)]
    fired = alerts(spark.createDataFrame(rows, schema), rules).select(NUMBER, "rule_id").collect()
    found = {(row[NUMBER], row["rule_id"]) for row in fired}
    return [
        each
        for number, each in enumerate(asked)
        if ((number, each.rule.id) in found) is not each.must_fire
    ]


# Run the examples of threshold rules: lists of events on which they must fire, or must not.
#
# In Python, without Spark: what finds the events is the evaluator that tests/rules/test_compile.py compares with Spark, and
# what counts them is the very function that Spark calls (jobs/strandline/alerting/windows.py).


MICROSECOND = timedelta(microseconds=1)


def broken_thresholds(rules: Iterable[ThresholdRule]) -> list[tuple[ThresholdRule, str]]:
    """Return the examples that contradict their rules, as reasons.

    Raises:
        DefinitionError: An event of an example has no time.
    """
    return [
        (rule, f"{'stays quiet' if must_fire else 'fires'} on example {number} of its {kind}")
        for rule in rules
        for kind, examples, must_fire in (
            ("fires_on", rule.fires_on, True),
            ("quiet_on", rule.quiet_on, False),
        )
        for number, events in enumerate(examples, 1)
        if fires(rule, events) is not must_fire
    ]


def fires(rule: ThresholdRule, events: Sequence[Event]) -> bool:
    """Return whether a rule fires on events, rows of its tables; any later event is long after them.

    Raises:
        DefinitionError: An event has no time.
    """
    by_key: dict[tuple[str, ...], list[Hit]] = defaultdict(list)
    for number, event in enumerate(events):
        for step, part in enumerate(rule.parts):
            if _is_found(part, event):
                key = tuple(str(event[column]) for column in part.keys)
                value = event[part.value] if part.value else ""
                text = None if value is None else str(value)
                by_key[key].append(Hit(_micros(rule, part, event), f"{number:06}", -step, text))
    return any(
        any(fired(rule, sorted(hits), max(hits).at + 3 * (rule.within // MICROSECOND)))
        for hits in by_key.values()
    )


def _is_found(part: Part, event: Event) -> bool:
    is_row = set(event) == set(part.rule.source.fields.fieldNames())
    has_key = is_row and all(event[column] is not None for column in part.keys)
    return has_key and holds(part.rule.when, event)


def _micros(rule: ThresholdRule, part: Part, event: Event) -> int:
    name = str(part.rule.source.table.event_at)
    at = event[name]
    if not isinstance(at, datetime):
        raise DefinitionError(
            f"an event in an example of {rule.id} has no time",
            hint=f"give each its {name}.",
            rule=rule.id,
        )
    return (at - EPOCH) // MICROSECOND
