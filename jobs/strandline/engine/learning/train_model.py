"""Train a version of a model on a range of its table's history, with the certificate of what it was made of.

The last part of the range is held out: the version is evaluated on time that it has not seen, by the very SQL that will
score rows. Held out is time and not rows drawn by chance, because a model is used on the days after those it learnt.

What is learnt is turned into a form of decimals (jobs/strandline/core/model.py) right away, and everything after that, the
threshold included, is computed from the form's scores and not from MLlib's.
"""

import hashlib
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from datetime import datetime
from typing import Any, assert_never

from pyspark import StorageLevel
from pyspark.errors import (
    AnalysisException,
    ArithmeticException,
    ArrayIndexOutOfBoundsException,
    DateTimeException,
    NumberFormatException,
    SparkRuntimeException,
)
from pyspark.ml.classification import (
    DecisionTreeClassificationModel,
    LogisticRegression,
    RandomForestClassifier,
)
from pyspark.ml.clustering import KMeans
from pyspark.ml.feature import VectorAssembler
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import BooleanType

from strandline.core.errors import DataError, DefinitionError
from strandline.core.model import (
    FEATURES,
    SCORE,
    SCORED,
    UNUSUAL,
    Clusters,
    Estimator,
    Forest,
    Form,
    Linear,
    Logistic,
    Model,
    Nearest,
    Node,
    Trained,
    Trees,
    as_words,
    bound,
    micro,
    steps,
    weight,
)
from strandline.engine.lake import shelves
from strandline.engine.lake.commit.delta_commit import rows_at
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger import latest_version
from strandline.engine.repair.closed_range import Span
from strandline.engine.runtime.code_files import model_version
from strandline.engine.runtime.outage import first_line

# What Spark's MLlib learns, as a form that compiles to SQL.


SEED = 1
"""Of the draws of MLlib; another one gives another forest."""

VECTOR = "_vector"


def learnt(rows: DataFrame, features: Sequence[str], estimator: Estimator, label: str) -> Form:
    """Learn from rows.

    Args:
        rows: What is learnt from, with all columns of the table.
        features: SQL for each feature, exact.
        estimator: How.
        label: The column that says what a row is.
    """
    match estimator:
        case Logistic(regularization=penalty):
            found = LogisticRegression(
                featuresCol=VECTOR, labelCol=label, regParam=penalty, family="binomial"
            ).fit(_vectors(rows, features, label))
            weights = tuple(map(weight, found.coefficients.toArray().tolist()))
            return Linear(intercept=weight(found.intercept), weights=weights)
        case Forest(trees=count, depth=depth):
            forest = RandomForestClassifier(
                featuresCol=VECTOR,
                labelCol=label,
                numTrees=count,
                maxDepth=depth,
                seed=SEED,
                bootstrap=count > 1,
                featureSubsetStrategy="all" if count == 1 else "auto",
            ).fit(_vectors(rows, features, label))
            return Trees(trees=tuple(_nodes(tree, count) for tree in forest.trees))
        case Clusters(count=count):
            return _nearest(rows, features, count)
        case _:
            assert_never(estimator)


def even_odds(estimator: Estimator) -> str:
    """Return the score at which a label is as likely as not."""
    return "0" if isinstance(estimator, Logistic) else "0.5"


def _vectors(rows: DataFrame, features: Sequence[str], label: str) -> DataFrame:
    """Return the features as vectors of doubles, and the label as 0 or 1."""
    names = [f"_{at}" for at in range(len(features))]
    plain = [f"CAST({sql} AS DOUBLE) AS {name}" for name, sql in zip(names, features, strict=True)]
    doubles = rows.selectExpr(*plain, f"CAST({label} AS DOUBLE) AS {label}")
    return VectorAssembler(inputCols=names, outputCol=VECTOR).transform(doubles)


def _nodes(tree: DecisionTreeClassificationModel, trees: int) -> tuple[Node, ...]:
    """Return the nodes of a tree, the root first; its leaves are divided by the number of trees."""
    nodes: list[Node] = []

    def add(node: Any) -> int:  # noqa: ANN401  # a node of the JVM
        place = len(nodes)
        nodes.append(Node())
        if node.subtreeDepth() == 0:
            counts = list(node.impurityStats().stats())
            nodes[place] = Node(value=weight(counts[1] / sum(counts) / trees))
        else:
            split = node.split()
            nodes[place] = Node(
                feature=split.featureIndex(),
                at_most=bound(split.threshold()),
                left=add(node.leftChild()),
                right=add(node.rightChild()),
            )
        return place

    add(tree._call_java("rootNode"))  # noqa: SLF001  # Python's model has no nodes, only a text without their counts
    return tuple(nodes)


