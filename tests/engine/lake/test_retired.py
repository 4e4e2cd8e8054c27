"""What is retired is changed by several programs at once: by persons, by maintenance, by requests to forget."""

import json
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from fleet.gold.site_traffic_1h import TABLE as RECOMPUTED
from strandline.core.errors import DefinitionError
from strandline.engine.accounting.held_records import Signed
from strandline.engine.lake import completeness as module
from strandline.engine.lake.completeness import (
    STATE_OF,
    Retirement,
    let_go,
    retired,
    strike_out,
    write_down,
)
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.locks import WriterWatch
from strandline.engine.lake.place import Place
from strandline.engine.repair.retire import is_behind_for_good, retire, take_back
from tests.engine.written import GOLD, entry, numbers, small_lake, written
from tests.support.rows import NOON


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """Return a lake whose gold is retired, with the state of its stream."""
    lake = small_lake(tmp_path / "lake")
    (lake.checkpoint(GOLD) / STATE_OF / "0" / "1.delta").put("rows of the past")
    write_down(GOLD.id, Retirement(who="ann", at=NOON.isoformat(), why="enough"), lake)
    return lake


def comes_before(monkeypatch: pytest.MonkeyPatch, other: Callable[[], None]) -> None:
    """Let another program change what is retired at the last moment before the next one has the lock."""
    alone = module.hold

    def late(place: Place) -> AbstractContextManager[None]:
        monkeypatch.setattr(module, "hold", alone)
        other()
        return alone(place)

    monkeypatch.setattr(module, "hold", late)


def test_a_table_that_a_person_has_just_taken_back_keeps_its_state(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was retired again, with its place lost and the state removed under its stream."""
    comes_before(monkeypatch, lambda: take_back(GOLD, lake))

    let_go(GOLD, lake)

    assert retired(lake) == {}
    assert (lake.checkpoint(GOLD) / STATE_OF).exists()


@pytest.mark.whole
def test_a_table_whose_place_was_just_let_go_is_not_taken_back(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its stream would go on without a state."""
    comes_before(monkeypatch, lambda: let_go(GOLD, lake))

    with pytest.raises(DefinitionError, match="cannot go on where it ended"):
        take_back(GOLD, lake)

    assert json.loads(lake.retired.text() or "")[GOLD.id]["place_kept"] is False


def test_of_two_persons_who_retire_a_table_at_once_the_first_has_signed(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second had looked before it was retired, and its signature replaced the first."""
    (bea, cid) = (Signed(who=who, at=NOON, why=f"of {who}") for who in ("bea", "cid"))

    def retires(signed: Signed) -> Retirement:
        return retire(RECOMPUTED, lake, signed, WriterWatch(RECOMPUTED, lake))

    written(lake.table(RECOMPUTED), numbers(1), entry(RECOMPUTED).encoded())
    comes_before(monkeypatch, lambda: retires(bea))

    with pytest.raises(DefinitionError, match="is retired already, by bea"):
        retires(cid)

    assert retired(lake)[RECOMPUTED.id].who == "bea"


def test_what_cannot_go_on_is_sent_to_what_feeds_it_again(lake: Lake) -> None:
    """`rebuild` sent what is recomputed to `run`, which sent it to `retire --undo`, which sent it to `rebuild`."""
    hints = {}
    for table in (GOLD, RECOMPUTED):
        strike_out(table.id, lake)
        gone = Retirement(who="ann", at=NOON.isoformat(), why="enough", place_kept=False)
        write_down(table.id, gone, lake)
        with pytest.raises(DefinitionError) as refused:
            take_back(table, lake)
        hints[table.id] = refused.value.hint

    assert hints[RECOMPUTED.id].startswith(f"`strandline retire {RECOMPUTED.id} --undo`")
    assert "rebuild" not in hints[RECOMPUTED.id]
    assert [is_behind_for_good(table, lake) for table in (GOLD, RECOMPUTED)] == [False, True]
    assert hints[GOLD.id].startswith(f"`strandline rebuild {GOLD.id}`")
    assert "under another name" in hints[GOLD.id]
