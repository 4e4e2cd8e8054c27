"""Start Spark for the verbs that need it; the others must not even import all of it."""

from collections.abc import Callable

from jobs.cli.place import now
from jobs.engine.pipeline.runner import Site
from jobs.engine.runtime import spark_session
from jobs.engine.runtime.settings import Settings
from jobs.engine.storage.lake import Lake


def site(
    found: Settings,
    lake: Lake,
    where: str | None,
    *,
    is_brief: bool = False,
    locate: Callable[[], str | None] = lambda: None,
) -> Site:
    """Start Spark and return it with the clock and the address of Kafka."""
    spark = spark_session.start(found, lake.program_log("spark"), is_brief=is_brief)
    return Site(spark=spark, clock=now, address=where, locate=locate, options=found.kafka_options)
