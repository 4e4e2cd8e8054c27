"""Where a page is that says more."""

from collections.abc import Mapping
from datetime import date

from dagster import MetadataValue

from orchestration.resources import LakeResource


def linked(lake: LakeResource, day: date | None = None) -> Mapping[str, MetadataValue]:
    """Return the entry that leads to a day's report, today's when none is named; none unless somebody serves it."""
    address = lake.report_link(day)
    return {"report": MetadataValue.url(address)} if address else {}
