"""Kafka to bronze: every offset is read once, whatever the topic holds between its records."""

import time
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.admin._resource import ResourceType
from confluent_kafka.cimpl import NewPartitions
from pyspark.sql import SparkSession

from fleet.bronze import device_telemetry as bronze
from strandline.core.errors import DataError, DefinitionError
from strandline.core.stateful import AvailableNow
from strandline.core.table import Table
from strandline.core.topic import Topic
from strandline.engine.accounting.balance_sheet import Balance, balance
from strandline.engine.flow.readers import Level, TopicReader, topic_dangers
from strandline.engine.flow.runner import Site, run
from strandline.engine.kafka.slices import range_ends
from strandline.engine.kafka.topic_log import WAY, Log
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger import entries, last_entry
from strandline.engine.runtime.jvm import jvm
from strandline.operate.audit import refuse_danger
from tests.engine.records import HOUR, NOON, admin, drop, expire, make, put, put_transactions
from tests.support.engine import as_in_production

pytestmark = pytest.mark.kafka


@pytest.fixture
def site(spark: SparkSession, clock: Callable[[], datetime], kafka: str) -> Site:
    """Return a site with a broker."""
    return Site(spark=spark, clock=clock, address=kafka)


@pytest.fixture
def table(topic: Topic) -> Table:
    """Return a bronze table that reads the test's own topic."""
    return replace(bronze.TABLE, reads=(topic,))


def filled(table: Table, lake: Lake, site: Site, limit: int | None = None) -> Balance:
    run(table, AvailableNow(max_offsets=limit), lake, site=site)
    return balance(table, lake)


def refusal(table: Table, lake: Lake, site: Site) -> DataError:
    version = last_entry(lake.table(table))
    with pytest.raises(DataError) as caught:
        run(table, AvailableNow(), lake, site=site)
    assert last_entry(lake.table(table)) == version
    return caught.value


@pytest.mark.whole
def test_slices_follow_each_other_without_a_gap(table: Table, lake: Lake, site: Site) -> None:
    """Three runs and many slices leave one unbroken range of each partition."""
    address = str(site.address)
    make(address, table.topics[0])
    for hour in range(3):
        put(address, table.topics[0], [(n % 2, hour * HOUR + n * 1000) for n in range(50)])
        filled(table, lake, site, limit=20)

    sheet = balance(table, lake)
    assert sheet.balanced, sheet.faults
    assert (sheet.read, sheet.rows, sheet.batches) == (150, 150, 9)
    offsets = [one.offsets for _, one in entries(lake.table(table))]
    assert [end for _, end in offsets[-1].values()] == [75, 75]


def test_all_batches_of_a_table_are_read_by_the_classes_of_its_first(
    spark: SparkSession, table: Table, lake: Lake, site: Site
) -> None:
    """A batch's number and moments in the text of generated code made each batch a class: compiled, and slow at first."""
    compiled = jvm(spark).org.apache.spark.metrics.source.CodegenMetrics.METRIC_COMPILATION_TIME()
    make(str(site.address), table.topics[0])

    def batches(hour: int) -> int:
        before = int(compiled.getCount())
        put(str(site.address), table.topics[0], [(0, hour * HOUR + n) for n in range(40)])
        filled(table, lake, site, limit=10)
        return int(compiled.getCount()) - before

    with as_in_production(spark):
        first, second = batches(0), batches(1)

    assert first > 0
    assert second == 0


@pytest.mark.whole
def test_a_run_with_nothing_new_commits_nothing(table: Table, lake: Lake, site: Site) -> None:
    """A schedule without new records must not fill the log."""
    make(str(site.address), table.topics[0])
    put(str(site.address), table.topics[0], [(0, 0)])
    filled(table, lake, site)
    before = last_entry(lake.table(table))

    filled(table, lake, site)

    assert last_entry(lake.table(table)) == before


@pytest.mark.whole
def test_what_was_received_is_kept_byte_by_byte(table: Table, lake: Lake, site: Site) -> None:
    """Bytes that are no text, a tombstone, a header: bronze judges nothing."""
    make(str(site.address), table.topics[0])
    put(str(site.address), table.topics[0], [(1, 7)], key="k\u00e9y")

    filled(table, lake, site)

    (row,) = site.spark.read.format("delta").load(str(lake.table(table))).collect()
    assert bytes(row["_payload"]) == b"1/0"
    assert bytes(row["_message_key"]) == "k\u00e9y".encode()
    assert (row["_topic"], row["_partition"], row["_offset"]) == (table.topics[0].name, 1, 0)
    assert row["_arrived_at"].isoformat() == "2026-11-20T12:00:00.007000"


