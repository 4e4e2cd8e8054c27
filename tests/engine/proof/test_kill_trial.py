"""A kill trial judges its stream by the rows that it writes, and restarts it after a transient error."""

import re
from collections.abc import Callable
from contextlib import suppress

import psutil
import pytest
from pyspark.sql import SparkSession

from fleet.silver import device_telemetry as silver
from strandline.core.errors import TransientError
from strandline.engine.flow.runner import Site
from strandline.engine.lake.lake import Lake
from strandline.engine.proof import trial_lakes
from strandline.engine.proof.certificate import Certificate
from strandline.engine.proof.verify import Trial, verify
from strandline.engine.runtime.processes import family
from tests.support.rows import NOON

pytestmark = pytest.mark.slow

Verified = Callable[[], tuple[Certificate, str]]


@pytest.fixture
def verified(spark: SparkSession, morning: Lake) -> Verified:
    """Return a verification whose stream loses its JVM half-way, and its messages."""

    def run() -> tuple[Certificate, str]:
        lines: list[str] = []

        def note(line: str) -> None:
            lines.append(line)
            if line.startswith("streamed commit 1"):
                lose_the_jvm()

        trial, site = Trial(splits=2, kills=0, seed=11), Site(spark=spark, clock=lambda: NOON)
        (certificate,) = verify([silver.TABLE], morning, trial, site, note)
        return certificate, "\n".join(lines)

    return run


@pytest.mark.prove(alone="half a minute")
def test_a_stream_that_lost_its_jvm_is_restarted_and_has_time_for_each_row(
    verified: Verified, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a commit of a million rows nothing was said for minutes, and the trial of a sound table failed after five."""
    monkeypatch.setattr(trial_lakes, "WORD", 0.0)
    monkeypatch.setattr(trial_lakes, "STILL", 0.0)
    monkeypatch.setattr(trial_lakes, "A_ROW", 60.0)

    certificate, messages = verified()

    assert "started the stream again, error: Spark's JVM is gone" in messages
    assert re.search(rf"\d+ s on commit 2, not yet read by {silver.TABLE.id}", messages)
    assert certificate.equal


@pytest.mark.prove(alone="half a minute")
def test_a_stream_that_fails_again_and_again_ends_the_verification(
    verified: Verified, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trial_lakes, "TRIES", 0)

    with pytest.raises(TransientError, match=r"it ended by itself(?s:.*)JVM is gone"):
        verified()


def lose_the_jvm() -> None:
    """Kill the programs that the stream on trial has started, but not the stream itself."""
    (stream,) = (
        each
        for each in psutil.Process().children()
        if "stream" in each.cmdline() and "100ms" in each.cmdline()
    )
    for each in family(stream.pid)[1:]:
        with suppress(psutil.NoSuchProcess):  # Spark's own programs end with it
            each.kill()
