"""A store that does not answer: what is known on this machine is said within seconds, and since when not more."""

import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from strandline.core.errors import DefinitionError, TransientError
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.place import Place
from strandline.engine.runtime import clock
from strandline.engine.runtime.processes import own
from strandline.engine.service.metrics_page import LakeLook
from strandline.engine.service.stream_health import near
from tests.cli import inside
from tests.cli.typed import strandline
from tests.engine.written import SILVER
from tests.support.away_store import LAKE, closed, environment, silent
from tests.support.s3_server import S3Server

NOW = datetime(2026, 11, 25, 12, tzinfo=UTC)
SECONDS = 29.0
"""Five are promised, of a quiet machine; each request that waited as before would take thirty."""


@dataclass(frozen=True, slots=True)
class Away:
    """A lake whose store does not answer, and the settings with which it is asked for."""

    lake: Lake
    env: Mapping[str, str]


@pytest.fixture(params=[silent, closed], ids=["silent", "closed"])
def away(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Iterator[Away]:
    with request.param() as port:
        env = environment(port, tmp_path)
        for name, value in env.items():
            monkeypatch.setenv(name, value)
        yield Away(Lake(Place.of(LAKE)), env)


@pytest.mark.whole
def test_status_says_what_this_machine_knows_and_since_when_not_more(away: Away) -> None:
    """It waited for 31 seconds and said nothing."""
    at = clock.now().isoformat(timespec="seconds")
    beat = {**own(), "alive": True, "at": at, "tables": {SILVER.id: {"away": "the store is away"}}}
    near(away.lake, away.lake.heartbeat).put(json.dumps(beat))

    begun = time.monotonic()
    done = strandline("status", "--lake", LAKE, env=away.env)
    took = time.monotonic() - begun

    assert done.code == TransientError.exit_code
    assert took < SECONDS
    assert f"last heartbeat at {at}; more is not known since then" in done.out
    assert f"{SILVER.id} waits: the store is away" in done.out


@pytest.mark.whole
def test_the_metrics_say_what_this_machine_knows_and_since_when_not_more(away: Away) -> None:
    """Each of eight parts waited for half a minute by itself."""
    at = clock.now()
    pulse = {"away": "the store is away"}
    beat = {**own(), "alive": True, "at": at.isoformat(), "tables": {SILVER.id: pulse}}
    near(away.lake, away.lake.heartbeat).put(json.dumps(beat))

    begun = time.monotonic()
    done = strandline("metrics", "--once", "--lake", LAKE, env=away.env)
    took = time.monotonic() - begun

    assert done.code == TransientError.exit_code, done.printed
    assert took < SECONDS, f"{took:.1f} s"
    found = page(done.out)
    assert found["strandline_store_away"] == 1
    assert found['strandline_process_up{process="stream"}'] == 1
    assert found[
        'strandline_process_heartbeat_timestamp_seconds{process="stream"}'
    ] == pytest.approx(at.timestamp())
    assert found[f'strandline_table_waiting{{reason="outage",table="{SILVER.id}"}}'] == 1
    assert found['strandline_look_failed{part="ledger"}'] == 1
    assert done.err.count("does not answer") == 1


def test_figures_of_before_stay_with_their_age_and_a_store_that_is_back_is_read(
    s3: S3Server, bucket: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page said *up, nothing ill* of a look long ago, and nothing of its age."""
    lake, said = Lake(bucket), list[str]()
    beat = {**own(), "host": "another", "alive": True, "at": NOW.isoformat(), "tables": {}}
    lake.heartbeat.put(json.dumps(beat))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    moments = iter(NOW + timedelta(seconds=each) for each in range(1_000))
    look = LakeLook((), lake, lambda: next(moments), said.append)
    look.look()
    before = page(look.text())
    with closed() as port:
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{port}")
        look.look()
        look.look()
    away = page(look.text())
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3.address)
    look.look()
    again = page(look.text())

    beats = 'strandline_process_heartbeat_timestamp_seconds{process="stream"}'
    part = 'strandline_part_timestamp_seconds{part="ledger"}'
    assert [each["strandline_store_away"] for each in (before, away, again)] == [0, 1, 0]
    assert away[beats] == before[beats] == NOW.timestamp()
    assert before[part] == away[part] < again[part]
    assert again['strandline_look_failed{part="ledger"}'] == 0
    (sentence,) = said
    assert "not known since 2026-11-25T12:" in sentence


def page(text: str) -> dict[str, float]:
    """Return the samples of a page, by name and labels as they are printed."""
    lines = (each for each in text.splitlines() if each and not each.startswith("#"))
    return {name: float(value) for name, _, value in (each.rpartition(" ") for each in lines)}


@pytest.mark.whole
@pytest.mark.parametrize("away", [silent], ids=["silent"], indirect=True)
@pytest.mark.parametrize("verb", ["pause", "resume", "drain", "restart", "preflight", "radar"])
def test_an_order_is_refused_as_soon_as_it_is_known_that_the_store_is_away(
    away: Away, verb: str
) -> None:
    """Each waited for half a minute and more, and then was as little obeyed."""
    begun = time.monotonic()
    done = inside.strandline(verb, "--lake", LAKE, env=away.env)
    took = time.monotonic() - begun

    assert done.code == TransientError.exit_code
    assert "the object store does not answer" in done.err
    assert took < SECONDS, f"{took:.1f} s"


@pytest.mark.whole
@pytest.mark.parametrize("verb", ["ledger", "tables", "doctor"])
def test_a_question_is_not_held_by_a_store_that_is_silent(away: Away, verb: str) -> None:
    """A connection that was taken held `ledger` and `tables` for thirty seconds."""
    begun = time.monotonic()
    done = strandline(verb, "--lake", LAKE, env=away.env)
    took = time.monotonic() - begun

    assert done.code == (DefinitionError if verb == "doctor" else TransientError).exit_code
    assert "store" in done.out + done.err
    assert took < SECONDS, f"{took:.1f} s"
