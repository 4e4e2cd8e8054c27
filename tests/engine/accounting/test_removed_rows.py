"""Rows that are deleted for good leave the tables and not the books: neither theirs nor those of a reader."""

import pytest
from deltalake import CommitProperties

from strandline.core.table import Table
from strandline.engine.accounting.balance_sheet import audit, balance, held_rows
from strandline.engine.accounting.table_books import close
from strandline.engine.lake.completeness import horizon, whole_from
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger import EXPIRE, FORGET, Entry
from strandline.engine.lake.open_table import opened
from strandline.engine.lake.place import Place
from tests.engine.written import BRONZE, GOLD, SILVER, entry, numbers, small_lake, written

pytestmark = pytest.mark.core

TABLES = (BRONZE, SILVER, GOLD)
UNTIL = "2026-11-20T10:00:00+00:00"


@pytest.fixture
def lake(anywhere: Place) -> Lake:
    """Return a lake that balances: of bronze's 5 records 3 are good, 1 is a copy, 1 is held."""
    return small_lake(anywhere)


def deleted(path: Place, where: str, entry: Entry) -> None:
    """Delete rows in a commit with an entry."""
    properties = CommitProperties(custom_metadata={"userMetadata": entry.encoded()})
    opened(path).delete(where, commit_properties=properties)


def removal(table: Table, mode: str = EXPIRE, **fields: int) -> Entry:
    gone = fields.get("expired", 0) + fields.get("forgotten", 0)
    return entry(table, mode=mode, stream=mode, since="", until=UNTIL, written=-gone, **fields)


def balanced(lake: Lake) -> bool:
    for table in TABLES:
        assert balance(table, lake).faults == [], table.id
    return True


@pytest.mark.whole
@pytest.mark.parametrize("is_closed", [False, True], ids=["open books", "closed books"])
def test_rows_that_expired_are_a_line_of_the_sheet_and_of_no_reader(
    lake: Lake,
    is_closed: bool,  # noqa: FBT001  # a parameter
) -> None:
    """What was read and judged stays counted."""
    if is_closed:
        close(lake, TABLES, every=1)
    deleted(lake.table(BRONZE), "number < 2", removal(BRONZE, expired=4))
    deleted(lake.table(SILVER), "number = 0", removal(SILVER, FORGET, forgotten=1))

    assert balanced(lake)
    bronze, silver = balance(BRONZE, lake), balance(SILVER, lake)
    assert (bronze.read, bronze.good, bronze.expired, bronze.rows) == (5, 5, 4, 1)
    assert (silver.read, silver.good, silver.forgotten, silver.rows) == (5, 3, 1, 2)
    assert (silver.waiting, balance(GOLD, lake).waiting) == (0, 0)


def test_a_wrong_number_is_a_fault(lake: Lake) -> None:
    """The files are counted, as after every commit."""
    deleted(lake.table(BRONZE), "number < 2", removal(BRONZE, expired=3))

    assert "the table holds 1 rows, but 2 were written" in balance(BRONZE, lake).faults


@pytest.mark.whole
def test_an_audit_from_the_first_commit_gives_the_closed_books(lake: Lake) -> None:
    """Also where rows were deleted before they were closed."""
    deleted(lake.table(BRONZE), "number < 2", removal(BRONZE, expired=4))
    close(lake, TABLES, every=1)

    assert [audit(table, lake).faults for table in TABLES] == [[], [], []]


@pytest.mark.whole
def test_a_batch_over_what_is_left_counts_what_is_left(lake: Lake) -> None:
    """And what expires after it is no row less that it read."""
    path = lake.table(SILVER)
    deleted(lake.table(BRONZE), "number = 0", removal(BRONZE, expired=2))
    one = entry(
        SILVER,
        mode="batch",
        stream="batch",
        batch=1,
        versions={BRONZE.id: (0, 2)},
        replaced=True,
        read=3,
        good=2,
        quarantined={"late": 1},
        written=2,
    )
    written(lake.quarantine(SILVER), numbers(1), one.encoded(), mode="overwrite")
    written(path, numbers(2), one.encoded(), mode="overwrite")
    deleted(lake.table(BRONZE), "number = 1", removal(BRONZE, expired=2))

    assert balance(SILVER, lake).faults == []
    assert balance(SILVER, lake).waiting == 0


def test_records_of_the_quarantine_that_expired_are_held_no_more(lake: Lake) -> None:
    """The books still know where each event went."""
    deleted(lake.quarantine(SILVER), "number = 0", removal(SILVER, expired=1))

    sheet = balance(SILVER, lake)
    assert (sheet.faults, sheet.quarantined, sheet.expired) == ([], {"late": 1}, 1)
    assert held_rows(SILVER, lake) == 0


def test_from_when_on_a_table_is_whole_is_known_from_the_tables_below(lake: Lake) -> None:
    """An event may be as much later than its arrival as silver admits, and a window begins before its last row."""
    assert whole_from(GOLD, lake) is None

    deleted(lake.table(BRONZE), "number < 2", removal(BRONZE, expired=4))

    below = horizon(lake.table(BRONZE))
    assert below is not None
    assert below.isoformat() == UNTIL
    assert whole_from(SILVER, lake) == below + SILVER.lateness.early
    assert whole_from(GOLD, lake) == below + SILVER.lateness.early + GOLD.window_length
