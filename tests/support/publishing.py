"""A table whose changes leave, written without Spark: orders, replaced and removed as repairs do."""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pyarrow as pa
from deltalake import write_deltalake
from pyspark.sql import DataFrame

from strandline.core.kind import Layer
from strandline.core.table import Computed, Ingested, Judged, Upserted, Windowed
from strandline.core.topic import Topic
from strandline.engine.flow.publications import KafkaTopic, PostgresTable, Publish, identity
from strandline.engine.flow.publisher import Publisher, Route
from strandline.engine.flow.targets import Target
from strandline.engine.lake.duckdb_table import Columns, columns_of
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.open_table import delta_options

NOON = datetime(2026, 11, 2, 12, tzinfo=UTC)


def _unused(_: DataFrame) -> DataFrame:
    raise NotImplementedError


BRONZE = Ingested(name="orders", reads=(Topic(name="orders"),))
EVENTS = Judged(
    name="events", reads=(BRONZE,), transform=_unused, key=("order_id",), event_at="ordered_at"
)
ORDERS = Upserted(
    name="orders",
    layer=Layer.SILVER,
    reads=(EVENTS,),
    transform=_unused,
    key=("order_id",),
    event_at="ordered_at",
    window_from="ordered_at",
)
HOURS = Windowed(
    name="hours",
    reads=(EVENTS,),
    transform=_unused,
    key=("hour", "country"),
    key_null_ok=("country",),
    window="1 hour",
    window_from="hour",
    closes_at="ends",
)


def publisher(
    lake: Lake,
    to: KafkaTopic | PostgresTable | Callable[..., None],
    target: Callable[[Columns], Target],
    *,
    table: Computed = ORDERS,
    masks: Callable[[], frozenset[str]] = frozenset,
) -> Publisher:
    """Return what sends a table to a target, as each start of a process makes it."""

    def route() -> Route:
        columns = columns_of(lake.table(table), identity(table))
        return Route(columns=columns, masked=masks(), target=target(columns))

    return Publisher(Publish("out", table, to), lake, route, lambda: NOON, masks)


def sent(publisher: Publisher) -> int:
    """Send what there is; return the number of changes that were read since all was sent anew."""
    with publisher.lease():
        while publisher.step():
            pass
    assert publisher.books.place is not None
    return publisher.books.place.read


def sent_anew(publisher: Publisher) -> None:
    """Send all rows anew."""
    with publisher.lease():
        publisher.again()
        while publisher.step():
            pass


def order(number: int, amount: str = "1.00", **more: object) -> dict[str, object]:
    """Return an order."""
    return {
        "order_id": f"o{number}",
        "amount": Decimal(amount),
        "ordered_at": NOON + timedelta(minutes=number),
        "_topic": "orders",
        **more,
    }


def write(
    lake: Lake,
    rows: Sequence[Mapping[str, object]],
    replaces: str | None = None,
    *,
    table: Computed = ORDERS,
    by: Sequence[str] = (),
) -> None:
    """Append rows, or replace those of a condition; columns that are new are added."""
    write_deltalake(
        str(lake.table(table)),
        pa.Table.from_pylist([*rows]),
        mode="overwrite" if replaces else "append",
        predicate=replaces,
        partition_by=[*by] or None,
        schema_mode=None if replaces else "merge",
        storage_options=delta_options(lake.table(table)),
    )
