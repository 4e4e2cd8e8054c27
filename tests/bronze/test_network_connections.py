"""bronze.network_connections is as received."""

import pytest

from fleet.bronze.network_connections import TABLE
from fleet.silver import network_connections as silver

pytestmark = pytest.mark.whole


def test_it_reads_its_topic_and_changes_nothing() -> None:
    """Every other table can be computed again from it."""
    assert [topic.name for topic in TABLE.topics] == ["network-connections"]
    assert silver.TABLE.reads == (TABLE,)
