"""The figures of a run for a program are plain JSON."""

import json

from strandline.engine.flow.running import Report
from tests.engine.written import SILVER, entry


def test_a_run_that_held_rows_back_can_be_printed_as_json() -> None:
    report = Report(table=SILVER.id, mode="available-now")
    held = {"late": 3, "malformed": 1}
    report.add(
        entry(SILVER, read=9, good=5, quarantined=held, broke=held, failed=("share", "late"))
    )

    found = json.loads(json.dumps(report.as_json()))

    assert found["quarantined"] == found["broke"] == held
    assert found["failed"] == ["late", "share"]
    assert (found["table"], found["batches"], found["read"]) == (SILVER.id, 1, 9)
