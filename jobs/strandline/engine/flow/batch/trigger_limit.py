"""How much a streaming query reads at a trigger: whole commits of its sources, about as many rows as are wanted.

Spark takes a limit when a query starts, in files, and plans a batch by itself. So every planned batch is looked at
before it runs (jobs/strandline/engine/flow/batch/batch_writer.py). One that is much too large, or would end between the files
of a commit, is withdrawn, and the query is started again with another limit, which takes a few hundred milliseconds
of a batch of ten seconds. A stream that has caught up has no limit, and is never started again for one.
"""

from dataclasses import dataclass

from strandline.core.errors import DefinitionError
from strandline.core.table import Judged, Streamed, Table
from strandline.engine.flow.batch.governor import FULL, Governor
from strandline.engine.gates.gate_files import Where, read
from strandline.engine.lake.checkpoint.mend_checkpoint import withdraw
from strandline.engine.lake.checkpoint.spark_checkpoint import (
    NOWHERE,
    WHOLE,
    Planned,
    Positions,
    begins_whole,
    is_new,
    read_until,
    stream_id,
)
from strandline.engine.lake.files.place import Place
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.commit_log import is_commit
from strandline.engine.lake.log.ledger import Entry, is_passed_over, last_entry
from strandline.engine.lake.log.log_actions import added, table_id

# The next commits of a table that a stream has not read: whole commits, up to a number of rows.
#
# A batch must end between two commits. The files of one commit cover the same time, each for some partitions or keys, so
# a batch that ends among them would move the watermark past rows of the files that it leaves. Delta's own limits count
# files and bytes and end anywhere, so the limit is set to the number of files that whole commits have.


