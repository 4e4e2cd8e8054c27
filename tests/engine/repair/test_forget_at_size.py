"""One device of a large lake is forgotten: no byte of it is left in a table's file, the books balance, certificates are equal.

The long form has five million events: ``make prove``, or ``pytest --prove 0.04 -k at_size`` with 200,000 of them.
"""

import random
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from pyspark.sql import SparkSession

from fleet.gold import device_signal_10m
from fleet.silver import device_telemetry as silver
from strandline.engine.flow.runner import Site
from strandline.engine.lake.forgotten import TABLE_FILE, search
from strandline.engine.lake.lake import Lake
from strandline.engine.proof.verify import Trial, verify
from strandline.engine.repair.expire import AFTER, scrub
from tests.engine.repair.test_forget import carried_out
from tests.support.events import received
from tests.support.fleet import FORGOTTEN, fleet_batches
from tests.support.modes import derive, proven
from tests.support.proofs import Times
from tests.support.rows import NOON

TABLES = (silver.TABLE, device_signal_10m.TABLE)
COMMIT = 100_000
"""Events in one commit of bronze."""


@pytest.mark.slow
@pytest.mark.prove(alone="minutes: a lake of millions of events")
def test_a_device_leaves_a_large_lake_without_a_byte(
    spark: SparkSession, lake: Lake, chance: random.Random, times: Times
) -> None:
    """What each step took is printed with ``-s``."""
    events = times(100_000, 5_000_000)
    with measured(f"{events:,} events, filling the lake"):
        for batch in fleet_batches(chance, events, max(2, events // COMMIT), share=0.01):
            received(lake, batch)
            derive(spark, lake, *TABLES)

    with measured("forgetting"):
        gone = {part.table: part.rows for part in carried_out(spark, lake)}
    with measured("scrubbing"):
        done = [*scrub(spark, lake, NOON + AFTER)]
    with measured("searching"):
        hits = [hit.file for hit in search(lake, FORGOTTEN) if hit.kind == TABLE_FILE]
    with measured("certifying"):
        site = Site(spark=spark, clock=lambda: NOON)
        found = verify(TABLES, lake, Trial(splits=3, kills=1, seed=1), site)

    print(gone, [(each.table, each.files, each.commits) for each in done])  # noqa: T201  # the figures
    assert hits == []
    assert all(gone.values())
    assert proven(lake, TABLES)
    assert [(each.equal, each.differences) for each in found] == [(True, ())] * 2


@contextmanager
def measured(what: str) -> Iterator[None]:
    """Print how long a step took."""
    begun = time.monotonic()
    yield
    print(f"{what}: {time.monotonic() - begun:.1f} s")  # noqa: T201  # the figures
