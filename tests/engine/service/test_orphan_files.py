"""Only files that no version of a table ever named, and that were untouched for a day, are deleted."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from fleet.silver import device_telemetry as silver
from strandline.engine.accounting.balance_sheet import balance
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.log_actions import added
from strandline.engine.lake.plain_files import MAKER
from strandline.engine.runtime.processes import own
from strandline.engine.service.maintain import ORPHANED_FOR, left, take_away
from tests.support.events import Event, reading, received
from tests.support.modes import derive

pytestmark = pytest.mark.slow


def test_files_that_were_never_committed_go_and_all_others_stay(
    spark: SparkSession, lake: Lake
) -> None:
    received(lake, [Event(payload=reading(event_id="one", value=20))])
    derive(spark, lake, silver.TABLE)
    path = lake.table(silver.TABLE)
    version = next(n for n in range(9) if added(path, n).files)
    (used,) = map(Path, added(path, version).files)
    orphan = path / "part-00007.snappy.parquet"
    orphan.local.write_bytes(used.read_bytes())
    scratch = lake.scratch / "17" / "log"
    scratch.local.mkdir(parents=True)
    (scratch / "big").local.write_bytes(b"12345")
    touched = datetime.fromtimestamp(orphan.local.stat().st_ctime, tz=UTC)

    gone = lake.scratch / "18"
    (gone / MAKER).put(json.dumps({**own(), "started": 0.0}))

    assert [each.path for each in left(lake, touched + ORPHANED_FOR / 2)] == [gone], (
        "a batch may be under way, but no process with that start"
    )
    gone.remove()

    orphans = list(left(lake, touched + ORPHANED_FOR + timedelta(minutes=1)))
    assert [each.path for each in orphans] == [orphan, scratch.parent]
    assert [each.size for each in orphans] == [orphan.local.stat().st_size, 5]
    for each in orphans:
        take_away(each)
    assert not orphan.exists()
    assert not scratch.parent.exists()
    assert used.exists()
    assert balance(silver.TABLE, lake).balanced
