"""The days that Dagster offers: from the lake's first row on, as it was when this process began, or from the configured day.

From the configured day alone a lake of this week showed 330 days as missing that no run could ever fill. Days without a row
are done when their stream has left them, whether a table had rows then or begins later; so they are reported as well
(orchestration/strandline_dagster/written.py). A lake that has no row yet, or cannot be read, offers all days from the configured one on; when
the code is loaded again, as `strandline ui` does at its start, days begin with the first row.
"""

from datetime import date

from dagster import DailyPartitionsDefinition
from deltalake.exceptions import DeltaError
from strandline import catalog

from strandline.core.errors import LakeError
from strandline.core.table import Ingested
from strandline.engine.history.commit_history import moment_of
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.read.open_table import earliest
from strandline.engine.runtime.settings import settings
from strandline_dagster.resources import LakeResource


def days_since(first: date) -> DailyPartitionsDefinition:
    """Return the days of events from the first one on; today is the last, and the streams still own it."""
    return DailyPartitionsDefinition(start_date=first.isoformat(), timezone="UTC", end_offset=1)


def first_day(lake: Lake) -> date:
    """Return the day of the first row of all tables, but none before the configured day."""
    configured = settings().first_day
    try:
        found = [
            earliest(lake.table(table), moment_of(table))
            for table in catalog.tables()
            if not isinstance(table, Ingested)
        ]
    except (LakeError, DeltaError, OSError):  # without it no page at all could be shown
        return configured
    return max(configured, min((at.date() for at in found if at), default=configured))


DAYS = days_since(first_day(LakeResource().lake()))
"""The days of this process."""


def begins() -> date:
    """Return the first of them."""
    return DAYS.start.date()
