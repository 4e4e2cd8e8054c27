"""Is a table what its log says? Recompute it from bronze, once as a batch and once as a stream, and compare.

The stream is a process of its own that is fed the log in randomly cut commits and killed with ``kill -9`` at
random moments, so a certificate shows what the crash tests show, on the data and the code of this lake.
The live table must have read all that bronze holds up to the version that is recomputed; one that lags is refused,
because a difference would say nothing.
"""

import random
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.sql import DataFrame

from jobs.core.errors import DefinitionError
from jobs.core.modes import Batch
from jobs.core.table import Layer, Table
from jobs.run.admit import admit, admitted
from jobs.run.balance import read_until, waiting
from jobs.run.certificate import Certificate, keep
from jobs.run.compare import Range, compare
from jobs.run.gates import stand_open
from jobs.run.lake import Lake
from jobs.run.ledger import entries, last_entry, latest_version
from jobs.run.meter import code_version
from jobs.run.recut import Log, recut
from jobs.run.rehearsal import Rehearsal
from jobs.run.runner import Site, run
from jobs.run.span import Span
from jobs.run.streams import is_settled

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """How hard to try.

    Args:
        splits: Micro-batches into which the log is cut.
        kills: How often the streaming process is killed.
        seed: Decides where.
        span: The range of event time in which rows are compared; all rows when absent. What they rest on is
            computed whole in any case, since a hold or an interval may begin long before.
    """

    splits: int = 5
    kills: int = 2
    seed: int = field(default_factory=lambda: random.SystemRandom().randrange(10**6))
    span: Span | None = None

    @property
    def range(self) -> Range | None:
        """Return the ends of the range."""
        return (self.span.since, self.span.until) if self.span else None


def verify(  # noqa: PLR0913, PLR0917  # what, where, how hard, with what, and two who listen
    tables: Sequence[Table],
    lake: Lake,
    trial: Trial,
    site: Site,
    tell: Tell = lambda _: None,
    pinned: Callable[[], None] = lambda: None,
) -> list[Certificate]:
    """Recompute tables from bronze, compare, and keep a certificate for each.

    Args:
        tables: Silver and gold tables.
        lake: The live lake; only certificates are written to it.
        trial: How hard to try.
        site: With what.
        tell: Hears of each step.
        pinned: Called when it is settled which versions are compared; from then on the tables may grow.

    Raises:
        DefinitionError: A table has not read all of its sources, or does not exist.
    """
    begun = time.monotonic()
    needed = _with_sources(tables, lake)
    derived = [table for table in needed if table.layer is not Layer.BRONZE]
    refuse_unsettled(derived, lake)
    logs = [_log(table, needed, lake) for table in needed if table.layer is Layer.BRONZE]
    versions = {table: [latest_version(path) for path in lake.books(table)] for table in tables}
    brought_in = _brought_in(derived, lake, site)
    pinned()
    with _scratch(lake) as root:
        cut = Lake(root / "log").open_for_writing()
        for log in logs:
            chance = random.Random(f"{trial.seed} {log.table.id}")  # noqa: S311  # no secret
            rows = recut(site.spark, log, cut, commits=trial.splits, chance=chance)
            tell(f"{log.table.id}: {sum(rows):,} rows, cut into {len(rows)} commits")
        whole = Lake(root / "batch").open_for_writing()
        stand_open(whole)
        (whole.root / Layer.BRONZE).symlink_to(cut.root / Layer.BRONZE)
        for table in derived:
            done = run(table, Batch(), whole, site=site)
            tell(f"{table.id}: as one batch in {done.seconds:.1f} s")
            if table in brought_in:
                admit(site.spark, table, whole, brought_in[table])
        streamed = Lake(root / "stream").open_for_writing()
        stand_open(streamed)
        Rehearsal(
            tables=derived, log=cut, lake=streamed, kills=trial.kills, seed=trial.seed, tell=tell
        ).play()
        for table, places in brought_in.items():
            came = admit(site.spark, table, streamed, places)
            tell(f"{table.id}: brought in {came:,} disordered rows, as in the live table")
        found = {
            table: _differences(
                table, lake, at, {"one batch": whole, "a stream": streamed}, trial.range
            )
            for table, at in versions.items()
        }
    return [
        _certify(table, lake, trial, site, found[table], logs, at[0], begun)
        for table, at in versions.items()
    ]


