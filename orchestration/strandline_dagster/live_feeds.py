"""The feeds that raise alerts as assets, and their watchdog: what orchestration/strandline_dagster/watchdog.py does for tables.

A feed is what the rules about one table are while they run, or the threshold rules about one set of tables: it reads the
tables' topics, and writes the topic of alerts.
Nothing materialises it. Once a minute it is observed, if it has news: Dagster never removes an event.

Its lag is judged once an epoch, at the first look after it: in real time an epoch takes minutes, and while it runs the
events that were answered already count as not read.
"""

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Any

from dagster import (
    AssetCheckEvaluation,
    AssetCheckResult,
    AssetChecksDefinition,
    AssetCheckSeverity,
    AssetKey,
    AssetObservation,
    AssetSpec,
    JobDefinition,
    OpExecutionContext,
    RunRequest,
    SensorDefinition,
    SensorEvaluationContext,
    SensorResult,
    SkipReason,
)

from strandline.alerting.alert_rule import (
    AlertSource,
    ThresholdRule,
    feed_name,
    model_source,
    sources,
    sources_of,
)
from strandline.core.table import Judged
from strandline.core.topic import Topic
from strandline.engine.runtime import clock
from strandline.engine.runtime.log_files import last_error
from strandline.engine.service.background_stream import Always
from strandline.engine.service.stream_health import (
    LOOKS,
    Ill,
    Look,
    Order,
    Watch,
    is_well,
    looks,
    warned,
    watch,
)
from strandline_dagster.placed import asset_check, asset_key, group, job, op, sensor
from strandline_dagster.resources import (
    BACK,
    Alarm,
    LakeResource,
    is_back_only_now,
    model_key,
    models,
    ordered_by,
    topic_key,
    unless_away,
)
from strandline_dagster.rule_assets import Rule
from strandline_dagster.vitals import KEEPS_UP, without_figures
from strandline_dagster.watchdog import Incident, Reason, given_up, requests, started

# Does a feed keep up? Answered from the heartbeat of the process that raises alerts, and from what was asked of it.


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


# Operations on the process that raises alerts as jobs, as those on the stream of tables (orchestration/strandline_dagster/watchdog.py).


RESTARTS = "launch the job `restart_alerts` or type `strandline alerts --background`"


@op(description="Stop the process that raises alerts, and keep it stopped.")
def pause_alerts_process(context: OpExecutionContext, config: Reason, lake: LakeResource) -> None:
    """Pause."""
    with ordered_by(context, "alerts", lake.lake(), pause=True, why=config.why):
        stopped = _process(context, lake).pause(config.why)
    context.log.info("the process is stopped" if stopped else "no process of this lake was running")


@op(description="Stop the process that raises alerts, if it runs, and start it.")
def restart_alerts_process(context: OpExecutionContext, config: Reason, lake: LakeResource) -> None:
    """Restart."""
    with ordered_by(context, "alerts", lake.lake(), background=True, why=config.why):
        started(context, lambda process: process.restart(config.why), _process(context, lake))


@op(
    description="Start the process that raises alerts again, when it died; fail, so that a person is alerted, when no "
    "attempt is left."
)
def revive_alerts_process(
    context: OpExecutionContext, config: Incident, lake: LakeResource
) -> None:
    """Revive."""
    process = _process(context, lake)
    context.log.warning(config.says)
    context.log.warning("last error of its log: %s", last_error(process.log.local))
    if config.gives_up:
        raise given_up(process, config, RESTARTS, Alarm(f"alerts_{config.ill}"))
    started(context, lambda each: each.again(ends=config.ill != Ill.DEAD), process)


def _process(context: OpExecutionContext, lake: LakeResource) -> Always:
    return lake.alerts(f"run {context.run_id[:8]}")


@job(name="pause_alerts", description="Stop the process that raises alerts and keep it stopped.")
def pause_alerts() -> None:
    """Pause."""
    pause_alerts_process()


@job(name="restart_alerts", description="Stop the process that raises alerts and start it again.")
def restart_alerts() -> None:
    """Restart."""
    restart_alerts_process()


@job(
    name="revive_alerts",
    description="For the watchdog: start the process that raises alerts again. Each run is an incident.",
)
def revive_alerts() -> None:
    """Revive."""
    revive_alerts_process()


JOBS: list[JobDefinition] = [restart_alerts, pause_alerts, revive_alerts]


EVERY = 30
OBSERVED_EVERY = 60
ANSWERED_EVERY = 300
"""Seconds after which a check is answered again although the answer is the same."""

LIVE = "live"
JOB = revive_alerts
STEP = revive_alerts_process.name

Beat = Mapping[str, Any]
Seen = dict[str, list[Look]]


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveFeed:
    """A feed as Dagster shows it.

    Args:
        id: Its name in the heartbeat.
        key: Its name as Dagster writes it.
        of: The tables whose topics it reads.
        rules: The assets of the rules about them.
    """

    id: str
    key: AssetKey
    of: tuple[Judged, ...]
    rules: tuple[AssetKey, ...]


