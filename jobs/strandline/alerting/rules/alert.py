"""The row of an alert, and its id, which is the same wherever the alert comes from.

The id is a hash of the rule, its version and the identity of the event. Two rows are one event when they agree in the
table's key and in their event time (``DUPLICATE_OF`` in jobs/strandline/core/verdict.py), so that is the identity, and not the
place in Kafka: an event that is sent again has another offset and the same alerts. The live path, which after a crash
repeats what it wrote last, and a backtest over silver give the same id without asking each other.

Beside the event an alert says where its record is in Kafka; ``strandline why`` shows all of it to those who may see it.
The alert leaves the lake, so sensitive columns are masked in it, as ``strandline_quality.mask`` masks them.

SQL of native functions, because real-time mode runs no Python; ``alert_id`` is the same in Python.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta

from pyspark.sql import DataFrame

from strandline.alerting.rules.alert_rule import AlertRule
from strandline.alerting.rules.compile import named, quoted
from strandline.alerting.rules.one_plan import RULE, alerts
from strandline.alerting.source import AlertSource
from strandline.alerting.tables.silver import FIELDS as ALERT
from strandline.core.table import Judged

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
