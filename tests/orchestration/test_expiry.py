"""Every night what is older than its table keeps it is deleted; where nothing is, Dagster starts no run."""

from dataclasses import replace
from datetime import timedelta

import pytest
from dagster import RunRequest, SkipReason, build_schedule_context
from strandline import catalog

from fleet.gold import device_signal_10m as gold
from fleet.silver import device_telemetry as silver
from strandline.engine.accounting.balance_sheet import balance
from strandline.engine.lake.lake import Lake
from strandline.engine.runtime import clock
from strandline_dagster import schedules
from strandline_dagster.resources import RESOURCES, LakeResource
from tests.support.instance import ephemeral
from tests.support.rows import NOON

pytestmark = pytest.mark.slow


@pytest.fixture
def two_days(days: Lake, monkeypatch: pytest.MonkeyPatch) -> Lake:
    """Return a lake of four days whose silver table keeps two, at noon of the day after."""
    kept = replace(silver.TABLE, keeps="2 days")
    tables = [kept if each == silver.TABLE else each for each in catalog.tables()]
    monkeypatch.setattr(catalog, "tables", lambda: tables)
    monkeypatch.setattr(clock, "now", lambda: NOON + timedelta(days=1))
    return days


def test_old_rows_expire_at_night_once_and_the_books_balance(two_days: Lake) -> None:
    before = balance(silver.TABLE, two_days)

    assert isinstance(asked(), RunRequest)
    assert schedules.expiry.execute_in_process(instance=ephemeral(), resources=RESOURCES).success

    after = balance(silver.TABLE, two_days)
    assert after.balanced
    assert balance(gold.TABLE, two_days).balanced
    assert after.expired == before.rows - after.rows > 0
    assert after.read == before.read
    assert isinstance(asked(), SkipReason)


@pytest.mark.usefixtures("days")
def test_no_run_starts_where_no_table_says_how_long_it_keeps_its_rows() -> None:
    found = asked()

    assert isinstance(found, SkipReason)
    assert "no table declares" in str(found.skip_message)


def asked() -> RunRequest | SkipReason:
    """Return what the schedule asks for."""
    context = build_schedule_context(instance=ephemeral())
    found = schedules.expire_nightly(context, lake=LakeResource())
    assert isinstance(found, RunRequest | SkipReason)
    return found
