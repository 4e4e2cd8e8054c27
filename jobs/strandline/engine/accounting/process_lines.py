"""What processes used: all of it, by what used it, one small file a process and day in ``_costs``, and one a day once it is over.

A process writes what it knows of itself (jobs/strandline/engine/service/process_cost.py); ``strandline cost`` adds that to what
the commits of tables say (jobs/strandline/engine/accounting/cost.py).
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import date, timedelta
from typing import Any, TypeAlias

from strandline.engine.lake.lake import Lake
from strandline.engine.lake.place import Place
from strandline.engine.runtime.limit import refuse_ended

DAY = timedelta(days=1)

LINES = {
    "batches": "batches of tables, until their commits",
    "beside": "tables beside their batches",
    "jit": "compilers of the JVM (JIT)",
    "gc": "garbage collection",
    "jvm": "the JVM itself: its start, safepoints",
    "spark": "Spark's and its clients' shared threads",
    "queries": "queries of streams, beside their batches",
    "feeds": "tasks of feeds: rules of alerts",
    "calls": "calls of Python into the JVM, of no table",
    "python": "Python, of no table",
    "programs": "other programs that it started",
    "maintenance": "maintenance of tables",
}
"""What used the CPU of a process; all that none of them has is not explained."""


KINDS = {"GET": "reads", "HEAD": "reads", "LIST": "lists", "DELETE": "deletes"}
"""What requests are, by what they ask; all others write."""


def by_kind(sent: Mapping[str, int]) -> dict[str, int]:
    """Return the numbers of requests by their kind.

    >>> by_kind({"GET": 3, "HEAD": 4, "POST": 2, "PUT": 5})
    {'reads': 7, 'writes': 7}
    """
    found: Counter[str] = Counter()
    for asked, times in sent.items():
        found[KINDS.get(asked, "writes")] += times
    return dict(found)


BOOKS = "bronze|silver|gold|quarantine|resolutions"
OWNER = re.compile(rf"(?:(?P<folder>{BOOKS})/|[^/]+/(?P<of>{BOOKS})\.)(?P<name>[^/.]+)")


def owner_of(folders: str) -> str:
    """Return to which table what lies in two folders of a lake belongs, a quarantine or resolutions; empty for what is of none.

    >>> [owner_of(each) for each in ("silver/a", "_checkpoints/gold.b", "_leases/gold.b.replay.lock", "_costs/2026-11-20")]
    ['silver.a', 'gold.b', 'gold.b', '']
    """
    found = OWNER.match(folders)
    return "" if found is None else f"{found['folder'] or found['of']}.{found['name']}"


Sent: TypeAlias = Mapping[str, Mapping[str, int]]
"""Requests, by the table, quarantine or resolutions whose folders the object is in, and by what is asked; of none by an empty name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """What an operator of a table's stream keeps from batch to batch, as Spark says it.

    Args:
        operator: Spark's name for it.
        rows: Its rows, as Spark says; in RocksDB they are not counted at each change, which would double its price.
        memory: Bytes of memory.
        disk: Bytes of its files where it is in RocksDB.
    """

    operator: str
    rows: int
    memory: int
    disk: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """What a process used on a day.

    Args:
        program: The verb.
        host: Its machine.
        pid: Its number there.
        day: The day, in UTC.
        at: When this was written.
        cores: Those that it may use.
        seconds: How long it ran.
        cpu: Seconds of CPU that the kernel counts for it and all that it started.
        lines: Of these, what is known to be used by whom.
        tables: Of the line ``beside`` the part of each table.
        task_threads: What the kernel counts for the threads of tasks, beside what Spark says of the tasks.
        tasks: That.
        maintained: Of the line ``maintenance`` the part of each table, quarantine and list of decisions.
        apart: Of all lines what was used for each table beside itself: its rebuilds, its proofs.
        requests: What was sent to an object store.
        state: Of each table what its stream kept when that was asked last; of tables that it ran.
    """

    program: str
    host: str
    pid: int
    day: str
    at: str
    cores: int
    seconds: float
    cpu: float
    lines: Mapping[str, float]
    tables: Mapping[str, float]
    task_threads: float = 0.0
    tasks: float = 0.0
    maintained: Mapping[str, float] = field(default_factory=dict)
    apart: Mapping[str, float] = field(default_factory=dict)
    requests: Sent = field(default_factory=dict)
    state: Mapping[str, Sequence[State]] = field(default_factory=dict)

    @property
    def named(self) -> set[str]:
        """Return the tables, quarantines and resolutions of which it says something."""
        return {*self.tables, *self.maintained, *self.apart, *self.requests} - {""}

    def spent(self, name: str) -> dict[str, float]:
        """Return what it says of one of them, as the fields of a table's costs; an empty name is for what is of none."""
        found = {
            "beside_seconds": self.tables,
            "maintain_seconds": self.maintained,
            "apart_seconds": self.apart,
        }
        seconds = {part: share[name] for part, share in found.items() if name in share}
        return {**seconds, **by_kind(self.requests.get(name, {}))}

    @property
    def sent(self) -> dict[str, int]:
        """Return all requests that it has sent, of tables or not, by their kind."""
        return by_kind(sum(map(Counter, self.requests.values()), Counter[str]()))

    @property
    def unexplained(self) -> float:
        """Return the CPU that no line has."""
        return self.cpu - sum(self.lines.values())

    @property
    def idle(self) -> float:
        """Return the seconds for which the cores were there and not used."""
        return max(0.0, self.cores * self.seconds - self.cpu)

    def __add__(self, later: "Process") -> "Process":
        """Return what both used, under the name of the later one."""

        def both(here: Mapping[str, float], there: Mapping[str, float]) -> dict[str, float]:
            return {n: here.get(n, 0.0) + there.get(n, 0.0) for n in {**here, **there}}

        return replace(
            later,
            seconds=self.seconds + later.seconds,
            cpu=self.cpu + later.cpu,
            lines=both(self.lines, later.lines),
            tables=both(self.tables, later.tables),
            maintained=both(self.maintained, later.maintained),
            apart=both(self.apart, later.apart),
            requests=_each(Counter.__add__, self.requests, later.requests),
        )

    def since(self, before: "Process") -> "Process":
        """Return what was used after a moment."""

        def less(now: Mapping[str, float], then: Mapping[str, float]) -> dict[str, float]:
            return {name: value - then.get(name, 0.0) for name, value in now.items()}

        return replace(
            self,
            seconds=self.seconds - before.seconds,
            cpu=self.cpu - before.cpu,
            lines=less(self.lines, before.lines),
            tables=less(self.tables, before.tables),
            maintained=less(self.maintained, before.maintained),
            apart=less(self.apart, before.apart),
            requests=_each(Counter.__sub__, self.requests, before.requests),
            task_threads=self.task_threads - before.task_threads,
            tasks=self.tasks - before.tasks,
        )

    def as_json(self) -> dict[str, object]:
        """Return it for a program."""

        def short(values: Mapping[str, float]) -> dict[str, float]:
            return {name: round(value, 3) for name, value in values.items()}

        plain = {n: round(v, 3) if isinstance(v, float) else v for n, v in asdict(self).items()}
        del plain["state"]  # of a table only the last one counts
        return {
            **plain,
            "lines": short(self.lines),
            "tables": short(self.tables),
            "maintained": short(self.maintained),
            "apart": short(self.apart),
            "unexplained": round(self.unexplained, 3),
            "idle": round(self.idle, 3),
        }


