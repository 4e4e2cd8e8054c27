"""Looks at the always-on stream twice a minute, and has it started again when it died.

It starts nothing itself: it asks for a run of ``revive``, so that every incident stands in the list of runs. The delays
between attempts and their number are in the order (jobs/run/order.py), in the lake, so that a Dagster that was started
anew goes on counting. Two writers there cannot be, whoever starts how many streams: a lease is the JVM's, and is gone
when the JVM is (jobs/run/lease.py).
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any

from dagster import (
    AssetCheckEvaluation,
    AssetCheckSeverity,
    DefaultSensorStatus,
    RunRequest,
    RunsFilter,
    SensorEvaluationContext,
    SensorResult,
    SkipReason,
    sensor,
)

from jobs import catalog
from jobs.cli.place import now
from jobs.core.table import Table
from jobs.run.absence import has_room
from jobs.run.beat import heartbeat
from jobs.run.order import Order, order
from jobs.run.watch import LOOKS, Act, Look, Watch, is_well, looks, warned, watch
from orchestration import on_call
from orchestration.keys import key
from orchestration.resources import LakeResource
from orchestration.schedules import UNFINISHED
from orchestration.vitals import KEEPS_UP

EVERY = 30

Looks = dict[str, list[Look]]


@sensor(
    job=on_call.revive,
    minimum_interval_seconds=EVERY,
    default_status=DefaultSensorStatus.RUNNING,
)
def watchdog(context: SensorEvaluationContext, lake: LakeResource) -> SensorResult | SkipReason:
    """Look, warn, and ask for a run when the stream is to be started again."""
    stream, moment = lake.stream("watchdog"), now()
    asked, beat = order(stream.lake), heartbeat(stream.lake, moment)
    if asked is None or not asked.runs:
        return SkipReason("no stream is to run; `strandline resume` asks for one")
    if asked.rest and asked.is_resting(moment):
        return SkipReason(f"the stream rests for process {asked.rest['pid']}, which calls it back")
    if not has_room(stream.lake.root):  # it cannot say that it lives, nor could another be started
        return SkipReason("the disk of the lake has no room left; the stream goes on when it has")
    if is_well(asked, beat, moment):
        stream.note(asked.well())
    found = watch(asked, beat, moment, starting=stream.is_starting())
    seen = _seen(context.cursor, beat)
    return SensorResult(
        run_requests=list(_requests(context, asked, found, moment)),
        asset_events=list(_answers(found, seen)),
        cursor=_cursor(seen, beat["pid"] if beat else None),
    )


def _requests(
    context: SensorEvaluationContext, asked: Order, found: Watch, moment: datetime
) -> Iterator[RunRequest]:
    if found.act not in {Act.RESTART, Act.GIVE_UP}:
        return
    running = RunsFilter(job_name=on_call.revive.name, statuses=UNFINISHED)
    if context.instance.get_run_records(running, limit=1):
        return
    incident = {
        "ill": str(found.ill),
        "says": found.says,
        "gives_up": found.act is Act.GIVE_UP,
    }
    yield RunRequest(
        # The minute, because an attempt that ended before it could be counted must be made again.
        run_key=f"{asked.at} {len(asked.attempts)} {moment:%H:%M}",
        run_config={"ops": {on_call.revive_stream.name: {"config": incident}}},
        tags={"incident": str(found.ill)},
    )


def _answers(found: Watch, seen: Looks) -> Iterator[AssetCheckEvaluation]:
    """Say of each table whether it keeps up."""
    for table in catalog.tables():
        mine = seen.get(table.id, [])
        if found.ill is not None:
            yield _answer(table, found.says, mine, AssetCheckSeverity.ERROR)
        elif mine:
            said = "; ".join(each.says for each in warned(table.id, mine))
            yield _answer(table, said, mine, AssetCheckSeverity.WARN)


def _answer(
    table: Table, said: str, seen: Sequence[Look], severity: AssetCheckSeverity
) -> AssetCheckEvaluation:
    figures = {"lag": seen[-1].lag or 0, "state": seen[-1].state} if seen else {}
    return AssetCheckEvaluation(
        asset_key=key(table),
        check_name=KEEPS_UP,
        passed=not said,
        severity=severity,
        description=said or "it keeps up",
        metadata=figures,
    )


def _seen(cursor: str | None, beat: Mapping[str, Any] | None) -> Looks:
    """Return the last looks at each table, this one among them; none that an earlier process was seen by."""
    before = json.loads(cursor) if cursor else {}
    if not beat or not beat["alive"]:
        return {}
    same = before.get("pid") == beat["pid"]
    found: Looks = {}
    for table, look in looks(beat).items():
        earlier = [Look(**each) for each in before["looks"].get(table, ())] if same else []
        found[table] = [*earlier, look][-LOOKS:]
    return found


def _cursor(seen: Looks, pid: int | None) -> str:
    told = {table: [asdict(look) for look in each] for table, each in seen.items()}
    return json.dumps({"pid": pid, "looks": told})
