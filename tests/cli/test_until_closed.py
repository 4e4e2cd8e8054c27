"""`run --until-closed` closes what waits, under the name of whom typed it; each mode gives the same rows."""

import pytest
from deltalake import DeltaTable

from fleet.gold import device_signal_10m as gold
from fleet.silver import device_telemetry as silver
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger import last_entry
from strandline.engine.lake.spark_checkpoint import CLOSED
from strandline.engine.runtime import clock
from tests.cli.inside import strandline, succeeded
from tests.support import lakes
from tests.support.events import readings, received
from tests.support.rows import NOON

pytestmark = pytest.mark.slow

LOG = """
    batch | id | device | event_at | arrived_at
    1     | a  | d1     | 09:00:00 | 09:00:01
    2     | b  | d1     | 10:59:00 | 10:59:01
"""


def windows(lake: Lake) -> int:
    return len(DeltaTable(lake.table(gold.TABLE)).to_pyarrow_table())


@pytest.mark.usefixtures("spark")
def test_a_silent_topic_is_closed_by_one_word_in_a_catch_up_and_in_a_batch(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clock, "now", lambda: NOON)
    received(lake, readings(LOG))
    whole = Lake(lake.root.parent / "whole")
    lakes.copy(lake.root, whole.root)
    succeeded("run", silver.TABLE.id, gold.TABLE.id, "--lake", lake.root)
    assert windows(lake) == 1

    done = succeeded("run", gold.TABLE.id, "--until-closed", "--lake", lake.root)
    batch = ("run", gold.TABLE.id, "--mode", "batch", "--until-closed", "--lake", whole.root)
    succeeded(*batch)

    assert (
        f"{gold.TABLE.id} is closed: all time until 2026-11-20T11:09:01+00:00 is over" in done.err
    )
    assert "no broker is known" in done.err
    assert windows(lake) == windows(whole) == 2
    said = succeeded("ledger", gold.TABLE.id, "--lake", lake.root).out
    assert f"{gold.TABLE.id}: all time until 2026-11-20T11:09:01+00:00 is over by order of" in said
    for each in (lake, whole):
        found = last_entry(each.table(gold.TABLE))
        assert found is not None
        said = f"{clock.login()} at 2026-11-20T12:00:00+00:00: strandline run --until-closed"
        assert found[1].closed_by == said


@pytest.mark.whole
@pytest.mark.usefixtures("spark")
def test_a_batch_over_a_stream_is_refused_and_leaves_nothing_to_the_stream(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clock, "now", lambda: NOON)
    received(lake, readings(LOG))
    succeeded("run", silver.TABLE.id, gold.TABLE.id, "--lake", lake.root)

    batch = ("run", gold.TABLE.id, "--mode", "batch", "--until-closed", "--lake", lake.root)
    found = strandline(*batch)

    assert found.code == 2, found.printed
    assert "is written by a stream" in found.err
    assert not (lake.checkpoint(gold.TABLE) / CLOSED).exists()
    succeeded("run", silver.TABLE.id, gold.TABLE.id, "--lake", lake.root)
