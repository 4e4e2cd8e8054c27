"""bronze.user_confirmations is as received."""

import pytest

from fleet.bronze.user_confirmations import TABLE
from fleet.silver import user_confirmations as silver

pytestmark = pytest.mark.whole


def test_it_reads_its_topic_and_changes_nothing() -> None:
    """Every other table can be computed again from it."""
    assert [topic.name for topic in TABLE.topics] == ["user-confirmations"]
    assert silver.TABLE.reads == (TABLE,)
