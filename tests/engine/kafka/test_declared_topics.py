"""The topics of the declared tables are created on the lake's own broker, and only named on an external cluster."""

from dataclasses import replace
from secrets import token_hex

import pytest

from fleet.bronze import user_actions
from strandline.core.errors import DefinitionError
from strandline.core.table import Table
from strandline.core.topic import Topic
from strandline.engine.kafka import broker
from strandline.engine.kafka.topic_log import Log

pytestmark = pytest.mark.kafka


@pytest.fixture
def tables() -> tuple[Table, Table]:
    """Return two tables with three topics; one topic is shared."""
    first, shared, last = (
        Topic(name=f"{name}-{token_hex(4)}", partitions=count)
        for name, count in (("a", 1), ("b", 3), ("c", 2))
    )
    table = user_actions.TABLE
    return replace(table, reads=(first, shared)), replace(table, name="x", reads=(shared, last))


@pytest.mark.whole
def test_each_is_made_once_with_the_partitions_that_it_declares(
    kafka: str, tables: tuple[Table, Table]
) -> None:
    """Repeating it changes nothing, also where a table declares another number of partitions by then."""
    declared = {topic.name: topic.partitions for table in tables for topic in table.topics}

    made = broker.make_missing(kafka, tables)
    again = broker.make_missing(kafka, tables)

    assert {topic.name: topic.partitions for topic in made} == declared
    assert again == []
    assert declared.items() <= broker.topics(kafka, {}).items()


def test_what_a_cluster_lacks_is_named_and_not_made(
    kafka: str, tables: tuple[Table, Table]
) -> None:
    """The cluster's operators decide how a topic is created there."""
    (first, shared), _ = (table.topics for table in tables)
    broker.create_topic(kafka, shared.name, 3, {})

    lacking = broker.missing(kafka, {}, tables)

    assert first in lacking
    assert shared not in lacking
    assert first.name not in broker.topics(kafka, {})


def test_the_hint_about_a_missing_topic_names_who_creates_it(
    kafka: str, tables: tuple[Table, Table]
) -> None:
    """The hint was `produce`, which knows only the tables of the example."""
    log = Log(kafka, {}, tables[0].topics[0])

    with pytest.raises(DefinitionError, match="does not exist") as refused:
        log.partitions()
    log.close()

    assert "`strandline up` creates it" in refused.value.hint
    assert "another cluster" in refused.value.hint
