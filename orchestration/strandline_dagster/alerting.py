"""What Dagster knows of alerts; nothing in a project that does not declare what its rules look at."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from dagster import (
    AssetChecksDefinition,
    AssetKey,
    AssetsDefinition,
    AssetSpec,
    JobDefinition,
    SensorDefinition,
)
from strandline import catalog

from strandline.engine.runtime.missing import refuse_without


@dataclass(frozen=True, slots=True, kw_only=True)
class Alerting:
    """Definitions about rules and about the process that raises alerts.

    Args:
        assets: The rules, and the feeds of the process.
        checks: About both, and the topic of alerts.
        jobs: Operate the process.
        sensors: Look at both.
        sources: The assets from which records come to a topic, by its name.
    """

    assets: Sequence[AssetsDefinition | AssetSpec] = ()
    checks: Sequence[AssetChecksDefinition] = ()
    jobs: Sequence[JobDefinition] = ()
    sensors: Sequence[SensorDefinition] = ()
    sources: dict[str, list[AssetKey]] = field(default_factory=dict)


def alerting() -> Alerting:
    """Read the rules and make the definitions.

    Raises:
        DefinitionError: The project has alerts, and what reads their rules is not installed.
    """
    if not catalog.declares("alerts"):
        return Alerting()
    refuse_without("alerts")
    # Not imported above: a project without alerts pays nothing for them.
    from strandline.alerting.tables import bronze as alerts  # noqa: PLC0415  # as above
    from strandline_dagster import live_feeds, rule_assets  # noqa: PLC0415  # as above
    from strandline_dagster.checks import topic_key  # noqa: PLC0415  # as above
    from strandline_dagster.rule_assets import rule_book  # noqa: PLC0415  # as above

    (topic,) = alerts.TABLE.topics
    book = rule_book()
    keys = rule_assets.named(book)
    rules = {name: book.rules[each] for each, name in keys.items() if each in book.rules}
    feeds = live_feeds.live_feeds(rules)
    return Alerting(
        assets=[*rule_assets.rule_assets(book, keys), *live_feeds.feed_specs(feeds)],
        checks=[
            rule_assets.folder_check(topic_key(topic), keys),
            *live_feeds.feed_checks(feeds),
        ],
        jobs=live_feeds.JOBS,
        sensors=[
            rule_assets.look_at_rules(topic_key(topic), keys),
            live_feeds.watch_alerts(feeds),
        ],
        sources={topic.name: [feed.key for feed in feeds]},
    )
