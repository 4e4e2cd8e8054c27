"""A torn checkpoint is mended as far as the ledger can replace it; real ones are in tests/faults/test_torn_checkpoint.py."""

import json
from pathlib import Path

import pytest

from fleet.silver import device_telemetry as silver
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.mend_checkpoint import (
    BrokenCheckpointError,
    broken_state,
    leave,
    mend,
    play_again,
)
from strandline.engine.lake.place import Place
from tests.engine.written import entry, numbers, written

TABLE = silver.TABLE
PLAN = 'v1\n{"batchWatermarkMs":0}\n{"reservoirVersion":3,"index":-1}'
END = 'v1\n{"nextBatchWatermarkMs":0}'


class KilledError(BaseException):
    """The end of a process."""


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """Return a lake in which batches 0 and 1 were written, and batch 2 is planned."""
    made = Lake(tmp_path / "lake").open_for_writing()
    for batch in (0, 1):
        written(made.table(TABLE), numbers(1), entry(TABLE, stream="s", batch=batch).encoded())
    for number in (0, 1, 2):
        plan(made, number).put(PLAN)
    for number in (0, 1):
        end(made, number).put(END)
    (made.checkpoint(TABLE) / "metadata").put('{"id":"s"}')
    return made


def plan(lake: Lake, number: int) -> Place:
    return lake.checkpoint(TABLE) / "offsets" / str(number)


def end(lake: Lake, number: int) -> Place:
    return lake.checkpoint(TABLE) / "commits" / str(number)


def test_a_whole_one_is_left_alone(lake: Lake) -> None:
    assert mend(TABLE, lake) == []
    assert plan(lake, 2).exists()


@pytest.mark.parametrize("text", ["", "v1", PLAN[:30]])
def test_the_torn_plan_of_a_batch_that_was_not_written_is_made_anew(lake: Lake, text: str) -> None:
    plan(lake, 2).put(text)

    assert mend(TABLE, lake) == ["offsets/2"]


@pytest.mark.whole
@pytest.mark.parametrize("number", [0, 1])
def test_the_plan_of_a_batch_that_was_written_cannot_be_replaced(lake: Lake, number: int) -> None:
    """Spark would begin with batch 0 again, and its rows would be taken for written."""
    plan(lake, 2).remove()
    plan(lake, number).put("")

    with pytest.raises(
        BrokenCheckpointError, match=f"plan of batch {number}, which was written"
    ) as caught:
        mend(TABLE, lake)

    assert "strandline rebuild" in caught.value.hint


def test_all_plans_gone_are_no_new_stream(lake: Lake) -> None:
    for number in (0, 1, 2):
        plan(lake, number).remove()

    with pytest.raises(BrokenCheckpointError):
        mend(TABLE, lake)


def test_a_torn_end_is_forgotten_so_the_batch_is_played_again(lake: Lake) -> None:
    plan(lake, 2).remove()
    end(lake, 1).put("")

    assert mend(TABLE, lake) == ["commits/1"]
    assert plan(lake, 1).exists()


def test_a_torn_end_takes_the_plan_after_it_along(lake: Lake) -> None:
    """Or Spark would run batch 2 without having played batch 1."""
    end(lake, 1).put("")

    assert sorted(mend(TABLE, lake)) == ["commits/1", "offsets/2"]


def test_an_end_without_a_plan_is_forgotten(lake: Lake) -> None:
    plan(lake, 2).remove()
    end(lake, 2).put(END)

    assert mend(TABLE, lake) == ["commits/2"]


def test_the_id_is_in_the_ledger_too(lake: Lake) -> None:
    (lake.checkpoint(TABLE) / "metadata").put("")

    assert mend(TABLE, lake) == ["metadata"]
    assert json.loads((lake.checkpoint(TABLE) / "metadata").text() or "") == {"id": "s"}


def test_drafts_of_the_first_plan_are_removed(tmp_path: Path) -> None:
    """Spark refuses to begin beside them, so a stream that was killed there never began again."""
    lake = Lake(tmp_path / "lake").open_for_writing()
    draft = lake.checkpoint(TABLE) / "offsets" / ".0.1f.tmp"
    draft.put("v1")

    assert mend(TABLE, lake) == [".0.1f.tmp"]
    assert not draft.exists()


def test_a_checkpoint_that_is_left_is_gone_as_a_whole_wherever_its_removal_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A half one looks whole, or damaged for good: its plans are there and its state is not, or the first plan is gone."""
    lake = Lake(tmp_path / "lake").open_for_writing()
    checkpoint = lake.checkpoint(TABLE)
    for first_gone in ("state/0/0/1.zip", "offsets/0", "metadata", "commits/1", None):
        for number in (0, 1):
            plan(lake, number).put(PLAN)
            end(lake, number).put(END)
        (checkpoint / "metadata").put('{"id":"s"}')
        (checkpoint / "state/0/0/1.zip").put("")

        def killed(place: Place, gone: str | None = first_gone) -> None:
            if gone:
                (place / gone).remove_file()
            raise KilledError

        with monkeypatch.context() as broken:
            broken.setattr(Place, "remove", killed)
            with pytest.raises(KilledError):
                leave(checkpoint)

        assert mend(TABLE, lake) == []
        assert (checkpoint.exists(), checkpoint.parent.names()) == (False, [])


def test_a_checkpoint_that_came_with_rows_is_not_the_one_that_was_left(lake: Lake) -> None:
    """A promotion has brought both since."""
    (lake.checkpoint(TABLE).parent / f"{TABLE.id}.leaving").put("")

    assert mend(TABLE, lake) == []
    assert lake.checkpoint(TABLE).parent.names() == [TABLE.id]
    assert plan(lake, 2).exists()


def test_the_last_batch_is_played_again_and_no_other(lake: Lake) -> None:
    """One that is planned and not done is played anyway."""
    play_again(lake.checkpoint(TABLE))
    assert end(lake, 1).exists()

    plan(lake, 2).remove()
    play_again(lake.checkpoint(TABLE))

    assert end(lake, 0).exists()
    assert not end(lake, 1).exists()


@pytest.mark.parametrize("many", [0, 3, 5, 12, 20])
def test_a_torn_schema_of_the_state_is_removed_and_a_whole_one_stays(lake: Lake, many: int) -> None:
    """Spark writes a missing one anew, as each file in a real checkpoint shows (tests/faults)."""
    whole = b"\0\2v2" + 2 * (b"\0\0\0\1" + b"\0\2{}")
    file = lake.checkpoint(TABLE).local / "state" / "0" / "0" / "_metadata" / "schema"
    file.parent.mkdir(parents=True)
    file.write_bytes(whole[:many])

    assert bool(mend(TABLE, lake)) is (many < len(whole))
    assert file.exists() is (many >= len(whole))


def test_a_state_that_could_not_be_written_is_not_called_damaged(lake: Lake) -> None:
    unwritten = RuntimeError("[CANNOT_WRITE_STATE_STORE.CANNOT_COMMIT] provider RocksDBStateStore")
    unread = RuntimeError("[CANNOT_LOAD_STATE_STORE.UNCATEGORIZED] provider RocksDBStateStore")
    assert broken_state(TABLE, lake, unwritten) is None
    assert "cannot be read" in str(broken_state(TABLE, lake, unread))
