"""An edit tried in a branch: tables are computed by the code of now from the newest records, beside the lake, and compared.

The tables below them are read where they are, at the version that the live tables have read, and only the newest records of
them are taken along. What is computed lies in a folder that is gone with the process. So a row that differs differs because of the
code, but for rows that a person's decision admitted or a repair made: a branch knows of neither.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from strandline.core.errors import DefinitionError
from strandline.core.feed import Feed
from strandline.core.lateness import LAST, in_utc, shifted
from strandline.core.stateful import Batch
from strandline.core.static import Static
from strandline.core.table import Ingested, Judged, Table, Windowed
from strandline.engine.flow import new_entry
from strandline.engine.flow.ingest import PROPERTIES
from strandline.engine.flow.runner import Site, run
from strandline.engine.gates.gate_files import open_all
from strandline.engine.lake import shelves
from strandline.engine.lake.commit import create_table, delta_commit
from strandline.engine.lake.commit.delta_commit import rows_at
from strandline.engine.lake.completeness import known_reach
from strandline.engine.lake.files.place import Place
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger import last_entry, latest_version
from strandline.engine.lake.log.ledger_sums import sums_of
from strandline.engine.lake.plain_files import scratch
from strandline.engine.lake.read import static_versions
from strandline.engine.lake.read.table_versions import pin_versions
from strandline.engine.proof.compare import Comparison, compare
from strandline.engine.repair.close import close_as

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
