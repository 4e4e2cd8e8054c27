"""The health of an always-on stream: what it is to do, the heartbeat that it writes, and what a watchdog makes of both.

The watchdog restarts a stream only on clear evidence: its process is gone or silent, or a table has rows to read and
commits none. A table that fails while the others run raises an alarm. What may have good reasons (more arrives than is
read; no event has come that would move the watermark) is a warning, and is judged over several looks.
"""

import json
import re
import traceback
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from hashlib import sha256
from itertools import pairwise
from typing import Any

from strandline.core.errors import DataError, DefinitionError, LakeError, ReplacedError
from strandline.core.table import Table
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.locks import HasWriterError, is_held
from strandline.engine.lake.place import Place, damage
from strandline.engine.runtime.outage import denied, first_line, skipped_in_outage
from strandline.engine.runtime.processes import is_there, own

# The desired state of a lake's always-on stream: run, suspended by a process at work, or not run.
#
# The process that raises alerts has a desired state of its own, in a file of its own.
#
# It is recorded because a stopped stream and a dead one look the same. A watchdog restarts only a stream that was asked
# to run.


DELAYS = tuple(timedelta(seconds=seconds) for seconds in (0, 30, 60, 120, 240))
"""The delay before each attempt to restart, counted from the attempt before it; after the last one an alarm is sent."""

