"""A metric: its name as Prometheus wants it, what it means, its labels; and a sample of it.

The page of metrics (jobs/strandline/engine/service/metrics_page.py), the table of the documentation, the dashboard and the alert rules are
checked against these values, so a name is written in one place.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Metric:
    """A figure that is exposed.

    Args:
        name: With its unit; the name of a counter ends in ``_total``.
        means: What it is, in a sentence.
        labels: The names of its labels.
    """

    name: str
    means: str
    labels: tuple[str, ...] = ()

    @property
    def is_counter(self) -> bool:
        """Return whether it only grows, until its source begins anew."""
        return self.name.endswith("_total")

    def of(self, value: float, *labels: object) -> "Sample":
        """Return a sample; the labels in their order."""
        return Sample(metric=self, labels=tuple(map(str, labels)), value=float(value))


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """The value of a metric at a look."""

    metric: Metric
    labels: tuple[str, ...]
    value: float