def _nearest(rows: DataFrame, features: Sequence[str], count: int) -> Nearest:
    """Return the centres of clusters, in standard deviations from the means."""
    figures = [
        figure
        for sql in features
        for figure in (f"avg(CAST({sql} AS DOUBLE))", f"stddev_pop(CAST({sql} AS DOUBLE))")
    ]
    (row,) = rows.selectExpr(*figures).collect()
    means = tuple(micro(mean) for mean in row[::2])
    scales = tuple(weight(1 / apart if apart else 0.0) for apart in row[1::2])
    if count == 1:  # the mean is the centre, and needs no iterations
        return Nearest(means=means, scales=scales, centres=(("0",) * len(means),))
    plain = Nearest(means=means, scales=scales, centres=())
    array = rows.selectExpr(f"array({', '.join(features)}) AS features")
    names = [f"_{at}" for at in range(len(features))]
    doubles = array.selectExpr(
        *(f"CAST({plain.standard(at)} AS DOUBLE) AS {name}" for at, name in enumerate(names))
    )
    vectors = VectorAssembler(inputCols=names, outputCol=VECTOR).transform(doubles)
    found = KMeans(featuresCol=VECTOR, k=count, seed=SEED).fit(vectors)
    centres = (tuple(map(micro, centre.tolist())) for centre in found.clusterCenters())
    return Nearest(means=means, scales=scales, centres=tuple(centres))


# What is wrong with a model's SQL, which only Spark knows: it has the table's columns and their types.
#
# A feature is a number of one row, and of nothing beside it: a window or a subquery would train, and then end the stream
# of the table, or give another score in a batch than in a stream.


OF_A_ROW = (
    ArithmeticException,
    ArrayIndexOutOfBoundsException,
    DateTimeException,
    NumberFormatException,
    SparkRuntimeException,
)
"""What a value of some row makes of SQL that Spark has understood."""

TRIAL_LABEL = "label"


def refuse_unreadable(rows: DataFrame, model: Model) -> None:
    """Refuse a model whose SQL Spark does not understand, or that looks beyond a row.

    Args:
        rows: The rows of its table; none is read.
        model: The model.

    Raises:
        DefinitionError: An expression is wrong.
    """
    plain = rows.drop(*SCORED)
    for feature in model.features:
        # As it is written first: Spark then names the mistake, and not what was put around it.
        for sql in (feature.sql, feature.exact):
            with _explained(plain, model, feature.name, feature.sql):
                made = plain.selectExpr("*", f"({sql}) AS _value")
            if _size_of_plan(made) > _size_of_plan(plain) + 1:
                raise DefinitionError(
                    f"the model {model.name} computes {feature.name} by {feature.sql!r}, which looks at other rows",
                    hint=f"compute it in the table's function, as a column of {model.of.id}.",
                    model=model.name,
                )
    if model.label is not None:
        with _explained(plain, model, TRIAL_LABEL, model.label):
            kind = plain.selectExpr(f"({model.label}) AS _value").schema["_value"].dataType
        if not isinstance(kind, BooleanType):
            raise DefinitionError(
                f"the model {model.name} has the label {model.label!r}, which is {kind.simpleString()} and not boolean",
                hint="write a condition, such as `kind = 'theft'`.",
                model=model.name,
            )


@contextmanager
def judging_rows(model: Model) -> Iterator[None]:
    """Name the model where its SQL fails on a row, or where its table has lost a column that a version looks at.

    Raises:
        DefinitionError: It fails.
    """
    try:
        yield
    except AnalysisException as error:
        raise DefinitionError(
            f"a version of {model.name} cannot score the rows that {model.of.id} has now: {first_line(error)}",
            hint=f"train another: `strandline models train {model.name}`.",
            model=model.name,
        ) from error
    except OF_A_ROW as error:
        raise DefinitionError(
            f"a feature or the label of {model.name} fails on a row of {model.of.id}: {first_line(error)}",
            hint="compare values of one type: a text with a text, or try_cast(… AS …) with a number.",
            model=model.name,
        ) from error


@contextmanager
def _explained(rows: DataFrame, model: Model, name: str, sql: str) -> Iterator[None]:
    try:
        yield
    except AnalysisException as error:
        raise DefinitionError(
            f"the model {model.name} computes {name} by {sql!r}, which Spark refuses: {first_line(error)}",
            hint=f"it may look at {', '.join(rows.columns)}; the functions are Spark's.",
            model=model.name,
        ) from error


def _size_of_plan(rows: DataFrame) -> int:
    """Return the number of the nodes of a plan, those of subqueries included."""
    return len(str(rows._jdf.queryExecution().analyzed()).splitlines())  # noqa: SLF001  # there is no public way


