"""The alert of a threshold rule, in the shape of every alert (jobs/strandline/alerting/rules/alert.py).

Its id is a hash of the rule, its version, the key and the beginning of its timespan, so that every pass over the same
events finds the same id. In the place of an event it says how many there were, in which time, and where in Kafka the
last few of them are; its own place is that of the event that decided. ``strandline why`` shows each.
"""

import hashlib
import json
from datetime import datetime, timedelta

from strandline.alerting.rules.alert import EPOCH, ID_LENGTH, _part
from strandline.alerting.rules.threshold_rule import ThresholdRule
from strandline.alerting.rules.windows import SHOWN, Fired

AlertRow = tuple[str, str, str, str, str, str, datetime, str, str, int, int]


def alert_of(rule: ThresholdRule, key: str, shown: str, found: Fired) -> AlertRow:
    """Return the alert as a row of ``ALERT``.

    Args:
        rule: The rule.
        key: The key, as it is.
        shown: The key as JSON, masked where it is sensitive.
        found: When the rule fired.
    """
    first, last = found.hits[0], found.hits[-1]
    decided = last if rule.comparison.grows else first
    topic, partition, offset = decided.place.rsplit("/", 2)
    about = {
        "count": found.count,
        "since": _moment(first.at).isoformat(),
        "until": _moment(found.at).isoformat(),
        "window": _moment(found.window).isoformat(),
        "events": [hit.place for hit in found.hits[-SHOWN:]],
    }
    return (
        threshold_alert_id(rule, key, found.window),
        rule.id,
        rule.version,
        str(rule.severity),
        ", ".join(source.table.id for source in rule.sources),
        shown,
        _moment(found.at),
        json.dumps(about, separators=(",", ":")),
        topic,
        int(partition),
        int(offset),
    )


def threshold_alert_id(rule: ThresholdRule, key: str, window: int) -> str:
    """Return the id of the alert of a key and of a timespan, which begins so many microseconds after 1970."""
    texts = map(_part, (rule.id, rule.version, key, str(window)))
    return hashlib.sha256("".join(texts).encode()).hexdigest()[:ID_LENGTH]


def _moment(micros: int) -> datetime:
    return EPOCH + timedelta(microseconds=micros)
