"""A declaration that nothing could be sent by is refused where it is made."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from strandline.core.errors import DefinitionError
from strandline.engine.flow.publications import KafkaTopic, PostgresTable, Publish, identity
from tests.support.publishing import BRONZE, EVENTS, HOURS, ORDERS


@pytest.mark.parametrize(
    ("declare", "says"),
    [
        (lambda: KafkaTopic("a topic"), "no name of a topic"),
        (lambda: KafkaTopic(".."), "no name of a topic"),
        (lambda: PostgresTable("a; drop", url="SHOP"), "no name of a table"),
        (lambda: PostgresTable("a.b.c", url="SHOP"), "no name of a table"),
        (lambda: PostgresTable("orders", url="postgresql://a:b@c/d"), "no variable"),
        (lambda: Publish("Orders", ORDERS, to=print), "no name of what leaves"),
        (lambda: Publish("../orders", ORDERS, to=print), "no name of what leaves"),
        (lambda: Publish("orders", BRONZE, to=print), "only the rows of silver and gold"),
        (lambda: Publish("orders", ORDERS, to="kafka"), "no target"),  # type: ignore[arg-type]
    ],
)
def test_a_mistake_is_refused(declare: Callable[[], object], says: str) -> None:
    with pytest.raises(DefinitionError, match=says):
        declare()


def test_an_event_is_identified_by_its_time_as_well() -> None:
    assert identity(EVENTS) == ("order_id", "ordered_at")
    assert identity(replace(EVENTS, rows="items")) == ("order_id", "_item", "ordered_at")
    assert identity(ORDERS) == ("order_id",)
    assert identity(HOURS) == ("hour", "country")
