"""From an empty folder to a proven balance, typed as the issue types it; and every mode gives the same rows."""

import json
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from strandline.engine.lake.place import Place
from tests.cli import typed
from tests.cli.inside import strandline, succeeded
from tests.cli.typed import start
from tests.support import lakes

pytestmark = [pytest.mark.core, pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(900)]

EVENTS = 6_000
SLICES = 2
"""The largest topic alone has more than half of the events, so its table has two batches."""

PATIENCE = 400
TABLES = ("bronze.device_telemetry", "silver.device_telemetry", "gold.device_signal_10m")
DEVICES = ("bronze.device_inventory", "silver.device_inventory", "silver.devices")
RUN = (*DEVICES, *TABLES)
"""Other topics have the rest of the events; `make demo` and e2e/test_ui_browser.py run all tables."""

CLOSED = """
    SELECT (SELECT sum(readings) FROM gold.device_signal_10m) AS in_gold,
           (SELECT count(*) FROM silver.device_telemetry,
                   (SELECT max(event_at) - INTERVAL 75 MINUTE AS closed FROM silver.device_telemetry)
            WHERE time_bucket(INTERVAL 10 MINUTE, event_at) + INTERVAL 10 MINUTE <= closed) AS closed
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """A lake that was filled by the issue's sequence, its broker, and what was sent."""

    lake: Place
    address: str
    truth: dict[str, Any]

    @property
    def kafka(self) -> dict[str, str]:
        """Return what makes another lake read the same topic."""
        return {"STRANDLINE_KAFKA": self.address}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Type the issue's sequence; the run takes the backlog in slices."""
    folder = tmp_path_factory.mktemp("e2e")
    lake, truth = lakes.place(folder / "lake"), folder / "truth.json"
    up: Any = typed.succeeded("up", "--lake", lake, "--json").json
    try:
        typed.succeeded(
            "produce", "--events", EVENTS, "--seed", 7, "--truth", truth, "--lake", lake
        )
        typed.succeeded("run", *RUN, "--max-offsets", EVENTS // SLICES, "--lake", lake)
        expected = json.loads(truth.read_text())
        yield World(lake=lake, address=up["address"], truth=expected)
    finally:
        typed.succeeded("down", "--lake", lake)


def sheets(lake: Place) -> dict[str, dict[str, Any]]:
    answer: Any = succeeded("ledger", "--lake", lake, "--json").json
    return {sheet["table"]: sheet for sheet in answer}


def same(world: World, other: Place) -> None:
    found: Any = succeeded("compare", world.lake, other, "--json").json
    assert [one["table"] for one in found if not one["equal"]] == []
    assert {"silver.device_telemetry", "quarantine.device_telemetry", "gold.device_signal_10m"} <= {
        one["table"] for one in found
    }
    assert all(one["left_rows"] for one in found)
    assert all(sheet["balanced"] for sheet in sheets(other).values())


def test_the_ledger_is_the_truth(world: World) -> None:
    """The lake counts what was really sent, to the event and the reason."""
    found = sheets(world.lake)

    silver = found[TABLES[1]]
    assert set(TABLES) < set(found)
    assert found[TABLES[0]]["batches"] >= SLICES
    assert all(sheet["balanced"] for sheet in found.values())
    assert all(sheet["dropped_by_watermark"] == 0 for sheet in found.values())
    sent = world.truth["tables"]
    assert sum(each["good"] for name, each in sent.items() if name.startswith("bronze")) == EVENTS
    for name, counts in sent.items():
        if name in RUN:
            assert {each: found[name][each] for each in counts} == counts, name
    assert silver["duplicates"] > 0
    assert len(silver["quarantined"]) > 5


def test_gold_counts_the_closed_windows_of_silver(world: World) -> None:
    """Nothing is in a window twice, and no closed window is missing."""
    (row,) = list(succeeded("query", CLOSED, "--lake", world.lake, "--json").json)  # type: ignore[call-overload]  # JSON

    assert int(row["in_gold"]) == row["closed"] > EVENTS // 2


@pytest.mark.prove(alone="a minute")
def test_a_batch_over_everything_gives_the_same_rows(world: World, anywhere: Place) -> None:
    """Next year's backfill must give this year's answer, and how events were cut into slices is no property of them."""
    succeeded("run", *RUN, "--mode", "batch", "--lake", anywhere, env=world.kafka)

    same(world, anywhere)


@pytest.mark.prove(alone="a minute")
def test_a_stream_gives_the_same_rows(world: World, anywhere: Place) -> None:
    """All tables at once, each batch as it comes."""
    words = (
        "stream",
        *DEVICES,
        *TABLES,
        "--every",
        "500ms",
        "--max-offsets",
        4000,
        "--lake",
        anywhere,
    )
    log = lakes.beside(anywhere, ".log")
    process = start(*words, log=log, env=world.kafka)
    try:
        caught_up(anywhere, sheets(world.lake))
        process.send_signal(signal.SIGINT)
        assert process.wait(120) == 0
    finally:
        process.kill()
        process.wait()

    log_text = log.read_text()
    assert "Traceback" not in log_text
    assert "Error" not in log_text
    same(world, anywhere)


def caught_up(lake: Place, wanted: dict[str, dict[str, Any]]) -> None:
    """Wait until each streamed table has as many rows as in the other lake, and nothing left to look at."""
    deadline = time.monotonic() + PATIENCE
    names = (*DEVICES, *TABLES)
    rows = {name: (wanted[name]["rows"], 0) for name in names}
    there: dict[str, tuple[int, int]] = {}
    while there != rows:
        assert time.monotonic() < deadline, f"the stream has {there} rows, not {rows}"
        time.sleep(1)
        answer = strandline(
            "ledger", "--lake", lake, "--json"
        )  # refused while there is no table yet
        found = {sheet["table"]: sheet for sheet in json.loads(answer.out or "[]")}
        there = {
            name: (found[name]["rows"], found[name]["waiting"]) for name in names if name in found
        }
