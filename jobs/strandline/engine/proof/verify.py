"""Verify a table: recompute it from bronze, once as a batch and once as a stream, and compare the rows.

The stream is a process of its own. It reads the log in randomly cut commits and is killed with ``kill -9`` at random
moments, so a certificate shows what the crash tests show, on the data and the code of this lake.
The live table must have read all of bronze up to the recomputed version; a table that lags is refused, because a
difference would prove nothing.
"""

import random
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from strandline.core.errors import DefinitionError
from strandline.core.kind import DISORDERED, Layer
from strandline.core.stateful import AvailableNow, Batch
from strandline.core.static import Static
from strandline.core.table import Feed, Ingested, Judged, Table, Windowed
from strandline.core.topic import PLACE
from strandline.engine.accounting.balance_sheet import readable_at, waiting, waiting_for_import
from strandline.engine.accounting.gate_files import open_all
from strandline.engine.accounting.held_records import (
    RELEASED,
    UNSIGNED,
    Status,
    generation,
    open_records,
)
from strandline.engine.flow import new_entry
from strandline.engine.flow.query import is_settled
from strandline.engine.flow.runner import Site, run
from strandline.engine.flow.running import with_threads
from strandline.engine.lake import shelves, static_versions
from strandline.engine.lake.commit.delta_commit import rows_at
from strandline.engine.lake.commit.file_index import EPOCH
from strandline.engine.lake.completeness import (
    horizon,
    needed_in,
    refuse_expired,
    refuse_never_whole,
    whole_from,
    with_below,
)
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger import (
    BATCH,
    IMPORT,
    entries,
    is_table,
    last_entry,
    latest_version,
)
from strandline.engine.lake.log.ledger_sums import sums_of
from strandline.engine.lake.open_table import pin_versions
from strandline.engine.lake.place import Place
from strandline.engine.lake.plain_files import scratch
from strandline.engine.lake.shelves import Shelf
from strandline.engine.proof.certificate import Certificate, keep
from strandline.engine.proof.compare import Kept, Range, compare, rows_in_windows
from strandline.engine.proof.trial_lakes import KillTrial, Log, resplit
from strandline.engine.repair.bring_imported import bring
from strandline.engine.repair.close import close_as
from strandline.engine.repair.closed_range import Span
from strandline.engine.repair.downstream import backfill_above
from strandline.engine.repair.import_files import append
from strandline.engine.repair.plan_replay import healing
from strandline.engine.repair.replay import Work, begin
from strandline.engine.runtime.code_files import code_version
from strandline.engine.runtime.jvm import Meter

ALWAYS = datetime(9999, 1, 1, tzinfo=UTC)
"""The end of the closed time of a lake that no stream writes."""


def admitted(spark: SparkSession, table: Judged, lake: Lake, version: int) -> DataFrame | None:
    """Return the places of disordered rows that were admitted; None when there are none.

    Args:
        spark: The session.
        table: A judged table.
        lake: The lake.
        version: The version of its resolutions up to which they count.
    """
    path = lake.resolutions(table)
    if not is_table(path) or version < 0:
        return None
    resolutions = rows_at(spark, path, version)
    was_disordered = F.col("reasons") == F.array(F.lit(DISORDERED))
    if table.holds_items:
        # Such a record may be believed with items that are bad, also by the rules that held it.
        left = F.col("status") != Status.STILL_BAD.value
        was_disordered |= F.array_contains("reasons", DISORDERED) & left
    is_released = F.col("status").isin(*(status.value for status in RELEASED))
    is_of_now = F.col("generation") == generation(lake.quarantine(table))
    places = resolutions.where(was_disordered & is_released & is_of_now).select(*PLACE).distinct()
    return None if places.isEmpty() else places


def admit(spark: SparkSession, table: Judged, lake: Lake, places: DataFrame) -> int:
    """Admit the disordered rows of some places into a lake that no stream writes, and update the tables downstream.

    Every mode holds a row that arrived out of order. If a replay or a backfill admitted it later, that follows not from
    the log but from an operator's decision, which the resolutions of the quarantine keep. A verification computes the
    table from bronze as it was received, and then admits the same rows by the same code.

    A rebuild does not: its shadow holds these rows again, the comparison shows them, and a replay admits them.

    Returns:
        How many rows were admitted.
    """
    chosen = open_records(spark, table, lake).join(places, [*PLACE], "left_semi")
    work = Work(
        spark=spark,
        table=table,
        lake=lake,
        signed=UNSIGNED,
        on_table=lambda _, __: None,
        meter=Meter(spark),
    )
    with healing(spark, table, lake, chosen, ALWAYS) as healed:
        touched = healed.touched
        if touched is None:
            return 0
        done = begin(work, healed, touched)
    for _ in backfill_above(spark, table, lake, touched, is_live=False):
        pass
    return done.came


