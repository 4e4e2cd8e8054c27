"""Starting Spark for the verbs that need it; the others must not even import it whole."""

from collections.abc import Callable

from jobs.cli.place import now
from jobs.run import session
from jobs.run.lake import Lake
from jobs.run.runner import Site
from jobs.run.settings import Settings


def site(
    found: Settings,
    lake: Lake,
    where: str | None,
    *,
    is_brief: bool = False,
    locate: Callable[[], str | None] = lambda: None,
) -> Site:
    """Start Spark and return it with the clock and the address of Kafka."""
    spark = session.start(found, lake.log("spark"), is_brief=is_brief)
    return Site(spark=spark, clock=now, address=where, locate=locate, options=found.kafka_options)
