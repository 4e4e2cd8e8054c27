"""The alerts of threshold rules over rows of silver, in batch: one pass over each table, and one over what was found.

All parts of all rules about a table are one plan (jobs/strandline/alerting/one_plan.py). What they find is brought together by rule and
key and sorted by time, and one pure function goes over it (jobs/strandline/alerting/windows.py), the rows of a key after each other; so
memory holds the events of one window and never those of a key. It is Python, because no expression of Spark counts
distinct values in a sliding interval in less than the square of its events; and it sees only what the parts found.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

import pandas as pd
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import IntegerType, LongType, StringType, StructType

from strandline.alerting.alert_rule import AlertRule, AlertSource, ThresholdRule
from strandline.alerting.compile import named, quoted
from strandline.alerting.one_plan import alerts, as_text, identity, masked
from strandline.alerting.tables.silver import FIELDS as ALERT
from strandline.alerting.windows import Hit, alert_of, fired
from strandline.core.errors import DefinitionError

HIT = (
    StructType()
    .add("rule", IntegerType())
    .add("key", StringType())
    .add("at", LongType())
    .add("event", StringType())
    .add("step", IntegerType())
    .add("value", StringType())
    .add("shown", StringType())
    .add("place", StringType())
)
"""What a part found: for which rule and key, when, which event, as which part, and what of it is shown."""

TIME = "time"

BETWEEN = " "
"""Is between a version, which has none, and an id."""

ORDER = ("rule", "key", "at", "event", "step")


class _Row(NamedTuple):
    rule: int
    key: str
    at: int
    event: str
    step: int
    value: str | None
    shown: str
    place: str


def correlated(
    tables: Mapping[AlertSource, DataFrame], rules: Sequence[ThresholdRule], until: int
) -> DataFrame:
    """Return the alerts of threshold rules, in the columns of ``ALERT``.

    Args:
        tables: Rows of the tables whose events the rules count; a table that is absent has none.
        rules: The rules.
        until: The end of the rows' time, in microseconds since 1970.

    Raises:
        DefinitionError: None of the tables is there.
    """
    found = [hits(rows, source, rules) for source, rows in tables.items()]
    if not found:
        raise DefinitionError("no table is there", hint="name tables that the rules are about.")
    every = found[0]
    for each in found[1:]:
        every = every.unionByName(each)
    ordered = every.select(*HIT.names).repartition("rule", "key").sortWithinPartitions(*ORDER)
    return ordered.mapInPandas(_Pass(tuple(rules), until), ALERT)


def hits(rows: DataFrame, source: AlertSource, rules: Sequence[ThresholdRule]) -> DataFrame:
    """Return what the parts of rules find in the rows of a table, in the columns of ``HIT`` and with its time as ``TIME``.

    Args:
        rows: Rows of the table, with their place in Kafka.
        source: The table.
        rules: The rules; those that count none of its events find nothing.
    """
    wanted: dict[AlertRule, list[str]] = {}
    for number, rule in enumerate(rules):
        for step, part in enumerate(rule.parts):
            if part.rule.source == source:
                value = f"CAST({named(part.value)} AS STRING)" if part.value else "''"
                key = _key(source, part.keys)
                shown = _shown(source, zip(rule.keys, part.keys, strict=True))
                made = f"named_struct('rule', {number}, 'key', {key}, 'step', {-step}, 'value', {value}, 'shown', {shown})"
                wanted.setdefault(part.rule, []).append(made)
    parts = _by_meaning(wanted)
    cases = " ".join(
        f"WHEN {quoted(rule.version + BETWEEN + rule.id)} THEN array({', '.join(structs)})"
        for rule, structs in parts
    )
    event = ", '/', ".join(
        f"coalesce({as_text(source, name)}, '')" for name in identity(source.table)
    )
    return (
        alerts(rows, [rule for rule, _ in parts])
        .selectExpr(
            f"{named(source.table.event_at)} AS {TIME}",
            f"unix_micros({named(source.table.event_at)}) AS at",
            f"concat({event}) AS event",
            "concat_ws('/', _topic, _partition, _offset) AS place",
            f"explode(CASE concat(rule_version, {quoted(BETWEEN)}, rule_id) {cases} END) AS part",
        )
        .select(TIME, "at", "event", "place", "part.*")
        .where(F.col("key").isNotNull() & F.col("value").isNotNull())
        .select(TIME, *(F.col(name).cast(HIT[name].dataType) for name in HIT.names))
    )


def _by_meaning(wanted: Mapping[AlertRule, list[str]]) -> list[tuple[AlertRule, list[str]]]:
    """Return each rule once, by its id and version.

    By its id alone a rule that was edited lost its new condition to the old one where a plan has both: in a feed that goes on
    at a checkpoint, and in a backtest against a rule's former version.
    """
    known: dict[tuple[str, str], tuple[AlertRule, list[str]]] = {}
    for rule, structs in wanted.items():
        known.setdefault((rule.id, rule.version), (rule, []))[1].extend(structs)
    return list(known.values())


def _key(source: AlertSource, columns: Sequence[str]) -> str:
    """Return SQL for a key as one text; NULL where a part is NULL, because two NULLs are not the same."""
    if not columns:
        return "''"
    parts = ", ".join(
        f"char_length({text}), ':', {text}" for text in (as_text(source, name) for name in columns)
    )
    return f"concat({parts})"


def _shown(source: AlertSource, keys: Iterable[tuple[str, str]]) -> str:
    """Return SQL for a key as JSON, masked where it is sensitive."""
    hidden = source.table.secret
    columns = [
        f"{quoted(name)}, {masked(source, column) if column in hidden else named(column)}"
        for name, column in keys
    ]
    return f"to_json(named_struct({', '.join(columns)}))" if columns else "'{}'"


class _Pass:
    """Goes over sorted rows; a value, because Spark sends it to its workers."""

    def __init__(self, rules: tuple[ThresholdRule, ...], until: int) -> None:
        self._rules = rules
        self._until = until

    def __call__(self, frames: Iterable[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        found = []
        for (number, key), rows in groupby(_rows(frames), lambda row: (row.rule, row.key)):
            rule = self._rules[number]
            last: dict[str, str] = {}
            its = fired(rule, _hits_of_key(rows, last), self._until)
            found += [alert_of(rule, key, last["shown"], each) for each in its]
        yield pd.DataFrame(found, columns=ALERT.fieldNames())


def _rows(frames: Iterable[pd.DataFrame]) -> Iterator[_Row]:
    for frame in frames:
        yield from map(_Row._make, frame.itertuples(index=False, name=None))


def _hits_of_key(rows: Iterable[_Row], last: dict[str, str]) -> Iterator[Hit]:
    """Yield the hits of a key, and note how the key is shown."""
    for row in rows:
        last["shown"] = row.shown
        yield Hit(row.at, row.event, row.step, row.value, row.place)
