"""Schedules run by themselves as their code says, or as a setting does."""

import pytest
from dagster import DefaultScheduleStatus

from strandline_dagster.schedules import by_itself

pytestmark = pytest.mark.whole

RUNNING, STOPPED = DefaultScheduleStatus.RUNNING, DefaultScheduleStatus.STOPPED


@pytest.mark.parametrize(
    ("setting", "usually", "status"),
    [
        (None, True, RUNNING),
        (None, False, STOPPED),
        ("true", False, RUNNING),
        ("false", True, STOPPED),
    ],
)
def test_the_setting_decides_where_it_is_there(
    *,
    setting: str | None,
    usually: bool,
    status: DefaultScheduleStatus,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A profile of developers has them stopped, one of production has all of them."""
    monkeypatch.delenv("STRANDLINE_SCHEDULES", raising=False)
    if setting:
        monkeypatch.setenv("STRANDLINE_SCHEDULES", setting)

    assert by_itself(usually=usually) is status
