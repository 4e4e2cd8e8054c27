"""Spark's own planning of a stream's batch, without starting the stream.

Spark compares a query with the state that it continues when it plans the first batch after a start: number and kinds of
the operators, the types of keys and values, the state variables of a processor. The same planning over a copy of what a
checkpoint has about its state gives Spark's own answer, and reads and writes nothing of the checkpoint itself.
"""

from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from strandline.engine.runtime.jvm import classic, jvm
from strandline.engine.storage.checkpoint_copy import copy_metadata
from strandline.engine.storage.place import Place
from strandline.engine.storage.relocate_checkpoint import settle
from strandline.engine.storage.scratch import scratch
from strandline.engine.storage.spark_checkpoint import next_batch, run_conditions

UNKNOWN = "<unknown>"
"""Spark's own word for the checkpoint of a plan that is only explained."""

NEW = '{"batchWatermarkMs":0,"batchTimestampMs":0,"conf":{}}'


def planned(rows: DataFrame, output_mode: str) -> Any:  # noqa: ANN401  # py4j's objects have no types
    """Return the plan of a streaming query's batch."""
    return _execution(rows, output_mode, UNKNOWN, batch=0, conditions=NEW, is_restart=False)


def refusal(rows: DataFrame, output_mode: str, checkpoint: Place) -> str | None:
    """Return Spark's error for a restart of a query on a checkpoint; None when it has none."""
    conditions = run_conditions(checkpoint)
    if conditions is None:
        return None
    with scratch() as copy:
        copy_metadata(checkpoint, copy)
        settle(copy)
        execution = _execution(
            rows,
            output_mode,
            str(copy / "state"),
            batch=next_batch(checkpoint),
            conditions=conditions,
            is_restart=True,
        )
        try:
            execution.executedPlan()
        except PySparkException as error:
            return str(error).partition("If you want to force")[0].strip()
    return None


def _execution(  # noqa: PLR0913  # what Spark's constructor wants to know
    rows: DataFrame,
    output_mode: str,
    state: str,
    *,
    batch: int,
    conditions: str,
    is_restart: bool,
) -> Any:  # noqa: ANN401  # as above
    machine, session = jvm(rows.sparkSession), classic(rows.sparkSession).newSession()
    streaming = machine.org.apache.spark.sql.execution.streaming
    pinned = streaming.checkpointing.OffsetSeqMetadata.apply(conditions)
    if is_restart:
        conf = session.sessionState().conf()
        streaming.checkpointing.OffsetSeqMetadata.setSessionConf(pinned, conf)
    companion = getattr(getattr(streaming.runtime, "IncrementalExecution$"), "MODULE$")
    defaults = [getattr(companion, f"$lessinit$greater$default${n}")() for n in range(12, 16)]
    mode = getattr(machine.org.apache.spark.sql.streaming.OutputMode, output_mode)()
    uuid = machine.java.util.UUID
    return streaming.runtime.IncrementalExecution(
        session,
        rows._jdf.queryExecution().analyzed(),  # noqa: SLF001  # there is no public way
        mode,
        state,
        uuid.randomUUID(),
        uuid.randomUUID(),
        batch,
        machine.scala.Option.apply(pinned),
        pinned,
        streaming.runtime.WatermarkPropagator.noop(),
        is_restart,
        *defaults,
    )
