"""The metrics of a lake as a page that Prometheus scrapes, without a JVM.

A look reads the lake at an interval, however often it is scraped: a scrape is answered from memory, so it is quick and costs an
object store no request. Each part of a look is read by itself: one that fails keeps its last samples and is named by
``strandline_look_failed``, and the others go on.

A store that does not answer is asked once, briefly, and not part by part: then what this machine has of its own programs is shown, and
``strandline_part_timestamp_seconds`` says since when no more is known of the rest.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib.metadata import version

from prometheus_client import CollectorRegistry, generate_latest, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.core import Metric as Family
from prometheus_client.registry import Collector

from strandline.core.errors import DefinitionError, LakeError
from strandline.core.table import Ingested, Table
from strandline.engine.lake.completeness import fed
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger import Entry, latest_version
from strandline.engine.proof.freshness import freshness, newest_row
from strandline.engine.publish.catalogs import lags
from strandline.engine.runtime.outage import AWAY as STORE_AWAY
from strandline.engine.service import metrics
from strandline.engine.service.metrics import LedgerFigures, Metric, Processes, Sample

BUILD = Metric("strandline_build_info", "The version of Strandline.", ("version",))
FAILED = Metric(
    "strandline_look_failed",
    "1 if a part of the last look at the lake failed; its other metrics are those of an earlier look.",
    ("part",),
)
PART_AT = Metric(
    "strandline_part_timestamp_seconds",
    "When a part of the lake was read last; its metrics are as old.",
    ("part",),
)
AWAY = Metric(
    "strandline_store_away",
    "1 if the lake's object store did not answer at the last look, or refused the keys.",
)
LOOKED_AT = Metric("strandline_look_timestamp_seconds", "When the last look at the lake ended.")
LOOK_TOOK = Metric("strandline_look_duration_seconds", "Duration of the last look at the lake.")

AGE = Metric(
    "strandline_newest_row_age_seconds",
    "How old the newest row is of a table that promises it (`fresh`), by event or by arrival.",
    ("table", "by"),
)
PROMISED = Metric(
    "strandline_newest_row_promised_seconds",
    "How old the newest row of a table may be by its promise.",
    ("table", "by"),
)
OVERDUE = Metric(
    "strandline_newest_row_overdue",
    "1 if the newest row of a table is older than it promises, or beyond the clock.",
    ("table",),
)

SKEW = Metric(
    "strandline_last_batch_skew_ratio",
    "The longest task of a table's last batch by the median one of its stage; 0 where no stage had much to do.",
    ("table",),
)
SKEW_WAIT = Metric(
    "strandline_last_batch_skew_seconds",
    "How long a table's last batch waited for its longest task after the median one; 0 where no stage had much to do.",
    ("table",),
)

CATALOG = ("catalog", "table")
CATALOG_VERSIONS = Metric(
    "strandline_catalog_lag_versions",
    "Versions of a table that a catalog of other engines does not show, as of its last sync.",
    CATALOG,
)
CATALOG_SECONDS = Metric(
    "strandline_catalog_lag_seconds",
    "How long the oldest version of a table waits that a catalog of other engines does not show.",
    CATALOG,
)

METRICS = (
    *(BUILD, FAILED, PART_AT, AWAY, LOOKED_AT, LOOK_TOOK),
    *metrics.PROGRAM_METRICS,
    *metrics.LEDGER_METRICS,
    *(SKEW, SKEW_WAIT),
    *(AGE, PROMISED, OVERDUE),
    *(CATALOG_VERSIONS, CATALOG_SECONDS),
    *metrics.LAKE_METRICS,
)


PARTS: Mapping[str, tuple[Metric, ...]] = {
    "processes": metrics.PROGRAM_METRICS,
    "unread": (metrics.LAG, metrics.BEHIND),
    "ledger": (*metrics.LEDGER_METRICS, SKEW, SKEW_WAIT),
    "promises": (AGE, PROMISED, OVERDUE),
    "gates": (metrics.GATE, metrics.GATE_ROWS),
    "leases": (metrics.LEASE, metrics.LEASE_INFO, metrics.LEASE_AT, metrics.LEASE_HOLDERS),
    "receivers": (
        *(metrics.DELIVERED, metrics.NOTICES, metrics.WAITING, metrics.DEAD, metrics.EXPIRED),
        *(metrics.RECEIVER_LAG, metrics.RECEIVER_AWAY, metrics.RECEIVER_UP),
    ),
    "publications": (
        *(metrics.PUBLISH_READ, metrics.PUBLISH_ACCEPTED, metrics.PUBLISH_REFUSED),
        *(metrics.PUBLISH_LAG, metrics.PUBLISH_AWAY, metrics.PUBLISH_UP),
    ),
    "catalogs": (CATALOG_VERSIONS, CATALOG_SECONDS),
    "radar": (metrics.LEVEL, metrics.LEFT, metrics.RADAR_AT),
    "machine": (metrics.ALARMS, metrics.FREE, metrics.SIZE),
}
"""What each part of a look shows."""

OF_TABLES = ("promises", "gates")
"""Parts that are about the tables that the books show."""


class Promises:
    """How tables keep what they promise of the age of their newest row; of a version that was seen it is remembered."""

    def __init__(self, lake: Lake) -> None:
        """Begin with nothing seen."""
        self._lake = lake
        self._seen: dict[str, tuple[int, datetime | None]] = {}

    def samples(self, tables: Sequence[Table], now: datetime) -> Iterator[Sample]:
        """Yield the figures of those of some tables that promise something and are fed."""
        for table in fed([each for each in tables if each.promise], self._lake):
            found = freshness(table, self._lake, now, newest_of=self._newest, explains=False)
            if found is not None:
                of = (table.id, found.promise.by)
                yield AGE.of(found.age.total_seconds(), *of)
                yield PROMISED.of(found.promise.length.total_seconds(), *of)
                yield OVERDUE.of(not found.is_kept, table.id)

    def _newest(self, table: Table, lake: Lake) -> datetime | None:
        version = latest_version(lake.table(table))
        known = self._seen.get(table.id)
        if known is None or known[0] != version:
            known = self._seen[table.id] = version, newest_row(table, lake)
        return known[1]


def of_tasks(newest: Iterable[Entry]) -> Iterator[Sample]:
    """Yield how uneven the tasks of the last batches were."""
    for entry in newest:
        longest, median = entry.uneven_ms or (0, 0)
        yield SKEW.of(longest / max(median, 1), entry.table)
        yield SKEW_WAIT.of((longest - median) / 1000, entry.table)


def of_catalogs(lake: Lake, now: datetime) -> Iterator[Sample]:
    """Yield how far the catalogs of other engines are behind; none of them is asked."""
    for each in lags(lake, now):
        yield CATALOG_VERSIONS.of(each.versions, each.catalog, each.table)
        yield CATALOG_SECONDS.of(each.seconds, each.catalog, each.table)


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
        self._promises = Promises(lake)
        self._parts: dict[str, list[Sample]] = {}
        self._reasons: dict[str, str] = {}
        self._read_at: dict[str, float] = {}
        self._is_lag_known = True
        self.away: LakeError | None = None
        """Why the store did not answer at the last look; None where it did, or where the lake is on a disk."""

    def look(self) -> None:
        """Read the lake."""
        begun, lake = time.monotonic(), self._lake
        tables: list[Table] = []
        followed: list[bool] = []
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
            followed.append(True)
            yield from self._ledger.samples(behind, self._clock())
            yield from of_tasks(self._ledger.newest())

        was_away, self.away = self.away is not None, _store_away(lake)
        parts: dict[str, Callable[[], Iterable[Sample]]] = {
            "processes": processes,
            "unread": unread,
            "ledger": ledger,
            "promises": lambda: self._promises.samples(tables, self._clock()),
            "gates": lambda: metrics.of_gates(tables, lake),
            "leases": lambda: metrics.of_leases(lake),
            "receivers": lambda: metrics.of_receivers(lake),
            "publications": lambda: metrics.of_publications(lake),
            "catalogs": lambda: of_catalogs(lake, self._clock()),
            "radar": lambda: metrics.of_radar(lake),
            "machine": lambda: metrics.of_machine(lake),
        }
        for part, samples in parts.items():
            if self.away:
                self._parts.setdefault(part, [])
            elif (
                part in OF_TABLES and not followed
            ):  # of no tables it would be empty, and that is no news
                self._parts.setdefault(part, [])
                self._reasons[part] = self._reasons["ledger"]
            else:
                self._read(part, samples)
        self._is_lag_known = all(each.id in behind for each in tables if isinstance(each, Ingested))
        if self.away:
            self._show_what_is_known(self.away, is_news=not was_away)
        self._parts["look"] = [
            BUILD.of(1, version("strandline")),
            AWAY.of(self.away is not None),
            LOOKED_AT.of(self._clock().timestamp()),
            LOOK_TOOK.of(time.monotonic() - begun),
            *(FAILED.of(part in self._reasons, part) for part in parts),
            *(PART_AT.of(at, part) for part, at in self._read_at.items()),
        ]

    @property
    def unknown(self) -> set[Metric]:
        """Return what neither the last look nor one before could read, of some tables at least."""
        parts = {part for part in self._reasons if part not in self._read_at}
        if not self._is_lag_known:
            parts.add("unread")
        return {each for part in parts for each in PARTS[part]}

    def samples(self) -> list[Sample]:
        """Return what the last look has shown."""
        return [each for part in [*self._parts.values()] for each in part]

    def collect(self) -> Iterator[Family]:
        """Yield what the last look has shown, as Prometheus' client wants it."""
        samples = self.samples()
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

    def _show_what_is_known(self, why: LakeError, *, is_news: bool) -> None:
        """Show what this machine knows; the rest is as it was read last, and the reason is reported once."""
        at = self._read_at.get("processes")
        since = f"since {datetime.fromtimestamp(at, UTC).isoformat()}" if at else "yet"
        if is_news:  # its words have figures, which change from look to look
            self._on_failure(f"{why.message}; more than this machine has is not known {since}")
        parts = [each for each in self._parts if each != "look"]
        self._reasons = dict.fromkeys(parts, why.message)
        known = metrics.of_this_machine(self._lake, self._parts["processes"])
        self._parts["processes"] = list(known)

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
            if isinstance(error, STORE_AWAY):
                self.away = error  # each further part would wait for it as long
        else:
            self._reasons.pop(part, None)
            self._read_at[part] = self._clock().timestamp()


def _store_away(lake: Lake) -> LakeError | None:
    """Return why the store of a lake does not answer; None where it does, or where the lake is on a disk."""
    if lake.root.is_local:
        return None
    # Not imported above: few lakes are on a store, and its client takes time.
    from strandline.engine.lake.object_files import refuse_silent  # noqa: PLC0415  # as above

    try:
        refuse_silent(str(lake.formats))
    except STORE_AWAY as error:
        return error
    return None
