"""Traces and figures by OpenTelemetry's protocol: a run, its tables, their batches and commits; and the figures of the page, pushed.

Where they go is OpenTelemetry's own configuration (``OTEL_EXPORTER_OTLP_ENDPOINT`` and what else its SDK reads). Where it names
nothing, this module is not imported.

A run that ends is one trace: the run, each table, each batch, its commit. Under Dagster the trace has the id of Dagster's run, so
who has the one finds the other. A stream goes on for months, and no tool shows a trace of months: there each batch is a trace of
its own, whose ids follow from the table and the version that it committed. So nothing is written into the ledger, an older lake
has the same ids, and a batch is linked to the commits that it read.

A receiver that is down or slow holds up nothing: what a commit leaves is put into a queue of bounded length, and the version is
looked up by the thread that empties it.
"""

import atexit
import logging
import queue
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from importlib.metadata import version
from uuid import UUID

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.metrics import CallbackOptions, Observation
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.trace import Link, Span, SpanContext, Status, StatusCode, TraceFlags
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from pyspark.sql import SparkSession

from strandline.core.errors import DefinitionError, LakeError
from strandline.core.table import Table
from strandline.engine.flow.running import Parent, Report, Wrote
from strandline.engine.flow.shadow_lake import Shadow
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.commit_log import Kind, actions
from strandline.engine.lake.log.ledger import Entry, entry_at, latest_version
from strandline.engine.lake.place import Place
from strandline.engine.runtime.log_files import TRACES
from strandline.engine.runtime.outage import first_line
from strandline.engine.service.metrics import Metric
from strandline.engine.service.metrics_page import METRICS, LakeLook

ENDLESS = "micro-batch"
"""The mode of a stream that goes on until it is stopped."""

REBUILD = "rebuild"
"""The mode of a run that computes a table beside the live one."""

LENGTH = 1_000
"""Commits whose spans wait to be made."""

PATIENCE = 3.0
"""Seconds that a program waits at its end for what is not sent."""

BACK = 20
"""Versions among which a commit is looked for: others may have committed to the table since."""

MOST_LINKS = 16
"""Commits of sources that a batch is linked to; one that catches up reads thousands."""

MOST_OF_AN_ERROR = 2_000
"""Characters: Spark's own messages have whole plans."""

MS = 1_000_000
"""Nanoseconds of a millisecond, in which a commit has its time."""

Says = Callable[[str], None]


class _Ids(RandomIdGenerator):
    """Gives ids that were chosen, and elsewhere such as chance has."""

    def __init__(self) -> None:
        """Begin with chance."""
        self._chosen = threading.local()

    @contextmanager
    def chosen(self, trace_id: int, span_id: int) -> Iterator[None]:
        """Give these to what this thread makes within the block."""
        self._chosen.ids = trace_id, span_id
        try:
            yield
        finally:
            self._chosen.ids = None

    def generate_trace_id(self) -> int:
        """Return the id of a new trace."""
        ids: tuple[int, int] | None = getattr(self._chosen, "ids", None)
        return ids[0] if ids else super().generate_trace_id()

    def generate_span_id(self) -> int:
        """Return the id of a new span."""
        ids: tuple[int, int] | None = getattr(self._chosen, "ids", None)
        return ids[1] if ids else super().generate_span_id()


class _OnceSaid(logging.Handler):
    """Says why nothing is sent, each reason once: the SDK writes one line for each attempt."""

    def __init__(self, says: Says) -> None:
        """Begin with nothing said."""
        super().__init__(logging.WARNING)
        self._says, self._reason = says, ""

    def emit(self, record: logging.LogRecord) -> None:
        """Say it."""
        reason = record.getMessage().partition("\n")[0].partition(", retrying")[0]
        if reason != self._reason:
            self._reason = reason
            self._says(f"no telemetry is sent: {reason}")


def ids_of(root: Place, table: str, at: int) -> tuple[int, int]:
    """Return the ids of the trace and of the span of the batch of a stream that committed a version of a table."""
    digest = sha256(f"{root}\n{table}\n{at}".encode()).digest()
    return int.from_bytes(digest[:16]), int.from_bytes(digest[16:24])