@pytest.mark.whole
def test_aborted_transactions_and_markers_are_offsets_without_a_record(
    table: Table, lake: Lake, site: Site
) -> None:
    """They are proved by a count with another client, not assumed because a number was smaller."""
    make(str(site.address), table.topics[0])
    put_transactions(str(site.address), table.topics[0], [5, -4, 3, -2])

    sheet = filled(table, lake, site, limit=6)

    assert sheet.balanced, sheet.faults
    assert (sheet.read, sheet.rows) == (8, 8)
    assert sum(one.without_record for _, one in entries(lake.table(table))) == 4 + 2 + 4


@pytest.mark.whole
def test_a_topic_of_aborted_records_only_ends(table: Table, lake: Lake, site: Site) -> None:
    """The position must pass them, or every run would read them again."""
    make(str(site.address), table.topics[0])
    put_transactions(str(site.address), table.topics[0], [-5])

    sheet = filled(table, lake, site)

    assert sheet.balanced, sheet.faults
    newest = last_entry(lake.table(table))
    assert newest is not None
    assert (newest[1].read, newest[1].without_record) == (0, 6)


@pytest.mark.slow
def test_a_compacted_topic_balances(table: Table, lake: Lake, site: Site) -> None:
    """Compaction leaves the last record of each key, and holes where the others were."""
    address, topic = str(site.address), replace(table.topics[0], partitions=1)
    table = replace(table, reads=(topic,))
    eager = {"cleanup.policy": "compact", "segment.ms": "100", "min.cleanable.dirty.ratio": "0.001"}
    make(address, topic, {**eager, "max.compaction.lag.ms": "1"})
    hurry(address)
    for round_ in range(4):
        put(address, topic, [(0, round_ * HOUR + n) for n in range(10)], key="same")
    put(address, topic, [(0, 9 * HOUR)], key="last")
    log = Log(address, {}, topic)
    deadline = time.monotonic() + 40
    while (there := log.count({0: 0}, {0: 41})) == 41 and time.monotonic() < deadline:
        time.sleep(0.2)
    log.close()
    assert there < 41, "the cleaner never came"

    sheet = filled(table, lake, site)

    assert sheet.balanced, sheet.faults
    newest = last_entry(lake.table(table))
    assert newest is not None
    assert newest[1].offsets == {f"{topic.name}/0": (0, 41)}
    assert (newest[1].read + newest[1].without_record, newest[1].without_record > 0) == (41, True)


@pytest.mark.whole
def test_a_recreated_topic_is_refused(table: Table, lake: Lake, site: Site) -> None:
    """Its offsets count other records; nothing is written."""
    address = str(site.address)
    make(address, table.topics[0])
    put(address, table.topics[0], [(0, n) for n in range(10)])
    filled(table, lake, site)
    drop(address, table.topics[0])
    make(address, table.topics[0])
    put(address, table.topics[0], [(0, 0)])

    error = refusal(table, lake, site)

    assert "recreated" in error.message
    assert error.hint


@pytest.mark.whole
def test_a_recreated_topic_is_refused_also_if_it_is_longer_than_the_old_one(
    table: Table, lake: Lake, site: Site
) -> None:
    """Kafka gives each topic an id, and the ledger records it."""
    address = str(site.address)
    make(address, table.topics[0])
    put(address, table.topics[0], [(0, n) for n in range(5)])
    filled(table, lake, site)
    drop(address, table.topics[0])
    make(address, table.topics[0])
    put(address, table.topics[0], [(0, n) for n in range(20)])

    refusal(table, lake, site)


