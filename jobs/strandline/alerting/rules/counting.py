"""Threshold rules as the function of a feed: what their parts find in each table, counted in one state for all rules.

The parts are one plan a table, as in a backtest (jobs/strandline/alerting/rules/correlate.py); the state is that of jobs/strandline/alerting/rules/count_step.py.
Rules that count events of several tables read them as one stream, whose watermark is that of the table that is furthest
behind. So what waits for the watermark waits for events of all of the tables: counts that more events may spoil, and the
moment at which state is forgotten. Growing counts wait for nothing.
"""

from collections.abc import Sequence
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from strandline.alerting.rules.compile import quoted
from strandline.alerting.rules.correlate import TIME, hits
from strandline.alerting.rules.count_step import fold
from strandline.alerting.rules.counted_tables import sources_of
from strandline.alerting.rules.handover import Staged
from strandline.alerting.rules.threshold_rule import ThresholdRule
from strandline.alerting.tables.silver import FIELDS as ALERT
from strandline.core.stateful import folded

PLACE = {
    "event_topic": "substring_index(place, '/', 1)",
    "event_partition": "CAST(split_part(place, '/', 2) AS INT)",
    "event_offset": "CAST(substring_index(place, '/', -1) AS BIGINT)",
}


class Counting(Staged[ThresholdRule]):
    """The function of a feed of threshold rules, all about the same tables."""

    def __call__(self, tables: Sequence[DataFrame]) -> DataFrame:
        """Return the alerts on believed rows of the tables, in the order of ``sources_of``."""
        rules, own = self.every, self.waiting(tables)
        counted = folded(
            own.withColumn("rule", F.concat_ws(" ", "rule_version", "rule_id")),
            fold({_name(rule): rule for rule in rules}, map(_name, self.stages[-1].rules)),
            time=TIME,
        )
        at = F.timestamp_micros("event_at")
        return counted.withColumn("event_at", at).select(*ALERT.names)

    def waiting(self, tables: Sequence[DataFrame | None]) -> DataFrame:
        """Return what the parts find in rows of the tables, which is what waits in state, with its time as ``TIME``."""
        rules = self.every
        pairs = zip(sources_of(rules[0]), tables, strict=True)
        every = (hits(rows, its, rules) for its, rows in pairs if rows is not None)
        named = reduce(DataFrame.unionByName, every).selectExpr(
            "*",
            f"{_by_number([rule.id for rule in rules])} AS rule_id",
            f"{_by_number([rule.version for rule in rules])} AS rule_version",
            *(f"{sql} AS {name}" for name, sql in PLACE.items()),
        )
        return self.of_their_stage(named)


def _by_number(texts: Sequence[str]) -> str:
    """Return SQL for the text of a rule by its number."""
    return f"element_at(array({', '.join(map(quoted, texts))}), rule + 1)"


def _name(rule: ThresholdRule) -> str:
    """Return by what the state of a rule is found: another version has another."""
    return f"{rule.version} {rule.id}"
