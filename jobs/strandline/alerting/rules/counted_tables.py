"""Which tables a threshold rule counts, and the name of the feed that counts them; without Spark, as Dagster asks for both."""

from collections.abc import Sequence

from strandline.alerting.rules.threshold_rule import ThresholdRule
from strandline.alerting.source import AlertSource


def sources_of(rule: ThresholdRule) -> tuple[AlertSource, ...]:
    """Return the tables whose events a rule counts, in the order of their names."""
    return tuple(sorted(rule.sources, key=lambda source: source.table.id))


def feed_name(sources: Sequence[AlertSource]) -> str:
    """Return the name of the feed of all rules that count the same tables.

    It has the names of its tables, so that its checkpoint has the same sources whatever its rules are.
    """
    return f"thresholds_{'_and_'.join(source.table.name for source in sources)}"
