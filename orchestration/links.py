"""Links to the pages of the lake."""

from collections.abc import Mapping
from datetime import date

from dagster import MetadataValue

from orchestration.resources import LakeResource


def linked(lake: LakeResource, day: date | None = None) -> Mapping[str, MetadataValue]:
    """Return the metadata with the link to a day's report, today by default; empty while no process serves it."""
    address = lake.report_link(day)
    return {"report": MetadataValue.url(address)} if address else {}


def backtest_linked(lake: LakeResource) -> Mapping[str, MetadataValue]:
    """Return the metadata with the link to the page of the last backtest of rules; empty while no process serves it."""
    address = lake.backtest_link()
    return {"backtest": MetadataValue.url(address)} if address else {}
