"""All rules about a table in one plan: a row for each event and each rule that fires on it.

What keeps a rule from costing what a query of its own, or a ``when`` of its own, would cost:

* *What a clause needs of a column is made once per event* (jobs/strandline/alerting/rules/compile.py): a thousand rules lower a command line
  once.
* *Most rules name a program or a number.* A rule that can only fire where the file name of ``Image`` is ``certutil.exe``
  has that as its key (jobs/strandline/alerting/rules/guarded.py). One look into a hash set passes over all rules with keys of a column, and
  then one for each group of them, sorted by key.
* *Most of the others look for texts.* One search for all their texts passes over all of them, and then one for each
  group (jobs/strandline/alerting/rules/guarded.py). Groups of rules with keys are searched for in the same way.
* *Clauses that several of the rest begin with* are evaluated once, into one array, ahead of the rules.
* *Cheap clauses come first* (``condition.simplified``), and Spark stops at the one that decides.

Each group yields an array of the numbers of the rules that fire. The arrays are joined and exploded; an event on which
nothing fires has no row. Numbers, with what they mean in a constant, because an array of structs would be built for
each event and rule. It has neither shuffle nor state nor Python, so it runs in every mode, real time included.

Two things that Spark must not do with the answers, both seen in its plans and logs:

* *Make them part of a whole stage.* There all operators become one method, which is not split: with 1,000 rules it grew
  beyond the 64 KB that a class allows, which Spark found out anew in each of 13 runs, seconds of work each time. A
  projection of its own has small methods, the largest of 1,261 bytes, and the JVM compiles none of more than 8,000. Spark
  makes one where an expression is interpreted, so one is (``APART``), of the cheapest.
* *Compute them twice.* ``explode`` of a column becomes a filter on its size; with one rule Spark moved that below the
  projection, and computed the answer there again. ``explode`` of a function of the column has no such filter.
"""

from collections import Counter
from collections.abc import Iterator, Sequence

from pyspark.sql import DataFrame

from strandline.alerting.rules.alert_rule import AlertRule
from strandline.alerting.rules.compile import LOWER, Prepared, compiled, named, prepared, quoted
from strandline.alerting.rules.condition import AllOf, AnyOf, Clause, Condition, Missing, Not
from strandline.alerting.rules.guarded import (
    NAME,
    NOTHING,
    QUIET,
    Numbered,
    columns_of,
    hits,
    last_part,
)
from strandline.alerting.source import AlertSource
from strandline.core.errors import DefinitionError

SHARED = "_shared"
HITS = "_hits"
HIT = "_hit"
APART = "exists(array(true), each -> each)"
"""True, and interpreted; 30 ns."""

BETWEEN = "\x1f"
"""Separates texts of the constant; no id of a rule has it."""

RULE = ("rule_id", "rule_version", "rule_severity")
"""The columns that an alert has beside those of its event."""


def alerts(events: DataFrame, rules: Sequence[AlertRule]) -> DataFrame:
    """Return a row for each event and rule that fires on it: the event's columns, and ``RULE``.

    Args:
        events: Rows of the table that the rules look at, with any other columns.
        rules: Rules about one table.

    Raises:
        DefinitionError: There is no rule, or they are about several tables.
    """
    (source, *others) = dict.fromkeys(rule.source for rule in rules) or (None,)
    if source is None or others:
        raise DefinitionError(
            "one plan is for the rules about one table", hint="make one for each table."
        )
    events = source.completed(events)
    numbered = Numbered.of(rules, source)
    shared = _shared([each.rule for each in numbered if each.is_asked_of_each])
    columns = events.columns
    ready = _ready(events, numbered, source)
    if shared:
        answers = ", ".join(compiled(clause, source) for clause in shared)
        ready = ready.selectExpr("*", f"array({answers}) AS {SHARED}")
    known = {clause: f"get({SHARED}, {at})" for at, clause in enumerate(shared)}
    kept = [named(column) for column in columns]
    answered = f"if({APART}, {hits(numbered, source, known)}, {NOTHING}) AS {HITS}"
    fired = f"explode(array_remove({HITS}, {QUIET})) AS {HIT}"
    return (
        ready.selectExpr(*kept, answered)
        .selectExpr(*kept, fired)
        .selectExpr(*kept, *_meaning(rules))
    )


def _ready(events: DataFrame, rules: Sequence[Numbered], source: AlertSource) -> DataFrame:
    """Add what clauses and guards need of the columns, each once."""
    needed = prepared(each.rule.when for each in rules)
    guarding = set(columns_of(rules, source))
    lower = needed.lower | {column for column, _ in guarding}
    named_by = sorted(column for column, has_names in guarding if has_names)
    names = (f"{last_part(named(LOWER + name))} AS {named(NAME + name)}" for name in named_by)
    ready = events
    for step in Prepared(lower, needed.addresses).steps():
        ready = ready.selectExpr("*", *step)
    return ready.selectExpr("*", *names)


def _shared(rules: Sequence[AlertRule]) -> list[Clause]:
    """Return the clauses that several rules begin with; those behind them are rarely reached."""
    asked = Counter(_first(rule.when) for rule in rules)
    return sorted(
        (c for c, times in asked.items() if times > 1 and not isinstance(c, Missing)), key=repr
    )


def _first(condition: Condition) -> Clause:
    """Return the clause that is evaluated for every event."""
    match condition:
        case AllOf(parts) | AnyOf(parts):
            return _first(parts[0])
        case Not(part):
            return _first(part)
        case _:
            return condition


def _meaning(rules: Sequence[AlertRule]) -> Iterator[str]:
    """Yield SQL for the columns of a rule by its number, out of constants."""
    texts = (
        [rule.id for rule in rules],
        [rule.version for rule in rules],
        [str(rule.severity) for rule in rules],
    )
    for name, values in zip(RULE, texts, strict=True):
        yield f"get(split({quoted(BETWEEN.join(values))}, '{BETWEEN}'), {HIT}) AS {name}"