def ids_of_run(run: str) -> tuple[int, int]:
    """Return those of a run of Dagster: its id has as many bits as that of a trace."""
    digest = sha256(run.encode()).digest()
    try:
        return UUID(run).int, int.from_bytes(digest[:8])
    except ValueError:
        return int.from_bytes(digest[:16]), int.from_bytes(digest[16:24])


def _quiet(says: Says) -> None:
    """Let the SDK's own lines go where those of a program go."""
    log = logging.getLogger("opentelemetry")
    log.handlers, log.propagate = [_OnceSaid(says)], False


def resource_of(lake: Lake) -> Resource:
    """Return what sends: OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES come before ours."""
    own = {
        "service.name": "strandline",
        "service.version": version("strandline"),
        "strandline.lake": str(lake.root),
    }
    return Resource.create(own).merge(OTELResourceDetector().detect())


@dataclass(frozen=True, slots=True, kw_only=True)
class _Commit:
    """A commit whose spans are not made yet.

    Args:
        table: What was written.
        entry: Its entry.
        lake: Where.
        mode: How.
        at: When it had happened, in nanoseconds.
        run: The span of the run of its table.
    """

    table: Table
    entry: Entry
    lake: Lake
    mode: str
    at: int
    run: SpanContext


class Traces:
    """Makes and sends the spans of a process."""

    def __init__(self, lake: Lake, says: Says) -> None:
        """Begin to send.

        Args:
            lake: The lake; runs in other lakes, such as those of a verification, have no trace.
            says: Hears once of each reason why nothing is sent.

        Raises:
            DefinitionError: The SDK does not take what a variable of OpenTelemetry says.
        """
        _quiet(says)
        self.lake, self._ids = lake, _Ids()
        try:
            self._provider = TracerProvider(
                resource=resource_of(lake), id_generator=self._ids, shutdown_on_exit=False
            )
            self._provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        except ValueError as error:
            raise DefinitionError(
                f"a variable of OpenTelemetry is wrong: {first_line(error)}",
                hint="correct or unset it; most of them begin with OTEL_BSP_, OTEL_SPAN_ or OTEL_EXPORTER_OTLP_.",
            ) from error
        self._tracer = self._provider.get_tracer("strandline", version("strandline"))
        self._roots: dict[str, Span] = {}
        self._waiting = queue.Queue[_Commit](LENGTH)
        self._says, self._is_full = says, False
        self._lock = threading.Lock()
        threading.Thread(target=self._work, name="telemetry", daemon=True).start()

    def root(self, parent: Parent | None, mode: str, above: str | None) -> Span:
        """Return the span of the run that tables are run in, which begins with the first.

        Args:
            parent: The run of another program; that of this process when absent.
            mode: How its first table is run.
            above: The trace context in which this process was started.
        """
        of = parent.run if parent else ""
        with self._lock:
            if of not in self._roots:
                self._roots[of] = self._begun(parent, mode, above)
            return self._roots[of]

    def _begun(self, parent: Parent | None, mode: str, above: str | None) -> Span:
        if parent is None:
            within = TraceContextTextMapPropagator().extract(
                {"traceparent": above or ""}, Context()
            )
            return self._tracer.start_span(f"strandline {mode}", within)
        facts = {f"{parent.namespace}.run": parent.run, f"{parent.namespace}.job": parent.job}
        with self._ids.chosen(*ids_of_run(parent.run)):
            name = f"{parent.namespace} {parent.job}"
            return self._tracer.start_span(name, Context(), attributes=facts)

    def end(self, run: str = "", patience: float = PATIENCE) -> None:
        """End the span of a run, and send what is not sent, for some seconds at most."""
        until = time.monotonic() + patience
        while self._waiting.unfinished_tasks and time.monotonic() < until:
            time.sleep(0.01)
        with self._lock:
            root = self._roots.pop(run, None)
        if root is not None:
            root.end()
        self._briefly(self._provider.force_flush, until)

    def close(self, patience: float = PATIENCE) -> None:
        """End the spans of all runs, send what is not sent, for some seconds at most, and make no more."""
        until = time.monotonic() + patience
        for run in [*self._roots]:
            self.end(run, max(0.1, until - time.monotonic()))
        self._briefly(self._provider.shutdown, until)
        TRACES.clear()

    @staticmethod
    def _briefly(does: Callable[[], object], until: float) -> None:
        """Do something that waits for the receiver, which may be away."""
        sends = threading.Thread(target=does, daemon=True)
        sends.start()
        sends.join(max(0.1, until - time.monotonic()))

    def begin(self, table: Table, mode: str, within: Context) -> Span:
        """Begin the span of a table's run."""
        facts = {"strandline.table": table.id, "strandline.mode": mode}
        span = self._tracer.start_span(f"{mode} {table.id}", within, attributes=facts)
        self.noted(table, span.get_span_context())
        return span

    def add(self, commit: _Commit) -> None:
        """Make the spans of a commit later, without waiting for anything."""
        try:
            self._waiting.put_nowait(commit)
            self._is_full = self._is_full and self._waiting.qsize() > LENGTH // 2
        except queue.Full:
            if not self._is_full:
                self._says(
                    f"more than {LENGTH:,} commits wait for their spans; newer ones have none"
                )
            self._is_full = True

    @staticmethod
    def noted(table: Table, found: SpanContext) -> None:
        """Let the records of a log about a table have these ids."""
        TRACES[table.id] = (
            trace.format_trace_id(found.trace_id),
            trace.format_span_id(found.span_id),
        )

    def _work(self) -> None:
        while True:
            commit = self._waiting.get()
            try:
                self._make(commit)
            except Exception as error:  # noqa: BLE001  # no run depends on its trace
                self._says(f"{commit.table.id} has no span: {first_line(error)}")
            finally:
                self._waiting.task_done()

    def _make(self, commit: _Commit) -> None:
        entry, name = commit.entry, commit.table.id
        at, began = found_in(commit.lake.table(commit.table), entry, commit.at)
        facts: dict[str, str | int] = {
            "strandline.table": name,
            "strandline.batch": entry.batch,
            **({} if at is None else {"strandline.version": at}),
        }
        more: dict[str, str | int] = {
            "strandline.mode": commit.mode,
            "strandline.rows.read": entry.read,
            "strandline.rows.good": entry.good,
            "strandline.rows.written": entry.written,
            "strandline.rows.duplicates": entry.duplicates,
            "strandline.rows.quarantined": entry.held_records,
            "strandline.cpu_ms": entry.cpu_ms,
        }
        start = began - entry.duration_ms * MS
        if commit.mode != ENDLESS or at is None:
            within = trace.set_span_in_context(trace.NonRecordingSpan(commit.run), Context())
            batch = self._tracer.start_span(
                f"batch {name}", within, start_time=start, attributes={**facts, **more}
            )
        else:
            links = [Link(commit.run), *self._read(commit)]
            with self._ids.chosen(*ids_of(commit.lake.root, name, at)):
                batch = self._tracer.start_span(
                    f"batch {name}",
                    Context(),
                    start_time=start,
                    attributes={**facts, **more},
                    links=links,
                )
        inside = trace.set_span_in_context(batch, Context())
        written = self._tracer.start_span(
            f"commit {name}", inside, start_time=began, attributes=facts
        )
        written.end(commit.at)
        batch.end(commit.at)
        self.noted(commit.table, batch.get_span_context())

    def _read(self, commit: _Commit) -> Iterator[Link]:
        """Yield the batches of a stream whose commits a batch read."""
        found = (
            (source, each)
            for source, (first, last) in commit.entry.versions.items()
            for each in range(last, first - 1, -1)
        )
        for (source, each), _ in zip(found, range(MOST_LINKS), strict=False):
            ids = ids_of(commit.lake.root, source, each)
            there = SpanContext(*ids, is_remote=True, trace_flags=TraceFlags(TraceFlags.SAMPLED))
            yield Link(there, {"strandline.table": source, "strandline.version": each})


