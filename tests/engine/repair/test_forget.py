"""After a request to forget a device, a lake is as if it had never been there, and the books balance."""

import random
from collections.abc import Generator
from typing import cast

import pytest
from pyspark.sql import SparkSession

from fleet.gold import device_signal_10m
from fleet.silver import device_telemetry as silver
from strandline.engine.accounting.balance_sheet import balance
from strandline.engine.lake.forgotten import TABLE_FILE, requests, search
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger import latest_version
from strandline.engine.proof.compare import compare
from strandline.engine.repair.expire import AFTER, scrub
from strandline.engine.repair.forget import Forgetting, Part, carry_out
from strandline.engine.repair.forget_request import Request
from tests.support.events import TABLE as BRONZE
from tests.support.events import commits, received
from tests.support.fleet import FORGOTTEN, OTHERS, fleet_log, without
from tests.support.modes import derive, proven
from tests.support.proofs import Times
from tests.support.rows import NOON

pytestmark = [pytest.mark.slow, pytest.mark.whole]

TABLES = (silver.TABLE, device_signal_10m.TABLE)
REQUEST = Request.of(f"device_id = '{FORGOTTEN}'")


def test_a_forgotten_device_leaves_the_lake_of_a_fleet_that_never_had_it(
    spark: SparkSession, lake: Lake, chance: random.Random, times: Times
) -> None:
    """Also when the first attempt ends between two of its commits; a further one changes nothing.

    Afterwards no file of its tables holds the name, and what bronze gives is what is there.
    """
    log = fleet_log(chance, events=times(120, 3_000), batches=times(1, 6))
    for batch in commits(log):
        received(lake, batch)
        derive(spark, lake, *TABLES)
    other = Lake(lake.root.parent / "never").open_for_writing()
    received(other, without(log))
    derive(spark, other, *TABLES)
    read = balance(silver.TABLE, lake).read

    assert any(hit.kind == TABLE_FILE for hit in search(lake, FORGOTTEN))
    interrupted(spark, lake, commits=chance.randrange(1, 5))
    carried_out(spark, lake)
    versions = versions_of(lake)
    again = [each for _ in range(times(0, 1)) for each in carried_out(spark, lake)]

    assert proven(lake, TABLES)
    same = [one for table in TABLES for one in compare(table, lake, other)]
    assert [(one.table, one.equal, one.samples) for one in same] == [
        (one.table, True, ()) for one in same
    ]
    gone = sum(event.partition for event in log)
    sheet = balance(BRONZE, lake)
    assert gone == sheet.forgotten > 0
    assert (sheet.read, sheet.rows) == (len(log), len(log) - gone)
    assert balance(silver.TABLE, lake).read == read
    assert (again, versions_of(lake)) == ([], versions)
    assert [request.is_done for request in requests(lake)] == [True]

    done = [*scrub(spark, lake, NOON + AFTER)]

    assert sum(each.files for each in done) > 0
    assert [hit.file for hit in search(lake, FORGOTTEN) if hit.kind == TABLE_FILE] == []
    assert any(hit.kind == TABLE_FILE for hit in search(lake, OTHERS[0]))
    assert proven(lake, TABLES)
    assert all(one.equal for table in TABLES for one in compare(table, lake, other))


def interrupted(spark: SparkSession, lake: Lake, commits: int) -> None:
    """Begin a request, and end it after so many of its steps."""
    work = Forgetting(spark, lake, REQUEST)
    steps = cast(
        Generator[Part, None, None], carry_out(work, lake, REQUEST, lambda: NOON, [*work.parts()])
    )
    for _ in zip(range(commits), steps, strict=False):
        pass
    steps.close()
    work.close()


def carried_out(spark: SparkSession, lake: Lake) -> list[Part]:
    """Carry out the request; return what went from tables of which any row did."""
    work = Forgetting(spark, lake, REQUEST)
    try:
        steps = carry_out(work, lake, REQUEST, lambda: NOON, [*work.parts()])
        return [part for part in steps if part.rows]
    finally:
        work.close()


def versions_of(lake: Lake) -> list[int]:
    """Return the versions of all tables."""
    return [latest_version(path) for table in (BRONZE, *TABLES) for path in lake.books(table)]
