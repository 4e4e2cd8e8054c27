"""Trials in a lake of their own: an edit is tried in a branch, by tables that the code of now computes from the newest records; a stream is killed between commits.

The tables below them are read where they are, at the version that the live tables have read, and only the newest records of
them are taken along. What is computed lies in a folder that is gone with the process. So a row that differs differs because of the
code, but for rows that a person's decision admitted or a repair made: a branch knows of neither.
"""

import json
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, TypeAlias

import psutil
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from strandline.core.errors import DefinitionError, TransientError
from strandline.core.kind import LAST, in_utc, shifted
from strandline.core.stateful import Batch
from strandline.core.static import Static
from strandline.core.table import Feed, Ingested, Judged, Table, Windowed
from strandline.core.topic import NOTHING_ARRIVED, ORDER, RECEIVED
from strandline.engine.accounting.balance_sheet import waiting
from strandline.engine.accounting.gate_files import open_all
from strandline.engine.flow import new_entry
from strandline.engine.flow.ingest import PROPERTIES, newest_credible
from strandline.engine.flow.query import is_settled
from strandline.engine.flow.runner import Site, run
from strandline.engine.lake import shelves, static_versions
from strandline.engine.lake.commit import create_table, delta_commit
from strandline.engine.lake.commit.delta_commit import rows_at
from strandline.engine.lake.completeness import known_reach
from strandline.engine.lake.duckdb_table import Duck, literal, scan, spilling
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.commit_log import is_commit
from strandline.engine.lake.log.ledger import BATCH, last_entry, latest_version
from strandline.engine.lake.log.ledger_sums import sums_of
from strandline.engine.lake.log.log_actions import added
from strandline.engine.lake.open_table import pin_versions
from strandline.engine.lake.place import Place
from strandline.engine.lake.plain_files import scratch
from strandline.engine.lake.snapshot_files import link_commit
from strandline.engine.proof.compare import Comparison, compare
from strandline.engine.repair.close import close_as
from strandline.engine.runtime.log_files import last_error, last_lines
from strandline.engine.runtime.processes import child, family, tied

FAR = timedelta(days=365 * 100)

Note = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Branch(Lake):
    """A lake beside another one, in which all tables are the other's but those that were put there.

    Args:
        live: The other lake.
        own: The names of those tables.
    """

    live: Lake
    own: frozenset[str]

    def table(self, table: Table | Feed | Static) -> Place:
        """Return the own folder of a table that was put here, and of a static one, which a run takes in; the live one of any other."""
        is_own = isinstance(table, Static) or table.id in self.own
        return Lake.table(self, table) if is_own else self.live.table(table)

    @property
    def schemas(self) -> Place:
        """Return the live folder: a branch reads payloads by the schemas that the lake knows."""
        return self.live.schemas


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """How a table would be.

    Args:
        table: Its name.
        since: From which event time on it was compared.
        seconds: How long its computation took.
        differences: How its rows differ from those of now; none for a table that is not in the lake.
        rows: The rows that the branch has.
    """

    table: str
    since: datetime
    seconds: float
    differences: Sequence[Comparison]
    rows: int


def tried(
    tables: Sequence[Table], lake: Lake, newest: timedelta, site: Site, note: Note
) -> Iterator[Tried]:
    """Compute tables by the code of now from the newest records below them, and yield how each differs.

    Args:
        tables: Silver and gold tables, each after those that it reads.
        lake: Their lake, of which nothing is changed.
        newest: How much event time is compared.
        site: Spark and the clock.
        note: Hears of each step.

    Raises:
        DefinitionError: A table below has no rows.
    """
    names = {each.id for each in tables}
    below = {each.id: each for table in tables for each in table.upstream if each.id not in names}
    read = {name: _version(each, tables, lake) for name, each in below.items()}
    until = _newest(list(below.values()), lake)
    since = until - newest
    begin = since - _margin(tables, lake)
    cut = {name: each for name, each in below.items() if _time_of(each) is not None}
    pinned = {lake.table(each): read[name] for name, each in below.items()}
    joined = {each: latest_version(lake.table(each)) for table in tables for each in table.static}
    with pin_versions(lake.root, pinned), scratch(lake.scratch) as root:
        branch = Branch(root / "branch", lake, frozenset({*names, *cut}))
        branch.open_for_writing()
        static_versions.carry(lake, branch, joined)
        shelves.carry(lake, branch, [each.scored_by for each in tables if each.scored_by])
        open_all(branch)
        for name, each in cut.items():
            rows = _take_along(each, lake, branch, read[name], begin, site)
            note(f"{name}: {rows:,} of its records are taken along, from {begin.isoformat()} on")
        for table in tables:
            note(f"{table.id}: computing it by the code of now …")
            close_as(table, lake, branch, site)
            done = run(table, Batch(), branch, site=site)
            yield Tried(
                table=table.id,
                since=since,
                seconds=done.seconds,
                differences=_differences(table, lake, branch, since),
                rows=done.good,
            )


