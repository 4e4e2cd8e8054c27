"""Edits of a silver table: its rules, its key, its columns and its lateness."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from fleet.silver import device_telemetry as silver
from strandline.core.kind import Lateness
from strandline_quality.rules import Rule, required
from tests.support.edits import Edit

LOG = """
    batch | id | device | signal      | value | event_at | arrived_at
    1     | a  | d1     | temperature | 1     | 09:00:00 | 09:00:00
    1     | b  | d1     | temperature | 7     | 11:50:00 | 11:50:00
    1     | c  | d2     | temperature | 2     | 12:00:00 | 12:00:00
    2     | b  | d1     | temperature | 7     | 11:50:00 | 12:01:00
    2     | c  | d2     | temperature | 2     | 12:00:00 | 12:01:00
    2     | x  | d2     | temperature | 3     | 12:00:00 | 12:01:00
    2     | e  | d1     | temperature | 8     | 12:02:00 | 12:02:00
    2     | f  | d1     | temperature | 4     | 12:03:00 | 12:03:00
    3     | g  | d1     | temperature | 5     | 12:04:00 | 12:04:00
"""
LATE = LOG + "    3     | h  | d1     | temperature | 5     | 10:00:00 | 12:04:00\n"


def _rule(holds: str, name: str = "odd:value") -> tuple[Rule, ...]:
    about = "a value that no sensor of the test has"
    whole = {"value": "1", "_batch": 0}
    rule = Rule(name=name, holds=holds, about=about, ok=whole, bad={**whole, "value": "99"})
    return (*required("event_id", "device_id", "signal", "value", "event_at"), rule)


BELOW_SIX, BELOW_NINE = _rule("value < 6"), _rule("value < 9")
FROM_NOW_ON = _rule("value < if(_batch = 0, 6, 9)")
TABLE = replace(silver.TABLE, rules=BELOW_SIX)


def with_a_column(events: DataFrame) -> DataFrame:
    return silver.device_telemetry(events).withColumn("twice", F.col("value") * 2)


def by_capitals(events: DataFrame) -> DataFrame:
    return silver.device_telemetry(events).withColumn("event_id", F.upper("event_id"))


def judged_tables() -> Iterator[Edit]:
    """Yield the edits; a copy of the second part was held in the first, or was good."""
    yield Edit(
        name="silver: a literal of a rule",
        before=TABLE,
        after=replace(TABLE, rules=BELOW_NINE),
        reference=replace(TABLE, rules=FROM_NOW_ON),
        log=LOG,
    )
    for name, after, log in (
        ("silver: the reason of a rule", replace(TABLE, rules=_rule("value < 6", "else")), LOG),
        ("silver: a column added", replace(TABLE, transform=with_a_column), LOG),
        ("silver: another key of the type", replace(TABLE, key=("device_id",)), LOG),
        ("silver: a key added", replace(TABLE, key=("event_id", "device_id")), LOG),
        ("silver: a key computed otherwise", replace(TABLE, transform=by_capitals), LOG),
        (
            "silver: a longer lateness",
            replace(TABLE, lateness=Lateness(late=timedelta(hours=3))),
            LATE,
        ),
        (
            "silver: a shorter lateness",
            replace(TABLE, lateness=Lateness(late=timedelta(minutes=30))),
            LOG,
        ),
    ):
        yield Edit(name=name, before=TABLE, after=after, log=log)
