"""Each kind of rule, with values that pass, values that fail, and NULL."""

from collections.abc import Sequence
from decimal import Decimal

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from strandline_quality.rules import Rule, between, broken, one_of, required

SCHEMA = "n int, text string, amount decimal(14,4), number double, `a column` string"


def verdicts(
    spark: SparkSession, rules: Sequence[Rule], column: str, values: Sequence[object]
) -> list[list[str]]:
    """Return which rules each value breaks."""
    names = ("text", "amount", "number", "a column")
    data = [
        (n, *(value if name == column else None for name in names))
        for n, value in enumerate(values)
    ]
    rows = spark.createDataFrame(data, SCHEMA)
    return [
        row["broken"]
        for row in rows.select("n", broken(rules).alias("broken")).orderBy("n").collect()
    ]


def passing(spark: SparkSession, rule: Rule, column: str, values: Sequence[object]) -> list[object]:
    found = verdicts(spark, [rule], column, values)
    assert all(reasons in ([], [rule.name]) for reasons in found)
    return [value for value, reasons in zip(values, found, strict=True) if not reasons]


@pytest.mark.whole
def test_required_refuses_null_and_nothing_else(spark: SparkSession) -> None:
    """An empty text is a value; whether it is a good one is another rule."""
    (rule,) = required("text")

    assert rule.name == "missing:text"
    assert passing(spark, rule, "text", ["a", "", " ", None]) == ["a", "", " "]


def test_required_makes_a_rule_for_each_column() -> None:
    """Each has its own reason, so that the ledger counts them apart."""
    assert [rule.name for rule in required("a", "b")] == ["missing:a", "missing:b"]
    assert required() == ()


@pytest.mark.whole
def test_between_includes_both_ends(spark: SparkSession) -> None:
    """The limits of a data sheet are values that the sensor may send."""
    rule = between("amount", -40, 125.5)
    values = [Decimal(text) for text in ("-40", "0", "125.5", "-40.0001", "125.5001")]

    assert rule.name == "out_of_range:amount"
    assert passing(spark, rule, "amount", [*values, None]) == values[:3]


@pytest.mark.whole
def test_between_has_no_room_for_what_is_no_number(spark: SparkSession) -> None:
    """NaN is greater than everything to Spark, and so out of any range."""
    rule = between("number", 0, 1e-7)

    found = verdicts(spark, [rule], "number", [0.0, 1e-7, 2e-7, float("nan"), float("inf"), None])

    assert [not reasons for reasons in found] == [True, True, False, False, False, False]


@pytest.mark.whole
def test_null_ok_lets_the_absent_pass_and_only_that(spark: SparkSession) -> None:
    """An optional field is still checked where it is there."""
    values = [Decimal(1), Decimal(9), None]

    assert passing(spark, between("amount", 0, 5, null_ok=True), "amount", values) == [
        Decimal(1),
        None,
    ]
    assert passing(spark, one_of("text", ["a"], null_ok=True), "text", ["a", "b", None]) == [
        "a",
        None,
    ]


@pytest.mark.whole
def test_one_of_takes_the_listed_texts_exactly(spark: SparkSession) -> None:
    """Case and blanks are part of a text."""
    rule = one_of("text", ["on", "off"])

    assert rule.name == "not_listed:text"
    assert passing(spark, rule, "text", ["on", "off", "On", " on", "", None]) == ["on", "off"]


@pytest.mark.whole
@pytest.mark.parametrize("listed", ["it's", "''", "%_", '"', "№ 二階", "a b"])
def test_one_of_takes_any_text_as_it_is(spark: SparkSession, listed: str) -> None:
    """The list becomes SQL, and no character of it may become anything else."""
    rule = one_of("text", [listed, "other"])

    assert passing(spark, rule, "text", [listed, "other", listed + "x"]) == [listed, "other"]


@pytest.mark.whole
@pytest.mark.parametrize("listed", ["C:\\temp", "a\\", "\\'", "\\u0041"])
def test_one_of_takes_a_backslash_as_it_is(spark: SparkSession, listed: str) -> None:
    """To Spark's SQL it begins an escape, so the rule would refuse the very text that it lists."""
    rule = one_of("text", [listed, "other"])

    assert passing(spark, rule, "text", [listed, "other"]) == [listed, "other"]


@pytest.mark.whole
def test_a_column_may_have_any_name(spark: SparkSession) -> None:
    """Names come from devices."""
    (rule,) = required("a column")

    assert passing(spark, rule, "a column", ["x", None]) == ["x"]


@pytest.mark.whole
def test_a_rule_of_ones_own_is_any_predicate(spark: SparkSession) -> None:
    """With OR in it, it must not fall apart beside what is put around it."""
    rule = Rule(name="own", holds="text = 'a' OR text = 'b'")

    assert passing(spark, rule, "text", ["a", "b", "c", None]) == ["a", "b"]


@pytest.mark.whole
def test_the_unknown_is_broken_unless_null_ok(spark: SparkSession) -> None:
    """A comparison with NULL is neither true nor false, so the row was not judged."""
    rule = Rule(name="own", holds="text <> 'a'")
    tolerant = Rule(name="own", holds="text <> 'a'", null_ok=True)

    assert passing(spark, rule, "text", ["a", "b", None]) == ["b"]
    assert passing(spark, tolerant, "text", ["a", "b", None]) == ["b", None]


@pytest.mark.whole
def test_several_broken_rules_are_all_named_in_order(spark: SparkSession) -> None:
    """The first is the one that the ledger counts under."""
    rules = [*required("text"), one_of("text", ["a"]), Rule(name="short", holds="length(text) < 3")]

    found = verdicts(spark, rules, "text", ["a", "long", None])

    assert found == [[], ["not_listed:text", "short"], ["missing:text", "not_listed:text", "short"]]


def test_no_rules_break_nothing(spark: SparkSession) -> None:
    """A table may have none, and its reasons must still be a list of texts."""
    column = spark.range(1).select(broken([]).alias("broken"))

    assert column.schema["broken"].dataType.simpleString() == "array<string>"
    assert column.select(F.size("broken")).collect()[0][0] == 0