def found_in(path: Place, entry: Entry, at: int) -> tuple[int | None, int]:
    """Return the version in which an entry is, and when its commit began, in nanoseconds; no version where the log has none."""
    mark = (entry.stream, entry.batch, entry.mode, entry.duration_ms, entry.cpu_ms, entry.read)
    newest = latest_version(path)
    for each in range(newest, max(-1, newest - BACK), -1):
        other = entry_at(path, each)
        if other is not None and mark == (
            *(other.stream, other.batch, other.mode),
            *(other.duration_ms, other.cpu_ms, other.read),
        ):
            info = next((one.body for one in actions(path, each, Kind.INFO)), {})
            return each, min(int(info.get("timestamp", 0)) * MS or at, at)
    return None, at


_begun: dict[str, Traces] = {}
"""Of each lake those of this process."""


def traces(lake: Lake, says: Says) -> Traces:
    """Return what sends the spans of a lake's runs from this process."""
    if str(lake.root) not in _begun:
        _begun[str(lake.root)] = made = Traces(lake, says)
        atexit.register(made.close)
    return _begun[str(lake.root)]


def run_over(run: str) -> None:
    """Hear that a run of another program is over."""
    for each in [*_begun.values()]:
        each.end(run)


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanRecorder:
    """Makes the spans of runs of a lake's tables.

    Args:
        traces: Sends them.
        parent: The run of another program that all of them are a part of.
        above: The trace context in which this process was started.
    """

    traces: Traces
    parent: Parent | None = None
    above: str | None = None

    @classmethod
    def of(cls, lake: Lake, says: Says, parent: Parent | None, above: str | None) -> "SpanRecorder":
        """Return the one of a lake."""
        return cls(traces=traces(lake, says), parent=parent, above=above)

    @contextmanager
    def record(
        self, _: SparkSession | None, table: Table, mode: str, lake: Lake
    ) -> Iterator[Wrote]:
        """Make the spans of a run of a table, and of each of its commits."""
        live = lake.live if isinstance(lake, Shadow) else lake
        if live.root != self.traces.lake.root:
            yield lambda *_: None
            return
        how = REBUILD if isinstance(lake, Shadow) else mode
        within = Context()
        if how != ENDLESS:
            root = self.traces.root(self.parent, how, self.above)
            within = trace.set_span_in_context(root, within)
        span, sums = self.traces.begin(table, how, within), Report(table=table.id, mode=how)
        if how == ENDLESS:  # what does not end would never be sent
            span.end()
        context = span.get_span_context()

        def wrote(of: Table, entry: Entry) -> None:
            if of is table:
                sums.add(entry)
            self.traces.add(
                _Commit(table=of, entry=entry, lake=lake, mode=how, at=time.time_ns(), run=context)
            )

        try:
            yield wrote
        except BaseException as error:
            says = error.message if isinstance(error, LakeError) else first_line(error)
            span.set_status(Status(StatusCode.ERROR, says[:MOST_OF_AN_ERROR]))
            span.set_attribute("error.type", type(error).__name__)
            raise
        finally:
            if how != ENDLESS:
                span.set_attributes(
                    {
                        "strandline.batches": sums.batches,
                        "strandline.rows.read": sums.read,
                        "strandline.rows.written": sums.written,
                    }
                )
                span.end()


