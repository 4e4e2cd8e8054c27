"""bronze.device_inventory is as received."""

import pytest

from fleet.bronze.device_inventory import TABLE
from fleet.silver import device_inventory as silver

pytestmark = pytest.mark.whole


def test_it_reads_its_topic_and_changes_nothing() -> None:
    """Every other table can be computed again from it."""
    assert [topic.name for topic in TABLE.topics] == ["device-inventory"]
    assert silver.TABLE.reads == (TABLE,)
