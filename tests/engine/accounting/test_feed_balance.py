"""The books of feeds: a gap, an overlap and a record that the lake never got are found and named."""

from collections.abc import Mapping

import pytest

from fleet.bronze import process_events
from strandline.alerting.tables import bronze as alerts
from strandline.engine.accounting.balance_sheet import feed_balances
from strandline.engine.accounting.table_books import close_feeds
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger import Entry
from strandline.engine.lake.log.ledger_sums import snapshot_file
from strandline.engine.lake.place import Place
from tests.engine.written import entry, numbers, written

pytestmark = pytest.mark.core

FEED = "live.process_events"
BEGIN = {"read": 0, "offsets": {"process-events/0": (5, 5)}, "sent": {"alerts/0": (0, 0)}}


def epoch(number: int, **fields: object) -> Entry:
    """Return an entry of the feed."""
    usual = {"batch": number, "source": "process-events", "good": fields.get("read", 0), **fields}
    one = entry(process_events.TABLE, **usual)
    return Entry(**{**{name: getattr(one, name) for name in one.__slots__}, "table": FEED})


def lake(anywhere: Place, *epochs: Mapping[str, object], bronze: int | None = None) -> Lake:
    """Return a lake with the feed's entries, and a bronze table that has read so many records of its topic."""
    found = Lake(anywhere)
    for number, fields in enumerate(epochs):
        path = found.root / "live" / "process_events"
        written(path, [], epoch(number - 1, **fields).encoded())
    if bronze is not None:
        read = {"offsets": {"alerts/0": (0, bronze)}, "read": bronze, "written": bronze}
        one = entry(alerts.TABLE, source="alerts", good=bronze, **read)
        written(found.table(alerts.TABLE), numbers(bronze), one.encoded())
    return found


def next_one(begin: int, end: int, *, sent: tuple[int, int], wrote: int) -> dict[str, object]:
    """Return the fields of an epoch."""
    return {
        "read": end - begin,
        "offsets": {"process-events/0": (begin, end)},
        "sent": {"alerts/0": sent},
        "written": wrote,
    }


SOUND = (BEGIN, next_one(5, 9, sent=(0, 2), wrote=2), next_one(9, 12, sent=(2, 3), wrote=1))


@pytest.mark.parametrize("bronze", [None, 2, 3, 4])
def test_sound_books_balance_whatever_bronze_has_read(anywhere: Place, bronze: int | None) -> None:
    """It may be behind, and others may write to the topic as well."""
    (sheet,) = feed_balances(lake(anywhere, *SOUND, bronze=bronze))

    assert sheet.faults == []
    assert (sheet.table, sheet.read, sheet.good, sheet.rows, sheet.batches) == (FEED, 7, 7, 3, 3)


@pytest.mark.parametrize(
    ("ends", "waiting"), [({0: 12}, 0), ({0: 10}, 0), ({0: 32}, 20), ({0: 12, 1: 3}, 3)]
)
def test_what_bronze_has_read_and_the_feed_has_not_waits(
    anywhere: Place, ends: Mapping[int, int], waiting: int
) -> None:
    """Books that balance would else hide a feed that reads nothing; a partition may be new to it."""
    found = lake(anywhere, *SOUND)
    read = {f"process-events/{part}": (0, end) for part, end in ends.items()}
    one = entry(process_events.TABLE, source="process-events", offsets=read)
    written(found.table(process_events.TABLE), [], one.encoded())

    (sheet,) = feed_balances(found)

    assert (sheet.waiting, sheet.balanced) == (waiting, True)


def test_a_lake_without_feeds_has_no_sheet(anywhere: Place) -> None:
    assert feed_balances(Lake(anywhere)) == []


@pytest.mark.parametrize(
    ("later", "fault"),
    [
        (next_one(10, 12, sent=(2, 3), wrote=1), "read process-events/0 from offset 10"),
        (next_one(8, 12, sent=(2, 3), wrote=1), "read process-events/0 from offset 8"),
        (next_one(9, 12, sent=(3, 4), wrote=1), "counted alerts/0 from offset 3"),
    ],
)
def test_an_offset_that_is_left_out_or_read_twice_is_a_fault(
    anywhere: Place, later: dict[str, object], fault: str
) -> None:
    (sheet,) = feed_balances(lake(anywhere, *SOUND[:2], later))

    (found,) = sheet.faults
    assert fault in found
    assert "ended at" in found


def test_a_record_that_bronze_has_passed_over_is_a_fault(anywhere: Place) -> None:
    """Three were written, and the table that has read all of the topic has two."""
    found = lake(anywhere, *SOUND)
    read = {"offsets": {"alerts/0": (0, 3)}, "read": 2, "written": 2, "without_record": 1}
    one = entry(alerts.TABLE, source="alerts", good=2, **read)
    written(found.table(alerts.TABLE), numbers(2), one.encoded())

    (sheet,) = feed_balances(found)

    assert sheet.faults == ["feeds wrote 3 records for bronze.alerts, which has 2"]


def test_closed_books_of_a_feed_give_the_sheet_of_its_whole_log(anywhere: Place) -> None:
    """A feed that ends an epoch every second has a million entries within a fortnight."""
    found = lake(anywhere, *SOUND, bronze=3)
    before = feed_balances(found)

    closed = close_feeds(found, every=1)

    assert [(each.table, each.until, each.entries) for each in closed] == [(FEED, 2, 3)]
    assert feed_balances(found) == before == feed_balances(found, audited=True)


def test_a_gap_behind_closed_books_is_found(anywhere: Place) -> None:
    """They carry forward where the last epoch ended."""
    found = lake(anywhere, *SOUND, bronze=3)
    close_feeds(found, every=1)
    gap = epoch(3, **next_one(14, 15, sent=(3, 3), wrote=0))
    written(found.root / "live" / "process_events", [], gap.encoded())

    (sheet,) = feed_balances(found)

    (fault,) = sheet.faults
    assert "epoch 3 read process-events/0 from offset 14, where the one before ended at 12" in fault


def test_closed_sums_of_a_feed_that_were_changed_are_found_by_an_audit(anywhere: Place) -> None:
    """Its sheet alone would believe them."""
    found = lake(anywhere, *SOUND, bronze=3)
    close_feeds(found, every=1)
    file = snapshot_file(found.root / "live" / "process_events")
    file.put((file.text() or "").replace('"written": 3', '"written": 2'))

    (sheet,) = feed_balances(found)
    (audited,) = feed_balances(found, audited=True)

    assert (sheet.rows, sheet.balanced) == (2, True)
    assert "`written` up to version 2 is 3, but 2 was closed" in audited.faults
