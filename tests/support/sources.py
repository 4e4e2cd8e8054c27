"""The events of one source of the playground, through its silver table, against the truth about them."""

from collections import Counter
from datetime import UTC, datetime, timedelta

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from fleet.play.domain import Counts, Part, domain
from fleet.play.plan import Plan
from strandline.core.table import Table
from strandline.core.topic import RECEIVED
from strandline.engine.flow.plan import shaped
from tests.support.read import arrived
from tests.support.rows import NOON
from tests.support.sending import truth

PLAN = Plan(since=NOON - timedelta(days=1), until=NOON, events=12_000, seed=11, missing=0.05)


def judged_as_the_truth(spark: SparkSession, table: Table) -> bool:
    """Run the dirty events of a silver table's sources through it, and assert what became of each kind."""
    parts = [part for part in domain(PLAN) if part.table == table.name]
    rows = spark.createDataFrame([row for part in parts for row in _received(part)], RECEIVED)
    reason = F.get("_reasons", F.lit(0)).alias("why")
    found = Counter(
        {
            row["why"]: row["count"]
            for row in shaped([rows], table).groupBy(reason).count().collect()
        }
    )
    good = found.pop(None, 0)
    copies = rows.count() - good - found.total()
    expected = truth(PLAN, parts).tables[table.id]
    assert Counts(good=good, duplicates=copies, quarantined=dict(found)) == expected
    assert len(expected.quarantined) > 4
    return True


def _received(part: Part) -> list[tuple[object, ...]]:
    (chunk,) = part.player.chunks(10**6)
    records = zip(chunk.arrived_at, chunk.keys, chunk.values, strict=True)
    return [
        arrived(part.topic.name, number, datetime.fromtimestamp(ms / 1000, tz=UTC), key, value)
        for number, (ms, key, value) in enumerate(records)
    ]
