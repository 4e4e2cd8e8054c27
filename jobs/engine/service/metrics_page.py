"""The metrics of a lake as a page that Prometheus scrapes, without a JVM.

A look reads the lake at an interval, however often it is scraped: a scrape is answered from memory, so it is quick and costs an
object store no request. Each part of a look is read by itself: one that fails keeps its last samples and is named by
``strandline_look_failed``, and the others go on.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from importlib.metadata import version

from prometheus_client import CollectorRegistry, generate_latest, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.core import Metric as Family
from prometheus_client.registry import Collector

from jobs.core.errors import DefinitionError
from jobs.core.table import Table
from jobs.engine.service import lake_metrics, ledger_metrics, process_metrics
from jobs.engine.service.ledger_metrics import LedgerFigures
from jobs.engine.service.metric import Metric, Sample
from jobs.engine.service.process_metrics import Processes
from jobs.engine.storage.lake import Lake

BUILD = Metric("strandline_build_info", "The version of Strandline.", ("version",))
FAILED = Metric(
    "strandline_look_failed",
    "1 if a part of the last look at the lake failed; its other metrics are those of an earlier look.",
    ("part",),
)
LOOKED_AT = Metric("strandline_look_timestamp_seconds", "When the last look at the lake ended.")
LOOK_TOOK = Metric("strandline_look_duration_seconds", "Duration of the last look at the lake.")

METRICS = (
    *(BUILD, FAILED, LOOKED_AT, LOOK_TOOK),
    *process_metrics.METRICS,
    *ledger_metrics.METRICS,
    *lake_metrics.METRICS,
)


class LakeLook(Collector):
    """What the last look at a lake has shown."""

    def __init__(
        self,
        tables: Sequence[Table],
        lake: Lake,
        clock: Callable[[], datetime],
        on_failure: Callable[[str], None],
        unread: Callable[[], Mapping[str, int]] = dict,
    ) -> None:
        """Prepare; nothing is read yet.

        Args:
            tables: The tables of the catalog.
            lake: The lake.
            clock: Returns the time.
            on_failure: Called with why a part failed, once for each reason.
            unread: Returns by bronze table the offsets that it has not read; asked while no stream measures them.
        """
        self._unread = unread
        self._lake, self._clock, self._on_failure = lake, clock, on_failure
        self._ledger = LedgerFigures(tables, lake)
        self._parts: dict[str, list[Sample]] = {}
        self._reasons: dict[str, str] = {}

    def look(self) -> None:
        """Read the lake."""
        begun, lake = time.monotonic(), self._lake
        tables: list[Table] = []
        seen: list[Processes] = []
        behind: dict[str, int] = {}

        def processes() -> Iterator[Sample]:
            seen.append(found := Processes(lake, self._clock()))
            return found.samples()

        def unread() -> Iterator[Sample]:
            # A part of its own: what Kafka or one table's folder refuses must not hide that the stream is dead.
            measured = [each.offsets_behind for each in seen if each.measures]
            behind.update(measured[0] if measured else self._unread())
            return iter(())

        def ledger() -> Iterator[Sample]:
            tables.extend(self._ledger.follow())
            yield from self._ledger.samples(behind, self._clock())

        self._read("processes", processes)
        self._read("unread", unread)
        self._read("ledger", ledger)
        self._read("gates", lambda: lake_metrics.of_gates(tables, lake))
        self._read("leases", lambda: lake_metrics.of_leases(lake))
        self._read("receivers", lambda: lake_metrics.of_receivers(lake))
        self._read("radar", lambda: lake_metrics.of_radar(lake))
        self._read("machine", lambda: lake_metrics.of_machine(lake))
        self._parts["look"] = [
            BUILD.of(1, version("strandline")),
            LOOKED_AT.of(self._clock().timestamp()),
            LOOK_TOOK.of(time.monotonic() - begun),
            *(FAILED.of(part in self._reasons, part) for part in self._parts if part != "look"),
        ]

    def collect(self) -> Iterator[Family]:
        """Yield what the last look has shown, as Prometheus' client wants it."""
        samples = [each for part in [*self._parts.values()] for each in part]
        for metric in METRICS:
            family = CounterMetricFamily if metric.is_counter else GaugeMetricFamily
            made = family(metric.name, metric.means, labels=metric.labels)
            for each in samples:
                if each.metric is metric:
                    made.add_metric(each.labels, each.value)
            yield made

    def text(self) -> str:
        """Return the page."""
        return generate_latest(self._registry()).decode()

    @contextmanager
    def served(self, host: str, port: int) -> Iterator[int]:
        """Serve the page for the length of the block, and yield the port.

        Args:
            host: The address of this machine at which to listen.
            port: The port; a free one for 0.

        Raises:
            DefinitionError: Another program listens there.
        """
        try:
            server, answering = start_http_server(port, host, self._registry())
        except OSError as error:
            raise DefinitionError(
                f"no page of metrics can be served at {host}:{port}: {error.strerror}",
                hint="name another port with --port.",
                host=host,
                port=port,
            ) from error
        try:
            yield server.server_port
        finally:
            server.shutdown()
            server.server_close()
            answering.join()

    def _registry(self) -> CollectorRegistry:
        registry = CollectorRegistry()
        registry.register(self)
        return registry

    def _read(self, part: str, samples: Callable[[], Iterable[Sample]]) -> None:
        """Replace the samples of a part, unless they cannot be read."""
        try:
            self._parts[part] = list(samples())
        except Exception as error:  # noqa: BLE001  # the other parts go on, and the next look tries again
            reason = f"{part}: {type(error).__name__}: {str(error).partition(chr(10))[0]}"
            if self._reasons.get(part) != reason:
                self._on_failure(reason)
            self._reasons[part] = reason
            self._parts.setdefault(part, [])
        else:
            self._reasons.pop(part, None)
