"""Whether a schedule runs by itself, without a click: as its code says, or all or none of them by a setting, such as a profile's."""

from dagster import DefaultScheduleStatus

from strandline.engine.runtime.settings import settings


def by_itself(*, usually: bool) -> DefaultScheduleStatus:
    """Return the status that a schedule has where no person has started or stopped it.

    Args:
        usually: Whether it runs where the setting is absent.
    """
    wanted = settings().schedules
    runs = usually if wanted is None else wanted
    return DefaultScheduleStatus.RUNNING if runs else DefaultScheduleStatus.STOPPED
