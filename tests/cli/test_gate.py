"""A poisoned hour as the person on call meets it: refused, explained, opened, and nothing lost."""

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from strandline.engine.lake.lake import Lake
from tests.cli.inside import strandline, succeeded
from tests.support.poison import RULE, poisoned

pytestmark = pytest.mark.slow

NAME = "silver.device_telemetry"
TABLES = (NAME, "gold.device_signal_10m")


@pytest.fixture(name="poisoned")
def _poisoned(spark: SparkSession, lake: Lake) -> Path:
    """Return a lake with a good hour that was read and a poisoned one that waits."""
    return poisoned(spark, lake).root.local


def sheets(lake: Path) -> dict[str, Any]:
    found = succeeded("ledger", "--lake", lake, "--json").json
    assert isinstance(found, list)
    assert all(sheet["balanced"] for sheet in found)
    return {sheet["table"]: sheet for sheet in found}


def test_a_poisoned_hour_is_refused_explained_and_let_pass(poisoned: Path) -> None:
    """Each step is one command, and the ledger balances after every one of them."""
    before = sheets(poisoned)

    refused = strandline("run", *TABLES, "--lake", poisoned)

    assert refused.code == 4
    assert f"the gate of {NAME} is shut" in refused.err
    assert "30 of 100 rows (30.0%)" in refused.err
    assert "Traceback" not in refused.printed
    held = sheets(poisoned)
    assert held[NAME]["good"] == before[NAME]["good"] == 60
    assert held[NAME]["waiting"] == 100
    assert held["gold.device_signal_10m"] == before["gold.device_signal_10m"]

    output = succeeded("gate", NAME, "--lake", poisoned).out
    assert RULE in output
    assert output.count("999.0000") == 5
    assert "gold.device_signal_10m" in output
    (found,) = succeeded("gate", "--lake", poisoned, "--json").json  # type: ignore[misc]  # JSON
    assert (found["table"], found["batch"], found["rows"]) == (NAME, 1, 100)
    gates = {each["table"]: each["gate"] for each in tables(poisoned)}
    assert gates[NAME] == "shut"
    assert gates["gold.device_signal_10m"] == f"waits for {NAME}"
    assert gates["bronze.device_telemetry"] == "open"

    succeeded("gate", NAME, "--open", "calibration, INC-204", "--lake", poisoned)
    succeeded("run", *TABLES, "--lake", poisoned)

    after = sheets(poisoned)
    assert (after[NAME]["good"], after[NAME]["quarantined"]) == (130, {RULE: 30})
    assert after["gold.device_signal_10m"]["read"] == 130
    assert "every gate is open" in succeeded("gate", "--lake", poisoned).out


def tables(lake: Path) -> list[Any]:
    found = succeeded("tables", "--lake", lake, "--json").json
    assert isinstance(found, list)
    return found


def test_rows_that_are_there_twice_are_found_by_a_check(
    spark: SparkSession, poisoned: Path
) -> None:
    """And by nothing else: counters cannot see them."""
    path = str(poisoned / "silver" / "device_telemetry")
    rows = spark.read.format("delta").load(path)
    rows.limit(2).write.format("delta").mode("append").save(path)

    answer = strandline("check", NAME, "--lake", poisoned, "--json")

    assert answer.code == 4
    (found,) = answer.json  # type: ignore[misc]  # JSON
    failed = [each["name"] for each in found["findings"] if not each["holds"]]
    assert failed == ["copies_of_a_key", "count(*) as others say"]
    assert "the gate behind silver.device_telemetry is shut" in answer.err


def test_a_gate_that_is_open_is_shown_as_open_and_is_not_opened_again(filled: Path) -> None:
    assert "is open" in succeeded("gate", NAME, "--lake", filled).out
    answer = strandline("gate", NAME, "--open", "why not", "--lake", filled)
    assert answer.code == 2
    assert "is not shut" in answer.err
