"""A person's request does not wait for a day: what streams still own is computed anew, without the state that has the person."""

from datetime import timedelta

import pytest
from pyspark.sql import SparkSession

from jobs.core.errors import DefinitionError
from jobs.engine.pipeline.runner import Site
from jobs.engine.repair.forget import Forgetting
from jobs.engine.repair.forget_recorded import carry_out
from jobs.engine.repair.forget_request import Request
from jobs.engine.repair.rebuild import undo
from jobs.engine.repair.scrub import AFTER, scrub
from jobs.engine.storage.forgotten import requests
from jobs.engine.storage.lake import Lake
from jobs.engine.storage.open_table import opened
from jobs.engine.storage.search_bytes import search
from jobs.gold import device_signal_10m as gold
from jobs.silver import device_telemetry as silver
from tests.support.events import Event, reading, received
from tests.support.fleet import FORGOTTEN
from tests.support.modes import derive, proven, twin
from tests.support.rows import NOON

pytestmark = pytest.mark.slow

TABLES = (silver.TABLE, gold.TABLE)
REQUEST = Request.of(f"device_id = '{FORGOTTEN}'")


def sent(*minutes: int, device: str, batch: int) -> list[Event]:
    """Return readings of a device, some minutes after noon."""
    return [
        Event(
            payload=reading(
                event_id=f"r-{minute}",  # a key that names no person: silver's state keeps keys for an hour
                device_id=device,
                event_at=(at := NOON + timedelta(minutes=minute)).isoformat(),
            ),
            batch=batch,
            arrived_at=at,
            ingested_at=at,
        )
        for minute in minutes
    ]


def asked(spark: SparkSession, lake: Lake, site: Site | None) -> list[str]:
    """Carry the request out, and return why its parts wait."""
    work = Forgetting(spark, lake, REQUEST, site)
    found = [*work.parts()]
    [*carry_out(work, lake, REQUEST, lambda: NOON, found)]
    work.close()
    return [part.waits for part in found if part.waits and part.rows]


def windows(lake: Lake) -> list[tuple[str, int]]:
    """Return of each window the device, and how many readings it counts."""
    rows = opened(lake.table(gold.TABLE)).to_pyarrow_table(columns=["device_id", "readings"])
    return sorted((row["device_id"], row["readings"]) for row in rows.to_pylist())


def test_a_request_in_open_time_is_carried_out_at_once_and_nothing_emits_it_later(
    spark: SparkSession, lake: Lake
) -> None:
    """Its window was open in the state of gold's stream; one of another device closes with all of its rows."""
    site = Site(spark=spark, clock=lambda: NOON)
    mine = [*sent(1, 2, device=FORGOTTEN, batch=0)]
    others = [*sent(3, 4, device="d-1", batch=0)]
    received(lake, [*mine, *others])
    other = twin(lake, "never")
    other.table(silver.TABLE.upstream[0]).remove()
    received(other, others)
    for each in (lake, other):
        derive(spark, each, *TABLES)

    (waits, *_) = asked(spark, lake, None)
    assert f"with --now {gold.TABLE.id} is computed anew at once" in waits
    assert asked(spark, lake, site) == []

    assert [request.is_done for request in requests(lake)] == [True]
    later = sent(200, 230, device="d-1", batch=1)
    for each in (lake, other):
        received(each, later)
        derive(spark, each, *TABLES)
    assert windows(lake) == windows(other) == [("d-1", 2)]
    assert proven(lake, TABLES)
    with pytest.raises(DefinitionError, match="what was forgotten on request"):
        undo(spark, gold.TABLE, lake)
    [*scrub(spark, lake, NOON + AFTER + timedelta(minutes=1))]
    assert [hit.file for hit in search(lake, FORGOTTEN) if hit.is_certain] == []
