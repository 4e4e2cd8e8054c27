"""bronze.dhcp_events is as received."""

from fleet.bronze.dhcp_events import TABLE
from fleet.silver import dhcp_events as silver


def test_it_reads_its_topic_and_changes_nothing() -> None:
    """Every other table can be computed again from it."""
    assert [topic.name for topic in TABLE.topics] == ["dhcp-events"]
    assert silver.TABLE.reads == (TABLE,)
