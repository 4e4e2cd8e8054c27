"""Looks at the folder of rules once a minute, so that a rule that no longer runs is a failed check within a minute.

The checks hang on the rules and, about the folder as a whole, on the topic of alerts, which no run writes: Dagster's page
ignores a result that is older than the table.
"""

import json
import time
from collections.abc import Iterator, Mapping
from hashlib import sha256

from dagster import (
    AssetCheckEvaluation,
    AssetCheckResult,
    AssetChecksDefinition,
    AssetCheckSeverity,
    AssetKey,
    DefaultSensorStatus,
    SensorDefinition,
    SensorEvaluationContext,
    SensorResult,
    SkipReason,
    asset_check,
    sensor,
)

from strandline.alerting.rules.rule_folder import state
from strandline_dagster import rule_checks
from strandline_dagster.checks import evaluation
from strandline_dagster.rule_book import RuleBook, rule_book, rule_folder, why_not
from strandline_dagster.store_away import unless_away

EVERY = 60
OLD = 900
"""Seconds after which an unchanged folder is read again: what its rules look at may have changed."""

SHOWN = 20

READABLE = "every_rule_runs"
ABOUT = "Every file of the folder is read, and every rule in it runs."


def folder_check(topic: AssetKey, keys: Mapping[str, AssetKey]) -> AssetChecksDefinition:
    """Make the check of the folder, to be answered on demand."""

    @asset_check(asset=topic, name=READABLE, description=ABOUT)
    def every_rule_runs() -> AssetCheckResult:
        return of_folder(topic, rule_book(), keys)

    return every_rule_runs


def look_at_rules(topic: AssetKey, keys: Mapping[str, AssetKey]) -> SensorDefinition:
    """Make the sensor."""

    @sensor(
        name="look_at_rules",
        minimum_interval_seconds=EVERY,
        default_status=DefaultSensorStatus.RUNNING,
    )
    @unless_away
    def look(context: SensorEvaluationContext) -> SensorResult | SkipReason:
        """Read the folder if its files have changed, and answer the checks of which the answer is another one."""
        seen = json.loads(context.cursor) if context.cursor else {"reasons": {}}
        files = sha256(repr(sorted(state(rule_folder()).items())).encode()).hexdigest()
        if seen.get("files") == files and time.time() - seen["at"] < OLD:
            return SkipReason("no file of the folder has changed")
        book = rule_book()
        reasons = {origin: why_not(origin, book) for origin in keys}
        events = [evaluation(of_folder(topic, book, keys))]
        events += list(_answers(reasons, seen["reasons"], keys))
        cursor = {"files": files, "at": time.time(), "reasons": reasons}
        return SensorResult(asset_events=events, cursor=json.dumps(cursor))

    return look


def of_folder(topic: AssetKey, book: RuleBook, keys: Mapping[str, AssetKey]) -> AssetCheckResult:
    """Answer whether the folder is read and every rule runs."""
    reasons = [f"{origin}: {reason}" for origin, reason in book.refused.items()]
    said = [book.problem] if book.problem else reasons[:SHOWN]
    if len(reasons) > SHOWN:
        said.append(f"and {len(reasons) - SHOWN:,} more")
    hidden = sum(origin not in keys for origin in book.rules)
    if hidden:
        said.append(
            f"{hidden:,} rules have no asset: they are new, and reloading shows them, or too many"
        )
    return AssetCheckResult(
        asset_key=topic,
        check_name=READABLE,
        passed=not (book.problem or book.refused),
        severity=AssetCheckSeverity.ERROR,
        description="\n".join(said) or f"{len(book.rules):,} rules run",
        metadata={
            "run": len(book.rules),
            "refused": len(book.refused),
            "folder": str(rule_folder()),
        },
    )


def _answers(
    now: Mapping[str, str], before: Mapping[str, str], keys: Mapping[str, AssetKey]
) -> Iterator[AssetCheckEvaluation]:
    for origin, reason in now.items():
        if before.get(origin) != reason:
            yield evaluation(rule_checks.runs(keys[origin], reason))
