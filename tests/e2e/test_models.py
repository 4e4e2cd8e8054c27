"""A model from its training to its rollback, typed: four modes give each event the same score, and a certificate says so."""

import json
import signal
import time
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest

from fleet.models.unusual_traffic import MODEL
from strandline.engine.lake.lake import Lake
from tests.cli.typed import Answer, start, strandline, succeeded
from tests.support.scored import ALERTS, RAISED, TABLES, asked

DAY = timedelta(days=1)
TODAY = datetime.now(UTC).date()  # noqa: TID251  # events of the last days
LEARNT, SCORED = (TODAY - 9 * DAY, TODAY - 2 * DAY), (TODAY - 2 * DAY, TODAY)
"""An alert is believed for eight days after its event, so the days that are scored are the last."""

PATIENCE = 300

UNUSUAL = """
    SELECT connection_id AS id, model_version AS version, score
    FROM gold.traffic_scores WHERE is_unusual
"""

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.slow,
    pytest.mark.timeout(1800),
    pytest.mark.prove(alone="five minutes"),
]


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    """Return an empty lake with a broker."""
    lake = Lake(tmp_path / "lake")
    succeeded("up", "--lake", lake.root)
    yield lake
    strandline("down", "--lake", lake.root)


def produced(lake: Lake, days: tuple[date, date], seed: int, events: int) -> None:
    since, until = days
    words = ("--since", since, "--until", until, "--seed", seed, "--planted", 0.02)
    succeeded("produce", "--events", events, *words, "--lake", lake.root)


def trained(lake: Lake, since: object, until: object) -> str:
    words = ("--since", since, "--until", until, "--lake", lake.root)
    found = succeeded("models", "train", MODEL.name, *words, "--json").json
    assert isinstance(found, dict)
    return str(found["version"])


def promoted(lake: Lake, version: str, since: date) -> Answer:
    return strandline(
        "models", "promote", MODEL.name, version, "--from", since, "--lake", lake.root
    )


def test_a_model_is_trained_refused_promoted_scored_in_four_modes_and_rolled_back(
    lake: Lake, tmp_path: Path
) -> None:
    produced(lake, LEARNT, seed=7, events=200_000)
    succeeded("run", *TABLES, "--lake", lake.root)
    early = promoted(lake, trained(lake, LEARNT[0], f"{LEARNT[0]}T06:00"), SCORED[0])
    version = trained(lake, *LEARNT)
    at_last = promoted(lake, version, SCORED[0])
    produced(lake, SCORED, seed=8, events=60_000)

    catching_up = succeeded("run", *TABLES, "--lake", lake.root)
    raising = start(
        "alerts",
        "--from-beginning",
        "--every",
        "10s",
        "--json",
        "--lake",
        lake.root,
        log=tmp_path / "log",
    )
    try:
        _wait_for_all(lake)
    finally:
        raising.send_signal(signal.SIGTERM)
        raising.wait(60)
    succeeded("run", *ALERTS, "--lake", lake.root)
    trial = ("--splits", 3, "--kills", 1)
    verified = succeeded("verify", MODEL.of.id, *trial, "--lake", lake.root, timeout=1500)
    back = succeeded("models", "rollback", MODEL.name, "--json", "--lake", lake.root).json

    assert early.code == 2
    assert "the check demands 500 or more" in early.err
    assert at_last.code == 0
    assert "5," in catching_up.out
    raised = set(asked(lake, RAISED))
    assert raised == set(asked(lake, UNUSUAL))
    assert len(raised) > 50
    assert {each[1] for each in raised} == {version}
    assert "equal" in verified.out
    assert "NOT" not in verified.out
    assert isinstance(back, dict)
    assert (back["what"], back["version"]) == ("rolled back", None)


def _wait_for_all(lake: Lake) -> None:
    """Wait until the feed of the model has read all connections, and committed that it has."""
    name, deadline = f"live.{MODEL.name}", time.monotonic() + PATIENCE
    while True:
        text = lake.feeds_beat.text()
        feeds = json.loads(text)["tables"] if text else {}
        if name in feeds and feeds[name]["read"] >= 26_000:
            return
        assert time.monotonic() < deadline, text
        time.sleep(0.5)
