"""What a lake costs: the CPU, the bytes and the rows of each table's commits, by day, from the ledger; and a price for them.

A commit says what its batch has used itself (``own_ms`` of its entry), so the tables of a day add up to what batches took, also
where several ran side by side in one process. One of a version before that says only what its process used meanwhile, the tables
beside it included: such seconds are kept apart, as a bound, and are never shared out among tables. What is in no commit, such as
requests to a store, its process says (process_lines.py).

Only the commits of the days that are asked for are read: the first is found by halves, and the walk ends behind the last. Nothing of a
commit is kept but its part of a sum.
"""

import json
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import UTC, date, datetime, time, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from strandline.core.errors import DamagedError
from strandline.core.table import Table
from strandline.engine.accounting.process_lines import Process, State, processes
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.commit_log import PACKED, Kind, actions, committed_at, time_of
from strandline.engine.lake.log.ledger import MARK, is_table, latest_version
from strandline.engine.lake.log.ledger_sums import EPOCH, name_of
from strandline.engine.lake.place import Place

if TYPE_CHECKING:
    from strandline.engine.runtime.settings import Settings

DAY = timedelta(days=1)

BEHIND = PACKED
"""Commits after the last of the days, one after the other, with which the walk ends: a clock may have been wrong for a while."""

GIGABYTE, MILLION = 1e9, 1e6

UNEVEN = 2.0
"""Times the median from which on the longest task is named: of two tasks it is never more, as the median is between them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """What is paid.

    Args:
        core_hour: For a core for an hour.
        gigabyte: For a gigabyte that is written.
        million_reads: For a million requests that read an object, or ask what it is.
        million_writes: For a million that write one, or list some.
        currency: In which it is said.
    """

    core_hour: float = 0.0
    gigabyte: float = 0.0
    million_reads: float = 0.0
    million_writes: float = 0.0
    currency: str = ""

    @classmethod
    def said_in(cls, found: "Settings") -> "Prices":
        """Return what settings say of them."""
        return cls(
            core_hour=found.price_core_hour,
            gigabyte=found.price_gigabyte,
            million_reads=found.price_million_reads,
            million_writes=found.price_million_writes,
            currency=found.currency,
        )

    @property
    def rates(self) -> dict[str, float]:
        """Return what is paid, by its name."""
        return {each.name: getattr(self, each.name) for each in fields(self) if each.type is float}

    def of(self, spent: "Cost") -> float | None:
        """Return the price of what was taken; None without one."""
        if not any(self.rates.values()):
            return None
        return (
            spent.seconds / 3600 * self.core_hour
            + spent.bytes / GIGABYTE * self.gigabyte
            + spent.reads / MILLION * self.million_reads
            + (spent.writes + spent.lists) / MILLION * self.million_writes
        )


@dataclass(slots=True, kw_only=True)
class Cost:
    """What a table took on a day.

    Args:
        table: Its name.
        day: The day, in UTC, of the commits.
        commits: Those of its own, of its quarantine and of the decisions about that.
        maintained: Of these, those without an entry, such as files that were put together.
        read: Rows that were read.
        written: Rows that were written, held ones included.
        files: Files that were written.
        bytes: Their size; that of files which were put together included.
        core_seconds: CPU of its batches alone.
        beside_seconds: CPU of its runs beside their batches, as their processes say it.
        repair_seconds: Of these, that of backfills, replays and other repairs.
        most_seconds: Of the commits that do not say that: what their process used meanwhile, neighbours included.
        not_said: How many of them there are.
        gate_seconds: Of the CPU of its batches that of threads which decided whether they are believed.
        ledger_seconds: That of threads which counted where their rows are.
        maintain_seconds: CPU of maintenance: files put together, logs cut, closed books; beside batches and runs.
        apart_seconds: CPU for it beside itself: rebuilds, which are in no commit of it, and proofs.
        reads: Requests to a store that read an object of it, or ask what it is (GET, HEAD).
        writes: Those that write one, or a part of one (PUT, POST, COPY).
        lists: Those that list some.
        deletes: Those that remove some, which clouds do not bill.
        waited_seconds: For how long batches waited for the longest task of a stage after its median one.
        longest_task: Of the batch that waited most, the seconds of that task.
        median_task: Those of the median one.
    """

    table: str
    day: str
    commits: int = 0
    maintained: int = 0
    read: int = 0
    written: int = 0
    files: int = 0
    bytes: int = 0
    core_seconds: float = 0.0
    beside_seconds: float = 0.0
    repair_seconds: float = 0.0
    most_seconds: float = 0.0
    not_said: int = 0
    gate_seconds: float = 0.0
    ledger_seconds: float = 0.0
    maintain_seconds: float = 0.0
    apart_seconds: float = 0.0
    reads: int = 0
    writes: int = 0
    lists: int = 0
    deletes: int = 0
    waited_seconds: float = 0.0
    longest_task: float = 0.0
    median_task: float = 0.0

    @property
    def seconds(self) -> float:
        """Return the CPU that is the table's own."""
        return self.core_seconds + self.beside_seconds + self.maintain_seconds + self.apart_seconds

    @property
    def requests(self) -> int:
        """Return how many requests were sent for it."""
        return self.reads + self.writes + self.lists + self.deletes

    @property
    def is_uneven(self) -> bool:
        """Return whether a batch waited for a task that took more than some times as long as the median one."""
        return self.longest_task > UNEVEN * self.median_task

    def waited(self, longest: float, median: float) -> None:
        """Add a batch that waited for its longest task."""
        self.waited_seconds += longest - median
        if longest - median > self.longest_task - self.median_task:
            self.longest_task, self.median_task = longest, median

    def add(self, spent: Mapping[str, float]) -> None:
        """Add what a process says."""
        for name, value in spent.items():
            setattr(self, name, getattr(self, name) + value)

    def figures(self) -> dict[str, object]:
        """Return it for a program, without the day."""
        figures = {name: getattr(self, name) for name in (*SUMMED, *OF_ONE)}
        rounded = {n: round(v, 3) if isinstance(v, float) else v for n, v in figures.items()}
        return {"table": self.table, **rounded}

    def __add__(self, other: "Cost") -> "Cost":
        """Return both, under the name and the day of the first."""
        sums = {name: getattr(self, name) + getattr(other, name) for name in SUMMED}
        most = max(self, other, key=lambda each: each.longest_task - each.median_task)
        tasks = {name: getattr(most, name) for name in OF_ONE}
        return Cost(table=self.table, day=self.day, **sums, **tasks)


