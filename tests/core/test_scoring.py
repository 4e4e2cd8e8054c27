"""A form's SQL computes what its definition says, to the last digit, and fails on no row."""

import random
from collections.abc import Sequence
from decimal import ROUND_HALF_UP, Decimal

import pytest
from pyspark.sql import SparkSession

from strandline.core.errors import DataError
from strandline.core.model import (
    MOST,
    Form,
    Linear,
    Nearest,
    Node,
    Trees,
    as_words,
    bound,
    feature_sql,
    from_words,
    weight,
)

NANO, MICRO = Decimal("1e-9"), Decimal("1e-6")
LINEAR = Linear(intercept="-1.500000000", weights=("0.333333333", "-0.000000001"))
TREES = Trees(
    trees=(
        (
            Node(feature=0, at_most="1.000000", left=1, right=2),
            Node(value="0.250000000"),
            Node(feature=1, at_most="-2.500000", left=3, right=4),
            Node(value="0.100000000"),
            Node(value="0.500000000"),
        ),
        (Node(value="0.000000001"),),
    )
)
NEAREST = Nearest(
    means=("1.000000", "0.500000"),
    scales=("0.333333333", "2.000000000"),
    centres=(("0", "0"), ("1.500000", "-3.000000")),
)
FORMS = (LINEAR, TREES, NEAREST)


def rounded(value: Decimal, to: Decimal) -> Decimal:
    return value.quantize(to, ROUND_HALF_UP)


def expected(form: Form, features: Sequence[Decimal]) -> Decimal:
    """Return a score by the definition, in exact numbers."""
    match form:
        case Linear(intercept=start, weights=weights):
            parts = [rounded(f * Decimal(w), NANO) for f, w in zip(features, weights, strict=True)]
            score = Decimal(start) + sum(parts)
        case Trees(trees=trees):
            score = sum((leaf(nodes, features) for nodes in trees), Decimal(0))
        case Nearest():
            score = min(distance(form, centre, features) for centre in form.centres)
    return rounded(max(min(score, Decimal(MOST)), Decimal(-MOST)), MICRO)


def leaf(nodes: Sequence[Node], features: Sequence[Decimal]) -> Decimal:
    node = nodes[0]
    while node.left >= 0:
        is_left = features[node.feature] <= Decimal(node.at_most)
        node = nodes[node.left if is_left else node.right]
    return Decimal(node.value)


def distance(form: Nearest, centre: Sequence[str], features: Sequence[Decimal]) -> Decimal:
    total = Decimal(0)
    for value, mean, scale, at in zip(features, form.means, form.scales, centre, strict=True):
        z = rounded((value - Decimal(mean)) * Decimal(scale), NANO)
        z = rounded(max(min(z, Decimal(9_999)), Decimal(-9_999)), MICRO)
        total += rounded((z - Decimal(at)) ** 2, NANO)
    return total


def test_scores_are_those_of_the_definition_to_the_last_digit(
    spark: SparkSession, chance: random.Random
) -> None:
    """Also at the ends of what a feature can be, where nothing may overflow: in ANSI mode that ends a stream."""
    ends = [Decimal("999999999999.999999"), Decimal("-999999999999.999999"), Decimal(0)]
    values = [(one, two) for one in ends for two in ends]
    for _ in range(500):
        one, two = (Decimal(chance.randrange(-(10**9), 10**9)) / 10**6 for _ in range(2))
        values.append((one, two))
    rows = spark.createDataFrame(values, "a DECIMAL(18,6), b DECIMAL(18,6)")
    scores = [f"{form.sql()} AS s{at}" for at, form in enumerate(FORMS)]

    found = rows.selectExpr("a", "b", "array(a, b) AS features").selectExpr("a", "b", *scores)

    for a, b, *each in found.collect():
        assert each == [expected(form, (a, b)) for form in FORMS], (a, b)


@pytest.mark.whole
def test_a_feature_has_a_value_for_every_row(spark: SparkSession) -> None:
    """One that is no number, or too large for a feature, counts as declared."""
    rows = spark.createDataFrame([(1.5,), (None,), (float("nan"),), (1e300,), (-1e12,)], "x DOUBLE")

    found = [row[0] for row in rows.selectExpr(feature_sql("x", "-7")).collect()]

    assert found == [Decimal("1.5"), *[Decimal(-7)] * 4]


@pytest.mark.parametrize("form", FORMS, ids=lambda form: type(form).__name__)
def test_a_form_is_read_back_as_it_was_written(form: Form) -> None:
    assert from_words(as_words(form)) == form


def test_a_bound_is_rounded_down_so_that_the_same_features_are_at_most_it() -> None:
    assert [bound(2.0000005), bound(-2.0000005)] == ["2.000000", "-2.000001"]


@pytest.mark.parametrize("value", [float("inf"), float("nan"), 1e6])
def test_a_weight_that_cannot_be_multiplied_exactly_is_refused(value: float) -> None:
    with pytest.raises(DataError, match="the estimator learnt the weight"):
        weight(value)
