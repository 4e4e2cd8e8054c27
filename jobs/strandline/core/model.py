"""A model: a value beside a table, which is trained on the table's own rows and gives each of them a score.

A table that is scored says so (``scored_by`` in jobs/strandline/core/table.py) and has its columns ``SCORED`` from then on, empty
until a version of the model is promoted. Its rows are what the model is trained on, so the features of training are
those of scoring, by the same SQL over the same columns: there is nothing between the two that could differ. What is
known as of the event (a device's site, a count within an hour) is a column of the table, by the joins that tables have.

What is trained is a version, a value of its own: a form that compiles to SQL, whose scores are the same numbers in every mode.
The arithmetic is in decimals, in one order, in one expression: each product is rounded to nine digits before it is
added, and the sum to six at the end. So no score depends on how Spark cut, shuffled or generated code for the rows,
and real-time mode, which runs no Python, computes what a batch computes. Doubles would not do: MLlib's own prediction
adds in an order that its linear algebra library chooses, and the last digit of an exponential is the processor's.

A logistic model's score is therefore its log-odds and not a probability; 0 means even odds. A tree's score is the share
of the rows in its leaf that had the label. The score of ``Nearest`` is the squared distance to the nearest centre, in
standard deviations; with one centre that is the sum of squared z-scores.

No expression can overflow, because an error would end a stream in ANSI mode: features have at most 12 digits before the
point, weights 6, and what is beyond a bound is the bound.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from decimal import ROUND_FLOOR, ROUND_HALF_UP, Decimal
from typing import Any, TypeAlias

from strandline.core.declared import PART, SHARE, Bounds, Mistake, no_number, no_tuple
from strandline.core.errors import DataError, DefinitionError
from strandline.core.table import Appended
from strandline_quality.rules import hazards

FEATURE_TYPE, WEIGHT_TYPE, PART_TYPE, SCORE_TYPE = (
    "DECIMAL(18,6)",
    "DECIMAL(18,9)",
    "DECIMAL(30,9)",
    "DECIMAL(18,6)",
)
MOST = 999_999_999
"""The largest score; a larger one is this."""

FARTHEST = 9_999
"""The most standard deviations that a feature counts."""

HEAVIEST = Decimal(1_000_000)
NANO, MICRO = Decimal("1e-9"), Decimal("1e-6")


@dataclass(frozen=True, slots=True, kw_only=True)
class Linear:
    """A weighted sum of the features.

    Args:
        intercept: What is added.
        weights: One for each feature, as text; floats have no place in a file that must be read back exactly.
    """

    intercept: str
    weights: tuple[str, ...]

    def sql(self) -> str:
        """Return SQL for the score of a row with ``features``."""
        parts = (
            f"CAST({_feature(at)} * {_literal(weight, WEIGHT_TYPE)} AS {PART_TYPE})"
            for at, weight in enumerate(self.weights)
        )
        return _bounded(_sum([_literal(self.intercept, PART_TYPE), *parts]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A question of a tree, or a leaf, which has a value and asks nothing.

    Args:
        feature: The place of the feature that is compared.
        at_most: The bound; a feature up to it goes to the left.
        left: The place of the next node among those of the tree.
        right: The same for a feature beyond the bound.
        value: The value of a leaf.
    """

    feature: int = -1
    at_most: str = ""
    left: int = -1
    right: int = -1
    value: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trees:
    """The sum of the leaves of one tree or several; each leaf is divided by their number beforehand."""

    trees: tuple[tuple[Node, ...], ...]

    def sql(self) -> str:
        """Return SQL for the score of a row with ``features``."""
        return _bounded(_sum([_tree(nodes, 0) for nodes in self.trees]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Nearest:
    """The squared distance to the nearest of some centres, in standard deviations.

    Args:
        means: The mean of each feature.
        scales: One divided by its standard deviation; zero for a feature that never varied.
        centres: The centres, in standard deviations from the means.
    """

    means: tuple[str, ...]
    scales: tuple[str, ...]
    centres: tuple[tuple[str, ...], ...]

    def sql(self) -> str:
        """Return SQL for the score of a row with ``features``."""
        far = [
            _sum([self._squared(at, each) for at, each in enumerate(centre)])
            for centre in self.centres
        ]
        return _bounded(far[0] if len(far) == 1 else f"least({', '.join(far)})")

    def standard(self, at: int) -> str:
        """Return SQL for a feature in standard deviations."""
        apart = f"({_feature(at)} - {_literal(self.means[at], FEATURE_TYPE)})"
        z = f"CAST({apart} * {_literal(self.scales[at], WEIGHT_TYPE)} AS {PART_TYPE})"
        return f"CAST({_clipped(z, FARTHEST)} AS DECIMAL(10,6))"

    def _squared(self, at: int, centre: str) -> str:
        apart = f"({self.standard(at)} - {_literal(centre, 'DECIMAL(10,6)')})"
        return f"CAST({apart} * {apart} AS {PART_TYPE})"


Form: TypeAlias = Linear | Trees | Nearest


def as_words(form: Form) -> dict[str, Any]:
    """Return a form as JSON values."""
    return {"kind": type(form).__name__.lower(), **asdict(form)}


def from_words(words: Mapping[str, Any]) -> Form:
    """Return the form of JSON values."""
    match words["kind"]:
        case "linear":
            return Linear(intercept=words["intercept"], weights=tuple(words["weights"]))
        case "trees":
            trees = (tuple(Node(**node) for node in tree) for tree in words["trees"])
            return Trees(trees=tuple(trees))
        case _:
            return Nearest(
                means=tuple(words["means"]),
                scales=tuple(words["scales"]),
                centres=tuple(map(tuple, words["centres"])),
            )


def weight(value: float) -> str:
    """Return a learnt number as text of nine digits behind the point.

    Raises:
        DataError: It is none, or too large to be multiplied exactly.
    """
    if not math.isfinite(value) or abs(value) >= HEAVIEST:
        raise DataError(
            f"the estimator learnt the weight {value}, and a weight is below {HEAVIEST:,}",
            hint="divide or multiply the feature in the model's SQL, so that its values are of the size of 1 to 1,000.",
        )
    return format(Decimal(repr(value)).quantize(NANO, ROUND_HALF_UP), "f")


def micro(value: float) -> str:
    """Return a learnt number of the size of a feature as text of six digits behind the point."""
    return format(Decimal(repr(value)).quantize(MICRO, ROUND_HALF_UP), "f")


def bound(value: float) -> str:
    """Return a tree's bound, rounded down to a feature's digits, so that the same features are at most it."""
    return format(Decimal(repr(value)).quantize(MICRO, ROUND_FLOOR), "f")


def feature_sql(sql: str, otherwise: str) -> str:
    """Return SQL for a feature as it is counted: exact, and never NULL."""
    return f"coalesce(try_cast(({sql}) AS {FEATURE_TYPE}), {_literal(otherwise, FEATURE_TYPE)})"


def _tree(nodes: Sequence[Node], at: int) -> str:
    node = nodes[at]
    if node.left < 0:
        return _literal(node.value, PART_TYPE)
    asked = f"{_feature(node.feature)} <= {_literal(node.at_most, FEATURE_TYPE)}"
    return f"if({asked}, {_tree(nodes, node.left)}, {_tree(nodes, node.right)})"


def _sum(parts: Sequence[str]) -> str:
    """Return SQL for a sum, from the first part to the last, each step at the same number of digits."""
    total = parts[0]
    for part in parts[1:]:
        total = f"CAST({total} + {part} AS {PART_TYPE})"
    return total


def _bounded(sql: str) -> str:
    return f"CAST({_clipped(sql, MOST)} AS {SCORE_TYPE})"


def _clipped(sql: str, most: int) -> str:
    return f"least(greatest({sql}, {_literal(str(-most), PART_TYPE)}), {_literal(str(most), PART_TYPE)})"


def _feature(at: int) -> str:
    return f"get(features, {at})"


def _literal(number: str, kind: str) -> str:
    return f"CAST('{number}' AS {kind})"


VERSION, FEATURES, SCORE, UNUSUAL = SCORED = ("model_version", "features", "score", "is_unusual")
"""The columns of a scored table: the version that scored the row, its features in the version's order, the score, and
whether the score reaches the version's threshold; NULL at a time for which no version was promoted."""

METRICS = ("rows", "flagged", "positives", "precision", "recall", "f1")
"""What a check may demand: of the rows held out, their number, and the share of them that reach the threshold; and of a
model with a label, how many have it, and how well the threshold finds them."""

COUNTS, OF_LABEL = ("rows", "positives"), METRICS[2:]


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

    def mistakes(self) -> list[Mistake]:
        """Return what is wrong with it; distributions have the score beside the features, by name."""
        wrong = no_number(self.name, self.otherwise)
        if not self.name or self.name == SCORE:
            wrong.append((f"has a feature of the name {self.name!r}", "give it another name."))
        if not self.sql.strip():
            wrong.append((f"has no SQL for {self.name}", "write an expression over the columns."))
        return wrong


@dataclass(frozen=True, slots=True, kw_only=True)
class Logistic:
    """Logistic regression; the score is the log-odds."""

    regularization: float = 0.001

    def mistakes(self) -> list[Mistake]:
        """Return what is wrong with it."""
        return HEAVY.mistakes("regularization", self.regularization)


@dataclass(frozen=True, slots=True, kw_only=True)
class Forest:
    """A decision tree, or a small forest of them; the score is the share of the label in the leaves."""

    trees: int = 1
    depth: int = 4

    def mistakes(self) -> list[Mistake]:
        """Return what is wrong with it; its leaves are in the plan that scores every row."""
        wrong = TREES.mistakes("trees", self.trees) + DEPTH.mistakes("depth", self.depth)
        if not wrong and (leaves := self.trees * 2**self.depth) > LEAVES:
            hint = f"trees times 2 to the power of depth is at most {LEAVES:,}."
            wrong.append((f"has a forest of up to {leaves:,} leaves", hint))
        return wrong


@dataclass(frozen=True, slots=True, kw_only=True)
class Clusters:
    """K-means over standardized features; the score is the squared distance to the nearest centre. It needs no label."""

    count: int = 1

    def mistakes(self) -> list[Mistake]:
        """Return what is wrong with it."""
        return CENTRES.mistakes("count", self.count)


TREES, DEPTH, CENTRES = (Bounds(least=1, most=most, is_whole=True) for most in (50, 12, 20))
LEAVES, HEAVY = 4_096, Bounds(most=1_000)
"""The largest values of estimators. To score 100,000 rows takes 1 s with 16 leaves, 5 s with 4,096 in one tree or with
10 centres, and 12 s with 1,600 in 50 trees: Spark interprets what it cannot compile [two cores, both busy]."""

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

    def mistakes(self) -> list[Mistake]:
        """Return what is wrong with it."""
        if self.metric not in METRICS:
            return [(f"checks {self.metric}", f"there are {', '.join(METRICS)}.")]
        ends = [each for each in (self.least, self.most) if each is not None]
        if not ends:
            return [(f"demands nothing of {self.metric}", "add `least` or `most`.")]
        known = Bounds() if self.metric in COUNTS else SHARE
        wrong = [each for end in ends for each in known.mistakes(f"a bound of {self.metric}", end)]
        if not wrong and ends[0] > ends[-1]:
            wrong.append(
                (f"demands {self.metric} from {ends[0]:,} to {ends[1]:,}", "swap the two.")
            )
        return wrong

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
        drifts: The population stability index at which the report warns (jobs/strandline/engine/learning/promote_model.py).
        alerts: Whether it raises alerts on events as they come. It can where its features are columns of the one
            judged table that its own table reads, under their names (jobs/strandline/alerting/alert_rule.py).
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
        for sentence, hint in self._values() or self._mistakes():
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
        """Return why these metrics do not fulfil the check; of no row there is no share that could."""
        if not metrics["rows"]:
            return ["no row was held out, so nothing was measured"]
        found = (each.complaint(metrics.get(each.metric)) for each in self.check)
        return [each for each in found if each]

    def _values(self) -> list[Mistake]:
        """Return what is wrong with single values."""
        wrong = no_tuple("features", self.features, Feature) + no_tuple("check", self.check, Demand)
        for name, kind in (("of", Appended), ("estimator", Estimator)):
            if not isinstance(value := getattr(self, name), kind):
                hint = (
                    "a model scores an Appended table, and learns as Logistic, Forest or Clusters."
                )
                wrong.append((f"declares {name}={getattr(value, 'id', value)}", hint))
        if wrong:
            return wrong
        wrong += [each for feature in self.features for each in feature.mistakes()]
        wrong += [each for demand in self.check for each in demand.mistakes()]
        wrong += self.estimator.mistakes()
        wrong += PART.mistakes("held_out", self.held_out)
        wrong += Bounds(has_ends=False).mistakes("drifts", self.drifts)
        return wrong + ([] if self.flags is None else PART.mistakes("flags", self.flags))

    def _mistakes(self) -> list[Mistake]:
        wrong: list[Mistake] = []
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
        for name, sql in (*((f.name, f.sql) for f in self.features), ("label", self.label or "")):
            wrong += [(f"computes {name} by {sql!r}: {each}", ANY_ROW) for each in hazards(sql)]
        return wrong


MARGIN = timedelta(minutes=1)
"""Between the clocks of two machines, and from a promotion until a running stream or feed has read it."""

ANY_ROW = "a feature must have a value for every row, and always the same."


# A trained version of a model, and the SQL by which it scores the rows of the time in which it holds.
#
# A version is a value. It has its features and its form, and not a reference to code: a row that it scored last year is
# scored alike next year, whatever the model has become by then.


TYPES = ("string", "array<decimal(18,6)>", "decimal(18,6)", "boolean")
"""Of the columns ``SCORED``."""

EPOCH = datetime.fromisoformat("1970-01-01T00:00:00+00:00")


@dataclass(frozen=True, slots=True, kw_only=True)
class Trained:
    """What scores a row: a version's features, its form and its threshold.

    Args:
        version: A hash of what it means and of what it was trained on.
        features: The SQL of each feature, exact.
        form: What was learnt.
        threshold: The score from which on a row is unusual.
    """

    version: str
    features: tuple[str, ...]
    form: Form
    threshold: str


Term: TypeAlias = tuple[datetime, Trained | None]
"""The moment from which on a version holds, in event time; or from which on none does."""


def steps(terms: Sequence[Term], moment: str) -> list[list[str]]:
    """Return SQL for the columns ``SCORED``, in steps, each of which may read the columns of those before.

    Args:
        terms: In the order in which they were decided; of those that hold at a moment the last counts.
        moment: The column with the event time.
    """
    every = {each.version: each for _, each in terms if each is not None}
    whens = " ".join(
        f"WHEN `{moment}` >= timestamp_micros({micros(since)}L) THEN {_text(trained)}"
        for since, trained in reversed(terms)
    )
    version, features, score, unusual = zip(SCORED, TYPES, strict=True)
    chosen = f"CASE {whens} END" if whens else "NULL"
    return [
        [f"CAST({chosen} AS {version[1]}) AS {version[0]}"],
        [_by_version(features, {k: f"array({', '.join(t.features)})" for k, t in every.items()})],
        [_by_version(score, {name: each.form.sql() for name, each in every.items()})],
        [
            _by_version(
                unusual,
                {
                    name: f"{SCORE} >= CAST('{each.threshold}' AS DECIMAL(18,6))"
                    for name, each in every.items()
                },
            )
        ],
    ]


def micros(moment: datetime) -> int:
    """Return a moment in microseconds since 1970."""
    return (moment - EPOCH) // timedelta(microseconds=1)


def _by_version(column: tuple[str, str], values: dict[str, str]) -> str:
    whens = " ".join(f"WHEN '{name}' THEN {sql}" for name, sql in values.items())
    chosen = f"CASE {VERSION} {whens} END" if whens else "NULL"
    return f"CAST({chosen} AS {column[1]}) AS {column[0]}"


def _text(trained: Trained | None) -> str:
    return f"'{trained.version}'" if trained else "NULL"