def _version(source: Table, tables: Sequence[Table], lake: Lake) -> int:
    """Return the version of a table that its readers have all read."""
    readers = [each for each in tables if source in each.upstream and lake.exists(each)]
    seen = [sums_of(lake.table(each)).seen.get(source.id) for each in readers]
    known = [each for each in seen if each is not None]
    return min(known, default=latest_version(lake.table(source)))


def _time_of(source: Table) -> str | None:
    """Return the column by which the newest records of a table are found; None of one whose rows hold until something ends them."""
    if isinstance(source, Ingested):
        return "_arrived_at"
    return None if source.valid_until else source.event_at


def _newest(below: Sequence[Table], lake: Lake) -> datetime:
    found = []
    for each in below:
        last = last_entry(lake.table(each)) if lake.exists(each) else None
        text = last and (last[1].newest_arrival or last[1].newest)
        if text:
            found.append(in_utc(datetime.fromisoformat(text)))
    if not found:
        names = " and ".join(each.id for each in below)
        raise DefinitionError(
            f"{names} has no rows to try the edit with",
            hint="`strandline run` brings them.",
            tables=[each.id for each in below],
        )
    return max(found)


def _margin(tables: Sequence[Table], lake: Lake) -> timedelta:
    """Return by how much older records may decide what the newest rows are."""
    margin = timedelta(0)
    for each in tables:
        margin += (known_reach(each, lake) or timedelta(0)) + each.window_length
        if isinstance(each, Judged):
            margin += each.lateness.late + each.lateness.early
    return margin


def _take_along(  # noqa: PLR0913, PLR0917  # what, from where to where, and from when on
    source: Table, lake: Lake, branch: Branch, version: int, begin: datetime, site: Site
) -> int:
    rows: DataFrame = rows_at(site.spark, lake.table(source), version)
    rows = rows.where(F.col(str(_time_of(source))) >= F.lit(begin))
    path = branch.table(source)
    create_table.create(
        site.spark, path, rows.schema, properties=PROPERTIES if isinstance(source, Ingested) else {}
    )
    commit = delta_commit.Commit(site.spark, path)
    written = commit.write(rows).rows
    entry = new_entry.copied(source, "branch", "branch", 0, source=source.id, rows=written)
    commit.commit(entry.encoded())
    return written


def _differences(
    table: Table, lake: Lake, branch: Branch, since: datetime
) -> tuple[Comparison, ...]:
    if not lake.exists(table):
        return ()
    until = _closed_until(table, lake) or min(LAST, since + FAR)
    return tuple(
        compare(
            table,
            lake,
            branch,
            sides=("in the live table", "by the code of now"),
            may_differ=True,
            span=(since, max(since, until)),
        )
    )


def _closed_until(table: Table, lake: Lake) -> datetime | None:
    """Return the begin of the last window that the live table has; a branch has read more of its sources."""
    newest = last_entry(lake.table(table))
    if not isinstance(table, Windowed) or newest is None or not newest[1].watermark:
        return None
    return shifted(in_utc(datetime.fromisoformat(newest[1].watermark)), -table.window_length)


# Kill trial: give a stream one commit after the other, and kill it in between, until it has read them all.
#
# The log's commits are in another lake and appear to the stream one by one, as links: data files first and the commit
# last, as a writer would. The stream is the command that operators run, in a process of its own. If it ends with a
# transient error it is restarted, as on-call would do: with three Sparks on two cores such an error cost the
# certificate of a sound table after ten minutes.

PATIENCE = 300.0
"""Seconds until a started stream must write its first heartbeat."""

STILL, A_ROW = 300.0, 0.001
"""Seconds without a commit after which the stream counts as stuck, and the seconds added for each row of the log's
commit that it reads: a commit of 5 million rows took silver 370 s on two cores with other load."""

