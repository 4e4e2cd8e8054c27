"""Results of checks, kept until the second in which their table was written is over.

SQLite stores the time of a result in whole seconds, and Dagster's page (1.13.27) ignores a result that seems older
than the table: it showed "not evaluated" for ten checks that had passed. Waiting for the next second after each table
took a twentieth of a scheduled run, so the results of one step are reported by a later one.
"""

import math
import time

from dagster import AssetCheckEvaluation, ConfigurableResource, DagsterInstance, InitResourceContext
from pydantic import PrivateAttr


def let_the_second_pass(moment: float) -> None:
    """Wait until the second of a moment is over."""
    time.sleep(max(0.0, math.floor(moment) + 1 - time.time()))


class Answers(ConfigurableResource):  # type: ignore[type-arg]  # the resource is its own value
    """Results of the steps of one run that are not reported yet."""

    _kept: list[AssetCheckEvaluation] = PrivateAttr(default_factory=list)
    _since: float = PrivateAttr(default=0.0)

    def keep(self, answer: AssetCheckEvaluation) -> None:
        """Keep a result about a table that was written just now."""
        self._kept.append(answer)
        self._since = time.time()

    def hand_in(self, instance: DagsterInstance) -> None:
        """Report the kept results, when their second has passed."""
        if self._kept:
            let_the_second_pass(self._since)
        while self._kept:
            instance.report_runless_asset_event(self._kept.pop(0))

    def teardown_after_execution(self, context: InitResourceContext) -> None:
        """Report the results of the last step, however the run ends."""
        if context.instance:
            self.hand_in(context.instance)
