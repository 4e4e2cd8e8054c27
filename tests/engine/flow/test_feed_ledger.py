"""A feed whose table names another topic leaves the checkpoint of the former one, whole, wherever it is killed."""

import json
from secrets import token_hex
from typing import Any, cast

import pytest
from pyspark.sql import SparkSession

from strandline.core.stateful import MicroBatch
from strandline.core.table import EventFeed
from strandline.core.topic import Topic
from strandline.engine.flow.feed_ledger import NO_ROWS, FeedLedger
from strandline.engine.lake.commit import create_table
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger import Entry, last_entry
from strandline.engine.lake.place import Place
from strandline.engine.lake.spark_checkpoint import kafka_ends
from tests.engine.records import make, put
from tests.support.feeds import feed
from tests.support.ledgers import write_log

pytestmark = [pytest.mark.kafka, pytest.mark.whole]


class KilledError(Exception):
    """The end of a process."""


def test_a_kill_leaves_no_half_of_a_former_checkpoint(
    kafka: str, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After each file of it: the next start begins a new one, with what the ledger has, and reads the new topic whole."""
    now, sink = (Topic(name=f"t-{token_hex(4)}", partitions=1) for _ in range(2))
    for each in (now, sink):
        make(kafka, each)
    put(kafka, now, [(0, 0), (0, 1)])
    chosen = feed(now, sink)
    known = Entry(
        table=chosen.id,
        mode="micro-batch",
        stream="former@id",
        batch=1,
        source="former",
        offsets={"former/0": (0, 7)},
        read=7,
        good=7,
    )
    create_table.create(cast(SparkSession, None), lake.table(chosen), NO_ROWS)
    write_log(lake.table(chosen), [known], first=1)
    checkpoint = lake.checkpoint(chosen)
    count = len([*written(checkpoint)])
    assert kafka_ends(checkpoint) == (1, {"former": {"0": 7}})

    for number in range(count + 1):
        written(checkpoint)
        with monkeypatch.context() as killed:
            killed.setattr(Place, "remove", lambda each, number=number: end_after(each, number))
            with pytest.raises(KilledError):
                opened(chosen, lake, kafka)

        ledger = opened(chosen, lake, kafka)

        assert (checkpoint.exists(), [*checkpoint.parent.names()]) == (False, [])
        assert ledger.begin(from_the_first=False) == {(now.name, 0): 0}
        assert last_entry(lake.table(chosen)) == (1, known)
        ledger.close()


def opened(chosen: EventFeed, lake: Lake, kafka: str) -> FeedLedger:
    """Open the ledger of a feed; what is looked at here needs no JVM."""
    spark = cast(SparkSession, None)
    return FeedLedger(spark, chosen, MicroBatch(), lake, address=kafka, options={})


def written(checkpoint: Place) -> list[Place]:
    """Write a checkpoint of two batches over a topic, as Spark does, and return its files."""
    (checkpoint / "metadata").put(json.dumps({"id": token_hex(8)}))
    for number, end in enumerate((3, 7)):
        conditions = json.dumps({"batchWatermarkMs": 0, "batchTimestampMs": 0, "conf": {}})
        ends = json.dumps({"former": {"0": end}})
        (checkpoint / "offsets" / str(number)).put(f"v1\n{conditions}\n{ends}")
        (checkpoint / "commits" / str(number)).put('v1\n{"nextBatchWatermarkMs":0}')
    return [*checkpoint.files()]


def end_after(folder: Place, number: int) -> Any:  # noqa: ANN401  # it never returns
    """Remove some of a folder's files, and end."""
    for file in sorted(folder.files(), key=str)[:number]:
        file.remove_file()
    raise KilledError
