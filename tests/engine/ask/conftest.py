"""A shop whose moments are asked for."""

from pathlib import Path

import pytest

from tests.support.shop import Written, level


@pytest.fixture
def shop(tmp_path: Path) -> Written:
    """Return a lake whose tables are level."""
    return level(tmp_path / "lake")
