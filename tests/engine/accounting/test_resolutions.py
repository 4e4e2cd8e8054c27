"""A quarantine holds its records less those resolved, whatever happened to the same event before."""

from collections import Counter
from pathlib import Path

import duckdb
import pytest

from fleet.gold import device_signal_10m as gold
from strandline.core.errors import DefinitionError
from strandline.engine.accounting.balance_sheet import balance
from strandline.engine.accounting.held_records import (
    FOLLOWED,
    REPLAY,
    generation,
    held,
    offer,
    refuse_unheld,
    released,
    unfinished,
    unfollowed,
)
from strandline.engine.ask.sql_query import ask
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger import Entry
from strandline.engine.proof.compare import compare
from tests.engine.written import BRONZE, SILVER, entry, numbers, written
from tests.support.held import hold, record, resolution, resolve

NAME = f"quarantine.{SILVER.name}"
LATE, BAD, BOTH = record(1, "late"), record(2, "malformed"), record(3, "late", "missing:x")


@pytest.fixture
def sound(tmp_path: Path) -> Lake:
    """Return a lake that balances: 5 events, 2 of them good, 3 held."""
    lake = Lake(tmp_path / "lake")
    one = entry(BRONZE, offsets={"0": (0, 5)}, read=5, good=5, written=5)
    written(lake.table(BRONZE), numbers(5), one.encoded())
    both = entry(
        SILVER,
        versions={BRONZE.id: (0, 0)},
        read=5,
        good=2,
        quarantined={"late": 2, "malformed": 1},
        written=2,
    )
    hold(lake, SILVER, [LATE, BAD, BOTH], both)
    written(lake.table(SILVER), numbers(2), both.encoded())
    return lake


def commit(begun: int = 0, **fields: object) -> Entry:
    """Return the entry of a resolution of one generation."""
    return entry(SILVER, versions={NAME: (begun, 0)}, **fields)


def states(lake: Lake) -> Counter[tuple[int, str]]:
    """Return the number of records by offset and state."""
    connection = duckdb.connect()
    offer(connection, "records", SILVER, lake)
    return Counter(connection.execute("SELECT _offset, _state FROM records").fetchall())


def test_without_resolutions_all_records_are_open(sound: Lake) -> None:
    """Every lake that is older than the resolutions has none."""
    assert states(sound) == {(1, "open"): 1, (2, "open"): 1, (3, "open"): 1}
    assert released(SILVER, sound) == 0
    assert held(SILVER, sound).num_rows == 3


def test_a_record_that_was_replayed_is_closed_and_stays_where_it_is(sound: Lake) -> None:
    """No record is ever removed from a quarantine, so a year later the bytes still exist."""
    done = {"since": "a", "until": "b", "stream": "r", "mode": REPLAY}
    resolve(sound, SILVER, [resolution(BOTH, "replayed")], commit(quarantined={"late": -1}, **done))

    assert states(sound) == {(1, "open"): 1, (2, "open"): 1, (3, "closed"): 1}
    assert released(SILVER, sound) == 1
    assert sorted(row["_offset"] for row in held(SILVER, sound).to_pylist()) == [1, 2]
    answer = ask(f"SELECT count(*) FROM {NAME}", (SILVER,), sound)  # noqa: S608  # our own name
    assert answer.rows == ((2,),)
    answer = ask("SELECT status FROM resolutions.device_telemetry", (SILVER,), sound)
    assert answer.rows == (("replayed",),)


def test_a_record_that_was_discarded_is_held_but_not_open_until_it_is_reopened(sound: Lake) -> None:
    """The event is in no other place, so the ledger still counts it."""
    resolve(sound, SILVER, [resolution(LATE, "discarded")], commit(mode="discard"))

    assert states(sound)[1, "discarded"] == 1
    assert held(SILVER, sound).num_rows == 3
    assert balance(SILVER, sound).faults == []
    resolve(sound, SILVER, [resolution(LATE, "reopened", was="discarded")], commit(mode="reopen"))

    assert states(sound)[1, "open"] == 1


