"""A rebuild that waits to be promoted has read what is forgotten meanwhile; nothing brings it back."""

from dataclasses import replace
from datetime import timedelta

import pytest
from pyspark.sql import SparkSession
from strandline import catalog

from fleet.silver import device_telemetry as silver
from strandline.core.errors import DefinitionError
from strandline.core.table import Ingested
from strandline.core.topic import RECEIVED
from strandline.engine.accounting.balance_sheet import balance
from strandline.engine.flow.ingest import PROPERTIES
from strandline.engine.flow.runner import Site
from strandline.engine.flow.shadow_lake import Shadow
from strandline.engine.lake.forgotten import keep, requests, search
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.commit_log import committed_at
from strandline.engine.lake.log.ledger import latest_version
from strandline.engine.lake.open_table import opened
from strandline.engine.repair.expire import AFTER, scrub
from strandline.engine.repair.rebuild import promote, rebuild, undo
from tests.engine.repair.test_forget import carried_out, interrupted
from tests.support import by_hand
from tests.support.events import TABLE as BRONZE
from tests.support.events import Event, reading, received
from tests.support.fleet import FORGOTTEN
from tests.support.modes import derive
from tests.support.rows import NOON
from tests.support.seeds import copied

pytestmark = pytest.mark.slow

EVENTS = [
    *(Event(payload=reading(event_id=f"e{n}", device_id=FORGOTTEN)) for n in range(11)),
    Event(payload=reading(event_id="other", device_id="d-1")),
]


@pytest.fixture
def site(spark: SparkSession) -> Site:
    """Return the site of a rebuild."""
    return Site(spark=spark, clock=lambda: NOON)


@pytest.fixture
def fleet(spark: SparkSession, lake: Lake) -> Lake:
    """Return a lake with eleven rows of the device, whose time is closed."""

    def filled(seed: Lake) -> None:
        received(seed, EVENTS)
        derive(spark, seed, silver.TABLE)
        later = NOON + timedelta(hours=3)
        last = reading(event_id="last", device_id="d-1", event_at=later.isoformat())
        received(seed, [Event(payload=last, batch=1, arrived_at=later, ingested_at=later)])
        derive(spark, seed, silver.TABLE)

    return copied(lake, "eleven rows of a device", filled)


@pytest.mark.whole
def test_a_rebuild_from_before_a_request_is_not_promoted(
    spark: SparkSession, fleet: Lake, site: Site
) -> None:
    """Neither while the request is half done, nor later; the scrub removes its files, and a new one is promoted."""
    rebuild(silver.TABLE, fleet, site)
    interrupted(spark, fleet, commits=2)
    refused(fleet, site)
    carried_out(spark, fleet)
    refused(fleet, site)
    Shadow.of(silver.TABLE, fleet).beginning.remove()  # as an older program left it
    (known,) = requests(fleet)  # the clock of the tests does not advance, that of commits does
    done_at = committed_at(fleet.table(silver.TABLE), latest_version(fleet.table(silver.TABLE)))
    keep(fleet, replace(known, done_at=done_at.isoformat()))
    refused(fleet, site)

    [*scrub(spark, fleet, done_at + AFTER)]
    left = [hit.file for hit in search(fleet, FORGOTTEN) if hit.file.startswith("_rebuild")]
    rebuild(silver.TABLE, fleet, site)
    promote(silver.TABLE, fleet, site)

    assert left == []
    assert devices(fleet) == ["d-1", "d-1"]
    assert balance(silver.TABLE, fleet).balanced


@pytest.mark.prove(alone="half a minute")
def test_a_rebuild_that_began_after_a_request_is_promoted(
    spark: SparkSession, fleet: Lake, site: Site
) -> None:
    """The request is older than what it has read."""
    carried_out(spark, fleet)
    rebuild(silver.TABLE, fleet, site)

    promote(silver.TABLE, fleet, site)

    assert devices(fleet) == ["d-1", "d-1"]


@pytest.mark.whole
def test_a_promotion_is_not_undone_while_a_request_is_half_done(
    spark: SparkSession, fleet: Lake, site: Site
) -> None:
    """The request has no version yet, and has removed rows that the undo would bring back."""
    rebuild(silver.TABLE, fleet, site)
    promote(silver.TABLE, fleet, site)
    interrupted(spark, fleet, commits=2)

    with pytest.raises(DefinitionError, match="what was forgotten on request"):
        undo(spark, silver.TABLE, fleet)

    assert devices(fleet) == ["d-1", "d-1"]


def refused(lake: Lake, site: Site) -> None:
    """See that the rebuild is not promoted, and that its rows are not back."""
    with pytest.raises(DefinitionError, match="before a request to forget"):
        promote(silver.TABLE, lake, site)
    assert devices(lake) == ["d-1", "d-1"]


def devices(lake: Lake) -> list[str]:
    """Return the devices of silver's rows."""
    rows = opened(lake.table(silver.TABLE)).to_pyarrow_table(columns=["device_id"])
    return sorted(rows["device_id"].to_pylist())


@pytest.mark.whole
def test_a_request_is_finished_though_the_catalogue_has_another_first_table(
    spark: SparkSession, fleet: Lake
) -> None:
    """It was looked for under the name of the first table, and stayed open for ever: its history was never scrubbed."""
    interrupted(spark, fleet, commits=2)
    first = next(table for table in catalog.tables() if isinstance(table, Ingested))
    by_hand.create(fleet.table(first), RECEIVED, PROPERTIES)

    carried_out(spark, fleet)

    assert first.id != BRONZE.id
    assert [request.is_done for request in requests(fleet)] == [True]
