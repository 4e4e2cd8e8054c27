"""Events of OpenLineage about runs of tables, with columns, where they come from, and figures; and their way to a receiver.

Datasets are named as OpenLineage's specification has it: a topic by ``kafka://host:port``, a table by its folder or by its bucket
and key. So another tool that reads or writes the same topic or folder is joined to it.

No event has a value of a row. The message of an error is the one that the command line prints.
"""

import atexit
import queue
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from importlib.metadata import version

import attr
from openlineage.client import OpenLineageClient
from openlineage.client.event_v2 import (
    InputDataset,
    Job,
    OutputDataset,
    Run,
    RunEvent,
    RunState,
    set_producer,
)
from openlineage.client.facet_v2 import (
    DatasetFacet,
    JobFacet,
    RunFacet,
    column_lineage_dataset,
    dataset_version_dataset,
    error_message_run,
    job_type_job,
    output_statistics_output_dataset,
    parent_run,
    processing_engine_run,
    schema_dataset,
    storage_dataset,
)
from openlineage.client.naming import dataset
from openlineage.client.naming.dataset import GCS, S3, DatasetNaming, Kafka, LocalFileSystem
from openlineage.client.uuid import generate_new_uuid
from pyspark.sql import SparkSession

from strandline.core.errors import DefinitionError, LakeError
from strandline.core.table import Ingested, Judged, Table
from strandline.engine.flow.function_plan import Columns, lineage
from strandline.engine.flow.running import Parent, Report, Wrote
from strandline.engine.flow.shadow_lake import Shadow
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger import Entry, latest_version
from strandline.engine.lake.open_table import kinds
from strandline.engine.lake.place import Place
from strandline.engine.runtime.code_files import code_version
from strandline.engine.runtime.outage import first_line
from strandline.engine.runtime.settings import ABFSS, GS

OWN = "urn:strandline"
ENDLESS = "micro-batch"
"""The mode of a stream that goes on until it is stopped."""

set_producer(f"{OWN}:{version('strandline')}")


@attr.define
class LedgerRunFacet(RunFacet):
    """What the ledger says of a run."""

    mode: str
    code: str
    batches: int = 0
    read: int = 0
    good: int = 0
    duplicates: int = 0
    quarantined: int = 0
    skipped: int = 0
    droppedByWatermark: int = 0  # noqa: N815  # as all names of OpenLineage
    lostByFunction: int = 0  # noqa: N815  # as above
    madeByFunction: int = 0  # noqa: N815  # as above
    written: int = 0
    seconds: float = 0.0

    @staticmethod
    def _get_schema() -> str:
        return f"{OWN}:ledger-run-facet:1"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRun:
    """A run of a table, until it ends.

    Args:
        id: Its own.
        table: The table.
        mode: The mode, or the kind of repair.
        lake: Where it runs.
        namespace: That of its job.
        kafka: The address of Kafka, for bronze.
        spark: The version of Spark.
        columns: The columns from which each column is computed.
        parent: The run that it is a part of.
        reports: For each table that it has written the sum of its commits, itself first.
    """

    id: str
    table: Table
    mode: str
    lake: Lake
    namespace: str
    kafka: str | None
    spark: str
    columns: Columns
    parent: Parent | None
    reports: dict[Table, Report] = field(default_factory=dict)


def event(
    run: TableRun, state: RunState, at: datetime, error: BaseException | None = None
) -> RunEvent:
    """Return the event about a state of a run."""
    return RunEvent(
        eventType=state,
        eventTime=at.isoformat(),
        run=Run(runId=run.id, facets=_of_run(run, error)),
        job=Job(namespace=run.namespace, name=f"{run.table.id}.{run.mode}", facets=_of_job(run)),
        inputs=[*_inputs(run)],
        outputs=[*_outputs(run, is_over=state is not RunState.START)],
    )


def dataset_of(place: Place) -> DatasetNaming:
    """Return the name of a table by where it is."""
    if place.is_local:
        return LocalFileSystem(place.path)
    bucket, _, key = place.path.partition("/")
    if place.scheme == GS:
        return GCS(bucket, key)
    if place.scheme == ABFSS:
        container, _, account = bucket.partition("@")
        return dataset.ABFSS(container, account.partition(".")[0], key)
    return S3(bucket, key)


