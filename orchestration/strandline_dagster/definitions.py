"""All definitions for Dagster; those about alerts only in a project that declares what its rules look at.

The executor runs in the process of the run, because an executor with more processes would start a JVM for every
asset. ``dagster dev -m strandline_dagster.definitions`` serves it. In a code location with definitions of its own they come by
``strandline_dagster.definitions(…)`` (orchestration/strandline_dagster/placed.py); this module, which has the same name, is called too.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

from dagster import (
    AssetChecksDefinition,
    AssetKey,
    AssetsDefinition,
    AssetSpec,
    Definitions,
    JobDefinition,
    SensorDefinition,
    in_process_executor,
)
from strandline import catalog

from strandline.project import refuse_without
from strandline_dagster import placed, vitals
from strandline_dagster.assets import assets, look_at_the_stream, model_assets, static_assets
from strandline_dagster.purge import PURGE, PURGE_OFTEN
from strandline_dagster.reading import TableIOManager
from strandline_dagster.resources import RESOURCES, alert_again, alert_of_failures, tables
from strandline_dagster.schedules import (
    CATCH_UP,
    CERTIFY_NIGHTLY,
    RE_READ,
    REPORT,
    certify,
    every_morning,
    every_quarter_of_an_hour,
    expire_nightly,
    expiry,
    maintain_often,
    maintenance,
    re_read_nightly,
)
from strandline_dagster.vitals import (
    look_at_tables,
    look_at_topics,
    retention,
    retention_checks,
    topics,
    watch_retention,
)
from strandline_dagster.watchdog import JOBS, watchdog


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
    from strandline_dagster.resources import topic_key  # noqa: PLC0415  # as above
    from strandline_dagster.rule_assets import rule_book  # noqa: PLC0415  # as above

    if alerts.TABLE not in tables():
        return Alerting()
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


ALERTING = alerting()
IS_GUEST = placed.placement().is_guest
"""Then the executor of a host stays its own, and what works on the whole of Dagster is left out: the purge of its history."""

DEFINITIONS = Definitions(
    assets=[
        vitals.spec(),
        *topics(ALERTING.sources),
        *static_assets(),
        *assets(),
        *model_assets(),
        *ALERTING.assets,
    ],
    asset_checks=[
        vitals.check(),
        *vitals.checks(),
        *retention_checks(),
        *vitals.publication_checks(),
        *ALERTING.checks,
    ],
    jobs=[
        CATCH_UP,
        RE_READ,
        certify,
        REPORT,
        maintenance,
        expiry,
        *([] if IS_GUEST else [PURGE]),
        *JOBS,
        retention,
        *ALERTING.jobs,
    ],
    schedules=[
        every_quarter_of_an_hour,
        re_read_nightly,
        CERTIFY_NIGHTLY,
        every_morning,
        maintain_often,
        expire_nightly,
        *([] if IS_GUEST else [PURGE_OFTEN]),
    ],
    sensors=[
        vitals.look_whether_it_is_well,
        look_at_topics,
        look_at_the_stream,
        look_at_tables,
        watchdog,
        watch_retention,
        alert_of_failures,
        alert_again,
        *ALERTING.sensors,
    ],
    resources={**RESOURCES, **({placed.TABLES: TableIOManager()} if IS_GUEST else {})},
    executor=None if IS_GUEST else in_process_executor,
)


class _Called(ModuleType):
    """This module, which hides the function of its name in the package once it is imported."""

    def __call__(self, **words: Any) -> Definitions:  # noqa: ANN401  # handed on as they are
        """Do what the function does."""
        return placed.definitions(**words)


sys.modules[__name__].__class__ = _Called
