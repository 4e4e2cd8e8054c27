"""A stream knows what its tables have not read."""

from pathlib import Path
from random import Random

from strandline.engine.lake.lake import Lake
from strandline.engine.service.backlog import OpenBooks
from tests.engine.written import BRONZE, GOLD, SILVER, entry
from tests.support.ledgers import histories, made, write_log


def test_what_is_unread_includes_sources_that_another_process_writes(tmp_path: Path) -> None:
    """Bronze is not among the tables of this stream."""
    lake, logs = Lake(tmp_path), histories(30, Random(5))  # noqa: S311  # a test's own
    books = OpenBooks([SILVER, GOLD], lake)
    made(lake, logs)
    books.follow()
    assert (books.unread(SILVER), books.unread(GOLD)) == (0, 0)
    more = entry(BRONZE, batch=99, read=7, good=7, written=7)
    write_log(lake.table(BRONZE), [more], len(logs[BRONZE]))

    books.follow()

    assert (books.unread(SILVER), books.unread(GOLD)) == (7, 0)


def test_a_promotion_of_the_source_is_no_lag(tmp_path: Path) -> None:
    """A stream passes over it; counted from the promotion on, it had read more than there was."""
    lake = Lake(tmp_path)
    promoted = entry(
        SILVER, batch=1, read=10, good=9, duplicates=1, written=9, replaced=True, promoted="m"
    )
    write_log(lake.table(SILVER), [entry(SILVER, read=10, good=10, written=10), promoted])
    write_log(lake.table(GOLD), [entry(GOLD, versions={SILVER.id: (0, 0)}, read=10, good=10)])
    books = OpenBooks([SILVER, GOLD], lake)

    books.follow()

    assert books.unread(GOLD) == 0
