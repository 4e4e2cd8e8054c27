"""What raises alerts is made ready: the feeds of its rules, and a Spark that has a thread for each partition."""

from collections.abc import Sequence
from pathlib import Path

from strandline import catalog

from strandline.alerting.declared import sources
from strandline.alerting.rules.alert_rule import AlertRule
from strandline.alerting.rules.live import feeds
from strandline.alerting.rules.model_rule import model_source
from strandline.alerting.tables import bronze
from strandline.core.errors import DefinitionError
from strandline.core.feed import Feed
from strandline.core.modes import FeedMode
from strandline.engine.accounting.left_topics import topics_read
from strandline.engine.kafka import admin, local_broker
from strandline.engine.pipeline.feed_query import slots
from strandline.engine.pipeline.runner import Site
from strandline.engine.runtime.settings import Settings
from strandline.engine.storage.lake import Lake
from strandline.operate import lakes, session
from strandline.operate.alerts.examples import refuse_other_columns
from strandline.operate.alerts.rules import read_rules, refused_words
from strandline.operate.listener import Says


def feeds_of(folder: Path, says: Says, also: Sequence[AlertRule] = ()) -> list[Feed]:
    """Return the feeds of the rules of a folder, before any of them has been tried.

    Raises:
        DefinitionError: There is no such folder, or no rule of it runs.
    """
    found = read_rules(folder)
    if words := refused_words(found):
        says(words)
    rules = [*found.every, *also]
    if not rules:
        raise DefinitionError(
            f"no rule of {folder} runs", hint="`strandline rules lint` names each with its reason."
        )
    return feeds(rules)


def ready_to_raise(found: Settings, where: Lake, mode: FeedMode, says: Says) -> Site:
    """Start a Spark that has a thread for each partition that rules may look at, also those that are added later.

    Raises:
        DefinitionError: A source declares a column that its table does not have.
    """
    address = lakes.demanded_address(found, where)
    scored = [source for each in catalog.models() if (source := model_source(each))]
    read = [source for each in (*sources(), *scored) for source in each.table.upstream]
    if found.kafka is None:
        admin.make_missing(address, [*read, bronze.TABLE], topics_read(where))
    partitions = admin.topics(address, found.kafka_options)
    needed = sum(partitions.get(topic.name, 0) for source in read for topic in source.topics)
    cores = max(found.cores, slots(mode, needed))

    def locate() -> str | None:
        return lakes.address(found, where) or local_broker.remembered(where)

    sized = found.model_copy(update={"cores": cores})
    site = session.site(sized, where.open_for_writing(), found.kafka, locate=locate, says=says)
    refuse_other_columns(sources(), site.spark)
    return site
