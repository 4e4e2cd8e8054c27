"""What Spark's MLlib learns, as a form that compiles to SQL."""

from collections.abc import Sequence
from typing import Any, assert_never

from pyspark.ml.classification import (
    DecisionTreeClassificationModel,
    LogisticRegression,
    RandomForestClassifier,
)
from pyspark.ml.clustering import KMeans
from pyspark.ml.feature import VectorAssembler
from pyspark.sql import DataFrame

from strandline.core.model import Clusters, Estimator, Forest, Logistic
from strandline.core.scoring import Form, Linear, Nearest, Node, Trees, bound, micro, weight

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
