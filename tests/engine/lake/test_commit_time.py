"""A copied or restored lake keeps the times of its commits: they are in the log, not in the files' own times."""

import json
import os
import shutil
from datetime import UTC, datetime
from pathlib import Path

from strandline.engine.ask.explain_gold import Step, _has_taken_in
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.commit_log import commit_file
from strandline.engine.proof.day_verdicts import FRESH, committed_at, signs
from tests.engine.written import BRONZE, GOLD, SILVER, entry, numbers, small_lake, written

LONG_AGO = datetime(2001, 1, 1, tzinfo=UTC).timestamp()


def copied(lake: Lake, root: Path) -> Lake:
    """Copy a lake without the files' times: here all files seem to be old, and only those of gold of today."""
    shutil.copytree(lake.root, root, copy_function=shutil.copyfile)
    for file in root.rglob("*"):
        if "gold" not in file.parts:
            os.utime(file, (LONG_AGO, LONG_AGO))
    return Lake(root)


def test_the_age_of_a_copied_table_is_that_of_its_last_commit(tmp_path: Path) -> None:
    lake = small_lake(tmp_path / "lake")
    actions = map(json.loads, commit_file(lake.table(SILVER), 0).local.read_text().splitlines())
    (info,) = (each["commitInfo"] for each in actions if "commitInfo" in each)
    moment = datetime.fromtimestamp(info["timestamp"] / 1000, tz=UTC)
    copy = copied(lake, tmp_path / "copy")
    written(copy.table(BRONZE), numbers(1), entry(BRONZE, batch=2, read=1, written=1).encoded())

    assert committed_at(SILVER, copy) == moment
    fresh = next(sign for sign in signs(SILVER, copy, moment) if sign.name == FRESH)
    assert fresh.well, fresh.message


def test_a_backfill_of_before_a_replay_did_not_take_it_in_wherever_the_lake_is(
    tmp_path: Path,
) -> None:
    """In the copy gold's files are newer than silver's."""
    lake = small_lake(tmp_path / "lake")
    spans = {"since": "2026-01-01T00:00:00+00:00", "until": "2026-01-02T00:00:00+00:00"}
    backfill = {**spans, "mode": "batch", "stream": "b", "replaced": True}
    written(lake.table(GOLD), numbers(1), entry(GOLD, batch=1, **backfill).encoded())
    brought = entry(SILVER, batch=1, **backfill)
    written(lake.table(SILVER), numbers(1), brought.encoded())
    row = {"event_at": datetime(2026, 1, 1, 12, tzinfo=UTC)}

    for each in (lake, copied(lake, tmp_path / "copy")):
        step = Step(source=SILVER, row=row, table=GOLD, lake=each)
        assert not _has_taken_in(step, 1, brought), each.root.name
