"""Is it well? One sentence about a lake, and below it all that is wrong, the gravest first.

``strandline status`` and Dagster's first asset say the same, because both ask here. What is asked is small: the orders and heartbeats
of the programs, and some files of one sentence each. ``damaged`` reads the newest commit of each table, because a stream that is
paused has not tried to: 22 ms of a processor for 25 tables, 217 ms for 205; on a store, where each is a request, it is left out.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from strandline.core.table import Ingested, Table
from strandline.engine.accounting import gate_files
from strandline.engine.accounting.routes import routes_of, sentences
from strandline.engine.flow import readers
from strandline.engine.flow.readers import Level
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger import between, latest_version
from strandline.engine.lake.log.ledger_sums import sums_of
from strandline.engine.lake.place import damage
from strandline.engine.lake.store_lease import note_of_holder
from strandline.engine.proof.freshness import freshness
from strandline.engine.repair.migrate import stale
from strandline.engine.service.background_stream import ALERTS, STREAM
from strandline.engine.service.stream_health import (
    Ill,
    Order,
    failing_tables,
    heartbeat,
    ill,
    is_well,
    order,
)

GATE, WAITS, DISK, ALARMS, RADAR = "gate", "waits", "disk", "alarms", "radar"
RESTARTED, DAMAGED, UNROUTED, OUTDATED = "restarted", "damaged", "unrouted", "outdated"
OVERDUE = "overdue"
WELL = "all is well"
MANY = 3
"""So many names are in a sentence; all of them are in the list."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """Something that is wrong.

    Args:
        what: Its kind: what is wrong with a program (``Ill``), or one of the names of this module.
        says: It as a sentence.
        tables: The tables that it concerns.
        grave: Whether a person is needed now; the rest passes by itself, or has time.
        page: The page of the runbook, if it has one.
        hint: What to do about it.
    """

    what: str
    says: str
    tables: tuple[str, ...] = ()
    grave: bool = True
    page: str = ""
    hint: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """What is wrong with a lake, the gravest first, and what is said where nothing is."""

    troubles: tuple[Trouble, ...]
    calm: str = WELL

    @property
    def is_well(self) -> bool:
        """Return whether nothing is wrong."""
        return not self.troubles

    @property
    def is_grave(self) -> bool:
        """Return whether a person is needed now."""
        return any(each.grave for each in self.troubles)

    def beside(self, damaged: Iterable[Trouble]) -> "Condition":
        """Return it with damaged tables that it does not name yet, which no stream may have tried to read."""
        known = {name for each in self.troubles for name in each.tables}
        more = [each for each in damaged if not known.intersection(each.tables)]
        return Condition(troubles=(*more, *self.troubles), calm=self.calm)

    def below(self, more: Iterable[Trouble]) -> "Condition":
        """Return it with what has time, after all else."""
        return Condition(troubles=(*self.troubles, *more), calm=self.calm)

    @property
    def sentence(self) -> str:
        """Return it in one sentence."""
        if not self.troubles:
            return self.calm
        more = len(self.troubles) - 1
        return self.troubles[0].says + (f" (and {more} more)" if more else "")


def condition(lake: Lake, now: datetime, *, starting: bool = False) -> Condition:
    """Return the condition of a lake.

    Args:
        lake: The lake.
        now: The present time.
        starting: Whether the stream's process is there, is new, and has written no heartbeat yet.
    """
    asked, beat = order(lake), heartbeat(lake, now)
    found = [
        *_of_stream(asked, beat, now, starting=starting),
        *_of_shards(beat),
        *_of_alerts(lake, now),
        *_of_tables(beat),
        *_of_gates(lake),
        *_of_waiting(beat),
        *_of_radar(lake),
        *_of_machine(lake),
    ]
    # Sorted by weight alone: what is found first explains what is found later.
    return Condition(
        troubles=tuple(sorted(found, key=lambda each: not each.grave)), calm=_calm(asked, now)
    )


def damaged(tables: Sequence[Table], lake: Lake) -> Iterator[Trouble]:
    """Yield the tables whose newest commit cannot be read, whether a stream runs or not; on a store none is looked at."""
    for table in tables if lake.root.is_local else ():
        path = lake.table(table)
        try:
            version = latest_version(path) if lake.exists(table) else -1
            if version >= 0:
                list(between(path, version, version))
        except Exception as error:
            if (found := damage(error, table)) is None:
                raise
            yield Trouble(
                what=DAMAGED,
                says=found.message,
                tables=(table.id,),
                page=Ill.FAILING,
                hint=found.hint,
            )


def unrouted(tables: Sequence[Table], lake: Lake) -> Iterator[Trouble]:
    """Yield the bronze tables with records that no table has, of which no declaration says that this is meant."""
    for table in tables:
        if not isinstance(table, Ingested) or not table.has_kinds or not lake.exists(table):
            continue
        try:
            found = routes_of(table, lake, sums_of(lake.table(table)).by_kind)
        except Exception as error:
            if damage(error, table) is None:
                raise
            continue
        if said := [*sentences(table, found)][:1] if found.homeless else []:
            yield Trouble(
                what=UNROUTED,
                says=said[0],
                tables=(table.id,),
                grave=False,
                hint=f"add a table with takes=…, or leaves=… to {table.id}; `strandline ledger {table.id}` counts them by kind.",
            )


def outdated(tables: Sequence[Table], lake: Lake) -> Iterator[Trouble]:
    """Yield that tables were computed from rows of a source that were replaced since."""
    found = dict(stale(tables, lake))
    if found:
        sources = dict.fromkeys(name for names in found.values() for name in names)
        yield Trouble(
            what=OUTDATED,
            says=f"{_listed([*found])} {'were' if len(found) > 1 else 'was'} computed from rows of {_listed([*sources])} that "
            "were replaced since",
            tables=tuple(found),
            grave=False,
            hint="`strandline migrate` shows what follows, and with `--go` does it.",
        )


def overdue(tables: Sequence[Table], lake: Lake, now: datetime) -> Iterator[Trouble]:
    """Yield the tables whose newest row is older than they promise, each with the hop that is late."""
    for table in tables:
        if table.promise is None or not lake.exists(table):
            continue
        try:
            found = freshness(table, lake, now)
        except Exception as error:
            if damage(error, table) is None:
                raise
            continue
        if found is not None and not found.is_kept:
            yield Trouble(what=OVERDUE, says=found.says, tables=(table.id,), page=OVERDUE)


def _of_stream(
    asked: Order | None, beat: Mapping[str, Any] | None, now: datetime, *, starting: bool
) -> Iterator[Trouble]:
    if asked is None or not asked.runs or asked.is_suspended(now):
        return
    begun = max([asked.at, *asked.attempts[-1:]])
    found = ill(beat, now, begun=begun, title=STREAM.title)
    if found and not (found[0] is Ill.DEAD and starting):
        what, says = found
        tried = f"; restarted {_times(asked)}" if asked.attempts else ""
        more = f"{tried}, given up at {asked.gave_up}" if asked.gave_up else tried
        yield Trouble(what=what, says=says + more, page=what)
    elif asked.attempts and not is_well(asked, beat, now):
        yield Trouble(
            what=RESTARTED,
            says=f"the stream had died and was restarted {_times(asked)}, the last time at {asked.attempts[-1]}; "
            "it counts as well after five minutes",
            grave=False,
            page=Ill.DEAD,
        )


def _times(asked: Order) -> str:
    return f"{len(asked.attempts)} time{'s' if len(asked.attempts) > 1 else ''}"


def _of_shards(beat: Mapping[str, Any] | None) -> Iterator[Trouble]:
    """Yield the shares of the tables that no host streams, though one did or others do; unless it ended in order, a page each."""
    for each in (beat or {}).get("shards", ()):
        died = bool(each["at"]) and not each["ended"]
        if each["alive"] or not (died or (beat and beat["alive"])):
            continue
        was = f"its last heartbeat was at {each['at']}" if each["at"] else "no process has had it"
        yield Trouble(
            what=Ill.DEAD,
            says=f"share {each['shard']} of the stream is not running; {was}",
            tables=tuple(each["tables"]),
            grave=died,
            page=Ill.DEAD,
            hint=f"`strandline stream --shard {each['shard']}` on a host of its own.",
        )


def _of_alerts(lake: Lake, now: datetime) -> Iterator[Trouble]:
    asked = order(lake, ALERTS.order(lake))
    if asked is None or not asked.runs or asked.is_suspended(now):
        return
    begun = max([asked.at, *asked.attempts[-1:]])
    beat = heartbeat(lake, now, ALERTS.heartbeat(lake))
    if found := ill(beat, now, begun=begun, title=ALERTS.title):
        what, says = found
        # Its sentences are those of the stream, which is well and is not to be restarted.
        yield Trouble(what=f"alerts {what}", says=f"alerts: {says}", page=f"alerts_{what}")


def _of_tables(beat: Mapping[str, Any] | None) -> Iterator[Trouble]:
    for name, each in sorted(failing_tables(beat).items()):
        yield Trouble(
            what=Ill.FAILING,
            says=f"{name} fails: {each['says']}",
            tables=(name,),
            page=Ill.FAILING,
            hint=each.get("hint", ""),
        )


def _of_gates(lake: Lake) -> Iterator[Trouble]:
    for each in gate_files.every(lake):
        if each.opened is None:
            yield Trouble(
                what=GATE,
                says=f"the gate {each.where} {each.table} is shut since {each.at}: {each.why}",
                tables=(each.table,),
                page="run_data",
                hint=f"`strandline gate {each.table}` shows the rows, and how they pass.",
            )


def _of_waiting(beat: Mapping[str, Any] | None) -> Iterator[Trouble]:
    if not beat or not beat["alive"]:
        return
    waiting: dict[str, list[str]] = {}
    for name, pulse in beat["tables"].items():
        if why := pulse.get("away") or pulse.get("sources"):
            waiting.setdefault(why, []).append(name)
    for why, names in waiting.items():
        yield Trouble(
            what=WAITS, says=f"{_listed(names)} waits: {why}", tables=tuple(names), grave=False
        )


def _of_radar(lake: Lake) -> Iterator[Trouble]:
    seen = readers.last(lake)
    near = readers.worst(seen[1]) if seen else None
    if near is None or near.level.rank < Level.SOON.rank:
        return
    page = "lost" if near.level is Level.LOST else "expiring"
    yield Trouble(
        what=RADAR,
        says=f"{near.level}: {near.reader}, {near.source}: {near.says}",
        grave=near.level.is_alarming,
        page=page,
    )


def _of_machine(lake: Lake) -> Iterator[Trouble]:
    if lake.is_short_of_room():
        yield Trouble(
            what=DISK,
            says=f"the disk is nearly full: {lake.room_left()}",
            grave=not lake.has_room(),
            hint="`strandline doctor` says what to do.",
        )
    if kept := sum(name.endswith(".json") for name in lake.alarms.names()):
        yield Trouble(
            what=ALARMS,
            says=f"{kept:,} alarms were not accepted and are sent again every minute",
            grave=False,
            hint="check that STRANDLINE_WEBHOOK answers.",
        )


def _calm(asked: Order | None, now: datetime) -> str:
    if asked is None:
        return f"{WELL}; no stream was asked to run"
    if not asked.runs:
        why = f": {asked.why}" if asked.why else ""
        return f"{WELL}; the stream is paused, by order of {asked.by} since {asked.at}{why}"
    if asked.is_suspended(now):
        return f"{WELL}; the stream is suspended by a process at work, which resumes it"
    return f"{WELL}; the stream runs"


def _listed(names: Sequence[str]) -> str:
    more = len(names) - MANY
    return " and ".join([", ".join(names[:MANY]), *([f"{more} more"] if more > 0 else [])])


# The receivers of a lake's alerts, each with its figures and the process that delivers to it.
#
# Without the rules' modules, because every project has ``strandline status``.


STORED, LOCK = ".json", ".lock"
"""The names of a receiver's books (jobs/strandline/alerting/courier.py), and of its lease."""

