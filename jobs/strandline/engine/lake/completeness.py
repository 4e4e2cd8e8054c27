"""What a table lacks: the time that retention deleted, which cannot be computed again, and all that came since it was retired.

A range that begins before a table's horizon is refused by what computes it (a backfill, a rebuild) and left out by what
compares it (a verification), because a difference would show the retention and no fault. A verification computes from bronze
on, so for it every table on the way counts. What computes one table reads the tables below it as they are: gold of a time
whose records bronze no longer has is computed from silver, which has its rows still.

A table without windows may depend on any earlier row. Its rows are held against the oldest moment of its sources all the
same: a hold that began before it is not compared, and one that began after it began by a row that is there. A table that joins
rows of which nothing says how far apart they lie is never whole again, once rows of a source were deleted.

A retired table is kept and read, and no longer fed. One small file in the lake has them all, with whose decision it was, since
when and why, so that every program asks it for the price of one read, and a snapshot takes it along. A retired table keeps its
module: it says how its rows are read, which columns are masked, how long they are kept, and what of it a request to forget means.

A stream that is to go on where it ended needs what its sources have not given it yet, and maintenance keeps that for as long as
a promotion can be undone. After that, or where a retention or a request to forget must not wait for it, its place is *let go*:
its state is removed, nothing is kept for it any more, and taken back it is computed anew. Where it had read until stays known,
because it says which time of the table is closed.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from graphlib import TopologicalSorter
from typing import TypeVar

from strandline.core.errors import DataError, DefinitionError, LakeError
from strandline.core.kind import LAST, shifted
from strandline.core.table import Ingested, Judged, Recomputed, Table
from strandline.engine.lake.commit.file_index import EPOCH, MICROSECOND
from strandline.engine.lake.lake import TABLES, Lake
from strandline.engine.lake.log.commit_log import committed_at
from strandline.engine.lake.log.ledger import is_table, last_entry, latest_version
from strandline.engine.lake.log.ledger_sums import sums_of
from strandline.engine.lake.log.log_actions import live_files
from strandline.engine.lake.place import Place
from strandline.engine.lake.spark_checkpoint import read_record
from strandline.engine.lake.store_lease import HeldError, hold

# How far apart in time the rows lie that a table's stream joins: what the table declares, else what its plan said.
#
# A table is computed from rows that lie further from a range than its windows are long, if it joins them. That length is one,
# and all that asks whether a time is over, or whether all rows are there, asks for it here: without Spark, because the plan of
# a stream was seen when it started, and what it said is in the stream's record (jobs/strandline/engine/lake/spark_checkpoint.py).


def known_reach(table: Table, lake: Lake) -> timedelta | None:
    """Return how far apart the rows lie that a table joins; None where nothing bounds it.

    Nothing was recorded of a table that no stream has made, or one of a version that recorded nothing yet: its next start
    records it, and until then it is as if it joined nothing.
    """
    if isinstance(table, Ingested | Judged):
        return timedelta(0)
    if table.reach or isinstance(table, Recomputed):
        return table.reaches
    record = read_record(lake.checkpoint(table))
    return record.apart if record else timedelta(0)


def refuse_unbounded(table: Table, lake: Lake) -> None:
    """Refuse to compute again a table whose rows may depend on rows of any other time: none of its time is ever over.

    Raises:
        DefinitionError: Its stream joins rows, and nothing says how far these lie apart.
    """
    if known_reach(table, lake) is None:
        raise DefinitionError(
            f"{table.id} joins rows, and nothing says how far apart these may lie, so no time of it is ever over: what is "
            "computed again may still lack partners, and its stream would never see what was repaired",
            hint='declare it, such as reach="4 hours", as far as rows that meet lie apart; or bound the join\'s condition, such '
            f"as `other_time <= time + INTERVAL 4 HOURS`. Where it is bounded, `strandline run {table.id}` records it.",
            table=table.id,
        )


def over_until(table: Table, lake: Lake) -> datetime | None:
    """Return the moment up to which the windows are computed of a table that waits for their end; None of any other."""
    if not isinstance(table, Recomputed) or not table.waits or not lake.exists(table):
        return None
    newest = last_entry(lake.table(table))
    over = newest[1].over_until if newest else None
    return None if over is None else shifted(EPOCH, over * MICROSECOND)


NEVER = LAST
"""From when on a table lacks no row that may depend on any row that was deleted."""


def horizon(path: Place) -> datetime | None:
    """Return the moment before which rows of a table may have been deleted; None when none was."""
    text = sums_of(path).horizon
    return datetime.fromisoformat(text) if text else None


def horizon_us(path: Place) -> int | None:
    """Return the same in microseconds since 1970."""
    found = horizon(path)
    return None if found is None else (found - EPOCH) // MICROSECOND


def whole_from(table: Table, lake: Lake) -> datetime | None:
    """Return the event time from which on a table and what it is computed from lack no row; None when they never do.

    Of bronze it is the time of arrival, and an event may be as much later as its table admits.
    """
    return _latest(horizon(lake.table(table)), sources_whole_from(table, lake))


def computable_from(table: Table, lake: Lake) -> datetime | None:
    """Return the event time from which on neither a table nor one that it reads lacks a row; None when they never do."""
    own = horizon(lake.table(table))
    match table:
        case Ingested():
            return own
        case Judged():
            return _latest(own, sources_whole_from(table, lake))
        case _:
            below = [horizon(lake.table(each)) for each in table.needs if lake.exists(each)]
            return _latest(own, _after_partners(table, lake, _latest(*below)))


def sources_whole_from(table: Table, lake: Lake) -> datetime | None:
    """Return the same of what a table is computed from, without its own retention."""
    match table:
        case Ingested():
            return None
        case Judged():
            below = [horizon(lake.table(source)) for source in table.upstream]
            found = _latest(*below)
            return None if found is None else shifted(found, table.lateness.early)
        case _:
            below = [whole_from(source, lake) for source in table.needs if lake.exists(source)]
            return _after_partners(table, lake, _latest(*below))


def _after_partners(table: Table, lake: Lake, first: datetime | None) -> datetime | None:
    """Return the time from which on a table lacks no row, where what it reads lacks rows before a moment."""
    if first is None:
        return None
    reach = known_reach(table, lake)
    return NEVER if reach is None else shifted(first, table.window_length + reach)


def refuse_expired(table: Table, lake: Lake, since: datetime, *, from_bronze: bool = False) -> None:
    """Refuse to compute a range again of which rows were deleted.

    Args:
        table: The table.
        lake: The lake.
        since: The start of the range.
        from_bronze: Whether all tables below it are computed again too, as a verification does.

    Raises:
        DefinitionError: The range begins before the table and what it reads are whole.
    """
    first = whole_from(table, lake) if from_bronze else computable_from(table, lake)
    refuse_never_whole(table, lake, first)
    if first is not None and since < first:
        raise DefinitionError(
            f"{table.id} from {since.isoformat()} cannot be computed again: retention deleted rows of it or of what it "
            f"is computed from",
            hint=f"choose a range from {first.isoformat()} on.",
            table=table.id,
            since=since.isoformat(),
            whole_from=first.isoformat(),
        )


def refuse_never_whole(table: Table, lake: Lake, first: datetime | None) -> None:
    """Refuse a table that is whole from no moment on, because it joins rows without a bound and some were deleted.

    Raises:
        DefinitionError: It is such a table, or reads one.
    """
    below = [table] if first == NEVER else []
    for each in below:
        refuse_unbounded(each, lake)
        below += [source for source in each.needs if source not in below]


def _latest(*moments: datetime | None) -> datetime | None:
    return max((each for each in moments if each is not None), default=None)


STATE_OF = "state"
"""The folder of a checkpoint with the state of its stream: rows of the past, which a request to forget may mean."""

AnyTable = TypeVar("AnyTable", bound=Table)


@dataclass(frozen=True, slots=True, kw_only=True)
class Retirement:
    """Why a table is no longer fed.

    Args:
        who: Who decided it.
        at: When.
        why: Why.
        place_kept: Whether its stream could go on where it ended.
    """

    who: str
    at: str
    why: str
    place_kept: bool = True

    @property
    def words(self) -> str:
        """Return who decided it, when and why."""
        return f"{self.who} at {self.at}: {self.why}"


def retired(lake: Lake) -> dict[str, Retirement]:
    """Return the retired tables of a lake by their names.

    Raises:
        DataError: The file cannot be read.
    """
    text = lake.retired.text()
    if text is None:
        return {}
    try:
        return {name: Retirement(**each) for name, each in json.loads(text).items()}
    except (AttributeError, TypeError, ValueError) as error:
        raise DataError(
            f"{lake.retired.name} of the lake cannot be read, so it is not known which tables are retired",
            hint=f"take {lake.retired.name} from a snapshot; without one remove it, and retire the tables again.",
            file=str(lake.retired),
        ) from error


def fed(tables: Iterable[AnyTable], lake: Lake) -> list[AnyTable]:
    """Return those of some tables that are not retired."""
    known = retired(lake)
    return [table for table in tables if table.id not in known]


def with_below(
    *tables: Table, sources: Callable[[Table], Iterable[Table]] = lambda table: table.upstream
) -> list[Table]:
    """Return tables and all below them, each once and before those that it has below itself.

    Args:
        tables: The tables.
        sources: Returns what a table has below itself: what it reads, or what its rows depend on (``every_need``).
    """
    found, below, waiting = dict[str, Table](), dict[str, list[str]](), [*tables]
    while waiting:
        table = waiting.pop()
        if table.id not in found:
            its = [*sources(table)]
            found[table.id], below[table.id] = table, [each.id for each in its]
            waiting += its
    return [found[name] for name in TopologicalSorter(below).static_order()][::-1]


def every_need(table: Table) -> Iterable[Table]:
    """Return what the rows of a table depend on: what it reads and what it joins as of a moment."""
    return table.needs


def needed_in(lake: Lake) -> Callable[[Table], Iterable[Table]]:
    """Return the same for a lake that may lack what is joined; the table then lacks its columns."""
    return lambda table: [
        each for each in table.needs if each in table.upstream or lake.exists(each)
    ]


class RetiredError(DefinitionError):
    """A table is to be fed that is retired."""


def refuse_retired(table: Table, lake: Lake) -> None:
    """Refuse to feed a table that is retired.

    Raises:
        RetiredError: It is.
    """
    if (known := retired(lake).get(table.id)) is not None:
        raise RetiredError(
            f"{table.id} is retired, by {known.words}",
            hint=f"`strandline retire {table.id} --undo` feeds it again; until then it is read and not fed.",
            table=table.id,
        )


@contextmanager
def changed(lake: Lake) -> Iterator[dict[str, Retirement]]:
    """Let one process at a time change what is retired; what decides it is read within, or it may be of before."""
    with hold(lake.lease_of("_retired")):
        known = retired(lake)
        before = dict(known)
        yield known
        if known != before:
            _put(known, lake)


def _put(known: Mapping[str, Retirement], lake: Lake) -> None:
    lake.retired.put(json.dumps({name: asdict(each) for name, each in known.items()}, indent=1))


def write_down(name: str, why: Retirement, lake: Lake) -> None:
    """Retire a table; code of before, which does not know that and would feed it, refuses the lake from now on.

    Raises:
        DefinitionError: It is retired already: of two persons who decide it at once, the first has signed.
    """
    lake.raise_to(TABLES)
    with changed(lake) as known:
        refuse_signed(name, known)
        known[name] = why


def refuse_signed(name: str, known: Mapping[str, Retirement]) -> None:
    """Refuse to retire a table once more.

    Raises:
        DefinitionError: It is retired.
    """
    if (found := known.get(name)) is not None:
        raise DefinitionError(
            f"{name} is retired already, by {found.words}",
            hint=f"`strandline retire {name} --undo` feeds it again.",
            table=name,
        )


def strike_out(name: str, lake: Lake) -> None:
    """Let a table be fed again."""
    with changed(lake) as known:
        known.pop(name, None)


def let_go(table: Table, lake: Lake) -> None:
    """Give up the place at which the stream of a retired table could go on, with what its state has; nothing where it is done.

    The record comes first: a state that a kill left in part is then read by no stream, and the next maintenance removes the rest.
    Both are done while no other process changes what is retired: a table that is fed again by then keeps its state.
    """
    if isinstance(table, Ingested):  # bronze has its place in its ledger
        return
    with hold(lake.lease_of("_retired")):
        known = retired(lake)
        if (found := known.get(table.id)) is None:
            return
        if found.place_kept:
            _put({**known, table.id: replace(found, place_kept=False)}, lake)
        (lake.checkpoint(table) / STATE_OF).remove()


# The place of a table's provisional rows (jobs/strandline/engine/flow/provisional.py): a table of Delta's without a ledger, which any process may remove.

PROVISIONAL = "provisional"
"""The column that marks them, and the first part of the name under which a table is asked for with them."""

READ_FOR = timedelta(minutes=15)
"""How long the files of replaced rows stay for questions that read them."""

STALE = timedelta(days=1)
"""After which they are removed where nothing computes them any more: by then rows below may be expired."""


def has_mark(columns: Iterable[str]) -> bool:
    """Return whether a column of a table's own has the name of the mark: Spark does not distinguish letters by their case."""
    return any(each.casefold() == PROVISIONAL for each in columns)


