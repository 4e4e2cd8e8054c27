"""Alert rules as assets, one a rule; a step backtests all that are chosen, in one Spark job for each table.

Why one asset a rule, and not one for all rules of a table: a rule has an owner, a version, and a history of its own.
Reading 1,000 rules takes a second of CPU and their definitions another [measured], of the five that a load may take, and
each run of Dagster loads them. So a folder with more than ``MOST`` shows the most severe of them, and says so.

A rule that cannot be read is an asset as well, whose check ``runs`` fails with the reason; no file of a folder keeps the
definitions from being loaded.
"""

import re
from collections.abc import Iterator, Mapping

from dagster import (
    AssetCheckResult,
    AssetExecutionContext,
    AssetKey,
    AssetsDefinition,
    AssetSpec,
    MaterializeResult,
    multi_asset,
)

from strandline.alerting.rules.alert_rule import Severity
from strandline_dagster import rule_book
from strandline_dagster.checks import key
from strandline_dagster.resources import LakeResource, SparkResource
from strandline_dagster.rule_book import (
    GROUP,
    Rule,
    RuleBook,
    facts_of,
    rule_keys,
)

MOST = 1_000

KIND = "alert_rule"
"""Not ``sigma``, for which Dagster draws the sign of a product of that name."""

TEAM = re.compile(r"[\w-]+", re.ASCII)
TAG = re.compile(r"[\w.-]{1,63}", re.ASCII)
"""What Dagster accepts as a team, and as a tag."""

TECHNIQUE = re.compile(r"attack\.(t\d{4}(?:\.\d{3})?)", re.IGNORECASE)


def named(book: RuleBook) -> dict[str, AssetKey]:
    """Return the name of each asset by its origin: the rules that do not run, then the others by their severity."""
    by_severity = sorted(book.rules.values(), key=lambda rule: -list(Severity).index(rule.severity))
    first = [*book.refused, *(rule.origin for rule in by_severity)][:MOST]
    return rule_keys(sorted(first))


def rule_assets(book: RuleBook, keys: Mapping[str, AssetKey]) -> list[AssetsDefinition]:
    """Make the assets of all rules; none where there is no rule."""
    if not keys:
        return []
    origins = {name: origin for origin, name in keys.items()}

    @multi_asset(
        name="backtest_rules",
        specs=[_spec(origin, name, book) for origin, name in keys.items()],
        check_specs=[spec for name in origins for spec in rule_book.specs(name)],
        can_subset=True,
    )
    def backtest_rules(
        context: AssetExecutionContext, lake: LakeResource, spark: SparkResource
    ) -> Iterator[MaterializeResult[object] | AssetCheckResult]:
        # Not imported above: it imports pandas, which takes longer than all other definitions.
        from strandline_dagster.rule_trial import tried  # noqa: PLC0415  # as above

        wanted = {origins[name]: name for name in sorted(context.selected_asset_keys)}
        yield from tried(wanted, lake, spark, times=context.retry_number)

    return [backtest_rules]


def _spec(origin: str, name: AssetKey, book: RuleBook) -> AssetSpec:
    rule = book.rules.get(origin)
    if rule is None:
        reason = f"{origin} does not run: {book.refused[origin]}"
        return AssetSpec(name, group_name=GROUP, kinds={KIND}, description=reason)
    return AssetSpec(
        name,
        deps=[key(source.table) for source in rule.sources],
        group_name=GROUP,
        kinds={KIND, str(rule.severity)},
        owners=[f"team:{rule.owner}"] if TEAM.fullmatch(rule.owner) else [],
        description=_about(rule),
        tags={tag: "" for tag in rule.tags if TAG.fullmatch(tag)}
        | {"severity": str(rule.severity)},
        metadata=facts_of(rule, is_brief=True),
        code_version=rule.version,
    )


def _about(rule: Rule) -> str:
    techniques = [found[1].upper() for tag in rule.tags if (found := TECHNIQUE.fullmatch(tag))]
    attack = f"\n\nATT&CK: {', '.join(techniques)}" if techniques else ""
    return f"**{rule.title}**\n\n{rule.about}{attack}"
