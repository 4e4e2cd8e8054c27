"""A join below an aggregation in one streamed table: the same rows in every mode, or refused before it is made."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from strandline.core.errors import DefinitionError
from strandline.core.stateful import Batch
from strandline.core.table import Windowed
from strandline.engine.accounting.balance_sheet import balance
from strandline.engine.lake.lake import Lake
from tests.support import by_hand
from tests.support.auctions import BOUNDED, LOG, PRICES, UNBOUNDED, WAITED_FOR
from tests.support.literal import in_every_way, put
from tests.support.modes import derive
from tests.support.rows import rows

pytestmark = pytest.mark.slow


@pytest.mark.prove(alone="half a minute")
def test_auctions_longer_than_their_window_give_the_same_rows_in_every_mode(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The highest bids come three hours after the hour in which their auctions opened."""
    found = in_every_way(spark, tmp_path, WAITED_FOR, LOG, ways=("batch", "step by step"))

    shown = [{n: row[n] for n in ("category", "auctions", "price")} for row in found]
    assert shown == rows("""
        category | auctions | price
        books    | 2        | 40.00
        maps     | 1        | 7.00
    """)


@pytest.mark.parametrize(
    ("table", "says", "to_write"),
    [
        (PRICES, "forgets a row of silver.auctions", "opened_at + INTERVAL 4 HOURS"),
        (UNBOUNDED, "sets no end to how long a row of silver.auctions waits", "INTERVAL 4 HOURS"),
        (BOUNDED, "emits rows of it for another 4:00:00", "ends + INTERVAL '14400.001' SECOND"),
    ],
    ids=("as the query is first written", "nothing bounds the wait", "final too early"),
)
def test_a_join_that_would_lose_rows_is_refused_before_its_table_is_made(
    spark: SparkSession, lake: Lake, table: Windowed, says: str, to_write: str
) -> None:
    """The sentence says what to write; which rows were lost depended on the cuts of the log."""
    put(lake, LOG, "1")

    with pytest.raises(DefinitionError) as refused:
        derive(spark, lake, table)

    assert says in refused.value.message
    assert to_write in refused.value.hint
    assert not lake.exists(table)


@pytest.mark.whole
def test_what_an_upper_operator_drops_in_a_lake_of_an_earlier_version_is_a_fault(
    spark: SparkSession, lake: Lake
) -> None:
    """Such a table goes on, and its ledger no longer says that all is well."""
    by_hand.create(lake.table(UNBOUNDED), _columns(spark, lake))
    for batch in "12345":
        put(lake, LOG, batch)
        derive(spark, lake, UNBOUNDED)

    (fault, *_) = balance(UNBOUNDED, lake).faults

    assert "lost 2 rows within its function: what aggregates there refused them" in fault


def _columns(spark: SparkSession, lake: Lake) -> object:
    other = Lake(lake.root.parent / "other").open_for_writing()
    put(other, LOG, "1")
    derive(spark, other, UNBOUNDED, mode=Batch())
    return spark.read.format("delta").load(str(other.table(UNBOUNDED))).schema