def _of_run(run: TableRun, error: BaseException | None) -> dict[str, RunFacet]:
    own = run.reports[run.table]
    facets: dict[str, RunFacet] = {
        "processing_engine": processing_engine_run.ProcessingEngineRunFacet(
            version=run.spark, name="spark", openlineageAdapterVersion=version("strandline")
        ),
        "strandline_ledger": LedgerRunFacet(
            mode=run.mode,
            code=code_version(run.table),
            batches=own.batches,
            read=own.read,
            good=own.good,
            duplicates=own.duplicates,
            quarantined=own.held_records,
            skipped=own.skipped.total(),
            droppedByWatermark=own.dropped_by_watermark,
            lostByFunction=own.lost_by_function,
            madeByFunction=own.made_by_function,
            written=own.written,
            seconds=own.seconds,
        ),
    }
    if run.parent is not None:
        facets["parent"] = parent_run.ParentRunFacet(
            run=parent_run.Run(runId=run.parent.run),
            job=parent_run.Job(namespace=run.parent.namespace, name=run.parent.job),
        )
    if error is not None:
        says = error.message if isinstance(error, LakeError) else first_line(error)
        facets["errorMessage"] = error_message_run.ErrorMessageRunFacet(
            message=says or type(error).__name__, programmingLanguage="PYTHON"
        )
    return facets


def _of_job(run: TableRun) -> dict[str, JobFacet]:
    kind = "STREAMING" if run.mode == ENDLESS else "BATCH"
    return {
        "jobType": job_type_job.JobTypeJobFacet(
            processingType=kind, integration="STRANDLINE", jobType=run.mode.upper()
        )
    }


def _inputs(run: TableRun) -> Iterator[InputDataset]:
    table = run.table
    if isinstance(table, Ingested):
        host, _, port = (run.kafka or "").partition(",")[0].rpartition(":")
        for topic in table.topics if host else ():
            named = Kafka(host, port, topic.name)
            yield InputDataset(namespace=named.get_namespace(), name=named.get_name())
    for source in (*table.needs, *table.static):
        named_by, place = dataset_of(run.lake.table(source)), run.lake.table(source)
        yield InputDataset(
            namespace=named_by.get_namespace(), name=named_by.get_name(), facets=_of_table(place)
        )


def _outputs(run: TableRun, *, is_over: bool) -> Iterator[OutputDataset]:
    for table, report in run.reports.items():
        own = run.columns if table is run.table else {}
        yield _output(run.lake.table(table), report.written, is_over, _lineage(run, table, own))
        if isinstance(table, Judged):
            held = report.quarantined.total()
            yield _output(run.lake.quarantine(table), held, is_over, {})


def _output(
    place: Place,
    rows: int,
    is_over: bool,  # noqa: FBT001  # a state of the run
    more: Mapping[str, DatasetFacet],
) -> OutputDataset:
    named, facets = dataset_of(place), {**_of_table(place), **more}
    latest = latest_version(place) if is_over else -1
    if latest >= 0:
        facets["version"] = dataset_version_dataset.DatasetVersionDatasetFacet(str(latest))
    counted = output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet(rowCount=rows)
    return OutputDataset(
        namespace=named.get_namespace(),
        name=named.get_name(),
        facets=facets,
        outputFacets={"outputStatistics": counted} if is_over else {},
    )


def _of_table(place: Place) -> dict[str, DatasetFacet]:
    """Return the columns of a table and how it is stored; without columns while it does not exist."""
    facets: dict[str, DatasetFacet] = {
        "storage": storage_dataset.StorageDatasetFacet(storageLayer="delta", fileFormat="parquet")
    }
    columns = [
        schema_dataset.SchemaDatasetFacetFields(name=name, type=kind)
        for name, kind in kinds(place).items()
    ]
    if columns:
        facets["schema"] = schema_dataset.SchemaDatasetFacet(fields=columns)
    return facets


def _lineage(run: TableRun, table: Table, columns: Columns) -> dict[str, DatasetFacet]:
    sources = {
        source.id: dataset_of(run.lake.table(source)) for source in (*table.needs, *table.static)
    }
    fields = {
        name: column_lineage_dataset.Fields(
            inputFields=[
                column_lineage_dataset.InputField(
                    namespace=sources[source].get_namespace(),
                    name=sources[source].get_name(),
                    field=column,
                )
                for source, column in made_of
            ]
        )
        for name, made_of in columns.items()
    }
    return (
        {"columnLineage": column_lineage_dataset.ColumnLineageDatasetFacet(fields)}
        if fields
        else {}
    )


# Send events to a receiver of OpenLineage, from a thread of their own.
#
# Where they go is OpenLineage's own configuration: ``OPENLINEAGE_URL``, ``openlineage.yml`` and what else its client reads. Where it
# names nothing there is no sender, and the client is not even imported.
#
# A receiver that is down or slow holds up nothing: an event is put into a queue of bounded length, and one that finds it full is
# dropped. At its end a program waits for the queue for seconds at most. Each reason for a failure is reported once.

