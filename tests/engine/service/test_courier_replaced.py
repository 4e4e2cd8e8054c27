"""A process that delivers and was suspended ends when it goes on beside its successor, in a folder and on a store."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from strandline.alerting.courier import Courier, Desk
from strandline.alerting.notice import Webhook
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.store_lease import FencedError
from strandline.engine.service.condition import LOCK, receivers
from tests.support.notices import Receiver, alert, send

pytestmark = [pytest.mark.kafka, pytest.mark.whole]


@pytest.mark.parametrize("kind", ["a folder", "an object store"])
def test_a_sender_that_was_replaced_sends_nothing_that_its_successor_does_not_know(
    desk: Desk, kafka: str, receiver: Receiver, kind: str, request: pytest.FixtureRequest
) -> None:
    """It was suspended for longer than its lease; what it had read is read and delivered by the other."""
    if kind == "an object store":
        desk = replace(desk, lake=Lake(request.getfixturevalue("bucket")))
    suspended, other = (Courier(Webhook(receiver.address), desk) for _ in range(2))
    send(kafka, desk.topic.name, [alert(1), alert(2, "other")])
    with suspended.lease():
        _tended(suspended, lambda: suspended.books.delivered == 2)
        suspended.end()
        # As the lease of a store would let it, and the lock of a folder never does.
        (desk.lake.deliveries / f"{suspended.sink.name}{LOCK}").remove()
        send(kafka, desk.topic.name, [alert(3, "third"), alert(4, "fourth")])
        with other.lease():
            other.drain()
        with pytest.raises(FencedError, match="another process delivers"):
            _tended(suspended, lambda: False)

    assert sorted(receiver.counts) == [1, 1, 1, 1]
    (stored,) = receivers(desk.lake)
    assert (stored["read"], stored["delivered"], stored["waiting"]) == (4, 4, 0)


def _tended(courier: Courier, until: Callable[[], bool]) -> None:
    for _ in range(600):
        if until():
            return
        courier.tend()
    raise AssertionError(courier.books)
