"""A quarantine is read without a JVM: rows by reason and age, and each row as received."""

from datetime import timedelta
from pathlib import Path

import pytest

from fleet.gold import device_signal_10m as gold
from strandline.core.errors import DefinitionError
from strandline.engine.accounting.browse_held import piles, rows
from strandline.engine.lake.lake import Lake
from tests.engine.written import SILVER, entry
from tests.support.held import hold, record, resolution, resolve
from tests.support.rows import NOON

ODD = record(
    3,
    "malformed",
    _message_key=None,
    _payload=b"\xff\x00",
    _headers=[{"key": "trace", "value": b"\x01"}, {"key": "none", "value": None}],
)
LATE = record(1, "late", event_at=NOON - timedelta(hours=3))


@pytest.fixture
def sound(tmp_path: Path) -> Lake:
    """Return a quarantine of four rows in two commits; one row was replayed and one given up."""
    lake = Lake(tmp_path / "lake")
    hold(lake, SILVER, [LATE, record(2, "late", "missing:x")], entry(SILVER, batch=4))
    hold(lake, SILVER, [ODD, record(4, "early")], entry(SILVER, batch=7))
    name = f"quarantine.{SILVER.name}"
    commit = entry(SILVER, versions={name: (0, 1)})
    given_up = resolution(ODD, "discarded", who="ann", why="a test", entry="d")
    resolve(lake, SILVER, [given_up, resolution(record(4, "early"), "replayed")], commit)
    return lake


@pytest.mark.whole
def test_a_row_with_several_reasons_is_in_the_pile_of_each(sound: Lake) -> None:
    """A selection by reason then finds as many rows as the list shows."""
    found = piles(SILVER, sound, NOON + timedelta(hours=1))

    assert [(p.reason, p.open, p.discarded, p.age) for p in found] == [
        ("late", 2, 0, timedelta(minutes=59)),
        ("missing:x", 1, 0, timedelta(minutes=58)),
        ("malformed", 0, 1, None),
    ]
    assert (found[0].oldest, found[0].newest) == (
        NOON + timedelta(minutes=1),
        NOON + timedelta(minutes=2),
    )


def test_open_rows_are_shown_as_received(sound: Lake) -> None:
    """The oldest first, with the batch that held them back."""
    found = rows(SILVER, sound)

    assert [(row.offset, row.reasons, row.batch) for row in found] == [
        (1, ("late",), "batch 4"),
        (2, ("late", "missing:x"), "batch 4"),
    ]
    assert (found[0].key, found[0].payload, found[0].event_at) == (
        b"key",
        b"payload",
        NOON - timedelta(hours=3),
    )
    assert [row.offset for row in rows(SILVER, sound, reason="missing:x")] == [2]
    assert [row.offset for row in rows(SILVER, sound, limit=1)] == [1]


def test_the_row_of_a_place_is_shown_in_any_state(sound: Lake) -> None:
    """It comes with each decision, by whom, when and why; bytes stay bytes."""
    (odd,) = rows(SILVER, sound, at=("t", 0, 3))
    (early,) = rows(SILVER, sound, at=("t", 0, 4))

    assert (odd.state, odd.batch) == ("discarded", "batch 7")
    assert (odd.key, odd.payload) == (None, b"\xff\x00")
    assert odd.headers == (("trace", b"\x01"), ("none", None))
    (done,) = odd.done
    assert (done.status, done.who, done.at, done.why) == ("discarded", "ann", NOON, "a test")
    assert (early.state, [each.status for each in early.done]) == ("closed", ["replayed"])
    assert rows(SILVER, sound, at=("t", 1, 3)) == []


def test_a_table_without_a_quarantine_is_refused(sound: Lake) -> None:
    """An empty answer would look like an empty quarantine."""
    with pytest.raises(DefinitionError, match="judges no rows"):
        piles(gold.TABLE, sound, NOON)
