"""``report``: a page for people, the same structure for programs, and an exit code for schedules."""

import json
import re
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from deltalake import DeltaTable

from tests.cli.inside import strandline, succeeded
from tests.support.days import Came, Held, lived

pytestmark = pytest.mark.slow

NINE = datetime(2026, 11, 20, 9, tzinfo=UTC)
LATE = Held(reasons=("late",), payload=b"<script>alert('x')</script>")
PAST = [
    Came(at=NINE, good=3, duplicates=1, held=[LATE]),
    Came(at=NINE + timedelta(days=1), good=4),
]


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """Return a lake with two days that balance."""
    return lived(tmp_path / "lake", PAST).root.local


def test_without_arguments_the_report_is_of_the_last_day_and_a_page_is_written(lake: Path) -> None:
    """It is what one types first."""
    answer = succeeded("report", "--lake", lake)

    file = lake / "quality/report-2026-11-21.html"
    assert "The numbers of 21 November 2026 can be trusted." in answer.out
    assert str(file) in answer.out
    assert file.read_text().startswith("<!doctype html>")


@pytest.mark.whole
def test_the_page_the_json_and_the_ledger_have_the_same_figures(lake: Path, tmp_path: Path) -> None:
    """Three answers to one question."""
    page = tmp_path / "trust.html"
    findings = succeeded(
        "report", "--day", "2026-11-20", "--to", page, "--lake", lake, "--json"
    ).json
    ledger = succeeded("ledger", "--lake", lake, "--json").json

    found = re.search(r'id="findings">(.*?)</script>', page.read_text())
    assert found is not None
    assert json.loads(found[1]) == findings
    assert isinstance(findings, dict)
    assert isinstance(ledger, list)
    for table, sheet in zip(findings["tables"], ledger, strict=True):
        flow = table["sheet"]["flow"]
        assert table["table"] == sheet["table"]
        assert (flow["read"], flow["good"], flow["duplicates"], flow["quarantined"]) == (
            sheet["read"],
            sheet["good"],
            sheet["duplicates"],
            sum(sheet["quarantined"].values()),
        )
    assert "<script>alert" not in page.read_text()


def test_a_range_of_days_is_its_first_day_and_the_one_after_its_last(lake: Path) -> None:
    """As everywhere else; with --json alone no file is written."""
    findings = succeeded(
        "report", "--since", "2026-11-20", "--until", "2026-11-22", "--lake", lake, "--json"
    ).json

    assert isinstance(findings, dict)
    assert findings["sentence"] == "The numbers of 20 to 21 November 2026 can be trusted."
    assert findings["arrived"] == 9
    assert not list(lake.glob("quality/*.html"))


def test_numbers_that_cannot_be_trusted_are_an_exit_code_and_a_page_all_the_same(
    lake: Path,
) -> None:
    """A schedule looks at the code, a person at the page."""
    DeltaTable(lake / "silver/device_telemetry").delete("event_id = '1-0'")

    answer = strandline("report", "--lake", lake)

    assert answer.code == 4
    assert "cannot be trusted: silver.device_telemetry is unbalanced" in answer.err
    assert "hint:" in answer.err
    assert "was written" not in answer.err
    assert (lake / "quality/report-2026-11-21.html").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--day", "soon"), "is no day"),
        (("--since", "2026-11-20"), "two ends"),
        (("--since", "2026-11-20", "--until", "2026-11-20"), "empty"),
        (("--day", "today", "--since", "2026-11-20"), "one day"),
    ],
)
def test_what_is_no_range_of_days_is_refused(
    words: tuple[str, ...], message: str, lake: Path
) -> None:
    """With what to write instead."""
    answer = strandline("report", *words, "--lake", lake)

    assert answer.code == 2
    assert message in answer.err
    assert "hint:" in answer.err


def test_a_page_that_cannot_be_written_is_refused_with_its_option(
    lake: Path, tmp_path: Path
) -> None:
    """Root may write everywhere, but not into a file as if it were a folder."""
    blocked = tmp_path / "file"
    blocked.touch()
    blocked.chmod(stat.S_IRUSR)

    answer = strandline("report", "--to", blocked / "page.html", "--lake", lake)

    assert answer.code == 2
    assert "--to" in answer.err
