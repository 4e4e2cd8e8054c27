"""A run with days chosen computes them again as one range; a day that the stream owns is refused, and not tried again."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest
from dagster import ExecuteInProcessResult, materialize

from fleet.gold import device_signal_10m as gold
from fleet.silver import device_telemetry as silver
from strandline.core.kind import Day
from strandline.engine.flow.lineage_events import sender
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger import entries
from strandline_dagster.assets import asset_of
from strandline_dagster.resources import RESOURCES, days_since, key, note
from tests.support import lineage
from tests.support.instance import ephemeral

pytestmark = pytest.mark.slow

DAYS = days_since(date(2026, 11, 1))
TABLES = (silver.TABLE, gold.TABLE)
START, END = "dagster/asset_partition_range_start", "dagster/asset_partition_range_end"


def materialised(**options: object) -> ExecuteInProcessResult:
    return materialize(
        [asset_of(table, DAYS) for table in TABLES],
        instance=ephemeral(),
        resources=RESOURCES,
        raise_on_error=False,
        **options,  # type: ignore[arg-type]  # handed on as they are
    )


@pytest.fixture
def events(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Have the runs of a test recorded in a file, by OpenLineage's own configuration."""
    file, config = tmp_path / "lineage.jsonl", tmp_path / "openlineage.yml"
    config.write_text(f"transport: {{type: file, log_file_path: {file}, append: true}}\n")
    monkeypatch.setenv("OPENLINEAGE_CONFIG", str(config))
    sender.cache_clear()
    yield file
    sender.cache_clear()


def test_chosen_days_are_one_range_of_each_table(days: Lake, events: Path) -> None:
    """One Spark job a table, however many days; each day is marked as made, and the run is the parent of the tables' runs."""
    before = [len(list(entries(days.table(table)))) for table in TABLES]

    done = materialised(tags={START: "2026-11-17", END: "2026-11-18"})

    assert done.success
    for table, versions in zip(TABLES, before, strict=True):
        made = list(entries(days.table(table)))
        assert len(made) == versions + 1
        assert made[-1][1].mode == "backfill"
        assert made[-1][1].since == "2026-11-17T00:00:00+00:00"
        assert made[-1][1].until == "2026-11-19T00:00:00+00:00"
        marked = [
            event.partition
            for event in done.get_asset_materialization_events()
            if event.asset_key == key(table)
        ]
        assert marked == ["2026-11-17", "2026-11-18"]
    sends = sender(note)
    assert sends is not None
    sends.drain(60)
    found = lineage.read(events)
    names = {(each["job"]["name"], each["eventType"]) for each in found}
    assert names == {(f"{t.id}.backfill", state) for t in TABLES for state in ("START", "COMPLETE")}
    parents = [each["run"]["facets"]["parent"]["run"]["runId"] for each in found]
    assert {*parents} == {done.run_id}


def test_chosen_dates_are_local_days_of_a_table_that_has_them(days: Lake) -> None:
    """In one run with a table of days of UTC; a day that is closed at midnight there may be open in another zone."""
    by_day = replace(gold.TABLE, window=Day("Asia/Tokyo"))
    assets = [asset_of(table, DAYS) for table in (silver.TABLE, by_day)]

    done = materialize(
        assets,
        instance=ephemeral(),
        resources=RESOURCES,
        tags={START: "2026-11-17", END: "2026-11-18"},
    )

    assert done.success
    ranges = [list(entries(days.table(t)))[-1][1] for t in (silver.TABLE, by_day)]
    assert [(each.mode, each.since, each.until) for each in ranges] == [
        ("backfill", "2026-11-17T00:00:00+00:00", "2026-11-19T00:00:00+00:00"),
        ("backfill", "2026-11-16T15:00:00+00:00", "2026-11-18T15:00:00+00:00"),
    ]
    (spec,) = assets[1].specs
    assert spec.metadata["days of"] == "Asia/Tokyo"


def test_a_day_that_the_stream_owns_is_refused_with_what_to_do(days: Lake) -> None:
    """In the run's failure, which the page shows after the click."""
    refused = materialised(partition_key="2026-11-20")

    assert not refused.success
    (failed,) = refused.get_step_failure_events()[:1]
    assert "hint:" in str(failed.event_specific_data)
    assert "2026-11-20" in str(failed.event_specific_data)
    assert not [e for e in refused.all_events if e.event_type_value == "STEP_UP_FOR_RETRY"]
    assert refused.get_asset_materialization_events() == []
    assert all(entry.mode != "backfill" for _, entry in entries(days.table(silver.TABLE)))
