"""What a rule may not have is refused before Spark starts, and nothing else is."""

import pytest

from strandline_quality.rules import hazards


@pytest.mark.parametrize(
    "predicate",
    [
        "`value` BETWEEN -40 AND 125.5",
        "signal IN ('a/b', 'cast(x)', 'now')",
        "try_cast(text AS INT) > 3",
        "try_divide(a, b) < 0.5 AND a < +3",
        "CASE WHEN a > 1 THEN -1 ELSE - 2 END < b",
        "a IN (-1, - 2)",
        "`a / b` IS NOT NULL",
        "length(name) < 200 AND name NOT RLIKE '[0-9]+ *'",
        'note = "1 % 2"',
        "event_at >= TIMESTAMP '2020-01-01 00:00:00'",
        "meta.now IS NULL",
        "note <> 'now' AND 'now' <> note AND due IN ('today', 'tomorrow') AND due = 'today'",
        "`user` IS NOT NULL AND version > 3",
        "date_of_birth < DATE '2020-01-01'",
        "forall(items, i -> i.qty > 0)",
        "forall(items, (i, n)->i.qty > n)",
    ],
)
def test_what_cannot_throw_is_let_alone(predicate: str) -> None:
    """Marks inside texts and names are no operations, and a sign is no subtraction."""
    assert hazards(predicate) == []


@pytest.mark.whole
@pytest.mark.parametrize(
    ("predicate", "instead"),
    [
        ("CAST(text AS INT) > 3", "try_cast"),
        ("cast (text as int) > 3", "try_cast"),
        ("text::int > 3", "try_cast"),
        ("int(text) > 3", "try_cast"),
        ("a / b > 1", "try_divide"),
        ("a % 2 = 0", "try_mod"),
        ("a DIV 2 = 0", "try_divide"),
        ("a + b > 0", "try_add"),
        ("forall(items, i -> i.qty - 1 > 0)", "try_subtract"),
        ("a - 1 > 0", "try_subtract"),
        ("(a) -1 > 0", "try_subtract"),
        ("a * a > 0", "try_multiply"),
        ("-a < 3", "try_subtract"),
        ("CASE WHEN a > 1 THEN 1 END - 1 > 0", "try_subtract"),
        ("abs(a) < 3", "both bounds"),
        ("timestamp_millis(a) < event_at", "function"),
        ("event_at < TIMESTAMP 'now'", "_arrived_at"),
        ("element_at(list, 1) = 'a'", "try_element_at"),
        ("list[0] = 'a'", "get"),
        ("to_timestamp(text) > event_at", "try_to_timestamp"),
        ("parse_url(link, 'HOST') = 'a'", "try_parse_url"),
        ("raise_error('no') IS NULL", "false"),
        ("event_at < current_timestamp()", "_arrived_at"),
        ("event_at < now()", "_arrived_at"),
        ("rand() < 0.5", "tomorrow"),
        ("system.builtin.rand() < 0.5", "tomorrow"),
        ("event_at < `current_timestamp`", "_arrived_at"),
        ("name = user()", "tomorrow"),
        ("event_at < 'now'", "_arrived_at"),
        ("event_at <= ' Today Europe/Paris'", "_arrived_at"),
        ("'now' > event_at", "_arrived_at"),
        ("event_at < TIMESTAMP ' now'", "_arrived_at"),
        ("event_at <> try_cast('now' AS timestamp)", "_arrived_at"),
        ("event_at <> try_to_timestamp('now')", "_arrived_at"),
    ],
)
def test_what_can_throw_or_change_is_refused_with_what_to_write(
    predicate: str, instead: str
) -> None:
    """A stream that meets the row would end at it again and again."""
    (found,) = hazards(predicate)

    assert instead in found


def test_each_hazard_is_named_once() -> None:
    """Three casts are one lesson."""
    assert len(hazards("CAST(a AS INT) = CAST(b AS INT) AND c / d > 1")) == 2
