"""The lake that a catalog shows: one table of three commits."""

from pathlib import Path

import pytest

from strandline.engine.lake.lake import Lake
from strandline.engine.lake.place import Place
from tests.support.events import sent


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    made = Lake(Place.of(tmp_path / "lake")).open_for_writing()
    for number in range(3):
        sent(made, number)
    return made
