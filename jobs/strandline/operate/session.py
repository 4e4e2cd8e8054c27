"""Spark for the use cases that need it; the others must not even import all of it."""

from collections.abc import Callable

from strandline.engine.flow.lineage.run_recorder import Recorder, RunRecorder, unrecorded
from strandline.engine.flow.runner import Site
from strandline.engine.flow.running import Parent
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.plain_files import is_scratch
from strandline.engine.runtime import clock, spark_session
from strandline.engine.runtime.missing import refuse_without
from strandline.engine.runtime.settings import Settings, lineage_namespace
from strandline.operate.listener import Says


def site(  # noqa: PLR0913  # what a run needs from outside
    found: Settings,
    lake: Lake,
    where: str | None,
    *,
    says: Says,
    is_brief: bool = False,
    locate: Callable[[], str | None] = lambda: None,
    parent: Parent | None = None,
) -> Site:
    """Start Spark and return it with the clock, the address of Kafka, and what records runs."""
    record = recorder(lake, says, lambda: where or locate(), parent)
    spark = spark_session.start(found, lake.program_log("spark"), is_brief=is_brief)
    return Site(
        spark=spark,
        clock=clock.now,
        address=where,
        locate=locate,
        options=found.kafka_options,
        says=says,
        record=record,
    )


def recorder(
    lake: Lake,
    says: Says,
    kafka: Callable[[], str | None] = lambda: None,
    parent: Parent | None = None,
) -> Recorder:
    """Return what records runs of a lake's tables, by the configuration of OpenLineage; one that does nothing without.

    Raises:
        DefinitionError: A receiver is configured, and the client is not installed: its catalog would miss every run.
    """
    namespace = lineage_namespace()
    if namespace is None or is_scratch(lake.root):
        return unrecorded
    # Not imported above: most programs send no events, and the client takes a third of a second.
    refuse_without("lineage")
    from strandline.engine.runtime.lineage_sender import sender  # noqa: PLC0415  # as above

    sends = sender(says)
    if sends is None:
        return unrecorded
    return RunRecorder(
        lake=lake, sender=sends, clock=clock.now, kafka=kafka, namespace=namespace, parent=parent
    ).record
