"""On an object store each request is money: a micro-batch of each layer, and an idle minute, take no more than they need."""

from pathlib import Path

import pytest
from strandline import catalog

from strandline.engine.kafka import broker
from strandline.engine.kafka.broker import create_topic
from strandline.engine.lake.lake import Lake
from tests.benchmarks.store_requests import NAMES, measured, send_rows
from tests.cli.typed import succeeded
from tests.support.s3_server import S3Server

BATCHES = 6
MOST = {"bronze": 26, "silver": 72, "gold": 70}
"""Requests of a batch, with those of the clock meanwhile (tests/benchmarks/reports/store_requests.md)."""
IDLE = 200
"""Requests of a stream in a minute in which nothing comes."""


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.prove(alone="five minutes")
def test_a_micro_batch_takes_no_more_requests_than_it_needs(s3: S3Server, tmp_path: Path) -> None:
    """The suite counts those of a commit (tests/engine/lake/test_commit_requests.py)."""
    own = Lake(tmp_path / "own")
    address = broker.up(own).address
    try:
        for topic in {topic for table in catalog.tables() for topic in table.topics}:
            create_topic(address, topic.name, topic.partitions, {})
        young = Lake(tmp_path / "young")
        send_rows(address)
        # A stream refuses to begin where the table that it reads does not exist.
        env = {"STRANDLINE_KAFKA": address}
        succeeded("run", *NAMES, "--lake", young.root, env=env)
        counted = [*measured(s3, young, 0, address, tmp_path, BATCHES)]
    finally:
        broker.down(own)

    assert {each.layer for each in counted} == MOST.keys()
    for each in counted:
        assert each.batches >= BATCHES - 1
        assert each.each <= MOST[each.layer], each.requests
        assert each.idle_each <= IDLE, each.idle
