"""The page says what was measured, at which commit, and where we lose."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from tests.benchmarks import ratios, speed_page
from tests.benchmarks.report import quoted
from tests.benchmarks.samples import Sample
from tests.benchmarks.speed_page import Sources

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


def test_a_loss_has_its_profile_where_there_is_one_and_is_named_where_there_is_none() -> None:
    """`reports/profiles/clean.md` is about the workload `clean`; of a workload that does not lose it is not shown."""
    profiled, without, winning = (
        speed_page.page(results(ours), Sources(profiles=profiles))
        for ours, profiles in (
            (24.0, {"clean": "Half of it is state."}),
            (24.0, {}),
            (7.0, {"clean": "Half"}),
        )
    )

    assert "### Clean: the profile, and what was tried\n\nHalf of it is state." in profiled
    assert "Not profiled on this page yet" not in profiled
    assert "Not profiled on this page yet: clean." in without
    assert "Half" not in winning


def test_what_a_core_carries_follows_from_the_figures() -> None:
    """Ten core-seconds for a million events are a hundred thousand events a second."""
    page = speed_page.page(results(10.0))

    assert "| a million events, in core-seconds | ours | tuned | delta-rs |" in page
    assert "| clean | 10.0 | 20.0 | 8.0 | 100,000 | 50,000 |" in page


def nexmark() -> dict[str, Any]:
    """Return results of one query of NEXMark, in which ours takes thirty seconds and Flink ten."""
    costs = {"strandline": 30.0, "flink": 10.0}
    taken = [
        Sample(part="query", row="q3", contestant=who, number=0, wall=cpu, cpu=cpu)
        for who, cpu in costs.items()
    ]
    return {
        "events": 1_000_000,
        "command": "another command",
        "machine": MACHINE,
        "rows": {"q3": 787},
        "samples": [asdict(each) for each in taken],
    }


def test_queries_beside_flink_are_on_the_page_and_in_the_plot() -> None:
    """Those of the results of NEXMark, which another command writes."""
    sources = Sources(nexmark=nexmark())

    page = speed_page.page(results(10.0), sources)
    plot = ratios.picture(speed_page.ratios(results(10.0), sources))

    assert "* NEXMark, times the CPU of Flink: q3 3.0." in page
    assert "| q3 | 787 | 3.00 | 30.0 | 10.0 | 33,333 | 100,000 |" in page
    assert "<title>NEXMark q3, flink: 3.00</title>" in plot


def test_the_plot_has_each_ratio_at_its_place() -> None:
    """On a scale of powers: half is as far on the left of one as two is on the right of it."""
    plot = ratios.picture(speed_page.ratios(results(10.0), Sources()))
    places = {
        who: float(plot.partition(f", {who}: ")[0].rpartition('cx="')[2].partition('"')[0])
        for who in ("tuned", "delta-rs")
    }
    one = float(plot.partition('stroke="#000"')[0].rpartition('x1="')[2].partition('"')[0])

    assert places["tuned"] < one < places["delta-rs"]
    assert places["delta-rs"] - one == pytest.approx((one - places["tuned"]) * 0.322, rel=0.02)


def test_each_contestant_has_a_colour() -> None:
    """One without would be left out of the plot's legend, and end the plot."""
    assert set(speed_page.AGAINST) == set(ratios.COLOURS)


def test_a_figure_is_quoted_by_heading_row_and_column() -> None:
    """The same row may be in two tables; one that is gone is an error, and no empty cell."""
    report = "# One\n\n| table | ms |\n|---|---:|\n| silver | 3 |\n\n## Two\n\n| table | s |\n|---|---|\n| silver | 4 |\n"

    assert quoted(report, "# One", "silver") == {"table": "silver", "ms": "3"}
    assert quoted(report, "## Two", "silver") == {"table": "silver", "s": "4"}
    with pytest.raises(LookupError, match="no row 'gold'"):
        quoted(report, "# One", "gold")


def test_the_page_is_the_one_that_the_results_make() -> None:
    """It is made by `python -m tests.benchmarks speed`, and by no hand."""
    data, sources = json.loads(speed_page.RESULTS.read_text()), Sources.found(speed_page.REPORTS)

    assert speed_page.PAGE.read_text() == speed_page.page(data, sources)
    assert speed_page.PAGE.with_suffix(".svg").read_text() == ratios.picture(
        speed_page.ratios(data, sources)
    )


def test_results_elsewhere_have_their_page_beside_them(tmp_path: Path) -> None:
    """A run of a few events, with --out, is not to replace the page."""
    (tmp_path / "peers.json").write_text(json.dumps(results(10.0)))

    written = speed_page.write_page(tmp_path / "peers.json")

    assert written == [tmp_path / "speed.md", tmp_path / "speed.svg"]
