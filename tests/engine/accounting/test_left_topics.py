"""What a table has left is found without its history where it has left nothing."""

from dataclasses import replace
from unittest.mock import patch

import pytest

from fleet.bronze import device_telemetry as bronze
from strandline.core.topic import RECEIVED
from strandline.engine.accounting.routes import said
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log import ledger_sums
from strandline.engine.lake.log.ledger import Entry
from tests.support.by_hand import create
from tests.support.ledgers import write_log

TOPIC = bronze.TABLE.topics[0].name
BATCH = Entry(
    table=bronze.TABLE.id,
    mode="stream",
    stream=f"{TOPIC}@a1",
    batch=0,
    source=TOPIC,
    offsets={f"{TOPIC}/0": (0, 1)},
)
COMMITS = 40


def filled(lake: Lake, last: Entry) -> Lake:
    """Return a lake whose bronze table has commits since its books were closed."""
    create(lake.table(bronze.TABLE), RECEIVED)
    batches = [replace(BATCH, batch=n, offsets={f"{TOPIC}/0": (n, n + 1)}) for n in range(COMMITS)]
    write_log(lake.table(bronze.TABLE), [*batches, last], first=1)
    return lake


def test_of_a_table_that_left_nothing_one_entry_is_read(lake: Lake) -> None:
    """`status` asks each bronze table, and its books may have been closed a thousand commits ago."""
    filled(lake, replace(BATCH, batch=COMMITS))

    with patch.object(ledger_sums, "entry_at", wraps=ledger_sums.entry_at) as read:
        assert said(bronze.TABLE, lake) == []

    assert read.call_count == 0


@pytest.mark.whole
def test_a_topic_that_left_the_declaration_is_named_before_the_next_batch(lake: Lake) -> None:
    """Until then the newest entry still names it as read."""
    filled(lake, replace(BATCH, batch=COMMITS))
    now = replace(bronze.TABLE, reads=bronze.TABLE.topics[1:])

    (line,) = said(now, lake)

    assert line.startswith(f"no longer fed: {TOPIC}, which the declaration")


@pytest.mark.whole
def test_a_cluster_that_was_left_is_named_though_its_topics_are_read(lake: Lake) -> None:
    moved = replace(
        BATCH,
        mode="move cluster",
        offsets={f"{TOPIC}/0": (9, 9), f"{TOPIC}/1000000": (0, 0)},
        moved={f"{TOPIC}/0": (9, 9)},
    )
    filled(lake, moved)

    (line,) = said(bronze.TABLE, lake)

    assert line.startswith(f"moved to another cluster: {TOPIC}/0 of {bronze.TABLE.id}")
