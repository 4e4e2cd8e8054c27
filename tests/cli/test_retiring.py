"""``retire`` and ``move`` refuse what they cannot do before Spark starts, and ``ledger`` and ``status`` say what was left."""

from unittest.mock import patch

import pytest

from jobs.bronze import device_telemetry as bronze
from jobs.cli import engine
from jobs.core.received import RECEIVED
from jobs.engine.storage.lake import Lake
from jobs.engine.storage.ledger import Entry
from tests.cli.inside import strandline, succeeded
from tests.support.by_hand import commit, create

TABLE = bronze.TABLE.id


@pytest.fixture
def read(lake: Lake) -> Lake:
    """Return a lake whose bronze table read a topic on two clusters, retired another, and a third left its declaration."""
    (new, _) = (topic.name for topic in bronze.TABLE.topics)
    entry = Entry(
        table=TABLE,
        mode="move cluster",
        stream=f"{new}@id",
        batch=0,
        source=new,
        offsets={
            f"{new}/0": (7, 7),
            f"{new}/1000000": (3, 3),
            "old/0": (5, 5),
            "older/0": (4, 4),
        },
        moved={f"{new}/0": (7, 9)},
        retired={"old": "an-id ann at noon: it is empty"},
    )
    create(lake.table(bronze.TABLE), RECEIVED)
    commit(lake.table(bronze.TABLE), [], entry.encoded())
    return lake


@pytest.mark.parametrize("verb", ["ledger", "status"])
def test_what_feeds_a_table_no_more_is_said(read: Lake, verb: str) -> None:
    (new, _) = (topic.name for topic in bronze.TABLE.topics)

    answer = succeeded(verb, "--lake", read.root)

    assert (
        f"retired from {TABLE}: old, read up to offset 5 of partition 0, by ann at noon: it is empty"
        in answer.out
    )
    assert (
        f"moved to another cluster: {new}/0 of {TABLE}, read up to offset 7, which ended at 9"
        in answer.out
    )
    assert "no longer fed: older, which the declaration" in answer.out


def test_nothing_is_begun_without_a_reason_or_for_a_table_that_reads_no_topic(read: Lake) -> None:
    words = [
        (("retire", TABLE, "--topic", "old"), "for a reason"),
        (("move", TABLE), "for a reason"),
        (("move", "silver.device_telemetry", "--because", "x"), "reads tables and no topic"),
        (("retire", "bronze.dhcp_events", "--topic", "x", "--because", "x"), "does not exist"),
    ]
    with patch.object(engine, "site", side_effect=AssertionError("Spark was started")):
        for typed, says in words:
            answer = strandline(*typed, "--lake", read.root)

            assert answer.code == 2, answer.printed
            assert says in answer.err
