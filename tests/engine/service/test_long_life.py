"""What a stream keeps about its tables is as small after fifty thousand commits as after a tenth of them."""

import random
import tracemalloc

import pytest

from strandline.engine.accounting.table_books import close
from strandline.engine.lake.commit.file_index import RecentFiles
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger_sums import Sums, follow
from strandline.engine.service.backlog import BookCloser, OpenBooks
from tests.engine.written import BRONZE, GOLD, SILVER
from tests.support.ledgers import histories, write_log
from tests.support.proofs import Times

pytestmark = pytest.mark.whole

TABLES = (BRONZE, SILVER, GOLD)
REPAIRS = 0.002


@pytest.mark.prove
def test_it_does_not_grow_with_commits(lake: Lake, chance: random.Random, times: Times) -> None:
    """The books of all tables, the sums that a look-up follows, the closer's news and the index of files."""
    slices = times(5, 20)
    logs = histories(times(300, 50_000), chance, REPAIRS)
    books: OpenBooks | None = None
    closer = BookCloser(lambda: close(lake, TABLES, every=100))
    sums = Sums()
    files = RecentFiles(lake.table(SILVER), lambda _: (0, 0))
    size = []
    tracemalloc.start()
    try:
        for number in range(slices):
            for table, log in logs.items():
                first, last = (len(log) * n // slices for n in (number, number + 1))
                write_log(lake.table(table), log[first:last], first)
                latest = last - 1
                if table == SILVER:
                    follow(lake.table(table), sums)
                    files.follow(latest, lambda _: iter(()))
            books = books or OpenBooks(TABLES, lake)
            books.follow()
            closer._news.extend(close(lake, TABLES, every=100))
            size.append(tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()

    early, late = size[slices // 2 + 1], size[-1]  # modules that are imported on the way count once
    assert late < 1.2 * early + 300_000, size
    assert books
    assert books.unread(SILVER) >= 0