def test_a_record_held_a_second_time_for_the_same_reasons_is_open_again(sound: Lake) -> None:
    """A rule was wrong, corrected, and wrong once more: two equal records, one of them closed."""
    resolve(sound, SILVER, [resolution(LATE, "backfilled")], commit(quarantined={"late": -1}))
    hold(sound, SILVER, [LATE], commit(quarantined={"late": 1}))

    assert states(sound)[1, "closed"] == 1
    assert states(sound)[1, "open"] == 1
    assert held(SILVER, sound).num_rows == 3


def test_a_discard_does_not_outlive_its_record(sound: Lake) -> None:
    """Released by a backfill and held again, it is a new record, which no operator has seen."""
    resolve(sound, SILVER, [resolution(LATE, "discarded")], commit(mode="discard"))
    resolve(sound, SILVER, [resolution(LATE, "backfilled", was="discarded")], commit())
    hold(sound, SILVER, [LATE], commit())

    assert states(sound)[1, "open"] == 1
    assert states(sound)[1, "closed"] == 1


def test_a_replaced_quarantine_is_open_and_an_undo_restores_the_resolutions(sound: Lake) -> None:
    """A promotion replaces all records; resolutions of the old ones do not apply to the new ones."""
    resolve(sound, SILVER, [resolution(LATE, "replayed")], commit(quarantined={"late": -1}))
    hold(sound, SILVER, [LATE, BAD], entry(SILVER, replaced=True, promoted="m"))

    assert generation(sound.quarantine(SILVER)) == 1
    assert generation(sound.quarantine(SILVER), until=0) == 0
    assert states(sound) == {(1, "open"): 1, (2, "open"): 1}
    assert released(SILVER, sound) == 0
    hold(sound, SILVER, [LATE, BAD, BOTH], entry(SILVER, replaced=True, promoted="undo m"))

    assert generation(sound.quarantine(SILVER)) == 0
    assert states(sound)[1, "closed"] == 1
    assert released(SILVER, sound) == 1


def test_a_replay_that_was_killed_is_named_at_each_of_its_steps(sound: Lake) -> None:
    """The resolutions, the quarantine, the table, the tables above: each step is one commit."""
    done = {"since": "a", "until": "b", "stream": "r", "mode": REPLAY}
    assert unfinished(SILVER, sound) is None
    moved = [resolution(LATE, "replayed"), resolution(BAD, "still_bad")]
    resolve(sound, SILVER, moved, commit(quarantined={"late": -1, "malformed": -1}, **done))

    (fault,) = balance(SILVER, sound).faults
    assert "the replay from a to b was interrupted" in fault
    hold(sound, SILVER, [record(2, "other")], entry(SILVER, quarantined={"other": 1}, **done))

    half = unfinished(SILVER, sound)
    assert half is not None
    assert half.quarantined == {"late": -1, "malformed": -1, "other": 1}
    last = entry(SILVER, quarantined=half.quarantined, good=1, came=1, written=1, **done)
    written(sound.table(SILVER), numbers(1), last.encoded())

    assert unfinished(SILVER, sound) is None
    (fault,) = balance(SILVER, sound).faults
    assert "before the tables above were computed again" in fault
    resolve(sound, SILVER, [], commit(**{**done, "mode": FOLLOWED}))

    assert unfollowed(SILVER, sound) is None
    assert balance(SILVER, sound).faults == []


@pytest.mark.whole
def test_two_lakes_are_equal_when_they_hold_the_same(sound: Lake, tmp_path: Path) -> None:
    """Records held in between do not count; an earlier version still holds what was released later."""
    resolve(sound, SILVER, [resolution(LATE, "replayed")], commit(quarantined={"late": -1}))
    other = Lake(tmp_path / "other")
    hold(other, SILVER, [BAD, BOTH], entry(SILVER))
    written(other.table(SILVER), numbers(2))

    _, now = compare(SILVER, sound, other)
    _, before = compare(SILVER, sound, other, at=[0, 0, -1])

    assert (now.equal, now.left_rows) == (True, 2)
    assert (before.only_left, before.left_rows) == (1, 3)


def test_a_table_without_a_quarantine_is_refused(tmp_path: Path) -> None:
    """The hint names a table to choose, or a command to type."""
    with pytest.raises(DefinitionError, match="judges no rows"):
        refuse_unheld(gold.TABLE, Lake(tmp_path))
    with pytest.raises(DefinitionError, match="does not exist"):
        refuse_unheld(SILVER, Lake(tmp_path))
