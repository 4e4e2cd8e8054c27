"""All rules about a table in one plan: a row for each event and each rule that fires on it.

What keeps a rule from costing what a query of its own, or a ``when`` of its own, would cost:

* *What a clause needs of a column is made once per event* (jobs/rules/compile.py): a thousand rules lower a command line
  once.
* *Most rules name a program or a number.* A rule that can only fire where the file name of ``Image`` is ``certutil.exe``
  has that as its key (jobs/rules/keys.py). Rules with keys of one column are sorted by key and cut into groups; a group
  is guarded by one look into a hash set of its keys, so an event that no key of the group fits passes over all of them.
* *Clauses that several of the other rules begin with* are evaluated once, into one array, ahead of the rules.
* *Cheap clauses come first* (``condition.simplified``), and Spark stops at the one that decides.

Each group yields an array of the numbers of the rules that fire. The arrays are joined and exploded; an event on which
nothing fires has no row. Numbers, with what they mean in a constant, because an array of structs would be built for
each event and rule. No function of this plan is interpreted: higher-order functions (``filter``, ``transform``) would
be. It has neither shuffle nor state nor Python, so it runs in every mode, real time included.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from pyspark.sql import DataFrame

from jobs.core.errors import DefinitionError
from jobs.rules.alert_rule import AlertRule
from jobs.rules.compile import LOWER, Prepared, compiled, named, prepared, quoted
from jobs.rules.condition import AllOf, AnyOf, Clause, Condition, Missing, Not
from jobs.rules.keys import Key, key, last_part
from jobs.rules.sources import Source

GROUP = 32
"""Rules that one look into a hash set passes over."""

NAME = "_name_"
SHARED = "_shared"
HITS = "_hits"
HIT = "_hit"
QUIET = -1
NOTHING = "CAST(array() AS ARRAY<INT>)"
BETWEEN = "\x1f"
"""Separates texts of the constant; no id of a rule has it."""

RULE = ("rule_id", "rule_version", "rule_severity")
"""The columns that an alert has beside those of its event."""


@dataclass(frozen=True, slots=True)
class _Numbered:
    number: int
    rule: AlertRule
    key: Key | None


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
    numbered = [_Numbered(n, rule, key(rule.when, source)) for n, rule in enumerate(rules)]
    shared = _shared([each.rule for each in numbered if each.key is None])
    columns = events.columns
    ready = _ready(events, numbered, source)
    if shared:
        answers = ", ".join(compiled(clause, source) for clause in shared)
        ready = ready.selectExpr("*", f"array({answers}) AS {SHARED}")
    known = {clause: f"get({SHARED}, {at})" for at, clause in enumerate(shared)}
    kept = [named(column) for column in columns]
    # In a projection of its own: inside of explode Spark would interpret it wherever a stage is too large to compile.
    hits = ready.selectExpr(*kept, f"{_hits(numbered, source, known)} AS {HITS}")
    alone = hits.selectExpr(*kept, f"explode({HITS}) AS {HIT}")
    return alone.selectExpr(*kept, *_meaning(rules))


def _ready(events: DataFrame, rules: Sequence[_Numbered], source: Source) -> DataFrame:
    """Add what clauses and keys need of the columns, each once."""
    needed = prepared(each.rule.when for each in rules)
    keyed = {each.key.column for each in rules if each.key and source.is_text(each.key.column)}
    lowered = Prepared(frozenset({*needed.lower, *keyed}), needed.addresses)
    names = (f"{last_part(named(LOWER + name))} AS {named(NAME + name)}" for name in sorted(keyed))
    ready = events
    for step in lowered.steps():
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


def _hits(rules: Sequence[_Numbered], source: Source, known: Mapping[Clause, str]) -> str:
    """Return SQL for the numbers of the rules that fire."""
    found = []
    for guard, group in _groups(rules, source):
        fires = ", ".join(
            f"if({compiled(each.rule.when, source, None if each.key else known)}, {each.number}, {QUIET})"
            for each in group
        )
        hits = f"array_remove(array({fires}), {QUIET})"
        found.append(hits if guard is None else f"if({guard}, {hits}, {NOTHING})")
    return f"concat({', '.join(found)})"


def _groups(
    rules: Sequence[_Numbered], source: Source
) -> Iterator[tuple[str | None, list[_Numbered]]]:
    """Yield groups of rules, each with the condition without which none of them fires."""
    for column, of_column in groupby(sorted(rules, key=_order), key=_column):
        group = list(of_column)
        for start in range(0, len(group), GROUP):
            cut = group[start : start + GROUP]
            if not column:
                yield None, cut
                continue
            values = {value for each in cut if each.key for value in each.key.values}
            name = NAME + column if source.is_text(column) else column
            listed = ", ".join(
                quoted(each) if isinstance(each, str) else f"{each}L"
                for each in sorted(values, key=str)
            )
            yield f"coalesce({named(name)} IN ({listed}), false)", cut


def _column(each: _Numbered) -> str:
    return each.key.column if each.key else ""


def _order(each: _Numbered) -> tuple[str, str, int]:
    least = min(map(str, each.key.values), default="") if each.key else ""
    return (_column(each), least, each.number)


def _meaning(rules: Sequence[AlertRule]) -> Iterator[str]:
    """Yield SQL for the columns of a rule by its number, out of constants."""
    texts = (
        [rule.id for rule in rules],
        [rule.version for rule in rules],
        [str(rule.severity) for rule in rules],
    )
    for name, values in zip(RULE, texts, strict=True):
        yield f"get(split({quoted(BETWEEN.join(values))}, '{BETWEEN}'), {HIT}) AS {name}"