def live_feeds(rules: Mapping[AssetKey, Rule]) -> list[LiveFeed]:
    """Return a feed for each table that rules may look at, each set of tables that threshold rules count, and each model.

    A pattern rule about any of the tables may come while the process runs; a new set of them is shown after a reload.
    """
    named: dict[str, tuple[AlertSource, ...]] = {each.table.name: (each,) for each in sources()}
    own: dict[str, list[AssetKey]] = defaultdict(list)
    for key, rule in rules.items():
        if isinstance(rule, ThresholdRule):
            name = feed_name(counted := sources_of(rule))
            named[name] = counted
        else:
            name = rule.source.table.name
        own[name].append(key)
    for model in models():
        if (source := model_source(model)) is not None:
            named[model.name] = (source,)
            own[model.name].append(model_key(model.name))
    return [
        LiveFeed(
            id=f"{LIVE}.{name}",
            key=asset_key(LIVE, name),
            of=tuple(source.table for source in sources),
            rules=tuple(own[name]),
        )
        for name, sources in named.items()
    ]


def feed_specs(feeds: Sequence[LiveFeed]) -> list[AssetSpec]:
    """Make the assets of the feeds, each below its tables' topics and the rules about them."""
    return [
        AssetSpec(
            feed.key,
            deps=[*map(topic_key, _topics(feed)), *feed.rules],
            group_name=group(LIVE),
            kinds={"spark", "kafka"},
            owners=["team:security"],
            description=f"The rules about {', '.join(table.id for table in feed.of)}, "
            "as `strandline alerts` runs them on each event that comes.",
        )
        for feed in feeds
    ]


def feed_checks(feeds: Sequence[LiveFeed]) -> list[AssetChecksDefinition]:
    """Make the checks of the feeds."""
    return [keeps_up_check(feed.key, feed.id) for feed in feeds]


def watch_alerts(feeds: Sequence[LiveFeed]) -> SensorDefinition:
    """Make the sensor that watches the process."""

    @sensor(
        name="watch_alerts",
        job=JOB,
        minimum_interval_seconds=EVERY,
    )
    @unless_away
    def watches(context: SensorEvaluationContext, lake: LakeResource) -> SensorResult | SkipReason:
        """Check and observe the feeds, and request a run when their process must be restarted."""
        return _watched(feeds, context, lake.alerts("watchdog"), clock.now())

    return watches


def _watched(
    feeds: Sequence[LiveFeed], context: SensorEvaluationContext, process: Always, moment: datetime
) -> SensorResult | SkipReason:
    asked, beat = process.order(), process.heartbeat()
    if asked is None and beat is None:
        return SkipReason(f"nothing raises alerts; `{process.program.starter}` does")
    if not process.lake.has_room():
        return SkipReason("the disk of the lake is full; the process goes on when there is room")
    if asked and asked.runs and is_well(asked, beat, moment):
        process.note(asked.well())
    is_starting, title = process.is_starting(), process.program.title
    found = watch(asked, beat, moment, starting=is_starting, title=title)
    if is_back_only_now(found):
        return SkipReason(BACK)
    before: dict[str, Any] = json.loads(context.cursor) if context.cursor else {}
    seen = _seen(before, beat)
    answers = [answer(feed.key, feed.id, asked, beat, found, seen) for feed in feeds]
    observed = list(_observed(feeds, process, asked, beat, moment))
    events, cursor = _news(before, answers, observed, moment)
    cursor |= {"pid": beat["pid"] if beat else None, "looks": _as_json(seen)}
    return SensorResult(
        run_requests=[
            *(requests(context, JOB, STEP, asked, found, moment) if asked else ()),
            *_alarmed(asked, beat),
        ],
        asset_events=events,
        cursor=json.dumps(cursor),
    )


def _alarmed(asked: Order | None, beat: Beat | None) -> Iterator[RunRequest]:
    """Yield the request of a run that fails, so that a person is alerted of a killed process that nothing restarts."""
    if beat and (says := killed(asked, beat)):
        incident = {"ill": str(Ill.DEAD), "says": says, "gives_up": True, "tables": []}
        yield RunRequest(
            run_key=f"{beat['pid']} {beat['at']}",  # its last heartbeat: Dagster runs it once
            run_config={"ops": {STEP: {"config": incident}}},
            tags={"incident": str(Ill.DEAD)},
        )


def _topics(feed: LiveFeed) -> list[Topic]:
    return [topic for table in feed.of for bronze in table.upstream for topic in bronze.topics]


def _observed(
    feeds: Sequence[LiveFeed],
    process: Always,
    asked: Order | None,
    beat: Beat | None,
    moment: datetime,
) -> Iterator[AssetObservation]:
    if not beat or not beat["alive"]:
        return
    changes = (process.lake.rule_changes.text() or "").splitlines()
    last = {"last change of rules": changes[-1][:1000]} if changes else {}
    for feed in feeds:
        pulse = beat["tables"].get(feed.id)
        if pulse is None:
            continue
        age = moment - datetime.fromisoformat(pulse["at"]) if pulse["at"] else None
        yield AssetObservation(
            feed.key,
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
        "/".join(each.asset_key.path): [each.passed, without_figures(each.description or "")]
        for each in answers
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
