"""The rules of the folder that runs, each with the name of its asset, read without Spark and without other programs.

A rule's asset is named for its file and not for its id, because people know the file, and a file that cannot be read has
no id. A rule that is broken one day is the same asset, with its history, and a failed check with the reason.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from dagster import AssetKey

from strandline.alerting.rules.alert_rule import AlertRule, ThresholdRule
from strandline.alerting.rules.sigma import Folder, RefusedRule, UnreadableError, read_folder
from strandline.engine.lake.files.place import Place
from strandline.engine.lake.lake import Lake
from strandline.engine.runtime.settings import settings
from strandline.engine.runtime.store_away import AWAY
from strandline.operate.alerts.examples import live_folder
from strandline_dagster.resources import refuse_away

GROUP = "rules"

Rule: TypeAlias = AlertRule | ThresholdRule


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleBook:
    """What a folder has: rules by their origins, and the reasons why the others do not run.

    Args:
        rules: Those that run.
        refused: The reason of each that does not.
        problem: Why the folder as a whole cannot be read.
    """

    rules: Mapping[str, Rule]
    refused: Mapping[str, str]
    problem: str = ""

    @property
    def origins(self) -> list[str]:
        """Return the origins of all, those that run and those that do not."""
        return sorted({*self.rules, *self.refused})


def rule_folder() -> Path:
    """Return the folder of the rules that run.

    Raises:
        StoreAwayError: They are in the lake, whose store does not answer.
        KeysRefusedError: The same, and it refuses the keys.
    """
    found = settings()
    if not found.rules:
        refuse_away()
    return live_folder(found, Lake(Place.of(found.lake)))


def rule_book() -> RuleBook:
    """Read the folder; of a lake whose store does not answer nothing is known, and all else that Dagster has is there."""
    try:
        folder = rule_folder()
    except AWAY as error:
        return RuleBook(rules={}, refused={}, problem=error.message)
    if not folder.is_dir():
        return RuleBook(rules={}, refused={}, problem=f"there is no folder {folder}")
    try:
        found = read_folder(folder)
    except (UnreadableError, OSError) as error:
        return RuleBook(rules={}, refused={}, problem=str(error))
    rules = found.every
    return RuleBook(
        rules={rule.origin: rule for rule in rules},
        refused={each.origin: each.reason for each in found.refused},
    )


def chosen(book: RuleBook, origins: Iterable[str]) -> Folder:
    """Return some rules of the folder as a folder."""
    rules = [book.rules[origin] for origin in origins if origin in book.rules]
    return Folder(
        tuple(rule for rule in rules if isinstance(rule, AlertRule)),
        tuple(RefusedRule(each, book.refused[each]) for each in origins if each in book.refused),
        tuple(rule for rule in rules if isinstance(rule, ThresholdRule)),
    )


def why_not(origin: str, book: RuleBook) -> str:
    """Return why a rule does not run; nothing if it does."""
    if origin in book.rules:
        return ""
    gone = f"{origin} is no longer a rule of the folder, or another rule counts what it finds"
    return book.problem or book.refused.get(origin, gone)


def rule_keys(origins: Sequence[str]) -> dict[str, AssetKey]:
    """Return the name of the asset of each origin; of files whose names are the same to Dagster the later have numbers."""
    named = {origin: _plain(origin) for origin in origins}
    seen: Counter[str] = Counter()
    keys = {}
    for origin, name in named.items():
        seen[name] += 1
        keys[origin] = AssetKey([GROUP, name if seen[name] == 1 else f"{name}__{seen[name]}"])
    return keys


def _plain(origin: str) -> str:
    file, _, number = origin.partition("#")
    return re.sub(r"\W", "_", str(Path(file).with_suffix("")) + (f"_{number}" if number else ""))