ENOUGH = 4.0
"""The longest time in seconds from a new commit to a kill; a batch of a hundred thousand rows takes about as long."""

LOOK = 0.2

WORD = 30.0
"""Seconds between messages that name the tables still reading, so that a long commit is not silent."""

TRIES = 3
"""How often a stream is restarted after a transient error; then the machine is not fit for a verification."""


@dataclass(slots=True, kw_only=True)
class KillTrial:
    """One stream on trial.

    Args:
        tables: The silver and gold tables to stream.
        log: A lake with the bronze tables in the commits to show.
        lake: An empty lake for the stream.
        kills: How often to kill it.
        seed: The seed of the moments of the kills.
        note: Is called with a line for each step.
    """

    tables: Sequence[Table]
    log: Lake
    lake: Lake
    kills: int
    seed: int
    note: Callable[[str], None]
    _process: "subprocess.Popen[bytes]" = field(init=False)
    _again: int = 0

    def run(self) -> None:
        """Stream the whole log.

        Raises:
            TransientError: The stream makes no progress.
        """
        chance = random.Random(f"{self.seed} kills")  # noqa: S311  # no secret
        commits = max((latest_version(self.log.table(t)) for t in self._bronze()), default=0)
        doomed = sorted(chance.choices(range(1, commits + 1), k=self.kills)) if commits else []
        self._show(0)
        span = ENOUGH
        self._start()
        try:
            for number in range(1, commits + 1):
                self._await_life()
                self._show(number)
                begun = time.monotonic()
                for _ in range(doomed.count(number)):
                    time.sleep(chance.uniform(0, span))
                    self._kill()
                    self.note(f"killed the stream during commit {number} of {commits}")
                    self._start()
                    self._await_life()
                    begun = time.monotonic()
                self._wait(number)
                took = time.monotonic() - begun
                span = min(took, ENOUGH)
                self.note(f"streamed commit {number} of {commits} in {took:.1f} s")
        finally:
            self._end()

    def _bronze(self) -> list[Table]:
        sources = {t.id: t for table in self.tables for t in table.upstream}
        return [table for table in sources.values() if isinstance(table, Ingested)]

    def _show(self, number: int) -> None:
        """Link the commit with this number of each bronze table into the lake of the stream."""
        for table in self._bronze():
            source, target = self.log.table(table), self.lake.table(table)
            if is_commit(source, number):
                link_commit(source, target, number)

    def _wait(self, number: int) -> None:
        """Wait until every table has read all shown commits."""
        progress, moved_at = "", time.monotonic()
        begun = noted_at = moved_at
        still = STILL + A_ROW * sum(self._rows(table, number) for table in self._bronze())
        while not all(self._is_settled(table) for table in self.tables):
            self._tend()
            if time.monotonic() - noted_at > WORD:
                noted_at = time.monotonic()
                reading = [table.id for table in self.tables if not self._is_settled(table)]
                took = f"{noted_at - begun:.0f} s on commit {number}"
                self.note(f"{took}, not yet read by {', '.join(reading)}")
            now = str([latest_version(self.lake.table(table)) for table in self.tables])
            if now != progress:
                progress, moved_at = now, time.monotonic()
            if time.monotonic() - moved_at > still:
                raise self._stuck(f"it committed nothing for {still:.0f} s")
            time.sleep(LOOK)

    def _rows(self, table: Table, number: int) -> int:
        """Return the rows of a commit of the log; 0 if the table has fewer commits than another."""
        path = self.log.table(table)
        return added(path, number).rows if number <= latest_version(path) else 0

    def _await_life(self) -> None:
        """Wait until the process writes a heartbeat, so that its queries run: an earlier kill would prove little."""
        deadline = time.monotonic() + PATIENCE
        while self._beating() != self._process.pid:
            self._tend()
            if time.monotonic() > deadline:
                raise self._stuck(f"it wrote no heartbeat in {PATIENCE:.0f} s")
            time.sleep(LOOK)

    def _tend(self) -> None:
        """Restart the stream if it has ended with a transient error."""
        code = self._process.poll()
        if code is None:
            return
        if code != TransientError.exit_code or self._again == TRIES:
            raise self._stuck("it ended by itself")
        self._again += 1
        why, _, _ = last_error(self.lake.log("rehearsal").local).partition(" hint: ")
        self.note(f"started the stream again, {why}")
        self._start()

    def _beating(self) -> int | None:
        try:
            return int(json.loads(self.lake.heartbeat.text() or "")["pid"])
        except (OSError, ValueError):
            return None

    def _is_settled(self, table: Table) -> bool:
        if not self.lake.exists(table):
            return False
        return waiting(table, self.lake) == 0 and is_settled(table, self.lake)

    def _start(self) -> None:
        names = [table.id for table in self.tables]
        command = [sys.executable, "-m", "strandline.cli", "stream", *names, "--every", "100ms"]
        command += ["--lake", str(self.lake.root)]
        self._process = child(command, log=self.lake.program_log("rehearsal"), environment=tied())

    def _kill(self) -> None:
        """End the process and its JVM as a power cut would."""
        victims = family(self._process.pid)
        for process in victims:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        self._process.wait()
        psutil.wait_procs(victims, timeout=30)

    def _end(self) -> None:
        if self._process.poll() is not None:
            return
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(60)
        except subprocess.TimeoutExpired:
            self._kill()

    def _stuck(self, why: str) -> TransientError:
        last = last_lines(self.lake.log("rehearsal").local, 6)
        return TransientError(
            f"the stream of the verification makes no progress: {why}\n  " + "\n  ".join(last),
            hint="check the machine's load and memory, then verify again.",
        )


