"""The rules as feeds: one for each table that they look at, all to the topic of alerts.

The plan is ``raised``, which a backtest runs over the table's rows (jobs/rules/alert.py), so the two cannot differ in
what an event means.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import replace

from jobs.bronze import alerts
from jobs.core.feed import Feed
from jobs.rules.alert_rule import AlertRule
from jobs.rules.handover import Offsets, Raising, Stage


def feeds(rules: Sequence[AlertRule]) -> list[Feed]:
    """Return a feed for each table that rules look at, in the order of the tables' names."""
    (topic,) = alerts.TABLE.topics
    sources = sorted({rule.source.table.id: rule.source for rule in rules}.items())
    found = []
    for _, source in sources:
        own = tuple(rule for rule in rules if rule.source == source)
        found.append(
            Feed(
                name=source.table.name,
                of=source.table,
                transform=Raising((Stage(rules=own, since={}),)),
                key="alert_id",
                to=topic,
                version=fingerprint(own),
            )
        )
    return found


def handover(old: Feed, new: Feed | None, since: Offsets, done: Offsets) -> Feed:
    """Return a feed with the rules of another from an offset on, and its own before.

    Args:
        old: The feed that was stopped.
        new: The feed that takes over; None where no rule looks at the table any more.
        since: The offsets of the first events that the new rules judge.
        done: The offsets at which it goes on.
    """
    former = raising(old)
    if new is None:
        return replace(old, transform=former.then((), since=since, done=done), version="")
    rules = raising(new).stages[-1].rules
    return replace(new, transform=former.then(rules, since=since, done=done))


def raising(feed: Feed) -> Raising:
    """Return the function of a feed of alerts."""
    if isinstance(feed.transform, Raising):
        return feed.transform
    raise TypeError(feed.id)


def fingerprint(rules: Sequence[AlertRule]) -> str:
    """Return a hash of the rules that run, by their versions; their order and their words do not change it."""
    lines = sorted(f"{rule.id} {rule.version} {rule.severity}" for rule in rules)
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:12]