@dataclass(frozen=True, slots=True)
class Kept:
    """The provisional rows of a table.

    Args:
        place: The folder of their table.
    """

    place: Place

    def mend(self) -> None:
        """Remove what is no whole table: a kill may have met its removal."""
        if not self.place.exists():
            return
        try:
            is_whole = is_table(self.place) and bool(live_files(self.place).metadata)
        except (OSError, LakeError, ValueError):
            is_whole = False
        if not is_whole:
            self.place.remove()

    def sweep(self, now: datetime) -> None:
        """Delete the files of rows that were replaced long enough ago."""
        live = live_files(self.place).files.keys()
        for name in self.place.names():
            file = self.place / name
            is_dead = name.endswith(".parquet") and name not in live
            if is_dead and now - file.modified_at() > READ_FOR:
                file.remove()


@contextmanager
def alone(name: str, lake: Lake, *, waits: bool = False) -> Iterator[Kept]:
    """Have the provisional rows of a table to write, or to remove.

    Raises:
        HeldError: Another process has them, and this one does not wait.
    """
    with hold(lake.lease_of(f"{PROVISIONAL}.{name}"), waits=waits):
        yield Kept(lake.provisional(name))


def remove(lake: Lake, name: str) -> None:
    """Remove the provisional rows of a table, without waiting for what computes them: it looks afterwards whether they may stay.

    What it writes at that moment may be left; the verb that removes them goes on all the same.
    """
    lake.provisional(name).remove(if_possible=True)