NOTHING = {"delivered": 0, "notices": 0, "lag": None, "at": "", "away": None}
"""The figures of books that cannot be read."""

PARTS = ("topic", "digests", "outbox", "noticed", "holder")
"""What is no figure."""


def receivers(lake: Lake) -> Iterator[dict[str, Any]]:
    """Yield for each receiver its figures, and the process that delivers to it; None where none does."""
    for name in lake.deliveries.names():
        if name.startswith(".") or not name.endswith(STORED):
            continue
        text = (lake.deliveries / name).text()
        holder = note_of_holder(lake.deliveries / f"{name.removesuffix(STORED)}{LOCK}")
        try:
            stored = json.loads(text or "{}")
        except ValueError:  # `strandline deliver` says what to do
            stored = {}
        waiting = [*stored.pop("digests", {}).values(), *stored.pop("outbox", {}).values()]
        figures = {key: value for key, value in stored.items() if key not in PARTS}
        count = sum(each["count"] for each in waiting)
        yield {**NOTHING, "receiver": name, **figures, "waiting": count, "process": process(holder)}


def stored_offsets(lake: Lake) -> Iterator[tuple[str, dict[int, int]]]:
    """Yield each receiver that has read something, and by partition the offset of the topic of alerts that it reads next."""
    for each in receivers(lake):
        offsets = {int(number): at for number, at in each.get("offsets", {}).items()}
        if offsets:
            yield each["receiver"], offsets


def process(holder: str | None) -> dict[str, Any] | None:
    """Return the process that holds a lease; empty while it is just writing that."""
    try:
        return dict(json.loads(holder)) if holder is not None else None
    except ValueError:
        return {}
