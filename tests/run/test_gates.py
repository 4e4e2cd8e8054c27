"""A gate's note: shut, opened for one batch, taken down; and nothing in it that cannot be read back."""

from pathlib import Path

import pytest

from jobs.core.errors import DefinitionError
from jobs.gold import device_signal_10m as gold
from jobs.run import gates
from jobs.run.gates import GateShutError, Shut, Where
from jobs.run.lake import Lake
from jobs.silver import device_telemetry as silver

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
    gates.write(SHUT, silver.TABLE, lake)
    return lake


def test_what_was_written_is_read(here: Lake) -> None:
    assert gates.read(silver.TABLE, here) == SHUT
    assert gates.shut(silver.TABLE, here) == SHUT
    assert SHUT.why == "implausible:value: 312 of 1,040 rows"


def test_a_gate_of_which_nothing_is_written_is_open(here: Lake) -> None:
    assert gates.shut(gold.TABLE, here) is None
    assert gates.read(gold.TABLE, here) is None


def test_the_tables_above_know_behind_whom_they_wait(here: Lake) -> None:
    assert gates.believed_below(gold.TABLE, here) == SHUT
    assert gates.told(gold.TABLE, here) == "waits for silver.device_telemetry"
    assert gates.told(silver.TABLE, here) == "shut"
    gates.clear(silver.TABLE, here)
    assert gates.believed_below(gold.TABLE, here) is None


def test_a_gate_in_front_of_a_batch_stops_its_own_table_only(here: Lake) -> None:
    """The batch is not published, so nobody above can have read it."""
    gates.refuse_behind(gold.TABLE, here)
    assert gates.stands_behind(silver.TABLE, here) == SHUT
    assert gates.stands_behind(gold.TABLE, here) is None


def test_opening_says_for_which_batch_why_and_by_whom(here: Lake) -> None:
    gates.open_(silver.TABLE, here, because="calibrated", who="night shift", at="03:10")

    assert gates.shut(silver.TABLE, here) is None
    known = gates.read(silver.TABLE, here)
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
        gates.open_(silver.TABLE, here, because=" ", who="night shift", at="03:10")
    assert gates.shut(silver.TABLE, here) == SHUT


def test_an_open_gate_is_not_opened(here: Lake) -> None:
    with pytest.raises(DefinitionError, match="is not shut"):
        gates.open_(gold.TABLE, here, because="calibrated", who="night shift", at="03:10")


def test_whoever_stands_before_it_is_told_what_to_type() -> None:
    error = GateShutError.before(SHUT)

    assert "batch 7 is not published" in error.message
    assert "strandline gate silver.device_telemetry --open" in error.hint
    assert error.exit_code == 4
