"""The pages of the runbook, one an alarm: a failure shows its own, so that no one has to search at 3 a.m."""

from enum import StrEnum

from strandline_infra import home


class Alarm(StrEnum):
    """Every alarm that a person can get; each is the name of its page."""

    DEAD = "dead"
    SILENT = "silent"
    STUCK = "stuck"
    FENCED = "fenced"
    FAILING = "failing"
    ALERTS_DEAD = "alerts_dead"
    ALERTS_SILENT = "alerts_silent"
    ALERTS_STUCK = "alerts_stuck"
    EXPIRING = "expiring"
    LOST = "lost"
    RUN_DATA = "run_data"
    RUN_DEFINITION = "run_definition"
    RUN_TRANSIENT = "run_transient"
    RUN_UNFORESEEN = "run_unforeseen"

    @property
    def path(self) -> str:
        """Return the path of its page, from the root of the project."""
        return f"infra/runbooks/{self}.md"


def page(alarm: Alarm) -> str:
    """Return the page of an alarm."""
    return home.page(alarm.path).read_text(encoding="utf-8")