OF_ONE = ("longest_task", "median_task")
"""What is of one batch, and adds up over none."""

SUMMED = tuple(each.name for each in fields(Cost) if each.name not in {"table", "day", *OF_ONE})


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """What the tables of a lake took.

    Args:
        since: The first day.
        until: The day after the last.
        prices: What is paid.
        days: What each table took on each day, in the order of the days and, within one, the dearest first.
        damaged: Why a table could not be read to its end.
        processes: What processes used on these days, tables or not.
    """

    since: date
    until: date
    prices: Prices
    days: Sequence[Cost] = field(default_factory=tuple)
    damaged: Sequence[DamagedError] = field(default_factory=tuple)
    processes: Sequence[Process] = field(default_factory=tuple)

    @property
    def tables(self) -> list[Cost]:
        """Return what each table took on all days, the dearest first."""
        found: dict[str, Cost] = {}
        for each in self.days:
            found[each.table] = found[each.table] + each if each.table in found else each
        return dearest(found.values(), self.prices)

    @property
    def states(self) -> dict[str, tuple[str, Sequence[State]]]:
        """Return when it was asked last what the stream of a table keeps, and that."""
        found: dict[str, tuple[str, Sequence[State]]] = {}
        for each in sorted(self.processes, key=lambda process: process.at):
            found |= {name: (each.at, kept) for name, kept in each.state.items()}
        return dict(sorted(found.items()))

    def price(self, cost: Cost) -> float | None:
        """Return the price of what a table took; None without one."""
        return self.prices.of(cost)

    def share(self, cost: Cost) -> float:
        """Return which part of the CPU of all tables a table took."""
        everything = sum(each.seconds for each in self.days)
        return cost.seconds / everything if everything else 0.0

    def as_json(self) -> dict[str, object]:
        """Return it for a program."""
        return {
            "since": self.since.isoformat(),
            "until": self.until.isoformat(),
            "prices": self.prices.rates,
            "currency": self.prices.currency,
            "tables": [self._plain(each) for each in self.tables],
            "days": [{"day": each.day, **self._plain(each)} for each in self.days],
            "processes": [each.as_json() for each in self.processes],
            "state": [
                {"table": table, "at": at, **asdict(each)}
                for table, (at, kept) in self.states.items()
                for each in kept
            ],
        }

    def _plain(self, cost: Cost) -> dict[str, object]:
        price = self.price(cost)
        return {
            **cost.figures(),
            "share": round(self.share(cost), 4),
            "price": None if price is None else round(price, 6),
        }


