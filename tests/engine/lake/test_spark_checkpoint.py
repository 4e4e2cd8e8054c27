"""What a planned batch reads of its sources, from Spark's offset log and Delta's alone."""

import pytest

from strandline.engine.lake.log.log_actions import table_id
from strandline.engine.lake.place import Place
from strandline.engine.lake.spark_checkpoint import WHOLE, Planned, Position
from tests.engine.written import SILVER, entry, numbers, written

pytestmark = pytest.mark.whole


@pytest.mark.parametrize(
    ("end", "read"),
    [
        (Position(2), [(1, 5)]),
        (Position(2, WHOLE), [(1, 5), (2, 8)]),
        (Position(2, 1), [(1, 5), (2, 8)]),
        (Position(3), [(2, 13)]),
        (Position(3, WHOLE), [(2, 13)]),
        (Position(0), []),
    ],
)
def test_a_batch_that_begins_with_a_snapshot_reads_what_was_committed_while_it_was_planned(
    either: Place, end: Position, read: list[tuple[int, int]]
) -> None:
    """The last of these versions was neither in its entry nor in a later one; a commit that streams skip is in none."""
    path = either / "silver" / "x"
    for number, count in enumerate((2, 3, 8)):
        one = entry(SILVER, batch=number, read=count, good=count, written=count)
        written(path, numbers(count), one.encoded())
    again = entry(SILVER, batch=3, mode="backfill", since="2026-11-20T00:00:00+00:00")
    written(path, [], again.encoded())
    plan = Planned(
        number=0, start={}, end={table_id(path): end}, watermark_ms=0, late_ms=0, whole=True
    )

    assert [(version, part.rows) for version, part in plan.input(path)] == read
