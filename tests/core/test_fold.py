"""A fold is checked when its module is read: a mistake in it shows nowhere but in the rows."""

from dataclasses import replace
from typing import Any

import pytest

from fleet.gold import attributed_connections, ip_holds
from strandline.core.errors import DefinitionError
from strandline.core.fold import Fold
from strandline.core.topic import Topic


@pytest.mark.parametrize("fold", [ip_holds.FOLD, attributed_connections.FOLD])
@pytest.mark.parametrize(
    ("wrong", "message", "hint"),
    [
        ({"form": 0}, "declares form=0", "form=1 for the first.*strandline rebuild"),
        ({"form": -1}, "declares form=-1", "form=1"),
        ({"form": True}, "declares form=True", "form=1"),
        ({"form": 1.0}, "declares form=1.0", "form=1"),
        ({"by": "device_id"}, "by='device_id', which is no tuple", "the comma"),
        ({"by": ()}, "does not declare its by", "by="),
        ({"key": ()}, "does not declare its key", "key="),
        ({"reads": ["a"]}, "which is no tuple", "the comma"),
        ({"key": ("nowhere",)}, "its output has no nowhere", "its output has "),
    ],
)
def test_a_wrong_fold_is_refused_with_what_to_write(
    fold: Fold, wrong: dict[str, Any], message: str, hint: str
) -> None:
    """State of form 0 is read as that of a step without forms, one level too deep."""
    with pytest.raises(DefinitionError, match=message) as caught:
        replace(fold, **wrong)

    assert caught.match(hint)


@pytest.mark.parametrize(
    "wrong", [{"partitions": 0}, {"partitions": -1}, {"name": ""}, {"name": "a/b"}, {"name": ".."}]
)
def test_a_topic_that_kafka_cannot_have_is_refused(wrong: dict[str, Any]) -> None:
    """Kafka would refuse it in the middle of a start."""
    with pytest.raises(DefinitionError, match=r"a Topic declares|declares partitions"):
        Topic(**{"name": "orders", **wrong})
