"""Checks the always-on stream every ten seconds, and has it restarted when it died.

It starts no stream itself: it requests a run of ``revive``, so that every incident is in the list of runs. The order in
the lake (jobs/strandline/engine/service/desired_state.py) has the number of attempts and their delays, so that a restarted Dagster
continues to count. There are never two writers, however many streams are started: the JVM holds a table's lease, which
ends with the JVM (jobs/strandline/engine/lake/locks.py).
"""

import json
import logging
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import datetime, timedelta
from typing import Any

from dagster import (
    AssetCheckEvaluation,
    AssetCheckSeverity,
    AssetMaterialization,
    DefaultSensorStatus,
    JobDefinition,
    RunRequest,
    SensorEvaluationContext,
    SensorResult,
    SkipReason,
    sensor,
)
from strandline import catalog

from strandline.core.errors import LakeError
from strandline.core.table import Ingested, Table
from strandline.engine.kafka import local_broker
from strandline.engine.lake.lake import Lake
from strandline.engine.runtime import clock
from strandline.engine.runtime.settings import settings
from strandline.engine.runtime.store_away import AWAY
from strandline.engine.service.backlog import in_words
from strandline.engine.service.desired_state import Order, order
from strandline.engine.service.heartbeat import heartbeat
from strandline.engine.service.stream_health import (
    LOOKS,
    Act,
    Ill,
    Look,
    Watch,
    failing_tables,
    going_on,
    is_well,
    looks,
    warned,
    watch,
)
from strandline_dagster.days import begins
from strandline_dagster.keys import key
from strandline_dagster.resources import BACK, LakeResource, is_back_only_now, refuse_away
from strandline_dagster.schedules import unfinished_run
from strandline_dagster.watch import on_call
from strandline_dagster.watch.vitals import KEEPS_UP
from strandline_dagster.watch.well import without_figures

LOG = logging.getLogger("strandline.watchdog")
BROKER = "the lake's broker"
"""The thread that starts it, of which there is one at a time."""

EVERY = 10
"""Seconds between two looks; the pauses between attempts do not depend on it."""

ANSWERED_EVERY = 30
"""Seconds after which a check is answered again although the answer is the same: Dagster keeps every event."""

TREND_EVERY = timedelta(seconds=30)
"""Time between two remembered looks at a table: ten of them show five minutes, in which a batch of a slow ``--every`` ends."""

Looks = dict[str, list[Look]]


@sensor(
    job=on_call.revive,
    minimum_interval_seconds=EVERY,
    default_status=DefaultSensorStatus.RUNNING,
)
def watchdog(context: SensorEvaluationContext, lake: LakeResource) -> SensorResult | SkipReason:
    """Check, warn, and request a run when the stream must be restarted."""
    stream, moment = lake.stream("watchdog"), clock.now()
    _revive_broker(context, stream.lake)
    try:
        refuse_away()
    except AWAY as error:
        return SkipReason(f"{error.message}; a stream that runs waits for it")
    asked, beat = order(stream.lake), heartbeat(stream.lake, moment)
    if asked is None or not asked.runs:
        return SkipReason("no stream should run; `strandline resume` starts one")
    if asked.rest and asked.is_suspended(moment):
        return SkipReason(
            f"the stream is suspended by process {asked.rest['pid']}, which resumes it"
        )
    if not stream.lake.has_room():  # no heartbeat can be written, and no stream could start
        return SkipReason("the disk of the lake is full; the stream continues when there is room")
    # Of a stream that is gone nothing is known of its tables, and those that failed may fail again.
    over = (
        set(asked.alerted) - failing_tables(beat).keys() if beat and beat["alive"] else set[str]()
    )
    if is_well(asked, beat, moment):
        asked = asked.well()
        stream.note(asked)
    if over:
        stream.note(replace(asked, alerted=tuple(sorted(set(asked.alerted) - over))))
    found = watch(asked, beat, moment, starting=stream.is_starting())
    if is_back_only_now(found):
        return SkipReason(BACK)
    before: dict[str, Any] = json.loads(context.cursor or "{}")
    seen = _seen(before, beat)
    failed: dict[str, str] = before.get("failed", {})
    # By what was marked, and not by the order: a new one, as of `restart`, knows of no alarm that was sent.
    goes_on = going_on(beat)
    healed = [
        AssetMaterialization(key(table), partition=failed.pop(table.id), description="It goes on.")
        for table in catalog.tables()
        if table.id in failed and table.id in goes_on
    ]
    if found.act is Act.ALERT and found.ill in {Ill.FAILING, Ill.FENCED}:
        failed = _newest_days(context, found.tables) | failed
    step = on_call.revive_stream.name
    answers = list(_answers(found, seen))
    said = [without_figures(each.description or "") for each in answers if not each.passed]
    at = before.get("answered", 0.0)
    if said == before.get("said") and 0 <= moment.timestamp() - at < ANSWERED_EVERY:
        answers = []
    else:
        at = moment.timestamp()
    news = {"failed": failed, "said": said, "answered": at}
    return SensorResult(
        run_requests=list(
            requests(context, on_call.revive, step, asked, found, moment, days=failed)
        ),
        asset_events=[*healed, *answers],
        cursor=_cursor(seen, beat["pid"] if beat else None, news),
    )


