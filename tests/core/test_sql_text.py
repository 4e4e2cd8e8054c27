"""What a text of SQL may be and what it says, found without Spark and without the catalog.

How a file of SQL is a table: tests/core/test_sql_file.py.
"""

import pytest
from pyspark.sql import SparkSession
from strandline import sql

from strandline.core.errors import DefinitionError
from strandline.sql_file import READERS, said
from strandline.sql_text import taken_apart, understood
from strandline.sql_words import SqlError
from strandline_quality.rules import OnFail, Severity

LISTS = {
    "one_of(status, paid)": "`status` IN ('paid')",
    "one_of(status, [WARN, fail, true])": "`status` IN ('WARN', 'fail', 'true')",
    "one_of(level, [1, 2])": "`level` IN ('1', '2')",
    "one_of(status, values='paid')": "`status` IN ('paid')",
}


@pytest.mark.parametrize(("rule", "holds"), LISTS.items(), ids=LISTS)
def test_the_values_of_a_rule_are_the_texts_that_are_written(rule: str, holds: str) -> None:
    """One is no list of letters, and none is a word of ours."""
    (found,) = READERS["rules"](rule)

    assert found.holds == holds


def test_the_options_of_a_rule_are_words_of_their_own() -> None:
    """With the name of their kind before them, as in Python, or without."""
    found = READERS["rules"]("required(a, on_fail=WARN, severity=Severity.INFO, max_failed=1)")

    assert [(each.on_fail, each.severity, each.max_failed) for each in found] == [
        (OnFail.WARN, Severity.INFO, 1)
    ]


BY_CHANCE = {
    "first(a)": "ORDER BY",
    "any_value(a)": "ORDER BY",
    "last(a, true)": "ORDER BY",
    "collect_list(a)": "array_sort",
    "array_join(collect_set(a), ',')": "array_sort",
    "collect_list(a)[0]": "array_sort",
    "listagg(a, ',')": "WITHIN GROUP",
    "mode(a)": "mode(…, true)",
    "row_number() OVER (PARTITION BY a)": "ORDER BY",
    "row_number() OVER (ORDER BY 1)": "ORDER BY",
    "row_number() OVER unordered": "ORDER BY",
    "lag(a) OVER (PARTITION BY b)": "ORDER BY",
}


IN_ORDER = [
    "array_sort(array_distinct(collect_list(a)))",
    "size(collect_set(a))",
    "array_sort(collect_list(a) FILTER (WHERE b))[0]",
    "array_contains(collect_set(a), 'x')",
    "listagg(a, ',') WITHIN GROUP (ORDER BY a)",
    "mode(a, true)",
    "row_number() OVER (PARTITION BY a ORDER BY c)",
    "row_number() OVER ordered",
    "first(a) OVER (ORDER BY c)",
    "sum(a) OVER (PARTITION BY b)",
]


WINDOWS = "WINDOW ordered AS (PARTITION BY a ORDER BY c), unordered AS (PARTITION BY a)"


@pytest.mark.parametrize(("column", "instead"), BY_CHANCE.items(), ids=BY_CHANCE)
def test_what_depends_on_the_order_of_rows_is_refused(column: str, instead: str) -> None:
    """A backfill reads them in another order than the stream did."""
    with pytest.raises(DefinitionError, match="depends on the order") as refused:
        sql(f"SELECT {column} AS x FROM {{t}} {WINDOWS}")  # noqa: S608  # a test's own text

    assert instead in refused.value.hint


@pytest.mark.parametrize("column", IN_ORDER)
def test_what_has_an_order_or_needs_none_is_let_alone(column: str) -> None:
    sql(f"SELECT {column} AS x FROM {{t}} {WINDOWS}")  # noqa: S608  # a test's own text


EDITS = {
    "blanks in a text": ("status = 'a  b'", "status = 'a b'"),
    "blanks behind a quote in a text": (r"status = 'a\'  b'", r"status = 'a\' b'"),
    "a line's end in a text": ("status = 'a\n--      b'", "status = 'a b'"),
    "two conditions": ("is_test\n--      is_draft", "is_test is_draft"),
    "a condition more": ("a > 1\n--      -b < 3", "a > 1 -b < 3"),
}


@pytest.mark.parametrize(("one", "other"), EDITS.values(), ids=EDITS)
def test_an_edit_of_a_head_is_another_version(one: str, other: str) -> None:
    """Within quotes blanks are letters, and a line is an item."""
    assert said(f"-- skips: {one}\nSELECT a FROM {{t}}\n") != said(
        f"-- skips: {other}\nSELECT a FROM {{t}}\n"
    )


KEPT = {
    "a blank more": ("skips", "a >   1;  b: c", "a > 1; b: c"),
    "a line": ("owner", "the team\n--      of taps", "the team of taps"),
    "items in lines": (
        "rules",
        "required(a)\n--   b: c > 1\n--    one_of(d, [e])",
        "required(a) b: c > 1 one_of(d, [e])",
    ),
    "references": (
        "references",
        "a -> silver.b.a\n--     c -> silver.d.c",
        "a -> silver.b.a c -> silver.d.c",
    ),
}


@pytest.mark.parametrize(("field", "text", "before"), KEPT.values(), ids=KEPT)
def test_the_version_of_a_head_without_such_is_what_it_always_was(
    field: str, text: str, before: str
) -> None:
    """As a lake of before has it: lines joined by one blank. No certificate lapses."""
    found = said(f"-- {field}: {text}\nSELECT 1")

    assert found.partition(", 'SELECT")[0] == f"TABLE = {[(field, before)]!a}"