# Split a bronze log into other commits: the same log as another run might have read it.
#
# A cut follows bronze's own order, so a commit is divided but no two commits are ever mixed; every run of the same topic
# could have made these slices. The cuts are rows drawn at random, so all new commits have about the same size, whatever
# the live table's commits were. Rows that follow a cut within a commit get the newest arrival up to the cut, as in that
# other run; no row is behind it, because arrivals ascend within a commit.
#
# Imported rows are in no commit that a stream reads, so they are added afterwards (jobs/strandline/engine/proof/verify.py). Where
# they came before any stream had read a row, the streams began with them, and so does the log: they are its first commit,
# together with what bronze had of Kafka by then. Those rows are in the order that held before the history, and a stream that
# began with the history alone would drop the older ones below its watermark.
#
# The numbers of rows by commit and minute of arrival locate a drawn row, so only the rows of that minute are sorted.
# Five million rows in one commit, as a backlog is read, took 0.25 GB of memory and 10 s; sorting that commit at each cut
# took 0.77 GB and 28 s, and sorting the log 0.9 GB.


PLACES = ", ".join(f'"{name}"' for name in ORDER)
RECUT = "CREATE VIEW log AS SELECT * FROM received WHERE _partition >= 0"
MINUTE = "epoch_us(_arrived_at) // 60_000_000"
SPANS = f"""
    CREATE TEMP TABLE spans AS
    SELECT _batch, minute, sum(rows) OVER so_far - rows AS since, sum(rows) OVER so_far AS until
    FROM (SELECT _batch, {MINUTE} AS minute, count(*) AS rows FROM log GROUP BY ALL)
    WINDOW so_far AS (ORDER BY _batch, minute)
"""  # noqa: S608  # our own names
HOLDING = "SELECT _batch, minute, since FROM spans WHERE since <= $number AND $number < until"
WITHIN = (
    f"SELECT {PLACES} FROM log WHERE _batch = $batch AND {MINUTE} = $minute "  # noqa: S608  # as above
    f"ORDER BY {PLACES} LIMIT 1 OFFSET $before"
)

NEWEST = f"""
    SELECT {newest_credible("epoch_us(_ingested_at)")} FROM log
    WHERE _batch = $batch AND _arrived_at <= $arrived
"""  # noqa: S608  # our own names

