"""Record runs of tables for a catalog of lineage, where one is configured: that they began, go on, and how they ended.

A run is one of ``strandline run``, a stream from its start to its stop, a backfill, a replay, a rebuild. What cannot be recorded
is reported once and changes nothing: a run ends as it would have without.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, TypeAlias

from pyspark.sql import SparkSession

from strandline.core.table import Table
from strandline.engine.flow.function_plan import lineage
from strandline.engine.flow.running import Parent, Report
from strandline.engine.flow.shadow_lake import Shadow
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger import Entry

if TYPE_CHECKING:  # the client of OpenLineage is imported only where events are sent
    from openlineage.client.event_v2 import RunState

    from strandline.engine.flow.lineage_events import Sender, TableRun

NEWS = 60.0
"""Seconds between two events about a run that goes on."""

REBUILD = "rebuild"
"""The mode of a run that computes a table beside the live one."""

Wrote: TypeAlias = Callable[[Table, Entry], None]
"""Called with each commit of a run."""

Recorder: TypeAlias = Callable[[SparkSession, Table, str, Lake], AbstractContextManager[Wrote]]
"""Records a run of a table in a mode for the length of a block."""


@contextmanager
def unrecorded(spark: SparkSession, table: Table, mode: str, lake: Lake) -> Iterator[Wrote]:  # noqa: ARG001  # as a recorder
    """Record nothing."""
    yield lambda *_: None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecorder:
    """Sends events about the runs of a lake's tables.

    Args:
        lake: The lake; runs in other lakes, such as those of a verification, are recorded by none.
        sender: Sends them.
        clock: Returns the time.
        kafka: Returns the address of Kafka.
        namespace: That of the jobs.
        parent: The run of another program that all of them are a part of.
    """

    lake: Lake
    sender: "Sender"
    clock: Callable[[], datetime]
    kafka: Callable[[], str | None]
    namespace: str
    parent: Parent | None = None

    @contextmanager
    def record(self, spark: SparkSession, table: Table, mode: str, lake: Lake) -> Iterator[Wrote]:
        """Send that a run began, now and then how far it is, and how it ended."""
        from openlineage.client.event_v2 import RunState  # noqa: PLC0415  # only where events are sent

        live = lake.live if isinstance(lake, Shadow) else lake
        mode = REBUILD if isinstance(lake, Shadow) else mode
        run = self._begun(spark, table, mode, lake) if live.root == self.lake.root else None
        due = time.monotonic() + NEWS

        def wrote(of: Table, entry: Entry) -> None:
            nonlocal due
            if run is None:
                return
            report = run.reports.setdefault(of, Report(table=of.id, mode=mode))
            report.add(entry)
            if time.monotonic() >= due:
                due = time.monotonic() + NEWS
                self._send(run, RunState.RUNNING)

        self._send(run, RunState.START)
        try:
            yield wrote
        except BaseException as error:
            self._send(run, RunState.FAIL, error)
            raise
        self._send(run, RunState.COMPLETE)

    def _begun(self, spark: SparkSession, table: Table, mode: str, lake: Lake) -> "TableRun | None":
        from openlineage.client.uuid import generate_new_uuid  # noqa: PLC0415  # see above

        from strandline.engine.flow.lineage_events import TableRun  # noqa: PLC0415  # see above

        try:
            return TableRun(
                id=str(generate_new_uuid(self.clock())),
                table=table,
                mode=mode,
                lake=lake,
                namespace=self.namespace,
                kafka=self.kafka(),
                spark=spark.version,
                columns=lineage(spark, table, lake),
                parent=self.parent,
                reports={table: Report(table=table.id, mode=mode)},
            )
        except Exception as error:  # noqa: BLE001  # no run depends on its record
            self.sender.failed(f"{table.id}: {type(error).__name__}: {error}")
            return None

    def _send(
        self, run: "TableRun | None", state: "RunState", error: BaseException | None = None
    ) -> None:
        from strandline.engine.flow.lineage_events import event  # noqa: PLC0415  # see above

        if run is None:
            return
        try:
            self.sender.send(event(run, state, self.clock(), error))
        except Exception as unsent:  # noqa: BLE001  # as above
            self.sender.failed(f"{run.table.id}: {type(unsent).__name__}: {unsent}")
