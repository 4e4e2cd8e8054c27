"""The pages of alerts that ``strandline ui`` serves; apart from their delivery, because a project without alerts has a `ui` too."""

from datetime import date

from strandline.engine.lake.lake import Lake
from strandline.engine.proof.daily_report import AlertPage
from strandline.engine.runtime import clock
from strandline.engine.runtime.settings import Settings


def alert_pages(found: Settings, lake: Lake) -> AlertPage:
    """Return what makes the page of an alert."""

    def made(day: date, alert_id: str) -> str | None:
        # Not imported above: a project of other tables has `strandline ui`, and no alerts.
        from strandline.alerting.notice import alert_found  # noqa: PLC0415  # as above
        from strandline.alerting.sigma import read_folder  # noqa: PLC0415  # as above
        from strandline.operate.alerts.examples import live_folder  # noqa: PLC0415  # as above
        from strandline_quality.report.page import alert_page  # noqa: PLC0415  # as above

        folder = read_folder(live_folder(found, lake))
        rules = {rule.id: rule for rule in folder.every}
        alert = alert_found(lake, alert_id, day, rules, clock.now())
        return alert_page(alert) if alert else None

    return made
