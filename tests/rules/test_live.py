"""Rules are feeds: patterns by table, thresholds by the tables that they count, whatever their rules are."""

import pytest

from fleet.silver import process_events
from strandline.alerting.live import Staged, feeds, handover
from strandline.alerting.tables import bronze as alerts
from strandline.core.table import CountingFeed, EventFeed, Feed
from strandline.core.topic import Topic
from tests.rules.test_correlate import RULES, STARTED, acts


def test_each_feed_is_named_for_its_tables_and_reads_their_topics() -> None:
    found = feeds([*RULES, STARTED, acts("failed")])

    assert {feed.id: [topic.name for topic in feed.topics] for feed in found} == {
        "live.process_events": ["process-events"],
        "live.thresholds_process_events_and_user_actions": ["process-events", "user-actions"],
        "live.thresholds_user_actions": ["user-actions"],
        "live.user_actions": ["user-actions"],
    }
    assert {feed.to for feed in found} == set(alerts.TABLE.topics)
    assert [type(feed) for feed in found] == [EventFeed, CountingFeed, CountingFeed, EventFeed]


@pytest.mark.whole
@pytest.mark.parametrize("name", ["live.user_actions", "live.thresholds_user_actions"])
def test_a_feed_takes_over_with_the_former_rules_before_an_offset(name: str) -> None:
    (old,) = (feed for feed in feeds([*RULES, acts("failed")]) if feed.id == name)
    (new,) = (feed for feed in feeds([RULES[1], acts("other")]) if feed.id == name)
    since = {("user-actions", 0): 7}

    after, ended = handover(old, new, since, {}), handover(old, None, since, {})

    assert after.version == new.version != old.version
    assert ended.version == ""
    assert [stage.since for stage in stages(after)] == [{}, since]
    assert [stage.rules for stage in stages(after)] == [
        stages(old)[0].rules,
        stages(new)[0].rules,
    ]
    assert [len(stage.rules) for stage in stages(ended)] == [len(stages(old)[0].rules), 0]


def test_a_feed_of_another_kind_is_no_feed_of_alerts() -> None:
    other = EventFeed(
        name="x", of=process_events.TABLE, transform=lambda rows: rows, key="x", to=Topic(name="x")
    )

    with pytest.raises(TypeError, match=r"live\.x"):
        handover(other, None, {}, {})


def stages(feed: Feed) -> tuple[object, ...]:
    assert isinstance(feed, EventFeed | CountingFeed)
    assert isinstance(feed.transform, Staged)
    return feed.transform.stages
