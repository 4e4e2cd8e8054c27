"""An alert is found by its id and shown with its event and its runbook, and the newest are found without reading the others."""

from datetime import date, timedelta
from typing import Any

from strandline.alerting.notice import newest_alerts
from strandline.alerting.tables import gold
from strandline.engine.lake.lake import Lake
from strandline.engine.proof import daily_report
from strandline.engine.runtime.settings import settings
from strandline.operate.alerts.raising import alert_pages
from tests.engine.proof.test_report_server import asked
from tests.support.raised import alert, raised
from tests.support.rows import NOON

DAY = NOON.date()
HOSTILE = '{"CommandLine":"<script>alert(1)</script>"}'


def page(lake: Lake, number: int, day: date = DAY) -> tuple[int, dict[str, str], str]:
    """Ask for the page of an alert, as the link leads to it."""
    with daily_report.served(lake, alert_pages(settings(lake=str(lake.root)), lake)) as where:
        link = daily_report.alert_link(where, f"{number:032x}", NOON)
        return asked(where, link.removeprefix(where).replace(str(DAY), str(day)))


def test_the_page_of_an_alert_has_its_event_its_runbook_and_what_explains_it(lake: Lake) -> None:
    raised(lake, [alert(1), alert(2, event=HOSTILE)])

    status, headers, words = page(lake, 2)

    assert (status, headers["Content-Type"]) == (200, "text/html; charset=utf-8")
    assert "Certutil turns a text into a program" in words
    assert "A false alarm becomes an example" in words, "of infra/docs/alert_rules.md"
    assert "strandline why process-events/0/2" in words
    assert "strandline rules explain --event process-events/0/2" in words
    assert "&lt;script&gt;alert(1)" in words
    assert "<script>alert" not in words


def test_an_alert_whose_rule_is_gone_is_shown_all_the_same(lake: Lake) -> None:
    raised(lake, [alert(3, rule="gone")])

    status, _, words = page(lake, 3)

    assert status == 200
    assert "no longer in the folder" in words


def test_what_is_no_alert_has_no_page(lake: Lake) -> None:
    """Neither one of another day, nor one of a lake without alerts, nor what is no id."""
    assert page(lake, 1)[0] == 404
    raised(lake, [alert(1)])

    other = page(lake, 1, DAY + timedelta(days=1))

    assert other[0] == 404
    assert "strandline run bronze.alerts" in other[2]
    with daily_report.served(lake, alert_pages(settings(lake=str(lake.root)), lake)) as where:
        assert asked(where, "/alert-2026-11-20-..%2f..%2fsecret.html")[0] == 404
        assert asked(where, "/alert-2026-02-31-0123456789abcdef.html")[0] == 404


def test_the_newest_alerts_are_read_from_the_newest_files(lake: Lake) -> None:
    for hour in (3, 1, 2):
        at = NOON + timedelta(hours=hour)
        raised(lake, [alert(10 * hour + n, at=at) for n in range(3)])
    newest = newest_alerts(lake, 4)
    _break_oldest(lake)

    again: list[dict[str, Any]] = newest_alerts(lake, 4)

    assert [row["event_offset"] for row in newest] == [32, 31, 30, 22]
    assert [row["event_offset"] for row in again] == [32, 31, 30, 22]
    assert again[0]["raised_at"] == NOON + timedelta(hours=3, seconds=32)


def _break_oldest(lake: Lake) -> None:
    """Empty the file with the oldest alerts: one that is opened is an error."""
    files = sorted(
        lake.table(gold.TABLE).local.glob("*.parquet"), key=lambda file: file.stat().st_mtime
    )
    files[1].write_bytes(b"")
