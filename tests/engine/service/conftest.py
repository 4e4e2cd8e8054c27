"""A topic of alerts and a real receiver, for couriers."""

from collections.abc import Iterator
from datetime import timedelta

import pytest

from strandline.alerting.alert_rule import Severity
from strandline.alerting.courier import Desk
from strandline.alerting.notice import RuleWords
from strandline.core.topic import Topic
from strandline.engine.lake.lake import Lake
from tests.engine.records import make
from tests.support.logged import Logged
from tests.support.notices import Hands, Receiver, receiving


@pytest.fixture
def hands() -> Hands:
    return Hands()


@pytest.fixture
def log() -> Logged:
    return Logged()


@pytest.fixture
def desk(kafka: str, topic: Topic, lake: Lake, hands: Hands, log: Logged) -> Desk:
    """Return the desk of couriers that read a topic from its beginning, a notice a rule and minute."""
    make(kafka, topic)
    return Desk(
        lake=lake,
        topic=topic,
        locate=lambda: kafka,
        options={},
        every=lambda _: timedelta(minutes=1),
        least=Severity.INFORMATIONAL,
        words=lambda _: RuleWords(title="A title"),
        clock=hands,
        log=log,
        from_the_first=True,
    )


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as found:
        yield found