def dearest(costs: Iterable[Cost], prices: Prices) -> list[Cost]:
    """Return costs in the order of their price, or without one of their CPU, the dearest first."""

    def rank(each: Cost) -> tuple[float, float, str]:
        return (-(prices.of(each) or 0.0), -each.seconds, each.table)

    return sorted(costs, key=rank)


def costs(lake: Lake, tables: Sequence[Table], since: date, until: date, prices: Prices) -> Costs:
    """Return what tables took on some days.

    Args:
        lake: Where.
        tables: The tables.
        since: The first day.
        until: The day after the last.
        prices: What is paid.
    """
    found: dict[tuple[str, str], Cost] = {}
    damaged: list[DamagedError] = []
    books = [(table, place) for table in tables for place in lake.books(table)]
    for table, place in books:
        is_own = place == lake.table(table)
        try:
            for at, info, adds in commits(place, since, until):
                key = (at.date().isoformat(), table.id)
                cost = found.setdefault(key, Cost(table=table.id, day=key[0]))
                _add(cost, info, adds, is_own=is_own)
        except DamagedError as error:  # the others are counted
            damaged.append(error)
    used = processes(lake, since, until)
    of = {table.id: table.id for table in tables} | {name_of(p): t.id for t, p in books}
    for process in used:
        for name in (each for each in process.named if each in of):
            key = (process.day, of[name])
            cost = found.setdefault(key, Cost(table=key[1], day=key[0]))
            cost.add(process.spent(name))
    days = sorted({day for day, _ in found})
    ranked = [dearest((c for (of, _), c in found.items() if of == day), prices) for day in days]
    return Costs(
        since=since,
        until=until,
        prices=prices,
        days=tuple(each for day in ranked for each in day),
        damaged=damaged,
        processes=used,
    )


class Follower:
    """What one table took since a day, followed: each look reads what was committed since the one before, some commits at a time."""

    def __init__(self, table: Table, lake: Lake, since: date) -> None:
        """Begin at the first commit of a day; nothing is read yet."""
        self.since = since
        self._table, self._lake = table, lake
        self._begin = datetime.combine(since, time(), UTC)
        self._next: dict[Place, int] = {}
        self._days: dict[str, Cost] = {}

    def look(self, most: int) -> bool:
        """Read so many further commits at most, and return whether these were all.

        Raises:
            DamagedError: One is torn.
        """
        left = most
        for place in self._lake.books(self._table):
            newest = latest_version(place) if is_table(place) else -1
            first = self._next.get(place)
            if first is None or first > newest + 1:  # the first look, or the table was made anew
                first = first_since(place, self._begin) if newest >= 0 else 0
            last = min(newest, first + left - 1)
            for version in range(first, last + 1):
                if (found := _commit(place, version)) is not None and found[0] >= self._begin:
                    self._count(*found, is_own=place == self._lake.table(self._table))
                self._next[place] = version + 1
            left -= max(0, last + 1 - first)
            if last < newest:
                return False
        return True

    def days(self, until: date) -> list[Cost]:
        """Return what it took on each day before another one that had commits, the first of them first; with what its runs used beside."""
        found = {day: replace(each) for day, each in self._days.items() if day < until.isoformat()}
        names = {self._table.id, *map(name_of, self._lake.books(self._table))}
        for process in processes(self._lake, self.since, until):
            for name in process.named & names:
                found.setdefault(process.day, self._none(process.day)).add(process.spent(name))
        return [found[day] for day in sorted(found)]

    def _count(
        self, at: datetime, info: dict[str, Any], adds: Sequence[int], *, is_own: bool
    ) -> None:
        day = at.date().isoformat()
        _add(self._days.setdefault(day, self._none(day)), info, adds, is_own=is_own)

    def _none(self, day: str) -> Cost:
        return Cost(table=self._table.id, day=day)


