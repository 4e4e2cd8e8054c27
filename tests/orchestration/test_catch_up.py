"""The job reports every table as its asset would; a step that a gate stops leaves out the tables above."""

import asyncio

import pytest
from dagster import AssetCheckKey, DagsterInstance, ExecuteInProcessResult
from dagster._core.loader import (  # noqa: TID251  # what the page is answered from
    LoadingContextForTest,
)
from strandline import catalog

from fleet.gold import device_signal_10m as gold
from fleet.silver import device_telemetry as silver
from strandline.engine.accounting.gate_files import open_
from strandline.engine.lake.completeness import Retirement, write_down
from strandline.engine.lake.lake import Lake
from strandline.engine.proof.day_verdicts import questions
from strandline_dagster import schedules
from strandline_dagster.resources import RESOURCES, key, plain, specs
from strandline_dagster.vitals import KEEPS_UP
from tests.support.events import received
from tests.support.instance import ephemeral
from tests.support.poison import AFTER, GOOD, POISONED, RULE

STEPS = {table: schedules.name(table) for table in (silver.TABLE, gold.TABLE)}


def test_it_has_a_step_a_table_each_after_those_it_rests_on() -> None:
    graph = schedules.catch_up().graph
    found = {str(getattr(step, "name", step)): after for step, after in graph.dependencies.items()}

    for table in catalog.tables():
        after = found.get(schedules.name(table), {})
        named = [each.node for each in after["after"].dependencies] if after else []
        assert named == [schedules.name(source) for source in table.needs]


@pytest.mark.whole
@pytest.mark.slow
@pytest.mark.usefixtures("spark")
def test_what_a_step_made_is_the_assets_and_what_is_not_believed_goes_no_further(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Twice, because a run that finds earlier materialisations is another case to Dagster."""
    monkeypatch.setenv("STRANDLINE_LAKE", str(lake.root))
    instance = ephemeral()
    received(lake, GOOD)

    passed, runs, shown = [], [], []
    for events in (GOOD, AFTER, POISONED):
        received(lake, events)
        runs.append(caught_up(instance))
        passed.append(answered(instance))
        shown.append(counted(instance))
    *believed, stopped = runs
    assert shown[:-1] == [all_checks()] * 2, "when the run is over, without a look of a sensor"

    tables = list(STEPS)
    for done in believed:
        assert done.success
        assert [e.asset_key for e in done.get_asset_materialization_events()] == [*map(key, tables)]
    assert not stopped.success
    assert stopped.get_asset_materialization_events() == []
    for event in believed[-1].get_asset_materialization_events():
        metadata = event.materialization.metadata
        assert metadata["dagster/row_count"].value > 0
        assert "device_id" in str(metadata["dagster/column_schema"].value)
        assert "device_id" in str(metadata["dagster/column_lineage"].value)
    assert passed == [True, True, False]
    begun = [e.step_key for e in stopped.all_events if e.event_type_value == "STEP_START"]
    assert begun == [STEPS[silver.TABLE]], "gold keeps what was believed last"

    open_(silver.TABLE, lake, because="calibration", who="test", at="now")
    after = caught_up(instance)
    assert after.success, "the next tick of the schedule needs no person"
    assert [e.asset_key for e in after.get_asset_materialization_events()] == [*map(key, tables)]

    write_down(gold.TABLE.id, Retirement(who="ann", at="2026-11-20T12:00:00+00:00", why="x"), lake)
    received(lake, AFTER)
    left = caught_up(instance)
    assert left.success, "a retired table is left out, and fails nothing"
    assert [e.asset_key for e in left.get_asset_materialization_events()] == [key(silver.TABLE)]


def caught_up(instance: DagsterInstance) -> ExecuteInProcessResult:
    """Run the two steps."""
    return schedules.catch_up().execute_in_process(
        op_selection=list(STEPS.values()),
        instance=instance,
        resources=RESOURCES,
        raise_on_error=False,
    )


def all_checks() -> set[AssetCheckKey]:
    """Return all checks of both tables."""
    names = {
        table: [*(spec.name for spec in specs(table, key(table))), *questions(table), KEEPS_UP]
        for table in STEPS
    }
    return {AssetCheckKey(key(table), name) for table, of in names.items() for name in of}


def counted(instance: DagsterInstance) -> set[AssetCheckKey]:
    """Return the checks whose last result the page counts: those of others it calls not evaluated."""
    found = instance.event_log_storage.get_latest_asset_check_execution_by_key([*all_checks()])

    async def asked() -> set[AssetCheckKey]:
        page = LoadingContextForTest(instance)
        return {
            name for name, each in found.items() if await each.targets_latest_materialization(page)
        }

    return asyncio.run(asked())


def answered(instance: DagsterInstance) -> bool:
    """Return whether the rule's check passed last, as the page shows it."""
    check = AssetCheckKey(key(silver.TABLE), plain(RULE))
    found = instance.event_log_storage.get_latest_asset_check_execution_by_key([check])
    return found[check].status.value == "SUCCEEDED"
