"""While the server runs, reports are read over HTTP: reports only, from this machine only, under its own name only."""

import http.client
import subprocess
import sys
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from strandline.engine.lake.lake import Lake
from strandline.engine.proof import daily_report

DAY = "2026-11-20"
SECRET = "not for a reader of reports"  # noqa: S105  # words of a test

LEFT = """
import sys
from pathlib import Path
from strandline.engine.proof import daily_report as pages
from strandline.engine.lake.lake import Lake
with pages.served(Lake(Path(sys.argv[1]))) as address:
    print(address, flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def address(lake: Lake) -> Iterator[str]:
    """Serve a lake with one report, and with files that are no reports."""
    file = lake.report(DAY)
    file.parent.local.mkdir()
    file.local.write_text("<!doctype html><p>the numbers …")
    (lake.root / "secret.html").local.write_text(SECRET)
    (file.parent / "secret.html").local.write_text(SECRET)
    lake.report("2026-11-19").local.symlink_to(lake.root / "secret.html")
    lake.report("2026-11-18").local.mkdir()
    with daily_report.served(lake) as where:
        yield where


def asked(
    address: str, path: str, *, method: str = "GET", host: str | None = None
) -> tuple[int, dict[str, str], str]:
    """Ask for a path exactly as it is written; urllib would tidy it up."""
    there = http.client.HTTPConnection(urlsplit(address).netloc, timeout=10)
    there.request(method, path, headers={"Host": host} if host else {})
    answer = there.getresponse()
    response = (answer.status, dict(answer.getheaders()), answer.read().decode())
    there.close()
    return response


def test_a_report_is_sent_unchanged(address: str, lake: Lake) -> None:
    """After a report is made anew the reader sees the new one: the browser caches nothing."""
    link = daily_report.link(lake, date.fromisoformat(DAY))
    assert link == f"{address}/report-{DAY}.html"

    status, headers, words = asked(address, link.removeprefix(address))
    lake.report(DAY).local.write_text("anew")
    *_, later = asked(address, f"/report-{DAY}.html?again")
    _, announced, nothing = asked(address, f"/report-{DAY}.html", method="HEAD")

    assert (status, words) == (200, "<!doctype html><p>the numbers …")
    assert headers["Content-Type"] == "text/html; charset=utf-8"
    assert headers["Cache-Control"] == "no-store"
    assert later == "anew"
    assert (announced["Content-Length"], nothing) == ("4", "")


@pytest.mark.whole
def test_the_answer_for_a_day_without_a_report_names_the_command_that_makes_it(
    address: str,
) -> None:
    status, headers, words = asked(address, "/report-2026-11-21.html")

    assert status == 404
    assert headers["Content-Type"] == "text/plain; charset=utf-8"
    assert "no report of 21 November 2026 yet" in words
    assert "launch the job `report`" in words
    assert "`strandline report --day 2026-11-21`" in words


@pytest.mark.whole
@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/quality/",
        "/secret.html",
        "/../secret.html",
        f"/report-{DAY}.html/../secret.html",
        "/%2e%2e/secret.html",
        "/..%2fsecret.html",
        "//secret.html",
        "/report-../../secret.html",
        "/report-2026-02-31.html",
        f"/report-{DAY}.html%00",
        f"/x/report-{DAY}.html",
        "/report-2026-11-19.html",
        "/report-2026-11-18.html",
        "/.report-2026-11-20.html.1",
    ],
)
def test_nothing_else_of_the_lake_is_sent(address: str, path: str) -> None:
    """No file beside the reports, no list of them, no parent folder, and no target of a link."""
    status, _, words = asked(address, path)

    assert status == 404
    assert SECRET not in words
    assert "the numbers" not in words


@pytest.mark.whole
def test_only_this_machine_is_answered_and_only_under_its_own_name(address: str) -> None:
    """Otherwise a foreign page whose name resolves to loopback could read the reports of its visitor."""
    port = address.rpartition(":")[2]

    strange, _, words = asked(address, f"/report-{DAY}.html", host=f"stranger.example:{port}")
    own, *_ = asked(address, f"/report-{DAY}.html", host=f"localhost:{port}")

    assert address.startswith("http://127.0.0.1:")
    assert (strange, own) == (403, 200)
    assert "the numbers" not in words


@pytest.mark.whole
def test_nothing_can_be_sent_to_it(address: str) -> None:
    assert asked(address, f"/report-{DAY}.html", method="POST")[0] == 501
    assert asked(address, f"/report-{DAY}.html", method="DELETE")[0] == 501


@pytest.mark.whole
def test_the_address_is_known_while_the_server_runs(lake: Lake) -> None:
    """Also when it runs a second time on another port."""
    before = daily_report.address(lake)
    with daily_report.served(lake) as first:
        during = daily_report.address(lake)
    between = daily_report.address(lake)
    with daily_report.served(lake) as second:
        again = daily_report.address(lake)

    assert (before, during, between, again) == (None, first, None, second)
    assert daily_report.link(lake, date.fromisoformat(DAY)) is None


@pytest.mark.whole
def test_the_address_of_a_killed_server_is_not_returned(lake: Lake, tmp_path: Path) -> None:
    """A dead link is worse than none."""
    log = tmp_path / "log"
    command = [sys.executable, "-c", LEFT, str(lake.root)]
    pipe = subprocess.PIPE
    with (
        log.open("wb") as words,
        subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=words, text=True) as program,
    ):
        assert program.stdout is not None
        printed = program.stdout.readline().strip()
        during = daily_report.address(lake)
        program.kill()

    assert during == printed, log.read_text()
    assert (lake.dagster / "reports.address").local.read_text() == printed
    assert daily_report.address(lake) is None
