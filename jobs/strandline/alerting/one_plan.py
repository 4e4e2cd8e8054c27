"""All rules about a table in one plan: a row for each event and each rule that fires on it, and the alert that it becomes.

What keeps a rule from costing what a query of its own, or a ``when`` of its own, would cost:

* *What a clause needs of a column is made once per event* (jobs/strandline/alerting/compile.py): a thousand rules lower a command line
  once.
* *Most rules name a program or a number.* A rule that can only fire where the file name of ``Image`` is ``certutil.exe``
  has that as its key. One look into a hash set passes over all rules with keys of a column, and
  then one for each group of them, sorted by key.
* *Most of the others look for texts.* One search for all their texts passes over all of them, and then one for each
  group. Groups of rules with keys are searched for in the same way.
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

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TypeAlias

from pyspark.sql import DataFrame

from strandline.alerting.alert_rule import AlertRule, AlertSource
from strandline.alerting.compile import LOWER, Prepared, compiled, named, prepared, quoted
from strandline.alerting.condition import (
    AllOf,
    AnyOf,
    Clause,
    Condition,
    Matches,
    Missing,
    Not,
    Number,
    Order,
    Text,
    Wild,
)
from strandline.alerting.tables.silver import FIELDS as ALERT
from strandline.core.errors import DefinitionError
from strandline.core.table import Judged
from strandline_quality.linear import SHORTEST, linear

# SQL for which of many rules fire on an event: conditions behind guards that pass over most of them.
#
# A guard is a look into a hash set of the rules' keys, or one search for all of their needles. Guards are two deep: one
# over all rules of a kind, which most events do not pass, and one over each group of them.
#
# Groups of rules with keys have different keys, so that an event passes one of them, however many rules name several
# programs: such a rule is in the group of each. A key with many rules has several groups to itself.


# What an event must have for a rule to fire at all: a few file names or numbers of one column.
#
# ``Image|endswith: '\certutil.exe'`` can hold only where the last part of the path is ``certutil.exe``. A hash set of
# such names answers for many rules at once. A key is necessary, never sufficient: where it fits,
# the whole condition is still evaluated.


MOST = 64
"""The values of a key at most; a rule with more is asked of each event."""

SEPARATORS = re.compile(r"[\\/]")

Keys: TypeAlias = Mapping[str, frozenset[str | int]]
"""For a column, the values of which it must have one."""


@dataclass(frozen=True, slots=True)
class Key:
    """The values of which a column must have one: file names in lower case, or numbers."""

    column: str
    values: frozenset[str | int]


def key(condition: Condition, source: AlertSource) -> Key | None:
    """Return the key with the fewest values that a condition needs; None if it needs none."""
    found = _keys(condition, source)
    usable = sorted(
        (len(values), column) for column, values in found.items() if len(values) <= MOST
    )
    return Key(usable[0][1], found[usable[0][1]]) if usable else None


def last_part(text: str) -> str:
    """Return SQL for the last part of a path, of either kind."""
    return rf"substring_index(substring_index({text}, '\\', -1), '/', -1)"


def _keys(condition: Condition, source: AlertSource) -> Keys:
    match condition:
        case AllOf(parts):
            every = [_keys(part, source) for part in parts]
            found: dict[str, frozenset[str | int]] = {}
            for keys in every:
                for column, values in keys.items():
                    found[column] = found[column] & values if column in found else values
            return found
        case AnyOf(parts):
            every = [_keys(part, source) for part in parts]
            common = frozenset.intersection(*(frozenset(keys) for keys in every))
            return {column: frozenset().union(*(k[column] for k in every)) for column in common}
        case Text(column, glob) if source.is_text(column):
            name = _name(glob.folded.parts, is_cased=glob.cased)
            return {} if name is None else {column: frozenset((name,))}
        case Number(column, Order.IS, number) if source.is_number(column):
            return {column: frozenset((int(number),))} if number == int(number) else {}
        case _:
            return {}


def _name(parts: tuple[str | Wild, ...], *, is_cased: bool) -> str | None:
    """Return the file name that a text must end with, whole."""
    match parts:
        case (str() as text,) if not isinstance(text, Wild):
            whole = text
        case (Wild.MANY, str() as text) if not isinstance(text, Wild) and SEPARATORS.search(text):
            whole = text
        case _:
            return None
    name = SEPARATORS.split(whole)[-1]
    return name.lower() if is_cased else name


# Texts of which an event must contain one for a rule to fire at all, and one search for those of many rules.
#
# A rule without a key would be asked of every event. But most look for texts: of 350 texts in a command
# line of 110 characters, one search each took 111 µs, and one regular expression for all 9 µs, 1,000 texts 261 and 23
# [measured, OpenJDK 17]. The expression is a tree of their beginnings, ``-(?:dec(?:ode|ompress)|enc)``, so that at each place of
# the text it is compared with the few beginnings that fit, however many texts there are.
#
# As a key, a needle is necessary and never sufficient.


Needle: TypeAlias = tuple[str, str]
"""A column, and a text in lower case that the column, in lower case, contains."""

LONGEST = 16
"""Characters of a needle; the beginning of a text is enough to pass over most events."""


def needles(condition: Condition) -> frozenset[Needle] | None:
    """Return needles one of which an event must have; None if it needs none."""
    match condition:
        case AllOf(parts):
            found = [each for part in parts if (each := needles(part)) is not None]
            return min(found, key=_worth, default=None)
        case AnyOf(parts):
            every = [needles(part) for part in parts]
            known = [each for each in every if each is not None]
            both: frozenset[Needle] = frozenset().union(*known)
            return both if len(known) == len(every) and len(both) <= MOST else None
        case Text(column, glob):
            plain = [part for part in glob.folded.parts if not isinstance(part, Wild)]
            return _needle(column, max(plain, key=len, default=""), is_lower=not glob.cased)
        case Matches(column, pattern, flags):
            read = linear(pattern, flags)
            return _needle(column, read.literal or "", is_lower=read.ignores_case)
        case _:
            return None


def as_one_search(texts: Iterable[str]) -> str:
    """Return a regular expression of Java that finds any of several texts; of two that begin alike, the shorter."""
    root = _Branch()
    for text in texts:
        branch = root
        for letter in text:
            branch = branch.next.setdefault(letter, _Branch())
        branch.is_end = True
    return root.written()


@dataclass(slots=True)
class _Branch:
    next: dict[str, "_Branch"] = field(default_factory=dict)
    is_end: bool = False

    def written(self) -> str:
        if self.is_end:
            return ""
        parts = [
            _escaped(letter) + branch.written() for letter, branch in sorted(self.next.items())
        ]
        return parts[0] if len(parts) == 1 else f"(?:{'|'.join(parts)})"


def by_column(found: Iterable[Needle]) -> Mapping[str, frozenset[str]]:
    """Return the texts of each column."""
    columns: dict[str, set[str]] = {}
    for column, text in found:
        columns.setdefault(column, set()).add(text)
    return {column: frozenset(texts) for column, texts in sorted(columns.items())}


def _worth(found: frozenset[Needle]) -> tuple[int, int]:
    """Return less for needles that fewer events have: few of them, and long ones."""
    return len(found), -min(len(text) for _, text in found)


def _needle(column: str, text: str, *, is_lower: bool) -> frozenset[Needle] | None:
    """Return the needle of a text; letters beyond ASCII that are not yet in lower case have none that is sure."""
    if len(text) < SHORTEST or not (is_lower or text.isascii()):
        return None
    return frozenset(((column, text.lower()[:LONGEST]),))


def _escaped(letter: str) -> str:
    return letter if letter.isascii() and letter.isalnum() else f"\\x{{{ord(letter):x}}}"


GROUP = 32
"""Rules that one guard passes over."""

FEW = 4
"""Keys of a rule that is in the group of each of them; one with more is in one group, beside others of that kind."""

NAME = "_name_"
QUIET = -1
"""Is in the place of a rule that does not fire."""

NOTHING = "CAST(array() AS ARRAY<INT>)"


@dataclass(frozen=True, slots=True)
class Numbered:
    """A rule of the plan, and what an event must have for it to fire at all."""

    number: int
    rule: AlertRule
    key: Key | None
    needles: frozenset[Needle] | None

    @classmethod
    def of(cls, rules: Sequence[AlertRule], source: AlertSource) -> "list[Numbered]":
        """Return rules with their numbers."""
        return [
            cls(number, rule, key(rule.when, source), needles(rule.when))
            for number, rule in enumerate(rules)
        ]

    @property
    def is_asked_of_each(self) -> bool:
        """Return whether no guard passes over it."""
        return self.key is None and self.needles is None

    @property
    def kind(self) -> str:
        """Return what its guard looks at: the column of its key, or texts."""
        return self.key.column if self.key else "" if self.needles else "-"


@dataclass(frozen=True, slots=True)
class _Group:
    """Rules behind one guard: the keys of the group, or none where it is guarded by needles."""

    rules: tuple[Numbered, ...]
    keys: frozenset[str | int] = frozenset()


def hits(rules: Sequence[Numbered], source: AlertSource, known: Mapping[Clause, str]) -> str:
    """Return SQL for the numbers of the rules that fire, with ``QUIET`` among them.

    Args:
        rules: The rules.
        source: Their table; the row has what their clauses need.
        known: Clauses of rules that are asked of each event, and SQL for the answers that the row has.
    """
    kinds = sorted(dict.fromkeys(each.kind for each in rules))
    return _joined(
        _guarded([each for each in rules if each.kind == kind], source, known) for kind in kinds
    )


def _guarded(rules: Sequence[Numbered], source: AlertSource, known: Mapping[Clause, str]) -> str:
    """Return SQL for rules whose guards look at the same."""
    if rules[0].is_asked_of_each:
        return _joined(_fires(each.rules, source, known) for each in _cut(rules))
    key = rules[0].key
    if key is None:
        each = [_if(_has_a_needle(g.rules), _fires(g.rules, source, {})) for g in _by_needle(rules)]
        return each[0] if len(each) == 1 else _if(_has_a_needle(rules), _joined(each))
    groups = list(_by_key(rules))
    each = [
        _if(_guard(group, key.column, source), _fires(group.rules, source, {})) for group in groups
    ]
    values = frozenset[str | int]().union(*(group.keys for group in groups))
    return each[0] if len(each) == 1 else _if(_is_one_of(key.column, values, source), _joined(each))


def _by_needle(rules: Sequence[Numbered]) -> Iterator[_Group]:
    """Cut rules into groups, those that look for alike texts together."""
    return _cut(sorted(rules, key=lambda each: (min(each.needles or ()), each.number)))


def _by_key(rules: Sequence[Numbered]) -> Iterator[_Group]:
    """Yield groups with different keys, or with one and the same; no rule is in two groups with the same key."""
    of_key: dict[str | int, list[Numbered]] = {}
    wide = []
    for each in rules:
        values = each.key.values if each.key else frozenset()
        if len(values) > FEW:
            wide.append(each)
            continue
        for value in values:
            of_key.setdefault(value, []).append(each)
    keys: set[str | int] = set()
    together: dict[int, Numbered] = {}  # by number: a condition is dear to hash
    for value in sorted(of_key, key=str):
        its = of_key[value]
        if len(its) > GROUP:
            yield from _cut(its, frozenset((value,)))
            continue
        if len({*together, *(each.number for each in its)}) > GROUP:
            yield _Group(tuple(together.values()), frozenset(keys))
            keys, together = set(), {}
        keys.add(value)
        together.update((each.number, each) for each in its)
    if together:
        yield _Group(tuple(together.values()), frozenset(keys))
    for group in _cut(wide):
        known = (each.key.values for each in group.rules if each.key)
        yield _Group(group.rules, frozenset[str | int]().union(*known))


def _cut(rules: Sequence[Numbered], keys: frozenset[str | int] = frozenset()) -> Iterator[_Group]:
    for start in range(0, len(rules), GROUP):
        yield _Group(tuple(rules[start : start + GROUP]), keys)


def _guard(group: _Group, column: str, source: AlertSource) -> str:
    """Return the guard of a group: by its keys, and then also by its needles where each of several rules has some."""
    has_key = _is_one_of(column, group.keys, source)
    has_needles = len(group.rules) > 1 and all(each.needles for each in group.rules)
    return f"{has_key} AND {_has_a_needle(group.rules)}" if has_needles else has_key


def _fires(group: Sequence[Numbered], source: AlertSource, known: Mapping[Clause, str]) -> str:
    asked = ", ".join(
        f"if({compiled(each.rule.when, source, known)}, {each.number}, {QUIET})" for each in group
    )
    return f"array({asked})"


def _is_one_of(column: str, values: frozenset[str | int], source: AlertSource) -> str:
    """Return SQL for whether an event has one of the keys."""
    name = NAME + column if source.is_text(column) else column
    listed = ", ".join(
        quoted(each) if isinstance(each, str) else f"{each}L" for each in sorted(values, key=str)
    )
    return f"coalesce({named(name)} IN ({listed}), false)"


def _has_a_needle(rules: Sequence[Numbered]) -> str:
    """Return SQL for whether an event has a needle of one of the rules."""
    wanted = (needle for each in rules for needle in each.needles or ())
    searches = (
        f"coalesce({named(LOWER + column)} RLIKE {quoted(as_one_search(texts))}, false)"
        for column, texts in by_column(wanted).items()
    )
    return f"({' OR '.join(searches)})"


def _if(guard: str, found: str) -> str:
    return f"if({guard}, {found}, {NOTHING})"


def _joined(parts: Iterable[str]) -> str:
    each = list(parts)
    return each[0] if len(each) == 1 else f"concat({', '.join(each)})"


def columns_of(rules: Iterable[Numbered], source: AlertSource) -> Iterator[tuple[str, bool]]:
    """Yield the columns whose lower case guards look at, and whether they look at its last part as well."""
    for each in rules:
        if each.key and source.is_text(each.key.column):
            yield each.key.column, True
        for column, _ in each.needles or ():
            yield column, False


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


# The row of an alert, and its id, which is the same wherever the alert comes from.
#
# The id is a hash of the rule, its version and the identity of the event. Two rows are one event when they agree in the
# table's key and in their event time (``DUPLICATE_OF`` in jobs/strandline/core/verdict.py), so that is the identity, and not the
# place in Kafka: an event that is sent again has another offset and the same alerts. The live path, which after a crash
# repeats what it wrote last, and a backtest over silver give the same id without asking each other.
#
# Beside the event an alert says where its record is in Kafka; ``strandline why`` shows all of it to those who may see it.
# The alert leaves the lake, so sensitive columns are masked in it, as ``strandline_quality.mask`` masks them.
#
# SQL of native functions, because real-time mode runs no Python; ``alert_id`` is the same in Python.


ID_LENGTH = 32
"""Hexadecimal digits: 128 bits, so that two of a billion alerts share an id with a chance of 10^-21."""

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MOMENT = "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX"
"""To the microsecond; Spark's default cuts a time to milliseconds."""


