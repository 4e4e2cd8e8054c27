"""bronze.alerts is as received."""

import pytest

from strandline.alerting.tables import silver
from strandline.alerting.tables.bronze import TABLE

pytestmark = pytest.mark.whole


def test_it_reads_its_topic_and_changes_nothing() -> None:
    """What was raised twice is in it twice; silver has each once."""
    assert [topic.name for topic in TABLE.topics] == ["alerts"]
    assert silver.TABLE.reads == (TABLE,)
