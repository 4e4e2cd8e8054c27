"""What the step of the rules does: read them again, run their examples, and backtest them on all that is closed."""

from collections.abc import Iterator, Mapping

from dagster import AssetCheckResult, AssetKey, MaterializeResult

from strandline.alerting.rules.sigma import Folder
from strandline.core.errors import LakeError
from strandline.operate.alerts.backtest import on_history
from strandline.operate.alerts.examples import contradictions
from strandline.operate.listener import tenths
from strandline_dagster import rule_book as rule_checks
from strandline_dagster.alarms import again_or_failed
from strandline_dagster.links import backtest_linked
from strandline_dagster.resources import LakeResource, SparkResource, note
from strandline_dagster.rule_book import Rule, chosen, facts_of, rule_book, why_not


def tried(
    wanted: Mapping[str, AssetKey], lake: LakeResource, spark: SparkResource, *, times: int
) -> Iterator[MaterializeResult[object] | AssetCheckResult]:
    """Read rules again, run their examples and all closed history, and yield what came of each.

    Raises:
        Failure: Nothing of their tables is closed, or the folder cannot be read.
        RetryRequested: History cannot be read at the moment, and retries are left.
    """
    book = rule_book()
    folder = chosen(book, wanted)
    for origin, name in wanted.items():
        if origin not in book.rules:
            yield rule_checks.runs(name, why_not(origin, book))
    rules = folder.every
    if not rules:
        return
    wrong = _wrong(folder, spark)
    try:
        found = on_history(spark.spark_session, lake.lake(), folder, note, tenths(note))
    except LakeError as error:
        for rule in rules:
            yield from _sound(rule, wanted[rule.origin], wrong)
            yield rule_checks.untried(wanted[rule.origin], error.message)
        raise again_or_failed(error, times) from error
    link = backtest_linked(lake)
    figures = {its.rule: its for its in found.rules}
    skipped = dict(found.skipped)
    for rule in rules:
        name, its = wanted[rule.origin], figures.get(rule.id)
        shown = rule_checks.figures(rule, its, found) if its else {}
        yield MaterializeResult(asset_key=name, metadata={**shown, **facts_of(rule), **link})
        yield from _sound(rule, name, wrong)
        if its is None:
            yield rule_checks.untried(name, skipped.get(rule.title, "its tables have no event"))
        else:
            yield from rule_checks.of_backtest(name, rule, its, found, link)


def _sound(rule: Rule, name: AssetKey, wrong: Mapping[str, str]) -> Iterator[AssetCheckResult]:
    yield rule_checks.runs(name, "")
    number = len(rule.fires_on) + len(rule.quiet_on)
    yield rule_checks.examples(name, wrong.get(rule.id, ""), number)


def _wrong(folder: Folder, spark: SparkResource) -> dict[str, str]:
    """Return the first example that contradicts each rule, as a reason."""
    found: dict[str, str] = {}
    for each in contradictions(folder, spark.spark_session):
        found.setdefault(each.rule, each.reason)
    return found