def forget(lake: Lake) -> None:
    """Remove the provisional rows of all tables, for good: what is computed at this moment is awaited.

    The first computation of a table has its lease long before Spark makes the folder, which comes with the first file of the rows.
    """
    leases = lake.leases.names()
    suffix = lake.lease_of("").name
    first = f"{PROVISIONAL}."
    computed = [
        each[len(first) : -len(suffix)]
        for each in leases
        if each.startswith(first) and each.endswith(suffix)
    ]
    for name in sorted({*(lake.root / PROVISIONAL).names(), *computed}):
        with alone(name, lake, waits=True) as kept:
            kept.place.remove()


def remove_stale(lake: Lake, now: datetime, tables: Iterable[Table]) -> None:
    """Remove those that nothing computes any more, and what is no whole table.

    Those of a table that declares them stay while nothing came since: its stream sleeps, and they are what is known.

    Args:
        lake: The lake.
        now: The time.
        tables: The tables that are fed.
    """
    declare = {each.id: each for each in tables if getattr(each, PROVISIONAL, None)}
    for name in (lake.root / PROVISIONAL).names():
        with suppress(HeldError), alone(name, lake) as kept:
            kept.mend()
            place = kept.place
            if not place.exists():
                continue
            made = committed_at(place, latest_version(place))
            is_newest = name in declare and _changed_at(declare[name], lake) <= made
            if now - made > STALE and not is_newest:
                place.remove()


def _changed_at(table: Table, lake: Lake) -> datetime:
    """Return when a table or one that it needs had its newest commit."""
    places = [lake.table(each) for each in (table, *table.needs) if lake.exists(each)]
    return max((committed_at(each, latest_version(each)) for each in places), default=LAST)