LENGTH = 1_000
"""Events that wait: a run of a table has two, so a receiver may be away for some hundred runs."""

PATIENCE = 3.0
"""Seconds that a program waits at its end for what is not sent."""

USER = re.compile(r"//[^/@\s]+@")
"""The user of an address, who may have a password."""

NOT_SENT = "console"
"""What the client does with events where no receiver is configured."""


class Sender:
    """Sends events in the order in which they came."""

    def __init__(
        self, client: OpenLineageClient, on_failure: Callable[[str], None], length: int = LENGTH
    ) -> None:
        """Begin to send.

        Args:
            client: Knows the receiver.
            on_failure: Called with a reason why events are not sent.
            length: How many events may wait.
        """
        self._client, self._on_failure = client, on_failure
        self._waiting = queue.Queue[RunEvent](length)
        self._reason = ""
        threading.Thread(target=self._work, name="lineage", daemon=True).start()

    def send(self, event: RunEvent) -> None:
        """Send an event later, without waiting for anything."""
        try:
            self._waiting.put_nowait(event)
        except queue.Full:
            self.failed(f"more than {self._waiting.maxsize:,} events wait; newer ones are dropped")

    def failed(self, reason: str) -> None:
        """Report why an event is not sent, unless that was the last reason as well; without a password in an address."""
        reason = USER.sub("//", reason)
        if reason != self._reason:
            self._reason = reason
            self._on_failure(f"no lineage is sent: {reason}")

    def drain(self, patience: float = PATIENCE) -> None:
        """Wait until all events are sent, but no longer than some seconds."""
        until = time.monotonic() + patience
        while self._waiting.unfinished_tasks and time.monotonic() < until:
            time.sleep(0.01)

    def _work(self) -> None:
        while True:
            event = self._waiting.get()
            try:
                self._client.emit(event)
            except Exception as error:  # noqa: BLE001  # a receiver may refuse in any way, and no run depends on it
                self.failed(f"{type(error).__name__}: {str(error).partition(chr(10))[0]}")
            else:
                self._reason = ""
            finally:
                self._waiting.task_done()


def receiver() -> tuple[str, str | None]:
    """Return the kind of the receiver that the configuration names, and its address where it has one.

    Raises:
        DefinitionError: The client cannot read the configuration.
    """
    try:
        transport = OpenLineageClient().transport
    except Exception as error:
        # Each transport refuses in a way of its own; nothing of it is repeated, it may have a key.
        raise DefinitionError(
            f"OpenLineage's client does not take its configuration: {type(error).__name__}",
            hint="correct the variables OPENLINEAGE_… or openlineage.yml.",
        ) from error
    return str(transport.kind), getattr(transport, "url", None)


@cache
def sender(on_failure: Callable[[str], None]) -> Sender | None:
    """Return the sender of this process; None where the configuration names no receiver."""
    client = OpenLineageClient()
    if client.transport.kind == NOT_SENT:
        return None
    where = client.config.facets.source_code_location
    if where.repo_url is None:
        # Asked for git's facet, the client sends the address of the remote as git has it, often with a password in it.
        where.disabled = True
    made = Sender(client, on_failure)
    atexit.register(made.drain)
    return made


# Record runs of tables, where a receiver is configured: that they began, go on, and how they ended.
#
# A run is one of ``strandline run``, a stream from its start to its stop, a backfill, a replay, a rebuild. What cannot be recorded
# is reported once and changes nothing: a run ends as it would have without.

NEWS = 60.0
"""Seconds between two events about a run that goes on."""

REBUILD = "rebuild"
"""The mode of a run that computes a table beside the live one."""


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
    sender: Sender
    clock: Callable[[], datetime]
    kafka: Callable[[], str | None]
    namespace: str
    parent: Parent | None = None

    @contextmanager
    def record(self, spark: SparkSession, table: Table, mode: str, lake: Lake) -> Iterator[Wrote]:
        """Send that a run began, now and then how far it is, and how it ended."""
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

    def _begun(self, spark: SparkSession, table: Table, mode: str, lake: Lake) -> TableRun | None:
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
        self, run: TableRun | None, state: RunState, error: BaseException | None = None
    ) -> None:
        if run is None:
            return
        try:
            self.sender.send(event(run, state, self.clock(), error))
        except Exception as unsent:  # noqa: BLE001  # as above
            self.sender.failed(f"{run.table.id}: {type(unsent).__name__}: {unsent}")
