"""A model: a value beside a table, which is trained on the table's own rows and gives each of them a score.

A table that is scored says so (``scored_by`` in jobs/core/table.py) and has its columns ``SCORED`` from then on, empty
until a version of the model is promoted. Its rows are what the model is trained on, so the features of training are
those of scoring, by the same SQL over the same columns: there is nothing between the two that could differ. What is
known as of the event (a device's site, a count within an hour) is a column of the table, by the joins that tables have.

What is trained is a version, a value of its own (jobs/core/scored_rows.py).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from typing import Any, TypeAlias

from jobs.core.errors import DefinitionError
from jobs.core.scoring import feature_sql
from jobs.core.table import Appended
from quality.safe import hazards

VERSION, FEATURES, SCORE, UNUSUAL = SCORED = ("model_version", "features", "score", "is_unusual")
"""The columns of a scored table: the version that scored the row, its features in the version's order, the score, and
whether the score reaches the version's threshold; NULL at a time for which no version was promoted."""

METRICS = ("rows", "flagged", "positives", "precision", "recall", "f1")
"""What a check may demand: of the rows held out, their number, and the share of them that reach the threshold; and of a
model with a label, how many have it, and how well the threshold finds them."""

OF_LABEL = METRICS[2:]


@dataclass(frozen=True, slots=True, kw_only=True)
class Feature:
    """A number that is known of a row.

    Args:
        name: Its name.
        sql: Spark's SQL over the table's columns; native functions only, because real-time mode runs no Python.
        otherwise: The value of a row for which the SQL gives none.
    """

    name: str
    sql: str
    otherwise: str = "0"

    @property
    def exact(self) -> str:
        """Return SQL for its value, exact and never NULL."""
        return feature_sql(self.sql, self.otherwise)


@dataclass(frozen=True, slots=True, kw_only=True)
class Logistic:
    """Logistic regression; the score is the log-odds."""

    regularization: float = 0.001


@dataclass(frozen=True, slots=True, kw_only=True)
class Forest:
    """A decision tree, or a small forest of them; the score is the share of the label in the leaves."""

    trees: int = 1
    depth: int = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Clusters:
    """K-means over standardized features; the score is the squared distance to the nearest centre. It needs no label."""

    count: int = 1


Estimator: TypeAlias = Logistic | Forest | Clusters


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """What the check asks of a version: a metric of the rows held out, between two bounds.

    Args:
        metric: One of ``METRICS``.
        least: The lowest value that passes.
        most: The highest.
    """

    metric: str
    least: float | None = None
    most: float | None = None

    def complaint(self, found: float | None) -> str | None:
        """Return why a value does not pass, which is None where it was not measured; None where it does."""
        if found is None:
            return f"{self.metric} was not measured of it; train again"
        if self.least is not None and found < self.least:
            return f"{self.metric} is {found:,.4g}, and the check demands {self.least:,.4g} or more"
        if self.most is not None and found > self.most:
            return f"{self.metric} is {found:,.4g}, and the check demands {self.most:,.4g} or less"
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """A model of the rows of a table.

    Args:
        name: The module and the folder of its versions have it.
        of: The table that it is trained on and scores.
        features: What it looks at, in the order of the score's sum.
        estimator: How it learns.
        check: What a version must fulfil to be promoted.
        label: SQL for whether a row is what the model looks for, as it became known later; None where that is not known.
        flags: The share of the rows of its training that reach the threshold; None for even odds.
        held_out: The share of the time of its training, the last part, on which it is evaluated and does not learn.
        drifts: The population stability index at which the report warns (jobs/engine/learning/drift.py).
        alerts: Whether it raises alerts on events as they come. It can where its features are columns of the one
            judged table that its own table reads, under their names (jobs/rules/model_rule.py).
        about: What it looks for, in a line.
        owner: Who answers for it; the table's owner when empty.

    Raises:
        DefinitionError: It cannot be trained or scored.
    """

    name: str
    of: Appended
    features: tuple[Feature, ...]
    estimator: Estimator
    check: tuple[Demand, ...]
    label: str | None = None
    flags: Decimal | None = None
    held_out: float = 0.3
    drifts: float = 0.2
    alerts: bool = False
    about: str = ""
    owner: str = ""

    def __post_init__(self) -> None:
        """Refuse what cannot work, before anything is trained."""
        for sentence, hint in self._mistakes():
            raise DefinitionError(f"the model {self.name} {sentence}", hint=hint, model=self.name)
        object.__setattr__(self, "owner", self.owner or self.of.owner)

    @property
    def margin(self) -> timedelta:
        """Return how long before the first event that it scores a version must be promoted (``timeline.py`` has why)."""
        sources = self.of.upstream
        return max(source.lateness.early for source in sources) + MARGIN

    def against(self, certificate: Mapping[str, Any]) -> list[str]:
        """Return why a version must not be promoted, by its certificate.

        What was measured of another label says nothing about that which the model has now.
        """
        metrics = certificate["metrics"]
        if certificate["label"] != self.label:
            metrics = {name: value for name, value in metrics.items() if name not in OF_LABEL}
        return self.complaints(metrics)

    def complaints(self, metrics: Mapping[str, float]) -> list[str]:
        """Return why these metrics do not fulfil the check."""
        found = (each.complaint(metrics.get(each.metric)) for each in self.check)
        return [each for each in found if each]

    def _mistakes(self) -> list[tuple[str, str]]:
        wrong: list[tuple[str, str]] = []
        if self.of.scored_by != self.name:
            hint = f"add scored_by={self.name!r} to the TABLE of {self.of.id}."
            wrong.append((f"scores {self.of.id}, which does not say so", hint))
        if self.of.dimension:
            hint = "join the dimension in a table of its own, or score the rows without it."
            wrong.append(("scores a table whose dimension may change after the score", hint))
        if not self.features or len({each.name for each in self.features}) < len(self.features):
            wrong.append(("has no feature, or two of one name", "give each a name of its own."))
        if not self.check:
            hint = f"add check=(Demand(metric=…, least=…),) with one of {', '.join(METRICS)}."
            wrong.append(("has no check, so any version could be promoted", hint))
        needs = [] if isinstance(self.estimator, Clusters) else ["its estimator"]
        needs += [each.metric for each in self.check if each.metric in OF_LABEL]
        if self.label is None and needs:
            hint = "declare `label`, or take Clusters and demand rows and flagged."
            wrong.append((f"has no label, which is needed for {' and '.join(needs)}", hint))
        if isinstance(self.estimator, Clusters) and self.flags is None:
            wrong.append(
                ("has no natural threshold", "say with `flags` which share of the rows is unusual.")
            )
        unknown = [each.metric for each in self.check if each.metric not in METRICS]
        if unknown:
            wrong.append((f"checks {' and '.join(unknown)}", f"there are {', '.join(METRICS)}."))
        for name, sql in (*((f.name, f.sql) for f in self.features), ("label", self.label or "")):
            wrong += [(f"computes {name} by {sql!r}: {each}", ANY_ROW) for each in hazards(sql)]
        return wrong


MARGIN = timedelta(minutes=1)
"""Between the clocks of two machines, and from a promotion until a running stream or feed has read it."""

ANY_ROW = "a feature must have a value for every row, and always the same."
