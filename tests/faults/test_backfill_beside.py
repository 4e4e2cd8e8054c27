"""A backfill beside a stream that goes on: neither waits for the other's end, and nothing is there twice."""

import json
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from strandline.engine.lake.place import Place
from tests.cli.inside import strandline, succeeded
from tests.faults.lives import SLICE, life, moved, progress, received, sheets, total

pytestmark = [
    pytest.mark.core,
    pytest.mark.kafka,
    pytest.mark.slow,
    pytest.mark.prove(alone="three minutes"),
    pytest.mark.timeout(1200),
]

SILVER = "silver.device_telemetry"
GOLD = "gold.device_signal_10m"


def test_a_closed_range_is_replaced_while_the_stream_commits(
    fresh: Place, address: str, anywhere: Place, tmp_path: Path
) -> None:
    """The rows are the same before and after, the streams never notice, both ledgers balance."""
    truth = tmp_path / "truth.json"
    succeeded("produce", "--events", 36_000, "--hours", 240, "--truth", truth, "--lake", fresh)
    sent = total(json.loads(truth.read_text()))
    with life(fresh, "--max-offsets", 240) as process:
        moved(fresh, process, (3, 3, 0))
        since, until = closed(fresh)
        before = fingerprints(fresh, since, until)

        words = (SILVER, "--since", since, "--until", until, "--downstream", "--json")
        backfilled: Any = succeeded("backfill", *words, "--lake", fresh).json

        assert [entry["table"] for entry in backfilled][:2] == [SILVER, GOLD]
        assert {(entry["came"], entry["gone"]) for entry in backfilled} == {(0, 0)}
        assert fingerprints(fresh, since, until) == before
        moved(fresh, process, (*progress(fresh)[:2], -2))
        assert received(fresh) < sent, "the stream had read everything too early to prove anything"
        refused = strandline(
            "backfill", SILVER, "--since", since, "--until", "2999-01-01", "--lake", fresh
        )
        assert refused.code == 2
        assert "the earliest possible moment" in refused.err

    clean = anywhere / "clean"
    for lake in (fresh, clean):
        succeeded("run", *SLICE, "--lake", lake, env={"STRANDLINE_KAFKA": address})
        assert all(sheet["faults"] == [] for sheet in sheets(lake).values())
    succeeded("compare", fresh, clean)


def closed(lake: Place) -> tuple[str, str]:
    """Return a range that both streams have left."""
    answer: Any = succeeded(
        "query",
        f"SELECT min(event_at) AS a, max(event_at) AS b, (SELECT max(window_until) FROM {GOLD}) AS c FROM {SILVER}",  # noqa: S608  # our own names
        "--json",
        "--lake",
        lake,
    ).json
    first, last, final = (datetime.fromisoformat(answer[0][name]) for name in ("a", "b", "c"))
    # Gold may be far behind silver, and less than a window's length past the end of the last window that it emitted.
    return first.isoformat(), min(
        last - timedelta(hours=6), final - timedelta(minutes=30)
    ).isoformat()


def fingerprints(lake: Place, since: str, until: str) -> list[object]:
    """Return what the range holds in silver and gold, as sums that any other row would change."""
    return [
        succeeded(
            "query",
            f"SELECT count(*) AS n, sum(hash(t)::HUGEINT) AS h FROM {table} t "  # noqa: S608  # our own names
            f"WHERE {moment} >= '{since}' AND {moment} < '{until}'",
            "--json",
            "--lake",
            lake,
        ).json
        for table, moment in ((SILVER, "event_at"), (GOLD, "window_until"))
    ]
