"""A repair below a retired table lets go of its place before it changes rows, because its stream would pass over them."""

from pathlib import Path
from unittest.mock import Mock, patch

import pytest

from fleet.gold import device_daily
from strandline.core.errors import DefinitionError
from strandline.engine.accounting.balance_sheet import balance
from strandline.engine.lake.completeness import Retirement, retired, write_down
from strandline.engine.lake.lake import Lake
from strandline.engine.repair import replay as module
from strandline.engine.repair.backfill import leave_behind
from strandline.engine.repair.replay import REPLAY, write_healed
from strandline.engine.repair.retire import take_back
from strandline.operate.backfill import left_behind_by
from tests.engine.written import GOLD, SILVER, entry, small_lake

WHY = Retirement(who="ann", at="2026-11-20T12:00:00+00:00", why="enough")


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """Return a lake whose gold is retired, with all that it has read."""
    made = small_lake(tmp_path / "lake")
    write_down(GOLD.id, WHY, made)
    return made


def test_a_replay_lets_go_before_its_rows_come_and_names_what_is_left_behind(
    lake: Lake,
) -> None:
    """The books could not say it: for them gold has read all of silver."""
    done = entry(SILVER, mode=REPLAY, came=1, since="2026-11-20", until="2026-11-21")
    kept: list[bool] = []

    with patch.object(
        module, "swap", lambda *_, **__: kept.append(retired(lake)[GOLD.id].place_kept)
    ):
        write_healed(Mock(), SILVER, lake, Mock(), done)
    words = left_behind_by(SILVER, lake, [done])

    assert kept == [False]
    assert balance(GOLD, lake).faults == []
    assert f"computed from the old rows: {GOLD.id}" in words
    with pytest.raises(DefinitionError, match="cannot go on where it ended"):
        take_back(GOLD, lake)


def test_a_repair_that_changes_no_row_and_a_table_without_a_stream_need_nothing(
    lake: Lake,
) -> None:
    write_down(device_daily.TABLE.id, WHY, lake)

    leave_behind(GOLD, lake)
    with patch.object(module, "append_entry"):
        write_healed(Mock(), SILVER, lake, Mock(), entry(SILVER, mode=REPLAY))
    words = left_behind_by(SILVER, lake, [entry(SILVER), None])

    assert all(each.place_kept for each in retired(lake).values())
    assert words == ""
