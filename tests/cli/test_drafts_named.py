"""What a draft proposes is taken when it is typed: names of tables, kinds in quotes, and the way on after a refusal."""

import shlex
from pathlib import Path

import pytest

from strandline.cli.verbs import project
from strandline.core.errors import DefinitionError
from strandline.operate import draft, scaffold


def refusal(topic: str, *table: str) -> DefinitionError:
    """Return how a draft is refused, before anything of Kafka is asked."""
    with pytest.raises(DefinitionError) as refused:
        draft.new_topic(topic, 10, None, *table)
    return refused.value


def test_a_name_that_no_file_can_have_is_refused_with_a_hint() -> None:
    """A topic of Kafka may have 249 letters; that was an error of the file system."""
    found = refusal("x" * 249)

    assert "at most" in found.message
    (line,) = [each for each in found.hint.split("`") if each.startswith("strandline new topic")]
    assert scaffold.is_free(shlex.split(line)[-1])
    with pytest.raises(DefinitionError, match="cannot be written"):
        list(scaffold.put(scaffold.root(), {Path("tests", "x" * 300): ""}))


@pytest.mark.parametrize(
    ("topic", "name"),
    [
        ("class", "topic_class"),
        ("2024", "topic_2024"),
        ("2024-orders", "orders"),
        ("__", "topic"),
        ("list", "topic_list"),
    ],
)
def test_a_topic_of_any_name_gets_a_table(topic: str, name: str) -> None:
    """The topic's name is what Kafka has, so it cannot be chosen; that of the table can."""
    assert draft.bronze_name(topic) == name
    assert scaffold.is_free(name)


@pytest.mark.parametrize(
    ("topic", "message"),
    [
        ("device-telemetry", "bronze.device_telemetry reads topic device-telemetry already"),
        ("device.telemetry", "bronze.device_telemetry is the table of topic device-telemetry"),
    ],
)
def test_a_second_draft_of_a_topic_says_what_is_there_and_what_to_type(
    topic: str, message: str
) -> None:
    """Of the same topic a table above is wanted; of a topic that is written nearly alike another name."""
    found = refusal(topic)

    assert message in found.message
    leads = "new silver" if topic == "device-telemetry" else "--table device_telemetry_2`"
    assert leads in found.hint


@pytest.mark.parametrize("topic", ["meters.telemetry", "class", "2024"])
def test_a_topic_whose_name_no_module_has_is_led_to_its_records(topic: str) -> None:
    """Without the option the name is the module's, and the option was named nowhere."""
    with pytest.raises(DefinitionError) as refused:
        project.new_topic(topic)

    assert f"`strandline new topic {topic} --from-topic`" in refused.value.hint


def test_a_topic_that_is_not_there_is_answered_with_those_that_are() -> None:
    """No table declares it, so `strandline up` would not create it."""
    near = draft.no_such_topic("nosuch-order", ["orders", "nosuch-orders", "__consumer_offsets"])
    none = draft.no_such_topic("orders", [])

    assert "topic nosuch-order does not exist" in near.message
    assert near.hint.startswith("did you mean nosuch-orders")
    assert "__consumer_offsets" not in near.hint
    assert "strandline up" not in near.hint
    assert "has no topic" in none.hint
