"""The rules that raise alerts, kept outside of the process: what a start needs to know about the one before.

A checkpoint is behind what was judged: up to five minutes in real-time mode, after a stop as after a crash. A process that
starts judges these events again. With other rules than the last one it would raise a second alert, of another version, on
an event that has one. So it begins with the stages of the last process (jobs/strandline/alerting/rules/handover.py), and its own rules follow
at an offset: that at which the last one stopped, or the end of the topics where that is unknown, after a crash.

Rules are kept as their documents, and read again like those of a folder. One that is no longer read as the same version,
because the code has changed, is left out.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from strandline.alerting.rules.alert_rule import AlertRule
from strandline.alerting.rules.handover import Offsets, Rule, Stage
from strandline.alerting.rules.live import continued, feeds, stages_of
from strandline.alerting.rules.sigma.read_rule import names_of, read_correlation, read_rule
from strandline.alerting.rules.sigma.tree import UnsupportedError
from strandline.alerting.rules.threshold_rule import ThresholdRule
from strandline.core.feed import Feed

Known = Mapping[tuple[str, str], Rule]
"""Rules by id and version."""

Done = Callable[[Feed], Offsets | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """What the last process has left.

    Args:
        feeds: Its feeds, each with its stages.
        ends: By feed the offsets before which it has judged; empty where it did not say.
    """

    feeds: tuple[Feed, ...] = ()
    ends: Mapping[str, Offsets] = field(default_factory=dict)

    @property
    def rules(self) -> tuple[Rule, ...]:
        """Return the rules that ran last."""
        return tuple(rule for feed in self.feeds for rule in stages_of(feed)[-1].rules)


def encoded(running: Sequence[Feed], ends: Mapping[str, Offsets]) -> str:
    """Return the text to keep of feeds, with the offsets at which they stopped."""
    stages = {feed.id: stages_of(feed) for feed in running}
    every = {
        (rule.id, rule.version): rule
        for own in stages.values()
        for stage in own
        for rule in stage.rules
    }
    words = {
        "rules": [
            {
                "id": rule.id,
                "version": rule.version,
                "severity": rule.severity,
                "documents": [*_documents(rule)],
            }
            for rule in every.values()
        ],
        "feeds": {
            name: [
                {
                    "rules": [[rule.id, rule.version] for rule in stage.rules],
                    "since": _listed(stage.since),
                }
                for stage in own
            ]
            for name, own in stages.items()
        },
        "ends": {name: _listed(offsets) for name, offsets in ends.items()},
    }
    return json.dumps(words, default=str)


def decoded(text: str | None, current: Iterable[Rule], done: Done) -> Kept:
    """Return what was kept; nothing where there is no such text, or none that can be read.

    Args:
        text: What was kept.
        current: The rules of today, whose words hold where they mean the same.
        done: Returns the offsets at which a feed goes on; None where it never ran, so that nothing was judged.
    """
    try:
        found = json.loads(text or "")
        known = _known(found["rules"], current)
        kept = tuple(_feeds(found["feeds"], known, done))
        return Kept(feeds=kept, ends={name: _offsets(own) for name, own in found["ends"].items()})
    except (ValueError, KeyError, TypeError):  # none yet, torn by a disk, or of another version
        return Kept()


def _documents(rule: Rule) -> Iterator[dict[str, object]]:
    """Yield the document of a rule, and those of the rules whose events it counts."""
    yield {"origin": rule.origin, "document": rule.document}
    for part in rule.parts if isinstance(rule, ThresholdRule) else ():
        yield from _documents(part.rule)


def _known(listed: Iterable[Mapping[str, Any]], current: Iterable[Rule]) -> Known:
    """Return the rules that are listed; of one that means the same today nothing is read, which takes a millisecond."""
    today = {(rule.id, rule.version): rule for rule in current}
    found: dict[tuple[str, str], Rule] = {}
    for each in listed:
        name = (each["id"], each["version"])
        own = today.get(name)
        rule = own if own and own.severity == each["severity"] else _read(each["documents"])
        if rule is not None and (rule.id, rule.version) == name:
            found[name] = rule
    return found


def _read(documents: Sequence[Mapping[str, Any]]) -> Rule | None:
    own, *others = documents
    if own["document"] is None:
        return None  # it was declared in Python, so the code has another one now
    try:
        if not others:
            return read_rule(own["document"], own["origin"])
        named = dict[str, AlertRule]()
        for other in others:
            rule = read_rule(other["document"], other["origin"])
            named |= dict.fromkeys(names_of(other["document"]), rule)
        return read_correlation(own["document"], own["origin"], named)
    except UnsupportedError:
        return None


def _feeds(listed: Mapping[str, Any], known: Known, done: Done) -> Iterator[Feed]:
    for name, stages in listed.items():
        own = tuple(
            Stage(
                rules=tuple(known[id_, v] for id_, v in stage["rules"] if (id_, v) in known),
                since=_offsets(stage["since"]),
            )
            for stage in stages
        )
        feed = next((feed for feed in feeds(own[-1].rules) if feed.id == name), None)
        goes_on_at = done(feed) if feed else None
        if feed is not None and goes_on_at is not None:
            yield continued(feed, own, goes_on_at)


def _listed(offsets: Offsets) -> list[list[object]]:
    return [[topic, partition, offset] for (topic, partition), offset in sorted(offsets.items())]


def _offsets(listed: Iterable[Sequence[Any]]) -> dict[tuple[str, int], int]:
    return {(topic, partition): offset for topic, partition, offset in listed}
