"""The page says what was measured, at which commit, and where we lose."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tests.benchmarks import speed_page
from tests.benchmarks.samples import Sample

MACHINE = {"commit": "abc1234", "processor": "a processor", "cores": 2}


def sample(who: str, cpu: float, number: int = 0) -> dict[str, Any]:
    """Return a figure of the clean step."""
    taken = Sample(
        part=speed_page.PART, row="clean", contestant=who, number=number, wall=cpu / 2, cpu=cpu
    )
    return asdict(taken)


def results(ours: float) -> dict[str, Any]:
    """Return results of one workload, in which tuned takes 20 seconds and delta-rs 8 for a million events."""
    figures = {"strandline": ours, "tuned": 20.0, "delta-rs": 8.0}
    of = {
        "events": 1_000_000,
        "command": "a command",
        "machine": MACHINE,
        "absent": {"flink": "no Java with a compiler"},
        "refused": {"polars": "polars gold: 3 rows"},
        "samples": [sample(who, cpu) for who, cpu in figures.items()],
    }
    return {"workloads": {"clean": of}}


def test_a_ratio_has_the_commit_that_it_was_measured_at() -> None:
    """Ours over theirs, of each contestant that was measured."""
    page = speed_page.page(results(10.0))

    assert "| clean | 0.50 | 1.25 | 1,000,000 | abc1234 |" in page


def test_where_we_lose_is_listed_with_what_the_other_promises() -> None:
    """By more than half; a smaller loss is in the table."""
    losing, close = (speed_page.page(results(ours)) for ours in (24.0, 10.0))

    assert "* clean: 3.0 times the CPU of delta-rs (offsets in the commit" in losing
    assert "Nowhere in these tables." in close


def test_who_is_absent_and_who_was_wrong_is_named_with_the_reason() -> None:
    """A peer that is missing without a word looks like one that was left out."""
    page = speed_page.page(results(10.0))

    assert "* flink: no Java with a compiler." in page
    assert "* polars does not count: polars gold: 3 rows" in page


def test_a_target_that_is_missed_is_said() -> None:
    """Of the medians, and of what was measured alone."""
    met, missed = ([*speed_page.verdicts(results(ours))] for ours in (12.0, 12.2))

    assert met == [("clean: CPU 0.60 of tuned's, to be at most 0.60", True)]
    assert [is_met for _, is_met in missed] == [False]


def test_the_page_is_the_one_that_the_results_make() -> None:
    """It is made by `python -m tests.benchmarks speed`, and by no hand."""
    data = json.loads(speed_page.RESULTS.read_text())

    assert speed_page.PAGE.read_text() == speed_page.page(data)


def test_results_elsewhere_have_their_page_beside_them(tmp_path: Path) -> None:
    """A run of a few events, with --out, is not to replace the page."""
    (tmp_path / "peers.json").write_text(json.dumps(results(10.0)))

    assert speed_page.write_page(tmp_path / "peers.json") == tmp_path / "speed.md"
