"""The rules of a running ``strandline alerts``: read again when their folder changes, tried, and handed over."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from pyspark.sql import SparkSession

from jobs.cli.stream_log import Log
from jobs.core.errors import DefinitionError
from jobs.core.feed import Feed
from jobs.engine.runtime.outage import first_line
from jobs.rules.alert_rule import AlertRule
from jobs.rules.examples import broken
from jobs.rules.handover import Offsets, Rule
from jobs.rules.live import feeds, handover
from jobs.rules.remembered import LARGEST
from jobs.rules.rule_folder import RuleFolder, RuleSet
from jobs.rules.sigma.folder import RefusedRule
from jobs.rules.threshold_examples import broken_thresholds
from jobs.rules.threshold_rule import ThresholdRule


class LiveRules:
    """The rules that run, and what becomes of a change of their folder."""

    def __init__(self, where: Callable[[], Path], spark: SparkSession, log: Log) -> None:
        """Nothing is read yet.

        Args:
            where: Returns the folder, which is another one after a promotion.
            spark: What runs examples.
            log: Where it is logged what becomes of a change.
        """
        self._where, self._spark, self._log = where, spark, log
        self._folder = RuleFolder(where(), self._unsound)
        self._refused: tuple[RefusedRule, ...] = ()

    def feeds(self) -> list[Feed]:
        """Return the feeds to begin with.

        Raises:
            DefinitionError: No rule is sound.
        """
        found = self._folder.look() or RuleSet()
        self._say_refused(found)
        if not found.rules:
            raise DefinitionError(
                "no rule can run",
                hint="`strandline rules test` and `lint` name each with its reason.",
            )
        return feeds(found.rules)

    def renewed(self) -> tuple[list[Feed], Mapping[str, object]] | None:
        """Return other feeds if the folder has changed in what is raised, and what to record about that."""
        before = self._folder.current
        self._folder.folder = self._where()
        found = self._folder.look()
        if found is None:
            return None
        self._say_refused(found)
        changes = found.changes(before)
        if not changes:
            return None
        self._log.info("rules changed", **changes)
        return feeds(found.rules), {"by": list(self._folder.by), **changes}

    @staticmethod
    def handover(old: Feed, new: Feed | None, since: Offsets, done: Offsets) -> Feed:
        """Let a feed take over from another."""
        return handover(old, new, since, done)

    def _unsound(self, rules: Sequence[Rule]) -> Iterator[tuple[Rule, str]]:
        """Yield the rules that must not run, each with the reason."""
        yield from self._contradictions([each for each in rules if isinstance(each, AlertRule)])
        for rule in rules:
            if isinstance(rule, ThresholdRule):
                yield from _unsound_threshold(rule)

    def _contradictions(self, rules: Sequence[AlertRule]) -> Iterator[tuple[AlertRule, str]]:
        """Yield the rules that contradict their examples; where Spark refuses their plan, rule by rule."""
        try:
            found = broken(rules, self._spark)
        except Exception as error:  # noqa: BLE001  # the rules that run must go on, whatever Spark makes of a new one
            if len(rules) == 1:
                yield rules[0], f"Spark refuses its plan: {first_line(error)}"
                return
            for rule in rules:
                yield from self._contradictions([rule])
            return
        for each in found:
            yield each.rule, each.reason

    def _say_refused(self, found: RuleSet) -> None:
        """Log the rules that do not run, each once."""
        for each in found.refused:
            if each not in self._refused:
                self._log.warning("rule refused", rule=each.origin, reason=each.reason)
        self._refused = found.refused


def _unsound_threshold(rule: ThresholdRule) -> Iterator[tuple[ThresholdRule, str]]:
    if rule.number > LARGEST:
        yield rule, f"it counts to more than {LARGEST:,}, which only a backtest does"
        return
    try:
        yield from broken_thresholds([rule])
    except DefinitionError as error:
        yield rule, error.message