def raised(rows: DataFrame, rules: Sequence[AlertRule]) -> DataFrame:
    """Return the alerts that rules raise on believed rows of their table.

    Args:
        rows: Rows of a silver table, as it stores them or as ``good_rows`` selects them.
        rules: Rules about that table.

    Raises:
        DefinitionError: There is no rule, or they are about several tables.
    """
    found = alerts(rows, rules)
    return found.selectExpr(*_columns(rules[0].source))


def alert_id(rule: AlertRule, row: Mapping[str, object]) -> str:
    """Return the id of the alert that a rule raises on a row of its table."""
    table = rule.source.table
    texts = [rule.id, rule.version, table.id, *(_text(row[name]) for name in identity(table))]
    return hashlib.sha256("".join(map(_part, texts)).encode()).hexdigest()[:ID_LENGTH]


def _columns(source: AlertSource) -> Iterator[str]:
    """Yield SQL for the columns of ``ALERT``."""
    table, names = source.table, source.fields.fieldNames()
    made = {
        "alert_id": _id(source),
        **{name: name for name in RULE},
        "event_table": quoted(table.id),
        "event_key": _json(source, table.key),
        "event_at": named(str(table.event_at)),
        "event": _json(source, names),
        "event_topic": "_topic",
        "event_partition": "_partition",
        "event_offset": "_offset",
    }
    for name in ALERT.fieldNames():
        yield f"{made[name]} AS {name}"


