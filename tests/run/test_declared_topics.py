"""The topics of the declared tables are made on our own broker, and only named on another's."""

from dataclasses import replace
from secrets import token_hex

import pytest

from jobs.bronze import user_actions
from jobs.core.errors import DefinitionError
from jobs.core.table import Table, Topic
from jobs.run import topics
from jobs.run.kafka import Log

pytestmark = pytest.mark.kafka


@pytest.fixture
def tables() -> tuple[Table, Table]:
    """Return two tables of three topics, of which they share one."""
    first, shared, last = (
        Topic(name=f"{name}-{token_hex(4)}", partitions=count)
        for name, count in (("a", 1), ("b", 3), ("c", 2))
    )
    table = user_actions.TABLE
    return replace(table, reads=(first, shared)), replace(table, name="x", reads=(shared, last))


def test_each_is_made_once_with_the_partitions_that_it_declares(
    kafka: str, tables: tuple[Table, Table]
) -> None:
    """Once more changes nothing, also where a table asks for other partitions by now."""
    declared = {topic.name: topic.partitions for table in tables for topic in table.topics}

    made = topics.make_missing(kafka, tables)
    again = topics.make_missing(kafka, tables)

    assert {topic.name: topic.partitions for topic in made} == declared
    assert again == []
    assert declared.items() <= topics.topics(kafka, {}).items()


def test_what_a_cluster_lacks_is_named_and_not_made(
    kafka: str, tables: tuple[Table, Table]
) -> None:
    """How a topic is made there is the business of those who run it."""
    (first, shared), _ = (table.topics for table in tables)
    topics.create_topic(kafka, shared.name, 3, {})

    lacking = topics.missing(kafka, {}, tables)

    assert first in lacking
    assert shared not in lacking
    assert first.name not in topics.topics(kafka, {})


def test_a_reader_of_a_missing_topic_is_told_who_makes_it(
    kafka: str, tables: tuple[Table, Table]
) -> None:
    """The hint was to produce, which knows no tables but those of the example."""
    log = Log(kafka, {}, tables[0].topics[0])

    with pytest.raises(DefinitionError, match="does not exist") as refused:
        log.partitions()
    log.close()

    assert "`strandline up` makes it" in refused.value.hint
    assert "another cluster" in refused.value.hint