STRANGERS = {
    "WITH u AS (SELECT * FROM u) SELECT a FROM {t} JOIN u": "reads u, which is not in braces",
    "SELECT y.a FROM (WITH x AS (SELECT a FROM {t}) SELECT a FROM x) y JOIN x": "reads x, which",
    "WITH x AS (SELECT a FROM y), y AS (SELECT a FROM {t}) SELECT a FROM x": "reads y, which",
    "WITH strandline_read_0 AS (SELECT 1 AS a) SELECT t.a FROM {t} t": "a name of the engine's own",
    "SELECT t.a FROM {t} t JOIN strandline_table_0": "a name of the engine's own",
    "SELECT /*+ BROADCAST(t) */ a FROM {t} AS t": "it has a hint",
    "(SELECT a FROM {t} ORDER BY a)": "ends with ORDER BY",
}


@pytest.mark.parametrize(("text", "said_"), STRANGERS.items(), ids=STRANGERS)
def test_a_table_is_read_by_a_name_of_with_only_where_that_is_seen(text: str, said_: str) -> None:
    """Elsewhere the name is of a table of Spark's own catalog."""
    with pytest.raises(DefinitionError, match=said_):
        sql(text)


@pytest.mark.parametrize(
    "text",
    [
        "WITH x AS (SELECT a FROM {t}), y AS (SELECT a FROM x) SELECT a FROM Y",
        "WITH x AS (SELECT a FROM {t}) SELECT a FROM (SELECT a FROM x WHERE a IN (SELECT a FROM x))",
        "WITH x AS (WITH y AS (SELECT a FROM {t}) SELECT a FROM y) SELECT a FROM x UNION ALL SELECT a FROM x",
    ],
)
def test_a_name_of_with_is_seen_behind_it_and_within(text: str) -> None:
    sql(text)


CONDITIONS = {
    "b = 1 AND end > 5 OR c = 2": ("b = 1 AND end > 5 OR c = 2",),
    "b = 1 AND t.end > 5 AND c": ("b = 1", "t.end > 5", "c"),
    "CASE WHEN a THEN b AND c END AND end": ("CASE WHEN a THEN b AND c END", "end"),
    "a BETWEEN 1 AND 2 AND t.or = 1 AND t.case": ("a BETWEEN 1 AND 2", "t.or = 1", "t.case"),
}


@pytest.mark.parametrize(("where", "conditions"), CONDITIONS.items(), ids=CONDITIONS)
def test_a_where_is_cut_only_where_and_joins_all_of_it(
    where: str, conditions: tuple[str, ...]
) -> None:
    """A column may have the name of a word of SQL; what is cut elsewhere would pass other records over."""
    found = taken_apart(understood(f"SELECT a FROM {{t}} AS t WHERE {where}"))  # noqa: S608  # a test's own text

    assert found.conditions == conditions


def test_columns_named_as_clauses_are_columns() -> None:
    """Behind a point, or behind AS."""
    found = taken_apart(understood("SELECT o.from AS x, o.where, a AS from FROM {t} o WHERE a"))

    assert (found.columns.strip(), found.conditions) == ("o.from AS x, o.where, a AS from", ("a",))


@pytest.mark.parametrize(
    "several",
    [
        "window(at, '1 hour').start AS h",
        "session_window(at, '1 hour').start AS h",
        "stack(2, b, c) AS d",
        "inline(x) AS (p, q)",
        "json_tuple(b, 'c') AS c",
        "1 + explode(b) AS c",
        "variant_explode(b) AS c",
    ],
)
def test_what_makes_several_rows_of_a_record_is_refused_in_silver(several: str) -> None:
    """Or none, as a window of a time that is missing."""
    statement = understood(f"SELECT a, {several} FROM {{t}}")  # noqa: S608  # a test's own text

    with pytest.raises(SqlError, match="makes several rows of a record, or none"):
        taken_apart(statement)


@pytest.mark.parametrize(
    "changing",
    [
        "cast('now' AS timestamp)",
        "'now'::timestamp",
        "to_timestamp('now')",
        "date('now')",
        "timestamp('today')",
        "timestamp ' now'",
        "timestamp 'today Europe/Paris'",
        "date 'tomorrow  '",
        "system.builtin.rand()",
        "builtin.now()",
        "`current_timestamp`",
        "`current_date`",
    ],
)
def test_the_clock_is_refused_however_it_is_written(changing: str) -> None:
    """Spark makes a time of a text that is another one tomorrow, and knows its functions by longer names too."""
    with pytest.raises(DefinitionError, match=r"reads the clock|another value"):
        sql(f"SELECT a, {changing} AS b FROM {{t}}")  # noqa: S608  # a test's own text


def test_a_word_that_only_looks_like_the_clock_is_let_alone() -> None:
    sql(
        "SELECT t.now, t.`current_date`, user, a AS localtime FROM {t} AS t WHERE b IN ('now', 'today')"
    )


def test_a_lateness_may_be_nothing() -> None:
    """As in Python: rows above windows of one length come late by nothing."""
    found = READERS["lateness"]("late 0 seconds, early 0, disorder 1 second")

    assert found.delay.total_seconds() == 1


def test_a_text_of_no_table_says_so(spark: SparkSession) -> None:
    """What its names mean, the table knows."""
    rows = spark.createDataFrame([], "a string")

    with pytest.raises(DefinitionError, match="function of no table yet"):
        sql("SELECT a FROM {x}")(rows)