@pytest.mark.whole
def test_a_topic_that_was_made_anew_has_one_way_on_which_every_verb_names(
    table: Table, lake: Lake, site: Site
) -> None:
    """Its table names a topic of another name, and goes on in its lake with all that it has."""
    address, (topic,) = str(site.address), table.topics
    make(address, topic)
    put(address, topic, [(0, n) for n in range(10)])
    filled(table, lake, site)
    drop(address, topic)
    with pytest.raises(DefinitionError, match="does not exist") as deleted:
        filled(table, lake, site)
    make(address, topic)
    put(address, topic, [(0, n) for n in range(20)])

    error = refusal(table, lake, site)

    lost = "from offset 10 of partition 0"
    assert lost in error.message
    assert lost in deleted.value.message
    assert [WAY in each.hint for each in (error, deleted.value)] == [True, True]
    reader = TopicReader(name=table.id, **read_of(table, lake))
    dangers = {each.source: each for each in topic_dangers([reader], address, {}, NOON)}
    seen = dangers[f"{topic}/0"]
    assert (seen.level, lost in seen.says) == (Level.LOST, True)
    with pytest.raises(DataError) as asked:
        refuse_danger([seen])
    assert asked.value.hint == WAY

    renamed = replace(table, reads=(replace(topic, name=f"{topic}-2"),))
    make(address, renamed.topics[0])
    put(address, renamed.topics[0], [(0, n) for n in range(5)])
    sheet = filled(renamed, lake, site)
    assert (sheet.read, sheet.rows, sheet.faults) == (15, 15, [])
    assert filled(renamed, lake, site).batches == sheet.batches
    reader = TopicReader(name=table.id, **read_of(table, lake))
    assert [each.level for each in topic_dangers([reader], address, {}, NOON)] != []
    assert not [
        each
        for each in topic_dangers([reader], address, {}, NOON)
        if each.level.is_alarming or not each.source.startswith(f"{topic}-2/")
    ]


def read_of(table: Table, lake: Lake) -> dict[str, Any]:
    """Return what the radar knows of a reader."""
    found = last_entry(lake.table(table))
    assert found is not None
    return {"positions": range_ends(found[1].offsets), "stream": found[1].stream}


@pytest.mark.whole
def test_records_that_expired_before_they_were_read_are_named(
    table: Table, lake: Lake, site: Site
) -> None:
    """The operator can search for them elsewhere."""
    address = str(site.address)
    make(address, table.topics[0])
    put(address, table.topics[0], [(0, 0), (0, 1), (0, 2)])
    filled(table, lake, site)
    put(address, table.topics[0], [(0, n) for n in range(3, 10)])
    expire(address, table.topics[0], 0, 7)

    error = refusal(table, lake, site)

    expired = f"offsets 3 to 6 of partition 0 of {table.topics[0].name} expired"
    assert expired in error.message


@pytest.mark.whole
def test_a_topic_that_lost_its_beginning_long_ago_is_read_from_what_is_left(
    table: Table, lake: Lake, site: Site
) -> None:
    """A new lake cannot have what was gone before it began."""
    address = str(site.address)
    make(address, table.topics[0])
    put(address, table.topics[0], [(0, n) for n in range(10)])
    expire(address, table.topics[0], 0, 4)

    sheet = filled(table, lake, site)

    assert sheet.balanced, sheet.faults
    assert sheet.read == 6


@pytest.mark.whole
def test_a_partition_that_was_added_is_read_from_its_beginning(
    table: Table, lake: Lake, site: Site
) -> None:
    """A topic may get partitions between two runs."""
    address = str(site.address)
    make(address, table.topics[0])
    put(address, table.topics[0], [(0, 0), (1, 1)])
    filled(table, lake, site)
    client = admin(address)
    client.create_partitions([NewPartitions(table.topics[0].name, 3)])[table.topics[0].name].result(
        20
    )
    put(address, table.topics[0], [(2, 2), (2, 3), (0, 4)])

    sheet = filled(table, lake, site)

    assert sheet.balanced, sheet.faults
    assert sheet.read == 5


def test_a_topic_that_does_not_exist_makes_no_table(table: Table, lake: Lake, site: Site) -> None:
    """A typing mistake must leave nothing behind."""
    with pytest.raises(DefinitionError):
        run(table, AvailableNow(), lake, site=site)

    assert not lake.exists(table)


def hurry(address: str) -> None:
    """Let the broker's cleaner look for work all the time instead of every fifteen seconds."""
    client = admin(address)
    change = ConfigEntry(
        "log.cleaner.backoff.ms", "100", incremental_operation=AlterConfigOpType.SET
    )
    resource = ConfigResource(ResourceType.BROKER, "1", incremental_configs=[change])
    for altered in client.incremental_alter_configs([resource]).values():
        altered.result(20)