Row: TypeAlias = tuple[Any, ...]
"""The values of a row in the columns of bronze's order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Log:
    """A bronze table up to a version."""

    table: Ingested
    path: Place
    version: int

    @property
    def history_ends(self) -> Mapping[str, int]:
        """Return how many rows of files streams began with, by the partition of their topic."""
        return sums_of(self.path, self.version).history_ends

    @property
    def history(self) -> datetime | None:
        """Return the newest arrival of history with which streams began; None where none came before them."""
        newest = sums_of(self.path, self.version).history
        return datetime.fromisoformat(newest) if newest else None

    def is_first(self) -> Column:
        """Return whether a row came before any stream began: history, or a record of Kafka that was there before it."""
        is_older = F.coalesce("_newest_before", F.lit(NOTHING_ARRIVED)) < F.lit(self.history)
        return self.is_history() | ((F.col("_partition") >= 0) & is_older)

    def is_history(self) -> Column:
        """Return whether a row is one of those of files with which streams began."""
        mine = F.lit(False)
        for part, end in self.history_ends.items():
            topic, _, _ = part.rpartition("/")
            mine |= (F.col("_topic") == topic) & (F.col("_offset") < end)
        return (F.col("_batch") == BATCH) & mine


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """The last row before a cut, and the newest arrival in its commit up to it, in microseconds since 1970."""

    place: Row
    newest_arrival: int | None


def resplit(
    spark: SparkSession, log: Log, lake: Lake, *, commits: int, chance: random.Random
) -> list[int]:
    """Write a log into another lake in a number of commits, and return the number of rows of each."""
    path = lake.table(log.table)
    create_table.create(spark, path, log.table.received, properties=PROPERTIES)
    rows = spark.read.format("delta").option("versionAsOf", log.version).load(str(log.path))
    later = rows.where("_partition >= 0")
    if log.history:
        later = later.where(~log.is_first())
    parts = [*_parts(later, _cuts(log, commits, chance))]
    if log.history:
        parts.insert(0, rows.where(log.is_first()))
    return [_append(spark, log.table, path, number, part) for number, part in enumerate(parts)]


def _append(spark: SparkSession, table: Table, path: Place, number: int, part: DataFrame) -> int:
    commit = delta_commit.Commit(spark, path)
    written = commit.write(part).rows
    entry = new_entry.copied(table, "verify", "recut", number, source=str(path.name), rows=written)
    commit.commit(entry.encoded())
    return written


def _cuts(log: Log, commits: int, chance: random.Random) -> list[Cut]:
    """Draw the cuts of a log, in bronze's order."""
    with spilling() as engine:
        scan(engine, "received", log.path, log.version)
        after = literal(log.history.isoformat()) if log.history else None
        engine.execute(RECUT + (f" AND _newest_before >= TIMESTAMPTZ {after}" if after else ""))
        engine.execute(SPANS)
        counted = engine.execute("SELECT max(until) FROM spans").fetchone()
        total = int((counted or (0,))[0] or 0)
        # Python draws them and not DuckDB, because DuckDB's rows for a seed may change with its version.
        drawn = chance.sample(range(total), min(commits - 1, total))
        return [_at(engine, number) for number in sorted(drawn)]


def _at(engine: Duck, number: int) -> Cut:
    """Return the cut after the row of a number in bronze's order; only the minute of its commit is sorted."""
    ((batch, minute, since),) = engine.execute(HOLDING, {"number": number}).fetchall()
    span = {"batch": batch, "minute": minute, "before": number - since}
    (place,) = engine.execute(WITHIN, span).fetchall()
    upto = {"batch": batch, "arrived": place[ORDER.index("_arrived_at")]}
    (newest,) = engine.execute(NEWEST, upto).fetchall()[0]
    return Cut(place=place, newest_arrival=newest)


def _parts(rows: DataFrame, cuts: list[Cut]) -> Iterator[DataFrame]:
    place = F.struct(*ORDER)
    for low, high in zip([None, *cuts], [*cuts, None], strict=True):
        part = rows
        # The place implies the condition on the batch, but Delta skips files only by the latter.
        if low is not None:
            part = part.where((F.col(ORDER[0]) >= low.place[0]) & (place > _place(low.place)))
            part = part.withColumn("_newest_before", _newest_before(low))
        if high is not None:
            part = part.where((F.col(ORDER[0]) <= high.place[0]) & (place <= _place(high.place)))
        yield part


def _newest_before(cut: Cut) -> Column:
    """Return the newest arrival before a row that follows a cut; the cut may be within the row's commit."""
    known = F.col("_newest_before")
    if cut.newest_arrival is None:
        return known
    same = F.col(ORDER[0]) == cut.place[0]
    return F.when(
        same & known.isNotNull(), F.greatest(known, F.timestamp_micros(F.lit(cut.newest_arrival)))
    ).otherwise(known)


def _place(cut: Row) -> Column:
    kinds = {field.name: field.dataType for field in RECEIVED}
    values = [F.lit(value).cast(kinds[n]).alias(n) for n, value in zip(ORDER, cut, strict=True)]
    return F.struct(*values)
