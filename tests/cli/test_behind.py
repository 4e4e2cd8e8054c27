"""``strandline status`` says when a table that is behind will have caught up."""

import json
from pathlib import Path

import pytest

from strandline.engine.lake.lake import Lake
from strandline.engine.runtime import clock
from strandline.engine.runtime.processes import own
from tests.cli.inside import succeeded

SIZE = {"rows": 191_000, "why": "27,300 rows/s towards 10 s"}
BATCHES = "batches of 191,000: 27,300 rows/s towards 10 s"


@pytest.mark.parametrize(
    ("figures", "said"),
    [
        (
            {"behind_rows": 1_200_000, "falls": 20_000.0, "size": SIZE},
            f"1,200,000 rows behind, 20,000 fewer a second: caught up in 1 min ({BATCHES})",
        ),
        (
            {"behind_rows": 1_200_000, "falls": -40.0, "size": None},
            "1,200,000 rows behind, 40 more a second: it does not catch up at this rate",
        ),
        (
            {"behind_rows": 1_200_000, "falls": None, "size": None},
            "1,200,000 rows behind; how fast is not known yet",
        ),
    ],
)
def test_a_table_that_is_behind_has_a_time_or_none(
    tmp_path: Path, figures: dict[str, object], said: str
) -> None:
    lake = Lake(tmp_path)
    pulses = {"silver.device_telemetry": figures, "gold.device_signal_10m": {"behind_rows": 40}}
    beat = {**own(), "alive": True, "at": clock.now().isoformat(), "tables": pulses, "failed": None}
    lake.heartbeat.put(json.dumps(beat))

    printed = succeeded("status", "--lake", tmp_path).out

    assert f"        silver.device_telemetry: {said}\n" in printed
    assert "gold.device_signal_10m" not in printed
