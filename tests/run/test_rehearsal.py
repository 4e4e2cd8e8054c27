"""A stream on trial is judged by what it writes; one that asks to be started again is."""

from collections.abc import Callable
from contextlib import suppress

import psutil
import pytest
from pyspark.sql import SparkSession

from jobs.core.errors import TransientError
from jobs.run import rehearsal
from jobs.run.certificate import Certificate
from jobs.run.lake import Lake
from jobs.run.processes import family
from jobs.run.runner import Site
from jobs.run.verify import Trial, verify
from jobs.silver import device_telemetry as silver
from tests.support.rows import NOON

pytestmark = pytest.mark.slow

Verified = Callable[[], tuple[Certificate, str]]


@pytest.fixture
def verified(spark: SparkSession, morning: Lake) -> Verified:
    """Return a verification whose stream loses its JVM half-way, and what it tells."""

    def run() -> tuple[Certificate, str]:
        heard: list[str] = []

        def tell(word: str) -> None:
            heard.append(word)
            if word.startswith("streamed commit 1"):
                lose_the_jvm()

        trial, site = Trial(splits=2, kills=0, seed=11), Site(spark=spark, clock=lambda: NOON)
        (found,) = verify([silver.TABLE], morning, trial, site, tell)
        return found, "\n".join(heard)

    return run


def test_a_stream_whose_jvm_was_lost_is_started_again(verified: Verified) -> None:
    found, heard = verified()

    assert "started the stream again, error: Spark's JVM is gone" in heard
    assert found.equal


def test_a_stream_that_asks_for_it_for_ever_ends_the_verification(
    verified: Verified, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rehearsal, "TRIES", 0)

    with pytest.raises(TransientError, match=r"it ended by itself(?s:.*)JVM is gone"):
        verified()


def lose_the_jvm() -> None:
    """Kill what the stream on trial has started, and let itself live."""
    (stream,) = (
        each
        for each in psutil.Process().children()
        if "stream" in each.cmdline() and "100ms" in each.cmdline()
    )
    for each in family(stream.pid)[1:]:
        with suppress(psutil.NoSuchProcess):  # Spark's own programs end with it
            each.kill()
