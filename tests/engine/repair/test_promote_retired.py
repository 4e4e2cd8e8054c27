"""A table whose place was let go is fed again by a promotion, and keeps the state that this brings, wherever a kill comes.

The promotion is one that was killed after its commit, which is finished without Spark but for the lease.
"""

from contextlib import nullcontext
from datetime import timedelta
from pathlib import Path
from typing import cast
from unittest.mock import patch

import pytest
from pyspark.sql import SparkSession

from strandline.core.errors import DefinitionError
from strandline.engine.accounting import gate_files
from strandline.engine.flow import shadow_lake
from strandline.engine.flow.runner import Site
from strandline.engine.flow.shadow_lake import Promotion, Shadow, refuse_half_done
from strandline.engine.lake.completeness import STATE_OF, Retirement, retired, write_down
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.vacuum import UNDOABLE
from strandline.engine.repair import rebuild
from strandline.engine.repair.rebuild import promote, undo
from strandline.engine.service.maintain import Policy, maintain
from tests.engine.flow.test_readers import checkpoint
from tests.engine.written import GOLD, SILVER, entry, numbers, small_lake, written
from tests.support.rows import NOON

SITE = Site(spark=cast("SparkSession", None), clock=lambda: NOON)


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lake:
    """Return a lake whose gold is retired and let go, and was computed anew: all but the checkpoints is exchanged."""
    monkeypatch.setattr(rebuild, "lease", lambda *_, **__: nullcontext())
    lake = small_lake(tmp_path / "lake")
    made = Shadow.of(GOLD, lake)
    one = entry(GOLD, versions={SILVER.id: (0, 0)}, read=3, good=3, written=1)
    written(made.table(GOLD), numbers(1), one.encoded())
    again = entry(GOLD, versions={SILVER.id: (0, 0)}, read=3, good=3, written=1, promoted="m")
    written(lake.table(GOLD), numbers(1), again.encoded(), mode="overwrite")
    shadow_lake.write(made, Promotion(mark="m", before=[0]))
    for place in (lake.checkpoint(GOLD), made.checkpoint(GOLD)):
        checkpoint(lake, place, ended={0: {SILVER: 1}})
    (made.checkpoint(GOLD) / STATE_OF / "0" / "1.delta").put("the new rows")
    why = Retirement(who="ann", at=NOON.isoformat(), why="enough", place_kept=False)
    write_down(GOLD.id, why, lake)
    return lake


def test_maintenance_after_a_kill_leaves_the_state_of_the_new_checkpoint(lake: Lake) -> None:
    """It took that for the state of the old one, and the stream went on without."""
    state = lake.checkpoint(GOLD) / STATE_OF
    with (
        patch.object(gate_files, "clear", side_effect=KeyboardInterrupt),  # after the exchange
        pytest.raises(KeyboardInterrupt),
    ):
        promote(GOLD, lake, SITE)
    assert state.exists()
    with pytest.raises(DefinitionError, match=r"promote .* was interrupted"):
        refuse_half_done(GOLD, lake)

    [*maintain(lake, NOON + UNDOABLE + timedelta(hours=1), Policy())]
    assert state.exists()
    with pytest.raises(DefinitionError, match=r"promote .* was interrupted"):
        undo(SITE.spark, GOLD, lake)
    promote(GOLD, lake, SITE)

    assert state.exists()
    assert retired(lake) == {}
    with pytest.raises(DefinitionError, match="no promotion to undo"):
        undo(SITE.spark, GOLD, lake)
    assert not Shadow.of(GOLD, lake).put_away("m").exists()
