"""A stream on trial is judged by what it writes; one that asks to be started again is."""

import random

import psutil
import pytest
from pyspark.sql import SparkSession

from jobs.core.errors import TransientError
from jobs.run import rehearsal
from jobs.run.lake import Lake
from jobs.run.runner import Site
from jobs.run.verify import Trial, verify
from jobs.silver import device_telemetry as silver
from tests.support.events import received
from tests.support.logs import dealt, told
from tests.support.modes import derive
from tests.support.rows import NOON

pytestmark = pytest.mark.slow

TRIAL = Trial(splits=2, kills=0, seed=11)


@pytest.fixture
def live(spark: SparkSession, lake: Lake, chance: random.Random) -> Lake:
    """Return a lake with dirty events in two commits, computed by a stream."""
    received(spark, lake, [each.event for each in dealt(chance, told(chance, 200), batches=2)])
    derive(spark, lake, silver.TABLE)
    return lake


@pytest.fixture
def site(spark: SparkSession) -> Site:
    return Site(spark=spark, clock=lambda: NOON)


def test_a_stream_whose_jvm_was_lost_is_started_again(live: Lake, site: Site) -> None:
    heard: list[str] = []

    def tell(word: str) -> None:
        heard.append(word)
        if word.startswith("streamed commit 1"):
            jvm().kill()

    (found,) = verify([silver.TABLE], live, TRIAL, site, tell)

    assert "started the stream again, error: Spark's JVM is gone" in "\n".join(heard)
    assert found.equal


def test_a_stream_that_asks_for_it_for_ever_ends_the_verification(
    live: Lake, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rehearsal, "TRIES", 0)

    def tell(word: str) -> None:
        if word.startswith("streamed commit 1"):
            jvm().kill()

    with pytest.raises(TransientError, match=r"it ended by itself(?s:.*)JVM is gone"):
        verify([silver.TABLE], live, TRIAL, site, tell)


def jvm() -> psutil.Process:
    """Return the JVM of the stream on trial, which is nobody else's."""
    (stream,) = (
        each
        for each in psutil.Process().children()
        if "stream" in each.cmdline() and "100ms" in each.cmdline()
    )
    (found,) = (each for each in stream.children(recursive=True) if each.name() == "java")
    return found