def _add(cost: Cost, info: dict[str, Any], adds: Sequence[int], *, is_own: bool) -> None:
    """Add a commit to what its table took."""
    cost.commits += 1
    cost.files += len(adds)
    cost.bytes += sum(adds)
    entry = _entry(info)
    if entry is None:
        cost.maintained += 1
        return
    # What is held was read by the batch that wrote the table itself.
    cost.read += max(int(entry.get("read") or 0), 0) if is_own else 0
    cost.written += max(int(entry.get("written") or 0), 0)
    own = int(entry.get("own_ms") or 0) / 1000
    cost.core_seconds += own
    if entry.get("since") is not None:
        cost.repair_seconds += own
    if is_own:
        cost.gate_seconds += int(entry.get("gate_ms") or 0) / 1000
        cost.ledger_seconds += int(entry.get("ledger_ms") or 0) / 1000
    if is_own and entry.get("uneven_ms"):  # those of what is held are of the same batch
        cost.waited(*(int(each) / 1000 for each in entry["uneven_ms"]))
    most = int(entry.get("cpu_ms") or 0) / 1000
    if is_own and "own_ms" not in entry and most:
        cost.most_seconds += most
        cost.not_said += 1


def _entry(info: dict[str, Any]) -> dict[str, Any] | None:
    """Return the entry of a commit as it is written; a hundred thousand of them need no more of it than some numbers."""
    try:
        found = json.loads(info.get("userMetadata") or "")
    except ValueError:
        return None
    return found if isinstance(found, dict) and found.get(MARK) is not None else None


def commits(
    path: Place, since: date, until: date
) -> Iterator[tuple[datetime, dict[str, Any], list[int]]]:
    """Yield the commits of a table on some days: when, what each says of itself, and the bytes of the files that it added.

    Reads no other commits but those by which the first is found, and some after the last.
    """
    if not is_table(path):
        return
    begin, end = (datetime.combine(day, time(), UTC) for day in (since, until))
    behind = 0
    for version in range(first_since(path, begin), latest_version(path) + 1):
        found = _commit(path, version)
        if found is None:
            continue
        behind = behind + 1 if found[0] >= end else 0
        if behind > BEHIND:
            return
        if begin <= found[0] < end:
            yield found


def _commit(path: Place, version: int) -> tuple[datetime, dict[str, Any], list[int]] | None:
    """Return when a version was committed, what it says of itself, and the bytes of its files; None where it is not there."""
    info: dict[str, Any] = {}
    sizes = list[int]()
    try:
        for action in actions(path, version, Kind.INFO, Kind.ADD):
            if action.kind is Kind.INFO:
                info = dict(action.body)
            else:
                sizes.append(int(action.body.get("size") or 0))
    except FileNotFoundError:
        return None
    return time_of(path, version, info), info, sizes


def first_since(path: Place, moment: datetime) -> int:
    """Return the first version of a table that was committed at a moment or after it; the one after the last if none was."""
    return bisect_left(range(latest_version(path) + 1), moment, key=partial(_at, path))


def _at(path: Place, version: int) -> datetime:
    """Return when a version was committed; one that is not there is older than those that are."""
    try:
        return committed_at(path, version)
    except FileNotFoundError:
        return EPOCH


def newest_day(lake: Lake, tables: Sequence[Table]) -> date | None:
    """Return the day of the newest commit of some tables, from the last one of each."""
    places = [lake.table(each) for each in tables if lake.exists(each)]
    return max((committed_at(each, latest_version(each)).date() for each in places), default=None)
