"""Writing silver: good rows to the table, the others to its quarantine, each exactly once.

The quarantine is written first and only when there is something for it, the table with the ledger entry last:
a crash between the two leaves a quarantine that is one batch ahead, and the batch, when it comes again, skips that half.
The table's guard (jobs/strandline/engine/gates/batch_check.py) is asked before both: a batch that fails is written to neither.
"""

from collections import Counter
from dataclasses import dataclass, replace

from pyspark import StorageLevel
from pyspark.sql import DataFrame

from strandline.core.errors import DefinitionError, TransientError
from strandline.core.table import Judged
from strandline.core.verdict import bad_rows, good_rows
from strandline.engine.gates.batch_check import Guard, counted
from strandline.engine.pipeline.function_counts import Watch
from strandline.engine.pipeline.history_copies import without_copies
from strandline.engine.runtime.meter import Meter
from strandline.engine.storage import delta_commit
from strandline.engine.storage.ledger import Entry, between, last_entry, latest_version
from strandline.engine.storage.locks import turn
from strandline.engine.storage.output_files import sized
from strandline.engine.storage.place import Place

FOUND = ("broke", "failed", "opened", "rules", "contract", "newest")
"""What a guard adds to an entry."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fork:
    """The two tables that one query fills."""

    table: Judged
    path: Place
    quarantine: Place
    guard: Guard | None
    replaces: bool = False

    def write(
        self,
        rows: DataFrame,
        entry: Entry,
        meter: Meter,
        watch: Watch,
        *,
        held_already: bool = False,
    ) -> Entry | None:
        """Write the good rows to the table and the others to its quarantine.

        Args:
            rows: Judged and deduplicated; read once.
            entry: The entry of the batch, without the numbers of good rows and of held ones.
            meter: Measures the batch.
            watch: Finds what the table's function lost and made of the batch.
            held_already: Whether the quarantine was written before a crash.

        Raises:
            GateShutError: The batch fails its checks; nothing was written.
            DefinitionError: The quarantine was written before a crash, by other rules.
            TransientError: A repair has brought rows meanwhile, of which one may be a copy of one of the batch.
        """
        kept = rows.persist(StorageLevel.MEMORY_AND_DISK)
        may_compare = self.table.believes_history and not self.replaces
        version = latest_version(self.path) if may_compare else None
        try:
            believed = without_copies(kept, self.table, None if self.replaces else self.path)
            compared_at = None if believed is kept else version
            judged = counted(believed, self.table)
            good, held = judged.good, judged.held
            entry = entry.settled(
                good=good,
                held=held,
                dropped=entry.dropped_by_watermark,
                through=watch.through(kept),
            )
            if not entry.read and not self.replaces:
                return None
            if held_already:
                entry = self._as_begun(entry, held)
            elif self.guard:
                entry = self.guard.admit(entry, judged, believed)
            if (held or self.replaces) and not held_already:
                self._put(self.quarantine, bad_rows(kept, self.table), held.total(), entry, meter)
            final = self._put(self.path, good_rows(believed), good, entry, meter, compared_at)
            if self.guard:
                self.guard.passed(final.stream, final.batch)
            return final
        finally:
            kept.unpersist()

    def _as_begun(self, entry: Entry, held: Counter[str]) -> Entry:
        """Continue a batch that passed its checks before a crash; they are not repeated."""
        newest = last_entry(self.quarantine)
        begun = newest[1] if newest else entry
        if Counter(begun.quarantined) != held:
            raise DefinitionError(
                f"batch {entry.batch} of {self.table.id} was interrupted when its quarantine was written, "
                "and today's rules hold back other rows of it",
                hint="run it once with the code that began it; then change the rules, "
                f"and `strandline quarantine replay {self.table.id}`.",
                table=self.table.id,
                batch=entry.batch,
            )
        return replace(entry, **{name: getattr(begun, name) for name in FOUND})

    def _put(  # noqa: PLR0913, PLR0917  # what is written, where, and what it was compared with
        self,
        path: Place,
        rows: DataFrame,
        count: int,
        entry: Entry,
        meter: Meter,
        compared_at: int | None = None,
    ) -> Entry:
        commit = delta_commit.Commit(rows.sparkSession, path)
        if self.replaces:
            commit.take_out_all()
        written = commit.write(sized(rows, count)).rows if count else 0
        final = entry.closed(written=written, wall_ms=meter.wall_ms(), cpu_ms=meter.cpu_ms())
        if compared_at is None:
            commit.commit(final.encoded())
            return final
        with turn(rows.sparkSession, path):
            if self._is_repaired_since(compared_at):
                commit.abandon()
                raise TransientError(
                    f"a repair has brought rows to {self.table.id} while a batch was compared with it",
                    hint="start it again: the batch is compared anew. A stream does so by itself.",
                    table=self.table.id,
                )
            commit.commit(final.encoded())
        return final

    def _is_repaired_since(self, version: int) -> bool:
        """Return whether a repair has brought rows since a batch was compared with the table: one may be its copy."""
        later = between(self.path, version + 1, latest_version(self.path))
        return any(entry.is_backfill and entry.came for entry in later)