def add_imported(spark: SparkSession, log: Log, lakes: Iterable[Lake]) -> None:
    """Add the imported rows of a log, if it has any, to its copies in some lakes; those with which streams began are there.

    A stream passes over imported rows, so the copies that a stream reads lack them at first; then the same code as in the
    live lake brings them to the tables above (jobs/strandline/engine/repair/bring_imported.py).
    """
    history = log.history_ends
    ends = {
        part: (history.get(part, 0), end)
        for part, end in sums_of(log.path, log.version).imported.items()
        if history.get(part, 0) < end
    }
    if not ends:
        return
    rows = spark.read.format("delta").option("versionAsOf", log.version).load(str(log.path))
    rows = rows.where((rows["_batch"] == BATCH) & ~log.is_history())
    count = rows.count()
    never = (EPOCH.isoformat(), EPOCH.isoformat())
    entry = new_entry.imported(
        log.table, IMPORT, str(log.path), offsets=ends, span=never, rows=count
    )
    for lake in lakes:
        append(spark, lake.table(log.table), rows, entry)


@dataclass(frozen=True, slots=True)
class FedLake(Lake):
    """A lake whose bronze tables are those of another.

    Args:
        source: The lake with the bronze tables.
    """

    source: Lake

    def table(self, table: Table | Feed | Static) -> Place:
        """Return the other lake's folder of a bronze table, and the own one of any other."""
        is_bronze = table.layer == Layer.BRONZE
        return self.source.table(table) if is_bronze else Lake.table(self, table)

    @property
    def schemas(self) -> Place:
        """Return the other lake's folder with the schemas of its payloads."""
        return self.source.schemas


Note = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """How hard to try.

    Args:
        splits: Micro-batches into which the log is cut.
        kills: How often the streaming process is killed.
        seed: The seed of the cuts and kills.
        span: The range of event time in which rows are compared; all rows when absent. The tables are computed
            whole in any case, since a hold or an interval may begin long before.
    """

    splits: int = 5
    kills: int = 2
    seed: int = field(default_factory=lambda: random.SystemRandom().randrange(10**6))
    span: Span | None = None

    @property
    def range(self) -> Range | None:
        """Return the ends of the range."""
        return (self.span.since, self.span.until) if self.span else None


def verify(  # noqa: PLR0913, PLR0917  # what, where, how hard, with what, and two callbacks
    tables: Sequence[Table],
    lake: Lake,
    trial: Trial,
    site: Site,
    note: Note = lambda _: None,
    pinned: Callable[[], None] = lambda: None,
) -> list[Certificate]:
    """Recompute tables from bronze, compare, and keep a certificate for each.

    Args:
        tables: Silver and gold tables.
        lake: The live lake; only certificates are written to it.
        trial: How hard to try.
        site: Spark and the clock.
        note: Is called with a line for each step.
        pinned: Is called when the versions to compare are fixed; from then on the tables may grow.

    Raises:
        DefinitionError: A table has not read all of its sources, or does not exist; or retention deleted rows of the range.
    """
    begun = time.monotonic()
    needed = with_below(*tables, sources=needed_in(lake))[::-1]
    derived = [table for table in needed if not isinstance(table, Ingested)]
    refuse_unsettled(derived, lake)
    for table in tables:
        refuse_never_whole(table, lake, whole_from(table, lake))
        if trial.span:
            refuse_expired(table, lake, trial.span.since, from_bronze=True)
    kept = {path: latest_version(path) for table in needed for path in lake.books(table)}
    joined = {each: latest_version(lake.table(each)) for table in derived for each in table.static}
    logs = [_log(table, needed, lake) for table in needed if isinstance(table, Ingested)]
    versions = {table: [latest_version(path) for path in lake.books(table)] for table in tables}
    disordered = _admitted(derived, lake, site)
    with pin_versions(lake.root, kept), scratch(lake.scratch) as root:
        pinned()
        cut = Lake(root / "log").open_for_writing()
        Shelf(lake.schemas).lend(Shelf(cut.schemas))
        for log in logs:
            note(f"{log.table.id}: cutting its log …")
            chance = random.Random(f"{trial.seed} {log.table.id}")  # noqa: S311  # no secret
            with site.apart(log.table.id):
                rows = resplit(site.spark, log, cut, commits=trial.splits, chance=chance)
            note(f"{log.table.id}: {sum(rows):,} rows, cut into {len(rows)} commits")
        models = [each.scored_by for each in derived if each.scored_by]
        streamed = Lake(root / "stream").open_for_writing()
        shelves.carry(lake, streamed, models)
        static_versions.carry(lake, streamed, joined)
        Shelf(lake.schemas).lend(Shelf(streamed.schemas))
        open_all(streamed)
        KillTrial(
            tables=derived, log=cut, lake=streamed, kills=trial.kills, seed=trial.seed, note=note
        ).run()
        _keep_used(derived, streamed, site)
        _close_alike(derived, lake, streamed, site, note)
        for log in logs:  # after the stream, which would begin with them
            add_imported(site.spark, log, (cut, streamed))
        whole = FedLake(root / "batch", cut).open_for_writing()
        static_versions.carry(lake, whole, joined)
        shelves.carry(streamed, whole, models)  # one look: a model may be promoted meanwhile
        open_all(whole)
        for table in derived:
            note(f"{table.id}: computing it as one batch …")
            close_as(table, lake, whole, site)
            done = run(table, Batch(), whole, site=site)
            note(f"{table.id}: as one batch in {done.seconds:.1f} s")
            if isinstance(table, Judged) and table in disordered:
                admit(site.spark, table, whole, disordered[table])
        for table in derived:
            if isinstance(table, Judged) and (
                came := bring(site.spark, table, streamed, closed=ALWAYS)
            ):
                note(f"{table.id}: brought {came:,} imported rows, as in the live table")
        for judged, places in disordered.items():
            came = admit(site.spark, judged, streamed, places)
            note(f"{judged.id}: admitted {came:,} disordered rows, as in the live table")
        others = {"one batch": whole, "a stream": streamed}
        results = {
            table: _result(table, lake, at, others, trial.range, site, note)
            for table, at in versions.items()
        }
    offsets = {log.table.id: _offsets(log) for log in logs}
    return [
        _certify(
            table,
            lake,
            trial,
            site,
            results[table],
            logs,
            offsets,
            at[0],
            joined,
            begun,
        )
        for table, at in versions.items()
    ]