def _brought_in(tables: Sequence[Table], lake: Lake, site: Site) -> dict[Table, DataFrame]:
    """Return the places of the disordered rows that were brought into judged tables since they were held."""
    found = {}
    for table in tables:
        if table.judges:
            places = admitted(site.spark, table, lake, latest_version(lake.resolutions(table)))
            if places is not None:
                found[table] = places
    return found


def refuse_unsettled(tables: Sequence[Table], lake: Lake) -> None:
    """See that each table has read all of its sources, and said all that follows from it.

    Raises:
        DefinitionError: One has not.
    """
    for table in tables:
        lake.refuse_missing(table)
        newest = last_entry(lake.table(table))
        is_stream = newest is not None and not newest[1].replaced
        behind = waiting(table, lake)
        if behind or (is_stream and not is_settled(table, lake)):
            raise DefinitionError(
                f"{table.id} is {behind:,} rows behind its sources, so there is nothing to compare yet",
                hint="let it catch up (`strandline run`), then verify again.",
                table=table.id,
                waiting=behind,
            )


def _with_sources(tables: Sequence[Table], lake: Lake) -> list[Table]:
    """Return the tables and all that they rest on, sources first."""
    found: dict[str, Table] = {}

    def add(table: Table) -> None:
        for source in table.needs:
            if source in table.upstream or lake.exists(source):  # the static side may be absent
                add(source)
        found.setdefault(table.id, table)

    for table in tables:
        add(table)
    return sorted(found.values(), key=lambda table: list(Layer).index(table.layer))


def _log(bronze: Table, needed: Sequence[Table], lake: Lake) -> Log:
    """Return bronze as far as the tables above it have read it."""
    readers = [table for table in needed if bronze in table.upstream]
    read = max((read_until(table, bronze, lake) for table in readers), default=0)
    return Log(table=bronze, path=lake.table(bronze), version=read)


@contextmanager
def _scratch(lake: Lake) -> Iterator[Path]:
    root = lake.root / "_verify" / str(time.time_ns())
    root.mkdir(parents=True)
    try:
        yield root
    finally:
        shutil.rmtree(root, ignore_errors=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    rows: int
    differences: tuple[str, ...]


def _differences(
    table: Table,
    live: Lake,
    at: Sequence[int],
    others: Mapping[str, Lake],
    within: Range | None,
) -> _Found:
    rows, told = 0, []
    for name, other in others.items():
        found = compare(table, live, other, at=at, sides=("live", f"in {name}"), span=within)
        rows = sum(one.left_rows for one in found)
        for one in found:
            if not one.equal:
                told.append(
                    f"{one.table}: {one.only_left:,} rows of the live table are not in {name}, "
                    f"and {one.only_right:,} of {name} are not in the live table"
                )
                told += [f"{one.table}: {sample}" for sample in one.samples]
    return _Found(rows=rows, differences=tuple(told))


def _certify(  # noqa: PLR0913, PLR0917  # a certificate says all of it
    table: Table,
    lake: Lake,
    trial: Trial,
    site: Site,
    found: _Found,
    logs: Sequence[Log],
    version: int,
    begun: float,
) -> Certificate:
    below = {each.id for each in _with_sources([table], lake)}
    mine = [log for log in logs if log.table.id in below]
    certificate = Certificate(
        table=table.id,
        equal=not found.differences,
        rows=found.rows,
        splits=trial.splits,
        kills=trial.kills,
        seed=trial.seed,
        offsets={name: ends for log in mine for name, ends in _offsets(log).items()},
        versions={table.id: version, **{log.table.id: log.version for log in mine}},
        code=code_version(table),
        at=site.clock().isoformat(timespec="seconds"),
        seconds=round(time.monotonic() - begun, 1),
        since=trial.span.since.isoformat() if trial.span else None,
        until=trial.span.until.isoformat() if trial.span else None,
        differences=found.differences,
    )
    keep(certificate, table, lake)
    return certificate


def _offsets(log: Log) -> dict[str, tuple[int, int]]:
    """Return what bronze had read of each partition, from its first entry to the version."""
    found: dict[str, tuple[int, int]] = {}
    for version, entry in entries(log.path):
        if version <= log.version:
            for name, (start, end) in entry.offsets.items():
                found[name] = (found.get(name, (start, end))[0], end)
    return found
