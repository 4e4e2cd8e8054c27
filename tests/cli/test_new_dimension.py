"""A drafted dimension has intervals from each change to the next, for changes of any table, and is joined as of a time."""

import importlib
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import StringType, StructType

from fleet.silver import devices as by_hand
from strandline.core.changed_rows import as_of, validity
from strandline.core.errors import DefinitionError
from strandline.engine.ask.lake_reader import lake
from strandline.operate.drafts import draft, scaffold
from tests.engine.written import small_lake, written

COLUMNS = StructType().add("device_id", StringType()).add("site", StringType())
HOURS = [datetime(2026, 11, 20, hour, tzinfo=UTC) for hour in (8, 9, 10, 11)]


def changed(spark: SparkSession, rows: list[tuple[str, str, datetime, str]]) -> Any:  # noqa: ANN401  # a frame
    """Return changes with columns of a user's own names; each arrived when it happened."""
    made = [(*each, each[2], 0, number) for number, each in enumerate(rows)]
    names = "device_id string, site string, moved_at timestamp, what string, _arrived_at timestamp, _partition int, _offset bigint"
    return spark.createDataFrame(made, names)


def test_validity_takes_the_names_of_a_users_columns(spark: SparkSession) -> None:
    """Its time, its word for a delete, and no position: then the later arrival counts."""
    eight, nine, ten, eleven = HOURS
    rows = [
        ("d", "a", eight, "put"),
        ("d", "b", nine, "put"),
        ("d", "c", nine, "put"),
        ("d", "c", ten, "gone"),
    ]

    found = validity(
        changed(spark, rows),
        ("device_id",),
        COLUMNS,
        at="moved_at",
        op="what",
        position=None,
        deletes="gone",
    )
    sold = spark.createDataFrame([("d", each) for each in HOURS], "device_id string, at timestamp")
    joined = as_of(sold, found, "at", ("site",), by=("device_id",)).orderBy("at").collect()

    assert [row["site"] for row in joined] == ["a", "c", None, None]
    assert joined[3]["at"].astimezone(UTC) == eleven


@pytest.fixture
def drafted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Return the module and the test of a dimension over the example's inventory, which Python finds."""
    for folder in ("fleet_draft/silver", "tests/silver"):
        (tmp_path / folder).mkdir(parents=True)
    monkeypatch.setattr(scaffold, "root", lambda: tmp_path)
    monkeypatch.setattr(scaffold, "folder_of_tables", lambda: Path("fleet_draft"))
    monkeypatch.syspath_prepend(str(tmp_path))
    return list(draft.write("places", "silver.device_inventory", ["device_id"]))


def test_a_dimension_is_drafted_that_passes_its_test(
    drafted: list[Path], tmp_path: Path, spark: SparkSession
) -> None:
    """Over a table of changes; what intervals cannot keep is named."""
    module, test = (tmp_path / each for each in drafted)
    text = test.read_text().replace("fleet.silver.places", "fleet_draft.silver.places")
    (tmp_path / "of_places.py").write_text(text)
    importlib.invalidate_caches()

    importlib.import_module("of_places").test_a_change_ends_what_held_before(spark)
    made = importlib.import_module("fleet_draft.silver.places")

    assert made.BY == ("device_id",)
    assert {*by_hand.STATIC} <= {*made.COLUMNS.fieldNames()}
    assert made.TABLE.valid_until == "valid_until"
    assert "silver.device_inventory" in module.read_text()


def test_a_dimension_of_what_is_not_known_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """With the columns to choose from."""
    monkeypatch.setattr(scaffold, "root", lambda: tmp_path)
    monkeypatch.setattr(scaffold, "folder_of_tables", lambda: Path("fleet_draft"))
    with pytest.raises(DefinitionError, match="no plain column nothing") as caught:
        list(draft.write("places", "silver.device_inventory", ["nothing"]))
    assert "device_id" in caught.value.hint


def test_the_history_of_a_key_is_asked_for_by_its_value(tmp_path: Path) -> None:
    """All of its intervals, or the one in which a moment lies; of a table without intervals there is none."""
    found = small_lake(tmp_path / "lake")
    eight, nine, ten, _ = HOURS
    rows = [
        {"device_id": device, "valid_from": begin, "valid_until": end, "site": site}
        for device, begin, end, site in [
            ("d", eight, nine, "a"),
            ("d", nine, None, "b"),
            ("e", eight, None, "c"),
        ]
    ]
    written(found.table(by_hand.TABLE), rows)
    intervals = lake(str(found.root))["silver.devices"]

    assert [row["site"] for row in intervals.history_of("d").arrow().to_pylist()] == ["a", "b"]
    assert [row["site"] for row in intervals.history_of("d", at=nine).arrow().to_pylist()] == ["b"]
    assert [row["site"] for row in intervals.history_of("e", at=ten).arrow().to_pylist()] == ["c"]
    with pytest.raises(DefinitionError, match="2 values are given"):
        intervals.history_of("d", 1)
    with pytest.raises(DefinitionError, match="has no intervals"):
        lake(str(found.root))["silver.device_telemetry"].history_of("d")
