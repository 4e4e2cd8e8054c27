"""Is it well? One asset, first in the catalog, green or red with one sentence, and from it the way to what a person needs.

A look is six files, so it is made every ten seconds; it reports only what is new, because Dagster keeps every event.
The same words are in ``strandline status`` (jobs/strandline/engine/service/condition.py), but for a torn commit that no stream has tried to
read: once a minute a log of each table is looked at here, which ``status`` leaves to ``strandline ledger``.

A table of silver or gold that fails is red in the catalog as well. Dagster (1.13.27) shows there of a partitioned asset only how
many partitions failed, and no check: so the run that reports the failure names the table's newest day as the one that it
failed to make, and a table that goes on has that day made again (orchestration/strandline_dagster/watch/watchdog.py).
"""

import json
import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from dagster import (
    AssetCheckEvaluation,
    AssetCheckResult,
    AssetChecksDefinition,
    AssetCheckSeverity,
    AssetKey,
    AssetMaterialization,
    AssetSpec,
    DefaultSensorStatus,
    MetadataValue,
    SensorEvaluationContext,
    SensorResult,
    SkipReason,
    asset_check,
    sensor,
)
from strandline import catalog

from strandline.engine.runtime import clock
from strandline.engine.runtime.store_away import AWAY as STORE
from strandline.engine.service.condition import Condition, Trouble, condition, damaged
from strandline_dagster.alarms import Alarm, page
from strandline_dagster.checks import let_the_second_pass
from strandline_dagster.links import linked
from strandline_dagster.resources import LakeResource, refuse_away

EVERY = 10
AGAIN = 300
"""Seconds after which the same is said again."""

AWAY = "store_away"
"""What is wrong where the look itself cannot read the lake."""

LOOK_AT_LOGS = 60
"""Seconds between two looks at the newest commit of each table, which a paused stream would not read."""

KEY = AssetKey(["_is_it_well"])
"""Sorted before all tables: the page's order has the underscore before all letters."""

CHECK = "is_it_well"
ABOUT = "Whether a person is needed, in one sentence, as `strandline status` says it."


def spec() -> AssetSpec:
    """Make the asset; nothing materialises it but the first look."""
    return AssetSpec(
        KEY,
        group_name="well",
        kinds={"strandline"},
        description=f"{ABOUT} Red: a person is needed; yellow: it passes by itself, or has time. Its check leads to the "
        "report, the runbook and what to type.",
    )


def check() -> AssetChecksDefinition:
    """Make its check, to be answered on demand; the sensor answers it over time."""

    @asset_check(asset=KEY, name=CHECK, description=ABOUT)
    def is_it_well(lake: LakeResource) -> AssetCheckResult:
        found = _found(lake, clock.now())
        said = answer(found, lake)
        return AssetCheckResult(
            passed=said.passed,
            severity=said.severity,
            description=said.description,
            metadata=said.metadata,
        )

    return is_it_well


@sensor(minimum_interval_seconds=EVERY, default_status=DefaultSensorStatus.RUNNING)
def look_whether_it_is_well(
    context: SensorEvaluationContext, lake: LakeResource
) -> SensorResult | SkipReason:
    """Answer the check when there is something new to say."""
    seen: dict[str, Any] = json.loads(context.cursor) if context.cursor else {}
    moment = time.time()
    torn = seen.get("torn", [])
    if looked := moment - seen.get("looked", 0.0) >= LOOK_AT_LOGS:
        torn = _torn(lake)
    found = _found(lake, clock.now(), torn)
    said = [[each.what, each.says] for each in found.troubles] or [["", found.sentence]]
    cursor = {
        "said": said,
        "torn": torn,
        "looked": moment if looked else seen.get("looked", 0.0),
        "at": moment,
    }
    if _kinds(said) == _kinds(seen.get("said")) and moment - seen.get("at", 0.0) < AGAIN:
        context.update_cursor(json.dumps({**cursor, "at": seen["at"]}))
        return SkipReason(found.sentence)
    if not seen:  # an asset that was never materialised is grey, whatever its checks say
        context.instance.report_runless_asset_event(
            AssetMaterialization(KEY, description="It is looked at from now on.")
        )
        let_the_second_pass(time.time())
    return SensorResult(asset_events=[answer(found, lake)], cursor=json.dumps(cursor))


def answer(found: Condition, lake: LakeResource) -> AssetCheckEvaluation:
    """Return the answer for a condition, with the ways on from it."""
    severity = AssetCheckSeverity.ERROR if found.is_grave else AssetCheckSeverity.WARN
    return AssetCheckEvaluation(
        asset_key=KEY,
        check_name=CHECK,
        passed=found.is_well,
        severity=severity,
        description=found.sentence,
        metadata=_ways(found, lake),
    )


def _ways(found: Condition, lake: LakeResource) -> Mapping[str, MetadataValue]:
    """Return where to read on: all that is wrong, what to type, the pages of the runbook, the report."""
    lines = [f"* {each.says}" + (f" *{each.hint}*" if each.hint else "") for each in found.troubles]
    pages = {each.page: page(Alarm(each.page)) for each in found.troubles if each.page}
    return {
        **({"all of it": MetadataValue.md("\n".join(lines))} if lines else {}),
        "what to type": MetadataValue.text(f"strandline status --lake {lake.lake().root}"),
        **{f"runbook {name}": MetadataValue.md(text) for name, text in pages.items()},
        **({} if any(each.what == AWAY for each in found.troubles) else linked(lake)),
    }


def _found(
    lake: LakeResource, at: datetime, torn: Sequence[Mapping[str, Any]] | None = None
) -> Condition:
    """Return the condition, with the tables whose newest commit is torn, which no stream may have tried to read.

    Where the store does not answer, that is the condition: an error here would leave the page with what it said before.
    """
    stream = lake.stream("a look")
    try:
        refuse_away()
        seen = condition(stream.lake, at, starting=stream.is_starting())
    except STORE as error:
        return Condition(troubles=(Trouble(what=AWAY, says=error.message, hint=error.hint or ""),))
    return seen.beside(
        Trouble(**{**each, "tables": tuple(each["tables"])})
        for each in (_torn(lake) if torn is None else torn)
    )


def _torn(lake: LakeResource) -> list[dict[str, Any]]:
    """Return the torn tables as the sensor's cursor keeps them."""
    where = lake.lake()
    return [
        {"what": each.what, "says": each.says, "tables": list(each.tables), "page": each.page}
        | {"hint": each.hint}
        for each in damaged(catalog.tables(), where)
    ]


def without_figures(says: str) -> str:
    """Return of a sentence what must differ to be new: its figures, such as seconds, change at every look."""
    return "".join(each for each in says if not each.isdigit())


def _kinds(said: Sequence[Sequence[str]] | None) -> list[str] | None:
    if said is None:
        return None
    return sorted(f"{what} {without_figures(says)}" for what, says in said)
