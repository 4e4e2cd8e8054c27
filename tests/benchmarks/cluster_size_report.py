"""The report on a cluster beside one machine: what a batch takes there, and how fast a backlog is read."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median, quantiles

METHOD = """\
The chain of three tables in four places, one after the other: by Spark's threads (two) over a disk and over a real S3 server (SeaweedFS), and over that server by \
a standalone cluster of one and of two executors with a core each. All of it, driver, executors, server and broker, shares the two cores of one machine, so a second \
executor has no core of its own: what it costs to distribute the work is measured, what it gains is not.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What was seen in one place.

    Args:
        name: The place.
        run: Seconds of the run that read the backlog, with Spark's start.
        rates: Rows a second of each table in that run, by the durations of its ledger entries.
        seconds: From the sending of a hundred events until gold had read them.
        batches: Seconds of each batch of each table meanwhile, from its start to its commit.
    """

    name: str
    run: float
    rates: Mapping[str, float]
    seconds: Sequence[float]
    batches: Mapping[str, Sequence[float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """One run of the benchmark."""

    machine: Mapping[str, object]
    backlog: int
    places: Sequence[Measured]

    def page(self) -> str:
        """Return the page in Markdown."""
        return "\n".join(
            [
                "# A cluster beside one machine",
                "",
                "Made by `python -m tests.benchmarks.cluster_size`.",
                f"Machine: {', '.join(f'{name} {value}' for name, value in self.machine.items())}.",
                "",
                METHOD,
                "## A warm micro-batch of 100 rows, from Kafka to gold",
                "",
                *self._batches(),
                "",
                f"## A backlog of {self.backlog:,} events",
                "",
                *self._rates(),
                "",
            ]
        )

    def _batches(self) -> Iterator[str]:
        tables = [*self.places[0].batches]
        yield f"| where | median, s | p90, s | times the disk's | {' | '.join(f'{each}, s' for each in tables)} |"
        yield f"|---|{'---:|' * (3 + len(tables))}"
        base = median(self.places[0].seconds)
        for place in self.places:
            middle, high = median(place.seconds), quantiles(place.seconds, n=10)[-1]
            parts = " | ".join(f"{median(place.batches[each]):.2f}" for each in tables)
            yield f"| {place.name} | {middle:.2f} | {high:.2f} | {middle / base:.2f} | {parts} |"

    def _rates(self) -> Iterator[str]:
        tables = [*self.places[0].rates]
        yield f"| where | whole run, s | {' | '.join(f'{each}, rows/s' for each in tables)} | times the disk's, silver |"
        yield f"|---|{'---:|' * (2 + len(tables))}"
        silver = tables[1]
        base = self.places[0].rates[silver]
        for place in self.places:
            parts = " | ".join(f"{place.rates[each]:,.0f}" for each in tables)
            yield f"| {place.name} | {place.run:.0f} | {parts} | {place.rates[silver] / base:.2f} |"