def _keep_used(tables: Sequence[Table], streamed: Lake, site: Site) -> None:
    """Keep what the programs used that were killed and started again; of a batch that did not end nothing is known."""
    for table in tables:
        with site.apart(table.id) as also:
            also(sum(each.own_ms for _, each in entries(streamed.table(table))) / 1000)


def _result(  # noqa: PLR0913, PLR0917  # as of the differences
    table: Table,
    live: Lake,
    at: Sequence[int],
    others: Mapping[str, Lake],
    within: Range | None,
    site: Site,
    note: Note,
) -> "_Result":
    with site.apart(table.id) as also, with_threads(also):
        faults = [*function_faults(table, others), *count_faults(site.spark, table, others)]
        return _differences(table, live, at, others, within, note).with_faults(faults)


def _close_alike(tables: Sequence[Table], live: Lake, other: Lake, site: Site, note: Note) -> None:
    """Close in another lake what was closed in the live one on purpose, and let the tables above read what that emitted."""
    is_moved = False
    for table in tables:
        if close_as(table, live, other, site):
            note(f"{table.id}: closed up to where the live table was")
            is_moved = True
        if is_moved:
            run(table, AvailableNow(), other, site=site)


def _admitted(tables: Sequence[Table], lake: Lake, site: Site) -> dict[Judged, DataFrame]:
    """Return the places of the disordered rows that were admitted to judged tables after they had been held."""
    by_table = {}
    for table in tables:
        if isinstance(table, Judged):
            places = admitted(site.spark, table, lake, latest_version(lake.resolutions(table)))
            if places is not None:
                by_table[table] = places
    return by_table


def refuse_unsettled(tables: Sequence[Table], lake: Lake) -> None:
    """Refuse tables that have not read all of their sources, or not yet emitted all rows that follow from them.

    Raises:
        DefinitionError: A table lags.
    """
    for table in tables:
        lake.refuse_missing(table)
        newest = last_entry(lake.table(table))
        is_stream = newest is not None and not newest[1].replaced
        behind = waiting(table, lake)
        if imported := waiting_for_import(table, lake):
            raise DefinitionError(
                f"{imported:,} rows of files are in bronze and not in {table.id}: their import was interrupted",
                hint="type the same `strandline import` again, then verify; no stream reads these rows.",
                table=table.id,
                waiting=behind,
            )
        if behind or (is_stream and not is_settled(table, lake)):
            raise DefinitionError(
                f"{table.id} is {behind:,} rows behind its sources, so there is nothing to compare yet",
                hint="let it catch up (`strandline run`), then verify again.",
                table=table.id,
                waiting=behind,
            )


def _log(bronze: Ingested, needed: Sequence[Table], lake: Lake) -> Log:
    """Return bronze as far as the tables above it have read it."""
    readers = [table for table in needed if bronze in table.upstream]
    read = max((readable_at(table, bronze, lake) for table in readers), default=0)
    return Log(table=bronze, path=lake.table(bronze), version=read)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Result:
    rows: int
    differences: tuple[str, ...]

    def with_faults(self, faults: Sequence[str]) -> "_Result":
        return _Result(rows=self.rows, differences=(*faults, *self.differences))


