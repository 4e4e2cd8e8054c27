"""An audit of nothing is an error: an empty answer would read as a clean one."""

from pathlib import Path

import pytest

from tests.cli.inside import strandline


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("silver.devices",), "silver.devices does not exist in"),
        (("bronze.device_telemetry",), "bronze.device_telemetry is as received"),
        ((), "no silver or gold table exists in"),
    ],
)
def test_what_has_no_rows_to_audit_is_refused(
    words: tuple[str, ...], reason: str, tmp_path: Path
) -> None:
    """Before Spark is started."""
    answer = strandline("check", *words, "--lake", tmp_path)

    assert answer.code == 2
    assert reason in answer.err
    assert "hint: " in answer.err
    assert "starting Spark" not in answer.err
