"""A notice that a receiver never accepts holds back its own rule and no other."""

import json

import pytest

from strandline.alerting.courier import Courier, Desk
from strandline.alerting.notice import Webhook
from strandline.engine.runtime.outage import FIRST
from tests.support.logged import Logged
from tests.support.notices import Receiver, alert, send

pytestmark = [pytest.mark.kafka, pytest.mark.whole]


def test_other_rules_have_their_notices_and_short_pauses(
    desk: Desk, kafka: str, receiver: Receiver, log: Logged
) -> None:
    """It is too large, say; people see in the log and in the status that it waits."""
    receiver.status = lambda: 413 if receiver.got[-1]["rule"] == "refused" else 200
    courier = Courier(Webhook(receiver.address), desk)
    with courier.lease():
        for number in range(2):
            send(kafka, desk.topic.name, [alert(number, "refused"), alert(number, f"r{number}")])
            while len(receiver.accepted) <= number:
                courier.tend()
        courier.end()

    assert courier._sends._pause <= 2 * FIRST
    assert [notice["rule"] for notice in receiver.accepted] == ["r0", "r1"]
    assert courier.books.waiting == 2
    assert "413" in str(courier.books.away)
    assert len(log.all_of("waits")) <= 4
    stored = json.loads(courier._place.text() or "")
    assert stored["outbox"]["refused"]["count"] + stored["digests"]["refused"]["count"] == 2
