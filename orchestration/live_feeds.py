"""The feeds that raise alerts as assets, and their watchdog: what orchestration/watchdog.py does for tables.

A feed is what the rules about one table are while they run: it reads the table's topics, and writes the topic of alerts.
Nothing materialises it. Once a minute it is observed, if it has news: Dagster never removes an event.

Its lag is judged once an epoch, at the first look after it: in real time an epoch takes minutes, and while it runs the
events that were answered already count as not read.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import datetime
from typing import Any

from dagster import (
    AssetCheckEvaluation,
    AssetKey,
    AssetObservation,
    AssetSpec,
    DefaultSensorStatus,
    SensorEvaluationContext,
    SensorResult,
    SkipReason,
    sensor,
)

from jobs.cli.place import now
from jobs.engine.service.background_stream import Always
from jobs.engine.service.desired_state import Order
from jobs.engine.service.stream_health import LOOKS, Look, is_well, looks, watch
from jobs.rules.sources import SOURCES, Source
from orchestration import alerts_on_call
from orchestration.feed_checks import answer, keeps_up_check
from orchestration.keys import topic_key
from orchestration.resources import LakeResource
from orchestration.watchdog import requests

EVERY = 30
OBSERVED_EVERY = 60
ANSWERED_EVERY = 300
"""Seconds after which a check is answered again although the answer is the same."""

LIVE = "live"

Beat = Mapping[str, Any]
Seen = dict[str, list[Look]]


def feed_key(source: Source) -> AssetKey:
    """Return the name of the feed of a table as Dagster writes it."""
    return AssetKey([LIVE, source.table.name])


def feeds(rules: Mapping[Source, Sequence[AssetKey]]) -> list[AssetSpec]:
    """Make the assets of the feeds, each below its table's topics and the rules about it."""
    return [
        AssetSpec(
            feed_key(source),
            deps=[
                *(topic_key(topic) for each in source.table.upstream for topic in each.topics),
                *rules.get(source, ()),
            ],
            group_name=LIVE,
            kinds={"spark", "kafka"},
            owners=["team:security"],
            description=f"The rules about {source.table.id}, as `strandline alerts` runs them on each event that comes.",
        )
        for source in SOURCES
    ]


CHECKS = [keeps_up_check(feed_key(source), f"{LIVE}.{source.table.name}") for source in SOURCES]


@sensor(
    job=alerts_on_call.revive_alerts,
    minimum_interval_seconds=EVERY,
    default_status=DefaultSensorStatus.RUNNING,
)
def watch_alerts(context: SensorEvaluationContext, lake: LakeResource) -> SensorResult | SkipReason:
    """Check and observe the feeds, and request a run when their process must be restarted."""
    program, moment = lake.alerts("watchdog"), now()
    asked, beat = program.order(), program.heartbeat()
    if asked is None and beat is None:
        return SkipReason(f"nothing raises alerts; `{program.program.starter}` does")
    if not program.lake.has_room():
        return SkipReason("the disk of the lake is full; the process goes on when there is room")
    if asked and asked.runs and is_well(asked, beat, moment):
        program.note(asked.well())
    title = program.program.title
    found = watch(asked, beat, moment, starting=program.is_starting(), title=title)
    before: dict[str, Any] = json.loads(context.cursor) if context.cursor else {}
    seen = _seen(before, beat)
    answers = [
        answer(feed_key(source), f"{LIVE}.{source.table.name}", asked, beat, found, seen)
        for source in SOURCES
    ]
    observed = list(_observed(program, asked, beat, moment))
    events, cursor = _news(before, answers, observed, moment)
    cursor |= {"pid": beat["pid"] if beat else None, "looks": _as_json(seen)}
    return SensorResult(
        run_requests=list(
            requests(
                context,
                alerts_on_call.revive_alerts,
                alerts_on_call.revive_alerts_process.name,
                asked,
                found,
                moment,
            )
        )
        if asked
        else [],
        asset_events=events,
        cursor=json.dumps(cursor),
    )


def _observed(
    program: Always, asked: Order | None, beat: Beat | None, moment: datetime
) -> Iterator[AssetObservation]:
    if not beat or not beat["alive"]:
        return
    changes = (program.lake.rule_changes.text() or "").splitlines()
    last = {"last change of rules": changes[-1][:1000]} if changes else {}
    for source in SOURCES:
        pulse = beat["tables"].get(f"{LIVE}.{source.table.name}")
        if pulse is None:
            continue
        age = moment - datetime.fromisoformat(pulse["at"]) if pulse["at"] else None
        yield AssetObservation(
            feed_key(source),
            metadata={
                "epoch": -1 if pulse["epoch"] is None else pulse["epoch"],
                "lag": pulse["lag"] or 0,
                "events since its start": pulse["read"],
                "alerts since its start": pulse["written"],
                **({"seconds since its last epoch": age.total_seconds()} if age else {}),
                "version of its rules": pulse["rules"],
                "mode": beat["mode"],
                "process": beat["pid"],
                "restarts": len(asked.attempts) if asked else 0,
                **({"waits": pulse["away"]} if pulse["away"] else {}),
                **last,
            },
        )


def _news(
    before: Mapping[str, Any],
    answers: Sequence[AssetCheckEvaluation],
    observed: Sequence[AssetObservation],
    moment: datetime,
) -> tuple[list[AssetCheckEvaluation | AssetObservation], dict[str, Any]]:
    """Return what is to be reported, and what to remember of it."""
    at = moment.timestamp()
    said = {
        "/".join(each.asset_key.path): [each.passed, each.description or ""] for each in answers
    }
    shown = {
        "/".join(each.asset_key.path): {
            name: value.value
            for name, value in each.metadata.items()
            if name != "seconds since its last epoch"
        }
        for each in observed
    }
    events: list[AssetCheckEvaluation | AssetObservation] = []
    is_due = at - before.get("answered", 0.0) >= ANSWERED_EVERY
    if is_due or said != before.get("said"):
        events += answers
        before = {**before, "answered": at}
    if shown != before.get("shown") and at - before.get("observed", 0.0) >= OBSERVED_EVERY:
        events += observed
        before = {**before, "observed": at, "shown": shown}
    kept = {name: before[name] for name in ("answered", "observed", "shown") if name in before}
    return events, {**kept, "said": said}


def _seen(before: Mapping[str, Any], beat: Beat | None) -> Seen:
    """Return the first looks after the last epochs of each feed; those at an earlier process do not count."""
    if not beat or not beat["alive"]:
        return {}
    is_same = before.get("pid") == beat["pid"]
    found: Seen = {}
    for feed, look in looks(beat).items():
        earlier = [Look(**each) for each in before["looks"].get(feed, ())] if is_same else []
        if earlier and earlier[-1].batches == look.batches:
            found[feed] = [*earlier[:-1], replace(earlier[-1], at=look.at)]
        else:
            found[feed] = [*earlier, look][-LOOKS:]
    return found


def _as_json(seen: Seen) -> dict[str, list[dict[str, Any]]]:
    return {feed: [asdict(look) for look in each] for feed, each in seen.items()}