LONGEST_SUSPENSION = timedelta(hours=3)
"""How long a process on another host, which cannot be seen from here, may suspend the stream."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """The last request.

    Args:
        runs: Whether the stream is to run.
        at: The time of the request, as text.
        by: Who asked.
        why: The reason, if one was given.
        words: The options with which the stream is started.
        attempts: The times of its restarts since it was last well.
        gave_up: When the alarm was sent after the last attempt.
        rest: The process that has suspended the stream until it is done, and when.
        alerted: Tables for whose failures an alarm was sent.
    """

    runs: bool
    at: str
    by: str
    why: str = ""
    words: tuple[str, ...] = ()
    attempts: tuple[str, ...] = ()
    gave_up: str | None = None
    rest: Mapping[str, Any] | None = None
    alerted: tuple[str, ...] = ()

    def next_at(self) -> datetime | None:
        """Return when the stream may be restarted; None when all attempts are used up."""
        tried = len(self.attempts)
        if self.gave_up or tried >= len(DELAYS):
            return None
        if not tried:
            return datetime.fromisoformat(self.at)
        return datetime.fromisoformat(self.attempts[-1]) + DELAYS[tried]

    def is_suspended(self, now: datetime) -> bool:
        """Return whether the process that suspended the stream still runs; a killed one would never start it again."""
        if self.rest is None:
            return False
        seen = is_there(self.rest)
        if seen is not None:
            return seen
        return abs(now - datetime.fromisoformat(self.rest["at"])) < LONGEST_SUSPENSION

    def suspended(self, now: datetime) -> "Order":
        """Return the request with the stream suspended by this process."""
        return replace(self, rest={**own(), "at": now.isoformat(timespec="seconds")})

    def tried(self, now: datetime) -> "Order":
        """Return the request with one more attempt, and without a suspension."""
        attempts = (*self.attempts, now.isoformat(timespec="seconds"))
        return replace(self, attempts=attempts, rest=None)

    def given_up(self, now: datetime) -> "Order":
        """Return the request with the time at which the alarm was sent."""
        return replace(self, gave_up=now.isoformat(timespec="seconds"))

    def well(self) -> "Order":
        """Return the request without attempts, because the stream is well again."""
        return replace(self, attempts=(), gave_up=None)


def order(lake: Lake, file: Place | None = None) -> Order | None:
    """Return the last request, or None when there was none.

    Args:
        lake: The lake.
        file: The request, if it is not that of the stream of tables.
    """
    text = (file or lake.order).text()
    if text is None:
        return None
    fields = json.loads(text)
    fields.setdefault("alerted", fields.pop("told_of", ()))  # its key in an older lake
    lists = {name: tuple(fields.get(name, ())) for name in ("words", "attempts", "alerted")}
    return Order(**{**fields, **lists})


def write_desired(lake: Lake, asked: Order, file: Place | None = None) -> None:
    """Record a request."""
    (file or lake.order).put(json.dumps(asdict(asked), indent=1))


# A table that fails ends no other table: it is retried after a pause, without a limit on the attempts.
#
# It releases its lease during the pause, so an operator may run, rebuild or rewind it while the others run.


FIRST = 5.0
LONGEST = 600.0
"""The shortest and the longest pause in seconds; an attempt that fails again computes a whole batch for nothing."""

LONGEST_PAUSE = 30.0
"""The longest pause of a table whose lease another process has taken; an attempt is a look at the lease."""

SURE = 5
"""This many failed attempts in a row are no accident any more."""


@dataclass(slots=True, kw_only=True)
class Failing:
    """The failure of a table.

    Args:
        says: The error in a sentence.
        hint: What to do about it.
        kind: The kind of error, from which follows who must act.
        since: When it failed first.
        tries: How often it has failed in a row.
        next_at: When it is tried again, unless its lease or a promotion changes before.
    """

    says: str
    hint: str
    kind: str
    since: str
    tries: int = 1
    next_at: str = ""

    @property
    def pause(self) -> float:
        """Return the seconds until the next attempt."""
        return pause_after(self.tries, self.kind)


def pause_after(tries: int, kind: str) -> float:
    """Return the seconds to the next attempt after so many that failed."""
    longest = LONGEST_PAUSE if kind == ReplacedError.kind else LONGEST
    return float(min(FIRST * 2 ** (min(tries, 10) - 1), longest))


def failing(
    error: Exception, table: Table, lake: Lake, *, before: Failing | None, at: str
) -> Failing:
    """Return the failure of a table; keep the traceback of an unforeseen error in the lake's logs.

    Args:
        error: The error of this attempt.
        table: The table.
        lake: The lake.
        before: The failure of the attempt before, if that failed too.
        at: The time.
    """
    tries, since = (before.tries + 1, before.since) if before else (1, at)
    known = error if isinstance(error, LakeError) else damage(error, table) or denied(error)
    if known is not None:
        is_still = before is not None and before.kind == ReplacedError.kind
        kind = ReplacedError.kind if is_still and isinstance(known, HasWriterError) else known.kind
        return Failing(
            says=known.message,
            hint=known.hint,
            kind=kind,
            since=since,
            tries=tries,
            next_at=_next(at, tries, kind),
        )
    log = lake.log(f"failed.{table.id}")
    with skipped_in_outage():
        log.put("".join(traceback.format_exception(error)))
    return Failing(
        says=f"{type(error).__name__}: {first_line(error)}",
        hint=f"the traceback is in {log}.",
        kind=LakeError.kind,
        since=since,
        tries=tries,
        next_at=_next(at, tries, LakeError.kind),
    )


def _next(at: str, tries: int, kind: str) -> str:
    """Return when a table that failed at a time is tried again; empty where no stream does."""
    seconds = timedelta(seconds=pause_after(tries, kind))
    return (datetime.fromisoformat(at) + seconds).isoformat(timespec="seconds") if at else ""


SILENT = timedelta(seconds=60)
"""A stream without a heartbeat for so long is silent; it writes one once a second, on a store every ten."""

STUCK = timedelta(minutes=10)
"""How long a table may have rows to read and commit none; a batch of the largest size takes well under a minute."""

WELL = timedelta(minutes=5)
"""How long a restarted stream must live to be well."""

LOOKS = 10
"""The number of remembered looks; a trend is one that all of them show."""

HANDED_OVER, TURN = "handed over for a ", "for its turn to start"
"""How the sentences begin of a table that waits for no service: another process works on it, or others start before it."""

MUCH = 1_000
"""Lag and state below this raise no warning, however they grow."""


class Ill(StrEnum):
    """What is wrong with a stream."""

    DEAD = "dead"
    SILENT = "silent"
    STUCK = "stuck"
    FENCED = "fenced"
    """Another process has taken a table over, and keeps it."""
    FAILING = "failing"
    """Some tables fail and are retried; the others run."""


class Act(StrEnum):
    """What to do about it."""

    NOTHING = "nothing"
    WAIT = "wait"
    RESTART = "restart"
    ALERT = "alert"
    """Send one alarm; the stream runs on and is not restarted."""
    GIVE_UP = "give up"


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """The state of one table at a moment."""

    at: str
    batches: int
    read: int
    lag: int | None
    watermark: str | None
    state: int
    behind_rows: int | None = None
    falls: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Warned:
    """A warning about one table."""

    table: str
    what: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch:
    """What is wrong with the stream or with some tables, in words, and what to do about it."""

    act: Act
    ill: Ill | None = None
    message: str = ""
    tables: tuple[str, ...] = ()
    fenced: tuple[str, ...] = ()
    """Those of the tables that another process keeps; others may fail beside them."""


def watch(
    asked: Order | None,
    beat: Mapping[str, Any] | None,
    now: datetime,
    *,
    starting: bool = False,
    title: str = "the stream",
) -> Watch:
    """Return what to do about a stream; a stream that is starting is not dead because it has no heartbeat yet."""
    if asked is None or not asked.runs or asked.is_suspended(now):
        return Watch(act=Act.NOTHING)
    diagnosis = ill(beat, now, begun=max([asked.at, *asked.attempts[-1:]]), title=title)
    # A restart would only ask for the lease again, as the table does by itself.
    if diagnosis is None or diagnosis[0] is Ill.FENCED:
        return _of_tables(asked, beat, now)
    found, message = diagnosis
    if found is Ill.DEAD and starting:
        return Watch(act=Act.WAIT)
    is_hopeless = (
        found is Ill.DEAD and beat is not None and beat.get("failed") == DefinitionError.kind
    )
    return Watch(act=_act(asked, now, is_hopeless=is_hopeless), ill=found, message=message)


def is_silent(beat: Mapping[str, Any] | None, now: datetime) -> bool:
    """Return whether a heartbeat is so old that what it says is no longer so."""
    return beat is None or now - datetime.fromisoformat(beat["at"]) > SILENT


def is_well(asked: Order, beat: Mapping[str, Any] | None, now: datetime) -> bool:
    """Return whether a stream has lived long enough since its last start for earlier failures to be forgotten.

    A commit is not enough: a stream that dies in its third batch commits two after every start.
    """
    if not beat or not beat["alive"] or not asked.attempts:
        return False
    return abs(now - datetime.fromisoformat(asked.attempts[-1])) > WELL


def looks(beat: Mapping[str, Any]) -> dict[str, Look]:
    """Return the state of each table from a heartbeat."""
    names = [name for name in Look.__slots__ if name != "at"]
    none = dict.fromkeys(("watermark", "behind_rows", "falls"))
    # A stream of an earlier release writes no state.
    # A feed has epochs, and neither a watermark nor a state.
    pulses = {
        table: {**none, "state": 0, "batches": pulse.get("epoch") or 0, **pulse}
        for table, pulse in beat["tables"].items()
    }
    return {
        table: Look(at=beat["at"], **{name: pulse[name] for name in names})
        for table, pulse in pulses.items()
    }


def warned(table: str, seen: Sequence[Look]) -> Iterator[Warned]:
    """Yield the warnings that several looks at a table, oldest first, show together."""
    if len(seen) < LOOKS:
        return
    first, last = seen[0], seen[-1]
    over = f"from {first.at} to {last.at}"
    lags = [look.lag or 0 for look in seen]
    if _grows(lags):
        message = (
            f"{table} falls behind: {lags[0]:,} rows were to be read, and {lags[-1]:,} are, {over}"
        )
        yield Warned(table=table, what="lag", message=message)
    states = [look.state for look in seen]
    if _grows(states) and states[-1] >= 2 * states[0]:
        message = f"the state of {table} grows: {states[0]:,} rows, then {states[-1]:,}, {over}"
        yield Warned(table=table, what="state", message=message)
    if last.watermark is not None and last.watermark == first.watermark and last.read > first.read:
        rows = last.read - first.read
        message = f"{table} read {rows:,} rows {over}, and its watermark stays at {last.watermark}"
        yield Warned(table=table, what="watermark", message=message)


def _grows(values: Sequence[int]) -> bool:
    never_less = all(a <= b for a, b in pairwise(values))
    return never_less and values[-1] > max(values[0], MUCH)


def ill(
    beat: Mapping[str, Any] | None, now: datetime, *, begun: str, title: str
) -> tuple[Ill, str] | None:
    """Return what is wrong with a program by its heartbeat; ``begun`` is when it was started, no table is late before."""
    if beat is None or not beat["alive"]:
        last = f"; its last heartbeat was at {beat['at']}" if beat else " and never was"
        return Ill.DEAD, f"{title} is not running{last}"
    age = now - datetime.fromisoformat(beat["at"])
    if age > SILENT:
        return (
            Ill.SILENT,
            f"{title} (process {beat['pid']}) has written no heartbeat for {age.total_seconds():.0f} s",
        )
    # A feed commits once an epoch, which the user chose; two of them are enough to see that none ends.
    patience = max(STUCK, 2 * timedelta(seconds=beat.get("every", 0.0)))
    for table, pulse in beat["tables"].items():
        last = pulse.get("behind", pulse["at"])  # a stream of an earlier release has no "behind"
        since = now - datetime.fromisoformat(max(begun, last or begun))
        waits = pulse.get("gate") or pulse.get("away") or pulse.get("failing")
        if pulse["lag"] and not waits and since > patience:
            minutes = since // timedelta(minutes=1)
            message = f"{table} has {pulse['lag']:,} rows to read and committed none for {minutes} minutes"
            return Ill.STUCK, message
        # Whatever it has to read: a batch may have none, and one that hangs while its broker is away hangs all the same.
        if (unmoved := pulse.get("unmoved") or 0) > patience.total_seconds():
            return (
                Ill.STUCK,
                f"{pulse['running']} of {table} has not come back for {unmoved // 60} minutes",
            )
    return next(((Ill.FENCED, says) for says in _fenced(beat, now).values()), None)


def _fenced(beat: Mapping[str, Any], now: datetime) -> dict[str, str]:
    """Return the tables that another process has written for so long that it will not give them back by itself."""
    failures = {name: pulse.get("failing") or {} for name, pulse in beat["tables"].items()}
    return {
        name: f"{name} is another process's since {failed['since']}: {failed['says']}"
        for name, failed in failures.items()
        if failed.get("kind") == ReplacedError.kind
        and now - datetime.fromisoformat(failed["since"]) > STUCK
    }


def failing_tables(beat: Mapping[str, Any] | None) -> dict[str, Mapping[str, Any]]:
    """Return by table the failures that will not pass by themselves."""
    if not beat or not beat["alive"]:
        return {}
    failures = {
        name: pulse.get("failing") or _broken(pulse.get("broken"))
        for name, pulse in beat["tables"].items()
    }
    return {
        name: each
        for name, each in failures.items()
        if each
        and (each["tries"] >= SURE or each["kind"] in {DataError.kind, DefinitionError.kind})
    }


def going_on(beat: Mapping[str, Any] | None) -> set[str]:
    """Return the tables that have shown since their process began that they do not fail: by a commit, or with all rows read."""
    if not beat or not beat["alive"]:
        return set()
    shown = {
        name for name, pulse in beat["tables"].items() if pulse["batches"] or pulse["lag"] == 0
    }
    return shown - failing_tables(beat).keys()


def _broken(says: str | None) -> Mapping[str, Any] | None:
    """Return what a stream does not fail of, and its readers do: files that are gone."""
    return {"says": says, "tries": 1, "kind": DataError.kind} if says else None


def _of_tables(asked: Order, beat: Mapping[str, Any] | None, now: datetime) -> Watch:
    """Return what to do about tables that fail while their stream runs; the name of what is wrong leads to the page."""
    kept = _fenced(beat, now) if beat else {}
    # A lease that was taken just now may be given back: it has its own patience, and its own page.
    says = kept | {
        name: f"{name} fails: {each['says']}"
        for name, each in failing_tables(beat).items()
        if each["kind"] != ReplacedError.kind
    }
    if not says:
        return Watch(act=Act.NOTHING)
    news = says.keys() - set(asked.alerted)
    return Watch(
        act=Act.ALERT if news else Act.NOTHING,
        ill=Ill.FENCED if (news or says.keys()) <= kept.keys() else Ill.FAILING,
        message="; ".join(says[name] for name in sorted(says)),
        tables=tuple(sorted(says)),
        fenced=tuple(sorted(kept)),
    )


def _act(asked: Order, now: datetime, *, is_hopeless: bool) -> Act:
    """Return what to do; a restart does not repair the code or a setting."""
    due = asked.next_at()
    if due is None or is_hopeless:
        return Act.NOTHING if asked.gave_up else Act.GIVE_UP
    is_clock_back = (
        due - now > DELAYS[-1]
    )  # it was set back since the last attempt, which would wait for that long
    return Act.RESTART if now >= due or is_clock_back else Act.WAIT


# The heartbeat that an always-on stream writes, and whether the stream is still alive.
#
# A heartbeat is a file, and a file outlives its writer: it is copied with the lake, and it is still there when a
# container starts again under another name. So a heartbeat is believed while its process is seen on this host. Where
# that cannot be seen, it is believed only while it is young and the lock of a table is held, because no copy of a lake
# holds a lock (jobs/strandline/engine/lake/locks.py).
#
# Of a lake on an object store it is on this machine as well, and there first: who looks after the process of a container must not
# take it for dead because the store is away (jobs/strandline/engine/service/background_stream.py).


def write_beat(lake: Lake, file: Place, beat: Mapping[str, Any]) -> None:
    """Write a heartbeat."""
    text = json.dumps(beat, indent=1)
    for place in dict.fromkeys((near(lake, file), file)):
        place.put(text)


def near(lake: Lake, file: Place) -> Place:
    """Return the place on this machine of a heartbeat that is written here."""
    return lake.near / file.name


def near_beat(lake: Lake, file: Place) -> dict[str, Any] | None:
    """Return the last heartbeat that a program of this machine has written, and whether that program lives here; the store is not asked."""
    shared = _of_shards(lake.near) if file == lake.heartbeat else []
    texts = [text for each in (near(lake, file), *shared) if (text := each.text()) is not None]
    found: list[dict[str, Any]] = [json.loads(text) for text in texts]
    return together([{**beat, "alive": bool(beat["alive"] and is_there(beat))} for beat in found])


def heartbeat(lake: Lake, now: datetime, file: Place | None = None) -> dict[str, Any] | None:
    """Return the last heartbeat; a stream that is gone is not alive, whatever its last heartbeat has.

    Args:
        lake: The lake.
        now: The present time.
        file: The heartbeat, if it is not that of the stream of tables, which may be several that share them out.
    """
    if file is None or file == lake.heartbeat:
        return together(list(beats(lake, now)))
    return _beat(lake, now, file)


def beats(lake: Lake, now: datetime) -> Iterator[dict[str, Any]]:
    """Yield the heartbeat of each stream of a lake's tables."""
    for file in (lake.heartbeat, *_of_shards(lake.root)):
        if (beat := _beat(lake, now, file)) is not None:
            yield beat


