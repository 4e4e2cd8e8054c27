"""A broker of its own for each test that breaks something, and events on their way."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.inside import succeeded


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[Path]:
    """Return a lake whose broker runs."""
    lake = tmp_path / "lake"
    succeeded("up", "--lake", lake)
    yield lake
    succeeded("down", "--lake", lake)


@pytest.fixture
def address(fresh: Path) -> str:
    """Return where the broker is."""
    status: Any = succeeded("status", "--lake", fresh, "--json").json
    return str(status["kafka"])
