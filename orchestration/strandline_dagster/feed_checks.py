"""Does a feed keep up? Answered from the heartbeat of the process that raises alerts, and from what was asked of it."""

from collections.abc import Mapping, Sequence
from typing import Any

from dagster import (
    AssetCheckEvaluation,
    AssetCheckResult,
    AssetChecksDefinition,
    AssetCheckSeverity,
    AssetKey,
    asset_check,
)

from strandline.engine.runtime import clock
from strandline.engine.service.desired_state import Order
from strandline.engine.service.stream_health import Look, Watch, warned, watch
from strandline_dagster.resources import LakeResource
from strandline_dagster.vitals import KEEPS_UP

ABOUT = "The process that raises alerts, if one should run, is alive and does not fall behind."

KEPT_UP = "it keeps up"


def keeps_up_check(key: AssetKey, feed: str) -> AssetChecksDefinition:
    """Make the check of a feed, to be answered on demand; the watchdog answers it over time."""

    @asset_check(asset=key, name=KEEPS_UP, description=ABOUT)
    def keeps_up(lake: LakeResource) -> AssetCheckResult:
        program = lake.alerts("a look")
        asked, beat = program.order(), program.heartbeat()
        found = watch(
            asked, beat, clock.now(), starting=program.is_starting(), title=program.program.title
        )
        answered = answer(key, feed, asked, beat, found, {})
        return AssetCheckResult(
            passed=answered.passed, severity=answered.severity, description=answered.description
        )

    return keeps_up


def answer(  # noqa: PLR0913, PLR0917  # what was asked, what is, and what was
    key: AssetKey,
    feed: str,
    asked: Order | None,
    beat: Mapping[str, Any] | None,
    found: Watch,
    seen: Mapping[str, Sequence[Look]],
) -> AssetCheckEvaluation:
    """Answer for one feed."""
    says, severity = _problem(feed, asked, beat, found, seen)
    pulse = beat["tables"].get(feed) if beat else None
    return AssetCheckEvaluation(
        asset_key=key,
        check_name=KEEPS_UP,
        passed=not says,
        severity=severity,
        description=says or _calm(asked, beat, pulse),
        metadata={"lag": pulse["lag"] or 0} if pulse else {},
    )


def killed(asked: Order | None, beat: Mapping[str, Any] | None) -> str:
    """Return that a process is gone which was not to end, and which nothing restarts; nothing if that is not so."""
    if beat is None or beat["alive"] or beat["ended"] or (asked and asked.runs):
        return ""
    return (
        f"process {beat['pid']} is gone and did not end in order; "
        "nothing restarts it, because it was started in a terminal"
    )


def _problem(
    feed: str,
    asked: Order | None,
    beat: Mapping[str, Any] | None,
    found: Watch,
    seen: Mapping[str, Sequence[Look]],
) -> tuple[str, AssetCheckSeverity]:
    if found.ill is not None and feed in (found.tables or [feed]):
        return found.message, AssetCheckSeverity.ERROR
    if says := killed(asked, beat):
        return says, AssetCheckSeverity.ERROR
    pulse = beat["tables"].get(feed) if beat and beat["alive"] else None
    if pulse and pulse["away"]:
        return f"it waits: {pulse['away']}", AssetCheckSeverity.WARN
    warnings = "; ".join(each.message for each in warned(feed, seen.get(feed, [])))
    return warnings, AssetCheckSeverity.WARN


def _calm(
    asked: Order | None, beat: Mapping[str, Any] | None, pulse: Mapping[str, Any] | None
) -> str:
    if not beat or not beat["alive"]:
        is_starting = asked is not None and asked.runs
        return "it starts" if is_starting else "no process is asked to raise alerts"
    return KEPT_UP if pulse else "no rule looks at its table"
