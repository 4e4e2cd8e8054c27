"""A gate's file: written shut, opened for one batch, removed; all of it can be read back."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from fleet.gold import device_signal_10m as gold
from fleet.silver import device_telemetry as silver
from strandline.core.errors import DefinitionError
from strandline.engine.accounting import gate_files
from strandline.engine.accounting.gate_files import GateShutError, Shut, Where
from strandline.engine.lake.lake import Lake
from strandline_quality.expectations import Finding
from strandline_quality.rules import Severity

SHUT = Shut(
    table=silver.TABLE.id,
    where=Where.BEFORE,
    stream="s",
    batch=7,
    versions={"bronze.device_telemetry": [3, 5]},
    rows=1_040,
    at="2026-11-20T03:00:00+00:00",
    findings=({"name": "implausible:value", "severity": "critical", "says": "312 of 1,040 rows"},),
    samples={"implausible:value": [{"_offset": 4, "value": "999.0000"}]},
)


@pytest.fixture
def here(tmp_path: Path) -> Lake:
    """Return a lake in which silver's gate is shut."""
    lake = Lake(tmp_path)
    gate_files.write(SHUT, silver.TABLE, lake)
    return lake


def test_a_written_gate_is_read_back(here: Lake) -> None:
    assert gate_files.read(silver.TABLE, here, Where.BEFORE) == SHUT
    assert gate_files.shut(silver.TABLE, here) == SHUT
    assert SHUT.why == "implausible:value: 312 of 1,040 rows"


def test_a_gate_without_a_file_is_open(here: Lake) -> None:
    assert gate_files.shut(gold.TABLE, here) is None
    assert gate_files.read(gold.TABLE, here, Where.BEFORE) is None


def test_the_tables_above_name_the_table_that_they_wait_for(here: Lake) -> None:
    assert gate_files.nearest_shut(gold.TABLE, here) == SHUT
    assert gate_files.summary(gold.TABLE, here) == "waits for silver.device_telemetry"
    assert gate_files.summary(silver.TABLE, here) == "shut"
    gate_files.clear(silver.TABLE, here, Where.BEFORE)
    assert gate_files.nearest_shut(gold.TABLE, here) is None


def test_a_gate_before_a_batch_stops_only_its_own_table(here: Lake) -> None:
    """The batch is not published, so no table above can have read it."""
    gate_files.refuse_behind(gold.TABLE, here)
    assert gate_files.stops(silver.TABLE, here) == SHUT
    assert gate_files.stops(gold.TABLE, here) is None


def test_the_two_sides_of_a_gate_are_independent(here: Lake) -> None:
    """A batch that passes proves nothing about rows published before it, and vice versa."""
    behind = replace(SHUT, where=Where.BEHIND, stream="", batch=3)
    gate_files.write(behind, silver.TABLE, here)

    gate_files.clear(silver.TABLE, here, Where.BEFORE)

    assert gate_files.shut(silver.TABLE, here) == behind
    with pytest.raises(GateShutError, match=r"waits: the gate of silver\.device_telemetry"):
        gate_files.refuse_behind(gold.TABLE, here)
    assert gate_files.stops(gold.TABLE, here) == behind
    assert gate_files.stops(silver.TABLE, here) is None


def test_an_opening_covers_the_rows_and_the_rules_that_were_seen(here: Lake) -> None:
    (opened,) = gate_files.open_(silver.TABLE, here, because="seen", who="night shift", at="03:10")
    other_rule = ({"name": "missing:device_id", "failed": 1},)

    assert opened.lets_pass(SHUT)
    assert not SHUT.lets_pass(SHUT)
    assert not opened.lets_pass(replace(SHUT, batch=8))
    assert not opened.lets_pass(replace(SHUT, versions={"bronze.device_telemetry": [3, 6]}))
    assert not opened.lets_pass(replace(SHUT, findings=(*SHUT.findings, *other_rule)))


def test_an_opening_behind_rows_holds_until_there_are_more_of_them() -> None:
    behind = replace(
        SHUT, where=Where.BEHIND, findings=({"name": "copies_of_a_key", "value": 2.0, "says": "2"},)
    )
    found = Finding(
        name="copies_of_a_key", severity=Severity.CRITICAL, holds=False, says="2", value=2
    )

    assert not behind.accepts([found])
    opened = replace(behind, opened="known, INC-204")
    assert opened.accepts([found])
    assert not opened.accepts([replace(found, value=3)])
    assert not opened.accepts([found, replace(found, name="other")])


def test_every_shutting_and_opening_is_kept(here: Lake) -> None:
    gate_files.open_(silver.TABLE, here, because="calibrated", who="night shift", at="03:10")
    gate_files.clear(silver.TABLE, here, Where.BEFORE)

    log = [json.loads(line) for line in (here.gates / "log.jsonl").local.read_text().splitlines()]

    assert [(each["batch"], each["opened"]) for each in log] == [(7, None), (7, "calibrated")]


def test_an_opening_records_the_batch_the_reason_and_the_person(here: Lake) -> None:
    gate_files.open_(silver.TABLE, here, because="calibrated", who="night shift", at="03:10")

    assert gate_files.shut(silver.TABLE, here) is None
    known = gate_files.read(silver.TABLE, here, Where.BEFORE)
    assert known is not None
    assert known.is_of("s", 7)
    assert not known.is_of("s", 8)
    assert (known.opened, known.opened_by, known.opened_at) == (
        "calibrated",
        "night shift",
        "03:10",
    )


def test_a_gate_opens_for_a_reason_only(here: Lake) -> None:
    with pytest.raises(DefinitionError, match="for a reason only"):
        gate_files.open_(silver.TABLE, here, because=" ", who="night shift", at="03:10")
    assert gate_files.shut(silver.TABLE, here) == SHUT


def test_an_open_gate_is_not_opened(here: Lake) -> None:
    with pytest.raises(DefinitionError, match="is not shut"):
        gate_files.open_(gold.TABLE, here, because="calibrated", who="night shift", at="03:10")


def test_the_error_of_a_shut_gate_names_the_command_to_type() -> None:
    error = GateShutError.before(SHUT)

    assert "batch 7 is not published" in error.message
    assert "strandline gate silver.device_telemetry --open" in error.hint
    assert error.exit_code == 4
