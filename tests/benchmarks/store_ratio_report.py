"""The report on micro-batches on an object store beside those on a local disk: the ratio, and where the time goes."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median, quantiles

DISK, NEAR, FAR = "disk", "store", "store and network"
STEPS = {"__init__": "begin a commit", "write": "write files", "commit": "commit"}
"""The steps of a commit (jobs/strandline/engine/lake/commit/delta_commit.py)."""
SPARK = {
    "latestOffset": "find what is new",
    "walCommit": "write the plan of the batch",
    "queryPlanning": "plan the query",
    "addBatch": "run the batch",
    "commitOffsets": "mark it as done, with the state",
    "triggerExecution": "the whole trigger",
}
"""The parts of a trigger as Spark measures them; ``addBatch`` has all of ours in it."""
METHOD = """\
One process and one Spark; bronze, silver and gold of each lake follow the same topic, in turns (disk, store, store and network, and back), a batch of 100 readings \
at a time, each after the one before has reached gold. The first batches of a turn are not counted. The store is a real S3 server (SeaweedFS) on loopback behind \
a relay; *network* waits {delay:.0f} ms before each request. Seconds are medians; all batches of a table share two cores with the two other tables, which are idle or follow.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """What a batch took.

    Args:
        lake: Where.
        table: Of which table.
        before: The seconds from its start until it commits, as its ledger entry has them.
        ours: The seconds of each step of its commits.
        spark: The seconds of each part of its trigger; none for bronze, which is no query of Spark.
    """

    lake: str
    table: str
    before: float
    ours: Mapping[str, float]
    spark: Mapping[str, float]

    @property
    def seconds(self) -> float:
        """Return the seconds of the whole trigger; of bronze those to the end of its commit."""
        return self.spark.get("triggerExecution", self.before + self.ours.get("commit", 0.0))

    @property
    def rest(self) -> float:
        """Return the seconds that the program of the batch takes beside its commits."""
        whole = self.spark.get("addBatch", self.seconds)
        return max(0.0, whole - sum(self.ours.values()))


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """One run of the benchmark."""

    machine: Mapping[str, object]
    delay: float
    batches: Sequence[Batch] = field(repr=False)

    def write(self, folder: Path) -> None:
        """Write the page."""
        (folder / "store_ratio.md").write_text(self.page())

    def page(self) -> str:
        """Return the page in Markdown."""
        return "\n".join(
            [
                "# A micro-batch on an object store beside a local disk",
                "",
                "Made by `python -m tests.benchmarks.store_ratio`.",
                f"Machine: {', '.join(f'{name} {value}' for name, value in self.machine.items())}.",
                "",
                METHOD.format(delay=self.delay),
                "## A warm batch of 100 rows",
                "",
                *self._ratios(),
                "",
                "## Where the time goes",
                "",
                *self._parts(),
                "",
            ]
        )

    def _ratios(self) -> Iterator[str]:
        yield "| table | where | batches | median, s | p90, s | times the disk's |"
        yield "|---|---|---:|---:|---:|---:|"
        for table in self._tables():
            disk = median(each.seconds for each in self._of(DISK, table))
            for lake in (DISK, NEAR, FAR):
                seconds = [each.seconds for each in self._of(lake, table)]
                high = quantiles(seconds, n=10)[-1]
                yield (
                    f"| {table} | {lake} | {len(seconds)} | {median(seconds):.2f} | {high:.2f} "
                    f"| {median(seconds) / disk:.2f} |"
                )

    def _parts(self) -> Iterator[str]:
        yield f"| table | part | {DISK}, s | {NEAR}, s | {FAR}, s |"
        yield "|---|---|---:|---:|---:|"
        for table in self._tables():
            for step, words in STEPS.items():
                yield self._row(table, words, lambda each, step=step: each.ours.get(step, 0.0))  # type: ignore[misc]  # called at once
            yield self._row(table, "the rest of the batch", lambda each: each.rest)
            for step, words in SPARK.items():
                if any(each.spark for each in self._of(DISK, table)):
                    yield self._row(
                        table,
                        f"`{step}`: {words}",
                        lambda each, step=step: each.spark.get(step, 0.0),  # type: ignore[misc]  # called at once
                    )

    def _row(self, table: str, words: str, of: Callable[[Batch], float]) -> str:
        cells = (
            f"{median(of(each) for each in self._of(lake, table)):.3f}"
            for lake in (DISK, NEAR, FAR)
        )
        return f"| {table} | {words} | {' | '.join(cells)} |"

    def _of(self, lake: str, table: str) -> list[Batch]:
        return [each for each in self.batches if (each.lake, each.table) == (lake, table)]

    def _tables(self) -> list[str]:
        return list(dict.fromkeys(each.table for each in self.batches))