# The figures of the page of metrics, under the same names.


@dataclass(slots=True)
class Pushed:
    """Sends the figures of a look at a lake at the interval of OTEL_METRIC_EXPORT_INTERVAL, a minute by default."""

    look: LakeLook
    lake: Lake
    says: Says
    _provider: MeterProvider = field(init=False)

    def __post_init__(self) -> None:
        """Begin to send."""
        _quiet(self.says)
        reader = PeriodicExportingMetricReader(OTLPMetricExporter())
        self._provider = MeterProvider([reader], resource_of(self.lake), shutdown_on_exit=False)
        meter = self._provider.get_meter("strandline", version("strandline"))
        for each in METRICS:
            made = (
                meter.create_observable_counter
                if each.is_counter
                else meter.create_observable_gauge
            )
            made(each.name, [partial(self._observed, each)], description=each.means)

    def _observed(self, metric: Metric, _: CallbackOptions) -> Iterator[Observation]:
        for each in self.look.samples():
            if each.metric is metric:
                facts: Mapping[str, str] = dict(zip(metric.labels, each.labels, strict=True))
                yield Observation(each.value, facts)

    def end(self, patience: float = PATIENCE) -> None:
        """Send the last figures, for some seconds at most."""
        ends = threading.Thread(target=self._provider.shutdown, daemon=True)
        ends.start()
        ends.join(patience)
