"""Answers to checks, kept until the second is over in which their table was made.

SQLite keeps the moment of an answer in whole seconds, and the page (1.13.27) takes an answer that seems older than
the table for one about another: it said "not evaluated" of ten checks that had passed. To stand still until the next
second after each table was a twentieth of a scheduled run, so the answers of one step are handed in by a later one.
"""

import math
import time

from dagster import AssetCheckEvaluation, ConfigurableResource, DagsterInstance, InitResourceContext
from pydantic import PrivateAttr


def let_the_second_pass(moment: float) -> None:
    """Wait until the second is over in which a moment lies."""
    time.sleep(max(0.0, math.floor(moment) + 1 - time.time()))


class Answers(ConfigurableResource):  # type: ignore[type-arg]  # the resource is its own value
    """What the steps of one run have answered and nobody has reported yet."""

    _kept: list[AssetCheckEvaluation] = PrivateAttr(default_factory=list)
    _since: float = PrivateAttr(default=0.0)

    def keep(self, answer: AssetCheckEvaluation) -> None:
        """Keep an answer about a table that was made just now."""
        self._kept.append(answer)
        self._since = time.time()

    def hand_in(self, instance: DagsterInstance) -> None:
        """Report what is kept, when its second has passed."""
        if self._kept:
            let_the_second_pass(self._since)
        while self._kept:
            instance.report_runless_asset_event(self._kept.pop(0))

    def teardown_after_execution(self, context: InitResourceContext) -> None:
        """Report what the last step has answered, however the run ends."""
        if context.instance:
            self.hand_in(context.instance)
