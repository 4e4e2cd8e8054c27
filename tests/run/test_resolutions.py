"""What is held is what was put into a quarantine less what was resolved, whatever became of the same event before."""

from collections import Counter
from pathlib import Path

import duckdb
import pytest

from jobs.core.errors import DefinitionError
from jobs.gold import device_signal_10m as gold
from jobs.run.ask import ask
from jobs.run.balance import balance
from jobs.run.compare import compare
from jobs.run.lake import Lake
from jobs.run.ledger import Entry
from jobs.run.resolutions import (
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
from tests.run.written import BRONZE, SILVER, entry, numbers, written
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


def said(begun: int = 0, **fields: object) -> Entry:
    """Return the entry of a resolution of one generation."""
    return entry(SILVER, versions={NAME: (begun, 0)}, **fields)


def states(lake: Lake) -> Counter[tuple[int, str]]:
    """Return what each record is, by its offset."""
    connection = duckdb.connect()
    offer(connection, "records", SILVER, lake)
    return Counter(connection.execute("SELECT _offset, _state FROM records").fetchall())


def test_without_a_word_about_them_all_records_are_open(sound: Lake) -> None:
    """Every lake that is older than the resolutions is so."""
    assert states(sound) == {(1, "open"): 1, (2, "open"): 1, (3, "open"): 1}
    assert released(SILVER, sound) == 0
    assert held(SILVER, sound).num_rows == 3


def test_a_record_that_was_replayed_is_closed_and_stays_where_it_is(sound: Lake) -> None:
    """Nothing is ever taken out of a quarantine, so a year later the bytes are still there."""
    done = {"since": "a", "until": "b", "stream": "r", "mode": REPLAY}
    resolve(sound, SILVER, [resolution(BOTH, "replayed")], said(quarantined={"late": -1}, **done))

    assert states(sound) == {(1, "open"): 1, (2, "open"): 1, (3, "closed"): 1}
    assert released(SILVER, sound) == 1
    assert sorted(row["_offset"] for row in held(SILVER, sound).to_pylist()) == [1, 2]
    answer = ask(f"SELECT count(*) FROM {NAME}", (SILVER,), sound)  # noqa: S608  # our own name
    assert answer.rows == ((2,),)
    answer = ask("SELECT status FROM resolutions.device_telemetry", (SILVER,), sound)
    assert answer.rows == (("replayed",),)


def test_a_record_that_was_discarded_is_held_but_not_open_until_it_is_reopened(sound: Lake) -> None:
    """The event is in no other place, so the ledger counts it all the same."""
    resolve(sound, SILVER, [resolution(LATE, "discarded")], said(mode="discard"))

    assert states(sound)[1, "discarded"] == 1
    assert held(SILVER, sound).num_rows == 3
    assert balance(SILVER, sound).faults == []
    resolve(sound, SILVER, [resolution(LATE, "reopened", was="discarded")], said(mode="reopen"))

    assert states(sound)[1, "open"] == 1


def test_what_is_held_a_second_time_for_the_same_reasons_is_open_again(sound: Lake) -> None:
    """A rule that was wrong, put right, and wrong once more: two of a kind, one of them closed."""
    resolve(sound, SILVER, [resolution(LATE, "backfilled")], said(quarantined={"late": -1}))
    hold(sound, SILVER, [LATE], said(quarantined={"late": 1}))

    assert states(sound)[1, "closed"] == 1
    assert states(sound)[1, "open"] == 1
    assert held(SILVER, sound).num_rows == 3


def test_a_discard_does_not_outlive_the_record_that_it_spoke_of(sound: Lake) -> None:
    """Released by a backfill and held again, it is a new record, which nobody has looked at."""
    resolve(sound, SILVER, [resolution(LATE, "discarded")], said(mode="discard"))
    resolve(sound, SILVER, [resolution(LATE, "backfilled", was="discarded")], said())
    hold(sound, SILVER, [LATE], said())

    assert states(sound)[1, "open"] == 1
    assert states(sound)[1, "closed"] == 1


def test_a_quarantine_that_was_exchanged_is_open_and_an_undo_brings_back_what_was_said(
    sound: Lake,
) -> None:
    """A promotion makes all of it anew; what was said of the old records says nothing of the new ones."""
    resolve(sound, SILVER, [resolution(LATE, "replayed")], said(quarantined={"late": -1}))
    hold(sound, SILVER, [LATE, BAD], entry(SILVER, replaced=True, promoted="m"))

    assert generation(sound.quarantine(SILVER)).begun == 1
    assert generation(sound.quarantine(SILVER), until=0).begun == 0
    assert states(sound) == {(1, "open"): 1, (2, "open"): 1}
    assert released(SILVER, sound) == 0
    hold(sound, SILVER, [LATE, BAD, BOTH], entry(SILVER, replaced=True, promoted="undo m"))

    assert generation(sound.quarantine(SILVER)).begun == 0
    assert states(sound)[1, "closed"] == 1
    assert released(SILVER, sound) == 1


def test_a_replay_that_was_killed_is_named_at_each_of_its_steps(sound: Lake) -> None:
    """The resolutions, the quarantine, the table, what rests on it: each is one commit."""
    done = {"since": "a", "until": "b", "stream": "r", "mode": REPLAY}
    assert unfinished(SILVER, sound) is None
    moved = [resolution(LATE, "replayed"), resolution(BAD, "still_bad")]
    resolve(sound, SILVER, moved, said(quarantined={"late": -1, "malformed": -1}, **done))

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
    assert "before what rests on it was computed again" in fault
    resolve(sound, SILVER, [], said(**{**done, "mode": FOLLOWED}))

    assert unfollowed(SILVER, sound, [last]) is None
    assert balance(SILVER, sound).faults == []


def test_two_lakes_are_equal_when_they_hold_the_same(sound: Lake, tmp_path: Path) -> None:
    """Whatever was held in between; and a version may be looked at from before it was released."""
    resolve(sound, SILVER, [resolution(LATE, "replayed")], said(quarantined={"late": -1}))
    other = Lake(tmp_path / "other")
    hold(other, SILVER, [BAD, BOTH], entry(SILVER))
    written(other.table(SILVER), numbers(2))

    _, now = compare(SILVER, sound, other)
    _, before = compare(SILVER, sound, other, at=[0, 0, -1])

    assert (now.equal, now.left_rows) == (True, 2)
    assert (before.only_left, before.left_rows) == (1, 3)


def test_a_table_without_a_quarantine_is_told(tmp_path: Path) -> None:
    """With what to name, or what to type."""
    with pytest.raises(DefinitionError, match="judges no rows"):
        refuse_unheld(gold.TABLE, Lake(tmp_path))
    with pytest.raises(DefinitionError, match="does not exist"):
        refuse_unheld(SILVER, Lake(tmp_path))