def _newest_days(context: SensorEvaluationContext, tables: Sequence[str]) -> dict[str, str]:
    """Return for each partitioned table that fails the newest day that Dagster knows of it, else the first of all."""
    found = [catalog.find(name) for name in tables]
    return {
        table.id: max(
            context.instance.get_materialized_partitions(key(table)), default=str(begins())
        )
        for table in found
        if not isinstance(table, Ingested)
    }


def _revive_broker(context: SensorEvaluationContext, lake: Lake) -> None:
    """Have the lake's own broker started again if it has died, as of a full disk: without it the stream waits for ever.

    In a thread, because a broker may take a minute to answer, and meanwhile a stream that died is to be seen.
    """
    if settings().kafka is not None or not local_broker.is_wanted(lake) or not lake.has_room():
        return
    if local_broker.status(lake) is not None or any(
        each.name == BROKER for each in threading.enumerate()
    ):
        return
    context.log.warning("the lake's broker has died; it is started again")
    threading.Thread(target=_up, args=(lake,), name=BROKER, daemon=True).start()


def _up(lake: Lake) -> None:
    try:
        local_broker.up(lake)
    except LakeError as error:  # the next look tries again
        LOG.warning("the lake's broker does not start: %s", error.message)


def requests(  # noqa: PLR0913, PLR0917  # who asks, for what, and why
    context: SensorEvaluationContext,
    job: JobDefinition,
    step: str,
    asked: Order,
    found: Watch,
    moment: datetime,
    days: Mapping[str, str] | None = None,
) -> Iterator[RunRequest]:
    """Yield the request of the run that deals with an incident, unless one does already."""
    if found.act not in {Act.RESTART, Act.ALERT, Act.GIVE_UP}:
        return
    if unfinished_run(context.instance, job.name):
        return
    incident = {
        "ill": str(found.ill),
        "says": found.message,
        "gives_up": found.act is Act.GIVE_UP,
        "tables": list(found.tables),
        **({"days": {name: days[name] for name in found.tables if name in days}} if days else {}),
    }
    yield RunRequest(
        # The minute: an attempt that ended before it was counted must be repeated.
        run_key=f"{asked.at} {len(asked.attempts)} {moment:%H:%M}",
        run_config={"ops": {step: {"config": incident}}},
        tags={"incident": str(found.ill)},
    )


def _answers(found: Watch, seen: Looks) -> Iterator[AssetCheckEvaluation]:
    """Yield for each table whether it keeps up."""
    for table in catalog.tables():
        mine = seen.get(table.id, [])
        if found.ill is not None and table.id in (found.tables or [table.id]):
            yield _answer(table, found.message, mine, AssetCheckSeverity.ERROR)
        elif mine:
            warnings = "; ".join(each.message for each in warned(table.id, mine))
            yield _answer(table, warnings, mine, AssetCheckSeverity.WARN)


def _answer(
    table: Table, problem: str, seen: Sequence[Look], severity: AssetCheckSeverity
) -> AssetCheckEvaluation:
    last = seen[-1] if seen else None
    said = in_words(last.behind_rows, last.falls) if last else ""
    figures: dict[str, int | str] = (
        {"lag": last.lag or 0, "state": last.state, "caught up": said or "yes"} if last else {}
    )
    return AssetCheckEvaluation(
        asset_key=key(table),
        check_name=KEEPS_UP,
        passed=not problem,
        severity=severity,
        description="; ".join(each for each in (problem, said) if each) or "it keeps up",
        metadata=figures,
    )


def _seen(before: Mapping[str, Any], beat: Mapping[str, Any] | None) -> Looks:
    """Return the last looks at each table, with this one if it is due; looks at an earlier process do not count."""
    if not beat or not beat["alive"]:
        return {}
    same = before.get("pid") == beat["pid"]
    found: Looks = {}
    for table, look in looks(beat).items():
        earlier = [Look(**each) for each in before["looks"].get(table, ())] if same else []
        found[table] = [*earlier, look][-LOOKS:] if _is_due(earlier, look) else earlier
    return found


def _is_due(earlier: Sequence[Look], look: Look) -> bool:
    if not earlier:
        return True
    # Neither order of the two is assumed: a clock may be set back.
    return (
        abs(datetime.fromisoformat(look.at) - datetime.fromisoformat(earlier[-1].at)) >= TREND_EVERY
    )


def _cursor(seen: Looks, pid: int | None, news: Mapping[str, Any]) -> str:
    kept = {table: [asdict(look) for look in each] for table, each in seen.items()}
    return json.dumps({"pid": pid, "looks": kept, **news})
