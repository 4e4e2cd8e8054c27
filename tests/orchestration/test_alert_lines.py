"""A materialisation of gold.alerts lists the newest alerts, each with links to its event and its runbook."""

import pytest

from strandline.alerting.tables import bronze, gold
from strandline.engine.lake.lake import Lake
from strandline.engine.proof import daily_report
from strandline_dagster.assets import newest_alerts
from tests.support.raised import alert, raised


def listed(lake: Lake, name: str = "newest alerts, with commands") -> str:
    return str(newest_alerts(gold.TABLE, lake)[name].value)


def test_each_alert_is_one_click_from_its_event_and_its_runbook(lake: Lake) -> None:
    raised(lake, [alert(7)])

    with daily_report.served(lake) as where:
        found = listed(lake)

    page = f"{where}/alert-2026-11-20-{7:032x}.html"
    assert f"[Certutil turns a text into a program]({page})" in found
    assert f"[runbook]({page})" in found
    assert "`strandline why process-events/0/7`" in found


@pytest.mark.whole
def test_the_very_newest_are_shown_without_a_click(lake: Lake) -> None:
    """Dagster's page hides a text of a thousand characters behind one."""
    raised(lake, [alert(n) for n in range(30)])

    with daily_report.served(lake) as where:
        found = listed(lake, "newest alerts")
        more = listed(lake)

    assert len(found) < 1_000
    assert found.splitlines()[0].count(f"{where}/alert-2026-11-20-{29:032x}.html") == 1
    assert 3 < found.count("/alert-") < more.count("strandline why") == 20


@pytest.mark.whole
def test_without_a_server_the_commands_are_there(lake: Lake) -> None:
    raised(lake, [alert(7)])

    found = listed(lake)

    assert "strandline why" in found
    assert "](" not in found


def test_the_words_of_a_rule_are_no_mark_up(lake: Lake) -> None:
    """Who writes rules could else lead a click elsewhere, or end the table."""
    raised(lake, [alert(7, rule="[x](y)|<b>")])

    with daily_report.served(lake):
        found = listed(lake)

    assert "[x](y)" not in found
    assert "<b>" not in found
    assert found.splitlines()[-1].count("|") == 7


def test_other_tables_and_a_lake_without_alerts_have_none(lake: Lake) -> None:
    assert newest_alerts(gold.TABLE, lake) == {}
    assert newest_alerts(bronze.TABLE, lake) == {}
