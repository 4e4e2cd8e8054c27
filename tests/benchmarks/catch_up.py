"""Part one: what an event costs when there is much to do. Preloaded events, fresh tables, one run to the end."""

from tests.benchmarks import oracle
from tests.benchmarks.contestants.contestant import BRONZE, SILVER, Place
from tests.benchmarks.feed import copied
from tests.benchmarks.ground import ROWS, Ground, Row
from tests.benchmarks.workers import Cost

PART = "events"


def run(ground: Ground, rounds: int, rows: tuple[str, ...]) -> None:
    """Measure each hop from the same source tables."""
    counts = oracle.truth(ground.plan, ground.plan.events)

    def make(place: Place) -> None:
        for table in (BRONZE, SILVER):
            ground.workers["strandline"].ask("catch_up", [table], place)
        oracle.check_bronze(place, ground.plan.events, "strandline")
        oracle.check_silver(place, counts, "strandline")

    sources = ground.prepared(f"sources-{ground.topic}", make, topic=ground.topic)

    def once(row: Row, name: str) -> tuple[Cost, float]:
        place = ground.fresh(row, name)
        if row.source is not None:
            layer, table = row.source.split(".")
            copied(sources / layer / table, place.root / layer / table)
        cost = ground.worker(name).ask("catch_up", [row.table], place)
        match row.name:
            case "bronze":
                oracle.check_bronze(place, ground.plan.events, name)
            case "silver":
                oracle.check_silver(place, counts, name)
            case _:
                oracle.check_gold(place, name)
        return cost, cost.wall

    for row in (ROWS[name] for name in rows):
        ground.measure(PART, row, rounds, lambda name, row=row: once(row, name))  # type: ignore[misc]  # mypy cannot infer a lambda with a default
