"""Part one: what an event costs when there is much to do. Preloaded events, fresh tables, one run to the end."""

from collections.abc import Sequence

from tests.benchmarks import oracle
from tests.benchmarks.contestants.contestant import BRONZE, SILVER, Place
from tests.benchmarks.feed import copied
from tests.benchmarks.ground import Ground, Row
from tests.benchmarks.workers import Cost

PART = "events"


def run(ground: Ground, rounds: int, rows: Sequence[Row], part: str = PART) -> None:
    """Measure each row, those that read a table from the same one for every contestant."""
    counts = oracle.truth(ground.plan, ground.plan.events)
    readings = oracle.readings(ground.plan, ground.work)

    def check(row: Row, place: Place, name: str) -> None:
        for table in row.tables:
            match table:
                case "bronze.device_telemetry":
                    oracle.check_bronze(place, ground.plan.events, name, ground.plan)
                case "silver.device_telemetry":
                    oracle.check_silver(place, counts, name, readings)
                case _:
                    oracle.check_gold(place, name, readings if row.source == SILVER else None)

    def make(place: Place) -> None:
        ground.workers["strandline"].ask("catch_up", [BRONZE, SILVER], place)
        check(Row(name="sources", table=SILVER, through=(BRONZE,)), place, "strandline")

    def once(row: Row, name: str) -> tuple[Cost, float]:
        place = ground.fresh(row, name)
        if row.source is not None:
            layer, table = row.source.split(".")
            copied(sources / layer / table, place.root / layer / table)
        cost = ground.worker(name).ask("catch_up", row.tables, place)
        check(row, place, name)
        return cost, cost.wall

    sources = ground.work
    if any(row.source for row in rows):
        sources = ground.prepared(f"sources-{ground.topic}", make, topic=ground.topic)
    for row in rows:
        ground.measure(part, row, rounds, lambda name, row=row: once(row, name))  # type: ignore[misc]  # mypy cannot infer a lambda with a default
