"""A real Kafka and a real PostgreSQL have the rows of a table after each repair of it, whatever came, went or was computed anew."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from strandline import catalog

from fleet.bronze import device_telemetry as bronze
from fleet.silver.device_telemetry import device_telemetry
from strandline.core.table import Computed, Judged, Windowed
from strandline.engine.flow.publications import KafkaTopic, PostgresTable, Publish, identity
from strandline.engine.flow.publisher import Publisher, Route
from strandline.engine.flow.runner import Site
from strandline.engine.flow.targets import Target, ToKafka, ToPostgres
from strandline.engine.kafka import broker as admin
from strandline.engine.lake.duckdb_table import columns_of
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.open_table import opened
from strandline.engine.lake.place import Place
from strandline.engine.repair.backfill import backfill
from strandline.engine.repair.closed_range import Span
from strandline.engine.repair.downstream import backfill_above
from strandline.engine.repair.forget import Forgetting, carry_out
from strandline.engine.repair.forget_request import Request
from strandline.engine.repair.rebuild import promote, rebuild
from strandline.engine.repair.replay import replay
from strandline.engine.runtime import clock
from strandline.engine.service.maintain import Policy, maintain
from strandline_quality.rules import between, required
from tests.cli.inside import succeeded
from tests.support.events import Event, reading, received
from tests.support.modes import derive
from tests.support.postgres import Server, served
from tests.support.published import committed, newest
from tests.support.rows import NOON

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.whole]

MORNING = NOON - timedelta(hours=6)
SILVER = Judged(
    name="device_telemetry",
    reads=(bronze.TABLE,),
    transform=device_telemetry,
    key=("event_id",),
    event_at="event_at",
    rules=(*required("device_id"), between("value", 0, 50)),
)
PATIENT = replace(SILVER, rules=(*required("device_id"), between("value", 0, 80)))
STRICT = replace(SILVER, rules=(*required("device_id"), between("value", 0, 30)))


def _hours(rows: DataFrame) -> DataFrame:
    windows = rows.groupBy(F.window("event_at", "1 hour").alias("w"), "device_id")
    return windows.agg(F.count(F.lit(1)).alias("n"), F.max("value").alias("most")).select(
        "device_id",
        F.col("w.start").alias("hour"),
        F.col("w.end").alias("ends"),
        "n",
        "most",
    )


def hours_of(silver: Judged) -> Windowed:
    """Return the table above."""
    return Windowed(
        name="device_hours",
        reads=(silver,),
        transform=_hours,
        key=("device_id", "hour"),
        window="1 hour",
        window_from="hour",
        closes_at="ends",
        source_count="n",
    )


def readings() -> list[Event]:
    """Return an hour of readings, of which some are too large for a table, some come twice, and later ones that close their windows."""
    found = []
    for number in range(120):
        at = MORNING + timedelta(seconds=30 * number)
        payload = reading(
            event_id=f"e{number}",
            device_id=f"d{number % 5}",
            signal="temperature",
            value=number % 100,
            event_at=at.isoformat(),
        )
        sent = Event(payload=payload, batch=number // 40, arrived_at=at, ingested_at=at)
        found += [sent] * (1 + (number % 10 == 0))
    for number in range(2):
        at = NOON + timedelta(hours=number)
        payload = reading(event_id=f"l{number}", device_id="d0", value=1, event_at=at.isoformat())
        found.append(Event(payload=payload, batch=3 + number, arrived_at=at, ingested_at=at))
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Copies:
    """What sends two tables to Kafka and to PostgreSQL, and what both have of them."""

    lake: Lake
    address: str
    shop: Server
    tables: tuple[Computed, ...]

    def publishers(self) -> Iterator[Publisher]:
        """Yield one for each table and target, as each start of a process makes them."""
        for table in self.tables:
            yield self._publisher(f"{table.name}-k", table, KafkaTopic(table.name), self._kafka)
            yield self._publisher(
                f"{table.name}-p", table, PostgresTable(table.name, url="SHOP_DATABASE"), self._sql
            )

    def _kafka(self, table: Computed) -> Target:
        return ToKafka(table.name, f"out-{table.name}", lambda: self.address, {})

    def _sql(self, table: Computed) -> Target:
        columns = columns_of(self.lake.table(table), identity(table))
        return ToPostgres(table.name, "SHOP_DATABASE", f"out-{table.name}", columns.kinds)

    def _publisher(
        self,
        name: str,
        table: Computed,
        to: KafkaTopic | PostgresTable,
        target: Callable[[Computed], Target],
    ) -> Publisher:
        def route() -> Route:
            columns = columns_of(self.lake.table(table), identity(table))
            return Route(columns=columns, masked=frozenset(), target=target(table))

        return Publisher(Publish(name, table, to), self.lake, route, clock.now)

    def are_equal(self) -> dict[str, int]:
        """Send what there is; see that both targets have the rows of each table, and return how many these are."""
        for each in self.publishers():
            with each.lease():
                while each.step():
                    pass
            assert each.books.refused == {}
        counts = {}
        for table in self.tables:
            there = self._rows(table)
            assert self._in_kafka(table) == there
            assert self._in_sql(table) == there
            counts[table.id] = len(there)
        return counts

    def _rows(self, table: Computed) -> set[tuple[str, ...]]:
        found = opened(self.lake.table(table)).to_pyarrow_table().to_pylist()
        return {self._shown(table, row) for row in found}

    def _shown(self, table: Computed, row: dict[str, Any]) -> tuple[str, ...]:
        """Return a row as text that is the same wherever it lies: its key, and a figure of it."""
        figure = "value" if table is self.tables[0] else "n"
        at = row[table.event_at]
        name = row["event_id" if table is self.tables[0] else "device_id"]
        moment = at if isinstance(at, str) else at.isoformat().replace("+00:00", "Z")
        return (str(name), moment, str(float(row[figure])))

    def _in_kafka(self, table: Computed) -> set[tuple[str, ...]]:
        return {self._shown(table, row) for row in newest(committed(self.address, table.name))}

    def _in_sql(self, table: Computed) -> set[tuple[str, ...]]:
        columns = "event_id, event_at, value" if table is self.tables[0] else "device_id, hour, n"
        names = columns.split(", ")
        found = self.shop.ask(f"SELECT {columns} FROM {table.name}", "shop")  # noqa: S608  # our own names
        rows = [dict(zip(names, row, strict=True)) for row in found]
        return {self._shown(table, row) for row in rows}


@pytest.fixture
def copies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spark: SparkSession
) -> Iterator[Copies]:
    """Make a lake with both tables, a broker and a database."""
    lake = Lake(Place.of(tmp_path / "lake")).open_for_writing()
    tables = (SILVER, hours_of(SILVER))
    received(lake, readings())
    for table in tables:
        derive(spark, lake, table)
    broker = tmp_path / "broker"
    succeeded("up", "--lake", broker)
    address = str(succeeded("status", "--lake", broker, "--json").json["kafka"])
    for table in tables:
        admin.create_topic(address, table.name, 2, {})
    with served() as server:
        server.execute("CREATE DATABASE shop")
        monkeypatch.setenv("SHOP_DATABASE", server.url("shop"))
        yield Copies(lake=lake, address=address, shop=server, tables=tables)
    succeeded("down", "--lake", broker)


def test_targets_have_the_rows_of_the_tables_after_each_repair(
    copies: Copies, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stream, a backfill by stricter rules and back, a replay, upkeep, a request to forget, a rebuild that is promoted."""
    lake = copies.lake
    morning = Span(since=MORNING, until=MORNING + timedelta(hours=2))

    def known(silver: Judged) -> Judged:
        monkeypatch.setattr(catalog, "tables", lambda: (bronze.TABLE, silver, hours_of(silver)))
        return silver

    def computed(silver: Judged) -> None:
        backfill(spark, known(silver), lake, morning)
        for _ in backfill_above(spark, silver, lake, morning):
            pass

    known(SILVER)
    begun = copies.are_equal()
    assert begun[SILVER.id] > 50

    computed(STRICT)
    assert copies.are_equal()[SILVER.id] < begun[SILVER.id]
    computed(SILVER)
    assert copies.are_equal() == begun

    replay(spark, known(PATIENT), lake)
    more = copies.are_equal()
    assert more[SILVER.id] > begun[SILVER.id]

    at_once = Policy(keep=timedelta(0), untouched=timedelta(0))
    assert [*maintain(lake, clock.now() + timedelta(seconds=1), at_once)]
    assert copies.are_equal() == more

    for table in (PATIENT, hours_of(PATIENT)):
        derive(spark, lake, table)  # a stream passes over what repairs have committed
    request = Request.of("device_id = 'd3'")
    work = Forgetting(spark, lake, request)
    try:
        parts = [*work.parts()]
        assert not [part for part in parts if part.waits]
        list(carry_out(work, lake, request, lambda: NOON, parts))
    finally:
        work.close()
    left = copies.are_equal()
    assert all(left[name] < more[name] for name in left), (left, more)

    site = Site(spark=spark, clock=lambda: NOON)
    rebuild(PATIENT, lake, site)
    promote(PATIENT, lake, site)
    assert copies.are_equal()[SILVER.id] == left[SILVER.id]