TENTHS = [f"0.{n}" for n in range(1, 10)]


def distributions(rows: DataFrame, names: Sequence[str], score: str) -> dict[str, Any]:
    """Return bounds and shares of each feature and of the score.

    How the features and the score of a version were distributed where it learnt: the bounds of ten parts, and their shares.

    A feature with few values has fewer parts: equal bounds are one.

    Args:
        rows: The rows that were learnt from, with their features and scores.
        names: The names of the features, in their order.
        score: The column with the score.
    """
    columns = {name: f"get({FEATURES}, {at})" for at, name in enumerate(names)} | {score: score}
    tenths = [
        f"percentile_disc({tenth}) WITHIN GROUP (ORDER BY {sql})"
        for sql in columns.values()
        for tenth in TENTHS
    ]
    (row,) = rows.selectExpr(*tenths).collect()
    found = {
        name: sorted(set(row[at * len(TENTHS) : (at + 1) * len(TENTHS)]))
        for at, name in enumerate(columns)
    }
    counts = [
        f"count_if({columns[name]} <= CAST('{bound}' AS DECIMAL(18,6)))"
        for name, bounds in found.items()
        for bound in bounds
    ]
    total, *up_to = rows.selectExpr("count(*)", *counts).collect()[0]
    made: dict[str, Any] = {}
    for name, bounds in found.items():
        reached = [up_to.pop(0) for _ in bounds]
        parts = [
            after - before for before, after in zip([0, *reached], [*reached, total], strict=True)
        ]
        made[name] = {
            "bounds": [format(bound, "f") for bound in bounds],
            "shares": [round(part / total, 6) for part in parts],
        }
    return made


LABEL = "_label"
LONG_AGO = datetime.fromisoformat("1970-01-01T00:00:00+00:00")

DIGITS = 12
"""Hexadecimal digits of a version's name."""


def train(
    spark: SparkSession, model: Model, lake: Lake, span: Span, at: datetime
) -> dict[str, Any]:
    """Train a version, keep it, and return what is known of it; what is promoted does not change.

    Args:
        spark: The session.
        model: What is trained.
        lake: Where its table is.
        span: The range of event time.
        at: The time of the training, for the certificate.

    Raises:
        DataError: All rows have the label, or none.
        DefinitionError: The range has no rows, or the model's SQL is wrong.
    """
    lake.refuse_missing(model.of)
    table_version = latest_version(lake.table(model.of))
    split = span.since + (span.until - span.since) * (1 - model.held_out)
    rows = rows_at(spark, lake.table(model.of), table_version)
    refuse_unreadable(rows, model)
    first = rows.where(Span(since=span.since, until=split).holds(model.of.event_at))
    with judging_rows(model):
        form, threshold, known = _learnt(first, model, span)
    words: dict[str, Any] = {
        "model": model.name,
        "features": [{"name": each.name, "sql": each.exact} for each in model.features],
        "form": as_words(form),
        "threshold": threshold,
        "certificate": {
            "table": model.of.id,
            "since": span.since.isoformat(),
            "held_out_from": split.isoformat(),
            "until": span.until.isoformat(),
            "versions": {model.of.id: table_version},
            "code": model_version(model),
            "label": model.label,
            "estimator": {"kind": type(model.estimator).__name__, **asdict(model.estimator)},
            "distributions": known,
        },
    }
    version = hashlib.sha256(json.dumps(words, sort_keys=True).encode()).hexdigest()[:DIGITS]
    words["version"] = version
    held_out = Span(since=split, until=span.until)
    with judging_rows(model):
        words["certificate"]["metrics"] = metrics(
            rows.where(held_out.holds(model.of.event_at)), model, _trained(model, form, threshold)
        )
    words["certificate"]["at"] = at.isoformat(timespec="seconds")
    shelves.keep(lake, model.name, version, words)
    return shelves.version(lake, model.name, version)


def everything(spark: SparkSession, model: Model, lake: Lake) -> Span:
    """Return the range of all rows of a model's table.

    Raises:
        DefinitionError: It has none.
    """
    lake.refuse_missing(model.of)
    at = f"unix_micros({model.of.event_at})"
    rows = rows_at(spark, lake.table(model.of), latest_version(lake.table(model.of)))
    ((first, last),) = rows.selectExpr(f"min({at})", f"max({at})").collect()
    if first is None:
        raise DefinitionError(
            f"{model.of.id} has no row to learn from",
            hint=f"fill it first: `strandline run {model.of.id}`.",
            model=model.name,
        )
    return Span.of_micros(first, last)