def _beat(lake: Lake, now: datetime, file: Place) -> dict[str, Any] | None:
    text = file.text()
    if text is None:
        return None
    beat: dict[str, Any] = json.loads(text)
    beat["ended"] = not beat["alive"]  # in order; one that was killed wrote that it lives
    beat["alive"] = bool(beat["alive"]) and _lives(lake, beat, now)
    return beat


def _lives(lake: Lake, beat: Mapping[str, Any], now: datetime) -> bool:
    seen = is_there(beat)
    if seen is not None:
        return seen
    if abs(now - datetime.fromisoformat(beat["at"])) > SILENT:
        return False
    return any(is_held(lake.lease_of(name)) for name in beat["tables"])


# Hosts that share the tables of a lake out, because one is full: each streams those of its share, and has a heartbeat of its own.
#
# Which share a table is in follows from its name and the number of shares alone. So the hosts need not ask each other, a table that
# comes or goes moves no other, and one share more moves only what falls into it. That two hosts stream one table all the same, as
# while the number is changed, its lease refuses.


SHARED = re.compile(r"_stream\.(\d+)-of-(\d+)\.json")
"""The name of a heartbeat of one share."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shard:
    """A share of the tables: one of as many.

    >>> Shard.parsed("2/5")
    Shard(number=2, of=5)
    >>> [name for name in ("bronze.a", "bronze.b", "bronze.c", "silver.a") if Shard.parsed("1/2").holds(name)]
    ['bronze.b', 'silver.a']
    """

    number: int
    of: int

    @classmethod
    def parsed(cls, text: str) -> "Shard":
        """Return the share of a text such as 2/5.

        Raises:
            DefinitionError: It is none.
        """
        found = re.fullmatch(r"([1-9]\d{0,2})/([1-9]\d{0,2})", text)
        if found is None or int(found[1]) > int(found[2]):
            raise DefinitionError(
                f"{text!r} is no share of the tables", hint="write 2/5 for the second of five."
            )
        return cls(number=int(found[1]), of=int(found[2]))

    def holds(self, name: str) -> bool:
        """Return whether the table of a name is in it."""
        return max(range(1, self.of + 1), key=lambda each: _weight(each, name)) == self.number

    def beat(self, lake: Lake) -> Place:
        """Return the file of its heartbeat."""
        return lake.root / f"_stream.{self.number}-of-{self.of}.json"

    def __str__(self) -> str:
        """Return it as it is typed."""
        return f"{self.number}/{self.of}"


def _weight(number: int, name: str) -> bytes:
    return sha256(f"{number} {name}".encode()).digest()


def _of_shards(folder: Place) -> list[Place]:
    return [folder / name for name in sorted(folder.names()) if SHARED.fullmatch(name)]


def together(found: Sequence[dict[str, Any]]) -> dict[str, Any] | None:
    """Return the heartbeats of streams that share the tables out as that of one.

    It has the tables of those that live, and the process of which least was heard since. Its ``shards`` are all shares, those too whose
    process is gone or never was; heartbeats of another number of shares count no more.
    """
    if not any(each.get("shard") for each in found):
        return found[0] if found else None
    newest = max(found, key=lambda each: (each["alive"], each["at"]))
    living = [each for each in found if each["alive"]]
    if not any(each.get("shard") for each in (newest, *living)):
        return newest  # one stream has all tables again
    least = min(living, key=lambda each: str(each["at"]), default=newest)
    tables = {
        name: {**pulse, "shard": each.get("shard")}
        for each in living or [newest]
        for name, pulse in each["tables"].items()
    }
    shards = [_shown(each) for each in found if each["alive"] or _has_number(each, newest)]
    return {**least, "tables": tables, "shards": [*shards, *_never(newest, found)]}


def living_shares(beat: Mapping[str, Any] | None) -> list[str]:
    """Return the shares of a stream that run, as they are named; none of a stream that has all tables."""
    shares = (beat.get("shards") if beat and beat["alive"] else None) or ()
    return [str(each["shard"] or "all tables") for each in shares if each["alive"]]


def _has_number(beat: Mapping[str, Any], newest: Mapping[str, Any]) -> bool:
    return bool(beat.get("shard") and newest.get("shard")) and _of(beat) == _of(newest)


def _of(beat: Mapping[str, Any]) -> int:
    return Shard.parsed(beat["shard"]).of


def _shown(beat: Mapping[str, Any]) -> dict[str, Any]:
    names = ("shard", "pid", "host", "at", "alive", "ended")
    return {**{name: beat.get(name) for name in names}, "tables": sorted(beat["tables"])}


def _never(newest: Mapping[str, Any], found: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the shares of which no process was ever heard."""
    if not newest.get("shard"):
        return []
    of, seen = _of(newest), {each.get("shard") for each in found}
    absent = (f"{number}/{of}" for number in range(1, of + 1))
    return [
        {"shard": name, "alive": False, "at": None, "ended": False, "tables": []}
        for name in absent
        if name not in seen
    ]