def _id(source: AlertSource) -> str:
    """Return SQL for what ``alert_id`` returns."""
    rule_id, rule_version, _ = RULE
    own = [rule_id, rule_version, quoted(source.table.id)]
    texts = [*own, *(as_text(source, name) for name in identity(source.table))]
    parts = ", ".join(f"char_length({text}), ':', {text}" for text in texts)
    return f"left(sha2(concat({parts}), 256), {ID_LENGTH})"


def identity(table: Judged) -> tuple[str, ...]:
    """Return the columns by which two rows of a table are one event."""
    return (*table.key, table.event_at)


def as_text(source: AlertSource, name: str) -> str:
    """Return SQL for a column as a part of an identity."""
    value = f"unix_micros({named(name)})" if source.is_time(name) else named(name)
    return f"CAST({value} AS STRING)"


def _text(value: object) -> str:
    if isinstance(value, datetime):
        return str((value - EPOCH) // timedelta(microseconds=1))
    return str(value)


def _part(text: str) -> str:
    """Return a text behind its length, so that no two lists of texts are joined to the same."""
    return f"{len(text)}:{text}"


def _json(source: AlertSource, names: Iterable[str]) -> str:
    """Return SQL for columns as a JSON object, without those that are NULL."""
    hidden = source.table.secret
    columns = ", ".join(
        f"{quoted(name)}, {masked(source, name) if name in hidden else named(name)}"
        for name in names
    )
    return f"to_json(named_struct({columns}), map('timestampFormat', {quoted(MOMENT)}))"


def masked(source: AlertSource, name: str) -> str:
    """Return SQL for what ``strandline_quality.mask.mask_value`` returns."""
    column = named(name)
    if source.is_time(name):
        return f"if({column} IS NULL, NULL, '[datetime]')"
    kind, text = ("text" if source.is_text(name) else "number"), f"CAST({column} AS STRING)"
    # The digits of a number in binary are its logarithm, exactly; a quotient of logarithms is not.
    top = f"shiftleft(1L, length(bin(char_length({text}) - 1)))"
    of_many = f"if({top} = 2, '2', concat({top} div 2 + 1, ' to ', {top}))"
    size = f"if(char_length({text}) = 1, '1', {of_many})"
    return f"if({text} = '', {text}, concat('[{kind}, ', {size}, ' long]'))"