def _each(
    how: Callable[[Counter[str], Counter[str]], Counter[str]], one: Sent, other: Sent
) -> Sent:
    """Return requests that are the sums or the differences of two others, without those that there are none of."""
    names = {**one, **other}
    found = {n: how(Counter(one.get(n, {})), Counter(other.get(n, {}))) for n in names}
    return {name: dict(each) for name, each in found.items() if each}


def note_process(lake: Lake, name: str, found: Process) -> None:
    """Keep what a process used on a day; what it had written of that day is replaced."""
    (lake.costs / found.day / f"{name}.json").put(json.dumps(asdict(found)))


def add_process(lake: Lake, name: str, found: Process) -> None:
    """Add to what programs of one name used on a day, of which one runs at a time."""
    text = (lake.costs / found.day / f"{name}.json").text()
    with suppress(ValueError, TypeError, AttributeError, KeyError):  # torn: it is written anew
        if text is not None:
            found = _process(json.loads(text)) + found
    note_process(lake, name, found)


def fold(lake: Lake, today: date) -> None:
    """Put the files of each day that is long over into one; a process may write of yesterday until its first look of today.

    Killed at any point, the next one goes on: a file of a day is made once, and only what is in it, as it is, is removed. So a
    process whose clock is a year ahead, and takes today for long over, loses nothing of those that still write.
    """
    names = [name for name in lake.costs.names() if "." not in name]
    for day in (name for name in names if name < (today - DAY).isoformat()):
        folder, whole = lake.costs / day, lake.costs / f"{day}.jsonl"
        files = {name: text for name in folder.names() if (text := (folder / name).text())}
        lines = (json.dumps({"name": name, "text": text}) for name, text in files.items())
        whole.create("\n".join(lines))
        kept = dict(_folded(whole))
        for name, text in files.items():
            if kept.get(name) == text:
                (folder / name).remove_file()
        if not folder.names():
            folder.remove()


def processes(lake: Lake, since: date, until: date) -> list[Process]:
    """Return what processes used on some days; those of a later version have more, and one that is torn is left out."""
    found: list[Process] = []
    # The days that there are: a century has 36,500, each of which would be two requests to a store.
    there = sorted({name.removesuffix(".jsonl") for name in lake.costs.names()})
    for day in (each for each in there if since.isoformat() <= each < until.isoformat()):
        refuse_ended()
        folder = lake.costs / day
        texts = dict(_folded(lake.costs / f"{day}.jsonl"))
        texts |= {name: text for name in folder.names() if (text := (folder / name).text())}
        for text in texts.values():
            refuse_ended()
            with suppress(ValueError, TypeError, AttributeError, KeyError):
                found.append(_process(json.loads(text)))
    return found


def _process(text: Mapping[str, Any]) -> Process:
    known, of_state = ({each.name for each in fields(kind)} for kind in (Process, State))
    state = {
        table: [State(**{name: one[name] for name in of_state}) for one in kept]
        for table, kept in text.get("state", {}).items()
    }
    values = {name: value for name, value in text.items() if name in known}
    return Process(**{**values, "state": state})


def _folded(whole: Place) -> Iterator[tuple[str, str]]:
    """Yield the names and the texts of the files of a day that is over."""
    for line in (whole.text() or "").splitlines():
        with suppress(ValueError, TypeError, KeyError):
            each = json.loads(line)
            yield str(each["name"]), str(each["text"])