MOST_COMMITS = 1_000
"""A batch reads no more commits, however few rows they have; each is a file to open."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Next:
    """Whole commits that come next.

    Args:
        commits: How many of them have rows.
        files: Their files.
        rows: Their rows.
        is_all: Whether nothing is left after them.
    """

    commits: int
    files: int
    rows: int
    is_all: bool


def next_commits(path: Place, version: int, rows: int) -> Next:
    """Return the commits from a version on that have about so many rows together, at least one of them.

    Args:
        path: The table.
        version: The first that is not read.
        rows: The most rows that they should have.
    """
    commits = files = total = 0
    while is_commit(path, version):
        if not is_passed_over(path, version):
            part = added(path, version)
            is_too_much = total + part.rows > rows or commits >= MOST_COMMITS
            if commits and part.files and is_too_much:
                return Next(commits=commits, files=files, rows=total, is_all=False)
            if part.files:
                commits, files, total = commits + 1, files + len(part.files), total + part.rows
        version += 1
    return Next(commits=commits, files=files, rows=total, is_all=True)


def bytes_a_row(path: Place, version: int) -> int:
    """Return how many bytes of file a row has in the next commit that a stream reads; 0 where there is none."""
    while is_commit(path, version):
        if not is_passed_over(path, version) and (part := added(path, version)).rows:
            return part.bytes // part.rows
        version += 1
    return 0


EVERYTHING = 2**31 - 1

OVER = 1.5
"""A batch of up to this many times the size runs as it was planned."""


SURE = 2
"""This many processes that ended within a batch are no accident."""


class ReplanError(Exception):
    """A batch was withdrawn before it ran; the query is started again with another limit."""


class TriggerLimit:
    """The limits of one table's query."""

    def __init__(self, table: Streamed, lake: Lake, governor: Governor) -> None:
        """Prepare; the query is not started yet."""
        self._table = table
        self._lake = lake
        self._governor = governor
        self._checkpoint = lake.checkpoint(table)
        self._is_limited = False
        self._is_large = False

    def begin_large(self) -> None:
        """Begin a backlog with what memory bears: no other table is computed in this process at the same time.

        How much a row of a judged table needs was measured; a table above it may keep rows in Python.
        """
        self._is_large = isinstance(self._table, Judged)

    def files(self) -> dict[str, int]:
        """Return for each source the most files at a trigger; all of them where no more is left than the size."""
        if is_new(self._checkpoint) and begins_whole(self._checkpoint):
            return dict.fromkeys((source.id for source in self._table.upstream), EVERYTHING)
        following = self._following(read_until(self._checkpoint))
        if (
            self._is_large
            and self._governor.is_new
            and not all(e.is_all for e in following.values())
        ):
            self._governor.begin(self._bytes_a_row())
            following = self._following(read_until(self._checkpoint))
        self._is_limited = not all(each.is_all for each in following.values())
        return {name: EVERYTHING if each.is_all else each.files for name, each in following.items()}

    def refuse(self, plan: Planned, rows: int) -> None:
        """Withdraw a batch that should be planned again, before anything of it has run.

        Args:
            plan: The batch.
            rows: Its rows.

        Raises:
            ReplanError: It was withdrawn.
            DefinitionError: It cannot be made smaller, and processes have died of it.
        """
        if not rows or plan.whole:
            return
        is_well = _is_whole(plan) and not self._is_too_large(plan, rows)
        if is_well and not self._is_too_small(plan, rows):
            return
        if self._is_begun(plan.number):
            return
        withdraw(self._checkpoint, plan.number)
        raise ReplanError(f"batch {plan.number} of {self._table.id} with {rows:,} rows")

    def _is_too_large(self, plan: Planned, rows: int) -> bool:
        """Return whether a batch is much larger than the size, and another limit would make it smaller.

        Raises:
            DefinitionError: No limit would, and processes have died of it.
        """
        if rows <= self._governor.rows * OVER:
            return False
        if rows > self._rows_after(plan.start):
            return True
        self._refuse_deadly(rows)
        return False

    def _is_too_small(self, plan: Planned, rows: int) -> bool:
        """Return whether far more could be read: the limit is that of a smaller size, or of commits with more rows."""
        if not self._is_limited or rows >= self._governor.rows * FULL:
            return False
        return self._rows_after(plan.start) * FULL > rows

    def _refuse_deadly(self, rows: int) -> None:
        """Refuse a commit that is too large for the heap: a batch cannot end within it."""
        if self._governor.size.deaths >= SURE:
            sources = " and ".join(source.id for source in self._table.upstream)
            raise DefinitionError(
                f"one commit of {sources} has {rows:,} rows, and {self._governor.size.deaths} processes in a row "
                f"have ended while {self._table.id} read it",
                hint="a batch ends between two commits, so this one needs memory once: `STRANDLINE_MEMORY=4g strandline "
                f"run {self._table.id}`, or as much as the machine has; later commits are bounded.",
                table=self._table.id,
                rows=rows,
            )

    def begins(self, number: int, rows: int) -> None:
        """Mark a batch that is about to run."""
        self._governor.begins(number, rows)

    def failed(self, error: Exception) -> None:
        """Record that a batch failed."""
        self._governor.failed(error)

    def ended(self, entry: Entry) -> None:
        """Measure a batch that was committed."""
        self._governor.ended(entry)

    def chosen(self) -> int:
        """Return the most rows that the next batch should have."""
        return self._governor.rows

    def _rows_after(self, start: Positions) -> int:
        """Return the rows of the batch that a new limit would give."""
        return sum(each.rows for each in self._following(start).values())

    def _following(self, start: Positions) -> dict[str, Next]:
        share = self._governor.rows // len(self._table.upstream)
        return {
            source.id: _next(self._lake, source, start, share) for source in self._table.upstream
        }

    def _bytes_a_row(self) -> int:
        """Return the bytes of file that a row of the widest source has."""
        start = read_until(self._checkpoint)
        paths = map(self._lake.table, self._table.upstream)
        return max(bytes_a_row(each, start.get(table_id(each), NOWHERE).version) for each in paths)

    def _is_begun(self, number: int) -> bool:
        """Return whether a batch must stay as it was planned: its half is committed, its gate names it, or it has run here."""
        if self._governor.is_begun_here(number):
            return True
        stream = stream_id(self._checkpoint)
        gate = read(self._table, self._lake, Where.BEFORE)
        if gate is not None and gate.is_of(str(stream), number):
            return True
        if not isinstance(self._table, Judged):
            return False
        held = last_entry(self._lake.quarantine(self._table))
        return held is not None and held[1].stream == stream and held[1].batch >= number


def _is_whole(plan: Planned) -> bool:
    """Return whether a batch ends between two commits of each source of which it reads something."""
    return all(
        end.files == 0 or end.files >= WHOLE or end == plan.start.get(name)
        for name, end in plan.end.items()
    )


def _next(lake: Lake, source: Table, start: Positions, rows: int) -> Next:
    path = lake.table(source)
    return next_commits(path, start.get(table_id(path), NOWHERE).version, rows)
