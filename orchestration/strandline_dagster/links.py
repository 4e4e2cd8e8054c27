"""Links to the pages of the lake."""

from collections.abc import Mapping
from datetime import date

from dagster import MetadataValue
from strandline import catalog

from strandline.core.table import Table
from strandline.engine.lake.lake import Lake
from strandline_dagster.resources import LakeResource

ALERTS = "gold.alerts"


def linked(lake: LakeResource, day: date | None = None) -> Mapping[str, MetadataValue]:
    """Return the metadata with the link to a day's report, today by default; empty while no process serves it."""
    address = lake.report_link(day)
    return {"report": MetadataValue.url(address)} if address else {}


def backtest_linked(lake: LakeResource) -> Mapping[str, MetadataValue]:
    """Return the metadata with the link to the page of the last backtest of rules; empty while no process serves it."""
    address = lake.backtest_link()
    return {"backtest": MetadataValue.url(address)} if address else {}


def newest_alerts(table: Table, lake: Lake) -> Mapping[str, MetadataValue]:
    """Return the metadata with links to the newest alerts, for the table that has them; empty for all others."""
    if table.id != ALERTS or not catalog.declares("alerts"):
        return {}
    # Not imported above: a project of other tables has no rules, and the other links.
    from strandline_dagster.rule_book import alert_lines  # noqa: PLC0415  # as above

    return alert_lines(lake)