def count_faults(spark: SparkSession, table: Table, lakes: Mapping[str, Lake]) -> Iterator[str]:
    """Yield where windows count other rows than their source has, where the table names the column that counts them."""
    if not isinstance(table, Windowed) or not table.source_count:
        return
    for name, lake in lakes.items():
        version = latest_version(lake.table(table))
        rows = rows_at(spark, lake.table(table), version)
        counted = int(rows.agg(F.sum(table.source_count)).collect()[0][0] or 0)
        there = rows_in_windows(spark, table, lake, version)
        if counted != there:
            yield (
                f"{table.id}: in {name} its windows count {counted:,} rows of {table.upstream[0].id}, which has {there:,} "
                "up to the newest of them"
            )


def function_faults(table: Table, lakes: Mapping[str, Lake]) -> Iterator[str]:
    """Yield what a table's function lost or made; rows that are computed twice by one function are equal without them."""
    for name, lake in lakes.items():
        sums = sums_of(lake.table(table))
        if sums.lost_by_function:
            yield f"{table.id}: in {name} its function gave no row for {sums.lost_by_function:,} records"
        if sums.made_by_function:
            yield f"{table.id}: in {name} its function gave {sums.made_by_function:,} more rows than records"


def _differences(  # noqa: PLR0913, PLR0917  # what, at which versions, with which lakes, the range, and a callback
    table: Table,
    live: Lake,
    at: Sequence[int],
    others: Mapping[str, Lake],
    within: Range | None,
    note: Note,
) -> _Result:
    rows, lines = 0, []
    for name, other in others.items():
        begun = time.monotonic()
        sides = ("live", f"in {name}")
        parts = compare(
            table, live, other, at=at, sides=sides, span=within, kept=_kept(table, live)
        )
        rows = sum(one.left_rows for one in parts)
        result = "equal" if all(one.equal for one in parts) else "NOT EQUAL"
        took = time.monotonic() - begun
        note(f"{table.id}: {rows:,} rows compared with {name} in {took:.1f} s, {result}")
        for one in parts:
            if not one.equal:
                lines.append(
                    f"{one.table}: {one.only_left:,} rows of the live table are not in {name}, "
                    f"and {one.only_right:,} of {name} are not in the live table"
                )
                lines += [f"{one.table}: {sample}" for sample in one.samples]
    return _Result(rows=rows, differences=tuple(lines))


def _kept(table: Table, live: Lake) -> Kept:
    """Return what retention has left of a table; the older rows cannot be computed from bronze any more."""
    bronze = [horizon(live.table(source)) for source in table.upstream]
    arrivals = [horizon(live.quarantine(table)), *bronze] if isinstance(table, Judged) else []
    return Kept(
        events=whole_from(table, live), arrivals=max((at for at in arrivals if at), default=None)
    )


def _certify(  # noqa: PLR0913, PLR0917  # a certificate has all of it
    table: Table,
    lake: Lake,
    trial: Trial,
    site: Site,
    result: _Result,
    logs: Sequence[Log],
    offsets: Mapping[str, Mapping[str, tuple[int, int]]],
    version: int,
    joined: Mapping[Static, int],
    begun: float,
) -> Certificate:
    below = {each.id for each in with_below(table, sources=needed_in(lake))}
    mine = [log for log in logs if log.table.id in below]
    certificate = Certificate(
        table=table.id,
        equal=not result.differences,
        rows=result.rows,
        splits=trial.splits,
        kills=trial.kills,
        seed=trial.seed,
        offsets={name: ends for log in mine for name, ends in offsets[log.table.id].items()},
        versions={
            table.id: version,
            **{log.table.id: log.version for log in mine},
            **{each.id: at for each, at in joined.items() if _joins(table, each, lake)},
        },
        code=code_version(table),
        at=site.clock().isoformat(timespec="seconds"),
        seconds=round(time.monotonic() - begun, 1),
        since=trial.span.since.isoformat() if trial.span else None,
        until=trial.span.until.isoformat() if trial.span else None,
        whole_from=first.isoformat() if (first := whole_from(table, lake)) else None,
        differences=result.differences,
    )
    keep(certificate, table, lake)
    return certificate


def _joins(table: Table, static: Static, lake: Lake) -> bool:
    return any(static in each.static for each in with_below(table, sources=needed_in(lake)))


def _offsets(log: Log) -> dict[str, tuple[int, int]]:
    """Return the offsets that bronze had read of each partition, from its first entry to the version."""
    ranges: dict[str, tuple[int, int]] = {}
    for version, entry in entries(log.path):
        if version <= log.version:
            for name, (start, end) in entry.offsets.items():
                ranges[name] = (ranges.get(name, (start, end))[0], end)
    return ranges
