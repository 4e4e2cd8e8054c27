"""However a log is cut and whatever is killed, every event is in one place, and always in the same one.

Few examples with many rows each, because starting a stream costs far more than a row in it.
A failure is not shrunk; the seed in pytest's last lines brings it back.
"""

import random
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from jobs.core.modes import Batch
from jobs.core.table import Table
from jobs.run import delta
from jobs.run.checkpoint import planned
from jobs.run.lake import Lake
from jobs.silver import device_telemetry as silver
from tests.support.events import TABLE, commits, received
from tests.support.logs import Told, dealt, expected, told
from tests.support.modes import (
    ON_CHANGE,
    TABLES,
    answers_of,
    derive,
    in_every_mode,
    numbers,
    proven,
    twin,
)

EXAMPLES = settings(
    max_examples=2,
    deadline=None,
    phases=(Phase.explicit, Phase.generate),
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
SEEDS = st.integers(1, 2**32)


@EXAMPLES
@given(seed=SEEDS)
def test_any_cut_of_a_log_gives_the_same_rows_and_each_event_one_place(
    spark: SparkSession, tmp_path: Path, seed: int
) -> None:
    """Slices depend on load, outages and luck; the answer must not."""
    chance = random.Random(seed)
    log = told(chance, 150)
    root = Path(tempfile.mkdtemp(dir=tmp_path))
    whole = Lake(root / "in one commit").open_for_writing()
    received(spark, whole, [each.event for each in log])
    derive(spark, whole, *TABLES, mode=Batch())

    cut = dealt(chance, log, batches=3)
    answers = in_every_mode(spark, root, [each.event for each in cut])

    in_one = answers_of(whole)
    assert_accounted(answers.of("silver", *PLACE), answers.of("quarantine", *PLACE, "reasons"), cut)
    assert_accounted(in_one.of("silver", *PLACE), in_one.of("quarantine", *PLACE, "reasons"), log)
    # Which of two different copies is the first is a matter of commits; all else is not.
    assert answers.quarantine == in_one.quarantine
    assert answers.of("silver", *KEY) == in_one.of("silver", *KEY)
    assert answers.of("now", "window_from").__len__() > 0


KEY = ("event_id", "event_at")
PLACE = ("_partition", "_offset")


def assert_accounted(
    good: Sequence[dict[str, str]], bad: Sequence[dict[str, str]], log: Sequence[Told]
) -> None:
    """Assert that good and bad rows are those that the log tells, and that all others are copies."""
    places, held, copies = expected(log)
    assert {(int(row["_partition"]), int(row["_offset"])) for row in good} == places
    assert Counter(row["reasons"] for row in bad) == held
    assert len(good) + len(bad) + copies == len(log)
