"""Gates, leases, receivers, the radar and alarms: each figure is that of its owner's file."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from strandline.engine.accounting import gate_files
from strandline.engine.accounting.gate_files import Where
from strandline.engine.lake.log.ledger import latest_version
from strandline.engine.service import metrics
from strandline.engine.service.metrics import Sample
from strandline.engine.service.metrics_page import of_catalogs
from tests.engine.written import BRONZE, GOLD, SILVER
from tests.support.watched_lake import ADDRESS, lease_of_another, watched_lake

NOW = datetime(2026, 11, 25, 12, tzinfo=UTC)
TABLES = (BRONZE, SILVER, GOLD)


def seen(samples: "list[Sample]") -> dict[tuple[str, ...], float]:
    return {
        (each.metric.name.removeprefix("strandline_"), *each.labels): each.value for each in samples
    }


def test_a_gate_is_shut_until_it_is_opened(tmp_path: Path) -> None:
    """Open gates are there as well, so that a query has something to count."""
    lake = watched_lake(tmp_path, NOW)
    found = seen([*metrics.of_gates(TABLES, lake)])
    assert found["gate_shut", SILVER.id, "before"] == 1
    assert found["gate_held_rows", SILVER.id, "before"] == 4
    assert sum(each for (name, *_), each in found.items() if name == "gate_shut") == 1
    assert len([name for name, *_ in found if name == "gate_shut"]) == len(TABLES) * len(Where)

    gate_files.open_(SILVER, lake, because="seen", who="on-call", at=NOW.isoformat())

    assert not any(seen([*metrics.of_gates(TABLES, lake)]).values())


def test_a_lease_has_its_holder_while_it_is_held(tmp_path: Path) -> None:
    """Of a file that was left behind, only that it is free."""
    lake = watched_lake(tmp_path, NOW)
    with lease_of_another(lake, SILVER.id) as pid:
        found = seen([*metrics.of_leases(lake)])
        assert found["lease_held", SILVER.id, "writer"] == 1
        assert [key[4] for key in found if key[0] == "lease_holder_info"] == [str(pid)]

    assert seen([*metrics.of_leases(lake)]) == {("lease_held", SILVER.id, "writer"): 0}


def test_what_leaves(tmp_path: Path) -> None:
    lake = watched_lake(tmp_path, NOW)

    found = seen([*metrics.of_publications(lake)])

    assert {name: value for (name, *_), value in found.items()} == {
        "publish_changes_read_total": 9,
        "publish_changes_accepted_total": 7,
        "publish_rows_refused": 1,
        "publish_lag_versions": latest_version(lake.table(SILVER)) + 1,
        "publish_waiting": 1,
        "publish_process_up": 0,
    }


def test_how_far_a_catalog_is_behind(tmp_path: Path) -> None:
    """Of a table that it shows; it is not asked."""
    found = seen([*of_catalogs(watched_lake(tmp_path, NOW), NOW + timedelta(days=9999))])
    assert found["catalog_lag_versions", "iceberg", SILVER.id] == 1
    assert found["catalog_lag_seconds", "iceberg", SILVER.id] > 0


@pytest.mark.whole
def test_receivers_the_radar_and_alarms(tmp_path: Path) -> None:
    lake = watched_lake(tmp_path, NOW)

    receivers = seen([*metrics.of_receivers(lake)])
    radar = seen([*metrics.of_radar(lake)])
    machine = seen([*metrics.of_machine(lake)])

    assert receivers["receiver_alerts_delivered_total", ADDRESS] == 6
    assert receivers["receiver_records_dead_total", ADDRESS] == 1
    assert receivers["receiver_process_up", ADDRESS] == 0
    assert radar["unread_danger_level", BRONZE.id, "t/0"] == 3
    expires = radar["unread_expires_timestamp_seconds", BRONZE.id, "t/0"]
    assert expires == (NOW + timedelta(hours=6)).timestamp()
    assert machine["alarms_waiting",] == 1
    assert machine["free_bytes",] > 0
