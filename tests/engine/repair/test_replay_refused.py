"""An impossible replay is refused before anything is written, and the quarantine of a batch cannot be replayed."""

import pytest
from pyspark.sql import SparkSession

from fleet.gold import device_signal_10m as gold
from fleet.silver import device_telemetry as silver
from strandline.core.errors import DefinitionError
from strandline.core.stateful import Batch
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger import Entry
from strandline.engine.repair import backfill as backfilling
from strandline.engine.repair.backfill import backfill
from strandline.engine.repair.closed_range import Span
from strandline.engine.repair.replay import refuse_unfit, replay
from tests.support.events import readings, received
from tests.support.mistaken import EVENTS, computed_anew, mistaken
from tests.support.modes import answers_of, derive, proven
from tests.support.morning import STRICT
from tests.support.rows import at

pytestmark = [pytest.mark.core, pytest.mark.slow]

MORNING = Span(since=at("08:00:00"), until=at("10:00:00"))


def test_an_impossible_replay_is_refused_before_anything_is_written(
    spark: SparkSession, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The table of a batch, a table without a quarantine, a table whose backfill was killed."""
    wrong = mistaken(spark, lake)
    anew = computed_anew(spark, wrong)
    with pytest.raises(DefinitionError, match="not made by a stream"):
        refuse_unfit(silver.TABLE, anew)
    with pytest.raises(DefinitionError, match="judges no rows"):
        refuse_unfit(gold.TABLE, wrong)
    with monkeypatch.context() as patched:
        patched.setattr(backfilling, "_replace", killed)
        with pytest.raises(KeyboardInterrupt):
            backfill(spark, silver.TABLE, wrong, MORNING)

    with pytest.raises(DefinitionError, match=r"a backfill of .* was interrupted"):
        replay(spark, silver.TABLE, wrong)


def killed(*_: object, **__: object) -> Entry:
    """End as a kill would."""
    raise KeyboardInterrupt


@pytest.mark.whole
def test_a_lake_of_batches_needs_no_replay(spark: SparkSession, lake: Lake) -> None:
    """The next batch judges every row by the rules of its time, so there is nothing to replay."""
    received(lake, readings(EVENTS))
    derive(spark, lake, STRICT, mode=Batch())
    derive(spark, lake, silver.TABLE, mode=Batch())

    assert proven(lake, (silver.TABLE,))
    assert len(answers_of(lake).quarantine) == 3