def evaluate(
    spark: SparkSession, model: Model, lake: Lake, version: str, span: Span
) -> dict[str, float]:
    """Return the metrics of a version on a range of the table's rows as they are now.

    Raises:
        DefinitionError: The range has no rows, or the version looks at a column that the table has no more.
    """
    lake.refuse_missing(model.of)
    rows = rows_at(spark, lake.table(model.of), latest_version(lake.table(model.of)))
    words = shelves.version(lake, model.name, version)
    trained = shelves.trained(words)
    with judging_rows(model):
        figures = metrics(rows.where(span.holds(model.of.event_at)), model, trained)
    if not figures["rows"]:
        raise _no_rows(model, span)
    return figures


def labelled(rows: DataFrame, model: Model) -> DataFrame:
    """Add the label, false where it cannot be said, and take away the columns that an older version has filled."""
    label = f"coalesce({model.label or 'false'}, false)"
    plain = [f"`{each}`" for each in rows.columns if each not in SCORED]
    return rows.selectExpr(*plain, f"{label} AS {LABEL}")


def scored(rows: DataFrame, model: Model, trained: Trained) -> DataFrame:
    """Add the columns of a version to rows that have none."""
    for step in steps([(LONG_AGO, trained)], model.of.event_at):
        rows = rows.selectExpr("*", *step)
    return rows


def metrics(rows: DataFrame, model: Model, trained: Trained) -> dict[str, float]:
    """Return how a version does on rows: counts, and of a model with a label how well the threshold finds it."""
    found = scored(labelled(rows, model), model, trained)
    (row,) = found.selectExpr(
        "count(*) AS rows",
        f"count_if({UNUSUAL}) AS unusual",
        f"count_if({LABEL}) AS positives",
        f"count_if({UNUSUAL} AND {LABEL}) AS hits",
    ).collect()
    rows_, unusual, positives, hits = (int(value) for value in row)
    figures: dict[str, float] = {"rows": rows_, "flagged": _share(unusual, rows_)}
    if model.label is None:
        return figures
    precision, recall = _share(hits, unusual), _share(hits, positives)
    both = _share(2 * precision * recall, precision + recall)
    return {
        **figures,
        "positives": positives,
        "precision": precision,
        "recall": recall,
        "f1": both,
    }


def _learnt(first: DataFrame, model: Model, span: Span) -> tuple[Form, str, dict[str, Any]]:
    """Return what was learnt from the first part of the range: the form, the threshold, and the distributions."""
    seen = labelled(first, model).persist(StorageLevel.MEMORY_AND_DISK)
    try:
        _refuse_unlearnable(seen, model, span)
        form = learnt(seen, [each.exact for each in model.features], model.estimator, LABEL)
        rows = scored(seen, model, _trained(model, form, "0"))
        known = distributions(rows, [each.name for each in model.features], SCORE)
        return form, _threshold(rows, model), known
    finally:
        seen.unpersist()


def _threshold(found: DataFrame, model: Model) -> str:
    """Return the score from which on a row is unusual, as text."""
    if model.flags is None:
        return even_odds(model.estimator)
    at = f"percentile_disc({1 - model.flags}) WITHIN GROUP (ORDER BY {SCORE})"
    (row,) = found.selectExpr(f"CAST({at} AS DECIMAL(18,6)) AS at").collect()
    return format(row["at"], "f")


def _trained(model: Model, form: Form, threshold: str) -> Trained:
    features = tuple(each.exact for each in model.features)
    return Trained(version="trained", features=features, form=form, threshold=threshold)


def _refuse_unlearnable(seen: DataFrame, model: Model, span: Span) -> None:
    counts = ("count(*) AS rows", f"count_if({LABEL}) AS positives")
    # The largest value of each, so that SQL that fails on a row fails here and not within MLlib.
    (row,) = seen.selectExpr(*counts, *(f"max({each.exact})" for each in model.features)).collect()
    if not row["rows"]:
        raise _no_rows(model, span)
    if model.label is not None and row["positives"] in {0, row["rows"]}:
        raise DataError(
            f"of {row['rows']:,} rows {_range(span)} {row['positives']:,} have the label of {model.name}, so there is nothing to learn",
            hint="name a longer range with --since and --until.",
            model=model.name,
        )


def _no_rows(model: Model, span: Span) -> DefinitionError:
    return DefinitionError(
        f"{model.of.id} has no row {_range(span)}",
        hint="name another range with --since and --until; `strandline query` shows what there is.",
        model=model.name,
    )


def _range(span: Span) -> str:
    return f"between {span.since.isoformat()} and {span.until.isoformat()}"


def _share(part: float, whole: float) -> float:
    return round(part / whole, 6) if whole else 0.0
